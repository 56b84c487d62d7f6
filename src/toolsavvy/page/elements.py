"""What a page is made of: sections of text, tables, pictures and charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from toolsavvy.figures.vector import Svg


@dataclass(frozen=True)
class Cell:
    """A cell of a table that is more than its text.

    Args:
        text: shown; also in CSV and Markdown.
        path: relative path of a folder or file that the text links to, '' for none; it is quoted here.
        is_code: in a typewriter's letters, and broken where it must be.
        is_best: bold.
    """

    text: str
    path: str = ""
    is_code: bool = False
    is_best: bool = False

    @property
    def href(self) -> str:
        """The link: no path can be read as another scheme, host or query."""
        quoted = quote(self.path, safe="/", errors="replace")
        return quoted if quoted.startswith(".") else f"./{quoted.lstrip('/')}"


@dataclass(frozen=True)
class Table:
    """A table.

    Args:
        head: names of the columns.
        rows: [row][column], plain texts or cells.
        caption: above it; tables with one are numbered.
        note: below it.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    caption: str = ""
    note: str = ""

    @property
    def texts(self) -> list[list[str]]:
        """[row][column] as plain text."""
        return [[cell.text if isinstance(cell, Cell) else cell for cell in row] for row in self.rows]


@dataclass(frozen=True)
class Figure:
    """A .png or .svg file, held by the page.

    Args:
        path: of the file.
        caption: below it; figures with one are numbered.
        alt: what it shows, for those who don't see it; '' for its caption, or the section's title.
    """

    path: Path
    caption: str = ""
    alt: str = ""


@dataclass(frozen=True)
class Drawing:
    """Charts that belong together.

    Args:
        panels: made by `figures.vector`; side by side where there is room.
        caption: below them; numbered with the figures.
        legend: (look, label) of the lines.
    """

    panels: Sequence[Svg]
    caption: str = ""
    legend: Sequence[tuple[int, str]] = ()


@dataclass(frozen=True)
class Section:
    """A heading, and below it text, tables, charts and figures, in this order.

    Args:
        title: of the section; sections of one title that follow one another share the heading.
        text: plain; blank lines part paragraphs.
        tables: in order.
        figures: in order.
        drawings: in order.
        is_warning: the text stands out.
    """

    title: str
    text: str = ""
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    is_warning: bool = False
