"""Calibrated linear classifiers of predicted values: L2 chosen within groups, Platt's scaling on held-out log-odds.

Classes are not reweighted: the share of right values is part of what a probability has to say, and weights would move
AUC too. With few of one class, stronger penalties win by themselves, as cross-validation scores log loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolsavvy.classification import sigmoid
from toolsavvy.errors import UserError
from toolsavvy.probes.plan import LEAST, Batch
from toolsavvy.probes.problems import Problems
from toolsavvy.probes.selection import best_strength
from toolsavvy.probes.splits import fold_codes
from toolsavvy.probes.tallies import log_loss

STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Inverse penalties C to choose from, as scikit-learn's."""
FLATTEST = 1e-3
"""Least slope of the calibration: where held-out scores say nothing, probabilities are nearly the base rate, but their
order stays."""


@dataclass(frozen=True)
class Calibrated:
    """A linear classifier with Platt's scaling.

    Args:
        weights: float32 [d], on standardised features.
        bias: of the log-odds.
        mean: float32 [d], of the training rows.
        scale: float32 [d], deviation of the training rows.
        slope: of the calibration, positive.
        offset: of the calibration.
        strength: inverse penalty C.
    """

    weights: np.ndarray
    bias: float
    mean: np.ndarray
    scale: np.ndarray
    slope: float
    offset: float
    strength: float

    def log_odds(self, features: np.ndarray) -> np.ndarray:
        """Log-odds before calibration, float64 [item], of features [item, d]."""
        standardised = (np.asarray(features, dtype=np.float64) - self.mean) / self.scale
        return standardised @ self.weights.astype(np.float64) + self.bias

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """Calibrated probabilities, float64 [item]."""
        return self.calibrated(self.log_odds(features))

    def calibrated(self, log_odds: np.ndarray) -> np.ndarray:
        """Probabilities of log-odds."""
        return sigmoid(self.slope * np.asarray(log_odds) + self.offset)


@dataclass(frozen=True)
class Fitted:
    """A classifier and what it would have said of its own training rows.

    Args:
        model: trained on all rows.
        held_out: float64 [item], log-odds of every row by classifiers of the same strength that have not seen its
            group; NaN where there is none.
        losses: float64 [strength], mean held-out log loss.
    """

    model: Calibrated
    held_out: np.ndarray
    losses: np.ndarray


def fit_calibrated(
    features: Sequence[np.ndarray] | np.ndarray, right: np.ndarray, groups: Sequence[str], *,
    strengths: Sequence[float] = STRENGTHS, folds: int = 5, seed: int = 0,
    validation: tuple[Sequence[np.ndarray] | np.ndarray, np.ndarray] | None = None,
) -> list[Fitted]:  # fmt: skip
    """Fit one classifier a cell (layer); all cells share the folds, and all problems of a cell its features.

    Args:
        features: [cell] of [item, d], finite.
        right: bool [item].
        groups: [item]; rows of one group never lie on two sides of a fold.
        strengths: to choose from, by held-out log loss.
        folds: for the choice; fewer where there are fewer groups.
        seed: of the folds.
        validation: features [cell] of [other, d] and right [other] to calibrate on; None: the held-out log-odds of the
            training rows.

    Raises:
        UserError: fewer than two rows of a class, or features that are not finite.
    """
    from toolsavvy.probes.logistic import fit_cells

    right = np.asarray(right, dtype=bool)
    yes, no = int(right.sum()), int((~right).sum())
    if min(yes, no) < LEAST:
        raise UserError(
            f"{yes} right and {no} wrong values can't train a probe", where="probe",
            expected=f"at least {LEAST} of each", fix="more labelled tasks, or ones that the model gets partly right",
        )  # fmt: skip
    every = np.ones(len(right), dtype=bool)
    codes = fold_codes(every, right.astype(np.int64), folds, seed=seed, families=groups)
    batch = Batch(every)
    for s, strength in enumerate(strengths):
        for fold in np.unique(codes).tolist():
            batch.add(right, codes != fold, float(strength), s, fold)
    held = np.full((len(features), len(strengths), len(right)), np.nan)
    if batch.slots:
        for cell, fits in enumerate(fit_cells(features, batch.problems())):
            scores = fits.scores(np.asarray(features[cell], dtype=np.float32))
            for (s, fold), values in zip(batch.slots, scores, strict=True):
                held[cell, s, codes == fold] = values[codes == fold]
    losses = np.stack([_losses(right, cell, codes) for cell in held])
    best = [best_strength(cell, strengths) if np.isfinite(cell).any() else 0 for cell in losses]
    models = _finals(features, right, [float(strengths[b]) for b in best])
    found = []
    for cell, (model, b) in enumerate(zip(models, best, strict=True)):
        if validation is None:
            scores, labels = held[cell, b], right
        else:
            scores, labels = model.log_odds(validation[0][cell]), np.asarray(validation[1], dtype=bool)
        there = np.isfinite(scores)
        slope, offset = platt(scores[there], labels[there])
        scaled = Calibrated(model.weights, model.bias, model.mean, model.scale, slope, offset, model.strength)
        found.append(Fitted(scaled, held[cell, b], _mean(losses[cell])))
    return found


