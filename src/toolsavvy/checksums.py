"""Checksums of what is kept for later: a bit that has turned over is found, and the work is done again or refused."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from toolsavvy.assets import atomic_write, sha256

if TYPE_CHECKING:
    import numpy as np

CHECK = "crc32"
"""Field of a sealed line."""
_BYTES = hashlib.sha256().digest_size


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with a checksum of everything else, to be written as one line."""
    return {**record, CHECK: _crc(record)}


def is_intact(record: Mapping[str, Any], *, is_required: bool = False) -> bool:
    """Whether a record that was read is the one that was sealed; one without a checksum cannot be told.

    Args:
        record: that was read.
        is_required: an earlier line of its file has a checksum, so that this one must have one too.
    """
    if CHECK not in record:
        return not is_required
    return record[CHECK] == _crc({k: v for k, v in record.items() if k != CHECK})


def _crc(record: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(record, sort_keys=True, ensure_ascii=True).encode()):08x}"


def save_array(path: Path, array: np.ndarray) -> None:
    """Write an array as .npy, whole or not at all, with its sha256 after it, where numpy reads no further."""
    import numpy as np

    with atomic_write(path) as file:
        hashing = _Hashing(file)
        np.save(hashing, array, allow_pickle=False)  # pyright: ignore[reportArgumentType] - it writes, no more is asked
        file.write(hashing.digest.digest())


class _Hashing:
    """A file that hashes what is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.digest = file, hashlib.sha256()

    def write(self, content: bytes) -> int:
        """As a file's."""
        self.digest.update(content)
        return self._file.write(content)


def load_array(path: Path, *, mapped: bool = False) -> np.ndarray | None:
    """The array of a file; None where there is none, or it is not as it was written.

    Args:
        path: of the file.
        mapped: leave the values on disk.
    """
    import numpy as np

    if not path.is_file() or not _is_whole(path):
        return None
    try:
        return np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None


def _is_whole(path: Path) -> bool:
    """Whether the sha256 at the end is that of everything before."""
    digest, left = hashlib.sha256(), path.stat().st_size - _BYTES
    with path.open("rb") as file:
        while left > 0 and (block := file.read(min(left, 1 << 20))):
            digest.update(block)
            left -= len(block)
        return file.read() == digest.digest()


def seal_folder(folder: Path) -> None:
    """Note beside a folder what its files hold, so that `is_folder_intact` can tell."""
    with atomic_write(_seal_of(folder), text=True) as file:
        file.write(_folder_digest(folder))


def is_folder_intact(folder: Path) -> bool:
    """Whether a folder is there and holds what it held when it was sealed."""
    seal = _seal_of(folder)
    return folder.is_dir() and seal.is_file() and seal.read_bytes() == _folder_digest(folder).encode()


def _seal_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.sha256")


def _folder_digest(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return "".join(f"{sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in files)
