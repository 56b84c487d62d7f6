"""Training on two processes as a user starts it: the numbers of one process, one run, and nobody left behind."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from commands import ROOT, command, environment, lines, record, runs, status, toolsavvy
from safetensors.torch import load_file

TWO = ("trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2")
SMALL = (
    "catalog=toy", "catalog.tools=10", "encoder=toy", "retriever=bm25", "logger=none", "trainer.precision=fp32",
    "trainer.threads=1", "suite.catalog_test.resamples=20", "tuning=full",
)  # fmt: skip
TOOLGEN = ("method=toolgen", "model=toy", *SMALL, "memorization.epochs=2", "tuning.memorization_rate=1e-3")
CONTRASTIVE = (
    "method=contrastive", *SMALL, "method.mining.relative=null", "method.mining.window=[2,8]",
    "~method.recipes.hard", "+method.recipes={a:{epochs:2,batch_size:8,negatives:3,learning_rate:2e-3}}",
)  # fmt: skip


def steady(folder: Path) -> tuple[str, ...]:
    """The toy encoder without dropout, whose draws are each process's own."""
    from toolsavvy.retrieval.encoders import Encoder

    model = Encoder(source="toy").model
    config: Any = model[0].model.config
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    model.save_pretrained(str(folder), create_model_card=False)
    return "encoder.source=path", f"+encoder.path={folder}"


def one_and_two(folder: Path, *args: str) -> list[Path]:
    """The folders of the same run on one process and on two, side by side."""
    found = []
    for name, more in (("one", ()), ("two", TWO)):
        done = toolsavvy(folder / name, *args, *more, "trainer.precision=fp32")
        assert done.returncode == 0, done.stderr
        (run,) = runs(folder / name)
        found.append(run)
    return found


def curve(run: Path) -> list[tuple[str, str, float]]:
    with (run / "history.csv").open(encoding="utf-8") as file:
        return [(row["step"], row["metric"], float(row["value"])) for row in csv.DictReader(file)]


@pytest.mark.parametrize("method", ["toolgen", "contrastive"])
def test_two_processes_end_with_the_run_of_one(tmp_path: Path, method: str) -> None:
    args = TOOLGEN if method == "toolgen" else (*CONTRASTIVE, *steady(tmp_path / "encoder"))
    one, two = one_and_two(tmp_path, *args)
    assert status(two)["status"] == "done"
    assert {*TWO} < {*record(two)["overrides"]}
    losses = {run: curve(run) for run in (one, two)}
    assert [point[:2] for point in losses[one]] == [point[:2] for point in losses[two]]
    assert sum("/loss" in metric for _, metric, _ in losses[one]) > 8
    assert [p[2] for p in losses[two]] == pytest.approx([p[2] for p in losses[one]], rel=1e-5)
    assert lines(two / "results.jsonl") == lines(one / "results.jsonl")
    files = {run: sorted(str(p.relative_to(run)) for p in run.rglob("*") if p.is_file()) for run in (one, two)}
    assert files[one] == files[two]
    weights = [load_file(run / "model" / "model.safetensors") for run in (one, two)]
    assert max(float((weights[0][name] - weights[1][name]).abs().max()) for name in weights[0]) < 1e-5


def started(folder: Path) -> tuple[subprocess.Popen[str], psutil.Process, Path]:
    """A training that would go on for long, its second rank, and its run."""
    process = subprocess.Popen(
        command(folder, *TOOLGEN, "memorization.epochs=100000", *TWO, "trainer.precision=fp32"), cwd=ROOT,
        env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for _ in range(24_000):
        found = list(folder.rglob("history.csv"))
        if found and "loss" in found[0].read_text():
            (other,) = psutil.Process(process.pid).children()
            return process, other, found[0].parent
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    process.kill()
    raise AssertionError("training never began")


def gone(process: psutil.Process) -> bool:
    """Within seconds."""
    try:
        process.wait(20)
    except psutil.TimeoutExpired:
        process.kill()
        return False
    return True


def test_a_rank_that_dies_ends_the_run_as_failed(tmp_path: Path) -> None:
    process, other, run = started(tmp_path)
    other.send_signal(signal.SIGKILL)
    try:
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1
    said = f"rank 1 (process {other.pid}) was ended by SIGKILL"
    assert said in told
    assert "resume=true" in told
    assert status(run)["status"] == "failed"
    assert said in status(run)["error"]
    assert json.loads((run / "run.json").read_text())["stages"]["memorization"] > 0


def test_further_ranks_do_not_outlive_the_first(tmp_path: Path) -> None:
    process, other, _ = started(tmp_path)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert gone(other)
