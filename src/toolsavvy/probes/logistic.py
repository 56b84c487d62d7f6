"""L2 logistic regression of many problems at once: every pass over a cell's features serves all of them.

The objective is scikit-learn's: mean log loss over a problem's training rows + |w|^2 / (2 C n), intercept unpenalised,
on features standardised by those rows. With several problems a cell, standardisation is an affine change of weights, so
that folds share one matrix. Their solver is L-BFGS (`lbfgs.py`), whose first metric is (h S + 1 / (C n))^-1 with S the
features' covariance and h the mean p (1 - p). With few problems a cell, each is solved by Newton steps from what its
neighbour has found (`newton.py`). Both keep log-odds, so that a line search passes over nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import torch

from toolsavvy.errors import UserError
from toolsavvy.hidden.cells import Cells
from toolsavvy.probes import newton
from toolsavvy.probes.lbfgs import WORTH, Table, solve
from toolsavvy.probes.problems import Fits, Problems

CHAIN = 16  # most cells that are solved one from the other, in one thread
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
    return fit_cells([features], problems, tolerance=tolerance, max_steps=max_steps)[0]


def fit_cells(
    features: np.ndarray | Cells | Sequence[np.ndarray], problems: Problems, *, tolerance: float = 1e-4,
    max_steps: int = 1000,
) -> list[Fits]:  # fmt: skip
    """Fit all problems on every cell, with as many threads as torch has; memory is that of a few cells.

    Args:
        features: float32 [cell, item, d], or what can be read cell by cell.
        problems: as in `fit`, the same for every cell.
        tolerance: as in `fit`.
        max_steps: as in `fit`.

    Raises:
        UserError: as `fit` does; the cell is named too.
    """
    check_problems(problems)

    source = Source(features, problems)
    few = len(problems) < WORTH

    def work(chain: range) -> list[Fits]:
        cells = (source.read(index) for index in chain)
        if few:
            return list(fitted_in_turn(cells, problems, tolerance, max_steps))
        return [solve(standardised(cell, problems), problems, tolerance, max_steps) for cell in cells]

    size = min(CHAIN, -(-len(source) // 8)) if few else 1
    chains = (range(first, min(first + size, len(source))) for first in range(0, len(source), max(size, 1)))
    with controller().limit(limits=1, user_api="blas"):
        return [fits for found in in_threads(work, chains) for fits in found]


@cache
def controller() -> Any:
    """Of the threads that numpy's products take."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def fitted_in_turn(cells: Iterator[np.ndarray], problems: Problems, tolerance: float, max_steps: int) -> Iterator[Fits]:
    """Every problem by itself, each cell from the one before."""
    starts: list[newton.Start | None] = [None] * len(problems)
    rooms = [newton.Room() for _ in starts]
    for cell in cells:
        found = []
        for index, (targets, rows) in enumerate(zip(problems.targets, problems.rows, strict=True)):
            whole = rows.all()
            features, strength = cell if whole else cell[rows], float(problems.strengths[index])
            solution = newton.solve(
                features, targets if whole else targets[rows], strength, tolerance, max_steps, starts[index],
                rooms[index],
            )  # fmt: skip
            starts[index] = solution.start
            found.append(solution)
        fits = Fits(
            np.stack([s.weights for s in found]), np.array([s.bias for s in found], np.float32),
            np.stack([s.mean for s in found]), np.stack([s.scale for s in found]),
            np.array([s.steps for s in found]), np.array([s.gradient for s in found]),
        )  # fmt: skip
        if ((fits.gradient > tolerance) & (fits.steps < max_steps)).any():  # separable and hardly penalised
            fits = solve(standardised(cell, problems), problems, tolerance, max_steps)
        yield fits


def in_threads(work: Any, items: Iterator[Any]) -> Iterator[Any]:
    """Results in order, one item a thread: products of this size gain nothing from threads that wait for each other."""
    threads, first = torch.get_num_threads(), list(islice(items, 2))
    if threads == 1 or len(first) < 2:
        yield from map(work, first)
        yield from map(work, items)
        return
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        waiting: list[Future[Any]] = [pool.submit(work, item) for item in first]
        for item in items:
            if len(waiting) > threads:  # no more is read ahead
                yield waiting.pop(0).result()
            waiting.append(pool.submit(work, item))
        while waiting:
            yield waiting.pop(0).result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


