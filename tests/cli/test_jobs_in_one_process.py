"""Jobs of one process share the base weights on disk, and none finds what another did."""

from __future__ import annotations

import gc
import hashlib
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import psutil
import pytest
import torch
from commands import runs, status

from toolsavvy.__main__ import main
from toolsavvy.config.schema import ModelConfig
from toolsavvy.models.loading import load_base, toy_model

TINY = (
    "method=toolgen", "catalog=toy", "model=local", "encoder=toy", "retriever=bm25", "logger=none",
    "trainer.precision=fp32", "trainer.threads=1", "memorization.epochs=1", "method.recipes.plain.epochs=1",
    "method.rivals=false", "suite.catalog_test.resamples=20",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _apart(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["toolsavvy"])
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model as users have it: a folder."""
    folder = tmp_path_factory.mktemp("base") / "model"
    model, tokenizer = toy_model(seed=3)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def digest(folder: Path) -> str:
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def command(outputs: Path, base: Path, *args: str) -> list[Path]:
    with redirect_stdout(StringIO()) as out, redirect_stderr(out):
        code = main([*args, *TINY, f"model.path={base}", f"paths.outputs={outputs}"])
    assert code == 0, out.getvalue()
    return runs(outputs)


def test_a_job_after_others_finds_what_it_finds_alone(base: Path, tmp_path: Path) -> None:
    """Every weight is trained first, then adapters: rows were added and weights changed in place before the second."""
    before = digest(base)
    first, second = command(tmp_path / "sweep", base, "-m", "tuning=full,lora", "seed=1")
    alone = [command(tmp_path / kind, base, f"tuning={kind}", "seed=1") for kind in ("full", "lora")]
    results = [(run / "results.jsonl").read_bytes() for run in (first, second, alone[0][0], alone[1][0])]
    assert results[0] == results[2]
    assert results[1] == results[3] != results[0]
    assert digest(base) == before


def test_weights_are_read_from_disk_once_and_no_change_reaches_the_next_job(base: Path) -> None:
    spec = ModelConfig(source="path", path=str(base))
    first, tokenizer = load_base(spec)
    untouched = {name: weight.clone() for name, weight in first.state_dict().items()}
    with torch.no_grad():
        for weight in first.parameters():
            weight.add_(1.0)
    tokenizer.add_tokens(["<<leak>>"])
    first.resize_token_embeddings(len(tokenizer))
    second, fresh = load_base(spec)
    assert len(fresh) == len(tokenizer) - 1
    assert all(torch.equal(weight, untouched[name]) for name, weight in second.state_dict().items())


def test_twenty_jobs_take_the_memory_of_one(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A model of 30 MB, loaded, trained in place and dropped: twenty of them would be 600 MB."""
    folder = tmp_path_factory.mktemp("large") / "model"
    model, tokenizer = toy_model(layers=2, width=640)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    size = (folder / "model.safetensors").stat().st_size
    del model
    spec, process, used = ModelConfig(source="path", path=str(folder)), psutil.Process(), []
    for _ in range(20):
        loaded, _ = load_base(spec)
        with torch.no_grad():
            for weight in loaded.parameters():
                weight.mul_(0.5)
        del loaded
        gc.collect()
        used.append(process.memory_info().rss)
    assert size > 2e7
    assert used[-1] - used[1] < 2 * size


def test_memory_does_not_grow_over_twenty_jobs(tmp_path: Path) -> None:
    """Every job adds rows and trains them: one model of 7 MB that is kept a job would be 140 MB."""
    model, tokenizer = toy_model(layers=1, width=400)
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    size = (tmp_path / "model" / "model.safetensors").stat().st_size
    del model
    few = ("catalog.tools=6", "stages=[memorization]", "tuning=lora")
    command(tmp_path / "warm", tmp_path / "model", "-m", "seed=0,1", *few)
    gc.collect()
    before = psutil.Process().memory_info().rss
    jobs = command(tmp_path / "sweep", tmp_path / "model", "-m", f"seed={','.join(map(str, range(20)))}", *few)
    assert [status(job)["status"] for job in jobs] == ["done"] * 20
    assert psutil.Process().memory_info().rss - before < 10 * size