def _losses(right: np.ndarray, held: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Held-out log loss, float64 [fold, strength], of log-odds [strength, item]; NaN where a fold has no classifier."""
    return np.stack([log_loss(right[codes == fold], held[:, codes == fold]) for fold in np.unique(codes)])


def _mean(losses: np.ndarray) -> np.ndarray:
    """Mean over folds that have every strength, float64 [strength]."""
    rows = losses[np.isfinite(losses).all(1)]
    return rows.mean(0) if len(rows) else np.full(losses.shape[1], np.nan)


def _finals(
    features: Sequence[np.ndarray] | np.ndarray, right: np.ndarray, strengths: Sequence[float]
) -> list[Calibrated]:
    """One classifier a cell on all rows, each with its strength [cell]; not calibrated."""
    from toolsavvy.probes.logistic import fit_cells

    found: dict[int, Calibrated] = {}
    for strength in sorted(set(strengths)):
        cells = [i for i, s in enumerate(strengths) if s == strength]
        problems = Problems(right[None], np.ones((1, len(right)), dtype=bool), np.array([strength]))
        for cell, fits in zip(cells, fit_cells([features[i] for i in cells], problems), strict=True):
            found[cell] = Calibrated(
                fits.weights[0], float(fits.bias[0]), fits.mean[0], fits.scale[0], 1.0, 0.0, strength
            )
    return [found[i] for i in range(len(strengths))]


def platt(scores: np.ndarray, right: np.ndarray, steps: int = 100) -> tuple[float, float]:
    """Slope and offset of Platt's scaling (1999), with his smoothed targets, by Newton's method.

    Deviation: the slope is at least `FLATTEST`, so that scaling never turns an order around.

    Args:
        scores: float64 [item], held-out log-odds.
        right: bool [item].
        steps: at most.

    Returns:
        (1, 0) where there is no item of either class.
    """
    yes, no = int(right.sum()), int((~right).sum())
    if not yes or not no:
        return 1.0, 0.0
    spread = float(scores.std()) or 1.0
    table = np.stack([scores / spread, np.ones(len(scores))], axis=1)
    target = np.where(right, (yes + 1) / (yes + 2), 1 / (no + 2))
    found = _newton(table, target, np.array([0.0, np.log((yes + 1) / (no + 1))]), steps)
    if found[0] / spread < FLATTEST:
        # The offset alone, along the flattest slope that is allowed.
        fixed = FLATTEST * scores
        offset = _newton(table[:, 1:], target, np.array([found[1]]), steps, fixed)
        return FLATTEST, float(offset[0])
    return float(found[0] / spread), float(found[1])


def _newton(
    table: np.ndarray, target: np.ndarray, start: np.ndarray, steps: int, fixed: np.ndarray | float = 0.0
) -> np.ndarray:
    """Minimum of the mean log loss of soft targets [item], features [item, f]; halved steps where it would rise."""

    def loss(at: np.ndarray) -> float:
        values = table @ at + fixed
        return float((np.logaddexp(0.0, values) - target * values).mean())

    at, now = start, loss(start)
    for _ in range(steps):
        p = sigmoid(table @ at + fixed)
        gradient = table.T @ (p - target) / len(target)
        if np.abs(gradient).max() < 1e-10:
            break
        hessian = (table * (p * (1 - p))[:, None]).T @ table / len(target) + 1e-12 * np.eye(len(at))
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while size > 1e-8 and (new := loss(at - size * step)) > now:
            size /= 2
        if size <= 1e-8:
            break
        at, now = at - size * step, new
    return at
