"""Learning curves of many runs: one panel a metric, one colour a cell, seeds thin behind their mean."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from toolsavvy.figures.vector import COLOURS, DASHES, Chart, Series, chart
from toolsavvy.methods.overview.gathering import Entry
from toolsavvy.page import Drawing
from toolsavvy.tracking.history import read_history

POINTS = 120
"""Of a drawn line: finer steps than pixels tell nothing."""
PANELS = 12
CELLS = 14
"""Cells of a figure; all are drawn in groups."""
SKIPPED = ("epoch", "lr", "learning_rate", "tokens_per_second", "step")
"""Last parts of metrics that are no results."""
Curve = tuple[np.ndarray, np.ndarray]
"""Steps and values."""


def curve_drawings(entries: Sequence[Entry], labels: Mapping[str, str]) -> tuple[list[Drawing], list[str]]:
    """Figures, and what a reader must know about what they leave out."""
    found: dict[str, dict[str, list[Curve]]] = defaultdict(lambda: defaultdict(list))
    damaged, elsewhere = 0, 0
    data: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        if data.setdefault(entry.cell, entry.data) != entry.data:
            elsewhere += 1
            continue
        try:
            for metric, curve in read_curves(entry.folder).items():
                found[metric][entry.cell].append(curve)
        except (OSError, ValueError, KeyError, TypeError):
            damaged += 1
    notes = [f"{damaged} runs have a history.csv that cannot be read; their curves are not drawn."] if damaged else []
    if elsewhere:
        notes.append(f"{elsewhere} runs of another catalog than the first of their cell are not drawn.")
    chosen = list(found)[:PANELS]
    if len(found) > len(chosen):
        notes.append(f"Curves of {len(found) - len(chosen)} more metrics stay in the runs' history.csv.")
    cells = list(dict.fromkeys(cell for metric in chosen for cell in found[metric]))
    drawings = []
    for start in range(0, len(cells), CELLS):
        part = cells[start : start + CELLS]
        if (drawing := _drawing({m: found[m] for m in chosen}, part, labels)) is not None:
            drawings.append(drawing)
        if len(drawings) == 4:
            rest = len(cells) - start - len(part)
            notes += [f"Curves of {rest} more cells stay in the runs' history.csv."] if rest else []
            break
    return drawings, notes


def read_curves(folder: Path) -> dict[str, Curve]:
    """Metric -> steps and values of a run's history.csv, finite ones alone; points of one step are averaged."""
    points: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for step, metric, value in read_history(folder):
        if step is not None and np.isfinite(value) and metric.rpartition("/")[2] not in SKIPPED:
            points[metric][step].append(value)
    curves = {}
    for metric, by_step in points.items():
        steps = sorted(by_step)
        if len(steps) > 1:
            curves[metric] = np.array(steps, dtype=float), np.array([np.mean(by_step[s]) for s in steps])
    return curves


def thinned(curve: Curve, points: int = POINTS) -> Curve:
    """The same curve with fewer points: means of neighbours, and both ends as they are."""
    steps, values = curve
    if len(steps) <= points:
        return curve
    edges = np.linspace(1, len(steps) - 1, points - 1).astype(int)
    inner = [slice(a, b) for a, b in pairwise(edges) if b > a]
    return tuple(
        np.concatenate([[column[0]], [column[part].mean() for part in inner], [column[-1]]])
        for column in (steps, values)
    )  # pyright: ignore[reportReturnType]


def _drawing(
    found: Mapping[str, Mapping[str, Sequence[Curve]]], cells: Sequence[str], labels: Mapping[str, str]
) -> Drawing | None:
    looks = {cell: i % (COLOURS * DASHES) for i, cell in enumerate(cells)}
    panels, used = [], dict.fromkeys(cells, False)
    for metric, by_cell in found.items():
        series: list[Series] = []
        for cell in cells:
            own = [thinned(c) for c in by_cell.get(cell, ())]
            if not own:
                continue
            used[cell] = True
            mean = _mean(own)
            if len(own) > 1:
                series += [Series(looks[cell], list(x), list(y), faint=True, points=False) for x, y in own]
            series.append(Series(looks[cell], list(mean[0]), list(mean[1]), points=False))
        if series:
            stage, _, name = metric.rpartition("/")
            panels.append(chart(Chart(f"{stage}: {name}" if stage else name, "step", name, tuple(series))))
    if not panels:
        return None
    seeds = any(len(curves) > 1 for by_cell in found.values() for curves in by_cell.values())
    caption = "Learning curves" + (": means over seeds, single seeds faint." if seeds else ".")
    legend = [(looks[cell], labels.get(cell) or "all runs") for cell in cells if used[cell]]
    return Drawing(panels, caption, legend if len(legend) > 1 else ())


def _mean(curves: Sequence[Curve]) -> Curve:
    """Mean over seeds where all of them have been."""
    if len(curves) == 1:
        return curves[0]
    first, last = max(c[0][0] for c in curves), min(c[0][-1] for c in curves)
    grid = curves[0][0][(curves[0][0] >= first) & (curves[0][0] <= last)]
    return grid, np.mean([np.interp(grid, *c) for c in curves], axis=0)
