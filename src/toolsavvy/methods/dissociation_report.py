"""The knowledge-retrieval dissociation as one table and one figure; what is behind them as Markdown and JSONL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from toolsavvy.assets import atomic_write
from toolsavvy.figures.points import Path2D, Point, trajectories
from toolsavvy.methods.dissociation import EVERY, Change, Dissociation, Predicted
from toolsavvy.methods.dissociation_tables import (
    DEPTH,
    LIKELIHOOD,
    Grid,
    Numbers,
    knowledge_grid,
    knows,
    main_grid,
    retrieval_grids,
)
from toolsavvy.methods.trained import ALL, CATALOG, MCQ, RIVAL, RRB, STAGE_1, STAGE_2, Number
from toolsavvy.report import console
from toolsavvy.suites.catalog_test import CONSTRAINED
from toolsavvy.suites.table import write_jsonl

CHANCE = 25.0
"""Of four options, in percent."""
LEGEND = (
    "Percent with 95 % interval over tools. R@k: recall, constrained and then free; IS: recall free / constrained; all "
    "after stage 2 (after stage 1 where there is none). MCQ: accuracy by likelihood, chance 25 %; QA: chance 50 %; "
    "both before training (initialised token), after stage 1, after stage 2. Rivals and controls have one number, in "
    "the first of the three columns: retrievers choose the option that, as a query, ranks the tool best (open book); "
    "prior is the untrained model that sees the question alone, name and document are what it is shown instead of the "
    "token, blind_… see no tool."
)


def render(grid: Grid) -> Table:
    """For the terminal: value above interval, so that many columns fit."""
    table = Table(title=escape(grid.title), title_justify="left", box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", overflow="fold")
    for name in grid.head:
        table.add_column(escape(name.replace(" ", "\n", 1)), justify="right", no_wrap=True)
    for name, cells in grid.rows:
        table.add_row(escape(name), *("" if c is None else _stacked(c) for c in cells))
    return table


def _stacked(number: Number) -> str:
    value, ends = _texts(number)
    return f"{value}\n[dim]{ends}[/dim]" if ends else value


def _texts(number: Number) -> tuple[str, str]:
    """Value and interval in percent."""
    if number.value is None:
        return "0/0", ""
    if number.low is None or number.high is None:
        return f"{100 * number.value:.1f}", ""
    return f"{100 * number.value:.1f}", f"{100 * number.low:.0f}–{100 * number.high:.0f}"  # noqa: RUF001 - a range


def markdown(found: Dissociation, title: str) -> str:
    """The whole report: the table, every slice at every cut-off, changes, and retrieval by knowledge."""
    numbers = Numbers(found.numbers)
    lines = [f"# {title}", "", *(f"- missing: {sentence}" for sentence in found.missing), ""]
    lines += [*_lines(main_grid(numbers), level=2), LEGEND, "", "![figure](figures/dissociation.png)", ""]
    for grid in (*retrieval_grids(numbers), knowledge_grid(numbers)):
        lines += _lines(grid, level=2) if grid.rows else []
    lines += ["## Changes of knowledge on the same questions, points", ""]
    lines += _table(("configuration", "questions", "step", "difference", "p", "n"), map(_change, found.changes))
    lines += ["## Does knowing a tool after stage 1 predict finding it after stage 2?", "", PREDICTED, ""]
    lines += _table(PREDICTED_HEAD, map(_predicted, found.predicted))
    return "\n".join(lines)


PREDICTED = (
    "Per tool: its questions after stage 1 (known: at least half are right) and its queries after stage 2, decoding "
    "constrained. Difference: known minus unknown tools, in points. Intervals over tools, p of permuting tools, "
    f"each statistic for itself; '{EVERY}' is the mean over configurations, a tool being drawn in all of them at once."
)
PREDICTED_HEAD = ("configuration", "queries", "MCQ by", "measure", "statistic", "value", "p", "tools", "known", "")


def _lines(grid: Grid, level: int) -> list[str]:
    rows = [(name.replace("  ", "&emsp;"), *map(_cell, cells)) for name, cells in grid.rows]
    return [f"{'#' * level} {grid.title}", "", *_table(("", *grid.head), rows)]


def _cell(number: Number | None) -> str:
    """'83.2 [78, 88]'."""
    if number is None:
        return ""
    value, ends = _texts(number)
    return f"{value} [{ends.replace('–', ', ')}]" if ends else value  # noqa: RUF001


def _table(head: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table; nothing but a word where there are no rows."""
    body = [f"| {' | '.join(row)} |" for row in rows]
    return [f"| {' | '.join(head)} |", f"| {' | '.join('---' for _ in head)} |", *body, ""] if body else ["none", ""]


def _change(c: Change) -> tuple[str, ...]:
    value = _points(c.difference, c.low, c.high)
    return c.configuration, f"{c.suite} {c.scoring}", f"{c.before} → {c.after}", value, _p(c.p), str(c.n)


