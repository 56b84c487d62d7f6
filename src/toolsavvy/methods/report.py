"""Finished runs as one table: reads run folders, pools the seeds of a cell, prints and writes what comes out.

With a suite over other suites' numbers (`suite=downstream`) it runs that instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from toolsavvy.assets import atomic_write
from toolsavvy.config.schema import Config
from toolsavvy.methods.after import run_after
from toolsavvy.methods.pooling import MEAN, Pooled, pool_seeds
from toolsavvy.report import comparison_table, console, markdown, result_table
from toolsavvy.suites.table import write_jsonl
from toolsavvy.tracking import Run
from toolsavvy.tracking.records import finished_runs, read_record

COLUMNS = tuple(f.name for f in fields(Pooled))


def run(cfg: Config, run: Run) -> None:
    """Correlate, or pool, print, and write `pooled.jsonl` and `pooled.md`."""
    if run_after(cfg, run):
        return
    folders, unfinished = finished_runs(cfg.runs)
    for folder in unfinished:
        console().print(f"[yellow]left out, not done:[/yellow] {folder}", soft_wrap=True)
    metrics = [(name, int(k)) for name, _, k in (m.partition("@") for m in cfg.method.metrics)]
    with run.stage("pool"):
        pairs = [(a, b) for a, b in cfg.method.ratios]
        rows = pool_seeds(folders, metrics, pairs=pairs, slices=cfg.method.slices, resamples=cfg.method.resamples)
    texts = []
    for cell in dict.fromkeys((r.cell, r.suite) for r in rows):
        part = [r for r in rows if (r.cell, r.suite) == cell]
        title = _title(part, folders)
        texts.append(markdown(part, metrics, pairs=_chosen(part), title=title))
        show(part, metrics, title)
    if run.is_writer:
        write_jsonl(run.dir / "pooled.jsonl", rows)
        with atomic_write(run.dir / "pooled.md", text=True) as file:
            file.write("\n".join(texts))
    run.note(runs=[str(f) for f in folders])
    run.table("pooled", COLUMNS, [[_plain(getattr(r, c)) for c in COLUMNS] for r in rows])
    console().print(f"pooled.jsonl and pooled.md: {run.dir}", soft_wrap=True)


def show(rows: Sequence[Pooled], metrics: Sequence[tuple[str, int]], title: str) -> None:
    """Print the means, then the chosen pairs."""
    means = [r for r in rows if r.kind == MEAN]
    out = console()
    out.print(result_table(means, list(dict.fromkeys(r.slice for r in means)), columns=metrics, title=title))
    if _chosen(rows):
        out.print(comparison_table(rows, _chosen(rows), metrics))


def _chosen(rows: Sequence[Pooled]) -> list[tuple[str, str]]:
    """The pairs that were asked for: those with a ratio."""
    return list(dict.fromkeys((r.system, str(r.rival)) for r in rows if r.kind == "ratio"))


def _title(rows: Sequence[Pooled], folders: Sequence[Path]) -> str:
    """What was pooled: method, catalog, suite, cell, seeds."""
    first, seeds = rows[0], rows[0].seeds
    record = next(r for r in map(read_record, folders) if r.get("cell") == first.cell)
    choices = record.get("choices", {})
    experiment = choices.get("experiment", "None")
    name = experiment if experiment != "None" else choices.get("method", "run")
    word = "seed" if len(seeds) == 1 else "seeds"
    listed = ", ".join(map(str, seeds))
    what = f"{name} on {choices.get('catalog')}, {first.suite}, {word} {listed} (cell {first.cell})"
    return f"{what}: % with 95 % interval"


def _plain(value: object) -> object:
    """Tuples as text: W&B's tables hold scalars."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else value
