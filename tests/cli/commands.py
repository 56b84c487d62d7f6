"""What the tests of the command line share: subprocesses with a clean environment, and their run folders."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROBE = ("--config-dir", str(HERE / "conf"), "method=probe", "model=toy")


def environment(**extra: str) -> dict[str, str]:
    """This environment without W&B's or toolsavvy's variables."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WANDB_", "TOOLSAVVY_", "HYDRA_"))}
    return kept | {"PYTHONPATH": f"{ROOT / 'src'}:{HERE}", "OMP_NUM_THREADS": "1", "COLUMNS": "200"} | extra


def command(folder: Path, *args: str) -> list[str]:
    return [sys.executable, "-m", "toolsavvy", *args, f"paths.outputs={folder}"]


def toolsavvy(folder: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, *args), capture_output=True, text=True, cwd=ROOT, env=environment(**env), timeout=300
    )


def killed(folder: Path, *args: str, reached: threading.Event, **env: str) -> Path:
    """The folder of a run that was killed the hard way once it had reached a point."""
    process = subprocess.Popen(
        command(folder, *args), cwd=ROOT, env=environment(**env), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    assert reached.wait(600)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    (cut,) = runs(folder)
    assert status(cut)["status"] == "running"
    return cut


def runs(folder: Path) -> list[Path]:
    return sorted(p.parent for p in folder.rglob("status.json"))


def status(run: Path) -> dict[str, Any]:
    return json.loads((run / "status.json").read_text())


def record(run: Path) -> dict[str, Any]:
    return json.loads((run / "run.json").read_text())


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
