"""The report page over two hundred runs: a sweep of two axes and five seeds, with rankings, curves and failures."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from record import Record, Row, timed

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from run_folders import made_run, made_sweep
from toolsavvy.methods.overview.gathering import read_runs
from toolsavvy.methods.overview.writing import overview, write
from toolsavvy.tracking.records import finished_runs

SEEDS, FAILED = 5, 8
AXES = {"tuning": ["lora", "full"], "training.lr": [1e-5, 1e-4, 1e-3, 1e-2], "method.replay": [0, 0.25, 0.5, 0.75, 1]}
SECONDS, MEGABYTES = 10.0, 5.0
COLUMNS = [("recall", 1), ("recall", 5), ("ndcg", 5), ("completeness", 5), ("internalization", 1)]


def run() -> Record:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "toolgen" / "sweep"
        made = made_sweep(
            place, AXES, seeds=range(SEEDS), steps=500,
            quality=lambda p: 0.4 + 0.1 * p["method.replay"] + 0.3 * (p["training.lr"] == 1e-3),
        )  # fmt: skip
        for i in range(FAILED):
            made_run(place / f"failed{i}", seed=i, status="failed", error="OutOfMemoryError", steps=0)
        own = Path(folder) / "report"
        own.mkdir()
        start = time.process_time()
        wall, told = timed(lambda: report(place, own))
        seconds = time.process_time() - start
        size = (own / "report.html").stat().st_size / 1e6
    listed = sum(
        len(section.tables[0].rows) for section in told.page.sections if section.title in ("Runs", "Not finished")
    )
    seeds = {len(row.seeds) for board in told.boards for row in board.rows}
    rows = [
        Row(f"{len(made)} runs, {FAILED} failed: of one processor", seconds, None, SECONDS),
        Row("the same by the clock, on a machine as busy as it was", wall, None, None),
        Row("report.html", size, None, MEGABYTES, unit="MB"),
    ]
    works = listed == len(made) + FAILED and seeds == {SEEDS}
    title = "a page over 200 runs takes at most 10 s of one processor and 5 MB"
    return Record("12_report", title, "every run is listed, and every number is of all seeds", works, rows)


def report(place: Path, own: Path):
    """As method=report does it, start of the process aside."""
    done, others = finished_runs([str(place)])
    told = overview(read_runs(done, others), own, COLUMNS, 2000)
    write(told, own)
    return told
