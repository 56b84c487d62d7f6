"""Results of finished cells on disk, so that a run killed while probing loses at most one cell."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from toolsavvy.checksums import CHECK, is_intact, sealed
from toolsavvy.errors import UserError


class CellStore:
    """Append-only file of arrays by (stage, cell); its first line says what they were computed from.

    A last line that was torn by a kill is cut off.

    Args:
        path: file, made when missing; None keeps everything in memory.
        key: digest of items, labels, settings and cells.

    Raises:
        UserError: the file belongs to other items or settings, or is damaged before its end.
    """

    def __init__(self, path: Path | None, key: str) -> None:
        self.path, self.key = path, key
        self._is_sealed = False  # earlier versions wrote no checksums
        self._found: dict[tuple[str, int], dict[str, np.ndarray]] = {}
        if path is not None:
            self._open(path)

    def __contains__(self, place: tuple[str, int]) -> bool:
        """Whether a (stage, cell) is done."""
        return place in self._found

    def __len__(self) -> int:
        """Number of (stage, cell) pairs that are done."""
        return len(self._found)

    def __getitem__(self, place: tuple[str, int]) -> dict[str, np.ndarray]:
        """Arrays of a finished (stage, cell)."""
        return self._found[place]

    def add(self, stage: str, cell: int, arrays: dict[str, np.ndarray]) -> None:
        """Keep the arrays of one cell."""
        self._found[stage, cell] = arrays
        if self.path is None:
            return
        plain = {name: [list(values.shape), values.ravel().tolist()] for name, values in arrays.items()}
        line = json.dumps(sealed({"stage": stage, "cell": cell, "arrays": plain})) + "\n"
        with self.path.open("ab") as file:
            file.write(line.encode())

    def _open(self, path: Path) -> None:
        """Read what is there, cut off a torn end, write the first line of a new file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(path, len(whole))
        lines = whole.splitlines()
        if not lines:
            path.write_bytes((json.dumps(sealed({"key": self.key})) + "\n").encode())
            return
        for number, line in enumerate(lines, start=1):
            self._take(path, number, line)

    def _take(self, path: Path, number: int, line: bytes) -> None:
        """One line of the file."""
        fix = "delete the file, so that the cells are probed again"
        try:
            record: dict[str, Any] = json.loads(line)
            if number > 1 and not is_intact(record, is_required=self._is_sealed):
                raise ValueError(line)
            self._is_sealed |= CHECK in record
            if number > 1:
                arrays = {n: np.array(v, dtype=np.float64).reshape(s) for n, (s, v) in record["arrays"].items()}
                self._found[record["stage"], record["cell"]] = arrays
                return
            key = record["key"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError("no record of a probed cell", where=f"{path}, line {number}", fix=fix) from error
        if key != self.key:
            raise UserError(
                "the probed cells belong to other items, labels or settings", where=f"{path}, line 1",
                expected=f"key {self.key}, not {key}", fix=fix,
            )  # fmt: skip
