"""Pseudo-labels: which generated calls are kept for training, by a threshold, a count, or the references themselves."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolsavvy.metrics import Interval, Resamples, interval

GRID = (0.8, 0.9, 0.95)
"""The paper's thresholds on the probe's probability (2608.03071)."""
BETA = 0.5
QUANTILES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Of validation scores, for signals that are no calibrated probabilities."""


@dataclass(frozen=True)
class PseudoLabels:
    """How good a kept set is, against the references; intervals are over clusters of tasks.

    Args:
        kept: number of calls that were kept.
        of: number of calls.
        precision: share of right ones among the kept; undefined where nothing is kept.
        recall: share of the right ones that were kept; undefined where none is right.
        coverage: share of all that were kept.
        f: F-beta of precision and recall; 0 where right ones exist and none is kept.
        beta: weight of recall.
    """

    kept: int
    of: int
    precision: Interval
    recall: Interval
    coverage: Interval
    f: Interval
    beta: float


@dataclass(frozen=True)
class Threshold:
    """A threshold that was chosen on validation.

    Args:
        value: calls at or above it are kept.
        labels: what it keeps on validation.
        tried: every threshold of the grid and its F-beta on validation, None where undefined.
        told: what is odd about the choice, "" for nothing.
    """

    value: float
    labels: PseudoLabels
    tried: tuple[tuple[float, float | None], ...]
    told: str = ""


@dataclass(frozen=True)
class Kept:
    """Calls that were kept.

    Args:
        rows: bool [call].
        told: what is odd about it, "" for nothing: an arm without pseudo-labels is its seed model again.
    """

    rows: np.ndarray
    told: str = ""

    @property
    def count(self) -> int:
        """How many."""
        return int(self.rows.sum())


def measure(
    kept: np.ndarray, right: np.ndarray, *, beta: float = BETA, clusters: Sequence[object] | None = None,
    n: int = 2000, seed: int = 0,
) -> PseudoLabels:  # fmt: skip
    """Precision, recall, coverage and F-beta of a kept set, with 95 % intervals.

    Args:
        kept: bool [call].
        right: bool [call].
        beta: weight of recall; 0.5 counts precision twice.
        clusters: [call], what is independent; None: every call.
        n: bootstrap replicates.
        seed: of the resampling.
    """
    kept, right = np.asarray(kept, dtype=bool), np.asarray(right, dtype=bool)
    resamples = Resamples.of(np.arange(len(kept)) if clusters is None else clusters, n, seed)
    table = np.stack([kept & right, kept, right, np.ones(len(kept))], axis=1).astype(np.float64)
    values = _ratios(table.sum(0)[None], beta)[0]
    if len(kept):
        sums = np.zeros((resamples.units, 4))
        np.add.at(sums, resamples.clusters, table)
        drawn = np.concatenate([_ratios(weights @ sums, beta) for weights in resamples.weights()])
    else:
        drawn = np.zeros((0, 4))
    sizes = (int(kept.sum()), int(right.sum()), len(kept), len(kept))
    precision, recall, coverage, f = (
        interval(v, d, size, resamples.units) for v, d, size in zip(values, drawn.T, sizes, strict=True)
    )
    return PseudoLabels(int(kept.sum()), len(kept), precision, recall, coverage, f, beta)


def _ratios(sums: np.ndarray, beta: float) -> np.ndarray:
    """Precision, recall, coverage, F-beta, float64 [row, 4], of sums [row, (kept and right, kept, right, all)]."""
    both, kept, right, every = sums.T
    bottom = beta**2 * right + kept

    def over(top: np.ndarray, under: np.ndarray) -> np.ndarray:
        return np.divide(top, under, out=np.full(len(top), np.nan), where=under > 0)

    return np.stack([over(both, kept), over(both, right), over(kept, every), over((1 + beta**2) * both, bottom)], 1)


def choose_threshold(
    scores: np.ndarray, right: np.ndarray, *, beta: float = BETA, grid: Sequence[float] = GRID,
    clusters: Sequence[object] | None = None,
) -> Threshold:  # fmt: skip
    """The threshold with the highest F-beta on validation calls; ties go to the lower one, which keeps no less.

    Args:
        scores: float64 [call], of validation calls; 0 is never kept.
        right: bool [call].
        beta: weight of recall.
        grid: to choose from.
        clusters: [call], for intervals.

    Raises:
        ValueError: an empty grid.
    """
    if not grid:
        raise ValueError("no thresholds to choose from")
    scores, right = np.asarray(scores, dtype=np.float64), np.asarray(right, dtype=bool)
    tried = []
    for value in sorted({float(g) for g in grid}):
        found = _ratios(_sums(keep(scores, threshold=value).rows, right)[None], beta)[0, 3]
        tried.append((value, float(found) if np.isfinite(found) else None))
    best = max(tried, key=lambda pair: (-1.0 if pair[1] is None else pair[1], -pair[0]))[0]
    rows = keep(scores, threshold=best).rows
    told = ""
    if not right.any():
        told = "no validation call is right: the lowest threshold is taken"
    elif not (rows & right).any():
        told = "no right validation call passes any threshold: the lowest one is taken"
    return Threshold(best, measure(rows, right, beta=beta, clusters=clusters), tuple(tried), told)


