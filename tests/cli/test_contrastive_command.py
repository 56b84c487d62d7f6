"""method=contrastive as a process of its own: killed in the middle of training, it ends as if nothing had happened."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from commands import ROOT, command, environment, lines, record, runs, status, toolsavvy

TRAIN = (
    "method=contrastive", "catalog=toy", "catalog.tools=12", "encoder=toy", "retriever=bm25", "tuning=lora",
    "logger=none",
    "trainer.precision=fp32", "trainer.threads=1", "suite.catalog_test.resamples=20", "method.mining.relative=null",
    "method.mining.window=[2,8]", "~method.recipes.hard",
    "+method.recipes={a:{epochs:1,batch_size:16},b:{epochs:8,batch_size:8,negatives:1,learning_rate:2e-3}}",
)  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The second job of a sweep: what it finds in its process must not matter."""
    folder = tmp_path_factory.mktemp("undisturbed")
    done = toolsavvy(folder, "-m", *TRAIN, "method.recipes.b.epochs=1,8")
    assert done.returncode == 0, done.stderr
    assert lines(runs(folder)[0] / "results.jsonl") != lines(runs(folder)[1] / "results.jsonl")
    return runs(folder)[1]


def killed(folder: Path, pattern: str) -> Path:
    """A run that dies as soon as it has written a file; its folder."""
    args = command(folder, *TRAIN)
    with subprocess.Popen(
        args, cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        for _ in range(30_000):
            if list(folder.rglob(pattern)):
                break
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    (cut_off,) = runs(folder)
    assert list(cut_off.rglob(pattern))
    assert status(cut_off)["status"] == "running"
    assert not (cut_off / "results.jsonl").exists()
    return cut_off


def test_a_killed_training_completes_with_the_same_weights_and_results(undisturbed: Path, tmp_path: Path) -> None:
    cut_off = killed(tmp_path, "b.ckpt")
    assert not (cut_off / "checkpoints" / "b").exists()
    left = cut_off / "checkpoints" / ".b-half"  # as if it had died while it was saving
    left.mkdir()
    (left / "modules.json").write_text("[]")

    done = toolsavvy(tmp_path, *TRAIN, "resume=true")
    assert done.returncode == 0, done.stderr
    assert runs(tmp_path) == [cut_off]
    assert (status(cut_off)["status"], record(cut_off)["attempts"]) == ("done", 2)
    assert lines(cut_off / "results.jsonl") == lines(undisturbed / "results.jsonl")
    for folder in ("model", "checkpoints/a", "checkpoints/b"):
        weights = [(run / folder / "model.safetensors").read_bytes() for run in (cut_off, undisturbed)]
        assert weights[0] == weights[1], folder
    assert record(cut_off)["train_b"] == record(undisturbed)["train_b"]
    assert record(cut_off)["train_b"]["validation_recall@1"] > 0
    assert not list(cut_off.rglob("*.ckpt"))
