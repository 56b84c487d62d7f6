"""Statistics of weighted counts with their bootstrap intervals: what labels, need and attribution have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from toolsavvy.metrics import Interval, Resamples, interval

Statistic = Callable[[np.ndarray], np.ndarray]
"""Sums [..., column] -> numbers [..., statistic], NaN where undefined."""
Clusters = Sequence[object] | np.ndarray | None
"""What is independent, [item]; None for the items themselves."""


def over(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """Ratio, NaN for 0/0."""
    shape = np.broadcast_shapes(top.shape, bottom.shape)
    return np.divide(top, bottom, out=np.full(shape, np.nan), where=np.broadcast_to(bottom > 0, shape))


def estimates(
    values: np.ndarray,
    weights: np.ndarray | None,
    clusters: Clusters,
    statistic: Statistic,
    *,
    resamples: int = 2000,
    seed: int = 0,
) -> list[Interval]:
    """Statistics of weighted column sums, with their bootstrap intervals from the same resamples.

    Args:
        values: float [item, column].
        weights: float [item], or None.
        clusters: [item], or None for the items themselves.
        statistic: sums [..., column] -> numbers [..., statistic], NaN where undefined.
        resamples: replicates.
        seed: of the resampling.

    Raises:
        ValueError: weights that are negative or not finite, or lengths that differ.
    """
    items = len(values)
    weighted = values * checked_weights(weights, items)[:, None]
    point = statistic(weighted.sum(axis=0))
    if not items:
        return [Interval(None, None, None, 0) for _ in point]
    if clusters is not None and len(clusters) != items:
        raise ValueError(f"{items} items but {len(clusters)} clusters")
    drawn = Resamples.of(np.arange(items) if clusters is None else clusters, resamples, seed)
    replicates = statistic(drawn.totals(weighted)[0])
    return [interval(float(p), r, items, drawn.units) for p, r in zip(point, replicates.T, strict=True)]


def checked_weights(weights: np.ndarray | None, items: int) -> np.ndarray:
    """Weights float64 [item]; ones for None."""
    if weights is None:
        return np.ones(items)
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (items,):
        raise ValueError(f"{items} items but weights of shape {weights.shape}")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("weights must be finite and not negative")
    return weights


def inverse_sampling_weights(strata: Sequence[object], natural: Sequence[object]) -> np.ndarray:
    """Weights, mean 1, that give a rebalanced set the shares that its strata have by nature.

    Args:
        strata: [item] of the rebalanced set: its label, quadrant or family.
        natural: the same of every item that could have been drawn.

    Raises:
        ValueError: a stratum has items in one of the two alone; no weights could mend that.
    """
    kept, possible = Counter(strata), Counter(natural)
    if kept.keys() != possible.keys():
        raise ValueError(f"strata in one of the two sets alone: {sorted(map(str, kept.keys() ^ possible.keys()))}")
    weights = np.array([possible[s] / kept[s] for s in strata], dtype=np.float64)
    return weights / weights.mean() if len(weights) else weights
