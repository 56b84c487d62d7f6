"""What a run tells, as it goes: tables to the terminal and the logger, figures to files, all of it into report.html."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from toolsavvy.page import Figure, Page, Section
from toolsavvy.page import Table as PageTable
from toolsavvy.report import console
from toolsavvy.tracking import Run
from toolsavvy.tracking.masking import mask_text

Draw = Callable[[Sequence[Path]], Any]


class Story:
    """Collects a run's report; what is written does not depend on whether somebody watches the terminal.

    Args:
        run: the run that it is about.
        title: of the page.
    """

    def __init__(self, run: Run, title: str) -> None:
        self.run, self.title = run, title
        self.sections: list[Section] = []

    def text(self, title: str, text: str) -> None:
        """A paragraph of its own."""
        console().print(escape(text), soft_wrap=True)
        self.sections.append(Section(title, text=mask_text(text)))

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> None:
        """A table, and what must be known to read it."""
        console().print(rich_table(title, columns, rows))
        if note:
            console().print(f"[dim]{escape(note)}[/dim]", soft_wrap=True)
        self.run.table(re.sub(r"\W+", "_", title.partition(":")[0].lower()).strip("_"), columns, rows)
        masked = [[mask_text(cell) for cell in row] for row in rows]
        self.sections.append(Section(title, tables=(PageTable(tuple(columns), masked, note=note),)))

    def figure(self, name: str, title: str, draw: Draw, caption: str = "") -> None:
        """A figure as PNG, SVG and, if its drawer can, Plotly's JSON below `figures/`; drawn by a function of paths."""
        if not self.run.is_writer:
            return
        folder = self.run.dir / "figures"
        folder.mkdir(exist_ok=True)
        paths = [folder / f"{name}{suffix}" for suffix in (".png", ".svg", ".plotly.json")]
        draw(paths)
        self.run.figure(name, paths[0])
        self.sections.append(Section(title, figures=(Figure(paths[0], caption, title),)))

    def write(self) -> None:
        """The page, whole or not at all."""
        if self.run.is_writer:
            Page(self.title, tuple(self.sections)).write(self.run.dir / "report.html")


def rich_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Numbers to the right."""
    table = Table(title=escape(title), title_justify="left", box=None, pad_edge=False, padding=(0, 1))
    for i, column in enumerate(columns):
        is_number = all(re.match(r"[-+.\d]|undefined|$", row[i]) for row in rows)
        table.add_column(escape(column), justify="right" if is_number and i else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    return table
