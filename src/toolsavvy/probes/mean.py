"""Mean-difference directions: from the mean of one class to the mean of the other, on standardised features.

The weights are mu_1 - mu_0 and the bias puts the threshold halfway between the two means (the difference-of-means probe
of Marks and Tegmark, 2310.06824, without its covariance correction). Features are standardised on each problem's
training rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolsavvy.hidden.cells import Cells
from toolsavvy.probes.lbfgs import Table, to_raw
from toolsavvy.probes.logistic import check_problems, checked, standardised
from toolsavvy.probes.problems import Fits, Problems


def mean_difference(features: np.ndarray, problems: Problems) -> Fits:
    """Directions of all problems on one cell; strengths are not used.

    Args:
        features: float32 [item, d]; items that no problem trains on may hold NaN.
        problems: targets and training rows.

    Raises:
        UserError: as `logistic.fit` does.
    """
    return mean_difference_cells([features], problems)[0]


def mean_difference_cells(features: np.ndarray | Cells | Sequence[np.ndarray], problems: Problems) -> list[Fits]:
    """Directions on every cell: float32 [cell, item, d], or what is read cell by cell."""
    check_problems(problems)
    return [_difference(standardised(cell, problems), problems) for cell in checked(features, problems)]


def _difference(table: Table, problems: Problems) -> Fits:
    """One cell's directions."""
    targets, rows = problems.targets[:, table.used], problems.rows[:, table.used]
    shared, shift, factor = (part.numpy() for part in (table.shared, table.shift, table.factor))
    upper, lower = (((which / which.sum(1, keepdims=True)).astype(np.float32) @ shared - shift) * factor
                    for which in (targets & rows, ~targets & rows))  # fmt: skip
    weights = upper - lower
    bias = -(weights * (upper + lower)).sum(1) / 2
    mean, scale = to_raw(table)
    return Fits(weights, bias, mean, scale, np.zeros(len(problems), np.int64), np.zeros(len(problems)))
