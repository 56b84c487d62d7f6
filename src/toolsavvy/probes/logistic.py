"""L2 logistic regression of many problems at once: every pass over a cell's features serves all of them.

The objective is scikit-learn's: mean log loss over a problem's training rows + |w|^2 / (2 C n), intercept unpenalised,
on features standardised by those rows. Standardisation is an affine change of the weights, so that folds share one
matrix. Solver: L-BFGS whose first metric is (h S + 1 / (C n))^-1 with S the features' covariance and h a problem's mean
p (1 - p), and whose line search works on stored log-odds, so that a step is two matrix products.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from toolsavvy.errors import UserError
from toolsavvy.hidden.cells import Cells
from toolsavvy.probes.problems import Fits, Problems

MEMORY = 10
SEARCH = 8
ROUNDING = float(np.finfo(np.float32).eps) * 4


def fit(features: np.ndarray, problems: Problems, *, tolerance: float = 1e-4, max_steps: int = 1000) -> Fits:
    """Fit all problems on one cell's features.

    Args:
        features: float32 [item, d]; items that no problem trains on may hold NaN.
        problems: targets, training rows and strengths C.
        tolerance: largest entry of the objective's gradient (mean loss, by standardised weights and intercept) at which
            a problem is done: the criterion of scikit-learn's lbfgs.
        max_steps: a problem that takes more stays as it is; its `gradient` tells.

    Returns:
        One row a problem. A feature that is constant over a problem's training rows (up to float32 rounding, where
        scikit-learn's StandardScaler takes rounding for variation) has scale 1 and weight 0.

    Raises:
        UserError: shapes that don't fit, a strength that is not positive, a training set with one class, or features
            that are not finite in a training row; the problem is named.
    """
    features = np.asarray(features, dtype=np.float32)
    check(features, problems)
    table = standardised(features, problems)
    return solve(table, problems, tolerance, max_steps)


def fit_cells(
    features: np.ndarray | Cells | Sequence[np.ndarray], problems: Problems, *, tolerance: float = 1e-4,
    max_steps: int = 1000,
) -> list[Fits]:  # fmt: skip
    """Fit all problems on every cell; memory is that of one cell.

    Args:
        features: float32 [cell, item, d], or what can be read cell by cell.
        problems: as in `fit`, the same for every cell.
        tolerance: as in `fit`.
        max_steps: as in `fit`.
    """
    return [fit(x, problems, tolerance=tolerance, max_steps=max_steps) for x in each_cell(features)]


def each_cell(features: Any) -> Iterator[np.ndarray]:
    """Features of one cell after the other."""
    if hasattr(features, "read"):
        for index in range(len(features.cells)):
            yield features.read(index)
    else:
        yield from features


def check(features: np.ndarray, problems: Problems) -> None:
    """Refuse what has no solution or no meaning, naming the problem."""
    shape = (len(problems), features.shape[0]) if features.ndim == 2 else None
    if shape is None or problems.targets.shape != shape or problems.rows.shape != shape:
        raise UserError(
            f"features {features.shape}, targets {problems.targets.shape}, rows {problems.rows.shape}",
            where="probes", expected="features [item, d], targets and rows [problem, item], one strength a problem",
        )  # fmt: skip
    targets, rows = problems.targets.astype(bool), problems.rows.astype(bool)
    finite = np.isfinite(features @ np.ones(features.shape[1], np.float32)) | np.isfinite(features).all(1)
    strengths = np.asarray(problems.strengths, dtype=np.float64)
    positives, sizes = (targets & rows).sum(1), rows.sum(1)
    for index in range(len(problems)):
        where = f"probe problem {index}"
        if not (np.isfinite(strengths[index]) and strengths[index] > 0):
            raise UserError(f"strength C is {strengths[index]}", where=where, expected="a positive number")
        if positives[index] in (0, sizes[index]):
            raise UserError(
                f"all {sizes[index]} training items have the same label", where=where, expected="both classes",
                fix="leave the probe out where a label has one class, or train on more items",
            )  # fmt: skip
        bad = np.flatnonzero(rows[index] & ~finite)
        if len(bad):
            raise UserError(
                f"features of {len(bad)} training items are not finite (first: item {bad[0]})", where=where,
                expected="finite features in every training row",
                fix="take these items out of rows (texts too short for a position have rows of NaN)",
            )  # fmt: skip


@dataclass(frozen=True)
class Table:
    """One cell's features, standardised over all items that are trained on, and what makes them each problem's own.

    Args:
        shared: [used item, d].
        used: [used item], their indices.
        mean: float64 [d], of the shared standardisation.
        scale: float64 [d].
        shift: [problem, d], a problem's means of `shared`.
        factor: [problem, d], 1 / a problem's deviations of `shared`; 0 for constant features.
    """

    shared: Tensor
    used: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    shift: Tensor
    factor: Tensor


def standardised(features: np.ndarray, problems: Problems) -> Table:
    """Standardise over the union of training rows, then find each problem's own mean and deviation on top of it."""
    used = np.flatnonzero(problems.rows.any(0))
    raw = features[used]
    mean = raw.mean(0, dtype=np.float64)
    shared = raw - mean.astype(np.float32)
    largest = np.abs(raw).max(0)
    scale = np.sqrt(np.square(shared).mean(0, dtype=np.float64))
    scale[scale <= ROUNDING * largest] = 1.0
    shared /= scale.astype(np.float32)
    folds, which = np.unique(problems.rows[:, used], axis=0, return_inverse=True)
    shift, factor = np.empty((2, len(folds), len(mean)))
    for index, fold in enumerate(folds):
        part = shared[fold]
        shift[index] = part.mean(0, dtype=np.float64)
        deviation = np.sqrt(np.maximum(np.square(part).mean(0, dtype=np.float64) - shift[index] ** 2, 0))
        for column in np.flatnonzero(deviation < 0.1):
            deviation[column] = part[:, column].std(dtype=np.float64)
        constant = deviation * scale <= ROUNDING * largest
        factor[index] = np.where(constant, 0, 1 / np.where(constant, 1, deviation))
    which = which.reshape(-1)
    return Table(
        torch.from_numpy(shared), used, mean.astype(np.float32).astype(np.float64), scale,
        torch.from_numpy(shift[which]).float(), torch.from_numpy(factor[which]).float(),
    )  # fmt: skip


