"""Binary classification: MCC, AUC, accuracy, F1, calibration, with intervals that resample what is independent.

Definitions are scikit-learn's, but for what is undefined: an MCC of constant decisions, an AUC of one class, an F1
without a positive on either side are NaN in arrays and None in intervals, never 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np

from toolsavvy.metrics import Interval, PairedDifference, Resamples, interval

METRICS = ("mcc", "auc", "accuracy", "f1", "ece")
"""Names of the metrics, in the order of tables."""


@dataclass(frozen=True)
class Confusion:
    """Weighted counts of the four outcomes; arrays of one shape, and so are the metrics."""

    tp: np.ndarray
    fp: np.ndarray
    fn: np.ndarray
    tn: np.ndarray

    @property
    def mcc(self) -> np.ndarray:
        """Matthews correlation coefficient; NaN where decisions or labels are constant."""
        tp, fp, fn, tn = (np.asarray(part, dtype=np.float64) for part in (self.tp, self.fp, self.fn, self.tn))
        bottom = np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
        return _ratio(tp * tn - fp * fn, bottom)

    @property
    def accuracy(self) -> np.ndarray:
        """Share of right decisions; NaN without items."""
        return _ratio(self.tp + self.tn, self.tp + self.fp + self.fn + self.tn)

    @property
    def f1(self) -> np.ndarray:
        """Harmonic mean of precision and recall of the positive class; NaN without a positive on either side."""
        return _ratio(2 * self.tp, 2 * self.tp + self.fp + self.fn)


def _ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """Quotient, NaN at x/0."""
    top, bottom = np.asarray(top, dtype=np.float64), np.asarray(bottom, dtype=np.float64)
    return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0)


def confusion(labels: np.ndarray, decisions: np.ndarray, weights: np.ndarray | None = None) -> Confusion:
    """Count the four outcomes.

    Args:
        labels: bool [item].
        decisions: bool [item] or [item, column], one column a classifier.
        weights: float [replicate, item], how often each bootstrap replicate drew each item; None: every item once.

    Returns:
        Counts [replicate, column]; without the axes that the arguments lack.
    """
    truth, said = np.asarray(labels, dtype=bool), np.asarray(decisions, dtype=bool)
    if len(truth) != len(said):
        raise ValueError(f"{len(truth)} labels but {len(said)} decisions")
    table = said.reshape(len(said), -1).astype(np.float64)
    weight = np.ones((1, len(truth))) if weights is None else np.asarray(weights, dtype=np.float64)
    positive, negative = weight * truth, weight * ~truth
    tp, fp = positive @ table, negative @ table
    counts = (tp, fp, positive.sum(1)[:, None] - tp, negative.sum(1)[:, None] - fp)
    return Confusion(*(_squeezed(part, said.ndim, weights is None) for part in counts))


def _squeezed(values: np.ndarray, ndim: int, single: bool) -> np.ndarray:
    """Take off [replicate, column] what the arguments did not have."""
    values = values[:, 0] if ndim == 1 else values
    return values[0] if single else values


def mcc(labels: np.ndarray, decisions: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Matthews correlation coefficient, shapes as in `confusion`."""
    return confusion(labels, decisions, weights).mcc


