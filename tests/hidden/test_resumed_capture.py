"""A capture that is killed continues where it was and gives the same bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_blocks import build
from test_capture import counted, rendered

from toolsavvy.errors import UserError
from toolsavvy.hidden import capture as module
from toolsavvy.hidden.capture import capture
from toolsavvy.hidden.layout import sidecar

SLOWLY = """
import sys, time
sys.path[:0] = {paths!r}
from pathlib import Path
from test_blocks import build
from test_capture import rendered
from toolsavvy.hidden import capture as module
from toolsavvy.hidden.blocks import blocks

module.RECORD_EVERY = 0.0
model = build("llama")
blocks(model)[0].register_forward_pre_hook(lambda m, a: time.sleep(0.05))
module.capture(model, rendered(40, start=6), Path({path!r}), positions=3, batch_size=2)
"""


def done(path: Path) -> int:
    return json.loads(sidecar(path).read_text())["done"] if sidecar(path).exists() else 0


def test_a_capture_that_is_killed_continues_to_the_same_bytes(tmp_path: Path) -> None:
    path, prompts, model = tmp_path / "a", rendered(40, start=6), build("llama")
    here = Path(__file__).parent
    script = SLOWLY.format(paths=[str(here), str(here.parent)], path=str(path))
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        try:
            end = time.monotonic() + 120
            while done(path) < 6 and process.poll() is None and time.monotonic() < end:
                time.sleep(0.01)
        finally:
            os.kill(process.pid, signal.SIGKILL)
    before = done(path)
    assert 6 <= before < 40
    with pytest.raises(UserError, match=f"cut off after {before} of 40"):
        module.open_states(path)
    with counted(model) as tokens:
        resumed = capture(model, prompts, path, positions=3, batch_size=2)
    assert len(tokens) == (40 - before) // 2 + 1  # the batches that were left, and what all prompts start with
    whole = capture(model, prompts, tmp_path / "b", positions=3, batch_size=2)
    assert resumed.path.read_bytes() == whole.path.read_bytes()
    assert sidecar(resumed.path).read_bytes() == sidecar(whole.path).read_bytes()


def test_an_error_in_the_middle_loses_nothing_that_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RECORD_EVERY", 0.0)
    path, prompts, model = tmp_path / "a", rendered(12), build("llama")
    real = module.write
    calls: list[int] = []

    def full(file: int, *rest: object) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        real(file, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "write", full)
    with pytest.raises(OSError, match="No space"):
        capture(model, prompts, path, positions=3, batch_size=2)
    assert done(path) == 4
    monkeypatch.setattr(module, "write", real)
    resumed = capture(model, prompts, path, positions=3, batch_size=2)
    assert (
        resumed.path.read_bytes()
        == capture(model, prompts, tmp_path / "b", positions=3, batch_size=2).path.read_bytes()
    )


def test_a_full_disk_is_told_and_another_batch_size_may_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RECORD_EVERY", 0.0)
    path, prompts, model = tmp_path / "a", rendered(12), build("llama")
    real, calls = os.pwrite, []

    def full(*args: object) -> int:
        calls.append(1)
        if len(calls) > 100:
            raise OSError(28, "No space left on device")
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(UserError) as caught:
        capture(model, prompts, path, positions=3, batch_size=2)
    assert "disk full" in caught.value.what
    assert caught.value.where == str(path)
    assert "run again" in caught.value.fix
    monkeypatch.setattr(os, "pwrite", real)
    assert 0 < done(path) < 12
    assert len(capture(model, prompts, path, positions=3, batch_size=5)) == 12


def test_a_bit_that_turned_in_a_finished_file_is_found_and_captured_again(tmp_path: Path) -> None:
    path, prompts, model = tmp_path / "a", rendered(4), build("llama")
    capture(model, prompts, path, positions=3)
    content = path.read_bytes()
    capture(model, prompts, path, positions=3)
    at = len(content) // 2
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    assert capture(model, prompts, path, positions=3).path.read_bytes() == content
