"""What the notebooks call: finished runs as polars frames, their figures as pictures, audits of benchmarks.

Nothing is computed that a report would not: frames hold what runs wrote, pooled numbers come from `pooling`.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from toolsavvy.errors import UserError
from toolsavvy.figures.canvas import COLOURS, bare, headed, new_figure, plain, save
from toolsavvy.figures.curves import Curve, Panel, curve_panels
from toolsavvy.figures.heatmap import Map, heat_maps
from toolsavvy.figures.interactive import SUFFIX
from toolsavvy.methods.overview.gathering import Entry
from toolsavvy.methods.pooling import MEAN, pool_seeds
from toolsavvy.suites.catalog_test import FREE
from toolsavvy.tracking.history import read_history
from toolsavvy.tracking.records import finished_runs, read_lines

if TYPE_CHECKING:
    import polars as pl

VARIABLE = "TOOLSAVVY_RUNS"
"""Names the runs of every notebook: folders or globs, with the system's separator of paths between them."""
NUMBERS = ("system", "suite", "slice", "metric", "k", "value", "low", "high", "n")


@dataclass(frozen=True)
class Picture:
    """A drawing that a notebook shows.

    Args:
        svg: its markup.
    """

    svg: str

    def _repr_svg_(self) -> str:
        """What Jupyter asks for."""
        return self.svg


def places(default: str = "outputs") -> list[str]:
    """Where runs are: `$TOOLSAVVY_RUNS`, or else a folder of this project, wherever the notebook was started."""
    told = os.environ.get(VARIABLE)
    if told:
        return told.split(os.pathsep)
    here = Path.cwd()
    return [str(next((p / default for p in (here, *here.parents) if (p / default).is_dir()), here / default))]


def find(runs: Sequence[str] | str, *methods: str) -> list[Entry]:
    """Finished runs, of certain methods where some are named; run folders, sweep folders or globs are searched.

    Raises:
        UserError: there is none.
    """
    named = [runs] if isinstance(runs, str) else list(runs)
    found = [Entry(folder) for folder in finished_runs(named)[0]]
    chosen = [entry for entry in found if not methods or entry.method in methods]
    if not chosen:
        raise UserError(
            f"no finished run of method {' or '.join(methods)}", where=", ".join(named), expected="such a run",
            fix=f"run toolsavvy method={methods[0]} first, or set RUNS in the notebook's first cell, or {VARIABLE}",
        )  # fmt: skip
    return chosen


def run_frame(entries: Sequence[Entry]) -> pl.DataFrame:
    """A row a run: what it was, how long it took, the command that repeats it."""
    groups = ("method", "catalog", "model", "tuning", "experiment")
    rows = [
        {
            "run": entry.folder.name, **{g: _option(entry.choices.get(g)) for g in groups}, "seed": entry.seed,
            "cell": entry.cell, "seconds": entry.status.wall_seconds if entry.status else None,
            "command": entry.command, "folder": str(entry.folder),
        }
        for entry in entries
    ]  # fmt: skip
    return _frame(rows)


def _option(choice: Any) -> str | None:
    return None if choice in (None, "None") else str(choice)


def result_frame(entries: Sequence[Entry]) -> pl.DataFrame:
    """Every number of every run: `results.jsonl` with run, cell and seed."""
    rows = [
        {"run": entry.folder.name, "cell": entry.cell, "seed": entry.seed, **{name: row.get(name) for name in NUMBERS}}
        for entry in entries
        for row in read_lines(entry.folder / "results.jsonl")
    ]
    return _frame(rows)


def prediction_frame(entry: Entry, suite: str = "catalog_test") -> pl.DataFrame:
    """What every system of a run answered to every query of a suite, and whether its first answer is a gold tool."""
    rows = []
    for path in sorted((entry.folder / "predictions").glob(f"{suite}.*.jsonl")):
        for row in read_lines(path, ("system", "query", "text"), ("gold", "tools")):
            first = row["tools"][0] if row["tools"] else None
            rows.append({k: row[k] for k in ("split", "query", "text", "system", "gold")} | {
                "first": first, "right": first in row["gold"],
            })  # fmt: skip
    return _frame(rows)


def pooled_frame(entries: Sequence[Entry], metrics: Sequence[str], slices: Sequence[str] = ()) -> pl.DataFrame:
    """Means over seeds and paired differences to the best rival, with intervals that cover seeds and tools.

    Args:
        entries: runs that differ in nothing but seed and settings; each cell is pooled by itself.
        metrics: as "recall@1".
        slices: test splits and `split/subset`; all by default.
    """
    asked = [(name, int(k)) for name, _, k in (metric.partition("@") for metric in metrics)]
    pooled = pool_seeds([entry.folder for entry in entries], asked, slices=slices)
    return _frame([asdict(row) | {"seeds": list(row.seeds)} for row in pooled])


