"""W&B in trouble, with a fake server on loopback: the run goes on, ends in time, and nothing of it is lost."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fake_wandb import KEY, fake_wandb
from test_tracking import Number, make_run
from toolsavvy.errors import UserError
from toolsavvy.tracking.records import read_record, read_status
from toolsavvy.tracking.wandb_run import WandbLogger
from world import read_wandb

ONLINE = ("logger=wandb", "logger.mode=online")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    for name in [n for n in os.environ if n.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_INIT_TIMEOUT", "2")
    monkeypatch.setenv("HOME", str(tmp_path))
    yield
    import wandb

    wandb.teardown()  # the next test's server is another


def logged(run: Path) -> str:
    return (run / "run.log").read_text()


def test_a_dead_server_leaves_an_offline_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    folder, start = tmp_path / "run", time.monotonic()
    with make_run(folder, *ONLINE) as run:
        run.log({"a/loss": 1.0}, 1)
        run.record([Number("bm25")])
    assert time.monotonic() - start < 180  # without a bound W&B tries for hours
    status, noted = read_status(folder), read_record(folder)
    assert status is not None
    assert status.status == "done"
    assert noted["wandb"]["mode"] == "offline"
    (offline,) = folder.glob("wandb/*run-*-*")  # nothing is left of the one that could not be begun
    assert offline.name.startswith("offline-run-")
    assert f"wandb sync {folder}/wandb/offline-run-" in logged(folder)
    assert (folder / "history.csv").is_file()
    assert (folder / "results.jsonl").is_file()
    for _ in range(100):
        if (told := read_wandb(folder)).exit_code is not None:
            break
        time.sleep(0.05)
    assert (told.id, told.exit_code) == (noted["wandb"]["id"], 0)


def test_a_server_that_falls_silent_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_FINISH_TIMEOUT", "2")
    with fake_wandb() as fake:
        monkeypatch.setenv("WANDB_BASE_URL", fake.url)
        with make_run(tmp_path / "run", *ONLINE) as run:
            fake.silent = 60
            run.log({"a/loss": 1.0}, 1)
            start = time.monotonic()
        assert time.monotonic() - start < 20
        assert "UpsertBucket" in [name for name, _ in fake.operations]  # it had begun online
    status = read_status(tmp_path / "run")
    assert status is not None
    assert status.status == "done"
    assert list((tmp_path / "run").glob("wandb/run-*/*.wandb"))  # for `wandb sync`


def test_what_wandb_cannot_take_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **settings: Any) -> None:
        raise BrokenPipeError("the service has gone")

    with make_run(tmp_path / "run", "logger=wandb", "logger.mode=offline") as run:
        monkeypatch.setattr(type(run._logger._run), "log", fail)
        for step in range(3):
            run.log({"a/loss": 1.0}, step)
        run.table("t", ["a"], [["b"]])
        monkeypatch.undo()
    status = read_status(tmp_path / "run")
    assert status is not None
    assert status.status == "done"
    assert logged(tmp_path / "run").count("W&B failed to log metrics (BrokenPipeError") == 1


def test_without_any_wandb_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any, **settings: Any) -> None:
        raise OSError("no service")

    monkeypatch.setattr("wandb.init", broken)
    with make_run(tmp_path / "run", "logger=wandb", "logger.mode=offline") as run:
        run.log({"a/loss": 1.0}, 1)
    assert "no W&B (OSError: no service)" in logged(tmp_path / "run")
    assert "WANDB_CACHE_DIR" not in os.environ
    assert (tmp_path / "run" / "history.csv").is_file()


def test_an_error_without_words_leaves_an_offline_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb

    begin = wandb.init

    def speechless(*args: Any, mode: str, **settings: Any) -> Any:
        if mode == "online":
            raise TimeoutError
        return begin(*args, mode=mode, **settings)

    monkeypatch.setattr("wandb.init", speechless)
    with make_run(tmp_path / "run", *ONLINE):
        pass
    assert read_record(tmp_path / "run")["wandb"]["mode"] == "offline"
    assert "W&B could not be reached (TimeoutError" in logged(tmp_path / "run")


def test_names_that_wandb_refuses_are_the_users_to_mend(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match=r"logger: W&B refuses: .*project"),
        make_run(tmp_path / "run", "logger=wandb", "logger.mode=offline", "logger.project=a/b"),
    ):
        pytest.fail("it began")


class Recorder:
    """Stands for the W&B run."""

    id = "abc"

    def __init__(self) -> None:
        self.stored: dict[str, list[str]] = {}

    def log_artifact(self, artifact: Any) -> None:
        assert artifact.name == f"{artifact.type}-abc"
        self.stored[artifact.type] = sorted(artifact.manifest.entries)

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **settings: None


@pytest.mark.parametrize("mode", ["online", "offline"])
@pytest.mark.parametrize("weights", ["adapter_config.json", "config.json"])
def test_artifacts_by_kind_where_online(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, weights: str
) -> None:
    recorder = Recorder()
    monkeypatch.setattr(WandbLogger, "_start", lambda self, *args: setattr(self, "mode", mode) or recorder)
    with make_run(tmp_path / "run", "logger=wandb", "logger.mode=offline", "upload=true") as run:
        (run.model_dir / weights).write_text("{}")
        (run.predictions / "s.a.jsonl").touch()
        (run.dir / "mcq.jsonl").write_text("{}\n")
        run.made([run.dir / "mcq.jsonl"])
        run.record([Number("bm25")])
    if mode == "offline":
        assert recorder.stored == {}
        assert "offline: results is not uploaded, it is kept in the run's folder" in logged(tmp_path / "run")
        return
    kind = "adapter" if weights.startswith("adapter") else "model"
    assert recorder.stored == {
        kind: [weights], "benchmark": ["mcq.jsonl"], "predictions": ["s.a.jsonl"],
        "results": ["config.yaml", "results.jsonl", "run.json"],
    }  # fmt: skip
