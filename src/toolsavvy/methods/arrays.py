"""Arrays on disk that a run can lose without harm: written whole, and made again where they are missing or damaged."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from toolsavvy.assets import atomic_write

log = logging.getLogger("toolsavvy")


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays under their names, whole or not at all."""
    with atomic_write(path) as file:
        named: dict[str, Any] = dict(arrays)
        np.savez(file, **named)


def load_arrays(path: Path) -> dict[str, np.ndarray] | None:
    """Arrays of a file; None where there is none, or it is damaged."""
    if not path.is_file():
        return None
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error):
        log.warning("%s is damaged and is made again", path.name)
        return None
