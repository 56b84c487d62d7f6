"""The score board of a run: ranks every test split with every system at one depth, then records what the suites say."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from toolsavvy.assets import atomic_write
from toolsavvy.catalog import RetrievalSet
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.methods.arrays import load_arrays, save_arrays
from toolsavvy.methods.common import learns
from toolsavvy.methods.probing import Probing
from toolsavvy.metrics import GoldMatrix, per_query
from toolsavvy.retrieval.fusion import fuse
from toolsavvy.retrieval.ranking import Ranking, Reporting, Retriever
from toolsavvy.retrieval.toolgen import ToolGen
from toolsavvy.suites.catalog_test import CONSTRAINED, FREE, CatalogTest, rank
from toolsavvy.suites.rrb import view_of
from toolsavvy.suites.table import Outcome, write_jsonl
from toolsavvy.tracking import Run

SHARES = tuple(round(0.05 * i, 2) for i in range(1, 20))
"""Weights of the first of two fused systems that are tried on the validation queries."""


class Board:
    """Collect rankings system by system and score them together.

    Rankings are kept in the run's checkpoints, so that a run that was cut off ranks nothing twice.

    Args:
        data: the catalog and its queries.
        suites: suites over the catalog's own queries.
        run: where records go.
        depth: tools ranked per query by every system; raised to what the suites need.
        fused: systems that will be fused: they rank the validation queries too, on which the weights are chosen.
        instructions: `without` and `with`: how queries are asked; systems asked with them are called `<name>-inst`.
            None given: as each system's own `use_instruction` says.
        probing: questions about tools that every system is asked too.

    Raises:
        UserError: there are suites, and no test query for them: better said before training than after it.
    """

    def __init__(
        self,
        data: RetrievalSet,
        suites: Sequence[CatalogTest],
        run: Run,
        depth: int,
        fused: Collection[str] = (),
        instructions: Sequence[str] = (),
        probing: Probing | None = None,
    ) -> None:
        self.data, self.suites, self.run, self.fused = data, tuple(suites), run, frozenset(fused)
        self.views, self.probing = _views(data, instructions), probing
        for suite in self.suites:
            suite.check(view_of(suite, self.suites, data))
        wanted = max([depth, *(suite.depth(data.catalog) for suite in suites)])
        self.depth = min(wanted, len(data.catalog))
        self.systems: dict[str, dict[str, dict[str, Ranking]]] = {}
        self.facts: dict[str, dict[str, float]] = {}

    def has(self, name: str) -> bool:
        """True when a system's rankings are there already (from before the run was cut off)."""
        if name not in self.systems and (stored := self._load(name)):
            self.systems[name] = stored
            self._tell(name, self._stored_facts(name))
        return name in self.systems

    def add(self, name: str, retriever: Retriever) -> None:
        """Fit a retriever and rank every test split; a generative one also freely.

        Further ranks of a distributed training rank nothing: they help to train what learns.
        """
        if not self.run.is_writer:
            if learns(retriever) and not all(self.has(name + suffix) for suffix in self.views):
                view = next(iter(self.views.values()))
                retriever.fit(view.catalog, view.train)
            return
        if isinstance(retriever, ToolGen):
            self.add_generator(name, retriever)
            return
        first, fitted = next(iter(self.views.values())), False
        for suffix, view in self.views.items():
            if not self.has(name + suffix):
                with self.run.stage(f"rank {name}{suffix}"):
                    if not fitted:  # always to the first view, also where that was ranked before the run was cut off
                        retriever = retriever.fit(first.catalog, first.train)
                    self._add(name + suffix, retriever, view)
                fitted = True
        if self.probing:
            if self.probing.wants(name) and not fitted:
                retriever = retriever.fit(first.catalog, first.train)
            self.probing.ask_retriever(name, retriever)

    def _add(self, name: str, retriever: Retriever, view: RetrievalSet) -> None:
        """Rank every test split as one view of the queries shows it."""
        rankings = rank(retriever, view, self.depth, fit=False)
        if self._validates(name):
            rankings["validation"] = retriever.search(view.validation, self.depth)
        facts = dict(retriever.facts()) if isinstance(retriever, Reporting) else {}
        if facts:  # before the rankings: where those are there, nothing is asked again
            with atomic_write(self._facts_file(name), text=True) as file:
                json.dump(facts, file)
        self._keep(name, {"": rankings})
        self._tell(name, facts)

    def add_generator(self, name: str, retriever: ToolGen) -> None:
        """Rank with a generative retriever, constrained and free, and ask its model what it knows of tools."""
        if not self.run.is_writer:
            return
        retriever.fit(self.data.catalog, self.data.train)  # the model holds this very catalog, else nothing is asked
        if self.probing:
            self.probing.ask(name, retriever.tools, precision=retriever.precision)
        if self.has(name):
            return
        with self.run.stage(f"rank {name}"):
            splits = {s: self.data.splits[s] for s in self.data.test_splits if self.data.splits[s]}
            both = {split: retriever.search_both(queries, self.depth) for split, queries in splits.items()}
            constrained = {split: rankings[0] for split, rankings in both.items()}
            if self._validates(name):
                constrained["validation"] = retriever.search(self.data.validation, self.depth)
            self._keep(name, {CONSTRAINED: constrained, FREE: {split: r[1] for split, r in both.items()}})

    def fuse(
        self, name: str, members: Sequence[str], rule: str = "zscore", weights: Mapping[str, float] | None = None
    ) -> None:
        """Fuse the rankings of systems that are on the board.

        Args:
            name: of the fusion.
            members: systems; generative ones with their constrained ranking.
            rule: rrf | minmax | zscore.
            weights: member -> weight; where none are given, two members' are chosen on the validation queries.
        """
        if not self.run.is_writer:
            return
        refuse_unknown_members(name, members, self.systems)
        parts = {m: self.systems[m].get("", self.systems[m].get(CONSTRAINED, {})) for m in members}
        if not weights and len(members) == 2 and all("validation" in rankings for rankings in parts.values()):
            weights = self._tuned(parts, rule)
            self.run.note(**{f"{name}_weights": weights})
        splits = [split for split in next(iter(parts.values())) if split != "validation"]
        self.systems[name] = {"": {split: self._fused(parts, split, rule, weights) for split in splits}}

    def _fused(
        self, parts: Mapping[str, Mapping[str, Ranking]], split: str, rule: str, weights: Mapping[str, float] | None
    ) -> Ranking:
        rankings = {member: splits[split] for member, splits in parts.items()}
        return fuse(rankings, self.data.catalog, self.depth, rule, weights)

    def _tuned(self, parts: Mapping[str, Mapping[str, Ranking]], rule: str) -> dict[str, float]:
        """The weights of two systems with the best validation MRR, the mean over tiers; the most even of equal ones."""
        first, second = parts
        tiers = [query.tier for query in self.data.validation]
        gold = GoldMatrix.from_queries(self.data.catalog, self.data.validation)

        def quality(share: float) -> float:
            ranking = self._fused(parts, "validation", rule, {first: share, second: 1 - share})
            values = per_query(ranking, gold, self.depth).mrr
            return float(np.mean([values[[t == tier for t in tiers]].mean() for tier in sorted(set(tiers))]))

        share = max(SHARES, key=lambda s: (round(quality(s), 9), -abs(s - 0.5)))
        return {first: share, second: round(1 - share, 9)}

    def _validates(self, name: str) -> bool:
        return name in self.fused and bool(self.data.validation)

    def score(self) -> list[Outcome]:
        """Run the suites, write results, comparisons, predictions and TREC files."""
        outcomes = []
        for suite in self.suites:
            view = view_of(suite, self.suites, self.data)
            with self.run.stage(f"score {suite.name}"):
                outcome = suite.run(view, self.systems)
                self.run.record(outcome.results)
                if self.run.config.predictions and self.run.is_writer:
                    suite.write(self.run.predictions, view, self.systems, outcome)
            outcomes.append(outcome)
        outcomes += self.probing.score() if self.probing else []
        if self.run.is_writer:
            write_jsonl(self.run.dir / "comparisons.jsonl", [c for o in outcomes for c in o.comparisons])
        return outcomes

    def _keep(self, name: str, modes: dict[str, dict[str, Ranking]]) -> None:
        self.systems[name] = modes
        arrays = {}
        for mode, rankings in modes.items():
            for split, ranking in rankings.items():
                arrays[f"{mode}/{split}/indices"], arrays[f"{mode}/{split}/scores"] = ranking.indices, ranking.scores
        save_arrays(self.run.checkpoints / f"{name}.npz", arrays)

    def _facts_file(self, name: str) -> Path:
        return self.run.checkpoints / f"{name}.facts.json"

    def _stored_facts(self, name: str) -> dict[str, float]:
        """What a retriever told before the run was cut off; nothing where the file is missing or damaged."""
        try:
            facts = json.loads(self._facts_file(name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return facts if isinstance(facts, dict) else {}

    def _tell(self, name: str, facts: dict[str, float]) -> None:
        """Note what a retriever has to tell in run.json and keep it for the table."""
        if facts:
            self.facts[name] = facts
            self.run.note(facts={system: dict(told) for system, told in self.facts.items()})

    def _load(self, name: str) -> dict[str, dict[str, Ranking]]:
        modes: dict[str, dict[str, Ranking]] = {}
        arrays = load_arrays(self.run.checkpoints / f"{name}.npz") or {}
        for key, indices in arrays.items():
            mode, _, rest = key.partition("/")
            split, _, kind = rest.rpartition("/")
            scores = arrays.get(f"{mode}/{split}/scores")
            if kind == "indices" and scores is not None:
                modes.setdefault(mode, {})[split] = Ranking(indices, scores)
        if not modes:
            return {}
        splits = [s for s in self.data.test_splits if self.data.splits[s]]
        wanted = {s: (len(self.data.splits[s]), self.depth) for s in splits}
        main = next(iter(modes))  # the free ranking of a generative system is never fused
        for mode, rankings in modes.items():
            extra = {"validation"} if mode == main and self._validates(name) else set()
            shape = wanted | {s: (len(self.data.splits[s]), self.depth) for s in extra}
            if {s: r.indices.shape for s, r in rankings.items()} != shape:
                return {}
        return modes


def _views(data: RetrievalSet, instructions: Sequence[str]) -> dict[str, RetrievalSet]:
    """Suffix of the system's name -> the set as it is asked.

    Raises:
        UserError: instructions are wanted, and no test query has one.
    """
    if not instructions:
        return {"": data}
    plain = {split: tuple(replace(q, instruction=None) for q in queries) for split, queries in data.splits.items()}
    views = {"": replace(data, splits=plain)} if "without" in instructions else {}
    if "with" not in instructions:
        return views
    if not any(q.instruction for split in data.test_splits for q in data.splits[split]):
        raise UserError(
            "no test query has an instruction", where=f"method.instructions, catalog {data.catalog.name}",
            expected="a catalog with instructions (toolret), or method=contrastive, which makes them by template",
            fix="method.instructions=[without]",
        )  # fmt: skip
    return {**views, "-inst": data}


def refuse_unknown_members(name: str, members: Collection[str], systems: Collection[str]) -> None:
    """Every member of a fusion must be a system of the run.

    Raises:
        UserError: one is not; the nearest name is suggested.
    """
    missing = next((m for m in members if m not in systems), None)
    if missing is not None:
        raise UserError(
            f"{missing!r} is no system of this run", where=f"method.fusions.{name}.members",
            expected=f"some of {', '.join(systems)}", fix=did_you_mean(missing, systems),
        )  # fmt: skip
