"""Retrieval on the test splits of a catalog's own queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toolsavvy.catalog import Catalog, Query, RetrievalSet, split_words
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.metrics import GoldMatrix, ndcg_toolgen, per_query
from toolsavvy.retrieval.bm25 import tokenize
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking, Retriever
from toolsavvy.retrieval.trec import Run, encode, write_qrels, write_run
from toolsavvy.suites.table import Column, Comparison, Outcome, Ratio, Result, Table, write_jsonl

FREE, CONSTRAINED = "free", "constrained"
SEVERAL = "golds=several"
"""Slice of the queries that need more than one tool."""
Rankings = Mapping[str, Ranking]
"""Split -> ranking of its queries."""
Systems = Mapping[str, Mapping[str, Rankings]]
"""System -> decoding mode ("constrained", "free", or "" where there is but one) -> rankings."""


@dataclass(frozen=True)
class Prediction:
    """What a system answered to one query; None is a rank that holds no tool."""

    suite: str
    system: str
    split: str
    subset: str
    tier: str
    query: str
    text: str
    gold: tuple[str, ...]
    tools: tuple[str | None, ...]
    scores: tuple[float, ...]


def label(system: str, mode: str) -> str:
    """What tables call a system in one decoding mode."""
    return f"{system}-{mode}" if mode else system


def name_overlap(query: Query, catalog: Catalog) -> str:
    """How many words of the gold tool's name the query gives away: full, partial or none (most of several golds)."""
    said = set(tokenize(query.text))
    best = 0.0
    for tool in query.relevant:
        words = set(tokenize(split_words(catalog.tools[catalog.index[tool]].name)))
        best = max(best, len(words & said) / len(words) if words else 0.0)
    return "full" if best == 1 else "partial" if best > 0 else "none"


