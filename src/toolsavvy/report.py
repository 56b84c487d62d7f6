"""Tables for the terminal: one row a system and decoding mode, one column a metric, every number with its interval."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

WIDTH = 118
"""Columns used where the output is no terminal: enough for six metrics with intervals."""
COLUMNS = (("recall", 1), ("recall", 5), ("ndcg", 5), ("completeness", 5), ("internalization", 1), ("internalization", 5))
NAMES = {"recall": "R", "ndcg": "nDCG", "completeness": "C", "internalization": "IS", "mrr": "MRR", "precision": "P"}


def console() -> Console:
    """Standard output, wide enough for a result table when it is a file or a pipe."""
    columns = shutil.get_terminal_size((WIDTH, 40)).columns if sys.stdout.isatty() else WIDTH
    return Console(width=columns, highlight=False, soft_wrap=False)


def result_table(
    results: Sequence[Any], slices: Sequence[str], *, columns: Sequence[tuple[str, int]] = COLUMNS, title: str = ""
) -> Table:
    """One section a slice, one row a system; values in percent with their 95 % interval.

    Args:
        results: records with the fields of `suites.Result`.
        slices: which slices, in order.
        columns: (metric, k) pairs; those that no record has are left out.
        title: above the table.
    """
    cells = {(r.slice, r.system, r.metric, r.k): r for r in results}
    present = {(r.metric, r.k) for r in results}
    shown = [c for c in columns if c in present]
    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False, padding=(0, 1))
    table.add_column("system", no_wrap=True)
    for metric, k in shown:
        table.add_column(f"{NAMES.get(metric, metric)}@{k}", justify="right", no_wrap=True)
    for name in slices:
        systems = list(dict.fromkeys(r.system for r in results if r.slice == name and r.metric != "internalization"))
        if not systems:
            continue
        count = next(r.n for r in results if r.slice == name)
        table.add_row(f"[bold]{name}[/bold] ({count} queries)", end_section=False)
        best = {c: _best(cells, name, systems, c) for c in shown}
        for system in systems:
            row = [_cell(cells.get((name, _owner(system, c[0]), *c)), best[c]) for c in shown]
            table.add_row(f"  {system}", *row, end_section=system == systems[-1])
    return table


def _owner(system: str, metric: str) -> str:
    """IS is a ratio of two decoding modes and recorded for the system; it is shown in the row of its free decoding."""
    return system.removesuffix("-free") if metric == "internalization" and system.endswith("-free") else system


def _best(cells: dict[Any, Any], name: str, systems: Sequence[str], column: tuple[str, int]) -> float:
    records = [cells.get((name, _owner(s, column[0]), *column)) for s in systems]
    values = [r.value for r in records if r is not None and r.value is not None]
    return max(values, default=float("inf"))


def _cell(record: Any, best: float) -> str:
    """'83.2 78–88'; the column's best value is bold."""
    if record is None:
        return ""
    if record.value is None:
        return "[dim]0/0[/dim]"
    value = f"{100 * record.value:.1f}"
    value = f"[bold]{value}[/bold]" if record.value >= best else value
    if record.low is None:
        return value
    return f"{value} [dim]{100 * record.low:.0f}–{100 * record.high:.0f}[/dim]"
