"""Batched L-BFGS for logistic regression: many problems over one matrix, which share every pass over it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from toolsavvy.probes.problems import Fits, Problems

MEMORY = 32  # pairs of steps and turns
FREEZE = 3  # the step at which the first metric is fixed, and memory starts anew
SEARCH = 10  # most tries of a line search
WORTH = 4  # from so many problems a cell on, they are faster together than each by `newton.py`
FULL, RANK = 1024, 512  # widest features whose covariance is taken apart whole; directions kept of wider ones


@dataclass(frozen=True)
class Table:
    """One cell's features, centred, and what standardises them for each problem.

    Args:
        shared: [used item, d], minus `mean`.
        used: [used item], the items that some problem trains on.
        mean: float64 [d].
        shift: [problem, d], a problem's means of `shared`.
        factor: [problem, d], 1 / a problem's standard deviations; 0 for constant features.
    """

    shared: Tensor
    used: np.ndarray
    mean: np.ndarray
    shift: Tensor
    factor: Tensor


def to_raw(table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Means and deviations [problem, d] of the raw features over each problem's training rows."""
    mean = torch.from_numpy(table.mean) + table.shift.double()
    return mean.float().numpy(), torch.where(table.factor > 0, 1 / table.factor, 1).numpy()


@dataclass(frozen=True)
class Metric:
    """Where one cell's standardised features vary: the Hessian's own directions while all items weigh the same.

    Args:
        basis: [d, k], orthonormal.
        values: [k], variances.
        rest: of the other directions.
    """

    basis: Tensor
    values: Tensor
    rest: float

    def solve(self, vectors: Tensor, weight: Tensor, penalty: Tensor) -> Tensor:
        """(weight * covariance + penalty)^-1 times vectors [problem, d]."""
        inner = vectors @ self.basis
        known = 1 / (weight * self.values + penalty)
        if self.basis.shape[0] == self.basis.shape[1]:
            return (inner * known) @ self.basis.T
        other = 1 / (weight * self.rest + penalty)
        return torch.addmm(vectors * other, inner * (known - other), self.basis.T)


def metric_of(table: Table) -> Metric:
    """All directions while d is small, else the widest ones by one randomised pass (Halko et al., 0909.4061)."""
    scale = table.factor.amax(0)
    d, count = table.shared.shape[1], len(table.shared)
    if d <= FULL:
        covariance = (table.shared.T @ table.shared) * (scale[:, None] * scale / count)
        values, basis = torch.linalg.eigh(covariance)
        return Metric(basis, values.clamp(min=0), 0.0)
    draws = torch.randn(min(RANK, count), count, generator=torch.Generator().manual_seed(0))
    span = torch.linalg.qr(((draws @ table.shared) * scale).T)[0]
    inside = table.shared @ (span * scale[:, None])
    values, turn = torch.linalg.eigh(inside.T @ inside / count)
    return Metric(span @ turn, values.clamp(min=0), float(values[0].clamp(min=0)))


@torch.inference_mode()
def solve(table: Table, problems: Problems, tolerance: float, max_steps: int) -> Fits:
    """Fit problems on one cell at once, until every gradient is small."""
    solver = Solver(table, problems)
    while solver.step < max_steps:
        solver.retire(tolerance)
        if not len(solver.alive):
            break
        solver.advance()
    solver.retire(np.inf)
    return solver.fits(table)


