"""W&B workspaces made from finished runs: one a method, with the panels that its numbers call for.

A workspace shows the project's runs of one method (`job_type`), grouped by what they differ in and by `cell`, so that
panels average the seeds. It has a name of its own and is written over when it is made again.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolsavvy.config.schema import Config, LoggerConfig
from toolsavvy.errors import UserError
from toolsavvy.tracking.history import read_history
from toolsavvy.tracking.records import HEADLINE, read_lines, read_record, summary_key
from toolsavvy.tracking.wandb_run import has_key

log = logging.getLogger("toolsavvy")
MEASURES = (
    "recall", "ndcg", "completeness", "internalization", "accuracy", "exact_match", "field_f1", "execution_match",
    "pass_rate", "mismatch_rate", "mcc", "auc", "cosine", "n_c", "n_nc", "un_c", "un_nc",
)  # fmt: skip
"""What panels are made for, in this order; other metrics stay in the results table."""
PANELS = 9
"""Panels a section."""


@dataclass(frozen=True)
class Contents:
    """What the workspace of a method shows.

    Args:
        method: job type of its runs.
        varying: groups of choices (`model`, `tuning`, ...) in which the runs differ.
        results: suite, or `suite:slice` -> (title of a panel -> W&B keys, one a system).
        curves: (stage, metric) of the learning curves.
        figures: names.
        tables: names.
        offline: run folders whose W&B run has not been uploaded.
    """

    method: str
    varying: tuple[str, ...]
    results: Mapping[str, Mapping[str, tuple[str, ...]]]
    curves: tuple[tuple[str, str], ...]
    figures: tuple[str, ...]
    tables: tuple[str, ...]
    offline: tuple[Path, ...]

    @property
    def headline(self) -> str | None:
        """The first key of the first panel: what parameters are set against."""
        panels = next(iter(self.results.values()), {})
        return next(iter(next(iter(panels.values()), ())), None)


def upload_workspaces(config: Config, folders: Sequence[Path]) -> list[str]:
    """Make or renew a workspace for each method of these runs.

    Args:
        config: its `logger` names project, entity and mode.
        folders: of finished runs.

    Returns:
        The workspaces' addresses.

    Raises:
        UserError: wandb-workspaces is not installed, there is no key, or the server did not take it.
    """
    check_upload(config.logger)
    pages = [contents(method, part) for method, part in _by_method(folders).items()]
    for page in pages:
        if page.offline:
            log.warning(
                "%d runs of method=%s are only in their folders; upload them with: wandb sync %s",
                len(page.offline), page.method, " ".join(f"{f}/wandb/offline-run-*" for f in page.offline[:3]),
            )  # fmt: skip
    try:
        return [_save(config.logger, page) for page in pages]
    except UserError:
        raise
    except Exception as error:  # wandb raises what its transport does
        server = os.environ.get("WANDB_BASE_URL", "the W&B server")
        what = f"W&B did not take the workspace: {type(error).__name__}: {str(error)[:300]}"
        fix = "check the network, WANDB_API_KEY and logger.entity; leave out upload=true to do without"
        raise UserError(what, where=server, expected="a project of yours", fix=fix) from error


def check_upload(logger: LoggerConfig) -> None:
    """What making a workspace needs, before any work is done.

    Raises:
        UserError: wandb-workspaces or a key is missing.
    """
    if importlib.util.find_spec("wandb_workspaces") is None:
        raise UserError(
            "wandb-workspaces is not installed", where="upload", expected="the extra 'workspaces'",
            fix="pip install 'toolsavvy[workspaces]', or leave out upload=true",
        )  # fmt: skip
    if logger.mode == "offline" or not has_key():
        raise UserError(
            "W&B has no key" if logger.mode != "offline" else "a workspace is made on the server",
            where="upload", expected="WANDB_API_KEY and logger.mode=auto or online",
            fix="set WANDB_API_KEY, or leave out upload=true",
        )  # fmt: skip


def _by_method(folders: Sequence[Path]) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for folder in folders:
        found.setdefault(str((read_record(folder).get("choices") or {}).get("method", "run")), []).append(folder)
    return found


def contents(method: str, folders: Sequence[Path]) -> Contents:
    """Read off run folders what there is to show."""
    records = [read_record(f) for f in folders]
    choices = [r.get("choices") or {} for r in records]
    names = sorted({n for c in choices for n in c if n not in ("method", "logger", "paths", "experiment", "sweep")})
    varying = tuple(n for n in names if len({str(c.get(n)) for c in choices}) > 1)
    rows = [row for f in folders for row in read_lines(f / "results.jsonl")]
    curves = dict.fromkeys(name for f in folders for _, name, _ in read_history(f))
    figures = dict.fromkeys(p.stem for f in folders for p in sorted((f / "figures").glob("*.png")))
    offline = [f for f, r in zip(folders, records, strict=True) if (r.get("wandb") or {}).get("mode") != "online"]
    stages = tuple((stage, metric) for stage, _, metric in (name.partition("/") for name in curves) if metric)
    return Contents(method, varying, _panels(rows), stages, tuple(figures), _tables(folders), tuple(offline))


def _panels(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Suite (and slice) -> title -> keys, the most important measures first."""
    whole = {r["suite"] for r in rows if r["slice"] is None or r["slice"] in HEADLINE}
    rows = [r for r in rows if r["metric"] in MEASURES and _is_shown(r, r["suite"] in whole)]
    rows = sorted(rows, key=lambda r: (MEASURES.index(r["metric"]), r["k"] or 0))
    found: dict[str, dict[str, dict[str, None]]] = {}
    for row in rows:
        title = row["metric"] if row["k"] is None else f"{row['metric']}@{row['k']}"
        panels = found.setdefault(summary_key(row).partition("/")[0], {})
        if title in panels or len(panels) < PANELS:
            panels.setdefault(title, {})[summary_key(row)] = None
    return {suite: {title: tuple(keys) for title, keys in panels.items()} for suite, panels in found.items()}


