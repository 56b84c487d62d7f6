"""Suites over the numbers of other suites: run last, from the records of this run and of those that `runs` names."""

from __future__ import annotations

from urllib.parse import quote

from rich.markup import escape

from toolsavvy.config.compose import build
from toolsavvy.config.schema import Config
from toolsavvy.figures.points import scatter
from toolsavvy.report import console, correlation_table
from toolsavvy.suites.correlation_suite import Correlated, CorrelationSuite
from toolsavvy.suites.scores import Finished
from toolsavvy.suites.table import write_jsonl
from toolsavvy.tracking import Run
from toolsavvy.tracking.records import finished_runs


def chosen(cfg: Config) -> list[CorrelationSuite]:
    """Those of the config's suites that come last."""
    return [suite for suite in map(build, cfg.suite.values()) if getattr(suite, "after", False)]


def run_after(cfg: Config, run: Run) -> list[Correlated]:
    """Correlate, record, draw and print; nothing where no such suite is chosen, and on ranks that write nothing.

    Raises:
        UserError: no run has a number that a suite asks for; everything else is on record by then.
    """
    suites = chosen(cfg)
    if not suites or not run.is_writer:
        return []
    others, unfinished = finished_runs(cfg.runs) if cfg.runs else ([], [])
    for folder in unfinished:
        if folder != run.dir.resolve():
            console().print(f"[yellow]left out, not done:[/yellow] {escape(str(folder))}", soft_wrap=True)
    folders = dict.fromkeys([run.dir.resolve(), *others])
    runs = [Finished(folder) for folder in folders]
    found = []
    for suite in suites:
        with run.stage(f"score {suite.name}"):
            found.append(suite.run(runs))
            run.record(found[-1].results)
            _draw(found[-1], run)
        _show(found[-1])
    write_jsonl(run.dir / "correlations.jsonl", [c for f in found for c in f.correlations])
    write_jsonl(run.dir / "correlation_points.jsonl", [p for f in found for p in f.points])
    rows = [[p.suite, p.system, p.x, p.y] for f in found for p in f.points]
    run.table("correlation_points", ("suite", "system", "x", "y"), rows)
    console().print(f"correlations.jsonl and figures/: {run.dir}", soft_wrap=True, markup=False)
    return found


def _draw(found: Correlated, run: Run) -> None:
    """The scatter plot, if there is a point."""
    if found.data.systems:
        spearman = next(c for c in found.correlations if c.kind == "spearman")
        value = "undefined" if spearman.value is None else f"{spearman.value:.2f}"
        ends = "" if spearman.low is None else f" [{spearman.low:.2f}, {spearman.high:.2f}]"
        title = f"{found.suite}: Spearman {value}{ends}, n = {spearman.n} ({spearman.verdict})"
        path = run.dir / "figures" / f"{quote(found.suite, safe=' ')}.png"
        data = found.data
        scatter(path, data.systems, data.x.tolist(), data.y.tolist(), axes=(found.x, found.y), title=title)


def _show(found: Correlated) -> None:
    """Print the coefficients, and who is left out."""
    out = console()
    out.print(f"[bold]{escape(found.suite)}[/bold]: {escape(found.x)} vs {escape(found.y)}", soft_wrap=True)
    out.print(correlation_table(found.correlations))
    if found.data.missing:
        told = "; ".join(f"{system} ({why})" for system, why in found.data.missing.items())
        out.print(f"[yellow]left out, {len(found.data.missing)}:[/yellow] {escape(told)}", soft_wrap=True)