class History:
    """Steps s and preconditioned turns H y of the last iterations, and the inverse Hessian that they make.

    Byrd, Nocedal and Schnabel's compact form (1994, theorem 2.2): a few batched products, where two loops would be
    dozens of tiny ones, so that memory can be long. Slots are a ring; a problem's unusable pair is one of zeros.
    """

    def __init__(self, count: int, width: int) -> None:
        self.moves, self.turns = torch.zeros(2, count, MEMORY, width)
        # s_i . y_j and y_i . H y_j; float64 because triangular systems in them are solved
        self.cross, self.square = torch.zeros(2, count, MEMORY, MEMORY, dtype=torch.float64)
        self.by_moves, self.by_turns = torch.zeros(2, count, MEMORY, dtype=torch.float64)  # times the gradient
        self.width = torch.ones(count, 1, dtype=torch.float64)
        self.pairs = 0

    def restart(self) -> None:
        """Forget all pairs."""
        self.pairs = 0
        self.width.fill_(1)

    def forget(self, which: Tensor) -> None:
        """Forget the pairs of some problems (bool [problem])."""
        for part in (self.moves, self.turns, self.cross, self.square, self.by_moves, self.by_turns):
            part[which] = 0
        torch.diagonal(self.cross, dim1=1, dim2=2)[which] = 1
        self.width[which] = 1

    def keep(self, which: Tensor) -> None:
        """Go on with some problems alone."""
        for name in ("moves", "turns", "cross", "square", "by_moves", "by_turns", "width"):
            setattr(self, name, getattr(self, name)[which])

    def add(self, move: Tensor, change: Tensor, turn: Tensor, slope: Tensor) -> None:
        """Remember a step, the gradient's change along it (plain and preconditioned), and the gradient reached."""
        at = self.pairs % MEMORY
        product, square = (torch.linalg.vecdot(other, change).double() for other in (move, turn))
        good = (product > 1e-9 * square)[:, None]
        self.moves[:, at], self.turns[:, at] = move * good, turn * good
        self.pairs += 1
        used = slice(min(self.pairs, MEMORY))
        before = self.by_moves[:, used], self.by_turns[:, used]
        now = tuple(torch.bmm(slope[:, None], part[:, used].mT)[:, 0].double() for part in (self.moves, self.turns))
        self.cross[:, used, at], self.square[:, used, at] = ((n - b) * good for n, b in zip(now, before, strict=True))
        self.square[:, at, used] = self.square[:, used, at].clone()
        self.cross[:, at, at] = torch.where(good[:, 0], product, 1)
        self.square[:, at, at] = torch.where(good[:, 0], square, 0)
        self.by_moves[:, used], self.by_turns[:, used] = now
        self.width = torch.where(good, (product / square)[:, None], self.width)

    def direction(self, turned: Tensor) -> Tensor:
        """Where to go from a preconditioned gradient."""
        if not self.pairs:
            return -turned
        used = min(self.pairs, MEMORY)
        order = (torch.arange(used) + (self.pairs if self.pairs > MEMORY else 0)) % MEMORY
        cross, square = (part[:, order][:, :, order] for part in (self.cross, self.square))
        by_moves, by_turns = (part[:, order, None] for part in (self.by_moves, self.by_turns))
        width = self.width[:, :, None]
        upper = cross.triu()
        u = torch.linalg.solve_triangular(upper, by_moves, upper=True)
        inner = torch.diagonal(cross, dim1=1, dim2=2)[:, :, None] * u + width * (square @ u - by_turns)
        v = torch.linalg.solve_triangular(upper.mT, inner, upper=False)
        ring = torch.empty(2, len(u), 1, used)
        ring[:, :, 0, order] = torch.stack([v, -width * u])[..., 0].float()
        result = turned * self.width.float()
        result += torch.bmm(ring[0], self.moves[:, :used])[:, 0]
        return -result.add_(torch.bmm(ring[1], self.turns[:, :used])[:, 0])


