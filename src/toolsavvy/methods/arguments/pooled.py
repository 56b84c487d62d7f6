"""Finished runs of method=pbt side by side: seeds pooled, PBT's claims as paired differences, signals by benchmark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape

from toolsavvy.assets import atomic_write
from toolsavvy.errors import UserError
from toolsavvy.methods.arguments.board import TESTED
from toolsavvy.methods.arguments.numbers import SUITE, shown
from toolsavvy.methods.story import rich_table
from toolsavvy.metrics import Interval, bootstrap, paired_difference
from toolsavvy.page import Page, Section, Table
from toolsavvy.report import console
from toolsavvy.tasks import LEVELS
from toolsavvy.tracking.records import read_lines, read_record

MEASURES = {"exact": "exact match", "f1": "field F1", "executed": "execution match"}
"""Field of a prediction record -> what tables call it."""
LEADS = (
    *TESTED,
    ("seed_sft+pgr", "seed_sft"),
    ("pbt+pgr", "pbt"),
    ("seed_sft", "zero_shot"),
    ("self_train", "seed_sft"),
)
Item = Mapping[str, Any]


@dataclass(frozen=True)
class Pool:
    """Runs of one benchmark over seeds.

    Args:
        name: option of the group catalog.
        seeds: of the runs.
        items: system -> [seed], prediction records by task id.
        areas: (fields or calls, signal) -> [seed], AUC on test.
    """

    name: str
    seeds: tuple[int, ...]
    items: Mapping[str, Sequence[Mapping[str, Item]]]
    areas: Mapping[tuple[str, str], Sequence[float]]


def gather(folders: Sequence[Path]) -> list[Pool]:
    """Read runs and pool those of one benchmark.

    Raises:
        UserError: a folder holds no predictions of method=pbt, a seed is there twice, or runs of one benchmark have
            other tasks or another model.
    """
    cells: dict[str, list[tuple[int, Path]]] = defaultdict(list)
    seen: dict[str, tuple[Any, Path]] = {}
    for folder in folders:
        record = read_record(folder)
        if not any((folder / "predictions").glob(f"{SUITE}.*.jsonl")):
            raise UserError(
                "holds no predictions of method=pbt", where=str(folder), expected=f"predictions/{SUITE}.<system>.jsonl",
                fix="give run folders of method=pbt, run with predictions=true",
            )  # fmt: skip
        choices = record.get("choices") or {}
        name, seed = str(choices.get("catalog", "tasks")), int(record.get("seed", 0))
        asked = (choices.get("model"), record.get("division"))
        first, one = seen.setdefault(name, (asked, folder))
        twin = next((other for old, other in cells[name] if old == seed), None)
        if twin or asked != first:
            raise UserError(
                f"seed {seed} is there twice" if twin else "the runs have other tasks or another model",
                where=f"{twin or one} and {folder}", expected="one run a seed, of one model and one division",
                fix="name runs that differ in their seed alone",
            )  # fmt: skip
        cells[name].append((seed, folder))
    return [_pool(name, sorted(found)) for name, found in cells.items()]


def _pool(name: str, runs: Sequence[tuple[int, Path]]) -> Pool:
    items: dict[str, list[Mapping[str, Item]]] = defaultdict(list)
    areas: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _, folder in runs:
        for path in sorted((folder / "predictions").glob(f"{SUITE}.*.jsonl")):
            system = path.name.removeprefix(f"{SUITE}.").removesuffix(".jsonl")
            items[system].append({str(r["id"]): r for r in read_lines(path)})
        for row in read_lines(folder / "results.jsonl"):
            of, _, signal = str(row["slice"]).partition("/")
            if row["metric"] == "auc" and of in ("fields", "calls") and row["value"] is not None:
                areas[of, signal].append(float(row["value"]))
    return Pool(name, tuple(seed for seed, _ in runs), dict(items), dict(areas))


def values(pool: Pool, systems: Sequence[str], measure: str, level: str = "") -> tuple[list[np.ndarray], list[str]]:
    """Values of systems on the tasks that all have answered in every run of all of them.

    Returns:
        float64 [seed, task] for each system, and the unit of each task.
    """
    runs = [run for system in systems for run in pool.items[system]]
    common = [i for i in runs[0] if all(i in run for run in runs)]
    common = [i for i in common if all(run[i].get(measure) is not None for run in runs)]
    common = [i for i in common if not level or runs[0][i].get("level") == level]
    found = [np.array([[float(run[i][measure]) for i in common] for run in pool.items[s]]) for s in systems]
    return found, [str(runs[0][i].get("unit", i)) for i in common]


def mean(pool: Pool, system: str, measure: str, level: str, resamples: int) -> Interval:
    """Mean over seeds and tasks; resampled are seeds and units, crossed."""
    (found,), units = values(pool, [system], measure, level)
    return bootstrap(found, units, resamples) if units else Interval(None, None, None, 0)


def show_pbt(folders: Sequence[Path], folder: Path, resamples: int, missing: Sequence[str] = ()) -> None:
    """Print the tables; write `pbt.md` and `report.html` into a folder.

    Raises:
        UserError: a folder that holds no run of method=pbt.
    """
    for sentence in missing:
        console().print(f"[yellow]left out:[/yellow] {escape(sentence)}", soft_wrap=True)
    told = tables(folders, resamples)
    for title, head, rows in told:
        console().print(rich_table(title, head, rows))
    with atomic_write(folder / "pbt.md", text=True) as file:
        file.write("\n\n".join(_markdown(*table) for table in told) + "\n")
    sections = tuple(Section(title, tables=(Table(tuple(head), rows),)) for title, head, rows in told)
    Page("Arguments: runs side by side", sections).write(folder / "report.html")
    console().print(f"pbt.md and report.html: {folder}", soft_wrap=True, markup=False)


def tables(folders: Sequence[Path], resamples: int) -> list[tuple[str, list[str], list[list[str]]]]:
    """Title, head and rows: every benchmark, then signals by benchmark.

    Raises:
        UserError: as `gather`.
    """
    pools = gather(folders)
    return [table for pool in pools for table in _tables(pool, resamples)] + _signals(pools)


def _tables(pool: Pool, resamples: int) -> list[tuple[str, list[str], list[list[str]]]]:
    """Systems, levels and paired differences of one benchmark."""
    count = len(pool.seeds)
    systems = sorted(pool.items, key=lambda s: (-len(pool.items[s]), list(pool.items).index(s)))
    head = ["system", "seeds", *MEASURES.values()]
    rows = [[s, str(len(pool.items[s])), *(shown(mean(pool, s, m, "", resamples)) for m in MEASURES)] for s in systems]
    levels = [[s, *(shown(mean(pool, s, "exact", level, resamples)) for level in LEVELS)] for s in systems]
    return [
        (f"{pool.name}: {count} seeds, %", head, rows),
        (f"{pool.name}: exact match by level, %", ["system", *LEVELS], levels),
        (
            f"{pool.name}: paired differences, points",
            ["system", "rival", "seeds", *MEASURES.values()],
            _leads(pool, resamples),
        ),
    ]


def _leads(pool: Pool, resamples: int) -> list[list[str]]:
    rows = []
    for system, rival in LEADS:
        sides = [pool.items.get(name, ()) for name in (system, rival)]
        if not all(sides) or len(sides[0]) != len(sides[1]):
            continue
        row = [system, rival, str(len(sides[0]))]
        for measure in MEASURES:
            (a, b), units = values(pool, [system, rival], measure)
            lead = paired_difference(a, b, units, resamples).interval if units else Interval(None, None, None, 0)
            row.append(shown(lead, sign=True))
        rows.append(row)
    return rows


def _signals(pools: Sequence[Pool]) -> list[tuple[str, list[str], list[list[str]]]]:
    """AUC of every signal on test fields and calls, benchmark by benchmark, mean over seeds with its range."""
    found = []
    for of in ("fields", "calls"):
        names = list(dict.fromkeys(signal for pool in pools for kind, signal in pool.areas if kind == of))
        rows = [[name, *(_spread(pool.areas.get((of, name), ())) for pool in pools)] for name in names]
        if rows:
            found.append(
                (f"AUC on test {of}: mean over seeds (lowest to highest)", ["signal", *(p.name for p in pools)], rows)
            )
    return found


def _spread(found: Sequence[float]) -> str:
    if not found:
        return ""
    middle = f"{np.mean(found):.3f}"
    return middle if len(found) == 1 else f"{middle} ({min(found):.3f} to {max(found):.3f})"


def _markdown(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"**{title}**", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])
