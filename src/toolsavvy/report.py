"""Tables for the terminal: one row a system and decoding mode, one column a metric, every number with its interval."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from toolsavvy.errors import plain

WIDTH = 118
"""Columns used where the output is no terminal: enough for six metrics with intervals."""
COLUMNS = (
    ("recall", 1),
    ("recall", 5),
    ("ndcg", 5),
    ("completeness", 5),
    ("internalization", 1),
    ("internalization", 5),
)
PAIR_COLUMNS = (("recall", 10), ("ndcg", 10), ("completeness", 5), ("completeness", 10), ("accuracy", None))
PAIR_COLUMNS += (("exact_match", None), ("field_f1", None), ("execution_match", None))
NAMES = {"recall": "R", "ndcg": "nDCG", "completeness": "C", "internalization": "IS", "mrr": "MRR", "precision": "P"}


class Terminal(Console):
    """A console on which no text is a command, whatever a data set or a model wrote; styles come from markup alone."""

    def render_str(self, text: str, **kwargs: Any) -> Text:
        """As rich's, of a text without control characters; cells are measured after that."""
        return super().render_str(plain(text), **kwargs)


def errors_console() -> Console:
    """Standard error, for what is no result."""
    return Terminal(stderr=True, highlight=False, emoji=False)


def console() -> Console:
    """Standard output, wide enough for a result table when it is a file or a pipe; of several processes one speaks."""
    from toolsavvy.tracking.run import is_writer

    columns = shutil.get_terminal_size((WIDTH, 40)).columns if sys.stdout.isatty() else WIDTH
    # Ids may read ":car:".
    return Terminal(width=columns, highlight=False, soft_wrap=False, emoji=False, quiet=not is_writer())


def result_table(
    results: Sequence[Any],
    slices: Sequence[str],
    *,
    columns: Sequence[tuple[str, int | None]] = COLUMNS,
    title: str = "",
    unit: str = "queries",
) -> Table:
    """One section a slice, one row a system; values in percent with their 95 % interval.

    Args:
        results: records with the fields of `suites.Result`.
        slices: which slices, in order.
        columns: (metric, k) pairs, k is None for metrics without; those that no record has are left out.
        title: above the table.
        unit: what a slice holds.
    """
    cells = {(r.slice, r.system, r.metric, r.k): r for r in results}
    present = {(r.metric, r.k) for r in results}
    shown = [c for c in columns if c in present]
    table = Table(title=escape(title) or None, title_justify="left", box=None, pad_edge=False, padding=(0, 1))
    table.add_column("system", no_wrap=True)
    for metric, k in shown:
        table.add_column(_head(metric, k), justify="right", no_wrap=True)
    for name in slices:
        systems = list(dict.fromkeys(r.system for r in results if r.slice == name and r.metric != "internalization"))
        if not systems:
            continue
        count = next(r.n for r in results if r.slice == name)
        table.add_row(f"[bold]{escape(name)}[/bold] ({count} {unit})", end_section=False)
        best = {c: _best(cells, name, systems, c) for c in shown}
        for system in systems:
            row = [_cell(cells.get((name, _owner(system, c[0]), *c)), best[c]) for c in shown]
            table.add_row(f"  {escape(system)}", *row, end_section=system == systems[-1])
    return table


def _head(metric: str, k: int | None) -> str:
    """'R@5', or the name alone where there is no cut-off."""
    name = NAMES.get(metric, metric.replace("_", " "))
    return name if k is None else f"{name}@{k}"


def _owner(system: str, metric: str) -> str:
    """Which system's record a row shows: IS is recorded for the system, and shown in its free row alone."""
    if metric != "internalization":
        return system
    return system.removesuffix("-free") if system.endswith("-free") else ""


def _best(cells: dict[Any, Any], name: str, systems: Sequence[str], column: tuple[str, int | None]) -> float:
    if column[0] == "yes_share":  # as much as is true would be best, not most
        return float("inf")
    records = [cells.get((name, _owner(s, column[0]), *column)) for s in systems]
    values = [r.value for r in records if r is not None and r.value is not None]
    return max(values, default=float("inf"))


