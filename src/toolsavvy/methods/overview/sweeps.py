"""What the axes of a sweep do to each suite: line plots over numbers, heat maps over pairs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from toolsavvy.figures.vector import Chart, Grid, Series, Svg, chart, grid
from toolsavvy.methods.overview.axes import METHOD, Axis, shown, told
from toolsavvy.methods.overview.measures import PLAIN, scale, title
from toolsavvy.methods.overview.results import Board, Row
from toolsavvy.page import Drawing

LINES, MAPS, NAMES = 8, 6, 12
"""Lines of a plot, maps of a figure, names along an edge of a map: what one can still read."""
WIDE = 50.0
"""Largest over smallest value from which an axis is logarithmic."""


def sweep_drawings(boards: Sequence[Board], axes: Sequence[Axis]) -> list[Drawing]:
    """A figure for each numeric axis and each pair of axes; panels are suites, slices and systems."""
    drawings = [d for axis in axes if axis.is_numeric and (d := _lines(boards, axis, axes)) is not None]
    known = [a for a in axes if a.key != METHOD]
    pairs = [(a, b) for a, b in combinations(known, 2) if min(len(a.distinct), len(b.distinct)) > 1]
    return drawings + [d for a, b in pairs[:6] if (d := _maps(boards, a, b, axes)) is not None]


def _lines(boards: Sequence[Board], axis: Axis, axes: Sequence[Axis]) -> Drawing | None:
    """One panel a board, one line a system and setting of the other axes."""
    others = [a for a in axes if a is not axis and a.key != METHOD]
    looks: dict[str, int] = {}
    panels, left_out = [], 0
    for board in boards:
        lines: dict[str, list[tuple[float, Row]]] = defaultdict(list)
        for row in board.rows:
            if len(row.cells) == 1 and board.main in row.values:
                cell, x = row.cells[0], axis.values.get(row.cells[0])
                if x is not None:
                    setting = told(others, cell)
                    lines[f"{row.system} ({setting})" if setting else row.system].append((x, row))
        whole = {k: sorted(v, key=lambda point: point[0]) for k, v in lines.items() if len({x for x, _ in v}) > 1}
        if not whole:
            continue
        left_out += max(0, len(whole) - LINES)
        kept = dict(list(whole.items())[:LINES])  # in the order of the board: the best first
        series = [_series(looks.setdefault(label, len(looks)), points, board) for label, points in kept.items()]
        panels.append(_line_panel(board, axis, series))
    if not panels:
        return None
    least = f" The best {LINES} lines a panel are drawn, {left_out} are not." if left_out else ""
    caption = f"By {axis.name}: mean over seeds, bands are 95 % intervals.{least}"
    return Drawing(panels, caption, [(look, label) for label, look in looks.items()])


def _line_panel(board: Board, axis: Axis, series: Sequence[Series]) -> Svg:
    values = [float(x) for x in axis.distinct]
    is_log = min(values) > 0 and max(values) / min(values) >= WIDE
    ticks = tuple(values) if len(values) <= 6 else ()
    y = title(board.main)
    return chart(Chart(heading(board), axis.name, y, tuple(series), is_log=is_log, ticks=ticks))


def heading(board: Board) -> str:
    """Suite, slice and measure, with its unit."""
    part = f", {board.slice}" if board.slice not in ("", "all", board.suite) else ""
    unit = "" if board.main[0] in PLAIN else ", %"
    return f"{board.suite}{part}: {title(board.main)}{unit}"


def _series(look: int, points: Sequence[tuple[float, Row]], board: Board) -> Series:
    factor = scale(board.main[0])
    found = [(x, row.values[board.main]) for x, row in points]
    y, low, high = ([factor * v if v is not None else math.nan for v in ends] for ends in _columns(found))
    return Series(look, [float(x) for x, _ in found], y, low, high)


def _columns(found: Sequence[tuple[float, Any]]) -> tuple[list[Any], list[Any], list[Any]]:
    return [v.value for _, v in found], [v.low for _, v in found], [v.high for _, v in found]


def _maps(boards: Sequence[Board], a: Axis, b: Axis, axes: Sequence[Axis]) -> Drawing | None:
    """One panel a board and system: cells of more than one run at a point are not averaged, but drawn apart."""
    rows_axis, columns_axis = (a, b) if len(a.distinct) <= len(b.distinct) else (b, a)
    others = [x for x in axes if x not in (a, b) and x.key != METHOD]
    panels, count = [], 0
    for board in boards:
        maps: dict[str, dict[tuple[Any, Any], Row]] = defaultdict(dict)
        for row in board.rows:
            if len(row.cells) == 1 and board.main in row.values:
                cell = row.cells[0]
                setting, point = told(others, cell), (rows_axis.values.get(cell), columns_axis.values.get(cell))
                if None not in point:
                    maps[f"{row.system} ({setting})" if setting else row.system][point] = row
        whole = {name: points for name, points in maps.items() if _is_plane(points)}
        count += len(whole)
        values = [
            v.value
            for points in whole.values()
            for r in points.values()
            if (v := r.values[board.main]).value is not None
        ]
        span = (min(values), max(values)) if values else (0.0, 1.0)
        panels += [_map_panel(board, name, points, rows_axis, columns_axis, span) for name, points in whole.items()]
    if not panels:
        return None
    least = f" {MAPS} of {count} maps are drawn." if count > MAPS else ""
    caption = (
        f"By {rows_axis.name} and {columns_axis.name}: mean over seeds. Colours compare cells of one suite and slice; "
        f"darker is more.{least}"
    )
    return Drawing(panels[:MAPS], caption)


def _is_plane(points: dict[tuple[Any, Any], Row]) -> bool:
    return len({r for r, _ in points}) > 1 and len({c for _, c in points}) > 1


def _map_panel(
    board: Board, name: str, points: dict[tuple[Any, Any], Row], rows: Axis, columns: Axis, span: tuple[float, float]
) -> Svg:
    row_values, column_values = rows.distinct[:NAMES], columns.distinct[:NAMES]
    found = [[points.get((r, c)) for c in column_values] for r in row_values]
    values = [[None if row is None else row.values[board.main].value for row in line] for line in found]
    factor, digits = scale(board.main[0]), 3 if board.main[0] in PLAIN else 1
    texts = [["" if v is None else f"{factor * v:.{digits}f}" for v in line] for line in values]
    names = ([shown(v) for v in column_values], [shown(v) for v in row_values])
    return grid(Grid(name, heading(board), columns.name, rows.name, *names, values, texts, span))
