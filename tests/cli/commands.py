"""What the tests of the command line share: processes with a clean environment, and their run folders."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path
from typing import Any

from killing import Commands

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROBE = ("--config-dir", str(HERE / "conf"), "method=probe", "model=toy")
_STARTS_OTHERS = ("trainer=", "trainer.devices=", "hydra/launcher=")
"""Overrides of commands that start themselves again, which a fork cannot."""
_READ_AT_IMPORT = ("HF_", "TRANSFORMERS_", "PYTHON", "PATH", "LD_")
"""Variables that a process which has imported everything already would not look at again."""


def environment(**extra: str) -> dict[str, str]:
    """This environment without W&B's or toolsavvy's variables."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WANDB_", "TOOLSAVVY_", "HYDRA_"))}
    return kept | {"PYTHONPATH": f"{ROOT / 'src'}:{HERE}", "OMP_NUM_THREADS": "1", "COLUMNS": "200"} | extra


def command(folder: Path, *args: str) -> list[str]:
    return [sys.executable, "-m", "toolsavvy", *args, f"paths.outputs={folder}"]


def toolsavvy(folder: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own: a fork of one that has imported everything, which saves seconds each."""
    if any(name.startswith(_READ_AT_IMPORT) for name in env) or any(a.startswith(_STARTS_OTHERS) for a in args):
        return fresh(folder, *args, **env)
    words = command(folder, *args)
    ended = _forks().run(words[3:], cwd=ROOT, **env)
    return subprocess.CompletedProcess(words, ended.code, ended.out, ended.err)


def fresh(folder: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The same in a new interpreter."""
    return subprocess.run(
        command(folder, *args), capture_output=True, text=True, cwd=ROOT, env=environment(**env), timeout=300
    )


@cache
def _forks() -> Commands:
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Commands(Path(folder))


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
