"""L2 logistic regression of one problem on many cells: Newton steps by conjugate gradients, from the cell before.

A probe takes a few dozen passes over its features, so everything else has to be cheap, and the passes few:

- The labels are the same in every cell, so that the log-odds of neighbours are alike although their features are not.
  The first step solves the problem linearised about the neighbour's log-odds.
- The metric of conjugate gradients is the Hessian of few signed sums of items (Pilanci and Wainwright's Newton sketch,
  1505.02250). Where that takes many steps (a weak penalty) it is the whole Hessian, of rounded features: a metric may
  be rounded, the gradient is not.
- Intercepts are eliminated, and a step's log-odds are kept, so that the line search passes over nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from toolsavvy.probes.hessian import Sketch, Whole, sums

SKETCH = 192  # signed sums of the first metric
WIDEST = 1024  # most rows or columns of a metric that is factored whole
PATIENCE = 16, 24  # steps after which a better metric pays, at the first level and later
EASY = 8  # steps of a whole metric that a sketch would not have doubled
SHARE = 0.1  # of the gradient that conjugate gradients leave to the next Newton step
SEARCH, NEWTON = 12, 60  # most tries of a line search, most Newton steps
FLAT = np.float32(1e-6)  # least p (1 - p) that a step counts on
BLOCK = 128  # rows that stay in the cache
ROUNDING = float(np.finfo(np.float32).eps) * 4


@dataclass(frozen=True)
class Start:
    """What a solved cell tells the next one.

    Args:
        odds: float32 [item], log-odds of the training items.
        level: 0 where a sketch does as a metric, else 1.
    """

    odds: np.ndarray
    level: int


@dataclass(frozen=True)
class Solution:
    """One probe, as `Fits` has many of them; `start` is for the next cell."""

    weights: np.ndarray
    bias: float
    mean: np.ndarray
    scale: np.ndarray
    steps: int
    gradient: float
    start: Start


class Room:
    """Two matrices [item, d] that the cells of a thread share (fresh memory costs several passes), and signs."""

    def __init__(self) -> None:
        self.values = self.scratch = np.empty((0, 0), np.float32)
        self.signs = np.empty(0, np.float32)

    def fit(self, shape: tuple[int, ...]) -> Room:
        """Make them of some shape."""
        if self.values.shape != shape:
            self.values, self.scratch = np.empty(shape, np.float32), np.empty(shape, np.float32)
            self.signs = np.random.default_rng(0).choice(np.array([-1, 1], np.float32), shape[0])
        return self


def standardised(features: np.ndarray, room: Room) -> tuple[np.ndarray, np.ndarray]:
    """Standardise all rows into the room's values; a feature that is constant up to rounding becomes zeros.

    Returns:
        Means and deviations [d], the latter 1 for constant features.
    """
    values = room.fit(features.shape).values
    share = np.full(len(features), 1 / len(features), np.float32)
    mean = share @ features
    variance = np.zeros_like(mean)
    for first in range(0, len(features), BLOCK):
        part = slice(first, first + BLOCK)
        np.subtract(features[part], mean, out=values[part])
        variance += share[part] @ np.square(values[part], out=room.scratch[: len(values[part])])
    for column in np.flatnonzero(np.square(mean) > 1e4 * variance):  # the mean's own rounding would show
        exact = features[:, column].astype(np.float64)
        mean[column], variance[column] = exact.mean(), exact.var()
        values[:, column] = exact - exact.mean()
    scale = np.sqrt(variance)
    constant = scale <= ROUNDING * np.abs(mean)
    scale[constant] = 1
    values *= np.where(constant, np.float32(0), 1 / scale)
    return mean, scale


def solve(
    features: np.ndarray, targets: np.ndarray, strength: float, tolerance: float, max_steps: int,
    start: Start | None, room: Room,
) -> Solution:  # fmt: skip
    """Fit one problem on one cell.

    Args:
        features: float32 [item, d], of the training items.
        targets: bool [item], both classes.
        strength: C.
        tolerance: as in `fit`.
        max_steps: passes forth and back over the features.
        start: from another cell with the same targets; None begins at the classes' share.
        room: of this thread.

    Returns:
        The probe; its gradient tells whether it converged.
    """
    mean, scale = standardised(features, room)
    probe = Probe(room, targets, strength, start.level if start else 0)
    probe.begin(start, tolerance, max_steps)
    for _ in range(NEWTON):
        pull, base, largest = probe.slope()
        if largest <= tolerance or probe.steps >= max_steps:
            break
        probe.advance(pull, base, max(SHARE * largest, tolerance / 2), max_steps - probe.steps)
    largest = probe.slope()[2] if largest > tolerance else largest
    told = Start(probe.odds, int(probe.level > 0 and probe.steps > EASY))
    return Solution(probe.weights, float(probe.bias), mean, scale, probe.steps, largest, told)


class Probe:
    """State of one problem on one cell."""

    def __init__(self, room: Room, targets: np.ndarray, strength: float, level: int) -> None:
        self.room, self.values, self.targets = room, room.values, targets.astype(np.float32)
        self.count, d = self.values.shape
        self.penalty = np.float32(1 / (strength * self.count))
        self.weights, self.bias = np.zeros(d, np.float32), np.float32(0)
        self.steps, self.since, self.level = 0, 0, level
        self.metric: Sketch | Whole | None = None

    def pull(self, odds: np.ndarray) -> None:
        """Go to some log-odds: the mean loss's derivatives by them, the first with its sign turned."""
        p = expit(odds)
        self.odds, self.residual = odds, (self.targets - p) / np.float32(self.count)
        p *= 1 - p
        self.curvature = np.maximum(p, FLAT, out=p)
        self.curvature /= np.float32(self.count)

    def loss(self) -> float:
        """The objective."""
        losses = np.logaddexp(np.float32(0), self.odds) - self.targets * self.odds
        return float(losses.mean() + self.penalty * (self.weights @ self.weights) / 2)

    def measure(self) -> None:
        """Make a metric of the present curvature; a better one than before."""
        self.level += self.metric is not None
        root = np.sqrt(self.curvature) * self.room.signs  # signs cancel but in sums
        weighed = np.multiply(self.values, root[:, None], out=self.room.scratch)
        items, d = weighed.shape
        few = WIDEST if self.level else SKETCH
        if self.level and d <= min(WIDEST, items):
            self.metric = Whole(weighed, self.penalty)
        else:
            self.metric = Sketch(sums(weighed, few) if items > few else weighed, self.penalty)
        self.since = 0

    def begin(self, start: Start | None, tolerance: float, most: int) -> None:
        """Solve the problem linearised about a start's log-odds, unless it does worse than a constant."""
        share = float(self.targets.mean())
        constant = -share * np.log(share) - (1 - share) * np.log1p(-share)
        if start is not None:
            self.linearised(start.odds, tolerance, most)
            if self.loss() < constant:
                return
        self.metric = None
        self.linearised(np.full(self.count, np.log(share / (1 - share)), np.float32), tolerance, most)

    def linearised(self, odds: np.ndarray, tolerance: float, most: int) -> None:
        """Weighted ridge regression: where a Newton step from these log-odds leads, which no weights need have."""
        self.pull(odds)
        self.measure()
        wanted = self.curvature * odds + self.residual
        base = wanted.sum() / self.curvature.sum()
        pull = (wanted - base * self.curvature) @ self.values
        limit = max(SHARE * float(np.abs(pull).max()), tolerance / 2)
        self.weights, centred, shift = self.towards(pull, limit, max(most, 1))
        self.bias = base + shift
        self.pull(centred + base)

    def slope(self) -> tuple[np.ndarray, np.float32, float]:
        """Minus the gradient by weights and intercept, and its largest entry."""
        pull = self.residual @ self.values
        pull -= self.penalty * self.weights
        base = self.residual.sum()
        return pull, base, float(max(pull.max(), -pull.min(), abs(base)))

    def advance(self, pull: np.ndarray, base: np.float32, limit: float, most: int) -> None:
        """One Newton step, as far as the loss falls along it."""
        if self.since >= PATIENCE[self.level > 0]:
            self.measure()
        lift = base / self.curvature.sum()
        inner = pull - lift * (self.curvature @ self.values) if abs(base) > limit / 8 else pull
        step, odds, shift = self.towards(inner, limit, most)
        odds += lift
        length = self.search(step, odds)
        self.weights += length * step
        self.bias += length * (shift + lift)

    def towards(self, pull: np.ndarray, limit: float, most: int) -> tuple[np.ndarray, np.ndarray, np.float32]:
        """Solve the Newton system for minus a gradient, until what is left is small or the metric seems poor.

        Returns:
            A step of the weights, its log-odds, and what an intercept has to add for them to be centred.
        """
        assert self.metric is not None
        curvature, total = self.curvature, self.curvature.sum()
        left, step, odds, shift = pull.copy(), np.zeros_like(pull), np.zeros_like(self.odds), np.float32(0)
        way, size = np.zeros_like(pull), np.float32(np.inf)
        for _ in range(min(most, max(PATIENCE[self.level > 0] - self.since, 1))):
            turned = self.metric(left)
            last, size = size, turned @ left
            if not size > 0:  # constant features: nothing is left but the intercept
                break
            way *= size / last
            way += turned
            along = self.values @ way
            centre = (curvature @ along) / total
            along -= centre
            bent = (curvature * along) @ self.values
            bent += self.penalty * way
            length = size / (way @ bent)
            step += length * way
            odds += length * along
            shift -= length * centre
            left -= length * bent
            self.steps += 1
            self.since += 1
            if max(left.max(), -left.min()) <= limit:
                break
        return step, odds, shift

    def search(self, step: np.ndarray, along: np.ndarray) -> np.float32:
        """Go to where the derivative along the way has halved at least, by safeguarded Newton (it is monotone)."""
        linear, square = self.penalty * (step @ self.weights), self.penalty * (step @ step)
        start, before = linear - self.residual @ along, self.odds
        low, high, length = np.float32(0), np.float32(np.inf), np.float32(1)
        for _ in range(SEARCH):
            self.pull(before + length * along)
            rise = linear + length * square - self.residual @ along
            if abs(rise) <= 0.5 * abs(start):
                break
            low, high = (length, high) if rise < 0 else (low, length)
            newton = length - rise / max((self.curvature * along) @ along + square, np.float32(1e-30))
            middle = 2 * length if np.isinf(high) else (low + high) / 2
            length = newton if low < newton < min(high, 10 * length) else middle
        return length
