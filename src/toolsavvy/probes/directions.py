"""Directions of two labels in one cell, their cosine, and the ceiling that noise puts on it.

A direction that is estimated from few items points elsewhere in every sample, so that two labels can look orthogonal
though they share a direction. Training items are therefore cut into two halves: the cosine of a label's directions
from the two halves is its reliability r, and the cosine of one label's direction from one half with the other label's
from the other half is at most sqrt(r_a r_b). Their quotient is the disattenuated cosine (Spearman 1904). It takes the
cross-half cosine, not that of directions from the same items: those share noise, which counts where labels agree.

Spaces: `standardised` (each feature over its deviation in the training items) and `raw`. A probe's weights act on
features, so that they are divided by deviations on the way to raw; a mean difference is a displacement: multiplied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from toolsavvy.metrics import Interval
from toolsavvy.probes.problems import Fits, Problems

Fitter = Callable[[np.ndarray, Problems], Fits]
"""Anything that fits problems on one cell's features, as `logistic.fit` does."""
Method = Literal["logistic", "mean_difference"]
Space = Literal["standardised", "raw"]
METHODS: tuple[Method, ...] = ("logistic", "mean_difference")
SPACES: tuple[Space, ...] = ("standardised", "raw")
PARTS = ("cosine", "cross", "first", "second")
"""What `relate` gives: cosine of the full directions, of different halves, and the reliability of either label."""


def random_cosine(d: int) -> float:
    """Standard deviation of the cosine of two random directions in d dimensions."""
    return 1 / np.sqrt(d)


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cosine along the last axis, float64; NaN where a direction is zero."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    bottom = np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
    return np.divide((a * b).sum(-1), bottom, out=np.full(bottom.shape, np.nan), where=bottom > 0)


