"""Races for a cache, folders that may not be written, clocks that jump, signals: a command survives or says so."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from commands import PROBE, ROOT, command, environment, lines, record, runs, status

from killing import Commands, Place, Plan, Started, wait_until
from toy_commands import COMMANDS, contents, differences, half_written
from world import read_wandb

DAY = 86400.0
TEACHING = "train seed_sft"
"""Stage of method=pbt in which its process holds the lock of the weights it makes."""


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    return Commands(tmp_path_factory.mktemp("commands"))


Start = Callable[..., Started]


@pytest.fixture
def start(commands: Commands, tmp_path: Path) -> Start:
    """Starts a command by name: (name, further words, outputs below a folder of its own, what it meets)."""
    made: dict[str, Any] = {}

    def start(name: str, *more: str, place: str = "a", cache: str = "cache", **plan: Any) -> Started:
        known, folder = COMMANDS[name], tmp_path / place
        if name not in made:
            made[name] = known.made(tmp_path)
        folder.mkdir(exist_ok=True)
        told = Plan(watched=(str(folder),), prepare=known.prepare, **plan)
        words = (*known.words, *made[name], *more, f"paths.outputs={folder / 'out'}")
        return commands.start(words, told, ROOT, TOOLSAVVY_CACHE=str(tmp_path / cache))

    return start


def run_in(folder: Path) -> Path:
    """The run that is done."""
    (found,) = (r for r in runs(folder / "out") if status(r)["status"] == "done")
    return found


def results_of(folder: Path) -> dict[str, Any]:
    """Of a run that may have found the weights of another: who trains tells of it."""
    found = {
        name: content for name, content in contents(run_in(folder)).items() if name.startswith(("results", "pred"))
    }
    assert found
    return found


def test_runs_into_one_empty_cache_are_equal_and_one_that_is_killed_keeps_nobody_waiting(
    start: Start, tmp_path: Path
) -> None:
    stopped = tmp_path / "stopped"
    holder = start("pbt", place="a", stop=Place(TEACHING, 1), stopped=str(stopped))
    holder.wait_for(stopped)
    waiting = [start("pbt", place=place) for place in "bc"]
    for place in "bc":
        logs = tmp_path / place
        wait_until(
            lambda logs=logs: any(TEACHING in f.read_text() for f in logs.glob("**/run.log")), "never there", 120
        )
    time.sleep(0.5)
    assert all(w.process.is_alive() for w in waiting) and not list((tmp_path / "cache").rglob("*.safetensors"))
    holder.signal(signal.SIGKILL)
    for ended in [w.end() for w in waiting]:
        assert ended.code == 0, ended.err
    assert not (found := differences(results_of(tmp_path / "b"), results_of(tmp_path / "c"))), found
    assert list(half_written(*(tmp_path / name for name in ("cache", "b", "c")))) == []


def test_a_clock_that_jumps_changes_nothing(start: Start, tmp_path: Path) -> None:
    ended = start("toolgen", place="a", cache="a/cache", shift=-DAY, shift_from="memorization").end()
    assert ended.code == 0, ended.err
    killed = start("toolgen", place="b", cache="b/cache", shift=DAY, die=Place("save model")).end()
    assert killed.code == -signal.SIGKILL, killed.err
    tomorrow = time.time() + DAY
    for path in (tmp_path / "b").rglob("*"):
        os.utime(path, (tomorrow, tomorrow))
    resumed = start("toolgen", "resume=true", place="b", cache="b/cache", shift=-DAY).end()
    assert resumed.code == 0, resumed.err
    (run,) = runs(tmp_path / "b" / "out")
    assert not (found := differences(contents(run), contents(run_in(tmp_path / "a")))), found
    assert all(seconds >= 0 for place in "ab" for seconds in record(run_in(tmp_path / place))["stages"].values())


@pytest.mark.parametrize("what", ["outputs", "cache"])
def test_a_folder_that_may_not_be_written_is_one_message(start: Start, tmp_path: Path, what: str) -> None:
    locked = tmp_path / ("a/out" if what == "outputs" else "cache")
    locked.mkdir(parents=True)
    locked.chmod(0o555)
    ended = start("evaluate", powerless=True).end()
    assert ended.code == 2, ended.err
    assert "Traceback" not in ended.err and ended.err.count("error:") == 1
    assert str(locked) in ended.err and "fix:" in ended.err
    assert list(locked.iterdir()) == []
    locked.chmod(0o755)
    assert start("evaluate", "resume=true", powerless=True).end().code == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_training_ends_a_run_with_its_records(
    start: Start, tmp_path: Path, number: int, code: int
) -> None:
    stopped = tmp_path / "stopped"
    place = Place("memorization", 3)
    run = start("toolgen", "logger=wandb", "logger.mode=offline", stop=place, stopped=str(stopped))
    run.wait_for(stopped)
    others = psutil.Process(run.pid).children(recursive=True)
    assert others, "W&B has a process"
    run.signal(number)
    ended = run.end()
    assert ended.code == code, ended.err
    assert "interrupted" in ended.err and "Traceback" not in ended.err
    (folder,) = runs(tmp_path / "a" / "out")
    assert (status(folder)["status"], status(folder)["error"]) == ("failed", "interrupted")
    assert read_wandb(folder).exit_code == 1
    assert psutil.wait_procs(others, timeout=10)[1] == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("launcher", ["basic", "joblib"])
def test_a_signal_ends_a_sweep_and_its_workers(tmp_path: Path, launcher: str, number: int, code: int) -> None:
    words = ["-m", *PROBE, "logger=none", "seed=1,2,3", f"hydra/launcher={launcher}"]
    words += ["hydra.launcher.n_jobs=2"] if launcher == "joblib" else []
    with psutil.Popen(
        command(tmp_path, *words), cwd=ROOT, env=environment(PROBE="sleep:1"), stderr=-1, stdout=-3, text=True
    ) as process:
        wait_until(lambda: any(tmp_path.glob("**/0/checkpoints/half.txt")), "no job started", 120)
        others = process.children(recursive=True)
        process.send_signal(number)
        told = process.communicate(timeout=60)[1]
    assert process.returncode == code, told
    assert "Traceback" not in told and "interrupted" in told
    first = next(r for r in runs(tmp_path) if r.name == "0")
    assert (status(first)["status"], status(first)["error"]) == ("failed", "interrupted")
    assert lines(first.parent / "sweep.jsonl")[0]["status"] == "failed"
    assert psutil.wait_procs(others, timeout=10)[1] == []
