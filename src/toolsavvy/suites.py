"""Suites: examples x metrics x slices. What a suite returns is the same for all of them, and so is its bootstrap.

A suite has a `name` and `run(data, systems) -> Outcome`. It fills a `Table` with one value per item for every system,
metric and k; slices, intervals, paired tests and W&B keys follow from that. `CatalogTest` is the suite of a catalog's
own queries.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from toolsavvy.assets import atomic_write
from toolsavvy.catalog import Catalog, Query, RetrievalSet, split_words
from toolsavvy.errors import UserError
from toolsavvy.metrics import (
    GoldMatrix,
    Interval,
    Resamples,
    interval,
    intervals,
    ndcg_toolgen,
    per_query,
    sign_flip_p_values,
)
from toolsavvy.retrieval.bm25 import tokenize
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking, Retriever
from toolsavvy.retrieval.trec import Run, encode, write_qrels, write_run

FREE, CONSTRAINED = "free", "constrained"
Rankings = Mapping[str, Ranking]
"""Split -> ranking of its queries."""
Systems = Mapping[str, Mapping[str, Rankings]]
"""System -> decoding mode ("constrained", "free", or "" where there is but one) -> rankings."""


@dataclass(frozen=True)
class Result:
    """One number of `results.jsonl`; the interval is None where it is undefined."""

    system: str
    suite: str
    slice: str
    metric: str
    k: int | None
    value: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Comparison:
    """A system minus its best rival on the same items and resamples; p is of the sign-flip test over clusters.

    The rival is the best of the others *in this table*, and p-values are not corrected for how many there are.
    """

    suite: str
    slice: str
    metric: str
    k: int | None
    system: str
    rival: str
    difference: float
    low: float | None
    high: float | None
    p: float
    n: int


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


@dataclass(frozen=True)
class Outcome:
    """Everything a suite found."""

    suite: str
    results: tuple[Result, ...]
    comparisons: tuple[Comparison, ...] = ()
    predictions: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


class Suite(Protocol):
    """Examples, metrics and slices for any systems."""

    @property
    def name(self) -> str:
        """Shown in tables, files and W&B."""
        ...

    def run(self, data: Any, systems: Any) -> Outcome:
        """Score every system on the same examples."""
        ...


@dataclass(frozen=True)
class Column:
    """The values of one system in one metric: float64 [item], NaN where undefined."""

    system: str
    metric: str
    k: int | None
    values: np.ndarray
    family: str = ""
    """Columns of one family (a system's two decoding modes) are no rivals; '' is the system itself."""


@dataclass(frozen=True)
class Ratio:
    """A metric that is the ratio of two columns' means."""

    system: str
    metric: str
    k: int | None
    top: int
    bottom: int


@dataclass(frozen=True)
class Table:
    """Values of every system on the same items.

    Args:
        suite: name of the suite.
        clusters: [item], what is independent (operations, tools), resampled as a whole.
        slices: name -> int positions of its items.
        columns: one per system, metric and k.
        ratios: metrics over pairs of columns.
        headline: slices with paired tests.
        compared: metrics with paired tests.
    """

    suite: str
    clusters: Sequence[str]
    slices: Mapping[str, np.ndarray]
    columns: Sequence[Column]
    ratios: Sequence[Ratio] = ()
    headline: Sequence[str] = ()
    compared: Sequence[str] = ()

    def evaluate(self, resamples: int = 2000, seed: int = 0) -> tuple[list[Result], list[Comparison]]:
        """Means with intervals in every slice, and paired tests in the headline slices."""
        results: list[Result] = []
        comparisons: list[Comparison] = []
        matrix = np.stack([column.values for column in self.columns], axis=1)
        labels = np.asarray(self.clusters, dtype=object)
        for name, items in self.slices.items():
            if not len(items):
                continue
            part = Resamples.of(labels[items], resamples, seed)
            values = matrix[items]
            means, replicates = _means(values), part.means(values)
            results += self._rows(name, values, means, replicates, part.units)
            if name in self.headline:
                comparisons += self._tests(name, values, means, replicates, part)
        return results, comparisons

    def _rows(
        self, name: str, values: np.ndarray, means: np.ndarray, replicates: np.ndarray, units: int
    ) -> list[Result]:
        """The numbers of one slice."""
        found = intervals(means, replicates, (~np.isnan(values)).sum(axis=0), units)
        rows = [self._result(c.system, name, c.metric, c.k, i) for c, i in zip(self.columns, found, strict=True)]
        for ratio in self.ratios:
            tops, bottoms = replicates[:, ratio.top], replicates[:, ratio.bottom]
            ratios = np.divide(tops, bottoms, out=np.full(len(tops), np.nan), where=bottoms > 0)
            value = means[ratio.top] / means[ratio.bottom] if means[ratio.bottom] > 0 else np.nan
            rows.append(
                self._result(ratio.system, name, ratio.metric, ratio.k, interval(value, ratios, len(values), units))
            )
        return rows

    def _result(self, system: str, name: str, metric: str, k: int | None, i: Interval) -> Result:
        """Name an interval."""
        return Result(system, self.suite, name, metric, k, i.value, i.low, i.high, i.n)

    def _tests(
        self, name: str, values: np.ndarray, means: np.ndarray, replicates: np.ndarray, part: Resamples
    ) -> list[Comparison]:
        """Every system against the best of the others."""
        pairs = self._pairs(means)
        if not pairs:
            return []
        left, right = (list(side) for side in zip(*pairs, strict=True))
        differences = values[:, left] - values[:, right]
        found = intervals(
            means[left] - means[right],
            replicates[:, left] - replicates[:, right],
            np.full(len(pairs), len(values)),
            part.units,
        )
        p_values = sign_flip_p_values(differences, part.clusters, 5 * part.n, part.seed)
        rows = []
        for (a, b), i, p in zip(pairs, found, p_values.tolist(), strict=True):
            ours, rival = self.columns[a], self.columns[b]
            if i.value is not None:
                labels = (self.suite, name, ours.metric, ours.k, ours.system, rival.system)
                rows.append(Comparison(*labels, i.value, i.low, i.high, p, i.n))
        return rows

    def _pairs(self, means: np.ndarray) -> list[tuple[int, int]]:
        """Column of each system and column of its best rival, for the metrics that are compared."""
        groups: dict[tuple[str, int | None], list[int]] = defaultdict(list)
        for position, column in enumerate(self.columns):
            if column.metric in self.compared and np.isfinite(means[position]):
                groups[column.metric, column.k].append(position)
        pairs = []
        for group in groups.values():
            for ours in group:
                rivals = [other for other in group if self._family(other) != self._family(ours)]
                if rivals:
                    pairs.append((ours, max(rivals, key=lambda position: means[position])))
        return pairs

    def _family(self, position: int) -> str:
        """Whose column it is, over decoding modes."""
        return self.columns[position].family or self.columns[position].system


def _means(values: np.ndarray) -> np.ndarray:
    """Means over the defined values of each column; NaN where there are none."""
    counts = (~np.isnan(values)).sum(axis=0)
    return np.divide(np.nansum(values, axis=0), counts, out=np.full(len(counts), np.nan), where=counts > 0)


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
    """Slice name -> positions of its queries: the split, its subsets, tiers and name overlaps."""
    groups: dict[str, list[int]] = defaultdict(list)
    tiers = {query.tier for query in queries}
    for position, query in enumerate(queries):
        overlap = f"name_overlap={name_overlap(query, catalog)}"
        names = [split, f"{split}/{overlap}"]
        names += [f"{split}/{query.subset}", f"{split}/{query.subset}/{overlap}"] if query.subset else []
        names += [f"{split}/tier={query.tier}"] if len(tiers) > 1 and query.tier else []
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
    ) -> None:
        if not ks or min(ks) < 1:
            raise UserError(f"ks={list(ks)}", where=f"suite.{name}.ks", expected="cut-offs of at least 1")
        if resamples < 1:
            raise UserError(f"resamples={resamples}", where=f"suite.{name}.resamples", expected=">= 1")
        self.ks, self.resamples, self.seed = tuple(sorted(set(ks))), resamples, seed
        self.compared, self.toolgen_ndcg, self.shown, self._name = tuple(compared), toolgen_ndcg, shown, name

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

    def run(self, data: RetrievalSet, systems: Systems) -> Outcome:
        """Score rankings of every test split; one depth for all systems.

        Raises:
            UserError: the set has no test query.
            ValueError: a ranking is missing, of another depth, or of another number of queries.
        """
        splits = tested(data)
        _check_depths(splits, systems, self.depth(data.catalog))
        results: list[Result] = []
        comparisons: list[Comparison] = []
        for split, queries in splits.items():
            table = self._table(data, split, queries, systems)
            rows, tests = table.evaluate(self.resamples, self.seed)
            results += rows
            comparisons += tests
        return Outcome(self.name, tuple(results), tuple(comparisons), self._predictions(data.catalog, splits, systems))

    def _table(self, data: RetrievalSet, split: str, queries: Sequence[Query], systems: Systems) -> Table:
        """Per-query values of every system on one split."""
        gold = GoldMatrix.from_queries(data.catalog, queries)
        slices = slices_of(split, queries, data.catalog)
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
        clusters = [min(query.relevant) for query in queries]
        return Table(self.name, clusters, slices, columns, ratios, headline, self.compared)

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
        gold = tuple(sorted(query.relevant))
        asked = (self.name, system, split, query.subset, query.tier, query.id, query.text)
        return Prediction(*asked, gold, tools, tuple(s for _, s in kept))


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


def write_jsonl(path: Path | str, records: Iterable[Any]) -> None:
    """Write dataclasses one a line, whole or not at all; NaN and infinity are refused."""
    with atomic_write(path, text=True) as file:
        for record in records:
            file.write(json.dumps(asdict(record), ensure_ascii=False, allow_nan=False) + "\n")


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