def halves(rows: np.ndarray, strata: np.ndarray, count: int, *, seed: int = 0) -> np.ndarray:
    """Cut items in two at random, each stratum evenly, several times: bool [halving, 2, item]."""
    found = np.zeros((count, 2, len(rows)), dtype=bool)
    items = np.flatnonzero(rows)
    for halving in range(count):
        rng = np.random.default_rng([seed, 13, halving])
        order = items[np.lexsort((rng.random(len(items)), strata[items]))]
        # The first of every pair at random: a stratum of odd size favours neither half.
        side = (rng.random(len(order) // 2 + 1) < 0.5).repeat(2)[: len(order)] ^ (np.arange(len(order)) % 2 == 1)
        found[halving, 0, order[side]] = True
        found[halving, 1, order[~side]] = True
    return found


def mean_differences(features: np.ndarray, targets: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Mean of the positive minus mean of the negative items, raw float64 [problem, d].

    Args:
        features: float32 [item, d], finite.
        targets: bool [problem, item].
        rows: bool [problem, item]; a problem with one class gets NaN.
    """
    parts = []
    for chosen in (targets & rows, ~targets & rows):
        counts = chosen.sum(1, keepdims=True)
        parts.append((chosen / np.where(counts, counts, np.nan)).astype(np.float32) @ features)
    return (parts[0] - parts[1]).astype(np.float64)


@dataclass(frozen=True)
class Directions:
    """Directions of several problems in both spaces, float64 [problem, d] each."""

    standardised: np.ndarray
    raw: np.ndarray

    @classmethod
    def of_means(cls, features: np.ndarray, problems: Problems, scale: np.ndarray) -> Directions:
        """Mean differences; `scale` [d] is the deviation of features that defines the standardised space."""
        raw = mean_differences(features, problems.targets, problems.rows)
        return cls(raw / scale, raw)

    @classmethod
    def of_fits(cls, fits: Fits, scale: np.ndarray) -> Directions:
        """Weights of probes, taken from each one's own standardisation to the common one."""
        raw = fits.weights.astype(np.float64) / fits.scale
        return cls(raw * scale, raw)

    def take(self, index: np.ndarray) -> Directions:
        """Some of the problems, in any shape."""
        return Directions(self.standardised[index], self.raw[index])


def relate(full: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Cosine, cross-half cosine and the two reliabilities, float64 [PARTS].

    Args:
        full: float64 [2, d], directions of the two labels from all training items.
        half: float64 [halving, 2 halves, 2 labels, d].
    """
    a, b = half[:, :, 0], half[:, :, 1]
    cross = (cosine(a[:, 0], b[:, 1]) + cosine(a[:, 1], b[:, 0])) / 2
    values = (cross, cosine(a[:, 0], a[:, 1]), cosine(b[:, 0], b[:, 1]))
    return np.array([float(cosine(full[0], full[1])), *(_mean(v) for v in values)])


def _mean(values: np.ndarray) -> float:
    """Mean of the finite values; NaN without one."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else np.nan


def chance(d: int) -> float:
    """Reliability in d dimensions that a direction must exceed: noise reaches it in one half-split of forty."""
    return 2 * random_cosine(d)


def ceiling(parts: np.ndarray, least: float = 0.0) -> np.ndarray:
    """sqrt(r_a r_b), the highest cross-half cosine that noise allows: float64 [...] from [..., PARTS].

    NaN where a reliability is not above `least`: that direction can't be told from noise, and a quotient would be noise
    over noise, which is near 1 where the labels agree.
    """
    first, second = parts[..., 2], parts[..., 3]
    return np.sqrt(np.where((first > least) & (second > least), first * second, np.nan))


def disattenuated(parts: np.ndarray, least: float = 0.0) -> np.ndarray:
    """Cross-half cosine over its ceiling, float64 [...]; not clipped at 1; NaN without a ceiling."""
    return parts[..., 1] / ceiling(parts, least)


@dataclass(frozen=True)
class Alignment:
    """How the directions of two labels lie to one another in one cell.

    Args:
        method: logistic | mean_difference.
        space: standardised | raw.
        cosine: of the directions from all training items.
        cross: cosine of directions from different halves.
        first: reliability of the first label's direction.
        second: of the second's.
        ceiling: sqrt(first * second); None unless both are above `chance` and their intervals above 0.
        disattenuated: cross / ceiling, likewise.
        random: deviation of the cosine of random directions, 1/sqrt(d).
    """

    method: Method
    space: Space
    cosine: Interval
    cross: Interval
    first: Interval
    second: Interval
    ceiling: Interval
    disattenuated: Interval
    random: float


def alignment(method: Method, space: Space, parts: np.ndarray, drawn: np.ndarray, n: int, d: int) -> Alignment:
    """Estimates with intervals from half-samples.

    A statistic of a random half of n items varies around that of all n as the latter does around the truth (delete-half
    jackknife; Shao and Wu 1989), so that its quantiles, centred, give the interval.

    Args:
        method: for the result.
        space: for the result.
        parts: float64 [PARTS], from all training items.
        drawn: float64 [replicate, PARTS], from random halves of them, which were halved in their turn.
        n: training items.
        d: width.
    """
    least = chance(d)
    values = np.array([*parts, ceiling(parts, least), disattenuated(parts, least)])
    spread = np.column_stack([drawn, ceiling(drawn), disattenuated(drawn)])
    names = ("cosine", "cross", "first", "second", "ceiling", "disattenuated")
    found = {name: _around(v, s, n) for name, v, s in zip(names, values, spread.T, strict=True)}
    if any((low := found[label].low) is None or low <= 0 for label in ("first", "second")):
        found |= {name: Interval(None, None, None, n) for name in ("ceiling", "disattenuated")}
    return Alignment(method, space, **found, random=random_cosine(d))


def _around(value: float, drawn: np.ndarray, n: int) -> Interval:
    """Interval by the quantiles of replicates around their own median."""
    finite = drawn[np.isfinite(drawn)]
    if not np.isfinite(value):
        return Interval(None, None, None, n)
    if len(finite) < 2:
        return Interval(float(value), None, None, n)
    low, middle, high = np.quantile(finite, [0.025, 0.5, 0.975])
    return Interval(float(value), float(value - (high - middle)), float(value + (middle - low)), n)
