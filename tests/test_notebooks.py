"""The notebooks run on toy runs, hold no outputs, and no logic beyond calls and pictures."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import polars as pl
import pytest
from nbclient import NotebookClient

from planted_models import CALCULATOR, planted_model, planted_questions
from toolsavvy.__main__ import main
from toolsavvy.config.compose import compose, typed
from toolsavvy.decoding.sampling import LocalSampler
from toolsavvy.errors import UserError
from toolsavvy.methods import necessity
from toolsavvy.methods import notebooks as nb
from toolsavvy.methods.knowing import subject as subjects
from toolsavvy.necessity.question import QuestionSet
from toolsavvy.tracking import Run
from toolsavvy.tracking.run import Identity

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NEEDED = ["00_tour", "10_compare_runs", "20_probe_heatmaps", "30_benchmark_audit"]
PROBED = (
    "method=necessity", "questions=arithmetic", "model=toy", "logger=none", "probe.positions=2", "probe.shuffles=1",
    "probe.halvings=1", "probe.splits=[random]", "method.sampling.n=4", "method.sampling.temperature=0.02",
    "method.sampling.max_tokens=4", "method.action.max_tokens=4", "method.resamples=50",
)  # fmt: skip
TOY = ("catalog=toy", "model=toy", "encoder=toy", "logger=none")


@pytest.fixture(scope="module")
def toy_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two seeds of toolgen, a planted direction probed, a generated benchmark: made in this process, once."""
    folder = tmp_path_factory.mktemp("notebooks") / "outputs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["toolsavvy"])
        patch.setenv("TOOLSAVVY_CACHE", str(folder.parent / "cache"))
        for seed in (0, 1):
            words = ("method=toolgen", *TOY, f"seed={seed}", f"hydra.run.dir={folder}/toolgen/{seed}")
            assert main([*words, f"paths.outputs={folder}", "memorization.epochs=1"]) == 0
        made = ("method=generate", "generator=rrb", "catalog.tools=60", f"hydra.run.dir={folder}/generate/rrb")
        assert main([*made, *TOY, f"paths.outputs={folder}"]) == 0
        _probe(folder / "necessity" / "0", patch)
        yield folder


