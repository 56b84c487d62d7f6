"""The probe as the knowing-doing gap's authors trained it, for comparison alone; conclusions rest on `logistic`.

Recipe (2605.14038, released code): Linear(d, 1), BCE with logits, Adam at 0.01 with weight decay 0.01 added to the
gradient, 100 passes over all training rows at once, float32, features as they come. It stops before it converges, so
that its weights depend on the start, on the units of the features and on the number of passes.

Deviations: the start has a seed (theirs has none), a cell's draw doesn't depend on the cells beside it, and labels are
read from log-odds > 0, that is probability > 0.5, as in their evaluation (their `predict` compares log-odds to 0.5).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from toolsavvy.errors import UserError
from toolsavvy.hidden.cells import Cells
from toolsavvy.probes.logistic import check_problems, checked
from toolsavvy.probes.problems import Fits, Problems

RATE, DECAY, EPOCHS = 0.01, 0.01, 100
FIRST, SECOND, TINY = 0.9, 0.999, 1e-8  # torch's Adam


def published_recipe(
    features: np.ndarray | Cells, targets: np.ndarray, train_rows: np.ndarray, *, pos_weight: bool = False,
    seed: int = 0,
) -> list[Fits]:  # fmt: skip
    """Train the published probe for every label on every cell.

    Args:
        features: float32 [cell, item, d], or what is read cell by cell; items outside train_rows may hold NaN.
        targets: bool [problem, item], or [item] for one.
        train_rows: bool [problem, item], or [item] shared by all problems.
        pos_weight: weigh positives by negatives / positives of the training rows (the released code's option).
        seed: of the start, drawn as torch's Linear draws it; the same for all cells.

    Returns:
        A cell each: probes on raw features (mean 0, scale 1), steps 100, and the gradient at the end, which tells how
        far from converged they are.

    Raises:
        UserError: as `logistic.fit` does.
    """
    targets = np.atleast_2d(np.asarray(targets, dtype=bool))
    rows = np.broadcast_to(np.asarray(train_rows, dtype=bool), targets.shape)
    problems = Problems(targets, rows, np.ones(len(targets)))
    check_problems(problems)
    return [_train(cell, problems, pos_weight, seed) for cell in checked(features, problems)]


def _train(features: np.ndarray, problems: Problems, pos_weight: bool, seed: int) -> Fits:
    """One cell: all problems in one batch, whose gradients never meet."""
    used = np.flatnonzero(problems.rows.any(0))
    x = torch.from_numpy(features[used])
    targets, rows = (torch.from_numpy(part[:, used].astype(np.float32)) for part in (problems.targets, problems.rows))
    positives = (targets * rows).sum(1, keepdim=True)
    weight = (rows.sum(1, keepdim=True) - positives) / positives if pos_weight else torch.ones_like(positives)
    rows = rows * torch.where(targets > 0, weight, 1) / rows.sum(1, keepdim=True)
    point = start(len(problems), x.shape[1], seed)
    first, second, slope = torch.zeros_like(point), torch.zeros_like(point), point
    for step in range(1, EPOCHS + 1):
        slope = _gradient(x, point, targets, rows)
        first = FIRST * first + (1 - FIRST) * slope
        second = SECOND * second + (1 - SECOND) * slope * slope
        point = point - RATE / (1 - FIRST**step) * first / ((second / (1 - SECOND**step)).sqrt() + TINY)
    if not point.isfinite().all():
        raise UserError("the published recipe diverged", where="probes", fix="use probe=logistic")
    largest = _gradient(x, point, targets, rows).abs().amax(1).double().numpy()
    mean, scale = np.zeros((len(point), x.shape[1]), np.float32), np.ones((len(point), x.shape[1]), np.float32)
    steps = np.full(len(point), EPOCHS, np.int64)
    return Fits(point[:, :-1].numpy().copy(), point[:, -1].numpy().copy(), mean, scale, steps, largest)


def start(count: int, d: int, seed: int) -> Tensor:
    """Weights and intercepts [problem, d + 1] in +-1 / sqrt(d); every problem starts from the same point."""
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.rand(d + 1, generator=generator) - 1).div(d**0.5).repeat(count, 1)


def _gradient(x: Tensor, point: Tensor, targets: Tensor, rows: Tensor) -> Tensor:
    """Of the weighted mean loss + decay / 2 * |point|^2 (Adam's decay reaches the intercept too)."""
    residual = (torch.addmm(point[:, -1:], point[:, :-1], x.T).sigmoid() - targets) * rows
    return torch.cat([residual @ x, residual.sum(1, keepdim=True)], 1) + DECAY * point