def _is_shown(row: Mapping[str, Any], has_headline: bool) -> bool:
    """The headline of a suite; of a suite without one (`test_seen` and `test_unseen` are never averaged), its parts."""
    part = row["slice"]
    return part is None or part in HEADLINE if has_headline else "/" not in part


def _tables(folders: Sequence[Path]) -> tuple[str, ...]:
    """The results, and a sample of the predictions of every suite that kept some."""
    suites = {p.name.partition(".")[0] for f in folders for p in (f / "predictions").glob("*.jsonl")}
    return ("results", *(f"predictions/{suite}" for suite in sorted(suites)))


def _library() -> tuple[Any, Any, Any]:
    """Workspaces, their panels and expressions; its types say less than it takes."""
    return tuple(map(importlib.import_module, (f"wandb_workspaces.{n}" for n in ("workspaces", "reports.v2", "expr"))))


def _save(logger: LoggerConfig, page: Contents) -> str:
    """Write one workspace, over the one that was made before."""
    import wandb

    ws, *_ = _library()
    api = wandb.Api(timeout=30)
    entity = logger.entity or api.default_entity
    if not entity:
        raise UserError("the key belongs to no team", where="logger.entity", expected="a W&B team or user name")
    slug = hashlib.sha256(f"toolsavvy/{page.method}".encode()).hexdigest()[:11]
    try:
        workspace = ws.Workspace.from_url(f"{api.settings['base_url']}/{entity}/{logger.project}?nw={slug}")
    except ValueError:  # there is none yet
        workspace = ws.Workspace(entity=entity, project=logger.project, name=f"toolsavvy {page.method}")
        workspace._internal_name = f"nw-{slug}-v"  # else it gets a random one, and the next report makes another
    workspace.sections = _sections(page)
    workspace.runset_settings = _runs(page)
    workspace.settings = ws.WorkspaceSettings(max_runs=50)
    return str(workspace.save().url)


def _runs(page: Contents) -> Any:
    """Which runs, and how they are put together: by what they differ in, then by cell, seeds within."""
    ws, _, expr = _library()
    groups: list[Any] = [*(expr.Config(f"choices.{name}") for name in page.varying), expr.Config("cell")]
    columns = [f"config:choices.value.{name}" for name in page.varying] + ["config:seed.value"]
    columns += [f"summary:{page.headline}"] if page.headline else []
    mine: Any = expr.Metric("JobType") == page.method
    return ws.RunsetSettings(
        filters=expr.And(mine), groupby=groups, pinned_columns=["run:displayName", *columns]
    )  # fmt: skip


def _sections(page: Contents) -> list[Any]:
    """Results by suite, curves by stage, figures, tables, and what the parameters did."""
    ws, wr, _ = _library()
    cell: Any = wr.Config("cell")
    found = [
        ws.Section(name=f"{suite}: mean of the seeds, with their standard error", is_open=True, panels=[
            wr.BarPlot(
                title=title, metrics=list(keys), groupby=cell, groupby_aggfunc="mean", groupby_rangefunc="stderr"
            )
            for title, keys in panels.items()
        ])
        for suite, panels in page.results.items()
    ]  # fmt: skip
    for stage in dict.fromkeys(stage for stage, _ in page.curves):
        lines = [
            wr.LinePlot(
                title=metric, x=f"{stage}/step", y=[f"{stage}/{metric}"], groupby=cell, groupby_aggfunc="mean",
                groupby_rangefunc="minmax",
            )
            for name, metric in page.curves if name == stage
        ]  # fmt: skip
        found.append(ws.Section(name=f"{stage}: learning curves", panels=lines[:PANELS], is_open=not page.results))
    if page.figures:
        browsers = [wr.MediaBrowser(title=name, media_keys=[f"figures/{name}"]) for name in page.figures]
        found.append(ws.Section(name="figures", panels=browsers, is_open=True))
    tables = [wr.WeavePanelSummaryTable(table_name=name, layout=wr.Layout(w=24, h=12)) for name in page.tables]
    found.append(ws.Section(name="tables", panels=tables))
    return [*found, *_parameters(page)]


def _parameters(page: Contents) -> list[Any]:
    """Runs beside one another by their choices; nothing where none is measured."""
    ws, wr, _ = _library()
    panels: list[Any] = [wr.RunComparer(diff_only="split")]
    if page.headline is not None:
        names = [wr.Config(f"choices.{name}") for name in page.varying] + [wr.Config("seed")]
        columns = [wr.ParallelCoordinatesPlotColumn(metric=m) for m in (*names, wr.SummaryMetric(page.headline))]
        panels += [wr.ParallelCoordinatesPlot(title=page.headline, columns=columns)]
        panels += [wr.ParameterImportancePlot(with_respect_to=page.headline)]
    return [ws.Section(name="what the parameters did", panels=panels)]
