"""AWS operations with human-written queries: the catalogs `aws` (all services) and `aws_network`."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from toolsavvy import assets
from toolsavvy.catalog import DEFAULT_DOCUMENT, Catalog, Query, RetrievalSet, Tool, split_words
from toolsavvy.catalogs import aws_examples, aws_models
from toolsavvy.catalogs.aws_examples import CLI_NAMES, Example
from toolsavvy.catalogs.aws_splits import HEADLINE, Splitter, Worked, names_tool, norm, sample
from toolsavvy.errors import UserError, did_you_mean

log = logging.getLogger(__name__)
_UNREADABLE = (FileNotFoundError, ValueError, TypeError, KeyError)


def load(
    name: str = "aws",
    services: Sequence[str] | None = None,
    operations: int | None = None,
    taught_share: float = 0.5,
    validation_share: float = 0.1,
    seed: int = 0,
    document: str = DEFAULT_DOCUMENT,
    path: str | None = None,
    with_examples_only: bool = False,
    train_titles: bool = False,
    mask_names: bool = True,
) -> RetrievalSet:
    """Read operations and their examples from the pinned AWS CLI wheel and split the examples.

    A share of the operations with examples is *taught*: the description of one example each is a training query. The
    further examples of taught operations are `test_seen`, those of all others `test_unseen`. Titles of trained
    examples are `trained_titles`, and titles that taught and other operations share are `test_mixed`; neither is in
    the headline. `tier` says "named" or "unnamed" in the test splits (does the text hold every word of a gold
    operation's name?) and "seen" or "unseen" in validation.

    Args:
        name: name of the catalog.
        services: model folders ("ec2") or names on the command line ("s3api"); None takes all.
        operations: how many operations to sample, by service in proportion, among those with examples; None takes all.
        taught_share: share of the operations with examples that get a training query; those with several examples
            come first, since only they have a further one to test.
        validation_share: share of the test examples (seen) and of the other operations (unseen) for validation.
        seed: chooses operations, examples and splits.
        document: template of the tools' text.
        path: a local wheel of the AWS CLI instead of the pinned one.
        with_examples_only: leave out operations without any example.
        train_titles: train on the titles of the taught examples too.
        mask_names: take the command's name out of titles and descriptions.

    Raises:
        UserError: an unknown service, more operations than there are, a share outside [0, 1], or no wheel.
    """
    for key, share in (("taught_share", taught_share), ("validation_share", validation_share)):
        if not 0 <= share <= 1:
            raise UserError(f"{share} is no share", where=f"catalog.{key}", expected="a number from 0 to 1")
    source = Source.open(path)
    tools, examples = source.read(services)
    audit = source.audit()
    by_tool = _by_tool(examples, mask_names, audit)
    if operations is not None:
        several = {tool for tool, found in by_tool.items() if len(found) > 1}
        kept = sample([tool for tool in tools if tool.id in by_tool], operations, several, seed)
        tools = [tool for tool in tools if tool.id in kept]
    elif with_examples_only:
        tools = [tool for tool in tools if tool.id in by_tool]
    catalog = Catalog(name, tuple(tools), document)
    by_tool = {tool.id: by_tool[tool.id] for tool in tools if tool.id in by_tool}
    splitter = Splitter(
        catalog,
        by_tool,
        taught_share=taught_share,
        validation_share=validation_share,
        seed=seed,
        train_titles=train_titles,
    )
    splits = splitter.split()
    audit |= splitter.counts
    return RetrievalSet(catalog, splits, HEADLINE, _counts(catalog, by_tool, splits, audit))


@dataclass(frozen=True)
class Source:
    """A wheel of the AWS CLI and what was read from it before.

    Args:
        wheel: the file.
        parsed: cache folder of parsed services, bound to the wheel's bytes and to this code.
    """

    wheel: Path
    parsed: Path

    @classmethod
    def open(cls, path: str | None) -> Source:
        """The pinned wheel, or a local one."""
        if path is None:
            wheel, digest = assets.fetch(assets.AWSCLI), assets.AWSCLI.sha256
        else:
            wheel = Path(path).expanduser()
            assets.open_zip(wheel).close()
            digest = assets.sha256(wheel)
        code = hashlib.sha256(digest.encode())
        for module in (aws_models.__file__, aws_examples.__file__, __file__):
            code.update(Path(module).read_bytes())
        return cls(wheel, assets.cache_dir("assets") / "parsed" / f"awscli-{code.hexdigest()[:24]}")

    def read(self, services: Sequence[str] | None) -> tuple[list[Tool], list[Example]]:
        """Tools and examples of the services, both in the order of service and id."""
        try:
            return self._cached(services)
        except _UNREADABLE:  # nothing there yet, or damaged, or of another version
            self.parsed.mkdir(parents=True, exist_ok=True)
            with FileLock(self.parsed / ".lock"):
                with contextlib.suppress(*_UNREADABLE):
                    return self._cached(services)
                self._parse()
            return self._cached(services)

    def _cached(self, services: Sequence[str] | None) -> tuple[list[Tool], list[Example]]:
        known = _json(self.parsed / "index.json")["services"]
        tools: list[Tool] = []
        examples: list[Example] = []
        for service in _resolve(services, known):
            value = _json(self.parsed / f"{service}.json")
            tools += [Tool(**tool) for tool in value["tools"]]
            examples += [Example(**example) for example in value["examples"]]
        return tools, examples

    def audit(self) -> dict[str, int]:
        """How many sections of the whole wheel's example files were skipped, by reason."""
        index = _json(self.parsed / "index.json")
        return {f"skipped examples: {reason}": count for reason, count in index["skipped"].items()}

    def _parse(self) -> None:
        """Read the whole wheel once; one file per service, the index last (it marks the folder as whole)."""
        log.info("reading the AWS models and examples (once; kept in %s)", self.parsed)
        with assets.open_zip(self.wheel) as archive:
            members = archive.namelist()
            models = aws_models.latest(members)
            if not models:
                raise UserError("no service models", where=str(self.wheel), expected="a wheel of awscli 1")
            tools = {s: aws_models.tools(s, json.loads(archive.read(m))) for s, m in models.items()}
            lookup = {CLI_NAMES.get(s, s): {aws_examples.key(t.name): t for t in ts} for s, ts in tools.items()}
            lookup |= {s: lookup[cli] for s, cli in CLI_NAMES.items() if cli in lookup and s != "s3"}
            examples: dict[str, list[Example]] = defaultdict(list)
            skipped: Counter[str] = Counter()
            for member in sorted(m for m in members if "/examples/" in m and m.endswith(".rst")):
                found, odd = aws_examples.parse_file(member, archive.read(member).decode("utf-8"), lookup)
                skipped.update(odd)
                for example in found:
                    examples[example.tool.split(":", 1)[0]].append(example)
        for service, found in tools.items():
            value = {"tools": [vars(t) for t in found], "examples": [vars(e) for e in examples[service]]}
            _save(self.parsed / f"{service}.json", value)
        _save(self.parsed / "index.json", {"services": list(models), "skipped": dict(sorted(skipped.items()))})


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _save(path: Path, value: Mapping[str, object]) -> None:
    with assets.atomic_write(path, text=True) as file:
        file.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")))  # json.dump is ten times slower


def _resolve(services: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """Model folders of the wanted services, without repeats, in alphabetical order."""
    if services is None:
        return list(known)
    if isinstance(services, str):
        services = [services]
    if not services:
        raise UserError("no service is chosen", where="catalog.services", expected="AWS services, or null for all")
    folders = {cli: folder for folder, cli in CLI_NAMES.items()} | {s: s for s in known}
    for service in services:
        if service not in folders:
            fix = did_you_mean(service, folders)
            raise UserError(f"unknown service {service!r}", where="catalog.services", expected="AWS services", fix=fix)
    return sorted({folders[service] for service in services})


def _by_tool(examples: Iterable[Example], mask_names: bool, audit: dict[str, int]) -> dict[str, list[Worked]]:
    """Texts of the examples per operation, without repeats."""
    by_tool: dict[str, dict[tuple[str, str], Worked]] = defaultdict(dict)
    repeats = 0
    for example in examples:
        worked = Worked(example.id, example.title, example.description)
        if mask_names:
            worked = Worked(example.id, example.masked_title, example.masked_description)
        texts = (norm(worked.title), norm(worked.description))
        repeats += texts in by_tool[example.tool]
        by_tool[example.tool].setdefault(texts, worked)
    audit["repeated examples dropped"] = repeats
    return {tool: list(found.values()) for tool, found in by_tool.items()}


def _counts(
    catalog: Catalog,
    by_tool: Mapping[str, list[Worked]],
    splits: Mapping[str, tuple[Query, ...]],
    audit: dict[str, int],
) -> dict[str, int | float]:
    """The audit: what a reader must know before believing a number."""
    same_document = Counter(catalog.documents)
    same_name = Counter(split_words(tool.name) for tool in catalog.tools)
    result: dict[str, int | float] = {
        "operations": len(catalog),
        "operations with examples": len(by_tool),
        "examples": sum(len(found) for found in by_tool.values()),
        "operations without description": sum(not tool.description for tool in catalog.tools),
        "operations sharing their name": sum(n for n in same_name.values() if n > 1),
        "operations sharing their document": sum(n for n in same_document.values() if n > 1),
    }
    for subset in ("short", "verbose"):
        queries = [q for queries in splits.values() for q in queries if q.subset == subset]
        named = sum(any(names_tool(q.text, catalog.tools[catalog.index[gold]]) for gold in q.relevant) for q in queries)
        result[f"{subset} queries"] = len(queries)
        result[f"{subset} queries naming their operation"] = named
    return result | audit