def _cell(record: Any, best: float) -> str:
    """Value and interval; the column's best value is bold."""
    if record is None:
        return ""
    if record.value is None:
        return "[dim]0/0[/dim]"
    value = f"{100 * record.value:.1f}"
    value = f"[bold]{value}[/bold]" if record.value >= best else value
    if record.low is None:
        return value
    return f"{value} [dim]{100 * record.low:.0f}–{100 * record.high:.0f}[/dim]"  # noqa: RUF001 - a range


def pair_table(
    comparisons: Sequence[Any], pairs: Sequence[tuple[str, str]], slices: Sequence[str], *, unit: str = "queries"
) -> Table:
    """Differences in points with 95 % intervals of chosen pairs of systems, one section a slice.

    Args:
        comparisons: records with the fields of `suites.Comparison`.
        pairs: (system, rival).
        slices: which slices, in order; those without comparisons are left out.
        unit: what a slice holds.
    """
    cells = {(c.slice, c.system, c.rival, c.metric, c.k): c for c in comparisons}
    present = {(c.metric, c.k) for c in comparisons if (c.system, c.rival) in pairs}
    shown = [column for column in PAIR_COLUMNS if column in present]
    table = Table(title="chosen pairs", title_justify="left", box=None, pad_edge=False, padding=(0, 1))
    table.add_column("difference in points", no_wrap=True)
    for metric, k in shown:
        table.add_column(_head(metric, k), justify="right", no_wrap=True)
    for name in (s for s in slices if any(c.slice == s for c in comparisons)):
        count = next(c.n for c in comparisons if c.slice == name)
        table.add_row(f"[bold]{escape(name)}[/bold] ({count} {unit})")
        for a, b in pairs:
            table.add_row(escape(f"  {a} - {b}"), *(_difference(cells.get((name, a, b, m, k))) for m, k in shown))
    return table


def _difference(record: Any) -> str:
    """'+4.2 [+1.1, +7.3]'; bold where the interval leaves 0 out."""
    if record is None:
        return ""
    value = f"{100 * record.difference:+.1f}"
    if record.low is None:
        return value
    value = f"[bold]{value}[/bold]" if record.low > 0 or record.high < 0 else value
    return f"{value} [dim]{escape(f'[{100 * record.low:+.1f}, {100 * record.high:+.1f}]')}[/dim]"


def comparison_table(
    rows: Sequence[Any], pairs: Sequence[tuple[str, str]], metrics: Sequence[tuple[str, int]]
) -> Table:
    """Difference (points) and ratio (percent) of chosen pairs of systems, one section a slice.

    Args:
        rows: records with the fields of `methods.pooling.Pooled`.
        pairs: (system, rival).
        metrics: (metric, k) pairs; those that no comparison has are left out.
    """
    cells = {(r.slice, r.kind, r.system, r.rival, r.metric, r.k): r for r in rows}
    shown = [m for m in metrics if any((r.metric, r.k) == m and r.kind == "difference" for r in rows)]
    table = Table(title="chosen pairs", title_justify="left", box=None, pad_edge=False, padding=(0, 1))
    table.add_column("pair", overflow="fold")
    for metric, k in shown:
        table.add_column(f"{NAMES.get(metric, metric)}@{k}", justify="right", no_wrap=True)
    for name in dict.fromkeys(r.slice for r in rows):
        table.add_row(f"[bold]{escape(name)}[/bold]")
        for a, b in pairs:
            for kind, sign in (("difference", "-"), ("ratio", "/")):
                row = [_plain_cell(cells.get((name, kind, a, b, *m))) for m in shown]
                table.add_row(escape(f"  {a} {sign} {b}"), *row)
    return table


