"""How two scores of the same systems go together: Pearson's r, Spearman's rho, Kendall's tau-b, with intervals.

Definitions are scipy's: average ranks for ties, tau in its variant b, and no value where a side is constant. Systems
are what is resampled. A resample is a count per system, so that all three coefficients of all resamples come from a
few matrix products over the signs of pairwise differences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

KINDS = ("pearson", "spearman", "kendall")
"""In the order of tables."""
LEAST, ENOUGH = 3, 10
"""Systems below which a correlation is undefined, and below which nothing follows from it."""


@dataclass(frozen=True)
class Coefficient:
    """One correlation.

    Args:
        kind: pearson | spearman | kendall.
        value: None where it is undefined.
        low: lower end of the 95 % interval; None where the value is undefined or no resample gives another one.
        high: upper end, likewise.
        n: systems.
    """

    kind: str
    value: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Paired:
    """Two scores of the same systems, and who had to be left out.

    Args:
        systems: with two finite scores, in the order of x.
        x: float64 [system].
        y: float64 [system].
        missing: system -> why it is left out.
    """

    systems: tuple[str, ...]
    x: np.ndarray
    y: np.ndarray
    missing: Mapping[str, str]

    @property
    def undefined(self) -> str:
        """Why there is no coefficient at all; '' where there is one."""
        if len(self.systems) < LEAST:
            return f"n={len(self.systems)}: undefined with fewer than {LEAST} systems"
        constant = [name for name, values in (("x", self.x), ("y", self.y)) if np.ptp(values) == 0]
        return f"undefined: {' and '.join(constant)} the same for all {len(self.systems)} systems" if constant else ""


def paired(x: Mapping[str, float | None], y: Mapping[str, float | None]) -> Paired:
    """Join two scores by system; one whose score is absent, None, NaN or infinite is left out, and told.

    Scores that differ by less than 1e-12 of the largest are tied: means over the same items differ in the last bits.
    """
    kept: list[str] = []
    missing: dict[str, str] = {}
    for system in dict.fromkeys([*x, *y]):
        faults = [fault for name, side in (("x", x), ("y", y)) if (fault := _fault(name, side, system))]
        if faults:
            missing[system] = ", ".join(faults)
        else:
            kept.append(system)
    columns = [_rounded(np.array([side[s] for s in kept], dtype=np.float64)) for side in (x, y)]
    return Paired(tuple(kept), columns[0], columns[1], missing)


def _rounded(values: np.ndarray) -> np.ndarray:
    """Twelve digits of the largest."""
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    return np.round(values, 12 - int(np.ceil(np.log10(largest))))


def _fault(name: str, side: Mapping[str, float | None], system: str) -> str:
    if system not in side:
        return f"not in {name}"
    value = side[system]
    return "" if value is not None and np.isfinite(value) else f"no number in {name}"


def correlate(data: Paired, resamples: int = 2000, seed: int = 0) -> tuple[Coefficient, ...]:
    """All three coefficients with 95 % BCa bootstrap intervals over systems (Efron 1987).

    Args:
        data: the scores.
        resamples: of the bootstrap.
        seed: of the bootstrap.
    """
    n = len(data.systems)
    if data.undefined:
        return tuple(Coefficient(kind, None, None, None, n) for kind in KINDS)
    value = coefficients(data.x, data.y)[0]
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=resamples)
    replicates = coefficients(data.x, data.y, drawn)
    left_out = coefficients(data.x, data.y, 1 - np.eye(n))
    ends = [_bca(value[i], replicates[:, i], left_out[:, i]) for i in range(len(KINDS))]
    return tuple(Coefficient(kind, float(v), *end, n) for kind, v, end in zip(KINDS, value, ends, strict=True))


def coefficients(x: np.ndarray, y: np.ndarray, counts: np.ndarray | None = None) -> np.ndarray:
    """Pearson, Spearman and Kendall, float64 [resample, 3]; NaN where a side is constant.

    Args:
        x: float64 [system].
        y: float64 [system].
        counts: [resample, system], how often each system is drawn; every system once by default.
    """
    weights = np.ones((1, len(x))) if counts is None else np.asarray(counts, dtype=np.float64)
    signs_x, signs_y = np.sign(x[:, None] - x), np.sign(y[:, None] - y)
    untied_x, untied_y = (_quadratic(weights, signs**2) for signs in (signs_x, signs_y))
    tau = _ratio(_quadratic(weights, signs_x * signs_y), untied_x, untied_y)
    rho = _ratio(*_moments(weights, (weights @ signs_x.T, weights @ signs_y.T)))
    centred = (np.broadcast_to(_standard(side), weights.shape) for side in (x, y))
    r = _ratio(*_moments(weights, tuple(centred)))
    found = np.clip(np.stack([r, rho, tau], axis=1), -1, 1)
    return np.where(((untied_x > 0) & (untied_y > 0))[:, None], found, np.nan)  # exact, unlike a variance of 0


def _quadratic(weights: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Compute w' M w of every row of the weights, [resample]."""
    return ((weights @ matrix) * weights).sum(axis=1)


