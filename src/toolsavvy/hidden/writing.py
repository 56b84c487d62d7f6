"""How hidden states get into their file: packed, put in place, and said to be there only once they are on disk."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from toolsavvy.errors import UserError
from toolsavvy.hidden.layout import Layout, record, sidecar

_LARGEST = float(np.finfo(np.float16).max)
_SCALED = 15
"""Exponent that the largest entry of a state too large for float16 is brought to."""


@dataclass(frozen=True)
class Packed:
    """States of one layer as the file has them.

    Args:
        values: float16 or float32 [wanted, row, d].
        exponents: int8 [wanted, row].
        scaled: whether any exponent is not 0.
        bad: rows whose states are not finite.
    """

    values: np.ndarray
    exponents: np.ndarray
    scaled: bool
    bad: np.ndarray


def pack(states: Tensor, missing: Tensor, dtype: str) -> Packed:
    """States [row, wanted, d] in the file's type; those beyond its range are divided by a power of two of their own."""
    states, missing = states.transpose(0, 1).float(), missing.T.to(states.device)
    largest = states.abs().amax(-1).masked_fill_(missing, 0.0)
    bad = (~largest.isfinite()).any(0).nonzero()[:, 0]
    exponents = torch.zeros_like(largest, dtype=torch.int32)
    if dtype == "float16":
        exponents = torch.where(largest > _LARGEST, torch.frexp(largest).exponent - _SCALED, 0)
    scaled = bool(exponents.any())
    if scaled:
        states = torch.ldexp(states, -exponents[..., None])
    if missing.any():
        states = states.masked_fill(missing[..., None], float("nan"))
    values = states.to(getattr(torch, dtype)).contiguous().cpu().numpy()
    return Packed(values, exponents.to(torch.int8).cpu().numpy(), scaled, bad.cpu().numpy())


def write(file: int, path: Path, layout: Layout, row: int, layers: Sequence[Packed]) -> None:
    """Put a batch into the file: one piece per cell.

    Args:
        file: open for writing.
        path: its path, for messages.
        layout: what it holds.
        row: where the batch begins.
        layers: states of every layer.

    Raises:
        UserError: the disk is full.
    """
    kinds, many, positions, _, _ = layout.shape
    try:
        for place, (kind, layer, position) in enumerate(np.ndindex(kinds, many, positions)):
            packed, which = layers[layer], kind * positions + position
            _put(file, packed.values[which].data, layout.state_offset(place, row))
            if packed.scaled:  # elsewhere the file is made of zeros
                _put(file, packed.exponents[which].data, layout.exponent_offset(place, row))
    except OSError as error:
        raise _disk_error(error, path) from error


def create(path: Path, layout: Layout) -> None:
    """Make the file, empty; what it will hold is said first, so that a file nobody speaks of is never ours."""
    try:
        sidecar(path).unlink(missing_ok=True)
        path.unlink(missing_ok=True)  # whoever reads the old one keeps it
        record(path, layout, 0)
        with path.open("wb") as file:
            file.write(layout.header)
            file.truncate(layout.size)
    except OSError as error:
        raise _disk_error(error, path) from error


def _put(file: int, data: memoryview, offset: int) -> None:
    """Write all of it."""
    data = data.cast("B")
    while len(data):
        written = os.pwrite(file, data, offset)
        data, offset = data[written:], offset + written


def sync(file: int, path: Path, layout: Layout, done: int) -> None:
    """What is said to be done is on disk."""
    try:
        os.fsync(file)
    except OSError as error:
        raise _disk_error(error, path) from error
    record(path, layout, done)


def check_space(path: Path, layout: Layout, done: int) -> None:
    """Before hours of work, see whether the rest fits."""
    need = layout.size * (1 - done / len(layout.order))
    free = shutil.disk_usage(path.parent).free
    if need > free:
        raise UserError(
            f"the hidden states of {len(layout.order)} prompts at {len(list(layout.cells()))} cells need "
            f"{_gigabytes(need)}, but only {_gigabytes(free)} are free",
            where=str(path.parent),
            expected=f"{_gigabytes(need)} of free space",
            fix="take fewer positions, layers, kinds or prompts, or another disk",
        )


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.3g} GB"


def _disk_error(error: OSError, path: Path) -> UserError | OSError:
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return error
    fix = "free some space and run again (it continues), or take fewer positions, layers or kinds"
    return UserError("disk full while saving hidden states", where=str(path), fix=fix)
