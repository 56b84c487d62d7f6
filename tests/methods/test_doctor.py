"""method=doctor: it tells what is there, survives what is not, and its self-test can fail."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from toolsavvy.__main__ import main
from toolsavvy.methods import doctor, self_test
from toolsavvy.starting import FAILED

ROOT = Path(__file__).resolve().parents[2]


def look(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str, code: int = 0) -> dict[str, Any]:
    """The run's record; the hosts aren't asked."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(sys, "argv", ["toolsavvy"])
    assert main(["method=doctor", "logger=none", f"paths.outputs={folder}", *words]) == code
    (run,) = folder.glob("doctor/*/run.json")
    return json.loads(run.read_text())


def test_every_extra_is_told_with_its_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {
        extra: {re.split(r"[\[<>=]", wanted)[0] for wanted in packages}
        for extra, packages in project["optional-dependencies"].items()
        if extra != "dev"
    }
    assert set(doctor.EXTRAS) == set(declared)
    for extra, (packages, purpose) in doctor.EXTRAS.items():
        assert declared[extra] & set(packages), extra
        assert len(purpose) > 10


def test_it_tells_everything_and_the_self_test_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = look(tmp_path, monkeypatch)
    told = record["doctor"]
    assert set(told) == {"versions", "devices", "places", "reachable", "extras"}
    assert {"cores", "memory", "threads", "gpu", "bf16 on the cpu"} <= set(told["devices"])
    assert told["devices"]["bf16 on the cpu"].split(":")[0] in ("native", "not native")
    assert "can be written" in told["places"]["outputs"]
    assert told["reachable"]["huggingface.co"] == "not reachable"
    assert all(text.startswith(("installed", "not installed")) for text in told["extras"].values())
    assert [(check["name"], check["error"]) for check in record["self_test"]] == [(n, "") for n in self_test.CHECKS]
    lines = capsys.readouterr().out.splitlines()
    for name in self_test.CHECKS:
        assert any(re.fullmatch(rf"  ok +\d+\.\d s  {re.escape(name)}", line) for line in lines)


def test_what_is_missing_is_told_and_a_failed_check_is_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> Mapping[str, str]:
        raise OSError("no such device")

    def none(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "devices", broken)
    monkeypatch.setattr(doctor, "HOSTS", ("localhost",))
    monkeypatch.setattr(doctor.metadata, "version", none)
    monkeypatch.setattr(self_test, "CHECKS", {"one": lambda folder: None, "two": broken})
    record = look(tmp_path, monkeypatch, code=FAILED)
    assert record["doctor"]["devices"] == {"cannot be told": "OSError: no such device"}
    assert all(
        text.startswith("not installed (pip install 'toolsavvy[") for text in record["doctor"]["extras"].values()
    )
    assert [(c["name"], c["error"]) for c in record["self_test"]] == [("one", ""), ("two", "OSError: no such device")]
    told = capsys.readouterr()
    assert "failed" in told.out
    assert "1 of 2 checks of the self-test failed: two" in told.err


def test_without_the_self_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "CHECKS", {"never": lambda folder: 1 / 0})
    assert "self_test" not in look(tmp_path, monkeypatch, "method.self_test=false")


def test_a_torch_that_cannot_be_imported_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert doctor.devices()["gpu"].startswith("torch cannot be imported")


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(dir: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refused)
    assert "CANNOT be written: Permission denied" in doctor.places(tmp_path / "new")["outputs"]


def test_checks_notice_what_they_are_there_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="exit code 3\nwhat broke"):
        self_test._process("-c", "import sys; sys.stderr.write('what broke'); sys.exit(3)")
    deaf = ModuleType("toolsavvy.calls.parsing")
    deaf.parse_calls = lambda text, tools: type("Parsed", (), {"calls": ()})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "toolsavvy.calls.parsing", deaf)
    with pytest.raises(RuntimeError, match="read"):
        self_test.call(tmp_path)
