"""What the three generators share: candidates by template or by language models, balanced, audited, written."""

from __future__ import annotations

import hashlib
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic

import numpy as np

from toolsavvy.benchmark import Item, ToolText, texts_of
from toolsavvy.catalog import RetrievalSet
from toolsavvy.config.sources import check_judge
from toolsavvy.config.toolsense import Recipe, Settings
from toolsavvy.errors import UserError
from toolsavvy.generators.cards import data_card
from toolsavvy.generators.product import Product, add_queries
from toolsavvy.generators.toolsense.balance import TOLERANCE, keep_balanced
from toolsavvy.generators.toolsense.finishing import costs, costs_table, counts_table, examine, item_set, save
from toolsavvy.generators.toolsense.neighbourhood import Neighbourhood, from_retriever, neighbourhood
from toolsavvy.generators.toolsense.progress import bar
from toolsavvy.generators.toolsense.tools import CAP_SHARE, sample_tools
from toolsavvy.generators.toolsense.writing import LlmWriter, Writing, Written, refuse_empty
from toolsavvy.models.chat import Chat
from toolsavvy.retrieval.ranking import Retriever
from toolsavvy.tracking import Run

log = logging.getLogger("toolsavvy")

MORE, ROUNDS = 1.5, 3
"""Where too few items are left after balancing: so many times as many are asked for, so often at most."""
SPARE = 1.2
"""Items that language models write for every one that is kept, so that some can go."""
TRIED = 2.0
"""Tools at hand for every item that is asked for at first: the others replace what fails or has to go."""


@dataclass(frozen=True)
class Made(Generic[Item]):
    """Items before they are written to disk.

    Args:
        items: at most as many as were asked for.
        counts: asked, made, dropped and why.
        written: what language models did; None from templates.
    """

    items: Sequence[Item]
    counts: Mapping[str, int] = field(default_factory=dict)
    written: Written[Item] | None = None


