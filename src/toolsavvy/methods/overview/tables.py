"""Boards as tables: who is best on what, and everyone beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolsavvy.methods.overview.axes import Axis
from toolsavvy.methods.overview.measures import NEITHER, PLAIN, Measure, sign, title, written
from toolsavvy.methods.overview.results import ALPHA, BOOTSTRAP, Board, Row, Test
from toolsavvy.metrics import Interval
from toolsavvy.page import Cell, Table

MOST = 40
"""Rows of a table; report.csv has them all."""
EVERY = "any"
"""An axis that a system does not depend on."""


def best_table(boards: Sequence[Board], labels: Mapping[str, str]) -> Table:
    """One row a suite and slice: the best system, and whether its lead over the second could be chance."""
    several = len({(b.data, b.place) for b in boards}) > len({b.place for b in boards})
    head = ["suite", "slice", "on", "measure", "best", "settings", "seeds", "value", "second", "lead", "p"]
    rows: list[list[str | Cell]] = []
    for board in boards:
        first, *others = board.rows
        second = others[0] if others else None
        on = f"{board.place} {board.data[:6]}" if several else board.place
        rows.append([
            board.suite, board.slice or "all", on, title(board.main), Cell(first.system, is_best=True),
            settings(first, labels), str(len(first.seeds)), value(first, board.main, board.main),
            "" if second is None else _name(second, labels),
            "" if second is None else _lead(second.test, board.main, 1), _p(second.test if second else None),
        ])  # fmt: skip
    note = (
        f"Lead: best minus second on the same items, points ({', '.join(PLAIN)}: as they are). * p < {ALPHA:g} by "
        "Holm's correction over everyone held against the best. Empty: no items or seeds in common are on file, so "
        "nothing is tested and nothing marked."
    )
    return Table(head, rows, "The best system of each suite and slice; % with 95 % interval.", note)


def board_table(board: Board, axes: Sequence[Axis], caption: str) -> Table:
    """All systems of a board, the best first."""
    rows = board.rows[:MOST]
    varied = [a for a in axes if len({_at(a, row) for row in rows}) > 1]
    tested = any(row.test for row in rows)
    best = _best(board)
    head = ["system", *(a.name for a in varied), "seeds", *map(title, board.measures)]
    head += [f"- best, {title(board.main)}", "p (Holm)"] if tested else []
    body: list[list[str | Cell]] = []
    for row in rows:
        cells: list[str | Cell] = [row.system, *(_at(a, row) for a in varied), str(len(row.seeds))]
        cells += [Cell(value(row, m, board.main), is_best=m in best and row in best[m]) for m in board.measures]
        cells += [_lead(row.test, board.main, -1), _p(row.test)] if tested else []
        body.append(cells)
    return Table(head, body, caption, _note(board, rows))


def contrast_table(board: Board, labels: Mapping[str, str]) -> Table:
    """What settings do to each system of a board: paired differences in the main measure, the largest first."""
    several = len({(c.before, c.after) for c in board.contrasts}) > 1
    rows: list[list[str | Cell]] = []
    for c in sorted(board.contrasts, key=lambda c: -abs(c.test.difference.value or 0.0))[:MOST]:
        cells = [labels.get(c.after, ""), labels.get(c.before, "")]
        rows.append([c.system, *(cells if several else []), _lead(c.test, board.main, 1), _p(c.test)])
    first = board.contrasts[0]
    whole = f"{labels.get(first.after, '')} minus {labels.get(first.before, '')}"
    part = f", {board.slice}" if board.slice not in ("", "all", board.suite) else ""
    caption = f"{board.suite}{part}, {title(board.main)}: {'one setting minus another' if several else whole}."
    head = ["system", *(["with", "minus with"] if several else []), "difference", "p (Holm)"]
    note = f"Points, on the same items and seeds; * p < {ALPHA:g} by Holm's correction over this table."
    if len(board.contrasts) > MOST:
        note += f" The {MOST} largest of {len(board.contrasts)} differences, all of them corrected for."
    return Table(head, rows, caption, note)


def _note(board: Board, rows: Sequence[Row]) -> str:
    """What must be known to read this table; what holds for all stands at the end of the page."""
    parts = [f"{board.n:,} items."] if board.n else []
    if len(board.rows) > MOST:
        parts.append(f"The best {MOST} of {len(board.rows)} rows; all are in report.csv.")
    if any(row.span and row.values[board.main].low is None for row in rows):
        parts.append("In parentheses: lowest and highest seed, where no item records allow an interval.")
    kinds = {row.test.kind for row in rows if row.test}
    if kinds:
        names = {BOOTSTRAP: "b: paired bootstrap", "sign-flip": "s: sign-flip test of the run itself"}
        parts.append("; ".join(names[k] for k in sorted(kinds)) + f"; * p < {ALPHA:g}.")
    return " ".join(parts)


def _best(board: Board) -> dict[Measure, list[Row]]:
    """Measure -> rows with its best value (of those in which somebody can be best)."""
    found = {}
    for measure in board.measures:
        values = [
            (sign(measure[0]) * v.value, r) for r in board.rows if (v := r.values.get(measure)) and v.value is not None
        ]
        if measure[0] not in NEITHER and len(values) > 1:
            top = max(v for v, _ in values)
            found[measure] = [r for v, r in values if v == top]
    return found


def _at(axis: Axis, row: Row) -> str:
    found = list(dict.fromkeys(axis.at(cell) for cell in row.cells))
    return found[0] if len(found) == 1 else EVERY


def settings(row: Row, labels: Mapping[str, str]) -> str:
    """What tells a row's cell apart."""
    return labels.get(row.cells[0], "") if len(row.cells) == 1 else EVERY


def _name(row: Row, labels: Mapping[str, str]) -> str:
    told = settings(row, labels)
    return f"{row.system} ({told})" if told and told != EVERY else row.system


def value(row: Row, measure: Measure, main: Measure) -> str:
    """'83.2 [78.1, 88.0]'; '83.2 (81.0 to 84.1)' where all that is known is how far seeds lie apart."""
    found = row.values.get(measure)
    if found is None:
        return ""
    text = written(measure[0], found.value, found.low, found.high)
    if found.low is None and measure == main and row.span is not None:
        low, high = (written(measure[0], end, None, None) for end in row.span)
        return f"{text} ({low} to {high})"
    return text


def _lead(test: Test | None, main: Measure, way: int) -> str:
    """A difference with its interval and mark, as best minus row or the other way."""
    if test is None:
        return ""
    d = test.difference
    turned = d if way == 1 else Interval(_minus(d.value), _minus(d.high), _minus(d.low), d.n)
    mark = " *" if test.adjusted < ALPHA else ""
    return written(main[0], turned.value, turned.low, turned.high, signed=True) + mark


def _minus(x: float | None) -> float | None:
    return None if x is None else -x


def _p(test: Test | None) -> str:
    if test is None:
        return ""
    letter = "b" if test.kind == BOOTSTRAP else "s"
    return f"< 0.001 {letter}" if test.adjusted < 0.001 else f"{test.adjusted:.3f} {letter}"