def _probe(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """method=necessity on a model whose calls hang on a planted direction."""
    model, tokenizer, _ = planted_model()
    sampler = LocalSampler(model, tokenizer, name="planted", batch_size=64)
    patch.setattr(subjects, "subject_of", lambda *_: subjects.Subject("planted", sampler, model, tokenizer))
    wordings = {"neutral": "", "discouraging": "No.", "encouraging": "Yes."}
    asked = QuestionSet("planted", tuple(planted_questions(120)), (CALCULATOR,), "", wordings)
    job = compose(PROBED)
    identity = Identity({"model": "toy", "method": "necessity"}, (), "group")
    with Run(typed(job.config), job.config, folder, identity) as run:
        necessity.measured(typed(job.config), run, asked)


def cells(path: Path) -> list[Any]:
    return nbformat.read(path, as_version=4).cells


def test_the_four_notebooks_are_there_and_small() -> None:
    assert [p.stem for p in NOTEBOOKS] == NEEDED
    assert max(p.stat().st_size for p in NOTEBOOKS) <= 200_000


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_they_are_stripped_and_take_their_runs_from_the_first_cell(path: Path) -> None:
    code = [c for c in cells(path) if c.cell_type == "code"]
    assert [c.outputs for c in code] == [[]] * len(code)
    assert {c.execution_count for c in code} == {None}
    assert cells(path)[0].cell_type == "code"
    assert 'RUNS = nb.places("outputs")' in cells(path)[0].source
    for node in (n for cell in code for n in ast.walk(ast.parse(cell.source))):
        assert not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.While | ast.Try), "logic belongs into modules"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_they_run(path: Path, toy_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(nb.VARIABLE, str(toy_runs))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{tmp_path}")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    (tmp_path / "plotly.py").write_text("raise ImportError('not installed')\n")  # they must do without
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [o for c in book.cells if c.cell_type == "code" for o in c.outputs]
    assert [o for o in outputs if o.output_type == "error"] == []
    shown = {kind for o in outputs if "data" in o for kind in o["data"]}
    assert "text/html" in shown  # a frame
    if path.stem != "30_benchmark_audit":
        assert "image/svg+xml" in shown
    else:
        assert "text/markdown" in shown


def test_frames_hold_what_the_runs_wrote(toy_runs: Path) -> None:
    runs = nb.find(str(toy_runs), "toolgen")
    frame = nb.run_frame(runs)
    assert sorted(frame["seed"]) == [0, 1]
    assert frame["cell"].n_unique() == 1
    assert all("method=toolgen" in command for command in frame["command"])
    numbers = nb.result_frame(runs)
    written = sum(len((run.folder / "results.jsonl").read_text().splitlines()) for run in runs)
    assert len(numbers) == written
    answers = nb.prediction_frame(runs[0])
    one = answers.filter(pl.col("system") == "bm25", pl.col("split") == "test_seen")
    told = numbers.filter(
        pl.col("seed") == runs[0].seed, pl.col("system") == "bm25", pl.col("slice") == "test_seen",
        pl.col("metric") == "precision", pl.col("k") == 1,
    )  # fmt: skip
    assert one["right"].mean() == pytest.approx(told["value"].item())


def test_pooled_means_are_those_of_the_seeds(toy_runs: Path) -> None:
    runs = nb.find(str(toy_runs), "toolgen")
    pooled = nb.pooled_frame(runs, ["recall@5"], ["test_seen"]).filter(pl.col("kind") == "mean")
    chosen = (pl.col("metric") == "recall") & (pl.col("k") == 5) & (pl.col("slice") == "test_seen")
    means = nb.result_frame(runs).filter(chosen).group_by("system").agg(pl.col("value").mean())
    both = pooled.join(means, on="system", suffix="_of_seeds")
    assert len(both) == len(pooled) > 3
    assert both["value"].to_list() == pytest.approx(both["value_of_seeds"].to_list())
    drawn = nb.interval_picture(pooled, "recall", 5).svg
    assert drawn.startswith("<?xml")
    assert all(system in drawn for system in pooled["system"])


def test_maps_come_back_as_they_were_drawn(toy_runs: Path) -> None:
    (run,) = nb.find(str(toy_runs), "necessity")
    maps = nb.stored_maps(run)["mcc_prompt"]
    assert {one.title for one in maps} == {"necessity, random split", "action, random split"}
    frame = nb.map_frame(maps)
    assert len(frame) == len(maps[0].layers) * len(maps[0].positions)
    row = frame.filter(pl.col("layer") == maps[0].layers[-1], pl.col("position") == maps[0].positions[0])
    assert row[maps[0].title].item() == pytest.approx(float(maps[0].values[-1, 0]))
    assert frame["action, random split"].max() > 0.5  # the planted direction is there
    assert "layer" in nb.map_picture(maps, "MCC").svg


def test_audits_and_items(toy_runs: Path) -> None:
    (run,) = nb.find(str(toy_runs), "generate")
    checks = nb.audit_frame([run])
    assert set(checks["benchmark"]) == {"rrb"}
    assert checks["passed"].dtype == pl.Boolean
    assert len(nb.item_frame(run)) == len((run.folder / "rrb.jsonl").read_text().splitlines())


def test_without_runs_the_message_says_what_to_do(toy_runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="run toolsavvy method=pbt first"):
        nb.find(str(toy_runs), "pbt")
    monkeypatch.setenv(nb.VARIABLE, os.pathsep.join(["a/*", "b"]))
    assert nb.places() == ["a/*", "b"]
    monkeypatch.delenv(nb.VARIABLE)
    monkeypatch.chdir(ROOT / "notebooks")
    assert nb.places() == [str(ROOT / "outputs")]
