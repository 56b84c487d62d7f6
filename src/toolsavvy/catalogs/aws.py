"""AWS operations with human-written queries: the catalogs `aws` (all services) and `aws_network`."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from toolsavvy import assets
from toolsavvy.catalog import DEFAULT_DOCUMENT, Catalog, Query, RetrievalSet, Tool, split_words
from toolsavvy.catalogs import aws_examples, aws_models
from toolsavvy.catalogs.aws_examples import CLI_NAMES, Example
from toolsavvy.errors import UserError, did_you_mean

log = logging.getLogger(__name__)

HEADLINE = ("test_seen", "test_unseen")
_WORD = re.compile(r"[a-z0-9]+")


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
    by_tool = _by_tool(examples, {tool.id: tool for tool in tools}, mask_names, audit)
    if operations is not None:
        several = {tool for tool, found in by_tool.items() if len(found) > 1}
        kept = _sample([tool for tool in tools if tool.id in by_tool], operations, several, seed)
        tools = [tool for tool in tools if tool.id in kept]
    elif with_examples_only:
        tools = [tool for tool in tools if tool.id in by_tool]
    catalog = Catalog(name, tuple(tools), document)
    by_tool = {tool.id: by_tool[tool.id] for tool in tools if tool.id in by_tool}
    splitter = _Splitter(catalog, by_tool, seed, audit, train_titles)
    splits = splitter.split(taught_share, validation_share)
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
        except (FileNotFoundError, ValueError):  # nothing there yet, or files were removed or damaged
            self.parsed.mkdir(parents=True, exist_ok=True)
            with FileLock(self.parsed / ".lock"):
                with contextlib.suppress(FileNotFoundError, ValueError):
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
            value = {"tools": [asdict(t) for t in found], "examples": [asdict(e) for e in examples[service]]}
            _save(self.parsed / f"{service}.json", value)
        _save(self.parsed / "index.json", {"services": list(models), "skipped": dict(sorted(skipped.items()))})


def _json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _save(path: Path, value: Mapping[str, object]) -> None:
    with assets.atomic_write(path, text=True) as file:
        json.dump(value, file, ensure_ascii=False, separators=(",", ":"))


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


def _by_tool(
    examples: Iterable[Example], tools: Mapping[str, Tool], mask_names: bool, audit: dict[str, int]
) -> dict[str, list[Example]]:
    """Examples per operation, masked, without repeats."""
    by_tool: dict[str, dict[tuple[str, str], Example]] = defaultdict(dict)
    repeats = 0
    for example in examples:
        title, description = example.title, example.description
        if mask_names:
            service, command = example.id.split("#")[0].split("/", 1)
            operation = tools[example.tool].name
            title = aws_examples.mask(title, service, command, operation)
            description = aws_examples.mask(description, service, command, operation)
        texts = (_norm(title), _norm(description))
        repeats += texts in by_tool[example.tool]
        by_tool[example.tool].setdefault(texts, Example(example.id, example.tool, title, description))
    audit["repeated examples dropped"] = repeats
    return {tool: list(found.values()) for tool, found in by_tool.items()}


def _norm(text: str) -> str:
    """Texts that are equal but for case and white space count as the same query."""
    return " ".join(text.casefold().split())


def _order(seed: int, *parts: str) -> bytes:
    """A place in a seeded random order, the same on every machine and Python."""
    return hashlib.sha256("\0".join((str(seed), *parts)).encode()).digest()


def _sample(tools: Sequence[Tool], count: int, several: Collection[str], seed: int) -> set[str]:
    """Ids of `count` tools, by service in proportion (largest remainders), seeded within each.

    Up to half of a service's share goes first to the operations with several examples: only these have a further one
    to test what was taught.
    """
    if not 0 < count <= len(tools):
        raise UserError(
            f"{count} operations wanted, {len(tools)} of these services have examples",
            where="catalog.operations",
            expected=f"a number from 1 to {len(tools)}, or null for all",
        )
    groups: dict[str, list[str]] = defaultdict(list)
    for tool in tools:
        groups[tool.group].append(tool.id)
    exact = {group: count * len(ids) / len(tools) for group, ids in groups.items()}
    quota = {group: int(share) for group, share in exact.items()}
    by_remainder = sorted(exact, key=lambda g: (quota[g] - exact[g], g))
    for group in by_remainder[: count - sum(quota.values())]:
        quota[group] += 1
    chosen: set[str] = set()
    for group, ids in groups.items():
        order = sorted(ids, key=lambda i: _order(seed, "operation", i))
        first = [i for i in order if i in several][: quota[group] // 2]
        rest = [i for i in order if i not in first]
        chosen.update((first + rest)[: quota[group]])
    return chosen


@dataclass(frozen=True)
class _Row:
    """One text of one example before texts are merged."""

    id: str
    text: str
    tool: str
    subset: str
    role: str


class _Splitter:
    """Assigns every text to one split."""

    def __init__(
        self,
        catalog: Catalog,
        by_tool: Mapping[str, list[Example]],
        seed: int,
        audit: dict[str, int],
        train_titles: bool,
    ) -> None:
        self.catalog, self.by_tool, self.seed, self.audit, self.train_titles = (
            catalog,
            by_tool,
            seed,
            audit,
            train_titles,
        )
        self.golds: dict[str, set[str]] = defaultdict(set)
        for tool, examples in by_tool.items():
            for example in examples:
                self.golds[_norm(example.title)].add(tool)
                self.golds[_norm(example.description)].add(tool)

    def split(self, taught_share: float, validation_share: float) -> dict[str, tuple[Query, ...]]:
        """Queries by split, in the order of the catalog."""
        trained = self._trained(taught_share)
        taught = set().union(*(self.golds[text] for text in trained)) if trained else set()
        held_out = self._held_out(set(self.by_tool) - taught, validation_share)
        rows: dict[str, list[_Row]] = defaultdict(list)
        for tool, examples in self.by_tool.items():
            roles = self._roles(tool, examples, trained, taught, held_out, validation_share)
            for example, role in zip(examples, roles, strict=True):
                title_role = "trained_titles" if role == "train" and not self.train_titles else role
                rows[_norm(example.title)].append(_Row(example.id, example.title, tool, "short", title_role))
                rows[_norm(example.description)].append(_Row(example.id, example.description, tool, "verbose", role))
        return self._merge(rows, taught)

    def _trained(self, share: float) -> set[str]:
        """Training texts: one example of each taught operation, operations with several examples first."""
        order = sorted(self.by_tool, key=lambda t: (len(self.by_tool[t]) < 2, _order(self.seed, "taught", t)))
        texts: set[str] = set()
        for tool in order[: round(share * len(order))]:
            first = min(self.by_tool[tool], key=lambda e: _order(self.seed, "example", e.id))
            texts.add(_norm(first.description))
            if self.train_titles:
                texts.add(_norm(first.title))
        return texts

    def _held_out(self, tools: set[str], share: float) -> set[str]:
        """Operations without a training query whose examples are for validation."""
        order = sorted(tools, key=lambda t: _order(self.seed, "validation", t))
        return set(order[: round(share * len(order))])

    def _roles(
        self,
        tool: str,
        examples: Sequence[Example],
        trained: set[str],
        taught: set[str],
        held_out: set[str],
        share: float,
    ) -> list[str]:
        """Role of each example of an operation."""
        if tool not in taught:
            return ["validation" if tool in held_out else "test_unseen"] * len(examples)
        limit = int(share * 2**32)
        roles = []
        for example in examples:
            if _norm(example.description) in trained or _norm(example.title) in trained:
                roles.append("train")
            else:
                draw = int.from_bytes(_order(self.seed, "further", example.id)[:4], "big")
                roles.append("validation" if draw < limit else "test_seen")
        return roles

    def _merge(self, rows: Mapping[str, list[_Row]], taught: set[str]) -> dict[str, tuple[Query, ...]]:
        """One query per text, in one split."""
        names = ("train", "validation", *HEADLINE, "test_mixed", "trained_titles")
        splits: dict[str, list[Query]] = {name: [] for name in names}
        counts: Counter[str] = Counter()
        for text, group in rows.items():
            split = self._place({row.role for row in group}, self.golds[text], taught)
            row = next((r for r in group if r.role == split), group[0])
            counts["texts merged"] += len(group) - 1
            counts["queries with several golds"] += len(self.golds[text]) > 1
            overlap = {r.role for r in group} - {split}
            if split in ("train", "trained_titles"):
                counts["test and validation texts dropped, also in training"] += bool(
                    overlap - {"train", "trained_titles"}
                )
            if split == "":
                counts["texts dropped, in validation and test"] += 1
                continue
            splits[split].append(self._query(row, split, self.golds[text], taught))
        self.audit.update(counts)
        return {name: tuple(queries) for name, queries in splits.items()}

    @staticmethod
    def _place(roles: set[str], golds: set[str], taught: set[str]) -> str:
        """Split of a text that occurs in these roles; '' where it would tie validation to test operations."""
        for first in ("train", "trained_titles"):
            if first in roles:
                return first
        if "validation" in roles and len(roles) > 1:
            return "validation" if golds <= taught else ""
        if golds <= taught or not golds & taught or roles == {"validation"}:
            return roles.pop() if len(roles) == 1 else "test_mixed"
        return "test_mixed"

    def _query(self, row: _Row, split: str, golds: set[str], taught: set[str]) -> Query:
        tier = ""
        if split == "validation":
            tier = "seen" if golds <= taught else "unseen"
        elif split != "train":
            tools = (self.catalog.tools[self.catalog.index[gold]] for gold in golds)
            tier = "named" if any(names_tool(row.text, tool) for tool in tools) else "unnamed"
        return Query(f"{row.id}/{row.subset}", row.text, dict.fromkeys(sorted(golds), 1), None, row.subset, tier)


def names_tool(text: str, tool: Tool) -> bool:
    """Whether a text holds every word of the tool's name, as whole words."""
    return set(_WORD.findall(split_words(tool.name))) <= set(_WORD.findall(text.lower()))


def _counts(
    catalog: Catalog,
    by_tool: Mapping[str, list[Example]],
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
