"""A run that is continued must find the catalog, model and files that it began with; else it is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import ROOT, runs, status

from killing import Commands, Place, Plan
from toolsavvy.catalogs.jsonl import save
from toolsavvy.models.loading import toy_model
from world import toy_set


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    return Commands(tmp_path_factory.mktemp("commands"))


def catalog(folder: Path) -> tuple[str, ...]:
    save(toy_set(12), folder / "tools")
    return ("catalog=jsonl", f"catalog.path={folder / 'tools'}", "model=toy")


def other_tool(folder: Path) -> None:
    path = folder / "tools" / "tools.jsonl"
    first, *others = path.read_text().splitlines(keepends=True)
    told = json.loads(first)
    path.write_text(json.dumps(told | {"description": f"{told['description']} Always."}) + "\n" + "".join(others))


def model(folder: Path) -> tuple[str, ...]:
    for part in toy_model(1):
        part.save_pretrained(folder / "model")
    return ("catalog=toy", "catalog.tools=12", "model=local", f"model.path={folder / 'model'}", "model.dtype=float32")


def other_model(folder: Path) -> None:
    toy_model(2)[0].save_pretrained(folder / "model")


CASES: dict[str, tuple[Callable[[Path], tuple[str, ...]], Callable[[Path], None]]] = {
    "catalog.path": (catalog, other_tool),
    "model.path": (model, other_model),
}


@pytest.mark.parametrize("key", CASES)
def test_what_has_changed_is_refused_on_resume(commands: Commands, tmp_path: Path, key: str) -> None:
    make, change = CASES[key]
    words = (
        "method=toolgen", *make(tmp_path), "encoder=toy", "retriever=bm25", "trainer.precision=fp32", "logger=none",
        "suite.catalog_test.resamples=20", "memorization.epochs=1", "method.recipes.plain.epochs=1", "tuning=lora",
        "trainer.threads=1", f"paths.outputs={tmp_path / 'out'}",
    )  # fmt: skip
    plan = Plan(watched=(str(tmp_path / "out"),), die=Place("rank toolgen_stage1"))
    assert commands.run(words, plan, ROOT).code == -9
    (run,) = runs(tmp_path / "out")
    before = {p: p.read_bytes() for p in (run / "checkpoints").iterdir() if p.is_file()}
    change(tmp_path)
    refused = commands.run((*words, "resume=true"), None, ROOT)
    assert refused.code == 2, refused.err
    assert key in refused.err and "fingerprint" in refused.err and "without resume=true" in refused.err
    assert "Traceback" not in refused.err
    assert runs(tmp_path / "out") == [run] and status(run)["status"] == "failed"
    assert {p: p.read_bytes() for p in (run / "checkpoints").iterdir() if p.is_file()} == before
    anew = commands.run(words, None, ROOT)
    assert anew.code == 0, anew.err
    assert len(runs(tmp_path / "out")) == 2
