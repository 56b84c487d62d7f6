"""Searches: the sweeper learns what each job reached, whatever became of it; a planted sweeper stands for Optuna."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
import yaml
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper

from toolsavvy.__main__ import main
from toolsavvy.config.compose import compose, compose_sweep
from toolsavvy.errors import UserError
from toolsavvy.tracking.records import Status, config_hash, write_status
from toolsavvy.tracking.study import StopSearch, check_search, reached

CLI = Path(__file__).parents[1] / "cli"
PROBE = ("-m", "--config-dir", str(CLI / "conf"), "method=probe", "model=toy", "logger=none")
OBJECTIVE = "objective=catalog_test/probe/recall@5"


class PlantedSweeper(Sweeper):
    """Tries seed 1, then twice a seed further on if that was better; keeps what it was told."""

    told: ClassVar[list[float | None]] = []

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def setup(self, *, hydra_context: Any, task_function: Any, config: Any) -> None:
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )
        self.folder = Path(config.hydra.sweep.dir)

    def sweep(self, arguments: list[str]) -> None:
        fixed = [a for a in arguments if not a.startswith("seed=")]
        seed, best = 1, -1.0
        for number in range(3):
            (done,) = self.launcher.launch([[*fixed, f"seed={seed}"]], initial_job_idx=number)
            value = done.return_value
            self.told.append(value)
            if value is not None and value > best:
                best, best_seed, seed = value, seed, seed + 10
            else:
                seed += 1
        results = {"name": "planted", "best_params": {"seed": best_seed}, "best_value": best}
        (self.folder / "optimization_results.yaml").write_text(yaml.safe_dump(results))


PlantedSweeper.__module__ = "hydra_plugins.planted"  # Hydra takes plugins from nowhere else
PLANTED = ("hydra.sweeper._target_=hydra_plugins.planted.PlantedSweeper", "hydra.sweeper.sampler=null")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["toolsavvy"])
    monkeypatch.syspath_prepend(str(CLI))
    monkeypatch.setattr(PlantedSweeper, "told", [])
    module = ModuleType("hydra_plugins.planted")
    module.PlantedSweeper = PlantedSweeper  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(importlib.import_module("hydra_plugins"), "planted", module, raising=False)
    Plugins.instance().register(PlantedSweeper)


def search(folder: Path, *args: str) -> int:
    return main(
        [*PROBE, "hydra/sweeper=search", *PLANTED, "seed=int(interval(1,40))", f"paths.outputs={folder}", *args]
    )


def ledger(folder: Path) -> list[dict[str, Any]]:
    (path,) = folder.rglob("sweep.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_job_tells_what_it_reached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert search(tmp_path, OBJECTIVE) == 0
    assert PlantedSweeper.told == [1.25, 11.25, 21.25]
    rows = ledger(tmp_path)
    assert [(r["job"], r["status"], r["seed"], r["differs"], r["folder"]) for r in rows] == [
        (i, "done", seed, f"seed={seed}", str(i)) for i, seed in enumerate((1, 11, 21))
    ]
    assert len({r["config_hash"] for r in rows}) == 3
    assert len({r["cell"] for r in rows}) == 1
    told = capsys.readouterr().err
    assert "3 jobs" in told
    assert "best catalog_test/probe/recall@5: 21.25 with seed=21" in told


def test_a_job_that_fails_reaches_nothing_and_the_search_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROBE", "raise:11")
    assert search(tmp_path, OBJECTIVE) == 1
    assert PlantedSweeper.told == [1.25, None, 12.25]
    assert [r["status"] for r in ledger(tmp_path)] == ["done", "failed", "done"]


def test_a_resumed_search_repeats_no_job_and_still_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert search(tmp_path, OBJECTIVE) == 0
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("results.jsonl")}
    assert search(tmp_path, OBJECTIVE, "resume=true") == 0
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("results.jsonl")} == before
    assert PlantedSweeper.told == [1.25, 11.25, 21.25] * 2


def test_an_objective_that_no_job_reports_ends_the_search_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert search(tmp_path, "objective=catalog_test/prob/recal@5") == 2
    assert len(list(tmp_path.rglob("results.jsonl"))) == 1
    told = capsys.readouterr().err
    assert "objective=catalog_test/prob/recal@5: no job reports it" in told
    assert "set objective to one of 'catalog_test/probe/recall@5'" in told


def test_a_search_needs_an_objective_and_its_package(tmp_path: Path) -> None:
    (job,) = compose_sweep(["method=doctor", "hydra/sweeper=search", *PLANTED, "seed=1,2"])
    with pytest.raises(UserError, match="objective: a search must know what to look for"):
        check_search(job)
    (job,) = compose_sweep(
        ["method=doctor", "hydra/sweeper=search", "hydra.sweeper._target_=absent.plugin.S", OBJECTIVE]
    )
    with pytest.raises(UserError, match=r"pip install 'toolsavvy\[optuna\]'"):
        check_search(job)


def test_the_first_point_stands_for_the_space() -> None:
    space = (
        "seed=int(interval(3,9))", "memorization.learning_rate=tag(log,interval(1e-4,1e-2))", "tuning=full,lora",
        "memorization.epochs=range(2,5)", "show=1",
    )  # fmt: skip
    (job,) = compose_sweep(["method=toolgen", "hydra/sweeper=search", *space])
    assert job.is_searched
    assert (job.config.seed, job.config.memorization.learning_rate, job.config.tuning.kind) == (3, 1e-4, "full")
    assert (job.config.memorization.epochs, job.config.show) == (2, 1)
    jobs = compose_sweep(["method=doctor", "seed=1,2"])
    assert [j.is_searched for j in jobs] == [False, False]


def test_the_objective_changes_no_number() -> None:
    one, other = (compose(["method=doctor", f"objective={o}"]).config for o in ("null", "a/b/c"))
    assert config_hash(one) == config_hash(other)


def test_a_number_that_is_undefined_is_none(tmp_path: Path) -> None:
    row = {"system": "a", "suite": "s", "slice": "all", "metric": "internalization", "k": 1, "value": None}
    (tmp_path / "results.jsonl").write_text(json.dumps(row) + "\n")
    write_status(tmp_path, Status("done"))
    assert reached(tmp_path, "s/a/internalization@1") is None
    with pytest.raises(StopSearch):
        reached(tmp_path, "s/b/internalization@1")
    write_status(tmp_path, Status("failed"))
    assert reached(tmp_path, "s/b/internalization@1") is None


def test_optuna_finds_the_better_end(tmp_path: Path) -> None:
    args = (*PROBE, "hydra/sweeper=search", "hydra.sweeper.n_trials=8", "seed=int(interval(0,40))", OBJECTIVE)
    assert main([*args, f"paths.outputs={tmp_path}"]) == 0
    (path,) = tmp_path.rglob("optimization_results.yaml")
    best = yaml.safe_load(path.read_text())
    assert best["best_value"] == best["best_params"]["seed"] + 0.25
    assert best["best_params"]["seed"] == max(r["seed"] for r in ledger(tmp_path)) > 20