def interval_picture(pooled: pl.DataFrame, metric: str, k: int, *, title: str = "") -> Picture:
    """Means of a pooled frame with their 95 % intervals: a panel a slice, a line a system, free decoding hollow."""
    rows = [r for r in pooled.to_dicts() if (r["kind"], r["metric"], r["k"]) == (MEAN, metric, k)]
    slices, systems = (list(dict.fromkeys(r[key] for r in rows)) for key in ("slice", "system"))
    figure = new_figure(2.5 + 2.6 * len(slices), 1.0 + 0.24 * len(systems))
    for ax, name in zip(figure.subplots(1, len(slices), sharey=True, squeeze=False)[0], slices, strict=True):
        for row in (r for r in rows if r["slice"] == name and r["value"] is not None):
            place, is_free = len(systems) - systems.index(row["system"]), row["system"].endswith(f"-{FREE}")
            ends = [100 * (row["value"] if row[end] is None else row[end]) for end in ("low", "high")]
            ax.plot(ends, [place, place], color=COLOURS[0], linewidth=1.5)
            ax.plot([100 * row["value"]], [place], "o", color=COLOURS[0], mfc="white" if is_free else COLOURS[0])
        ax.set_yticks(range(len(systems), 0, -1), [plain(s) for s in systems], fontsize=8)
        ax.set_xlabel(f"{metric}@{k}, %")
        bare(ax)
        headed(ax, name)
    figure.suptitle(plain(title), fontsize=10)
    return picture(lambda path: save(figure, path))


def curve_picture(entries: Sequence[Entry], *, title: str = "") -> Picture:
    """Learning curves out of `history.csv`: a panel a metric, a line a run.

    Raises:
        UserError: no run has any.
    """
    lines: dict[str, list[Curve]] = defaultdict(list)
    for entry in entries:
        points: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for step, name, value in read_history(entry.folder):
            points[name].append((float(step or 0), value))
        for name, found in points.items():
            steps, values = zip(*found, strict=True)
            lines[name].append(Curve(f"{entry.folder.name} (seed {entry.seed})", steps, values))
    if not lines:
        raise UserError("these runs have no curves", where="history.csv", expected="runs that train", fix="name others")
    panels = [Panel(name, "step", name.rpartition("/")[2], tuple(curves)) for name, curves in sorted(lines.items())]
    return picture(lambda path: curve_panels(path, panels, title=title))


def stored_maps(entry: Entry) -> dict[str, list[Map]]:
    """Name -> heat maps that a run drew (`figures/*.plotly.json`): MCC of probes by layer and position, cosines."""
    found = {}
    for path in sorted((entry.folder / "figures").glob(f"*{SUFFIX}")):
        figure = json.loads(path.read_text(encoding="utf-8"))
        maps = [_map(trace, figure["layout"]) for trace in figure["data"] if trace.get("type") == "heatmap"]
        if maps:
            found[path.name.removesuffix(SUFFIX)] = maps
    return found


def _map(trace: Mapping[str, Any], layout: Mapping[str, Any]) -> Map:
    """A trace of Plotly's as the map that it was made of."""
    values = np.array([[np.nan if v is None else v for v in row] for row in trace["z"]], dtype=float)
    axis = layout[f"xaxis{trace['xaxis'].removeprefix('x')}"]["title"]["text"]
    return Map(trace["name"], values, tuple(trace["y"]), tuple(trace["x"]), axis=axis)


def map_frame(maps: Sequence[Map]) -> pl.DataFrame:
    """A row a (layer, position), a column a map."""
    cells: dict[tuple[int, int], dict[str, Any]] = {}
    for one in maps:
        for layer, row in zip(one.layers, one.values.tolist(), strict=True):
            for position, value in zip(one.positions, row, strict=True):
                cell = cells.setdefault((layer, position), {"layer": layer, "position": position})
                cell[one.title] = None if value != value else value
    return _frame(list(cells.values()))


def map_picture(maps: Sequence[Map], measure: str, *, title: str = "") -> Picture:
    """Heat maps side by side; white is 0 where values lie on both sides of it."""
    is_two_sided = any((one.values < 0).any() for one in maps)
    return picture(lambda path: heat_maps(path, maps, measure=measure, diverging=is_two_sided, title=title))


def audit_frame(entries: Sequence[Entry]) -> pl.DataFrame:
    """What can be had without knowing the tool, and more that a benchmark is checked for: a row a check."""
    rows = []
    for entry in entries:
        path = entry.folder / "audit.json"
        found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        keys = ("benchmark", "name", "value", "low", "high", "passed")
        rows += [
            {"run": entry.folder.name} | {key: check.get(key) for key in keys} for check in found.get("checks", ())
        ]
    return _frame(rows)


def item_frame(entry: Entry) -> pl.DataFrame:
    """The items of a generated benchmark (rrb.jsonl, mcq.jsonl, qa.jsonl) as they are on file."""
    paths = [p for name in ("rrb", "mcq", "qa") if (p := entry.folder / f"{name}.jsonl").is_file()]
    rows = [{"benchmark": path.stem, **row} for path in paths for row in read_lines(path)]
    return _frame([{k: v if isinstance(v, str | int | float) else json.dumps(v) for k, v in r.items()} for r in rows])


def picture(draw: Callable[[Path], Any]) -> Picture:
    """What a writer of figures draws, for a notebook."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figure.svg"
        draw(path)
        return Picture(path.read_text(encoding="utf-8"))


def _frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows as a frame; types are those of all rows, not of the first ones."""
    import polars as pl

    return pl.DataFrame(list(rows), infer_schema_length=None)