class Solver:
    """State of all problems that have not converged; a vector is d weights and the intercept."""

    def __init__(self, table: Table, problems: Problems) -> None:
        self.matrix, self.metric = table.shared, metric_of(table)
        self.shift, self.factor = table.shift, table.factor
        rows = torch.from_numpy(problems.rows[:, table.used].astype(np.float32))
        sizes = rows.sum(1, keepdim=True)
        self.rows = rows / sizes
        self.targets = torch.from_numpy(problems.targets[:, table.used].astype(np.float32))
        strengths = torch.from_numpy(np.asarray(problems.strengths, dtype=np.float64))[:, None]
        self.penalty = (1 / (strengths * sizes)).float()
        count, width = len(problems), self.matrix.shape[1] + 1
        self.solution, self.alive, self.step = torch.zeros(count, width), torch.arange(count), 0
        self.taken = torch.full((count,), -1)
        self.reached = torch.full((count,), torch.inf, dtype=torch.float64)
        self.point, self.odds = torch.zeros(count, width), torch.zeros(count, len(self.matrix))
        self.history = History(count, width)
        self.residual, self.curvature = self.pull(self.odds)
        self.weight = self.curvature.sum(1, keepdim=True)
        self.slope = self.gradient()
        self.turned = self.precondition(self.slope)

    def forward(self, vectors: Tensor) -> Tensor:
        """Log-odds [problem, item] of weights and intercepts."""
        own = vectors[:, :-1] * self.factor
        odds = own @ self.matrix.T
        return odds.add_((vectors[:, -1] - torch.linalg.vecdot(own, self.shift))[:, None])

    def pull(self, odds: Tensor) -> tuple[Tensor, Tensor]:
        """Derivatives of the mean loss by the log-odds, first and second."""
        p = odds.sigmoid()
        second = torch.addcmul(p, p, p, value=-1).mul_(self.rows)
        return p.sub_(self.targets).mul_(self.rows), second

    def gradient(self) -> Tensor:
        """Gradient of the objective by standardised weights and intercept."""
        slope = torch.empty_like(self.point)
        weights = slope[:, :-1]
        weights.copy_(self.residual @ self.matrix)
        total = self.residual.sum(1, keepdim=True)
        weights.addcmul_(self.shift, total, value=-1).mul_(self.factor)
        weights.addcmul_(self.point[:, :-1], self.penalty)
        slope[:, -1:] = total
        return slope

    def precondition(self, vectors: Tensor) -> Tensor:
        """The first metric times vectors."""
        result = torch.empty_like(vectors)
        result[:, :-1] = self.metric.solve(vectors[:, :-1], self.weight, self.penalty)
        result[:, :-1] *= self.factor > 0
        result[:, -1:] = vectors[:, -1:] / self.weight
        return result

    def advance(self) -> None:
        """One step of every problem that is left."""
        if self.step == FREEZE:
            self.weight = self.curvature.sum(1, keepdim=True).clamp(min=1e-6)
            self.turned = self.precondition(self.slope)
            self.history.restart()
        way = self.history.direction(self.turned)
        start = torch.linalg.vecdot(way, self.slope)
        uphill = ~(start < 0)
        if uphill.any():  # rounding has spoilt what was remembered
            self.history.forget(uphill)
            way[uphill] = -self.turned[uphill]
            start = torch.linalg.vecdot(way, self.slope)
        along = self.forward(way)
        move = self.search(way, along, start)[:, None] * way
        self.point = self.point + move
        slope = self.gradient()
        turned = self.precondition(slope)
        self.history.add(move, slope - self.slope, turned - self.turned, slope)
        self.slope, self.turned = slope, turned
        self.step += 1

    def search(self, way: Tensor, along: Tensor, start: Tensor) -> Tensor:
        """Go to where the derivative along the way has fallen to a fifth, by safeguarded Newton (it is monotone)."""
        inner, penalty = way[:, :-1], self.penalty[:, 0]
        linear = penalty * torch.linalg.vecdot(inner, self.point[:, :-1])
        square = penalty * torch.linalg.vecdot(inner, inner)
        low, high = torch.zeros_like(start), torch.full_like(start, torch.inf)
        length = -start / (torch.linalg.vecdot(self.curvature * along, along) + square).clamp(min=1e-30)
        for attempt in range(SEARCH):
            odds = torch.addcmul(self.odds, along, length[:, None])
            self.residual, self.curvature = self.pull(odds)
            rise = torch.linalg.vecdot(self.residual, along) + linear + length * square
            going = rise.abs() > 0.2 * start.abs()
            if attempt == SEARCH - 1 or not going.any():
                break
            low, high = torch.where(rise < 0, length, low), torch.where(rise > 0, length, high)
            bend = torch.linalg.vecdot(self.curvature * along, along) + square
            newton = length - rise / bend.clamp(min=1e-30)
            middle = torch.where(high.isinf(), 2 * length, (low + high) / 2)
            inside = (newton > low) & (newton < high) & (newton < 10 * length)
            length = torch.where(going, torch.where(inside, newton, middle), length)
        self.odds = odds
        return length

    def retire(self, tolerance: float) -> None:
        """Keep the solutions that are good enough, and go on without them once they are many."""
        largest = self.slope.abs().amax(1)
        done = (largest <= tolerance) | (self.taken[self.alive] >= 0)
        fresh = done & (self.taken[self.alive] < 0)
        if fresh.any():
            index = self.alive[fresh]
            self.solution[index], self.reached[index] = self.point[fresh], largest[fresh].double()
            self.taken[index] = self.step
        if done.sum() * 6 < len(done):  # leaving the batch copies it
            return
        keep = ~done
        for name in ("shift", "factor", "rows", "targets", "penalty", "point", "odds", "residual",
                     "curvature", "weight", "slope", "turned", "alive"):  # fmt: skip
            setattr(self, name, getattr(self, name)[keep])
        self.history.keep(keep)

    def fits(self, table: Table) -> Fits:
        """What was found, in each problem's own standardisation of the raw features."""
        weights, bias = self.solution[:, :-1].numpy().copy(), self.solution[:, -1].numpy().copy()
        return Fits(weights, bias, *to_raw(table), self.taken.numpy(), self.reached.numpy())