def solve(table: Table, problems: Problems, tolerance: float, max_steps: int) -> Fits:
    """Run the solver until every problem's gradient is small."""
    solver = Solver(table, problems)
    while len(solver.alive) and solver.step <= max_steps:
        solver.retire(tolerance)
        if len(solver.alive):
            solver.advance()
    solver.retire(np.inf)
    return solver.fits(table)


class Solver:
    """State of all problems that have not converged; the vectors are [problem, d + 1], the last entry the intercept."""

    def __init__(self, table: Table, problems: Problems) -> None:
        self.x = table.shared
        covariance = self.x.T @ self.x / len(self.x)
        values, self.basis = torch.linalg.eigh(covariance)
        self.values = values.clamp(min=0)
        self.shift, self.factor = table.shift, table.factor
        rows = torch.from_numpy(problems.rows[:, table.used].astype(np.float32))
        self.sizes = rows.sum(1, keepdim=True)
        self.rows = rows / self.sizes
        self.targets = torch.from_numpy(problems.targets[:, table.used].astype(np.float32))
        self.penalty = 1 / (torch.from_numpy(np.asarray(problems.strengths, np.float64))[:, None] * self.sizes).float()
        count, d = len(problems), self.x.shape[1]
        self.point = torch.zeros(count, d + 1)
        self.odds = torch.zeros(count, len(self.x))
        self.residual, self.curvature = self.pull(self.odds)
        self.slope = self.gradient()
        self.steps = torch.zeros(MEMORY, count, d + 1)
        self.turns = torch.zeros(MEMORY, count, d + 1)
        self.inverse = torch.zeros(MEMORY, count)
        self.alive, self.step = torch.arange(count), 0
        self.solution = torch.zeros(count, d + 1)
        self.taken = torch.zeros(count, dtype=torch.int64)
        self.reached = torch.full((count,), torch.inf, dtype=torch.float64)

    def forward(self, vectors: Tensor) -> Tensor:
        """Log-odds [problem, item] of weights and intercepts."""
        own = vectors[:, :-1] * self.factor
        return torch.addmm((vectors[:, -1] - (own * self.shift).sum(1))[:, None], own, self.x.T)

    def pull(self, odds: Tensor) -> tuple[Tensor, Tensor]:
        """Derivatives of the mean loss by the log-odds, first and second."""
        p = odds.sigmoid()
        return (p - self.targets) * self.rows, p * (1 - p) * self.rows

    def gradient(self) -> Tensor:
        """Gradient of the objective by standardised weights and intercept."""
        total = self.residual.sum(1, keepdim=True)
        weights = (self.residual @ self.x - self.shift * total) * self.factor + self.penalty * self.point[:, :-1]
        return torch.cat([weights, total], 1)

    def metric(self, vectors: Tensor) -> Tensor:
        """Approximate inverse Hessian times vectors."""
        h = self.curvature.sum(1, keepdim=True).clamp(min=1e-6)
        weights = (vectors[:, :-1] @ self.basis) / (h * self.values + self.penalty) @ self.basis.T
        return torch.cat([weights * (self.factor > 0), vectors[:, -1:] / h], 1)

    def direction(self) -> Tensor:
        """L-BFGS's two loops, newest pair first and then back."""
        q, kept = -self.slope, []
        recent = [(self.step - 1 - i) % MEMORY for i in range(min(self.step, MEMORY))]
        for i in recent:
            a = (self.inverse[i] * (self.steps[i] * q).sum(1))[:, None]
            q = q - a * self.turns[i]
            kept.append(a)
        q = self.metric(q)
        for i, a in zip(reversed(recent), reversed(kept), strict=True):
            b = (self.inverse[i] * (self.turns[i] * q).sum(1))[:, None]
            q = q + self.steps[i] * (a - b)
        return q

    def advance(self) -> None:
        """One step of every problem that is left."""
        way = self.direction()
        start = (way * self.slope).sum(1)
        uphill = start >= 0
        if uphill.any():
            self.inverse[:, uphill] = 0
            way[uphill] = self.metric(-self.slope)[uphill]
            start = (way * self.slope).sum(1)
        along = self.forward(way)
        length = self.search(way, along, start)[:, None]
        slope = self.slope
        self.point = self.point + length * way
        self.odds = self.odds + length * along
        self.residual, self.curvature = self.pull(self.odds)
        self.slope = self.gradient()
        at = self.step % MEMORY
        self.steps[at], self.turns[at] = length * way, self.slope - slope
        product = (self.steps[at] * self.turns[at]).sum(1)
        floor = 1e-10 * self.steps[at].norm(dim=1) * self.turns[at].norm(dim=1)
        self.inverse[at] = torch.where(product > floor, 1 / product, 0)
        self.step += 1

    def search(self, way: Tensor, along: Tensor, start: Tensor) -> Tensor:
        """Length at which the derivative along the way has fallen to a tenth, by safeguarded Newton (it is convex)."""
        linear = self.penalty[:, 0] * (way[:, :-1] * self.point[:, :-1]).sum(1)
        square = self.penalty[:, 0] * way[:, :-1].square().sum(1)
        length = torch.ones_like(start)
        low, high = torch.zeros_like(start), torch.full_like(start, torch.inf)
        for _ in range(SEARCH):
            first, second = self.pull(self.odds + length[:, None] * along)
            rise = (first * along).sum(1) + linear + length * square
            done = rise.abs() <= 0.2 * start.abs()
            if done.all():
                break
            low, high = torch.where(rise < 0, length, low), torch.where(rise > 0, length, high)
            bend = (second * along.square()).sum(1) + square
            newton = length - rise / bend.clamp(min=1e-30)
            middle = torch.where(high.isinf(), 2 * length, (low + high) / 2)
            inside = (newton > low) & (newton < high) & (newton < 10 * length)
            length = torch.where(done, length, torch.where(inside, newton, middle))
        return length

    def retire(self, tolerance: float) -> None:
        """Keep the solutions that are good enough, and go on with the others alone."""
        largest = self.slope.abs().amax(1)
        done = largest <= tolerance
        if not done.any():
            return
        index = self.alive[done]
        self.solution[index], self.reached[index] = self.point[done], largest[done].double()
        self.taken[index] = self.step
        keep = ~done
        for name in ("shift", "factor", "rows", "targets", "penalty", "point", "odds", "residual", "curvature",
                     "slope", "alive"):  # fmt: skip
            setattr(self, name, getattr(self, name)[keep])
        self.steps, self.turns, self.inverse = self.steps[:, keep], self.turns[:, keep], self.inverse[:, keep]

    def fits(self, table: Table) -> Fits:
        """What was found, in each problem's own standardisation of the raw features."""
        weights, bias = self.solution[:, :-1].numpy().copy(), self.solution[:, -1].numpy().copy()
        return Fits(weights, bias, *to_raw(table), self.taken.numpy(), self.reached.numpy())


def to_raw(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Means and deviations [problem, d] of the raw features over each problem's training rows."""
    shift, factor = table.shift.double().numpy(), table.factor.double().numpy()
    scale = np.where(factor > 0, table.scale / np.where(factor > 0, factor, 1), 1.0)
    return (table.mean + table.scale * shift).astype(np.float32), scale.astype(np.float32)
