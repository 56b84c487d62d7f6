"""What is kept of a probe on a cell: counts from which every metric follows, also pooled over rotations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolsavvy.classification import Confusion, wins

COLUMNS = ("tp", "fp", "fn", "tn", "won", "pairs")
"""Four counts at a threshold of 0.5, and the two sides of AUC."""


@dataclass(frozen=True)
class Tallies:
    """Counts of many probes.

    Args:
        counts: float64 [..., COLUMNS]; NaN where a probe could not be trained.
    """

    counts: np.ndarray

    @property
    def confusion(self) -> Confusion:
        """The four outcomes."""
        return Confusion(*np.moveaxis(self.counts[..., :4], -1, 0))

    def metric(self, name: str) -> np.ndarray:
        """One of mcc, auc, accuracy, f1, float64 [...]; NaN where it is undefined."""
        if name != "auc":
            return getattr(self.confusion, name)
        won, pairs = self.counts[..., 4], self.counts[..., 5]
        return np.divide(won, pairs, out=np.full(won.shape, np.nan), where=pairs > 0)

    def pooled(self, axis: int) -> Tallies:
        """Sum over an axis of rotations, which test different items; those that could not be trained are left out.

        AUC compares items of one rotation alone: scores of different probes have no common scale.
        """
        empty = np.isnan(self.counts).all(axis=axis)
        return Tallies(np.where(empty, np.nan, np.nansum(self.counts, axis=axis)))


def tally(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Counts of one probe on the items given: float64 [COLUMNS] from bool [item] and log-odds [item]."""
    said = scores > 0
    tp, positive, negative = (said & labels).sum(), labels.sum(), (~labels).sum()
    fp = said.sum() - tp
    won, pairs = wins(labels, scores)
    return np.array([tp, fp, positive - tp, negative - fp, won, pairs], dtype=np.float64)


def log_loss(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Mean log loss, float64 [problem], of log-odds [problem, item]; labels bool [problem, item] or [item]."""
    signed = np.where(labels, scores, -scores).astype(np.float64)
    return np.logaddexp(0.0, -signed).mean(-1)


def no_tallies(shape: Sequence[int]) -> np.ndarray:
    """Counts of probes that have not been trained: NaN [*shape, COLUMNS]."""
    return np.full((*shape, len(COLUMNS)), np.nan)