def slices_of(split: str, queries: Sequence[Query], catalog: Catalog) -> dict[str, np.ndarray]:
    """Slice name -> positions of its queries: the split, its subsets, tiers, name overlaps, queries of several golds.

    Tiers and numbers of golds are no slices where all queries are alike.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    tiers = {query.tier for query in queries}
    is_mixed = len({len(query.gold) > 1 for query in queries}) > 1
    for position, query in enumerate(queries):
        overlap = f"name_overlap={name_overlap(query, catalog)}"
        names = [split, f"{split}/{overlap}"]
        names += [f"{split}/{query.subset}", f"{split}/{query.subset}/{overlap}"] if query.subset else []
        names += [f"{split}/tier={query.tier}"] if len(tiers) > 1 and query.tier else []
        names += [f"{split}/{SEVERAL}"] if is_mixed and len(query.gold) > 1 else []
        for name in names:
            groups[name].append(position)
    return {name: np.array(groups[name]) for name in sorted(groups, key=lambda name: (name.count("/"), name))}


class CatalogTest:
    """Retrieval on the test splits of a catalog's own queries.

    Args:
        ks: cut-offs; those beyond the catalog are left out (the catalog's size stands in where all are).
        resamples: of the bootstrap over tools; a query of several golds counts to the first of them by id.
        seed: of the bootstrap.
        compared: metrics with paired tests against the best rival.
        toolgen_ndcg: also report `ndcg_toolgen`, the inflated variant of ToolGen's released code.
        shown: ranks kept in the prediction records (run files hold all).
        name: of the suite.
        pairs: (system, rival) that are compared in every metric, also on the queries of several golds, and shown.
    """

    def __init__(
        self,
        ks: Sequence[int] = (1, 5, 10, 50),
        resamples: int = 2000,
        seed: int = 0,
        compared: Sequence[str] = ("recall", "ndcg"),
        toolgen_ndcg: bool = False,
        shown: int = 10,
        name: str = "catalog_test",
        pairs: Sequence[Sequence[str]] = (),
    ) -> None:
        if not ks or min(ks) < 1:
            raise UserError(f"ks={list(ks)}", where=f"suite.{name}.ks", expected="cut-offs of at least 1")
        if resamples < 1:
            raise UserError(f"resamples={resamples}", where=f"suite.{name}.resamples", expected=">= 1")
        self.ks, self.resamples, self.seed = tuple(sorted(set(ks))), resamples, seed
        self.compared, self.toolgen_ndcg, self.shown, self._name = tuple(compared), toolgen_ndcg, shown, name
        self.pairs = checked_pairs(pairs, name)

    @property
    def name(self) -> str:
        """Shown in tables, files and W&B."""
        return self._name

    def cutoffs(self, catalog: Catalog) -> tuple[int, ...]:
        """The ks that the catalog is large enough for."""
        return tuple(k for k in self.ks if k <= len(catalog)) or (len(catalog),)

    def depth(self, catalog: Catalog) -> int:
        """How deep every system must rank at least."""
        return self.cutoffs(catalog)[-1]

    def check(self, data: RetrievalSet) -> None:
        """Refuse a set that can't be scored: better said before training than after it.

        Raises:
            UserError: the set has no test query.
        """
        tested(data)

    def write(self, folder: Path, data: RetrievalSet, systems: Systems, outcome: Outcome) -> list[Path]:
        """Write per-query records and TREC files into a folder; returns the paths."""
        return write_predictions(folder, data, systems, outcome)

    def slices(self, split: str, queries: Sequence[Query], catalog: Catalog) -> dict[str, np.ndarray]:
        """Slice name -> positions of its queries, of one split."""
        return slices_of(split, queries, catalog)

    def run(self, data: RetrievalSet, systems: Systems) -> Outcome:
        """Score rankings of every test split; one depth for all systems.

        Raises:
            UserError: the set has no test query, or a pair names no system.
            ValueError: a ranking is missing, of another depth, or of another number of queries.
        """
        splits = tested(data)
        self._check_named([label(system, mode) for system, modes in systems.items() for mode in modes])
        _check_depths(splits, systems, self.depth(data.catalog))
        results: list[Result] = []
        comparisons: list[Comparison] = []
        for split, queries in splits.items():
            table = self._table(data, split, queries, systems)
            rows, tests = table.evaluate(self.resamples, self.seed)
            results += rows
            comparisons += tests
        predictions = self._predictions(data.catalog, splits, systems)
        return Outcome(self.name, tuple(results), tuple(comparisons), predictions, self.pairs)

    def _check_named(self, systems: Sequence[str]) -> None:
        """Every pair must be of systems that were ranked."""
        check_named(self.pairs, systems, self.name, "of this run")

    def _table(self, data: RetrievalSet, split: str, queries: Sequence[Query], systems: Systems) -> Table:
        """Per-query values of every system on one split."""
        gold = GoldMatrix.from_queries(data.catalog, queries)
        slices = self.slices(split, queries, data.catalog)
        columns: list[Column] = []
        ratios: list[Ratio] = []
        for system, modes in systems.items():
            recalls: dict[tuple[str, int], int] = {}
            for mode, rankings in modes.items():
                for k in self.cutoffs(data.catalog):
                    recalls[mode, k] = len(columns)
                    columns += self._columns(system, mode, rankings[split], gold, k)
            ratios += [
                Ratio(system, "internalization", k, recalls[FREE, k], recalls[CONSTRAINED, k])
                for k in self.cutoffs(data.catalog)
                if FREE in modes and CONSTRAINED in modes
            ]
        subsets = {query.subset for query in queries if query.subset}
        main = split in (data.headline or data.test_splits)
        headline = (split, *(f"{split}/{subset}" for subset in sorted(subsets))) if main else ()
        headline += (f"{split}/{SEVERAL}",) if headline and self.pairs else ()
        clusters = [min(query.gold) for query in queries]
        return Table(self.name, clusters, slices, columns, ratios, headline, self.compared, self.pairs)

    def _columns(self, system: str, mode: str, ranking: Ranking, gold: GoldMatrix, k: int) -> list[Column]:
        """All metrics of a system at one k, recall first."""
        values = list(per_query(ranking, gold, k).items())
        if self.toolgen_ndcg:
            values.append(("ndcg_toolgen", ndcg_toolgen(ranking, gold, k)))
        return [Column(label(system, mode), metric, k, array, family=system) for metric, array in values]

    def _predictions(
        self, catalog: Catalog, splits: Mapping[str, Sequence[Query]], systems: Systems
    ) -> dict[str, tuple[Prediction, ...]]:
        """One record per query and system."""
        return {
            label(system, mode): tuple(
                self._prediction(catalog, label(system, mode), split, query, indices, scores)
                for split, queries in splits.items()
                for query, indices, scores in zip(
                    queries,
                    rankings[split].indices[:, : self.shown].tolist(),
                    rankings[split].scores[:, : self.shown].tolist(),
                    strict=True,
                )
            )
            for system, modes in systems.items()
            for mode, rankings in modes.items()
        }

    def _prediction(
        self, catalog: Catalog, system: str, split: str, query: Query, indices: list[int], scores: list[float]
    ) -> Prediction:
        """The first ranks of one query, without padding."""
        kept = [(i, s) for i, s in zip(indices, scores, strict=True) if i != NO_TOOL or np.isfinite(s)]
        tools = tuple(None if i == NO_TOOL else catalog.tools[i].id for i, _ in kept)
        gold = tuple(sorted(query.gold))
        asked = (self.name, system, split, query.subset, query.tier, query.id, query.text)
        return Prediction(*asked, gold, tools, tuple(s for _, s in kept))


def checked_pairs(pairs: Sequence[Sequence[str]], suite: str) -> tuple[tuple[str, str], ...]:
    """Each pair must be two systems."""
    wrong = next((pair for pair in pairs if isinstance(pair, str) or len(pair) != 2 or pair[0] == pair[1]), None)
    if wrong is not None:
        what = f"{wrong if isinstance(wrong, str) else list(wrong)} is no pair"
        raise UserError(what, where=f"suite.{suite}.pairs", expected="[system, rival]", fix="pairs=[[graph,dense]]")
    return tuple((pair[0], pair[1]) for pair in pairs)


def check_named(pairs: Iterable[tuple[str, str]], systems: Collection[str], suite: str, which: str) -> None:
    """Every pair must be of systems of this kind ("of this run").

    Raises:
        UserError: one is not; the nearest name is suggested.
    """
    missing = next((name for pair in pairs for name in pair if name not in systems), None)
    if missing is not None:
        raise UserError(
            f"{missing!r} is no system {which}", where=f"suite.{suite}.pairs",
            expected=f"two of {', '.join(systems)}", fix=did_you_mean(missing, systems),
        )  # fmt: skip


def tested(data: RetrievalSet) -> dict[str, tuple[Query, ...]]:
    """The test splits that hold queries, headline first.

    Raises:
        UserError: none does.
    """
    splits = {split: data.splits[split] for split in data.test_splits if data.splits[split]}
    if not splits:
        raise UserError(
            "there are no test queries",
            where=f"catalog {data.catalog.name}",
            expected="a split other than train and validation",
            fix="give some queries another split, such as test; or name a file of queries that has them",
        )
    return splits


def _check_depths(splits: Mapping[str, Sequence[Query]], systems: Systems, depth: int) -> None:
    """Scores at different depths do not compare: refuse them."""
    depths: dict[int, str] = {}
    for system, modes in systems.items():
        for mode, rankings in modes.items():
            for split, queries in splits.items():
                if split not in rankings:
                    raise ValueError(f"{label(system, mode)} did not rank split {split}")
                rows, width = rankings[split].indices.shape
                if rows != len(queries):
                    raise ValueError(f"{label(system, mode)} ranked {rows} of {len(queries)} queries of {split}")
                depths.setdefault(width, f"{label(system, mode)} on {split}")
    if len(depths) > 1 or (depths and min(depths) < depth):
        raise ValueError(f"one depth of at least {depth} expected, not {depths}")


def rank(retriever: Retriever, data: RetrievalSet, k: int, *, fit: bool = True) -> dict[str, Ranking]:
    """Fit a retriever to a set (unless it is fitted already) and rank every test split."""
    retriever = retriever.fit(data.catalog, data.train) if fit else retriever
    splits = {split: data.splits[split] for split in data.test_splits}
    if isinstance(retriever, Run):
        retriever.check(splits)
    return {split: retriever.search(queries, k) for split, queries in splits.items() if queries}


def write_predictions(folder: Path | str, data: RetrievalSet, systems: Systems, outcome: Outcome) -> list[Path]:
    """Write `<suite>.<system>.jsonl`, `<suite>.qrels` and `<suite>.<system>.run` into a folder; returns the paths."""
    splits = {split: data.splits[split] for split in data.test_splits if data.splits[split]}
    paths = [Path(folder) / f"{outcome.suite}.qrels"]
    write_qrels(paths[0], splits)
    for system, modes in systems.items():
        for mode, rankings in modes.items():
            name = label(system, mode)
            stem = f"{outcome.suite}.{encode(name)}"
            paths += [Path(folder) / f"{stem}.jsonl", Path(folder) / f"{stem}.run"]
            write_jsonl(paths[-2], outcome.predictions[name])
            write_run(paths[-1], splits, rankings, data.catalog, name)
    return paths
