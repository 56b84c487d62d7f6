"""Which processes are a launcher's, and that nobody waits for them forever."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolsavvy.tracking.workers import end_jobs, wait_for_jobs

SLEEP = "import time; time.sleep(60)"


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """A worker of a launcher (its module is planted), and one that only names it."""
    (tmp_path / "submitit").mkdir()
    (tmp_path / "submitit" / "__init__.py").touch()
    (tmp_path / "submitit" / "job.py").write_text(SLEEP)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    words = {"worker": ["-m", "submitit.job"], "other": ["-c", SLEEP, "submitit", "loky", "/joblib/notes.txt"]}
    found = {name: subprocess.Popen([sys.executable, *told]) for name, told in words.items()}
    yield found
    for process in found.values():
        process.kill()
        process.wait()


def test_only_workers_are_waited_for_and_ended_and_not_forever(
    started: dict[str, subprocess.Popen[bytes]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    start = time.monotonic()
    wait_for_jobs("submitit_local", tmp_path, longest=0.5)
    assert 0.5 <= time.monotonic() - start < 20
    assert "hydra/launcher=submitit_local still run after" in caplog.text
    end_jobs("submitit_local")
    assert started["worker"].poll() is not None and started["other"].poll() is None
    caplog.clear()
    wait_for_jobs("submitit_local", tmp_path, longest=20)
    assert not caplog.text and started["other"].poll() is None