def _sums(kept: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.array([(kept & right).sum(), kept.sum(), right.sum(), len(kept)], dtype=np.float64)


def quantile_grid(scores: np.ndarray, quantiles: Sequence[float] = QUANTILES) -> tuple[float, ...]:
    """Thresholds of a signal on its own scale: quantiles of its validation scores above 0, ascending, each once."""
    usable = np.asarray(scores, dtype=np.float64)
    usable = usable[usable > 0]
    if not len(usable):
        return (0.0,)
    return tuple(np.unique(np.quantile(usable, quantiles, method="lower")).tolist())


def keep(
    scores: np.ndarray, *, threshold: float | None = None, count: int | None = None, ids: Sequence[str] = (),
    usable: np.ndarray | None = None, seed: int = 0,
) -> Kept:  # fmt: skip
    """Keep calls at or above a threshold, or the best of them by number.

    Args:
        scores: float64 [call]. A call with 0 (unreadable, or nothing speaks for it) is never kept by a threshold, and
            by number only after all others.
        threshold: least score.
        count: number of calls to keep; fewer where fewer are usable.
        ids: [call], decide between equal scores together with the seed: their order must say nothing of the tool.
        usable: bool [call], may be kept at all; None: every one.
        seed: of ties.

    Raises:
        ValueError: not exactly one of threshold and count, or NaN among the scores.
    """
    scores = np.asarray(scores, dtype=np.float64)
    allowed = np.ones(len(scores), dtype=bool) if usable is None else np.asarray(usable, dtype=bool)
    if (threshold is None) == (count is None):
        raise ValueError("keep by a threshold or by a count")
    if np.isnan(scores).any():
        raise ValueError("scores hold NaN")
    if threshold is not None:
        rows = allowed & (scores >= threshold) & (scores > 0)
        return Kept(rows, _told(rows, allowed, f"at or above {threshold:g}"))
    names = [str(i) for i in range(len(scores))] if not len(ids) else list(ids)
    ties = [hashlib.sha256(f"{seed}:{name}".encode()).digest() for name in names]
    order = sorted(np.flatnonzero(allowed).tolist(), key=lambda i: (-scores[i], ties[i], i))
    rows = np.zeros(len(scores), dtype=bool)
    rows[order[: max(count or 0, 0)]] = True
    short = "" if rows.sum() == count else f"{count} calls were asked for and {int(rows.sum())} can be kept"
    return Kept(rows, short or _told(rows, allowed, "kept"))


def _told(rows: np.ndarray, allowed: np.ndarray, what: str) -> str:
    if not len(rows):
        return "there are no calls"
    if not rows.any():
        return f"none of {len(rows)} calls is {what}: no pseudo-labels"
    if rows.sum() == allowed.sum() and len(rows) > 1:
        return f"all of {int(allowed.sum())} usable calls are {what}: the same as no filter"
    return ""


def unfiltered(usable: np.ndarray) -> Kept:
    """Every call that can be trained on: plain self-training."""
    rows = np.asarray(usable, dtype=bool)
    return Kept(rows, "" if rows.any() else f"none of {len(rows)} calls can be read: no pseudo-labels")


def oracle(right: np.ndarray) -> Kept:
    """The right calls alone: the ceiling of every filter."""
    rows = np.asarray(right, dtype=bool)
    return Kept(rows, "" if rows.any() else f"none of {len(rows)} calls is right: no pseudo-labels")


def best_of_each(scores: np.ndarray, groups: Sequence[np.ndarray]) -> np.ndarray:
    """Position of each group's highest score, int64 [group that has any]; ties go to its first (greedy) member."""
    return np.array([g[int(np.argmax(np.asarray(scores)[g]))] for g in groups if len(g)], dtype=np.int64)


def coverage_curve(scores: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Precision over coverage as the threshold falls: (threshold, coverage, precision), float64 [step] each.

    A step is a distinct score above 0: calls of one score are kept together.
    """
    scores, right = np.asarray(scores, dtype=np.float64), np.asarray(right, dtype=bool)
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > 0]
    values = scores[order]
    ends = np.flatnonzero(np.append(values[1:] != values[:-1], True)) if len(values) else np.zeros(0, dtype=np.int64)
    kept = ends + 1
    return values[ends], kept / max(len(scores), 1), np.cumsum(right[order])[ends] / np.maximum(kept, 1)
