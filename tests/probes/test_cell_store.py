"""Finished cells on disk: whole lines count, a torn one is cut off, those of another study are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from toolsavvy.errors import UserError
from toolsavvy.probes.store import CellStore


def test_what_was_added_comes_back_exactly(tmp_path: Path) -> None:
    path, values = tmp_path / "probes" / "cells.jsonl", np.array([[0.1, np.nan], [1 / 3, np.inf]])
    CellStore(path, "key").add("measure", 4, {"tallies": values, "none": np.zeros((0, 2))})
    again = CellStore(path, "key")
    assert ("measure", 4) in again and ("tune", 4) not in again and len(again) == 1
    np.testing.assert_array_equal(again["measure", 4]["tallies"], values)
    assert again["measure", 4]["none"].shape == (0, 2)


def test_a_torn_last_line_is_dropped_and_the_next_one_starts_cleanly(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    store = CellStore(path, "key")
    for cell in range(3):
        store.add("measure", cell, {"x": np.full(2, float(cell))})
    path.write_bytes(path.read_bytes()[:-9])
    store = CellStore(path, "key")
    assert [("measure", cell) in store for cell in range(3)] == [True, True, False]
    store.add("measure", 2, {"x": np.ones(2)})
    assert len(CellStore(path, "key")) == 3


def test_a_store_torn_in_its_first_line_starts_anew(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    path.write_bytes(b'{"key": "ke')
    assert len(CellStore(path, "key")) == 0
    assert len(CellStore(path, "key")) == 0


def test_another_study_and_damage_are_named_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    CellStore(path, "one").add("measure", 0, {"x": np.ones(1)})
    with pytest.raises(UserError) as error:
        CellStore(path, "two")
    assert "other items" in error.value.what and "line 1" in error.value.where and error.value.fix
    with path.open("a") as file:
        file.write("garbage\n")
    with pytest.raises(UserError, match="line 3"):
        CellStore(path, "one")


def test_without_a_file_everything_stays_in_memory() -> None:
    store = CellStore(None, "key")
    store.add("tune", 1, {"losses": np.ones(2)})
    assert ("tune", 1) in store