def _standard(values: np.ndarray) -> np.ndarray:
    """Centred and scaled, so that the moments of far-off scores keep their digits."""
    centred = values - values.mean()
    return centred / (np.abs(centred).max() or 1.0)


def _moments(weights: np.ndarray, sides: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weighted covariance and both variances (times n) of values [resample, system]."""
    total = weights.sum(axis=1, keepdims=True)
    a, b = (side - (weights * side).sum(axis=1, keepdims=True) / total for side in sides)
    return (weights * a * b).sum(axis=1), (weights * a * a).sum(axis=1), (weights * b * b).sum(axis=1)


def _ratio(top: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute top / sqrt(first second), NaN at 0."""
    bottom = np.sqrt(first) * np.sqrt(second)
    return np.divide(top, bottom, out=np.full(len(top), np.nan), where=bottom > 0)


def _bca(value: float, replicates: np.ndarray, left_out: np.ndarray) -> tuple[float | None, float | None]:
    """Ends of the bias-corrected and accelerated interval; None where the resamples say nothing.

    Args:
        value: the estimate.
        replicates: [resample], constant resamples as NaN: they are left out.
        left_out: [system], the estimate without each system.
    """
    finite, normal = replicates[np.isfinite(replicates)], NormalDist()
    if len(finite) < 2 or np.ptp(finite) < 1e-12:
        return None, None
    below = (np.sum(finite < value - 1e-12) + 0.5 * np.sum(np.abs(finite - value) <= 1e-12)) / len(finite)
    bias = normal.inv_cdf(float(np.clip(below, 0.5 / len(finite), 1 - 0.5 / len(finite))))
    known = left_out[np.isfinite(left_out)]
    pulls = known.mean() - known if len(known) else known
    spread = float((pulls**2).sum()) ** 1.5
    acceleration = float((pulls**3).sum()) / (6 * spread) if spread > 0 else 0.0
    shifted = [bias + normal.inv_cdf(p) for p in (0.025, 0.975)]
    levels = [normal.cdf(bias + z / max(1 - acceleration * z, 1e-6)) for z in shifted]
    low, high = np.quantile(finite, levels)
    return float(low), float(high)


def fisher_interval(r: float, n: int) -> tuple[float, float] | None:
    """95 % interval of Pearson's r under normal scores (Fisher's z); None where it has none (n < 4, or |r| = 1)."""
    if n < 4 or abs(r) >= 1:
        return None
    reach = 1.959963984540054 / (n - 3) ** 0.5
    return float(np.tanh(np.arctanh(r) - reach)), float(np.tanh(np.arctanh(r) + reach))


def verdict(found: Coefficient, reason: str = "") -> str:
    """What may be said: nothing below `ENOUGH` systems, else whether the interval leaves out 0.

    Args:
        found: one coefficient.
        reason: `Paired.undefined`.
    """
    if found.value is None:
        return reason or "undefined"
    if found.n < ENOUGH:
        return f"n={found.n}: no conclusion"
    if found.low is None or found.high is None:
        return "no interval: every resample gives the same"
    sign = "go together" if found.value > 0 else "go against each other"
    return sign if found.low > 0 or found.high < 0 else "no correlation shown"
