"""Values per item, then slices, intervals and paired tests: the same for every suite."""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from toolsavvy.assets import atomic_write
from toolsavvy.metrics import Interval, Resamples, interval, intervals, sign_flip_p_values


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
    """A system minus a rival on the same items and resamples; p is of the sign-flip test over clusters.

    The rival is the best of the others *in this table*, or one that was named; p-values are not corrected for how many
    there are.
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
class Outcome:
    """Everything a suite found.

    Args:
        suite: its name.
        results: every number.
        comparisons: paired tests.
        predictions: system -> records.
        pairs: (system, rival) that were asked for; their comparisons are shown.
        shown: slices of the main table; () are the headline splits.
        columns: (metric, k) of the main table, k is None for metrics without; () are the usual ones.
    """

    suite: str
    results: tuple[Result, ...]
    comparisons: tuple[Comparison, ...] = ()
    predictions: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    pairs: tuple[tuple[str, str], ...] = ()
    shown: tuple[str, ...] = ()
    columns: tuple[tuple[str, int | None], ...] = ()


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
        headline: slices with paired tests, averages among them.
        compared: metrics with paired tests.
        pairs: (system, rival) that are tested too, in every metric.
        strata: name -> int positions of items that are resampled among themselves (tasks).
        averages: slice of its own -> weight of each stratum's mean in it; weights sum to 1.
    """

    suite: str
    clusters: Sequence[str]
    slices: Mapping[str, np.ndarray]
    columns: Sequence[Column]
    ratios: Sequence[Ratio] = ()
    headline: Sequence[str] = ()
    compared: Sequence[str] = ()
    pairs: Sequence[tuple[str, str]] = ()
    strata: Mapping[str, np.ndarray] = field(default_factory=dict)
    averages: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def evaluate(self, resamples: int = 2000, seed: int = 0) -> tuple[list[Result], list[Comparison]]:
        """Means with intervals in every slice and average, and paired tests in those of the headline."""
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
        averaged = self._averages(matrix, labels, resamples, seed) if self.averages else ([], [])
        return results + averaged[0], comparisons + averaged[1]

    def _averages(
        self, matrix: np.ndarray, labels: np.ndarray, resamples: int, seed: int
    ) -> tuple[list[Result], list[Comparison]]:
        """Weighted means of strata's means; every stratum is resampled by itself, in a stream of its own."""
        results: list[Result] = []
        comparisons: list[Comparison] = []
        parts = {s: Resamples.of(labels[items], resamples, _seed_of(s, seed)) for s, items in self.strata.items()}
        means = {s: _means(matrix[items]) for s, items in self.strata.items()}
        replicates = {s: parts[s].means(matrix[items]) for s, items in self.strata.items()}
        for name, weights in self.averages.items():
            mean = sum((w * means[s] for s, w in weights.items()), np.zeros(matrix.shape[1]))
            drawn = sum((w * replicates[s] for s, w in weights.items()), np.zeros((resamples, matrix.shape[1])))
            if max(parts[s].units for s in weights) < 2:  # nothing was resampled
                drawn = np.full_like(drawn, np.nan)
            values = np.concatenate([_shares(matrix[self.strata[s]], w) for s, w in weights.items()])
            units = [(s, label) for s in weights for label in labels[self.strata[s]].tolist()]
            whole = Resamples.of(units, resamples, seed)
            results += self._rows(name, values, mean, drawn, whole.units)
            if name in self.headline:
                comparisons += self._tests(name, values, mean, drawn, whole)
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
        """Every system against the best of the others, and the named pairs."""
        pairs = list(dict.fromkeys([*self._pairs(means), *self._named(means)]))
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

    def _named(self, means: np.ndarray) -> list[tuple[int, int]]:
        """Columns of the pairs that were asked for."""
        place = {(c.system, c.metric, c.k): i for i, c in enumerate(self.columns) if np.isfinite(means[i])}
        sides = [(place.get((a, *key)), place.get((b, *key))) for a, b in self.pairs for key in self._metrics()]
        return [(ours, rival) for ours, rival in sides if ours is not None and rival is not None]

    def _metrics(self) -> list[tuple[str, int | None]]:
        """Every metric and k, in order."""
        return list(dict.fromkeys((column.metric, column.k) for column in self.columns))

    def _family(self, position: int) -> str:
        """Whose column it is, over decoding modes."""
        return self.columns[position].family or self.columns[position].system


def _means(values: np.ndarray) -> np.ndarray:
    """Means over the defined values of each column; NaN where there are none."""
    counts = (~np.isnan(values)).sum(axis=0)
    return np.divide(np.nansum(values, axis=0), counts, out=np.full(len(counts), np.nan), where=counts > 0)


def _shares(values: np.ndarray, weight: float) -> np.ndarray:
    """Values [item, column] scaled so that they sum to the weighted mean of each column."""
    return values * weight / np.maximum((~np.isnan(values)).sum(axis=0), 1)


def _seed_of(stratum: str, seed: int) -> int:
    """A stream for each stratum, whatever others there are: one stream for all would draw alike in all."""
    return int(np.random.SeedSequence([seed, zlib.crc32(stratum.encode())]).generate_state(1)[0])


def write_jsonl(path: Path | str, records: Iterable[Any]) -> None:
    """Write dataclasses one a line, whole or not at all; NaN and infinity are refused."""
    with atomic_write(path, text=True) as file:
        for record in records:
            file.write(json.dumps(asdict(record), ensure_ascii=False, allow_nan=False) + "\n")
