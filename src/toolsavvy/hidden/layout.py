"""The file of hidden states: cells one after another, so that all items of one cell are read in one go.

The file begins as a `.npy` of shape [kind, layer, position, row, d] (`numpy.load` reads it) and ends in an int8 array
[kind, layer, position, row] of exponents: a state is what stands in the file times two to its exponent, which is 0
unless the state left float16's range. Rows stand in the order of capture, longest prompt first, so that a batch is
written in one piece per cell; `order` says whose they are. A JSON file beside it says what is in it and how many rows
are done.
"""

from __future__ import annotations

import io
import json
import math
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from toolsavvy.assets import atomic_write
from toolsavvy.errors import UserError
from toolsavvy.hidden.cells import Cell
from toolsavvy.hidden.positions import Kind

FORMAT = 1
CHECK = "crc32"
"""Field of a finished file's checksum."""


@dataclass(frozen=True)
class Layout:
    """What a file of hidden states holds.

    Args:
        model: digest of the model's weights and config.
        prompts: digest of the prompts, in the items' order.
        precision: of the forward pass: model (as its weights are) | bf16.
        kinds: what positions count back from.
        layers: 0 is the embeddings, i the output of block i, before the final norm.
        positions: how many, the last one is -1.
        width: d.
        dtype: of the file, float16 | float32.
        order: item of every row.
    """

    model: str
    prompts: str
    precision: str
    kinds: tuple[Kind, ...]
    layers: tuple[int, ...]
    positions: int
    width: int
    dtype: str
    order: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """[kind, layer, position, row, d]."""
        return len(self.kinds), len(self.layers), self.positions, len(self.order), self.width

    @cached_property
    def header(self) -> bytes:
        """Of the `.npy` part."""
        buffer = io.BytesIO()
        about = {"descr": np.dtype(self.dtype).str, "fortran_order": False, "shape": self.shape}
        np.lib.format.write_array_header_1_0(buffer, about)
        return buffer.getvalue()

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return self.exponent_offset(math.prod(self.shape[:3]), 0)

    def cells(self) -> Iterator[Cell]:
        """In the file's order."""
        for kind in self.kinds:
            for layer in self.layers:
                for back in range(-self.positions, 0):
                    yield Cell(layer, back, kind)

    def state_offset(self, cell: int, row: int) -> int:
        """Byte at which a state begins."""
        return len(self.header) + (cell * len(self.order) + row) * self.width * np.dtype(self.dtype).itemsize

    def exponent_offset(self, cell: int, row: int) -> int:
        """Byte of a state's exponent."""
        return self.state_offset(math.prod(self.shape[:3]), 0) + cell * len(self.order) + row

    def differences(self, other: Layout) -> list[str]:
        """Names of the fields in which two differ."""
        return [field.name for field in fields(self) if getattr(self, field.name) != getattr(other, field.name)]


def sidecar(path: Path) -> Path:
    """The JSON file beside a file of hidden states."""
    return path.with_name(f"{path.name}.json")


def record(path: Path, layout: Layout, done: int) -> None:
    """Say what the file holds and that its first `done` rows are on disk; the checksum of all once they are."""
    check = {CHECK: _checksum(path)} if done == len(layout.order) else {}
    with atomic_write(sidecar(path), text=True) as file:
        json.dump({"format": FORMAT, "done": done, **check, **asdict(layout)}, file)


def is_intact(path: Path) -> bool:
    """Whether a finished file holds what was written; one that is not finished cannot be told. Reads all of it."""
    kept = json.loads(sidecar(path).read_text(encoding="utf-8")).get(CHECK)
    return kept is None or kept == _checksum(path)


def _checksum(path: Path) -> str:
    """CRC-32, at gigabytes a second."""
    value = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            value = zlib.crc32(block, value)
    return f"{value:08x}"


def recorded(path: Path) -> tuple[Layout, int] | None:
    """Layout and rows done; None when no file says so.

    Raises:
        UserError: the JSON file is not ours, or of another version.
    """
    try:
        content = json.loads(sidecar(path).read_text(encoding="utf-8"))
        return _parsed(content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"this does not describe hidden states ({type(error).__name__}: {error})",
            where=str(sidecar(path)),
            expected=f"what a capture of format {FORMAT} writes",
            fix="delete it and the file it stands beside, and capture again",
        ) from error


def _parsed(content: dict[str, Any]) -> tuple[Layout, int]:
    if content.pop("format") != FORMAT:
        raise ValueError("another format")
    done, _ = int(content.pop("done")), content.pop(CHECK, None)
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in content.items()}
    return Layout(**values), done