class Maker(ABC, Generic[Item]):
    """Makes one benchmark for a catalog.

    Args:
        data: the catalog; its training queries may fit the retriever.
        how: settings.
        llm: writes with `backend=llm`.
        judge: checks; None: nobody, or the writer if `self_judging`.
        near: a retriever that finds neighbours; None: the built-in ones.

    Raises:
        UserError: `backend=llm` without a writer, or without a judge of its own.
    """

    kind: ClassVar[str]
    """rrb | mcq | qa: of files, tables and errors."""
    chance: ClassVar[float] = 1.0
    """Of an attack that knows nothing."""

    def __init__(
        self,
        data: RetrievalSet,
        how: Settings,
        llm: Chat | None = None,
        judge: Chat | None = None,
        near: Retriever | None = None,
    ) -> None:
        self.data, self.how, self.near = data, how, near
        self.catalog = data.catalog
        self.llm, self.judge = llm, judge
        if how.backend == "llm":
            if llm is None:
                raise UserError(
                    "no language model is given", where="generator.llm", expected="the llm group",
                    fix="leave generator.llm as it is, or use generator.backend=template",
                )  # fmt: skip
            check_judge(llm.name, judge.name if judge else None, is_allowed=how.self_judging)
            self.judge = judge or llm

    @abstractmethod
    def from_template(self, n: int, near: Neighbourhood) -> tuple[Sequence[Item], Mapping[str, int]]:
        """Up to n items offline, and counts of what was passed over."""

    @abstractmethod
    def writer(self, llm: Chat, judge: Chat, recipe: Recipe) -> LlmWriter[Item]:
        """Who writes items of this kind."""

    def wanted(self, n: int) -> int | Mapping[str, int]:
        """What is asked of the writer."""
        return n

    def attacks(self, items: Sequence[Item]) -> Mapping[str, np.ndarray]:
        """Name -> expected score of each item, of attacks that see no tool; none where they do not apply."""
        return {}

    def units(self, items: Sequence[Item]) -> list[tuple[Item, ...]]:
        """Items that stay or go together."""
        return [(item,) for item in items]

    def settled(self, items: Sequence[Item]) -> Sequence[Item]:
        """A last touch to what is kept."""
        return items

    @cached_property
    def texts(self) -> Mapping[str, ToolText]:
        """What the catalog says of its tools."""
        return texts_of(self.catalog)

    def fingerprint(self) -> str:
        """sha256 over the catalog and its queries, which templates and retrievers may read."""
        digest = hashlib.sha256(self.catalog.fingerprint.encode())
        add_queries(digest, self.data)
        return digest.hexdigest()

    def generate(self, run: Run) -> Product:
        """Make the set and write it with its audit, its sheet for people and what language models said."""
        with run.stage("neighbours"):
            near = self._neighbours()
        with run.stage("make"):
            made = self.make(near, run.checkpoints / "answers.jsonl")
        return self._finish(made, run)

    def _neighbours(self) -> Neighbourhood:
        """By the retriever that was asked for, fitted here, or by words."""
        if self.near is None:
            return neighbourhood(self.catalog)
        fitted = self.near.fit(self.catalog, self.data.train)
        return neighbourhood(self.catalog, from_retriever(fitted, self.catalog))

    def make(self, near: Neighbourhood, store: Path) -> Made[Item]:
        """Items on which attacks that see no tool stay near chance."""
        if self.how.backend == "template":
            return self._balanced(self.how.n, lambda n: Made(*self.from_template(n, near)))
        asked = math.ceil(self.how.n * SPARE) if self.attacks([]) else self.how.n
        asked = min(asked, len(self.catalog))  # a tool has one item at most
        writing = self._writing(asked, near, store)
        return self._balanced(asked, lambda n: self._written(writing, n))

    def _balanced(self, asked: int, make: Callable[[int], Made[Item]]) -> Made[Item]:
        """At most n of the items that are made; more are made in the place of those that must go."""
        most = self.how.n
        for _ in range(ROUNDS):
            made = make(asked)
            kept = self._kept(made.items)
            if len(kept) >= most or len(made.items) < asked:
                break
            asked = math.ceil(asked * MORE)
        if len(kept) < most:
            log.warning("%s: %d items instead of %d", self.kind, len(kept), most)
        counts = {"asked": most, "made": len(made.items), "dropped_for_balance": len(made.items) - len(kept)}
        return Made(self.settled(kept), {**counts, "kept": len(kept), **made.counts}, made.written)

    def _kept(self, items: Sequence[Item]) -> Sequence[Item]:
        """The items that may stay, in their order; all of them where no attack is off chance."""
        if not items:
            return items
        off = max((abs(float(scores.mean()) - self.chance) for scores in self.attacks(items).values()), default=0.0)
        allowed = max(TOLERANCE, 1 / min(len(items), self.how.n))  # as the audit: never finer than one item
        if len(items) <= self.how.n and off <= allowed:
            return items
        units = self.units(items)
        most = math.ceil(self.how.n / max(map(len, units), default=1))
        least = min(most, math.ceil(len(units) / 2))  # of a few items, chance alone is further off than allowed
        kept = keep_balanced(
            units, self._unit_attacks, chance=self.chance, most=most, least=least, tolerance=allowed
        )  # fmt: skip
        stay = {item.id for unit in kept for item in unit}
        return [item for item in items if item.id in stay][: self.how.n]  # an odd number leaves half a pair

    def _unit_attacks(self, units: Sequence[tuple[Item, ...]]) -> Mapping[str, np.ndarray]:
        """Attacks' mean score on each unit."""
        sizes = np.array([len(unit) for unit in units])
        starts = np.cumsum(sizes) - sizes
        found = self.attacks([item for unit in units for item in unit])
        return {name: np.add.reduceat(scores, starts) / sizes for name, scores in found.items()}

    def _writing(self, n: int, near: Neighbourhood, store: Path) -> Writing[Item]:
        """Language models at work on one sample of tools: where more items are needed, they go on with its rest."""
        assert self.llm is not None and self.judge is not None
        cap = self.how.cap or max(1, math.ceil(self.how.n * CAP_SHARE))
        chosen = sample_tools(self.catalog, math.ceil(n * TRIED), cap=cap, seed=self.how.seed)
        writer = self.writer(self.llm, self.judge, self.how.recipe)
        return writer.start(self.catalog, chosen, near, seed=self.how.seed, store=store)

    def _written(self, writing: Writing[Item], n: int) -> Made[Item]:
        """The first n items by language models."""
        assert self.llm is not None
        with bar(f"{self.kind}: {self.llm.name}", n) as progress:
            written = writing.until(self.wanted(n), progress)
        refuse_empty(written, self.llm.name)
        counts = {"tools": written.tools, "replaced_tools": written.replaced}
        return Made(written.items, counts | {f"refused_{why}": k for why, k in written.rejected.items()}, written)

    def _finish(self, made: Made[Item], run: Run) -> Product:
        """Audit, files, tables, and what run.json keeps."""
        found = item_set(made.items, self.texts)
        with run.stage("audit"):
            report = examine(self.kind, found, self.how.seed)
        files: tuple[str, ...] = (f"{self.kind}.jsonl",)
        if run.is_writer:
            with run.stage("write"):
                files = save(run.dir, self.kind, found, report, made.written, self.how.seed)
        name = f"{self.kind} of {self.catalog.name}"
        failed = [check.name for check in report.failed]
        notes: dict[str, Any] = {"catalog_fingerprint": self.catalog.fingerprint, "counts": dict(made.counts)}
        tables = [counts_table(f"{name}: {self.how.backend}", made.counts)]
        if made.written is not None:
            notes["usage"] = costs(made.written, self.how.prices)
            tables.append(costs_table(self.kind, notes["usage"]))
        tables += data_card({self.kind: report})
        return Product(name, tables, {**notes, "audit_failed": failed}, files)
