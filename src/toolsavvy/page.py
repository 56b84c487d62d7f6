"""report.html: one page that holds everything it shows, for a browser without network or scripts."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from toolsavvy.assets import atomic_write

_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
_NUMBER = re.compile(r"[-+]?[\d.,]+( ?%)?( .*)?|0/0|")
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; background: #fff; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid #ccc; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .3rem 0; font-weight: 600; }
th, td { padding: .2rem .7rem .2rem 0; text-align: left; vertical-align: top; white-space: pre-line; }
thead th { border-bottom: 1px solid #888; } td.number, th.number { text-align: right; }
.wide { overflow-x: auto; } figure { margin: 1rem 0; } img { max-width: 100%; height: auto; }
figcaption, .note { color: #555; font-size: 13px; } p { white-space: pre-line; max-width: 60rem; }
nav ul { columns: 2; padding-left: 1.2rem; }
"""  # noqa: E501 - a line a rule


@dataclass(frozen=True)
class Table:
    """A table of plain text.

    Args:
        head: names of the columns.
        rows: [row][column].
        caption: above it.
        note: below it.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """A .png or .svg file, held by the page.

    Args:
        path: of the file.
        caption: below it.
        alt: what it shows, for those who don't see it; '' for its caption, or the section's title.
    """

    path: Path
    caption: str = ""
    alt: str = ""


@dataclass(frozen=True)
class Section:
    """A heading, and below it text, tables and figures, in this order.

    Args:
        title: of the section; sections of one title that follow one another share the heading.
        text: plain; blank lines part paragraphs.
        tables: in order.
        figures: in order.
    """

    title: str
    text: str = ""
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class Page:
    """A report.

    All text is escaped; masking of secrets is the caller's (`tracking.masking.mask_text`).

    Args:
        title: of the page.
        sections: in order.
    """

    title: str
    sections: tuple[Section, ...]

    def write(self, path: Path) -> Path:
        """Write the page, whole or not at all.

        Raises:
            ValueError: a table's row is not as long as its head, or a figure is neither .png nor .svg.
        """
        page = self.html()
        with atomic_write(path, text=True) as file:
            file.write(page)
        return path

    def html(self) -> str:
        """The page as HTML."""
        body, links, before = [], [], None
        for i, section in enumerate(self.sections):
            heading = ""
            if section.title != before:
                heading = f'<h2 id="s{i}">{_text(section.title)}</h2>\n'
                links.append(f'<li><a href="#s{i}">{_text(section.title)}</a></li>')
            before = section.title
            body.append(f"<section>\n{heading}{_inner(section)}\n</section>")
        contents = [f"<nav><ul>{''.join(links)}</ul></nav>"] if len(links) > 3 else []
        inner = "\n".join([f"<h1>{_text(self.title)}</h1>", *contents, *body])
        # Nothing may be fetched or run, whatever a data set or a model wrote.
        policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
        head = (
            f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{_text(self.title)}</title>\n<style>{_STYLE}</style>"
        )
        return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{inner}\n</body>\n</html>\n'


def _inner(section: Section) -> str:
    """What stands below the heading."""
    parts = [part.strip("\n") for part in re.split(r"\n\s*\n", section.text)]
    text = [f"<p>{_text(part)}</p>" for part in parts if part.strip()]
    figures = (_figure(figure, section.title) for figure in section.figures)
    return "\n".join([*text, *map(_table, section.tables), *figures])


def _text(text: str) -> str:
    """Escaped; what no file or page can hold (lone surrogates, control characters) is replaced."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return escape(re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "\N{REPLACEMENT CHARACTER}", whole.replace("\r\n", "\n")))


def _table(table: Table) -> str:
    width = len(table.head)
    wrong = next((i for i, row in enumerate(table.rows) if len(row) != width), None)
    if wrong is not None:
        raise ValueError(f"row {wrong} of table '{table.caption}' has {len(table.rows[wrong])} cells, not {width}")
    numbers = [bool(table.rows) and all(_NUMBER.fullmatch(row[i]) for row in table.rows) for i in range(width)]
    head = "".join(_cell("th", name, number) for name, number in zip(table.head, numbers, strict=True))
    rows = "\n".join(
        "<tr>" + "".join(_cell("td", cell, number) for cell, number in zip(row, numbers, strict=True)) + "</tr>"
        for row in table.rows
    )
    caption = f"<caption>{_text(table.caption)}</caption>" if table.caption else ""
    note = f'\n<p class="note">{_text(table.note)}</p>' if table.note else ""
    inner = f"<table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>"
    return f'<div class="wide">{inner}</div>{note}'


def _cell(kind: str, text: str, number: bool) -> str:
    return f'<{kind} class="number">{_text(text)}</{kind}>' if number else f"<{kind}>{_text(text)}</{kind}>"


def _figure(figure: Figure, title: str) -> str:
    kind = _TYPES.get(figure.path.suffix.lower())
    if kind is None:
        raise ValueError(f"a figure is a .png or .svg file, not {figure.path.name}")
    data = base64.b64encode(figure.path.read_bytes()).decode("ascii")
    caption = f"<figcaption>{_text(figure.caption)}</figcaption>" if figure.caption else ""
    alt = _text(figure.alt or figure.caption or title)
    # As an image, not as markup: what is inside an SVG can neither run nor share ids with another.
    return f'<figure><img alt="{alt}" src="data:{kind};base64,{data}">{caption}</figure>'