def accuracy(labels: np.ndarray, decisions: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Share of right decisions, shapes as in `confusion`."""
    return confusion(labels, decisions, weights).accuracy


def f1(labels: np.ndarray, decisions: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """F1 of the positive class, shapes as in `confusion`."""
    return confusion(labels, decisions, weights).f1


def auc(
    labels: np.ndarray, scores: np.ndarray, weights: np.ndarray | None = None, strata: np.ndarray | None = None
) -> np.ndarray:
    """Area under the ROC curve: share of (positive, negative) pairs in the right order, ties counting one half.

    Args:
        labels: bool [item].
        scores: float [item] or [item, column].
        weights: float [replicate, item] or None, as in `confusion`.
        strata: int [item]; pairs are formed within a stratum alone, as scores of different probes have no common scale.

    Returns:
        float64 [replicate, column], without the axes that the arguments lack; NaN where there is no pair.

    Raises:
        ValueError: lengths differ, or a score is NaN.
    """
    return _ratio(*wins(labels, scores, weights, strata))


def wins(
    labels: np.ndarray, scores: np.ndarray, weights: np.ndarray | None = None, strata: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The two sides of `auc`: pairs in the right order (ties one half), and all pairs; they add up over folds."""
    truth, values = np.asarray(labels, dtype=bool), np.asarray(scores, dtype=np.float64)
    if len(truth) != len(values):
        raise ValueError(f"{len(truth)} labels but {len(values)} scores")
    if np.isnan(values).any():
        raise ValueError("scores hold NaN: leave those items out")
    table = values.reshape(len(values), -1)
    weight = np.ones((1, len(truth))) if weights is None else np.asarray(weights, dtype=np.float64)
    groups = [slice(None)] if strata is None else [np.asarray(strata) == s for s in np.unique(strata)]
    won, pairs = np.zeros((2, len(weight), table.shape[1]))
    for rows in groups if len(truth) else ():
        for j, column in enumerate(table[rows].T):
            right, total = _wins(truth[rows], column, weight[:, rows])
            won[:, j] += right
            pairs[:, j] += total
    return _squeezed(won, values.ndim, weights is None), _squeezed(pairs, values.ndim, weights is None)


def _wins(truth: np.ndarray, column: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs won and all pairs of one column in every replicate, float64 [replicate] twice."""
    order = np.argsort(column, kind="stable")
    ordered, flags, weight = column[order], truth[order], weight[:, order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    positive = np.add.reduceat(weight * flags, starts, axis=1)
    negative = np.add.reduceat(weight * ~flags, starts, axis=1)
    below = np.cumsum(negative, axis=1) - negative / 2
    return (positive * below).sum(1), positive.sum(1) * negative.sum(1)


def ece(labels: np.ndarray, probabilities: np.ndarray, weights: np.ndarray | None = None, bins: int = 10) -> np.ndarray:
    """Expected calibration error over bins of equal width (Guo et al. 2017), shapes as in `auc`."""
    truth, values = np.asarray(labels, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
    table = values.reshape(len(values), -1)
    weight = np.ones((1, len(truth))) if weights is None else np.asarray(weights, dtype=np.float64)
    place = np.minimum((table * bins).astype(np.int64), bins - 1)
    gaps = np.zeros((len(weight), table.shape[1]))
    for b in range(bins):
        gaps += np.abs(weight @ ((table - truth[:, None]) * (place == b)))
    total = np.broadcast_to(weight.sum(1)[:, None], gaps.shape)
    return _squeezed(_ratio(gaps, total), values.ndim, weights is None)


def sigmoid(scores: np.ndarray) -> np.ndarray:
    """Probabilities of log-odds, float64, without overflow."""
    values = np.asarray(scores, dtype=np.float64)
    small = np.exp(-np.abs(values))
    return np.where(values >= 0, 1 / (1 + small), small / (1 + small))


@dataclass(frozen=True)
class Predictions:
    """What one classifier says of held-out items.

    Args:
        labels: bool [item].
        scores: float64 [item], log-odds; without NaN.
        decisions: bool [item].
        clusters: int64 [item], what is independent: an item, or a family where items of one are alike. With few
            families a resample holds more pairs within one, so that AUC's interval leans towards what holds there.
        strata: int64 [item], which fit scored the item; AUC compares within.
    """

    labels: np.ndarray
    scores: np.ndarray
    decisions: np.ndarray
    clusters: np.ndarray
    strata: np.ndarray

    @classmethod
    def of(
        cls,
        labels: np.ndarray,
        scores: np.ndarray,
        *,
        threshold: float = 0.0,
        clusters: Sequence[object] | np.ndarray | None = None,
        strata: np.ndarray | None = None,
    ) -> Predictions:
        """Decide by a threshold on the log-odds; without clusters every item is independent."""
        count = len(labels)
        codes = np.arange(count) if clusters is None else Resamples.of(clusters).clusters
        parts = np.zeros(count, dtype=np.int64) if strata is None else np.asarray(strata)
        values = np.asarray(scores, dtype=np.float64)
        return cls(np.asarray(labels, dtype=bool), values, values > threshold, codes, parts)

    def measure(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Every metric, float64 [metric], or [metric, replicate] with weights [replicate, item]."""
        table = confusion(self.labels, self.decisions, weights)
        area = auc(self.labels, self.scores, weights, self.strata)
        return np.stack([table.mcc, area, table.accuracy, table.f1, ece(self.labels, sigmoid(self.scores), weights)])

    def replicates(self, n: int, seed: int) -> np.ndarray:
        """Every metric in every bootstrap replicate, float64 [metric, replicate]; no replicate of a single cluster."""
        resamples = Resamples(self.clusters, n if self.units > 1 else 0, seed)
        cells = max(1, 4_000_000 * max(resamples.units, 1) // max(len(self.labels), 1))
        parts = [self.measure(w[:, self.clusters]) for w in resamples.weights(cells)]
        return np.concatenate(parts, axis=1) if parts else np.zeros((len(METRICS), 0))

    @property
    def units(self) -> int:
        """Number of independent things."""
        return Resamples(self.clusters).units


@dataclass(frozen=True)
class Quality:
    """Metrics of one classifier with 95 % intervals; a value that is undefined is None."""

    mcc: Interval
    auc: Interval
    accuracy: Interval
    f1: Interval
    ece: Interval

    def items(self) -> Iterator[tuple[str, Interval]]:
        """Pairs of metric name and interval, in the order of `METRICS`."""
        return ((part.name, getattr(self, part.name)) for part in fields(self))


@dataclass(frozen=True)
class Comparison:
    """Metrics of one classifier minus another's on the same items and the same resamples."""

    mcc: PairedDifference
    auc: PairedDifference
    accuracy: PairedDifference
    f1: PairedDifference
    ece: PairedDifference

    def items(self) -> Iterator[tuple[str, PairedDifference]]:
        """Pairs of metric name and difference, in the order of `METRICS`."""
        return ((part.name, getattr(self, part.name)) for part in fields(self))


def quality(predictions: Predictions, n: int = 1000, seed: int = 0) -> Quality:
    """Metrics with intervals.

    Args:
        predictions: held-out items; none at all gives None throughout.
        n: bootstrap replicates.
        seed: of the resampling.
    """
    count, units = len(predictions.labels), predictions.units
    if not count:
        return Quality(*[Interval(None, None, None, 0)] * len(METRICS))
    values = predictions.measure()
    drawn = predictions.replicates(n, seed)
    return Quality(*(interval(v, r, count, units) for v, r in zip(values, drawn, strict=True)))


def compare(first: Predictions, second: Predictions, n: int = 1000, seed: int = 0) -> Comparison:
    """First minus second, metric by metric; undefined where either side is.

    Raises:
        ValueError: the two are not of the same items.
    """
    same = np.array_equal(first.labels, second.labels) and np.array_equal(first.clusters, second.clusters)
    if not same:
        raise ValueError("classifiers are compared on the same items, in the same order")
    count, units = len(first.labels), first.units
    if not count:
        return Comparison(*[PairedDifference(Interval(None, None, None, 0), None)] * len(METRICS))
    values = first.measure() - second.measure()
    drawn = first.replicates(n, seed) - second.replicates(n, seed)
    return Comparison(*(_difference(v, r, count, units) for v, r in zip(values, drawn, strict=True)))


def _difference(value: float, drawn: np.ndarray, count: int, units: int) -> PairedDifference:
    """Interval and two-sided bootstrap p of one difference."""
    found = interval(value, drawn, count, units)
    if found.low is None:
        return PairedDifference(found, None)
    finite = drawn[np.isfinite(drawn)]
    tail = min((finite <= 0).sum(), (finite >= 0).sum())
    return PairedDifference(found, float(min(1.0, 2 * (1 + tail) / (1 + len(finite)))))
