"""report.html, report.md and report.csv over any set of runs."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from toolsavvy.assets import atomic_write
from toolsavvy.figures.vector import Svg
from toolsavvy.methods.overview.axes import Axis, all_axes, labels, pairs_of
from toolsavvy.methods.overview.curves import curve_drawings
from toolsavvy.methods.overview.gathering import Entry, Runs
from toolsavvy.methods.overview.listing import differences, methods_of, run_table, unfinished_table
from toolsavvy.methods.overview.measures import Measure
from toolsavvy.methods.overview.pictures import run_figures
from toolsavvy.methods.overview.results import Board
from toolsavvy.methods.overview.scores import boards
from toolsavvy.methods.overview.studies import studies
from toolsavvy.methods.overview.sweeps import sweep_drawings
from toolsavvy.methods.overview.tables import best_table, board_table, contrast_table, settings
from toolsavvy.methods.overview.words import INTERVALS, READING
from toolsavvy.page import Cell, Drawing, Page, Section, Table
from toolsavvy.report import plain_markdown
from toolsavvy.tracking.masking import mask_text

CSV_HEAD = (
    "suite", "slice", "on", "data", "system", "settings", "cell", "seeds", "metric", "k", "value", "low", "high",
    "n", "interval_over", "minus_best", "minus_best_low", "minus_best_high", "p", "p_holm", "test", "runs",
    "minus_settings",
)  # fmt: skip


@dataclass(frozen=True)
class Overview:
    """Everything that a report has to say.

    Args:
        page: what is shown.
        boards: all numbers.
        labels: cell -> what tells it apart.
    """

    page: Page
    boards: tuple[Board, ...]
    labels: Mapping[str, str]


def overview(runs: Runs, folder: Path, wanted: Sequence[Measure], resamples: int) -> Overview:
    """Gather, average, compare and draw.

    Args:
        runs: to report on.
        folder: of the report: links start here.
        wanted: retrieval measures that become columns.
        resamples: of the bootstraps.
    """
    entries = runs.done
    axes = all_axes(entries)
    named = labels(entries, axes)
    found = boards(entries, wanted, resamples, pairs_of(axes, list(named)))
    parts = [Section("How to read this page", READING)]
    warnings = [*differences(entries, found), *runs.notes]
    if runs.unfinished:
        count = len(runs.unfinished)
        warnings.insert(0, f"{count} of {count + len(entries)} runs have no final numbers; they are listed below.")
    if warnings:
        parts.append(Section("Before comparing", "\n\n".join(warnings), is_warning=True))
    parts += _results(found, axes, named)
    parts += _sweeps(found, axes, named)
    parts += _curves(entries, named)
    parts += _studies(entries, folder, resamples)
    parts += _pictures(entries, named)
    parts += _listing(runs, named, folder)
    parts.append(Section("Intervals and tests", INTERVALS))
    page = Page(mask_text(_title(entries)), tuple(map(_masked, parts)), _lead(runs, axes))
    return Overview(page, tuple(found), named)


def _title(entries: Sequence[Entry]) -> str:
    catalogs = dict.fromkeys(str(e.choices["catalog"]) for e in entries if e.choices.get("catalog"))
    place = f" on {', '.join(catalogs)}" if catalogs else ""
    return f"{methods_of(entries)}{place}: what the runs say"


def _lead(runs: Runs, axes: Sequence[Axis]) -> str:
    seeds = sorted({e.seed for e in runs.done})
    cells = len({e.cell for e in runs.done})
    told = [f"{len(runs.done)} runs in {cells} cells", f"seeds {', '.join(map(str, seeds[:12]))}"]
    told += [f"{len(runs.unfinished)} without numbers"] if runs.unfinished else []
    told += [f"varied: {', '.join(a.name for a in axes)}"] if axes else []
    return mask_text("; ".join(told) + ".")


def _results(found: Sequence[Board], axes: Sequence[Axis], named: Mapping[str, str]) -> list[Section]:
    if not found:
        return [Section("Results", "No run has recorded a number that a table could show.")]
    several = len({(b.data, b.place) for b in found}) > len({b.place for b in found})
    tables = [best_table(found, named)]
    for board in found:
        part = f", {board.slice}" if board.slice not in ("", "all", board.suite) else ""
        on = f" on {board.place}{f' (set {board.data[:6]})' if several else ''}"
        tables.append(board_table(board, axes, f"{board.suite}{part}{on}: all systems; % with 95 % interval."))
    return [Section("Best of each suite", tables=(tables[0],)), Section("All systems", tables=tuple(tables[1:]))]


def _sweeps(found: Sequence[Board], axes: Sequence[Axis], named: Mapping[str, str]) -> list[Section]:
    drawings = tuple(sweep_drawings(found, axes))
    tables = tuple(contrast_table(board, named) for board in found if board.contrasts)
    return [Section("What the settings do", tables=tables, drawings=drawings)] if drawings or tables else []


def _curves(entries: Sequence[Entry], named: Mapping[str, str]) -> list[Section]:
    drawings, notes = curve_drawings(entries, named)
    return [Section("Learning curves", "\n\n".join(notes), drawings=tuple(drawings))] if drawings or notes else []


def _studies(entries: Sequence[Entry], folder: Path, resamples: int) -> list[Section]:
    told = studies(entries, folder, resamples)
    return [*told.sections, *([Section("Studies", "\n\n".join(told.notes))] if told.notes else [])]


def _pictures(entries: Sequence[Entry], named: Mapping[str, str]) -> list[Section]:
    figures, notes = run_figures(entries, named)
    return [Section("Figures of the runs", "\n\n".join(notes), figures=tuple(figures))] if figures else []


def _listing(runs: Runs, named: Mapping[str, str], folder: Path) -> list[Section]:
    parts = [Section("Not finished", tables=(unfinished_table(runs.unfinished, folder),))] if runs.unfinished else []
    return [*parts, Section("Runs", tables=(run_table(runs.done, named, folder),))] if runs.done else parts


def _masked(section: Section) -> Section:
    """The section without secrets, wherever they came from."""
    whole = "\n".join([section.text, *(x for t in section.tables for row in (t.head, *t.texts) for x in row)])
    whole += "\n".join(x for t in section.tables for x in (t.caption, t.note))
    whole += "\n".join(x for d in section.drawings for x in (d.caption, *(k for _, k in d.legend)))
    whole += "\n".join(panel.markup for d in section.drawings for panel in d.panels)
    whole += "\n".join(x for f in section.figures for x in (f.caption, f.alt))
    if mask_text(whole) == whole:  # looked for once, not cell by cell
        return section
    tables = []
    for table in section.tables:
        rows = [
            [replace(c, text=mask_text(c.text)) if isinstance(c, Cell) else mask_text(c) for c in row]
            for row in table.rows
        ]
        head, words = [mask_text(h) for h in table.head], (mask_text(table.caption), mask_text(table.note))
        tables.append(Table(head, rows, *words))
    drawings = tuple(
        Drawing(
            [Svg(mask_text(p.markup)) for p in d.panels], mask_text(d.caption), [(n, mask_text(k)) for n, k in d.legend]
        )
        for d in section.drawings
    )
    figures = tuple(replace(f, caption=mask_text(f.caption), alt=mask_text(f.alt)) for f in section.figures)
    return replace(
        section, text=mask_text(section.text), tables=tuple(tables), drawings=drawings, figures=figures
    )  # fmt: skip


def write(told: Overview, folder: Path) -> None:
    """The page, the same as Markdown (figures aside), and all numbers as CSV."""
    told.page.write(folder / "report.html")
    with atomic_write(folder / "report.md", text=True) as file:
        file.write(markdown(told.page))
    with atomic_write(folder / "report.csv", text=True) as file:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(CSV_HEAD)
        for board in told.boards:
            writer.writerows(_records(board, told.labels))
        file.write(mask_text(text.getvalue()))


def markdown(page: Page) -> str:
    """Headings, texts and tables; names from runs can be neither HTML nor links."""
    lines = [f"# {_escaped(page.title)}", "", _escaped(page.lead), ""]
    before, number = None, 0
    for section in page.sections:
        if not section.text and not section.tables:
            continue
        if section.title != before:
            lines += [f"## {_escaped(section.title)}", ""]
        before = section.title
        for part in re.split(r"\n\s*\n", section.text) if section.text else ():
            lines += [_escaped(" ".join(part.split())), ""]
        for table in section.tables:
            number += 1
            lines.append(_markdown_table(table, number))
    return "\n".join(lines)


def _markdown_table(table: Table, number: int) -> str:
    rows = [[_escaped(text) for text in row] for row in table.texts]
    title = f"Table {number}. {_escaped(table.caption)}".strip()
    return plain_markdown([_escaped(h) for h in table.head], rows, title=title, note=_escaped(table.note))


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_]|\](?=[(\[:]))", r"\\\1", escape(text, quote=False))


def _records(board: Board, named: Mapping[str, str]) -> list[list[Any]]:
    """Every number of a board; differences stand with the measure that was tested."""
    records = []
    for row in board.rows:
        runs = " ".join(e.folder.name for e in row.entries)
        for measure, found in row.values.items():
            test = row.test if measure == board.main else None
            d = test.difference if test else None
            records.append([
                *map(_cell, (board.suite, board.slice, board.place, board.data, row.system, settings(row, named))),
                " ".join(row.cells), " ".join(map(str, row.seeds)), measure[0], measure[1], found.value, found.low,
                found.high, found.n, row.covers if found.low is not None else "",
                *(("", "", "") if d is None or d.value is None else (-d.value, _minus(d.high), _minus(d.low))),
                *(("", "", "") if test is None else (test.p, test.adjusted, test.kind)), _cell(runs),
                "",
            ])  # fmt: skip
    return records + _contrasts(board, named)


def _contrasts(board: Board, named: Mapping[str, str]) -> list[list[Any]]:
    """A difference between two settings a row: its value is after minus before, `minus_settings` names before."""
    name, k = board.main
    return [
        [
            *map(_cell, (board.suite, board.slice, board.place, board.data, c.system, named.get(c.after, ""))),
            c.after, "", name, k, c.test.difference.value, c.test.difference.low, c.test.difference.high,
            c.test.difference.n, "", "", "", "", c.test.p, c.test.adjusted, c.test.kind, "",
            _cell(named.get(c.before, "")),
        ]
        for c in board.contrasts
    ]  # fmt: skip


def _minus(x: float | None) -> float | str:
    return "" if x is None else -x


def _cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
