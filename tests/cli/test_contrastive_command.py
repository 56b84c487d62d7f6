"""method=contrastive in a sweep: what a job finds in its process does not matter."""

from __future__ import annotations

from pathlib import Path

from commands import lines, record, runs, toolsavvy

TRAIN = (
    "method=contrastive", "catalog=toy", "catalog.tools=12", "encoder=toy", "retriever=bm25", "tuning=lora",
    "logger=none",
    "trainer.precision=fp32", "trainer.threads=1", "suite.catalog_test.resamples=20", "method.mining.relative=null",
    "method.mining.window=[2,8]", "~method.recipes.hard",
    "+method.recipes={a:{epochs:1,batch_size:16},b:{epochs:8,batch_size:8,negatives:1,learning_rate:2e-3}}",
)  # fmt: skip


def test_the_second_job_of_a_sweep_has_the_weights_and_results_of_a_run_of_its_own(tmp_path: Path) -> None:
    done = toolsavvy(tmp_path / "sweep", "-m", *TRAIN, "method.recipes.b.epochs=1,8")
    assert done.returncode == 0, done.stderr
    first, second = runs(tmp_path / "sweep")
    assert lines(first / "results.jsonl") != lines(second / "results.jsonl")

    done = toolsavvy(tmp_path / "alone", *TRAIN)
    assert done.returncode == 0, done.stderr
    (alone,) = runs(tmp_path / "alone")
    assert lines(alone / "results.jsonl") == lines(second / "results.jsonl")
    for folder in ("model", "checkpoints/a", "checkpoints/b"):
        weights = [(run / folder / "model.safetensors").read_bytes() for run in (alone, second)]
        assert weights[0] == weights[1], folder
    assert record(alone)["train_b"] == record(second)["train_b"]
    assert record(alone)["train_b"]["validation_recall@1"] > 0
    assert not list(alone.rglob("*.ckpt"))
