"""Archives that somebody else has made: what may be unpacked, where to, and how much of it."""

from __future__ import annotations

import re
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from toolsavvy.errors import UserError

RATIO, FREE = 100, 64 * 2**20
"""An archive may hold this many times its own size, and as many bytes besides; the wheels used here hold up to 15."""
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d) *(?:\..*)?", re.I)
_EXPECTED = "relative paths without '..', each once, and no links or devices"


def check_size(held: int, size: int, path: Path | str) -> None:
    """Refuse an archive that would fill the disk or the memory.

    Args:
        held: bytes of its members, as declared (no more is ever read of a member).
        size: bytes of the archive.
        path: of it.

    Raises:
        UserError: it holds too much.
    """
    if held > RATIO * size + FREE:
        what = f"the archive of {size:,} bytes holds {held:,}; nothing was unpacked"
        raise UserError(what, where=str(path), expected=f"at most {RATIO} times its own size", fix="get the file again")


def check_zip(archive: zipfile.ZipFile, path: Path | str) -> None:
    """Refuse a zip archive that holds far more than its size."""
    check_size(sum(m.file_size for m in archive.infolist()), Path(path).stat().st_size, path)


def check_members(members: Iterable[zipfile.ZipInfo], source: Path) -> None:
    """Refuse members that could land or point outside the folder that is unpacked to, or replace one another.

    Raises:
        UserError: which member, and why.
    """
    files: dict[str, bool] = {}  # folded name -> whether it is a file
    for member in members:
        name, kind = member.filename, stat.S_IFMT(member.external_attr >> 16)
        if fault := _fault(name) or ("is no file or folder" if kind not in (0, stat.S_IFREG, stat.S_IFDIR) else ""):
            raise _refusal(name, fault, source)
        if fault := _clash(name, member.is_dir(), files):
            raise _refusal(name, fault, source)


def _refusal(name: str, fault: str, source: Path) -> UserError:
    what = f"member {name[:200]!r} {fault}; nothing was unpacked"
    return UserError(what, where=str(source), expected=_EXPECTED, fix="get the file again")


def _fault(name: str) -> str:
    """What is wrong with a member's name, '' where nothing is."""
    if _leaves(name) or set(name) & set("\\:"):
        return "would leave its folder"
    is_device = any(_DEVICES.fullmatch(part.rstrip(" .")) for part in PurePosixPath(name).parts)
    return "is named like a device" if is_device else ""


def _leaves(name: str) -> bool:
    """Whether a name leads out of the folder, or nowhere."""
    place = PurePosixPath(name)
    return not place.parts or place.is_absolute() or ".." in place.parts or "\0" in name


def _clash(name: str, is_folder: bool, files: dict[str, bool]) -> str:
    """Two files of one name (also where capitals do not count), or a file where others need a folder."""
    folded = "/".join(PurePosixPath(name).parts).casefold()
    above = [str(parent) for parent in PurePosixPath(folded).parents][:-1]
    if (folded in files and (not is_folder or files[folded])) or any(files.get(parent) for parent in above):
        return "is there twice"
    files.update(dict.fromkeys(above, False))
    files[folded] = not is_folder
    return ""


def unpack_tar(path: Path, folder: Path) -> None:
    """Write an archive's files as plain files; `extractall(filter=...)` is missing before Python 3.11.4.

    Raises:
        UserError: it is broken, holds too much, or has members that lead out of the folder.
    """
    try:
        with tarfile.open(path) as tar:
            _unpack(tar, path, folder)
    except (tarfile.TarError, EOFError, OSError, KeyError, ValueError, RecursionError) as fault:
        what, expected = f"can't be unpacked ({fault})", "a whole tar archive"
        raise UserError(what, where=str(path), expected=expected, fix="fetch it again") from fault


def _unpack(tar: tarfile.TarFile, path: Path, folder: Path) -> None:
    """One member after the other: what a later one is is not known before the earlier ones are read."""
    held, size = 0, path.stat().st_size
    for member in tar:
        if _leaves(member.name) and not (member.isdir() and member.name == "."):
            raise tarfile.TarError(f"member {member.name[:200]!r} would leave its folder")
        place = folder / member.name
        if member.isdir():
            place.mkdir(parents=True, exist_ok=True)
            continue
        source = tar.extractfile(member)  # of a link: what it points to inside the archive
        if source is None:
            raise tarfile.TarError(f"member {member.name[:200]!r} is neither a file nor a folder")
        held += max(member.size, getattr(getattr(source, "raw", None), "size", 0))
        check_size(held, size, path)
        place.parent.mkdir(parents=True, exist_ok=True)
        with source, place.open("wb") as target:
            shutil.copyfileobj(source, target)
