"""Ranking metrics over all gold tools, and intervals and tests that resample what is independent.

Definitions are trec_eval's: linear gains, a log2(rank + 1) discount, precision over k even where fewer tools were
ranked, recall and average precision over every gold tool whether it was ranked or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolsavvy.catalog import Catalog, Query
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking

METRICS = ("recall", "precision", "ndcg", "completeness", "mrr", "map")
"""Names of the per-query metrics, in the order of tables."""


@dataclass(frozen=True)
class GoldMatrix:
    """The gold tools of many queries in compressed rows.

    Args:
        offsets: int64 [query + 1]; golds of query i lie at offsets[i]:offsets[i + 1].
        tools: int64 [gold], positions in the catalog, ascending within a query.
        grades: float64 [gold], all above 0.
    """

    offsets: np.ndarray
    tools: np.ndarray
    grades: np.ndarray

    def __len__(self) -> int:
        """Number of queries."""
        return len(self.offsets) - 1

    @property
    def counts(self) -> np.ndarray:
        """Gold tools per query, int64 [query]."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> np.ndarray:
        """The query of every gold, int64 [gold]."""
        return np.repeat(np.arange(len(self)), self.counts)

    @classmethod
    def of(cls, golds: Sequence[Mapping[int, int]]) -> GoldMatrix:
        """Compress one {tool position: grade} per query; grades of 0 and below are no gold.

        Raises:
            ValueError: a query has no gold left; its recall would be undefined.
        """
        kept = [sorted((tool, grade) for tool, grade in gold.items() if grade > 0) for gold in golds]
        empty = next((i for i, pairs in enumerate(kept) if not pairs), None)
        if empty is not None:
            raise ValueError(f"query {empty} has no gold tool")
        flat = [pair for pairs in kept for pair in pairs]
        return cls(
            offsets=np.cumsum([0, *(len(pairs) for pairs in kept)], dtype=np.int64),
            tools=np.array([tool for tool, _ in flat], dtype=np.int64),
            grades=np.array([grade for _, grade in flat], dtype=np.float64),
        )

    @classmethod
    def from_queries(cls, catalog: Catalog, queries: Sequence[Query]) -> GoldMatrix:
        """Look the gold ids of queries up in their catalog; absent ones get positions beyond it, which nobody ranks."""
        beyond: dict[str, int] = {}
        for query in queries:
            for tool in query.absent:
                beyond.setdefault(tool, len(catalog) + len(beyond))
        places = {**beyond, **catalog.index} if beyond else catalog.index
        return cls.of([{places[tool]: grade for tool, grade in q.gold.items()} for q in queries])


@dataclass(frozen=True)
class PerQuery:
    """Every metric at one depth for every query, float64 [query] each."""

    k: int
    recall: np.ndarray
    precision: np.ndarray
    ndcg: np.ndarray
    completeness: np.ndarray
    mrr: np.ndarray
    map: np.ndarray

    def items(self) -> Iterator[tuple[str, np.ndarray]]:
        """Pairs of metric name and values, in the order of `METRICS`."""
        return ((name, getattr(self, name)) for name in METRICS)


def gains(ranking: Ranking, gold: GoldMatrix) -> np.ndarray:
    """Grade of the tool at every rank, float64 [query, rank]; 0 for others and for a tool's second appearance."""
    if len(ranking.indices) != len(gold):
        raise ValueError(f"{len(ranking.indices)} ranked queries but {len(gold)} with gold")
    base = int(max(ranking.indices.max(initial=0), gold.tools.max(initial=0))) + 1
    keys = gold.rows * base + gold.tools
    wanted = np.arange(len(gold))[:, None] * base + ranking.indices
    found = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    if not len(keys):
        return np.zeros(ranking.indices.shape)
    hit = (keys[found] == wanted) & (ranking.indices != NO_TOOL) & ~_repeated(ranking.indices)
    return np.where(hit, gold.grades[found], 0.0)


