"""Sweeps and interruptions with the real methods: failing jobs, Ctrl-C; kills are in test_killed_at_every_stage."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

from commands import ROOT, command, environment, lines, record, runs, status, toolsavvy

from world import read_wandb

TRAIN = (
    "method=toolgen", "catalog=toy", "model=toy", "encoder=toy", "retriever=bm25", "trainer.precision=fp32",
    "trainer.threads=1", "suite.catalog_test.resamples=50", "memorization.epochs=2",
)  # fmt: skip


def start(folder: Path, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(folder, *args), cwd=ROOT, env=environment(), text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def wait_for(folder: Path, pattern: str, process: subprocess.Popen[str]) -> None:
    """Until the run has written a file."""
    for _ in range(6000):
        if list(folder.rglob(pattern)):
            return
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    raise AssertionError(f"{pattern} never appeared")


def test_a_sweep_over_retrievers_has_a_run_and_a_row_for_each(tmp_path: Path) -> None:
    args = (
        "-m",
        "method=evaluate",
        "catalog=toy",
        "encoder=toy",
        "retriever=bm25,knn",
        "suite.catalog_test.resamples=20",
    )
    done = toolsavvy(tmp_path, *args)
    assert done.returncode == 0, done.stderr
    jobs = runs(tmp_path)
    assert [j.name for j in jobs] == ["0", "1"]
    assert [{r["system"] for r in lines(j / "results.jsonl")} for j in jobs] == [{"bm25"}, {"knn"}]
    assert len({read_wandb(j).id for j in jobs}) == 2
    assert {read_wandb(j).group for j in jobs} == {jobs[0].parent.name}
    assert len({record(j)["config_hash"] for j in jobs}) == 2
    for word in ("2 jobs", "retriever=bm25", "retriever=knn", "done"):
        assert word in done.stderr

    before = {p: p.stat().st_mtime_ns for job in jobs for p in job.rglob("*")}
    again = toolsavvy(tmp_path, *args, "resume=true")
    assert again.returncode == 0, again.stderr
    assert {p: p.stat().st_mtime_ns for job in runs(tmp_path) for p in job.rglob("*")} == before
    assert "2 jobs" in again.stderr


def test_a_job_that_fails_at_run_time_leaves_the_others_alone(tmp_path: Path) -> None:
    args = ("-m", "method=evaluate", "catalog=toy", "catalog.tools=8,500,12", "retriever=bm25", "logger=none")
    done = toolsavvy(tmp_path, *args, "suite.catalog_test.resamples=20")
    assert done.returncode == 1
    jobs = runs(tmp_path)
    assert [status(j)["status"] for j in jobs] == ["done", "failed", "done"]
    assert "500" in status(jobs[1])["error"]
    assert "Traceback" in (jobs[1] / "run.log").read_text()
    assert not (jobs[1] / "results.jsonl").exists()
    assert "Traceback" not in done.stderr
    for word in ("3 jobs", "catalog.tools=500", "failed"):
        assert word in done.stderr


def test_ctrl_c_during_training_is_a_failed_run_with_its_records(tmp_path: Path) -> None:
    with start(tmp_path, *TRAIN, "method.recipes.plain.epochs=3000") as process:
        wait_for(tmp_path, "memorization.safetensors", process)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in told
    assert "Traceback" not in told
    (run,) = runs(tmp_path)
    assert (status(run)["status"], status(run)["error"]) == ("failed", "interrupted")
    assert record(run)["stages"]["memorization"] > 0
    assert not (run / "results.jsonl").exists()
    assert read_wandb(run).exit_code == 1


def test_ctrl_c_ends_the_whole_sweep(tmp_path: Path) -> None:
    with start(tmp_path, "-m", *TRAIN, "method.recipes.plain.epochs=3000", "logger=none", "seed=1,2") as process:
        wait_for(tmp_path, "memorization.safetensors", process)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert [status(r)["status"] for r in runs(tmp_path)] == ["failed"]