class Source:
    """Features cell by cell, float32 [item, d]."""

    def __init__(self, features: np.ndarray | Cells | Sequence[np.ndarray], problems: Problems) -> None:
        self.features: Any = features
        self.reads = hasattr(features, "read")
        self.rows = problems.rows
        self.used = np.asarray(problems.rows.any(0))

    def __len__(self) -> int:
        return len(self.features.cells if self.reads else self.features)

    def read(self, index: int) -> np.ndarray:
        """One cell, finite wherever a problem trains.

        Raises:
            UserError: another shape, or features that are not finite in a training row; problem and cell are named.
        """
        states = np.ascontiguousarray(self.features.read(index) if self.reads else self.features[index], np.float32)
        if states.ndim != 2 or len(states) != self.used.size:
            raise UserError(
                f"features {states.shape}", where=self.name(index), expected=f"[item, d] with {self.used.size} items"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            suspects = np.flatnonzero(~np.isfinite(states @ np.ones(states.shape[1], np.float32)) & self.used)
        bad = suspects[~np.isfinite(states[suspects]).all(1)]
        if len(bad):
            raise UserError(
                f"features of {len(bad)} training items are not finite (first: item {bad[0]})",
                where=f"probe problem {int(self.rows[:, bad[0]].argmax())}, {self.name(index)}",
                expected="finite features in every training row",
                fix="take these items out of rows (texts too short for a position have rows of NaN)",
            )
        return states

    def name(self, index: int) -> str:
        """How messages call a cell."""
        if not self.reads:
            return f"cell {index}"
        cell = self.features.cells[index]
        return f"layer {cell.layer}, position {cell.position} of the {cell.of}"


def checked(features: np.ndarray | Cells | Sequence[np.ndarray], problems: Problems) -> Iterator[np.ndarray]:
    """Cells one after the other, as `Source.read` gives them."""
    source = Source(features, problems)
    return (source.read(index) for index in range(len(source)))


def check_problems(problems: Problems) -> None:
    """Refuse what has no solution or no meaning, naming the problem.

    Raises:
        UserError: shapes that don't fit, a strength that is not positive, or a training set with one class.
    """
    targets, rows, strengths = problems.targets, problems.rows, np.asarray(problems.strengths, dtype=np.float64)
    if targets.ndim != 2 or targets.shape != rows.shape or len(targets) != len(strengths) or not len(targets):
        raise UserError(
            f"targets {targets.shape}, rows {rows.shape}, strengths {strengths.shape}", where="probes",
            expected="targets and rows [problem, item], one strength a problem",
        )  # fmt: skip
    if targets.dtype != bool or rows.dtype != bool:
        raise UserError(f"targets {targets.dtype}, rows {rows.dtype}", where="probes", expected="bool")
    positives, sizes = (targets & rows).sum(1), rows.sum(1)
    for index, (strength, size, ones) in enumerate(zip(strengths, sizes, positives, strict=True)):
        where = f"probe problem {index}"
        if not (np.isfinite(strength) and strength > 0):
            raise UserError(f"strength C is {strength}", where=where, expected="a positive number")
        if ones in (0, size):
            raise UserError(
                f"all {size} training items have the same label", where=where, expected="both classes",
                fix="leave the probe out where a label has one class, or train on more items",
            )  # fmt: skip


def standardised(features: np.ndarray, problems: Problems) -> Table:
    """Centre on the union of training rows, then find each problem's own mean and deviation; folds share the matrix."""
    used = np.flatnonzero(problems.rows.any(0))
    raw = torch.from_numpy(features if len(used) == len(features) else features[used])
    mean = torch.full((1, len(raw)), 1 / len(raw)) @ raw
    shared = raw - mean
    folds, which = distinct(problems.rows[:, used])
    weights = torch.from_numpy((folds / folds.sum(1, keepdims=True)).astype(np.float32))
    shift, square = weights @ shared, torch.zeros(len(folds), shared.shape[1])
    for part, share in zip(shared.split(256), weights.split(256, 1), strict=True):
        square.addmm_(share, part.square())
    variance = (square - shift.square()).clamp(min=0)
    for fold, column in (variance < 1e-2 * square).nonzero().tolist():  # cancelled: once more, in float64
        part = shared[torch.from_numpy(folds[fold]), column].double()
        variance[fold, column] = part.var(correction=0).float()
    deviation = variance.sqrt()
    constant = deviation <= ROUNDING * (mean + shift).abs()
    factor = torch.where(constant, 0, 1 / torch.where(constant, 1, deviation))
    return Table(shared, used, mean[0].double().numpy(), shift[which], factor[which])


def distinct(rows: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Rows that differ, and which of them each row is (np.unique sorts: as long as a small cell's probe takes)."""
    known: dict[bytes, int] = {}
    which = [known.setdefault(row.tobytes(), len(known)) for row in rows]
    return rows[[which.index(fold) for fold in range(len(known))]], which