def _repeated(indices: np.ndarray) -> np.ndarray:
    """True where a tool already stands at a better rank of the same query: bool [query, rank]."""
    order = np.argsort(indices, axis=1, kind="stable")
    ordered = np.take_along_axis(indices, order, axis=1)
    again = np.zeros(indices.shape, dtype=bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    repeated = np.empty_like(again)
    np.put_along_axis(repeated, order, again, axis=1)
    return repeated


def per_query(ranking: Ranking, gold: GoldMatrix | Sequence[Mapping[int, int]], k: int) -> PerQuery:
    """Score the first k ranks of every query against all of its gold tools.

    Args:
        ranking: [query, depth]; ranks beyond the depth count as empty.
        gold: one {tool position: grade} per query, or its `GoldMatrix`.
        k: cut-off, at least 1.

    Raises:
        ValueError: numbers of queries differ, a query has no gold, or k is below 1.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    gold = gold if isinstance(gold, GoldMatrix) else GoldMatrix.of(gold)
    gain = gains(ranking, gold)[:, :k]
    hits = gain > 0
    ranks = np.arange(1, gain.shape[1] + 1)
    found = hits.sum(axis=1)
    precisions = np.cumsum(hits, axis=1) / ranks
    return PerQuery(
        k=k,
        recall=found / gold.counts,
        precision=found / k,
        ndcg=dcg(gain) / _ideal(gold, k),
        completeness=(found == gold.counts).astype(np.float64),
        mrr=np.max(hits / ranks, axis=1, initial=0.0),
        map=(precisions * hits).sum(axis=1) / gold.counts,
    )


def dcg(gain: np.ndarray) -> np.ndarray:
    """Discounted cumulative gain, float64 [query], of gains [query, rank]: linear gains over log2(rank + 1)."""
    return gain @ (1.0 / np.log2(np.arange(2, gain.shape[1] + 2)))


def _ideal(gold: GoldMatrix, k: int) -> np.ndarray:
    """The highest DCG@k that all gold tools allow, found or missed: float64 [query]."""
    order = np.lexsort((-gold.grades, gold.rows))
    place = np.arange(len(order)) - np.repeat(gold.offsets[:-1], gold.counts)
    discounted = np.where(place < k, gold.grades[order] / np.log2(place + 2), 0.0)
    return np.bincount(gold.rows, weights=discounted, minlength=len(gold))


def ndcg_toolgen(ranking: Ranking, gold: GoldMatrix | Sequence[Mapping[int, int]], k: int) -> np.ndarray:
    """ToolGen's released nDCG@k, float64 [query]: inflated, for comparison with its paper and nothing else.

    Its ideal holds the gold tools that were retrieved, so missed ones cost nothing, and it depends on the depth of the
    ranking (5 beams there). `per_query` gives the true value.
    """
    gold = gold if isinstance(gold, GoldMatrix) else GoldMatrix.of(gold)
    gain = gains(ranking, gold)
    best = dcg(-np.sort(-gain, axis=1)[:, :k])
    return np.divide(dcg(gain[:, :k]), best, out=np.zeros(len(gain)), where=best > 0)


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % bootstrap interval.

    Args:
        value: the estimate; None where it is undefined (0/0, no values).
        low: lower end; None where fewer than two independent units leave nothing to resample.
        high: upper end, likewise.
        n: number of values behind the estimate.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class PairedDifference:
    """Mean of a minus mean of b on the same items.

    Args:
        interval: the difference and its bootstrap interval.
        p: two-sided bootstrap p-value from the same resamples; None where nothing can be resampled.
    """

    interval: Interval
    p: float | None


@dataclass(frozen=True)
class Resamples:
    """Bootstrap weights that depend on clusters and seed alone, so that every system and metric sees the same ones.

    Seeds and clusters are crossed (each seed answers the same queries): a replicate draws seeds and, once for all of
    them, clusters. Drawing clusters anew for every seed would average the queries' variance away.

    Args:
        clusters: int64 [item], numbered from 0.
        n: number of replicates.
        seed: of the random generator.
    """

    clusters: np.ndarray
    n: int = 2000
    seed: int = 0

    @classmethod
    def of(cls, clusters: Sequence[object] | np.ndarray, n: int = 2000, seed: int = 0) -> Resamples:
        """Number arbitrary cluster labels in order of first appearance."""
        labels: dict[object, int] = {}
        plain = clusters.tolist() if isinstance(clusters, np.ndarray) else clusters
        codes = [labels.setdefault(c, len(labels)) for c in plain]
        return cls(np.array(codes, dtype=np.int64), n, seed)

    @property
    def units(self) -> int:
        """Number of clusters."""
        return int(self.clusters.max(initial=-1)) + 1

    def weights(self, cells: int = 4_000_000) -> Iterator[np.ndarray]:
        """Yield blocks of cluster counts, float64 [replicate, cluster], within a bounded memory."""
        rng = np.random.default_rng(self.seed)
        step = max(1, cells // max(1, self.units))
        for start in range(0, self.n, step):
            rows = min(step, self.n - start)
            drawn = rng.integers(0, self.units, size=(rows, self.units)) + np.arange(rows)[:, None] * self.units
            yield np.bincount(drawn.ravel(), minlength=rows * self.units).reshape(rows, self.units).astype(np.float64)

    def seeds(self, count: int) -> np.ndarray:
        """How often each replicate drew each seed, float64 [replicate, seed]."""
        # Its own stream: the clusters drawn must not depend on the number of seeds.
        rng = np.random.default_rng([self.seed, 1])
        return rng.multinomial(count, np.full(count, 1 / count), size=self.n).astype(np.float64)

    def totals(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sum and number of the finite values of each column in each replicate, float64 [replicate, column] twice."""
        valid = ~np.isnan(values)
        sums = _by_cluster(np.where(valid, values, 0.0), self.clusters, self.units)
        if valid.all():
            sizes = _by_cluster(np.ones((len(values), 1)), self.clusters, self.units)
        else:
            sizes = _by_cluster(valid.astype(np.float64), self.clusters, self.units)
        parts = [(w @ sums, w @ sizes) for w in self.weights()]
        total, number = (np.concatenate(blocks) for blocks in zip(*parts, strict=True))
        return total, np.broadcast_to(number, total.shape)

    def means(self, values: np.ndarray) -> np.ndarray:
        """Mean of each column of values [item, column] in each replicate, float64 [replicate, column]; NaN if empty."""
        total, number = self.totals(values)
        return np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)

    def pooled_means(self, values: np.ndarray) -> np.ndarray:
        """Mean over drawn seeds and clusters of values [seed, item], float64 [replicate]."""
        drawn = self.seeds(len(values))
        total, number = ((part * drawn).sum(axis=1) for part in self.totals(values.T))
        return np.divide(total, number, out=np.full(self.n, np.nan), where=number > 0)


