"""Sweeps whose jobs run in other processes: joblib, submitit on this machine, Ray on a cluster of this machine.

In each one job fails and one is killed; the table, sweep.jsonl, the exit code and resume=true are as in one process.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import psutil
import pytest
from commands import PROBE, lines, runs, status, toolsavvy

from toolsavvy.config.compose import compose, typed
from toolsavvy.config.launchers import LAUNCHERS, Launcher, check_launcher, launcher_of, spread
from toolsavvy.errors import UserError

FIELDS = (
    *("job", "overrides", "differs", "status", "error", "wall_seconds", "folder", "config_hash", "cell", "seed"),
    "wandb_id",
)


def left(mark: str, seconds: float = 15) -> list[str]:
    """Processes that a command has started, whoever their parent is now, and that do not end in time."""
    end = time.monotonic() + seconds
    while (found := marked(mark)) and time.monotonic() < end:
        time.sleep(0.2)
    return found


def marked(mark: str) -> list[str]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("MARK") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
    return found


@pytest.mark.parametrize("launcher", ["joblib", "submitit_local", "ray"])
def test_a_job_that_fails_and_one_that_is_killed_are_told_and_the_others_go_on(tmp_path: Path, launcher: str) -> None:
    one_at_once = {
        "joblib": "hydra.launcher.n_jobs=2",
        "submitit_local": "hydra.sweeper.max_batch_size=2",
        "ray": "hydra.launcher.ray.init.num_cpus=2",
    }[launcher]
    args = ("-m", *PROBE, "logger=none", "seed=1,2,3", f"hydra/launcher={launcher}", one_at_once)
    done = toolsavvy(tmp_path, *args, PROBE="kill:2", MARK=str(tmp_path))
    assert done.returncode == 1, done.stderr
    folder = runs(tmp_path)[0].parent
    rows = lines(folder / "sweep.jsonl")
    assert all(tuple(row) == FIELDS for row in rows)
    assert [(row["job"], row["seed"]) for row in rows] == [(0, 1), (1, 2), (2, 3)]
    told = [row["status"] for row in rows]
    assert told[1] == "cut off"
    if launcher == "joblib":  # it ends the jobs beside the one that was killed
        assert set(told) <= {"done", "cut off"}
    else:
        assert told == ["done", "cut off", "done"]
    assert [row["differs"] for row in rows] == ["seed=1", "seed=2", "seed=3"]
    assert len({row["cell"] for row in rows}) == 1 and len({row["config_hash"] for row in rows}) == 3
    for word in ("3 jobs", "cut off", f"hydra/launcher={launcher} broke down", "seed=2"):
        assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "multirun.yaml").exists() and not list(folder.rglob("*.pkl"))
    ended = {i: (folder / str(i) / "status.json").stat().st_mtime_ns for i in range(3) if told[i] == "done"}

    again = toolsavvy(tmp_path, *args, "resume=true", PROBE="raise:2", MARK=str(tmp_path))
    assert again.returncode == 1, again.stderr
    assert [row["status"] for row in lines(folder / "sweep.jsonl")] == ["done", "failed", "done"]
    assert status(folder / "1")["error"] == "RuntimeError: planned failure"
    assert "Traceback" in (folder / "1" / "run.log").read_text()
    assert "RuntimeError: planned failure" in again.stderr
    assert all((folder / str(i) / "status.json").stat().st_mtime_ns == moment for i, moment in ended.items())
    assert len(runs(tmp_path)) == 3
    assert left(str(tmp_path)) == []


@pytest.mark.parametrize("launcher", LAUNCHERS.values(), ids=lambda known: known.name)
def test_a_launcher_whose_package_is_missing_is_one_message(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    if launcher.extra is None:
        check_launcher(launcher)
        return
    with pytest.raises(UserError) as caught:
        check_launcher(launcher)
    assert f"hydra/launcher={launcher.name}" in str(caught.value)
    assert f"pip install 'toolsavvy[{launcher.extra}]'" in str(caught.value)


@pytest.mark.parametrize("name", [known.name for known in LAUNCHERS.values()])
def test_every_launcher_composes_and_is_known(name: str) -> None:
    job = compose(["method=doctor", f"hydra/launcher={name}"])
    assert launcher_of(job.launcher).name == name


def test_jobs_side_by_side_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolsavvy.config.launchers.cores", lambda: 8)
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("Memory", (), {"available": 25_000_000_000}))
    monkeypatch.delenv("OMP_NUM_THREADS")
    config = typed(compose(["method=doctor"]).config)
    joblib = LAUNCHERS["JoblibLauncher"]
    threads = ["OMP_NUM_THREADS", "MKL_NUM_THREADS"]
    assert spread(joblib, [config] * 20, []) == (["hydra.launcher.n_jobs=4"], dict.fromkeys(threads, "2"))
    assert spread(joblib, [config] * 2, []) == (["hydra.launcher.n_jobs=2"], dict.fromkeys(threads, "4"))
    assert spread(joblib, [config] * 2, ["hydra.launcher.n_jobs=8"]) == ([], dict.fromkeys(threads, "1"))
    trains_all = typed(compose(["method=toolgen", "tuning=full"]).config)
    assert spread(joblib, [config, trains_all, config], [])[0] == ["hydra.launcher.n_jobs=2"]
    assert spread(LAUNCHERS["SlurmLauncher"], [config] * 2, []) == ([], {})
    config.trainer.accelerator = "gpu"
    assert spread(joblib, [config] * 2, [])[0] == ["hydra.launcher.n_jobs=1"]
