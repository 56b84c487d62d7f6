"""What finished runs say together, read from their folders: one page about any set of them, or a special table.

`method.kind=page` writes report.html, report.md and report.csv; `seeds` pools the seeds of a cell, `dissociation` puts
what models know beside what they find, `necessity` sets runs of method=necessity beside one another, `pass_rate` draws
those of suite=downstream against retrieval, `pbt` pools those of method=pbt; with a suite over other suites' numbers
(`suite=correlation`) it runs that instead. The same reports stand at the end of a sweep that names one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from rich.markup import escape

from toolsavvy.assets import atomic_write
from toolsavvy.config.methods import ReportConfig
from toolsavvy.config.schema import Config
from toolsavvy.methods.after import run_after
from toolsavvy.methods.dissociation import gather
from toolsavvy.methods.dissociation_report import show as show_dissociation
from toolsavvy.methods.knowing.compared import show_compared
from toolsavvy.methods.overview.gathering import read_runs
from toolsavvy.methods.overview.tables import best_table
from toolsavvy.methods.overview.writing import overview, write
from toolsavvy.methods.passing_report import show_passing
from toolsavvy.methods.pooling import MEAN, Pooled, pool_seeds
from toolsavvy.methods.story import rich_table
from toolsavvy.report import comparison_table, console, markdown, result_table
from toolsavvy.suites.table import write_jsonl
from toolsavvy.tracking import Run
from toolsavvy.tracking.records import finished_runs, read_record
from toolsavvy.tracking.workspace import check_upload, upload_workspaces

PAGE, DISSOCIATION, NECESSITY, PASS_RATE, PBT = "page", "dissociation", "necessity", "pass_rate", "pbt"
COLUMNS = tuple(f.name for f in fields(Pooled))


def run(cfg: Config, run: Run) -> None:
    """Correlate, or report on the runs: print, and write into the run's folder."""
    if run_after(cfg, run):
        return
    if cfg.upload:
        check_upload(cfg.logger)
    folders, unfinished = finished_runs(cfg.runs)
    _report(cfg, run, folders, [f for f in unfinished if f != run.dir.resolve()])
    if cfg.upload and run.is_writer:
        for address in upload_workspaces(cfg, folders):
            console().print(f"workspace: {address}", soft_wrap=True, markup=False)


def _report(cfg: Config, run: Run, folders: Sequence[Path], unfinished: Sequence[Path]) -> None:
    """The report that was asked for."""
    if cfg.method.kind == PAGE:
        run.note(runs=[str(f) for f in folders])
        with run.stage("gather"):
            if run.is_writer:
                show_page(cfg.method, folders, unfinished, run.dir.resolve())
        return
    for folder in unfinished:
        console().print(f"[yellow]left out, not done:[/yellow] {escape(str(folder))}", soft_wrap=True)
    run.note(runs=[str(f) for f in folders])
    if cfg.method.kind == DISSOCIATION:
        with run.stage("compare"):
            found = gather(folders, [f"{f.name}: not done" for f in unfinished], cfg.method.resamples)
        if run.is_writer:
            show_dissociation(found, run.dir, _place(folders))
        return
    if cfg.method.kind == NECESSITY:
        with run.stage("compare"):
            if run.is_writer:
                show_compared(folders, run.dir, cfg.method.resamples)
        return
    if cfg.method.kind == PASS_RATE:
        with run.stage("compare"):
            if run.is_writer:
                show_passing(folders, run.dir, cfg.method.ratios, cfg.method.resamples)
        return
    if cfg.method.kind == PBT:
        with run.stage("compare"):
            if run.is_writer:
                from toolsavvy.methods.arguments.pooled import show_pbt  # loads what trains models

                show_pbt(folders, run.dir, cfg.method.resamples)
        return
    with run.stage("pool"):
        rows = pool(cfg.method, folders)
    show_pooled(cfg.method, rows, folders, run.dir if run.is_writer else None)
    run.table("pooled", COLUMNS, [[_plain(getattr(r, c)) for c in COLUMNS] for r in rows])