def _by_cluster(values: np.ndarray, clusters: np.ndarray, units: int) -> np.ndarray:
    """Sum the rows of values [item, column] within clusters: float64 [cluster, column]."""
    order = np.argsort(clusters, kind="stable")
    starts = np.searchsorted(clusters[order], np.arange(units))
    return np.add.reduceat(values[order], starts, axis=0)


def interval(value: float, replicates: np.ndarray, n: int, units: int) -> Interval:
    """95 % percentile interval of the finite replicates around an estimate."""
    finite = replicates[np.isfinite(replicates)]
    if not np.isfinite(value):
        return Interval(None, None, None, n)
    if units < 2 or not len(finite):
        return Interval(float(value), None, None, n)
    low, high = np.quantile(finite, [0.025, 0.975])
    return Interval(float(value), float(low), float(high), n)


def intervals(values: np.ndarray, replicates: np.ndarray, counts: np.ndarray, units: int) -> list[Interval]:
    """`interval` for many columns at once: values [column], replicates [replicate, column], counts [column]."""
    if units < 2 or not np.isfinite(replicates).all():
        return [interval(v, r, int(c), units) for v, r, c in zip(values, replicates.T, counts, strict=True)]
    low, high = np.quantile(replicates, [0.025, 0.975], axis=0)
    rows = zip(values.tolist(), low.tolist(), high.tolist(), counts.tolist(), strict=True)
    return [Interval(v, a, b, int(c)) for v, a, b, c in rows]


def bootstrap(
    values: np.ndarray | Sequence[float], clusters: Sequence[object] | np.ndarray, n: int = 2000, seed: int = 0
) -> Interval:
    """Mean with a 95 % interval that resamples clusters (operations, tools), and seeds on top where there are several.

    Args:
        values: float [item] or [seed, item]; NaN where a value is undefined.
        clusters: [item] labels of what is independent.
        n: replicates.
        seed: of the resampling; the same clusters and seed give the same resamples for every system.
    """
    array = np.atleast_2d(np.asarray(values, dtype=np.float64))
    resamples = _checked(array, clusters, n, seed)
    count = int((~np.isnan(array)).sum())
    if not count:
        return Interval(None, None, None, 0)
    return interval(float(np.nanmean(array)), resamples.pooled_means(array), count, max(resamples.units, len(array)))


def _checked(array: np.ndarray, clusters: Sequence[object] | np.ndarray, n: int, seed: int) -> Resamples:
    """Resamples for values [seed, item], whose items must match the clusters."""
    if array.shape[1] != len(clusters):
        raise ValueError(f"{array.shape[1]} values but {len(clusters)} clusters")
    return Resamples.of(clusters, n, seed)


