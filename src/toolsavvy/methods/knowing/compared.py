"""Several runs of method=necessity told: tables, bars of the quadrants, and one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from toolsavvy.assets import atomic_write
from toolsavvy.figures.bars import Bar, quadrant_bars
from toolsavvy.methods.knowing.comparing import Compared, bar_of, columns_that_vary, compare, label_rows, probe_rows
from toolsavvy.methods.story import rich_table
from toolsavvy.page import Figure, Page, Section, Table
from toolsavvy.report import console

NOTE = (
    "% with 95 % intervals over questions. strict: needed unless all N answers are right; 9 of 10: the released "
    "labels' rule. Rules differ: labels on which the two disagree. Strict labels changed: against the run with N=10, "
    "T=0.7 and the neutral wording, on the same questions. Tokens sampled: of the answers without the tool."
)


def show_compared(folders: Sequence[Path], folder: Path, resamples: int, missing: Sequence[str] = ()) -> None:
    """Print the tables and write `necessity.md`, `figures/quadrants.{png,svg}` and `report.html` into a folder.

    Raises:
        UserError: a folder that holds no run of method=necessity.
    """
    for sentence in missing:
        console().print(f"[yellow]left out:[/yellow] {escape(sentence)}", soft_wrap=True)
    rows = compare(folders, resamples)
    tables = [("necessity and action", *label_rows(rows))]
    if any(r.probes for r in rows):
        tables.append(("probes: MCC on test items", *probe_rows(rows)))
    for title, head, body in tables:
        console().print(rich_table(title, head, body))
    console().print(f"[dim]{escape(NOTE)}[/dim]", soft_wrap=True)
    with atomic_write(folder / "necessity.md", text=True) as file:
        file.write("\n\n".join(_markdown(title, head, body) for title, head, body in tables) + f"\n\n{NOTE}\n")
    figures = folder / "figures"
    figures.mkdir(exist_ok=True)
    paths = [figures / "quadrants.png", figures / "quadrants.svg"]
    quadrant_bars(paths, bars(rows), title="Necessity and action")
    sections = [Section(title, tables=(Table(tuple(head), body),)) for title, head, body in tables]
    Page(
        "Necessity and action", (*sections, Section("Quadrants", NOTE, figures=(Figure(paths[0], "", "quadrants"),)))
    ).write(folder / "report.html")
    console().print(f"necessity.md, figures and report.html: {folder}", soft_wrap=True, markup=False)


def bars(rows: Sequence[Compared]) -> list[Bar]:
    """One bar a run and rule."""
    varied = columns_that_vary(rows)
    found = []
    for r in rows:
        told = ", ".join(f"{c}={r.settings[c]}" for c in varied)
        group = f"{r.seen.system} ({told})" if told else r.seen.system
        found += [bar_of("strict", group, r.strict), bar_of("9 of 10", group, r.released)]
    return found


def _markdown(title: str, head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [f"**{title}**", "", f"| {' | '.join(head)} |", f"| {' | '.join(['---', *['---:'] * (len(head) - 1)])} |"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in body)])
