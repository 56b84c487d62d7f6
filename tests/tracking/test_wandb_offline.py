"""What W&B is told, read back from offline files of runs in this process: names, numbers, tables, ends, no secret."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from test_tracking import Number, make_run
from toolsavvy.__main__ import main
from toolsavvy.figures.heatmap import Map, heat_maps
from toolsavvy.tracking import Run
from toolsavvy.tracking.records import read_record, read_status
from world import WandbRun, read_wandb

CLI = Path(__file__).parents[1] / "cli"
PROBE = ("--config-dir", str(CLI / "conf"), "method=probe", "model=toy", "logger=wandb")
TOKEN = "tok-7d1f9e-never-write-me"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody's account; the process's own arguments, which Hydra and Lightning read, come back."""
    for name in [n for n in os.environ if n.startswith(("WANDB_", "PROBE", "TOOLSAVVY_OUTPUTS"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "argv", ["toolsavvy"])
    monkeypatch.syspath_prepend(str(CLI))
    yield
    import wandb

    assert wandb.run is None, "a run was left open"


def command(folder: Path, *args: str) -> int:
    return main([*args, f"paths.outputs={folder}"])


def finished(run: Path) -> WandbRun:
    """W&B's own process writes the end of the file a moment after `finish` has returned."""
    for _ in range(200):
        if (told := read_wandb(run)).exit_code is not None:
            return told
        time.sleep(0.05)
    raise AssertionError(f"no end in {run}")


def folders(outputs: Path) -> list[Path]:
    return sorted(p.parent for p in outputs.rglob("run.json"))


def tables(run: Path, name: str) -> list[dict[str, Any]]:
    """Tables of this name in the offline run."""
    return [json.loads(p.read_text()) for p in sorted(run.glob(f"wandb/offline-run-*/files/media/table/{name}_*.json"))]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three jobs in one process, of which the second fails."""
    folder = tmp_path_factory.mktemp("sweep")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["toolsavvy"])
        patch.syspath_prepend(str(CLI))
        patch.setenv("PROBE", "raise:2")
        patch.setenv("WANDB_RUN_ID", "shared-by-all")  # of whoever started the sweep
        assert command(folder, "-m", *PROBE, "seed=1,2,3", "logger.tags=[mine]") == 1
    return folders(folder)


@pytest.fixture(scope="module")
def told(sweep: Sequence[Path]) -> list[WandbRun]:
    return [finished(job) for job in sweep]


def test_jobs_of_one_process_have_runs_of_their_own(sweep: list[Path], told: list[WandbRun]) -> None:
    ids = [run.id for run in told]
    assert len(set(ids)) == 3
    assert "shared-by-all" not in ids
    assert [read_record(job)["wandb"]["id"] for job in sweep] == ids
    assert os.environ.get("WANDB_CACHE_DIR") is None


def test_names_say_what_a_run_is(sweep: list[Path], told: list[WandbRun]) -> None:
    assert {run.group for run in told} == {sweep[0].parent.name}
    assert {(run.project, run.job_type) for run in told} == {("toolsavvy", "probe")}
    assert [run.name for run in told] == [f"probe-toy-aws_network-lora-seed{seed}" for seed in (1, 2, 3)]
    assert all(set(run.tags) == {"aws_network", "mine"} for run in told)


def test_the_config_is_whole_and_has_choices_and_cell(sweep: list[Path], told: list[WandbRun]) -> None:
    for job, run in zip(sweep, told, strict=True):
        config = yaml.safe_load((job / "config.yaml").read_text())
        assert {name: run.config[name] for name in config} == config
        assert "${" not in json.dumps(run.config)
        noted = read_record(job)
        assert (run.config["choices"], run.config["cell"]) == (noted["choices"], noted["cell"])
        assert run.config["choices"]["method"] == "probe"
    assert len({run.config["cell"] for run in told}) == 1
    assert len({run.config["config_hash"] for run in told}) == 3


def test_a_failed_job_is_shown_as_failed(told: list[WandbRun]) -> None:
    assert [run.exit_code for run in told] == [0, 1, 0]
    assert [run.summary.get("catalog_test/probe/recall@5") for run in told] == [1.25, 2.25, 3.25]


def test_curves_have_an_axis_of_their_own_per_stage(tmp_path: Path) -> None:
    with make_run(tmp_path, "logger=wandb") as run:
        run.log({"memorization/loss": 2.0}, 1)
        run.log({"memorization/loss": 1.0, "memorization/lr": 0.1}, 20)
        run.log({"retrieval/loss": 3.0}, 1)  # steps start again
    told = finished(tmp_path)
    points = [{k: v for k, v in row.items() if not k.startswith("_")} for row in told.history]
    assert points == [
        {"memorization/step": 1, "memorization/loss": 2},
        {"memorization/step": 20, "memorization/loss": 1, "memorization/lr": 0.1},
        {"retrieval/step": 1, "retrieval/loss": 3},
    ]  # fmt: skip
    assert {("memorization/*", "memorization/step"), ("retrieval/*", "retrieval/step")} <= told.axes


def _interrupt(run: Run) -> None:
    raise KeyboardInterrupt


def _terminate(run: Run) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()


@pytest.mark.parametrize(("end", "code"), [(_interrupt, None), (_terminate, 128 + signal.SIGTERM)])
def test_interrupted_runs_are_failed_runs(tmp_path: Path, end: Any, code: int | None) -> None:
    with pytest.raises((KeyboardInterrupt, SystemExit)) as ended, make_run(tmp_path, "logger=wandb") as run:
        run.log({"a/loss": 1.0}, 1)
        end(run)
    assert getattr(ended.value, "code", None) == code
    told, status = finished(tmp_path), read_status(tmp_path)
    assert told.exit_code == 1
    assert any(row.get("a/loss") == 1 for row in told.history)
    assert status is not None
    assert status.status == "failed"


def test_a_resumed_offline_run_tells_everything_again(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), make_run(tmp_path, "logger=wandb") as run:
        run.log({"a/loss": 2.0, "a/lr": 0.5}, 1)
        run.record([Number("bm25")])
        raise KeyboardInterrupt
    with make_run(tmp_path, "logger=wandb") as run:
        run.log({"a/loss": 2.0, "a/lr": 0.5}, 1)  # taken again
        run.log({"a/loss": 1.0}, 2)
    first, second = sorted(tmp_path.glob("wandb/offline-run-*/*.wandb"), key=lambda p: p.stat().st_mtime)
    first.unlink()
    told = finished(tmp_path)
    assert told.id == read_record(tmp_path)["wandb"]["id"] == second.stem.removeprefix("run-")
    assert [(r["a/step"], r["a/loss"]) for r in told.history if "a/loss" in r] == [(1, 2), (2, 1)]
    assert told.summary["catalog_test/bm25/recall@5"] == 0.5


def test_predictions_of_all_systems_are_a_sampled_table(tmp_path: Path) -> None:
    args = ("method=evaluate", "catalog=toy", "encoder=toy", "retriever=[bm25,knn]", "logger=wandb")
    assert command(tmp_path, *args, "suite.catalog_test.resamples=20", "seed=3") == 0
    (run,) = folders(tmp_path)
    (table,) = tables(run, "predictions/catalog_test")
    assert table["columns"] == ["split", "item", "question", "gold", "bm25", "bm25: right", "knn", "knn: right"]
    assert len(table["data"]) == 100
    kept = {}
    for line in (run / "predictions" / "catalog_test.bm25.jsonl").read_text().splitlines():
        record = json.loads(line)
        kept[record["split"], record["query"]] = record
    assert len(kept) > 100
    for split, item, question, gold, said, right, *_ in table["data"]:
        record = kept[split, item]
        assert (question, gold, said) == (record["text"], ", ".join(record["gold"]), ", ".join(record["tools"][:5]))
        assert right is (record["tools"][0] in record["gold"])
    (results,) = tables(run, "results")
    assert len(results["data"]) == len((run / "results.jsonl").read_text().splitlines())


@pytest.mark.parametrize("has_plotly", [True, False])
def test_figures_are_plotly_where_plotly_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_plotly: bool) -> None:
    if not has_plotly:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    one = Map("m", __import__("numpy").array([[0.25, 0.5]]), (3,), (-2, -1))
    with make_run(tmp_path, "logger=wandb") as run:
        (run.dir / "figures").mkdir()
        heat_maps([run.dir / "figures" / f"mcc{s}" for s in (".png", ".plotly.json")], [one], measure="MCC")
        run.figure("mcc", run.dir / "figures" / "mcc.png")
    media = {p.parent.parent.name: p for p in tmp_path.glob("wandb/offline-run-*/files/media/*/figures/*")}
    if has_plotly:
        assert list(media) == ["plotly"]
        (trace,) = json.loads(media["plotly"].read_text())["data"]
        assert (trace["type"], trace["z"]) == ("heatmap", [[0.25, 0.5]])
    else:
        assert list(media) == ["images"]


def test_no_secret_is_in_any_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVICE_TOKEN", TOKEN)
    secrets = {"typed-by-hand-123": "llm.api_key", "hunter2secret": "url", TOKEN: "environment"}
    overrides = (
        f"logger.tags=[see {TOKEN}]", "llm=server", "llm.model=m",
        "llm.base_url=https://somebody:hunter2secret@127.0.0.1:9/v1",
    )  # fmt: skip
    with pytest.raises(RuntimeError), make_run(tmp_path, "logger=wandb", *overrides) as run:
        run.note(answer=f"the token is {TOKEN}", api_key="typed-by-hand-123")
        run.table("told", ["text"], [[f"{TOKEN} in a table"], ["https://somebody:hunter2secret@host/x"]])
        run.log({"a/loss": 1.0}, 1)
        raise RuntimeError(f"refused: {TOKEN} at https://somebody:hunter2secret@host/")
    finished(tmp_path)
    found = [
        (kind, str(path.relative_to(tmp_path)))
        for path in tmp_path.rglob("*") if path.is_file()
        for secret, kind in secrets.items() if secret.encode() in path.read_bytes()
    ]  # fmt: skip
    assert found == []
