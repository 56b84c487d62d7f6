"""Which AWS operations are taught and which of their examples test what (DESIGN: AWS queries)."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from toolsavvy.catalog import Catalog, Query, Tool, split_words
from toolsavvy.errors import UserError

HEADLINE = ("test_seen", "test_unseen")
_TRAINED = ("train", "trained_titles")
_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True)
class Worked:
    """The texts of one worked example: `title` is the short query, `description` the verbose one."""

    id: str
    title: str
    description: str


def norm(text: str) -> str:
    """Texts that are equal but for case, white space and the final stop count as the same query."""
    return " ".join(text.casefold().split()).rstrip(" .:;!")


def _order(seed: int, *parts: str) -> bytes:
    """A place in a seeded random order, the same on every machine and Python."""
    return hashlib.sha256("\0".join((str(seed), *parts)).encode()).digest()


def sample(tools: Sequence[Tool], count: int, several: Collection[str], seed: int) -> set[str]:
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
    subset: str
    role: str


class Splitter:
    """Assigns every text to one split; the texts of `Worked` examples are queries, equal texts are one query.

    Args:
        catalog: the tools.
        by_tool: tool id -> its examples, in the order of the catalog.
        taught_share: share of these tools that get a training query.
        validation_share: share of the further examples and of the other tools for validation.
        seed: chooses tools, examples and splits.
        train_titles: titles of the taught examples are training queries too.
    """

    def __init__(
        self,
        catalog: Catalog,
        by_tool: Mapping[str, Sequence[Worked]],
        *,
        taught_share: float,
        validation_share: float,
        seed: int,
        train_titles: bool,
    ) -> None:
        """Choose what is taught and what is held out; `split` only follows."""
        self.catalog, self.by_tool, self.seed, self.train_titles = catalog, by_tool, seed, train_titles
        self.validation_share = validation_share
        self.counts: Counter[str] = Counter()
        self.golds: dict[str, set[str]] = defaultdict(set)
        for tool, examples in by_tool.items():
            for example in examples:
                self.golds[norm(example.title)].add(tool)
                self.golds[norm(example.description)].add(tool)
        self.trained = self._train_texts(taught_share)
        # Whoever shares a training text has a query row in training as well.
        self.taught = {tool for text in self.trained for tool in self.golds[text]}
        others = sorted(set(by_tool) - self.taught, key=lambda t: _order(seed, "validation", t))
        self.held_out = set(others[: round(validation_share * len(others))])

    def _train_texts(self, share: float) -> set[str]:
        """One example of each taught operation, operations with several examples first."""
        order = sorted(self.by_tool, key=lambda t: (len(self.by_tool[t]) < 2, _order(self.seed, "taught", t)))
        texts: set[str] = set()
        for tool in order[: round(share * len(order))]:
            first = min(self.by_tool[tool], key=lambda e: _order(self.seed, "example", e.id))
            texts.add(norm(first.description))
            if self.train_titles:
                texts.add(norm(first.title))
        return texts

    def split(self) -> dict[str, tuple[Query, ...]]:
        """Queries by split, in the order of the catalog."""
        rows: dict[str, list[_Row]] = defaultdict(list)
        for tool, examples in self.by_tool.items():
            for example in examples:
                for subset, text in (("short", example.title), ("verbose", example.description)):
                    row = _Row(example.id, text, subset, self._role(tool, example, norm(text)))
                    rows[norm(text)].append(row)
        return self._merge(rows)

    def _role(self, tool: str, example: Worked, text: str) -> str:
        """What one text of an example is for, before equal texts are merged."""
        if text in self.trained:
            return "train"
        if tool not in self.taught:
            return "validation" if tool in self.held_out else "test_unseen"
        if norm(example.description) in self.trained:
            return "trained_titles"
        draw = int.from_bytes(_order(self.seed, "further", example.id)[:4], "big") / 2**32
        return "validation" if draw < self.validation_share else "test_seen"

    def _merge(self, rows: Mapping[str, Sequence[_Row]]) -> dict[str, tuple[Query, ...]]:
        """One query per text, in one split."""
        splits: dict[str, list[Query]] = {name: [] for name in (*HEADLINE, "test_mixed", *_TRAINED, "validation")}
        for text, group in rows.items():
            roles, golds = {row.role for row in group}, self.golds[text]
            split = self._place(roles, golds)
            self.counts["texts merged"] += len(group) - 1
            self.counts["queries with several golds"] += len(golds) > 1
            self.counts["test and validation texts dropped: also in training"] += split in _TRAINED and bool(
                roles - set(_TRAINED)
            )
            self.counts["texts dropped: of validation and test operations"] += not split
            if split:
                row = next((r for r in group if r.role == split), group[0])
                splits[split].append(self._query(row, split, golds))
        return {
            name: tuple(splits[name]) for name in ("train", "validation", *HEADLINE, "test_mixed", "trained_titles")
        }

    def _place(self, roles: set[str], golds: set[str]) -> str:
        """Split of a text that occurs in these roles; '' where it would tie validation to test operations."""
        for trained in _TRAINED:
            if trained in roles:
                return trained
        if len(roles) == 1:
            return next(iter(roles))
        if "validation" in roles:
            return "validation" if golds <= self.taught else ""
        return "test_mixed"

    def _query(self, row: _Row, split: str, golds: set[str]) -> Query:
        """The query of a text; its tier tells the slice."""
        if split == "validation":
            tier = "seen" if golds <= self.taught else "unseen"
        elif split == "train":
            tier = ""
        else:
            tools = (self.catalog.tools[self.catalog.index[gold]] for gold in golds)
            tier = "named" if any(names_tool(row.text, tool) for tool in tools) else "unnamed"
        return Query(f"{row.id}/{row.subset}", row.text, dict.fromkeys(sorted(golds), 1), None, row.subset, tier)


def names_tool(text: str, tool: Tool) -> bool:
    """Whether a text holds every word of the tool's name, as whole words."""
    return set(_WORD.findall(split_words(tool.name))) <= set(_WORD.findall(text.lower()))
