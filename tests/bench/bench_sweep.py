"""Item 11: what a sweep costs beside its jobs, and what it costs to find that all of it is done."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from record import Record, Row, timed

JOBS = 20
ROOT = Path(__file__).parents[2]
PROBE = ("--config-dir", str(ROOT / "tests" / "cli" / "conf"), "method=probe", "model=toy")


def run() -> Record:
    rows, works = [], True
    for logger, limit in (("none", 0.5), ("wandb", None)):
        with tempfile.TemporaryDirectory() as folder:
            one, alone = timed(lambda name=logger, f=folder: call(Path(f) / "one", name, 1))
            many, swept = timed(lambda name=logger, f=folder: call(Path(f) / "many", name, JOBS))
            again, resumed = timed(lambda name=logger, f=folder: call(Path(f) / "many", name, JOBS, "resume=true"))
            ended = list((Path(folder) / "many").glob("*/*/*/status.json"))
        works &= all(done.returncode == 0 for done in (alone, swept, resumed)) and len(ended) == JOBS
        each = (many - one) / (JOBS - 1)
        detail = {"one_job_seconds": one, "all_jobs_seconds": many}
        rows.append(Row(f"a job of a sweep of {JOBS} that do nothing, logger={logger}", each, None, limit, detail))
        rows.append(Row(f"resume=true where all {JOBS} are done, logger={logger}", again, None, 5.0))
    return Record(
        "11_sweep", "a job in process costs 0.5 s at most, resuming a finished sweep of twenty 5 s",
        "exit code 0, and a status for every job", works, rows,
    )  # fmt: skip


def call(outputs: Path, logger: str, jobs: int, *more: str) -> subprocess.CompletedProcess[str]:
    """A sweep of jobs that write a few numbers, start of the command included."""
    seeds = f"seed={','.join(map(str, range(jobs)))}"
    command = [sys.executable, "-m", "toolsavvy", "-m", *PROBE, f"logger={logger}", f"paths.outputs={outputs}", seeds]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests' / 'cli'}", "WANDB_MODE": "offline"}
    return subprocess.run([*command, *more], capture_output=True, text=True, env=environment, timeout=600, check=False)
