"""A page as HTML that fetches nothing and runs one script, its own: what a data set or a model wrote stays text."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

from toolsavvy.assets import atomic_write
from toolsavvy.figures.vector import COLOURS, DASHES
from toolsavvy.page.elements import Cell, Drawing, Figure, Section, Table
from toolsavvy.page.style import SCRIPT, STYLE

LONG = 44
"""Characters from which a cell's text is broken into lines."""
_TYPES = {".png": "image/png", ".svg": "image/svg+xml"}
_NUMBER = re.compile(r"[-+\N{MINUS SIGN}]?[\d.,]+( ?%)?( .*)?|0/0|\N{EN DASH}|")
_INTERVAL = re.compile(r" (\[[^\]]*\])")


@dataclass(frozen=True)
class Page:
    """A report.

    All text is escaped; masking of secrets is the caller's (`tracking.masking.mask_text`).

    Args:
        title: of the page.
        sections: in order.
        lead: a line below the title.
    """

    title: str
    sections: tuple[Section, ...]
    lead: str = ""

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
        return _render(self)


def _render(page: Page) -> str:
    """The page as HTML; links to the sections stand above where there are more than three."""
    writer = _Writer()
    body, links, before = [], [], None
    for i, section in enumerate(page.sections):
        heading = ""
        if section.title != before:
            heading = f'<h2 id="s{i}">{clean(section.title)}</h2>\n' if section.title else ""
            links += [f'<li><a href="#s{i}">{clean(section.title)}</a></li>'] if section.title else []
        before = section.title
        body.append(f"<section>\n{heading}{writer.section(section)}\n</section>")
    contents = [f"<nav><ul>{''.join(links)}</ul></nav>"] if len(links) > 3 else []
    lead = [f'<p class="lead">{clean(page.lead)}</p>'] if page.lead else []
    inner = "\n".join([f"<h1>{clean(page.title)}</h1>", *lead, *contents, *body])
    script = f"<script>{SCRIPT}</script>\n" if writer.is_sortable else ""
    allowed = f"; script-src '{_hash(SCRIPT)}'" if writer.is_sortable else ""
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(STYLE)}'{allowed}; base-uri 'none'; form-action 'none'"
    )
    head = (
        f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{clean(page.title)}</title>\n<style>{STYLE}</style>"
    )
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{inner}\n{script}</body>\n</html>\n'


def clean(text: str) -> str:
    """Escaped; what no file or page can hold (lone surrogates, control characters) is replaced.

    Characters that turn the direction of writing are replaced too: with them, a name could be read as another.
    """
    whole = text.encode("utf-8", "replace").decode("utf-8").replace("\r\n", "\n")
    return escape(re.sub(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", "\N{REPLACEMENT CHARACTER}", whole))


def _hash(text: str) -> str:
    """How a policy names a style or script that may be used."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode('ascii')}"


class _Writer:
    """Counts tables and figures."""

    def __init__(self) -> None:
        self.tables = self.figures = self.boxes = 0
        self.is_sortable = False

    def section(self, section: Section) -> str:
        """What stands below the heading."""
        parts = [part.strip("\n") for part in re.split(r"\n\s*\n", section.text)]
        text = [f"<p>{clean(part)}</p>" for part in parts if part.strip()]
        if section.is_warning and text:
            text = [f"<aside>{''.join(text)}</aside>"]
        drawings = [self._drawing(one) for one in section.drawings]
        figures = [self._figure(figure, section.title) for figure in section.figures]
        return "\n".join([*text, *map(self._table, section.tables), *drawings, *figures])

    def _table(self, table: Table) -> str:
        width = len(table.head)
        wrong = next((i for i, row in enumerate(table.rows) if len(row) != width), None)
        if wrong is not None:
            raise ValueError(f"row {wrong} of table '{table.caption}' has {len(table.rows[wrong])} cells, not {width}")
        texts = table.texts
        numbers = [bool(texts) and all(_NUMBER.fullmatch(row[i]) for row in texts) for i in range(width)]
        head = "".join(
            f'<th scope="col" class="number">{clean(name)}</th>' if number else f'<th scope="col">{clean(name)}</th>'
            for name, number in zip(table.head, numbers, strict=True)
        )
        rows = "\n".join(
            "<tr>" + "".join(_cell(cell, number) for cell, number in zip(row, numbers, strict=True)) + "</tr>"
            for row in table.rows
        )
        kind = ' class="sort"' if len(table.rows) > 1 else ""
        self.is_sortable = self.is_sortable or bool(kind)
        inner = f"<table{kind}><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>"
        caption, name = self._caption(table)
        note = f'\n<p class="note">{clean(table.note)}</p>' if table.note else ""
        # A wide table scrolls in its own box, which the keyboard reaches too.
        return f'<figure>{caption}<div class="wide" role="region" tabindex="0" {name}>{inner}</div>{note}</figure>'

    def _caption(self, table: Table) -> tuple[str, str]:
        """The caption, and the attribute that names the box after it."""
        if not table.caption:
            return "", 'aria-label="table"'
        self.tables += 1
        label = f"t{self.tables}"
        number = f'<span class="label">Table {self.tables}.</span>'
        caption = f'<figcaption id="{label}">{number} {clean(table.caption)}</figcaption>'
        return caption, f'aria-labelledby="{label}"'

    def _drawing(self, one: Drawing) -> str:
        panels = "\n".join(panel.markup for panel in one.panels)
        keys = "".join(f"<li>{_swatch(look)}{clean(label)}</li>" for look, label in one.legend)
        legend = f'<ul class="legend">{keys}</ul>' if keys else ""
        caption = self._numbered(one.caption)
        return f'<figure class="charts"><div class="panels">{panels}</div>{legend}{caption}</figure>'

    def _numbered(self, caption: str) -> str:
        if not caption:
            return ""
        self.figures += 1
        return f'<figcaption><span class="label">Figure {self.figures}.</span> {clean(caption)}</figcaption>'

    def _figure(self, figure: Figure, title: str) -> str:
        kind = _TYPES.get(figure.path.suffix.lower())
        if kind is None:
            raise ValueError(f"a figure is a .png or .svg file, not {figure.path.name}")
        data = base64.b64encode(figure.path.read_bytes()).decode("ascii")
        alt = clean(figure.alt or figure.caption or title)
        caption = self._numbered(figure.caption)
        # As an image, not as markup: what is inside a file can neither run nor share ids with another.
        return f'<figure class="picture"><img alt="{alt}" src="data:{kind};base64,{data}">{caption}</figure>'


def _swatch(look: int) -> str:
    kind = f"line c{look % COLOURS} d{look // COLOURS % DASHES}"
    return f'<svg width="26" height="8" aria-hidden="true"><line class="{kind}" x1="1" x2="25" y1="4" y2="4"/></svg>'


def _cell(cell: str | Cell, is_number: bool) -> str:
    found = cell if isinstance(cell, Cell) else Cell(cell)
    inner = clean(found.text)
    if is_number:
        inner = _INTERVAL.sub(r' <span class="ci">\1</span>', inner)
    if found.is_code:
        return f'<td class="command"><code>{inner}</code></td>'
    inner = f"<strong>{inner}</strong>" if found.is_best else inner
    inner = f'<a href="{escape(found.href)}">{inner}</a>' if found.path else inner
    kind = "number" if is_number else "long" if len(found.text) > LONG else ""
    return f'<td class="{kind}">{inner}</td>' if kind else f"<td>{inner}</td>"
