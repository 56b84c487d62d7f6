"""What is kept for later is found to be damaged, wherever a bit turns over."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from toolsavvy.checksums import is_folder_intact, is_intact, load_array, save_array, seal_folder, sealed
from toolsavvy.errors import UserError
from toolsavvy.models.loading import load_tensors, save_tensors
from toolsavvy.models.responses import ResponseStore, Stored
from toolsavvy.necessity.store import Sample, SampleStore
from toolsavvy.probes.store import CellStore


def turned(path: Path, place: float) -> bytes:
    """The file with one bit turned over; what it held before."""
    content = path.read_bytes()
    at = min(len(content) - 1, int(place * len(content)))
    path.write_bytes(content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :])
    return content


def test_a_sealed_line_knows_its_content() -> None:
    line = sealed({"text": "7 \u2028", "index": 3})
    assert is_intact(line) and is_intact({"text": "of an older store"})
    assert not is_intact(line | {"index": 4}) and not is_intact(line | {"crc32": "0"})
    assert is_intact(line, is_required=True) and not is_intact({"text": "of an older store"}, is_required=True)


def test_a_checksum_whose_name_is_damaged_is_missed(tmp_path: Path) -> None:
    """In the second line as in the last, in every store of lines; files of earlier versions are still read."""
    responses, samples, cells = (tmp_path / name for name in ("r.jsonl", "samples", "cells.jsonl"))
    for i in range(3):
        ResponseStore(responses).put(f"key {i}", Stored("yes"))
        SampleStore(samples, "key", 1.0, 8).put(f"prompt {i}", Sample(0, "yes", 1, True))
        CellStore(cells, "key").add("stage", i, {"scores": np.arange(3.0)})
    (sampled,) = samples.glob("*.jsonl")
    for path, opened in (
        (responses, lambda: _read(responses)),
        (sampled, lambda: SampleStore(samples, "key", 1.0, 8)),
        (cells, lambda: CellStore(cells, "key")),
    ):
        opened()
        lines = path.read_text().splitlines(keepends=True)
        for damaged in (1, len(lines) - 1):
            path.write_text("".join(x.replace("crc32", "crc3r") if i == damaged else x for i, x in enumerate(lines)))
            if path == responses:
                assert opened().get(f"key {damaged}") is None and opened().get("key 0") is not None
            else:
                with pytest.raises(UserError, match=f"line {damaged + 1}"):
                    opened()
        path.write_text(re.sub(r', "crc32": "\w+"', "", "".join(lines)))
        opened()
    assert _read(responses).get("key 2") is not None


def _read(path: Path) -> ResponseStore:
    store = ResponseStore(path)
    store.refresh()
    return store


@pytest.mark.parametrize("place", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_arrays_and_tensors_with_a_bit_turned_are_made_again(tmp_path: Path, place: float) -> None:
    array, tensors = np.arange(12, dtype=np.float32).reshape(3, 4), {"w": torch.arange(6.0), "b": torch.ones(2, 2)}
    files = {"a.npy": lambda p: save_array(p, array), "t.safetensors": lambda p: save_tensors(tensors, p)}
    for name, save in files.items():
        save(tmp_path / name)
        before = turned(tmp_path / name, place)
        assert (load_array if name == "a.npy" else load_tensors)(tmp_path / name) is None, name
        (tmp_path / name).write_bytes(before)
    for mapped in (False, True):
        assert np.array_equal(np.asarray(load_array(tmp_path / "a.npy", mapped=mapped)), array)
    assert np.array_equal(np.load(tmp_path / "a.npy"), array), "numpy reads it as it is"
    found = load_tensors(tmp_path / "t.safetensors")
    assert found is not None and all(torch.equal(found[name], tensors[name]) for name in tensors)


def test_a_short_or_missing_array_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY")
    assert load_array(tmp_path / "a.npy") is None and load_array(tmp_path / "b.npy") is None


def test_a_folder_is_whole_only_as_it_was_sealed(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "weights").write_bytes(b"1234")
    assert not is_folder_intact(folder)
    seal_folder(folder)
    assert is_folder_intact(folder)
    before = turned(folder / "deep" / "weights", 0.5)
    assert not is_folder_intact(folder)
    (folder / "deep" / "weights").write_bytes(before)
    (folder / "more").touch()
    assert not is_folder_intact(folder)
