"""What is chosen, and on which items: the penalty on training items, the cell and the threshold on validation items."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolsavvy.classification import Confusion
from toolsavvy.hidden.cells import Cell

NEAR = 1e-9
"""Values this close are ties: sums in another order differ in the last bits."""


def best_strength(losses: np.ndarray, strengths: Sequence[float]) -> int:
    """Index of the strength C with the lowest mean held-out log loss; ties go to the stronger penalty (smaller C).

    Log loss, not MCC: it is proper, and on a few hundred items it varies far less.

    Args:
        losses: float64 [..., strength], one row a fold or cell; rows that hold NaN are left out.
        strengths: [strength].

    Raises:
        ValueError: no row is left.
    """
    rows = losses.reshape(-1, losses.shape[-1])
    rows = rows[np.isfinite(rows).all(1)]
    if not len(rows):
        raise ValueError("no strength could be tried")
    means = rows.mean(0)
    tied = np.flatnonzero(means <= means.min() + NEAR).tolist()
    return int(min(tied, key=lambda i: strengths[i]))


def preference(cell: Cell) -> tuple[int, int, bool]:
    """Order among cells that score alike: the earlier layer, then nearer to the end, then the prompt's own cell."""
    return cell.layer, -cell.position, cell.of != "prompt"


def best_cell(values: np.ndarray, cells: Sequence[Cell], eligible: np.ndarray | None = None) -> int | None:
    """Index of the highest validation value; None where no eligible cell has one.

    Args:
        values: float64 [cell]; NaN is never chosen.
        cells: [cell], for ties (see `preference`).
        eligible: bool [cell].
    """
    allowed = np.isfinite(values) if eligible is None else np.isfinite(values) & eligible
    if not allowed.any():
        return None
    top = values[allowed].max()
    tied = np.flatnonzero(allowed & (np.nan_to_num(values, nan=-np.inf) >= top - NEAR)).tolist()
    return int(min(tied, key=lambda i: preference(cells[i])))


def best_threshold(labels: np.ndarray, scores: np.ndarray) -> float:
    """Threshold on log-odds with the highest MCC; ties go to the one nearest to 0, and 0 where MCC is undefined.

    Candidates lie halfway between neighbouring scores, beside 0 itself.

    Args:
        labels: bool [item].
        scores: float [item], log-odds.
    """
    distinct = np.unique(np.asarray(scores, dtype=np.float64))
    candidates = np.concatenate([[0.0], (distinct[1:] + distinct[:-1]) / 2])
    order = np.argsort(scores, kind="stable")
    values, truth = np.asarray(scores, dtype=np.float64)[order], np.asarray(labels, dtype=bool)[order]
    above = np.searchsorted(values, candidates, side="right")
    passed = np.concatenate([[0], np.cumsum(truth)])
    tp, said = passed[-1] - passed[above], len(values) - above
    positive, negative = passed[-1], len(values) - passed[-1]
    table = Confusion(tp, said - tp, positive - tp, negative - (said - tp))
    found = table.mcc
    if not np.isfinite(found).any():
        return 0.0
    tied = candidates[np.nan_to_num(found, nan=-np.inf) >= np.nanmax(found) - NEAR]
    return float(tied[np.lexsort((tied, np.abs(tied)))[0]])


def spread_positions(cells: Sequence[Cell], count: int) -> list[int]:
    """Indices of cells that a penalty is chosen on: `count` positions of every layer and kind, from the end on."""
    groups: dict[tuple[int, str], list[int]] = {}
    for index, cell in enumerate(cells):
        groups.setdefault((cell.layer, cell.of), []).append(index)
    chosen: list[int] = []
    for members in groups.values():
        near = sorted(members, key=lambda i: -cells[i].position)
        # Evenly from the end; the far end is left out, since short texts do not reach it.
        chosen += [near[i * len(near) // count] for i in range(min(count, len(near)))]
    return sorted(set(chosen))