def paired_difference(
    a: np.ndarray | Sequence[float],
    b: np.ndarray | Sequence[float],
    clusters: Sequence[object] | np.ndarray,
    n: int = 2000,
    seed: int = 0,
) -> PairedDifference:
    """Difference of two systems on the same items ([item] or [seed, item]) and the same resamples."""
    left, right = (np.atleast_2d(np.asarray(x, dtype=np.float64)) for x in (a, b))
    if left.shape != right.shape:
        raise ValueError(f"paired values differ in shape: {left.shape} and {right.shape}")
    difference = left - right
    found = bootstrap(difference, clusters, n, seed)
    if found.low is None:
        return PairedDifference(found, None)
    replicates = _checked(difference, clusters, n, seed).pooled_means(difference)
    tail = min((replicates <= 0).sum(), (replicates >= 0).sum())
    return PairedDifference(found, float(min(1.0, 2 * (1 + tail) / (1 + n))))


def sign_flip_test(
    a: np.ndarray | Sequence[float],
    b: np.ndarray | Sequence[float],
    clusters: Sequence[object] | np.ndarray,
    n: int = 10_000,
    seed: int = 0,
) -> float:
    """Two-sided p-value of a paired permutation test that swaps the systems within whole clusters.

    All 2^clusters sign patterns are enumerated where that takes no more than n; else n random ones (and the observed).
    """
    difference = np.asarray(a, dtype=np.float64) - np.asarray(b, dtype=np.float64)
    return float(sign_flip_p_values(difference[:, None], clusters, n, seed)[0])


def sign_flip_p_values(
    differences: np.ndarray, clusters: Sequence[object] | np.ndarray, n: int = 10_000, seed: int = 0
) -> np.ndarray:
    """P-values of `sign_flip_test`, float64 [column], for differences [item, column] under the same sign patterns."""
    resamples = _checked(differences.T, clusters, n, seed)
    if not resamples.units:
        return np.ones(differences.shape[1])
    sums = _by_cluster(np.nan_to_num(differences), resamples.clusters, resamples.units)
    # Sums in another order differ in the last bits: equal statistics must count as equal.
    observed = np.abs(sums.sum(axis=0)) - 1e-9 * np.abs(sums).sum(axis=0)
    exact = 2 ** min(len(sums), 62) <= n
    patterns = _all_signs(len(sums)) if exact else _random_signs(n, len(sums), seed)
    extreme = sum((np.abs(signs @ sums) >= observed).sum(axis=0) for signs in patterns)
    return np.asarray(extreme) / 2 ** len(sums) if exact else (1 + np.asarray(extreme)) / (1 + n)


def _all_signs(units: int) -> Iterator[np.ndarray]:
    """Every pattern of signs, float64 [2^units, units]."""
    yield 1.0 - 2.0 * ((np.arange(2**units)[:, None] >> np.arange(units)) & 1)


def _random_signs(n: int, units: int, seed: int, cells: int = 4_000_000) -> Iterator[np.ndarray]:
    """Blocks of random signs, float64 [pattern, cluster], n patterns in all."""
    rng = np.random.default_rng(seed)
    step = max(1, cells // units)
    for start in range(0, n, step):
        yield 1.0 - 2.0 * rng.integers(0, 2, size=(min(step, n - start), units), dtype=np.int8)


def internalization(
    free: np.ndarray | Sequence[float],
    constrained: np.ndarray | Sequence[float],
    clusters: Sequence[object] | np.ndarray,
    n: int = 2000,
    seed: int = 0,
) -> Interval:
    """Internalization Score IS@k: mean recall@k of free over that of constrained decoding (ToolSense 2606.12451).

    Undefined (None) where constrained decoding finds nothing; such replicates are left out of the interval, which takes
    both means on the same resamples.
    """
    pair = np.stack([np.asarray(free, dtype=np.float64), np.asarray(constrained, dtype=np.float64)], axis=1)
    resamples = _checked(pair.T, clusters, n, seed)
    means = resamples.means(pair) if len(pair) else np.zeros((0, 2))
    return ratio_interval(pair, means, resamples.units)


def ratio_interval(pair: np.ndarray, means: np.ndarray, units: int) -> Interval:
    """Interval of a ratio of means from values [item, 2] and their replicates [replicate, 2]."""
    top, bottom = pair.mean(axis=0) if len(pair) else (0.0, 0.0)
    ratios = np.divide(means[:, 0], means[:, 1], out=np.full(len(means), np.nan), where=means[:, 1] > 0)
    return interval(top / bottom if bottom > 0 else np.nan, ratios, len(pair), units)
