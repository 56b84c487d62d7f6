"""Secrets that come in by overrides, variables and addresses, and every byte that two runs leave behind."""

from __future__ import annotations

import base64
import json
import sys
import urllib.parse
from pathlib import Path

import pytest
from commands import record, runs, status

from toolsavvy.__main__ import main
from toolsavvy.tracking import masking

TYPED, NESTED, VARIABLE, HARMLESS, ADDRESS = (
    "typed-Secret_0001/+", "nested-Secret_0002=&", "variable-Secret_0003%", "fetched-Secret_0004'",
    "address-Secret_0005",
)  # fmt: skip
SECRETS = (TYPED, NESTED, VARIABLE, HARMLESS, ADDRESS)


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["toolsavvy"])
    monkeypatch.setattr(masking, "_learnt", set())
    monkeypatch.setenv("SERVICE_API_KEY", VARIABLE)
    monkeypatch.setenv("LLM_LOGIN", HARMLESS)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path / "cache"))


def forms(secret: str) -> set[bytes]:
    """As it stands, as JSON and URLs write it, and in base64."""
    raw = secret.encode()
    texts = {secret, json.dumps(secret)[1:-1], urllib.parse.quote(secret, safe=""), urllib.parse.quote_plus(secret)}
    return {t.encode() for t in texts} | {base64.b64encode(raw)[:-4], base64.b64encode(b"u:" + raw)[4:-4]}


def leaks(folder: Path, texts: tuple[str, ...] = ()) -> list[str]:
    """Where a secret stands."""
    places = {str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    places |= {f"printed {i}": text.encode() for i, text in enumerate(texts)}
    places |= {f"name of {p}": p.name.encode() for p in folder.rglob("*")}
    return [
        f"{place}: {secret}" for place, data in places.items() for secret in SECRETS for f in forms(secret) if f in data
    ]


def overrides() -> list[str]:
    """Ways to bring secrets in; the keys stand in a free part of the configuration."""
    return [
        f"catalog.path='https://u:{ADDRESS}@host/data?token={urllib.parse.quote(TYPED, safe='')}'",
        "catalog.name='${oc.env:SERVICE_API_KEY}'",
        f"logger.tags=['{VARIABLE}','u:{VARIABLE}']",
    ]


def test_no_byte_of_a_failed_run_with_wandb_holds_a_secret(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The run fails in its method, so that the error, which quotes the values, is told everywhere too."""
    args = ["method=doctor", "catalog=jsonl", *overrides(), f"paths.outputs={tmp_path / 'out'}", "logger=wandb"]
    with pytest.MonkeyPatch.context() as patch:
        from toolsavvy.methods import doctor

        def broken(cfg: object, run: object) -> None:
            raise RuntimeError(f"cannot use {SECRETS!r} {cfg.catalog}" + "x" * 480 + TYPED)  # type: ignore[attr-defined]

        masking.learn(TYPED, NESTED, HARMLESS)
        patch.setattr(doctor, "run", broken)
        assert main(args) == 1
    told = capfd.readouterr()
    (run,) = runs(tmp_path / "out")
    assert status(run)["status"] == "failed"
    assert list(run.glob("wandb/offline-run-*/*.wandb"))
    assert masking.MASK in (run / "config.yaml").read_text()
    assert masking.MASK in " ".join(record(run)["overrides"])
    assert leaks(tmp_path / "out", tuple(told)) == []


@pytest.mark.parametrize(
    "override",
    [
        f"+llm.api_key='{TYPED}'", f"+catalog={{name:x,password:'{NESTED}'}}", f"+a.b.Authorization='Bearer {TYPED}'",
        "+llm.api_key=${oc.env:LLM_LOGIN}", f"seed='{VARIABLE}'", f"--api_key={TYPED}",
        f"method.resamples.token='{TYPED}'", f"paths.outputs='https://u:{ADDRESS}@h'x",
    ],
)  # fmt: skip
def test_refused_overrides_are_told_without_their_secrets(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], override: str
) -> None:
    assert main(["method=doctor", "logger=none", f"paths.outputs={tmp_path / 'out'}", override]) == 2
    told = capfd.readouterr()
    assert told.err.startswith("error: ")
    assert leaks(tmp_path, tuple(told)) == []


@pytest.mark.parametrize(("launcher", "left"), [("submitit_local", 0), ("submitit_slurm", 1)])
def test_pickled_jobs_go_when_a_sweep_of_this_machine_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str, left: int
) -> None:
    def interrupted(flags: list[str], line: list[str]) -> int:
        (folder,) = (Path(o.partition("=")[2].strip("'")) for o in line if o.startswith("hydra.sweep.dir="))
        (folder / ".submitit" / "1").mkdir(parents=True)
        (folder / ".submitit" / "1" / "1_submitted.pkl").write_text(TYPED)
        raise KeyboardInterrupt

    monkeypatch.setattr("toolsavvy.sweeping.run_hydra", interrupted)
    words = ("method=doctor", "logger=none", "seed=1,2", f"hydra/launcher={launcher}")
    assert main(["-m", *words, f"paths.outputs={tmp_path}"]) == 130
    assert len(list(tmp_path.rglob("*.pkl"))) == left
