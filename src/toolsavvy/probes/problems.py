"""What probes are asked to fit, and what came out: the types that solvers and their users share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Problems:
    """Binary classification problems over the same features; those of one call share every pass over the features.

    Args:
        targets: bool [problem, item].
        rows: bool [problem, item], items that are trained on; features are standardised on these alone.
        strengths: float64 [problem], inverse penalty C of C * sum of log losses + |w|^2 / 2, as scikit-learn has it.
    """

    targets: np.ndarray
    rows: np.ndarray
    strengths: np.ndarray

    def __len__(self) -> int:
        """Number of problems."""
        return len(self.strengths)


@dataclass(frozen=True)
class Fits:
    """Linear probes of one cell.

    Args:
        weights: float32 [problem, d], on standardised features.
        bias: float32 [problem].
        mean: float32 [problem, d], of the training rows.
        scale: float32 [problem, d], standard deviation of the training rows; 1 where it is 0.
        steps: int64 [problem], iterations.
        gradient: float64 [problem], largest entry of the last gradient.
    """

    weights: np.ndarray
    bias: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    steps: np.ndarray
    gradient: np.ndarray

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Log-odds of every item, float32 [problem, item], from raw features [item, d]."""
        raw = self.weights / self.scale
        return raw @ features.T + (self.bias - (raw * self.mean).sum(1))[:, None]
