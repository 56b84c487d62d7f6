"""What the methods' own reports say about these runs, as sections: necessity, knowledge, pass rates, arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toolsavvy.errors import UserError
from toolsavvy.figures.bars import quadrant_bars
from toolsavvy.figures.passing import pass_rates
from toolsavvy.methods import dissociation, passing
from toolsavvy.methods.dissociation_report import LEGEND, draw
from toolsavvy.methods.dissociation_tables import Grid, Numbers, main_grid
from toolsavvy.methods.knowing.compared import NOTE as NECESSITY_NOTE
from toolsavvy.methods.knowing.compared import bars
from toolsavvy.methods.knowing.comparing import compare, label_rows, probe_rows
from toolsavvy.methods.overview.gathering import Entry
from toolsavvy.methods.passing_report import NOTE as PASSING_NOTE
from toolsavvy.methods.passing_report import panels, tables
from toolsavvy.page import Figure, Section, Table

MOST = 40
"""Runs that are read item by item for one study; of more, one seed a cell."""


@dataclass
class Studies:
    """What is told, and what could not be.

    Args:
        sections: in order.
        notes: a sentence for each study that was left out or cut short.
    """

    sections: list[Section] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def studies(entries: Sequence[Entry], folder: Path, resamples: int) -> Studies:
    """Sections of those studies whose runs are there.

    Args:
        entries: done runs.
        folder: of the report; figures go below it.
        resamples: of the bootstraps.
    """
    found = Studies()
    figures = folder / "figures"
    by_method: dict[str, list[Entry]] = {}
    for entry in entries:
        by_method.setdefault(entry.method, []).append(entry)
    suites = {entry.folder: {str(r["suite"]) for r in entry.rows} for entry in entries}
    necessity = [e for e in by_method.get("necessity", ()) if _has(e, "necessity.*.jsonl")]
    _try(found, "Necessity", necessity, lambda f: _necessity(f, figures, resamples))
    trained = [e for e in by_method.get("toolgen", ()) if {"mcq", "qa"} & suites[e.folder] and _has(e, "*.qrels")]
    for name, part in _by_catalog(trained).items():
        _try(found, "Knowledge and retrieval", part, lambda f, n=name: _knowledge(f, figures, resamples, n))
    passed = [e for e in entries if any(r["metric"] == "pass_rate" for r in e.rows)]
    _try(found, "Pass rate", passed, lambda f: _passing(f, figures, resamples))
    arguments = [e for e in by_method.get("pbt", ()) if _has(e, "parameters.*.jsonl")]
    _try(found, "Arguments", arguments, lambda f: _arguments(f, resamples))
    return found


def _has(entry: Entry, pattern: str) -> bool:
    return any((entry.folder / "predictions").glob(pattern))


def _try(found: Studies, title: str, entries: Sequence[Entry], tell: Callable[[list[Path]], list[Section]]) -> None:
    """A study that these runs do not make up together is named, and the page goes on without it."""
    if not entries:
        return
    chosen = list(entries)
    if len(chosen) > MOST:
        chosen = list({entry.cell: entry for entry in reversed(chosen)}.values())[::-1][:MOST]
        found.notes.append(f"{title}: {len(chosen)} of {len(entries)} runs are told, one a cell.")
    try:
        found.sections += tell([entry.folder for entry in chosen])
    except UserError as error:
        found.notes.append(f"{title}: not told side by side, {str(error).replace(chr(10), '; ')}.")


def _by_catalog(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        key = str(entry.choices.get("catalog")), str(entry.record.get("catalog_fingerprint"))
        groups.setdefault(key, []).append(entry)
    return {f"{name}-{mark[:6]}": part for (name, mark), part in groups.items()}


def _necessity(folders: list[Path], figures: Path, resamples: int) -> list[Section]:
    rows = compare(folders, resamples)
    made = [Table(*label_rows(rows), caption="Necessity and action, run by run.", note=NECESSITY_NOTE)]
    if any(r.probes for r in rows):
        made.append(Table(*probe_rows(rows), caption="Probes for necessity and action: MCC on held-out items."))
    figures.mkdir(exist_ok=True)
    path = figures / "quadrants.svg"
    quadrant_bars([path], bars(rows))
    caption = "What models need against what they do, under both rules."
    return [Section("Necessity", tables=tuple(made), figures=(Figure(path, caption, "quadrants"),))]


def _knowledge(folders: list[Path], figures: Path, resamples: int, name: str) -> list[Section]:
    told = dissociation.gather(folders, (), resamples)
    grid = main_grid(Numbers(told.numbers))
    figures.mkdir(exist_ok=True)
    path = figures / f"dissociation_{name}.svg"
    drawn = draw(told, path)
    caption = "Knowledge (MCQ) against retrieval, after stage 1 and after stage 2."
    section = Section(
        "Knowledge and retrieval",
        "\n\n".join(f"Missing: {sentence}" for sentence in told.missing),
        (_grid_table(grid, f"Knowledge beside retrieval on {name}."),),
        (Figure(path, caption),) if drawn else (),
    )
    return [section]


def _grid_table(grid: Grid, caption: str) -> Table:
    rows = [(name, *("" if c is None else _ends(c.value, c.low, c.high) for c in cells)) for name, cells in grid.rows]
    return Table(("", *grid.head), rows, caption, LEGEND)


def _ends(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "0/0"
    ends = "" if low is None or high is None else f" [{100 * low:.0f}, {100 * high:.0f}]"
    return f"{100 * value:.1f}{ends}"


def _passing(folders: list[Path], figures: Path, resamples: int) -> list[Section]:
    told = passing.gather(folders, (), resamples)
    figures.mkdir(exist_ok=True)
    path = figures / "pass_rate.svg"
    pass_rates([path], panels(told), y="pass rate@k, %")
    made = tuple(Table(head, rows, f"{title[0].upper()}{title[1:]}.") for title, head, rows in tables(told))
    return [Section("Pass rate", PASSING_NOTE, made, (Figure(path, "Pass rate against retrieval."),))]


def _arguments(folders: list[Path], resamples: int) -> list[Section]:
    from toolsavvy.methods.arguments.pooled import tables as argument_tables  # loads what trains models

    made = tuple(Table(tuple(head), rows, f"{title}.") for title, head, rows in argument_tables(folders, resamples))
    return [Section("Arguments", tables=made)]