def after_sweep(settings: ReportConfig, folders: Sequence[Path], missing: Sequence[str], folder: Path) -> None:
    """Report on the jobs of a sweep, into its folder.

    Args:
        settings: of the report, its kind among them.
        folders: of the jobs that are done.
        missing: a sentence for each of the others.
        folder: of the sweep.

    Raises:
        UserError: the jobs left nothing to report on.
    """
    if settings.kind == PAGE:
        show_page(settings, folders, [f for f in finished_runs([str(folder)])[1] if f not in folders], folder.resolve())
        return
    if settings.kind == DISSOCIATION:
        show_dissociation(gather(folders, missing, settings.resamples), folder, _place(folders))
        return
    if settings.kind == NECESSITY:
        show_compared(folders, folder, settings.resamples, missing)
        return
    if settings.kind == PASS_RATE:
        show_passing(folders, folder, settings.ratios, settings.resamples, missing)
        return
    if settings.kind == PBT:
        from toolsavvy.methods.arguments.pooled import show_pbt

        show_pbt(folders, folder, settings.resamples, missing)
        return
    for sentence in missing:
        console().print(f"[yellow]left out:[/yellow] {escape(sentence)}", soft_wrap=True)
    show_pooled(settings, pool(settings, folders), folders, folder)


def show_page(settings: ReportConfig, done: Sequence[Path], others: Sequence[Path], folder: Path) -> None:
    """Everything about any runs: write `report.html`, `report.md` and `report.csv`; print who is best.

    Raises:
        UserError: nothing but reports.
    """
    runs = read_runs([f.resolve() for f in done], [f.resolve() for f in others], folder)
    told = overview(runs, folder, _metrics(settings), settings.resamples)
    write(told, folder)
    out = console()
    if told.boards:
        best = best_table(told.boards, told.labels)
        out.print(rich_table(best.caption, best.head, best.texts))
    for one in runs.unfinished:
        out.print(f"[yellow]{escape(one.state)}:[/yellow] {escape(one.name)}: {escape(one.error)}", soft_wrap=True)
    out.print(f"report.html, report.md and report.csv: {folder}", soft_wrap=True, markup=False)


def pool(settings: ReportConfig, folders: Sequence[Path]) -> list[Pooled]:
    """Pool the seeds of every cell."""
    metrics, pairs = _metrics(settings), [(a, b) for a, b in settings.ratios]
    return pool_seeds(folders, metrics, pairs=pairs, slices=settings.slices, resamples=settings.resamples)


def show_pooled(settings: ReportConfig, rows: Sequence[Pooled], folders: Sequence[Path], folder: Path | None) -> None:
    """Print, and write `pooled.jsonl` and `pooled.md` where there is a folder for them."""
    metrics, texts = _metrics(settings), []
    for cell in dict.fromkeys((r.cell, r.suite) for r in rows):
        part = [r for r in rows if (r.cell, r.suite) == cell]
        title = _title(part, folders)
        texts.append(markdown(part, metrics, pairs=_chosen(part), title=title))
        show(part, metrics, title)
    if folder is None:
        return
    write_jsonl(folder / "pooled.jsonl", rows)
    with atomic_write(folder / "pooled.md", text=True) as file:
        file.write("\n".join(texts))
    console().print(f"pooled.jsonl and pooled.md: {folder}", soft_wrap=True, markup=False)


def _metrics(settings: ReportConfig) -> list[tuple[str, int]]:
    return [(name, int(k)) for name, _, k in (m.partition("@") for m in settings.metrics)]


def _place(folders: Sequence[Path]) -> str:
    """Title of a dissociation: catalogs and models of the runs."""
    records = [read_record(folder).get("choices", {}) for folder in folders]
    catalogs, models = (list(dict.fromkeys(str(r.get(g)) for r in records)) for g in ("catalog", "model"))
    return f"Knowledge and retrieval on {', '.join(catalogs)}, {', '.join(models)}"


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