def correlation_table(rows: Sequence[Any]) -> Table:
    """One row a coefficient: value, 95 % interval, number of systems, and what may be said.

    Args:
        rows: records with the fields of `suites.correlation_suite.Correlation`.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column()
    for name in ("value", "95 % interval", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column()
    for r in rows:
        value = "undefined" if r.value is None else f"{r.value:.3f}"
        ends = "none" if r.low is None else f"{r.low:.2f} to {r.high:.2f}"
        told = f"(Fisher {r.fisher_low:.2f} to {r.fisher_high:.2f})" if r.fisher_low is not None else ""
        table.add_row(r.kind, value, ends, str(r.n), escape(f"{r.verdict} {told}".strip()))
    return table


def markdown(
    rows: Sequence[Any],
    metrics: Sequence[tuple[str, int]],
    *,
    pairs: Sequence[tuple[str, str]] = (),
    title: str = "",
) -> str:
    """Pooled rows as Markdown: one table a slice, then one for the chosen pairs; values in percent [95 % interval].

    Args:
        rows: records with the fields of `methods.pooling.Pooled`.
        metrics: the columns.
        pairs: (system, rival) that get rows of their own.
        title: a line above.
    """
    cells = {(r.slice, r.kind, r.system, r.rival, r.metric, r.k): r for r in rows}
    present = {(r.metric, r.k) for r in rows if r.kind == "mean"}
    shown = [m for m in metrics if m in present]
    head = [f"{NAMES.get(metric, metric)}@{k}" for metric, k in shown]
    lines = [title, ""] if title else []
    for name in dict.fromkeys(r.slice for r in rows):
        means = [r for r in rows if r.slice == name and r.kind == "mean"]
        lines += [f"**{name}** ({means[0].n} queries)", ""]
        lines += _markdown_row("system", head) + _markdown_row("---", ["---:"] * len(shown))
        for system in dict.fromkeys(r.system for r in means if r.metric != "internalization"):
            found = [cells.get((name, "mean", _owner(system, m[0]), None, *m)) for m in shown]
            lines += _markdown_row(system, [_plain_cell(r) for r in found])
        for a, b in pairs:
            for kind, sign in (("difference", "-"), ("ratio", "/")):
                found = [cells.get((name, kind, a, b, *m)) for m in shown]
                lines += _markdown_row(f"*{a} {sign} {b}*", [_plain_cell(r) for r in found])
        lines.append("")
    return "\n".join(lines)


def plain_markdown(head: Sequence[str], rows: Sequence[Sequence[str]], *, title: str = "", note: str = "") -> str:
    """A table of text as Markdown; columns of numbers to the right.

    Args:
        head: names of the columns.
        rows: [row][column].
        title: a line above, bold.
        note: a line below.
    """
    cells = [[_markdown_text(cell) for cell in row] for row in (head, *rows)]
    columns = list(zip(*cells[1:], strict=True)) if rows else [()] * len(head)
    rules = ["---:" if column and all(_NUMBER.match(cell) for cell in column) else "---" for column in columns]
    lines = [f"| {' | '.join(row)} |" for row in (cells[0], rules, *cells[1:])]
    return "\n".join([*([f"**{title}**", ""] if title else []), *lines, *(["", note] if note else [])]) + "\n"


_NUMBER = re.compile(r"[-+]?[\d.,]+( \[.*\])?$|undefined$|0/0$|$")


def _markdown_text(text: str) -> str:
    """Nothing in a cell ends it, is markup of a page, or becomes a link."""
    text = plain(" ".join(text.split()))
    return text.replace("|", "\\|").replace("<", "&lt;").replace("](", "]\\(")


def _markdown_row(first: str, cells: Sequence[str]) -> list[str]:
    return [f"| {' | '.join([first, *cells])} |"]


def _plain_cell(record: Any) -> str:
    """'83.2 [78, 88]' without styles; differences carry their sign."""
    if record is None:
        return ""
    if record.value is None:
        return "0/0"
    sign = "+" if record.kind == "difference" else ""
    value = f"{100 * record.value:{sign}.1f}"
    return value if record.low is None else f"{value} [{100 * record.low:{sign}.0f}, {100 * record.high:{sign}.0f}]"
