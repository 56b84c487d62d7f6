from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from toolsavvy.config.schema import ModelConfig
from toolsavvy.errors import UserError
from toolsavvy.models.loading import atomic_folder, load_base, load_tensors, save_tensors, toy_model


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk of 64 KiB where this user may mount one; else one that fails as such a disk does."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.geteuid() == 0 and not subprocess.run(mount, capture_output=True).returncode:
        yield folder
        subprocess.run(["umount", str(folder)], check=True)
        return
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr("transformers.PreTrainedModel.save_pretrained", Mock(side_effect=full))
    monkeypatch.setattr("os.fsync", Mock(side_effect=full))
    yield folder


def assert_disk_full(error: UserError, folder: Path) -> None:
    assert "space" in str(error).lower() or "disk full" in str(error)
    assert str(folder) in error.where
    assert "free some space" in error.fix


def test_the_toy_is_seeded_and_leaves_the_generator_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    model, tokenizer = load_base(ModelConfig(), seed=3)
    assert torch.equal(torch.rand(2), expected)
    again, other = toy_model(3)[0], toy_model(4)[0]
    weights = [m.get_input_embeddings().weight for m in (model, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    text = "Any text, naïve 🎉\x00"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_a_saved_folder_loads_and_gives_the_same_logits(tmp_path: Path) -> None:
    model, tokenizer = toy_model(1)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded, reader = load_base(ModelConfig(source="path", path=str(tmp_path)))
    ids = torch.tensor([reader("hello")["input_ids"]])
    with torch.no_grad():
        assert torch.equal(loaded(ids).logits, model(ids).logits)


@pytest.mark.parametrize("broken", ["missing", "empty", "no weights"])
def test_a_folder_without_a_model_is_a_user_error(tmp_path: Path, broken: str) -> None:
    folder = tmp_path / "model"
    if broken != "missing":
        folder.mkdir()
    if broken == "no weights":
        toy_model()[0].config.save_pretrained(folder)
    with pytest.raises(UserError) as error:
        load_base(ModelConfig(source="path", path=str(folder)))
    assert str(folder) in error.value.what
    assert error.value.where in ("model", "model.path")
    assert "config.json" in error.value.expected
    assert "model.path" in error.value.fix


def test_tensors_are_read_back_and_damaged_ones_are_made_again(tmp_path: Path) -> None:
    path = tmp_path / "stage.safetensors"
    tensors = {"a": torch.arange(6.0).view(2, 3).T, "b": torch.tensor([1, 2])}
    assert load_tensors(path) is None
    save_tensors(tensors, path)
    read = load_tensors(path)
    assert read is not None
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[k], v) for k, v in tensors.items())
    whole = path.read_bytes()
    for damaged in (b"", whole[:5], whole[:-3], b"\xff" * len(whole), b"{}" + whole):
        path.write_bytes(damaged)
        assert load_tensors(path) is None


def test_a_folder_appears_whole_and_replaces_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").write_text("old")
    with atomic_folder(target) as temporary:
        (temporary / "new").write_text("new")
        assert (target / "old").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    assert [p.name for p in target.iterdir()] == ["new"]


@pytest.mark.parametrize("error", [RuntimeError("bug"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_folder_and_nothing_else(tmp_path: Path, error: BaseException) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").write_text("old")
    with pytest.raises(type(error)), atomic_folder(target) as temporary:
        (temporary / "new").write_text("new")
        raise error
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    assert (target / "old").read_text() == "old"


def test_a_full_disk_is_told_and_leaves_nothing_half_written(small_disk: Path) -> None:
    model, tokenizer = toy_model()
    with pytest.raises(UserError) as error, atomic_folder(small_disk / "model") as temporary:
        tokenizer.save_pretrained(temporary)
        model.save_pretrained(temporary)
    assert_disk_full(error.value, small_disk)
    with pytest.raises(UserError) as error:
        save_tensors({"w": torch.zeros(100_000)}, small_disk / "w.safetensors")
    assert_disk_full(error.value, small_disk)
    assert list(small_disk.iterdir()) == []


def test_a_simulated_full_disk_while_writing_or_making_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: Any, **kwargs: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(UserError) as error, atomic_folder(tmp_path / "model") as temporary:
        (temporary / "part").write_text("x")
        full()
    assert_disk_full(error.value, tmp_path)
    monkeypatch.setattr("tempfile.mkdtemp", full)
    with pytest.raises(UserError) as error, atomic_folder(tmp_path / "model"):
        pass
    assert_disk_full(error.value, tmp_path)
    assert list(tmp_path.iterdir()) == []