def _predicted(p: Predicted) -> tuple[str, ...]:
    value = _points(p.value, p.low, p.high) if p.statistic == "difference" else _plain(p.value, p.low, p.high)
    labels = (p.configuration, p.suite, p.scoring, p.measure, p.statistic)
    return *labels, value, _p(p.p), str(p.tools), f"{p.known:g}", p.verdict


def _points(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "undefined"
    ends = "" if low is None or high is None else f" [{100 * low:+.1f}, {100 * high:+.1f}]"
    return f"{100 * value:+.1f}{ends}"


def _plain(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "undefined"
    return f"{value:+.2f}" + ("" if low is None or high is None else f" [{low:+.2f}, {high:+.2f}]")


def _p(p: float | None) -> str:
    return "" if p is None else f"{p:.3f}" if p >= 0.001 else "< 0.001"


def draw(found: Dissociation, path: Path) -> bool:
    """The figure: retrieval against knowledge, an arrow from stage 1 to stage 2 for every configuration.

    Returns:
        Whether there was a point to draw.
    """
    numbers = Numbers(found.numbers)
    panels = []
    for suite, title in ((CATALOG, "the catalog's test queries"), (RRB, "realistic requests (RRB)")):
        paths = [p for row in numbers.configurations if (p := _path(numbers, row, suite)).points]
        lines = [
            (row, 100 * n.value)
            for row in numbers.rows(RIVAL)
            if (n := numbers.retrieval(row, row.partition(" (")[0], suite, ALL, numbers.depth, ""))
            and n.value is not None
        ]
        if paths:
            panels.append((title, paths, lines))
    if panels:
        axes = ("MCQ accuracy by likelihood, %", f"recall@{numbers.depth}, constrained, %")
        trajectories(path, panels, axes=axes, chance=(CHANCE, "chance"), ends=(STAGE_1, STAGE_2))
    return bool(panels)


def _path(numbers: Numbers, row: str, suite: str) -> Path2D:
    """Stage 1, then stage 2 of a configuration."""
    points = []
    for stage in (STAGE_1, STAGE_2):
        system = numbers.stage(row, stage)
        x = knows(numbers, row, system, MCQ)
        y = numbers.retrieval(row, system, suite, ALL, numbers.depth, CONSTRAINED)
        if x is not None and y is not None and x.value is not None and y.value is not None:
            points.append(Point(*_percent(x), *_percent(y)))
    return Path2D(row, tuple(points))


def _percent(n: Number) -> tuple[float, float, float]:
    """Value, lower and upper end; the value itself where there is no interval."""
    value = float(n.value or 0.0)
    return 100 * value, 100 * (value if n.low is None else n.low), 100 * (value if n.high is None else n.high)


def show(found: Dissociation, folder: Path, title: str) -> None:
    """Print the table, write dissociation.md, .jsonl files and figures/dissociation.png."""
    write_jsonl(folder / "dissociation.jsonl", found.numbers)
    write_jsonl(folder / "knowledge_changes.jsonl", found.changes)
    write_jsonl(folder / "knowledge_retrieval.jsonl", found.predicted)
    with atomic_write(folder / "dissociation.md", text=True) as file:
        file.write(markdown(found, title))
    drawn = draw(found, folder / "figures" / "dissociation.png")
    out = console()
    out.print(escape(title), style="bold", soft_wrap=True)
    out.print(render(main_grid(Numbers(found.numbers))))
    out.print(predicted_table(found.predicted))
    for sentence in found.missing:
        out.print(f"[yellow]missing:[/yellow] {escape(sentence)}", soft_wrap=True)
    files = "dissociation.md, .jsonl" + (" and figures/dissociation.png" if drawn else "")
    out.print(f"{files}: {folder}", soft_wrap=True, markup=False)


def predicted_table(rows: Sequence[Predicted]) -> Table:
    """Difference and Spearman's rho per configuration, for recall and MCQ by likelihood."""
    title = f"does knowing a tool after stage 1 (MCQ by likelihood) predict finding it after stage 2 (recall@{DEPTH})?"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 1))
    for name in ("", "queries", "tools", "known", "difference, points", "p", "Spearman", "p"):
        table.add_column(name, justify="left" if name in ("", "queries") else "right", no_wrap=True)
    cells = {(p.configuration, p.suite, p.measure, p.statistic): p for p in rows if p.scoring == LIKELIHOOD}
    for row, suite in dict.fromkeys((p.configuration, p.suite) for p in rows):
        d, r = (cells.get((row, suite, f"recall@{DEPTH}", s)) for s in ("difference", "spearman"))
        if d is not None and r is not None:
            told = (_points(d.value, d.low, d.high), _p(d.p), _plain(r.value, r.low, r.high), _p(r.p))
            table.add_row(*map(escape, (row, suite, str(d.tools), f"{d.known:g}", *told)))
    return table
