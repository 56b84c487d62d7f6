"""A dense index kept in a folder: FAISS files beside a manifest that says what they were built from."""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from toolsavvy.assets import atomic_write, sha256
from toolsavvy.drafts import SUFFIX, draft_prefix
from toolsavvy.errors import UserError

log = logging.getLogger(__name__)

MANIFEST = "manifest.json"
FORMAT = 1
_WORDS = {"catalog": "catalog", "texts": "document texts", "encoder": "encoder", "settings": "encoder settings"}
_EXPECTED = "a folder that an earlier run wrote, or one that does not exist yet"
_FIX = "remove the folder, and the next run builds the index again, or set index_path to another folder"


@dataclass(frozen=True)
class Origin:
    """What an index was built from; in another world its positions would mean other tools.

    Args:
        catalog: fingerprint of the catalog.
        texts: sha256 over the texts that were embedded, in order.
        encoder: fingerprint of the encoder's modules and weights.
        settings: what else the vectors depend on (tokens read of a text, normalisation).
        index: FAISS factory string.
    """

    catalog: str
    texts: str
    encoder: str
    settings: str
    index: str


def save(folder: Path, origin: Origin, indexes: Mapping[str, Any]) -> None:
    """Write FAISS indexes and their manifest into a folder that is whole or absent.

    Args:
        folder: is made; one that another process made meanwhile is left as it is.
        origin: what the indexes were built from.
        indexes: file stem -> FAISS index.

    Raises:
        UserError: the folder can't be written.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=draft_prefix(folder), suffix=SUFFIX))
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        partial.chmod(0o755)  # made private; what it becomes may be shared
        files = {f"{stem}.faiss": _write(partial / f"{stem}.faiss", index) for stem, index in indexes.items()}
        with atomic_write(partial / MANIFEST, text=True) as file:
            json.dump({"format": FORMAT, **asdict(origin), "files": files}, file, indent=1)
        _put(partial, folder)
    except OSError as error:
        raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write(path: Path, index: Any) -> str:
    """Write one index; returns the sha256 of the file."""
    import faiss

    with atomic_write(path) as file:
        writer = faiss.PyCallbackIOWriter(file.write)  # pyright: ignore[reportAttributeAccessIssue]
        faiss.write_index(index, writer)
    return sha256(path)


def _put(partial: Path, folder: Path) -> None:
    """Rename onto a folder that is absent or empty."""
    try:
        partial.replace(folder)
    except OSError:
        if not (folder / MANIFEST).is_file():
            raise
        log.info("%s was written by another process meanwhile", folder)


def load(folder: Path, origin: Origin, stems: Sequence[str], *, memory_map: bool = True) -> dict[str, Any] | None:
    """Read the indexes of a folder; None where there is no folder, or an empty one.

    Args:
        folder: as `save` wrote it.
        origin: what this run's index would be built from.
        stems: indexes that are needed.
        memory_map: leave them in their files (read-only), instead of copying them into memory.

    Raises:
        UserError: the folder lacks one of them, is no index, was built from something else, or is damaged.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    manifest = _manifest(folder)
    _refuse_other(folder, manifest, origin)
    return {stem: _read(folder, f"{stem}.faiss", manifest["files"], memory_map=memory_map) for stem in stems}


def _manifest(folder: Path) -> dict[str, Any]:
    """The manifest, with every key of the right kind."""
    path = folder / MANIFEST
    if not folder.is_dir() or not path.is_file():
        what = "is a file" if folder.is_file() else f"holds no {MANIFEST}"
        raise UserError(what, where=_where(folder), expected=_EXPECTED, fix="set index_path to another folder")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        texts = [manifest[field.name] for field in fields(Origin)]
        texts += [item for pair in manifest["files"].items() for item in pair]
        if manifest["format"] != FORMAT or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"format {manifest['format']}")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{MANIFEST} is damaged or of another version ({error})", where=_where(folder),
            expected=f"format {FORMAT} with {', '.join(field.name for field in fields(Origin))}, files", fix=_FIX,
        ) from error  # fmt: skip
    return manifest


def _refuse_other(folder: Path, manifest: Mapping[str, Any], origin: Origin) -> None:
    """Name everything that differs."""
    wanted = asdict(origin)
    differ = [key for key, value in wanted.items() if manifest[key] != value]
    if differ:
        whats = [_WORDS.get(key, f"{key} ({manifest[key]})") for key in differ]
        values = [f"{key} {wanted[key][:12] if len(wanted[key]) == 64 else wanted[key]}" for key in differ]
        found = [f"{manifest[key][:12] if len(manifest[key]) == 64 else manifest[key]}" for key in differ]
        raise UserError(
            f"the index was built from another {' and '.join(whats)}",
            where=f"{_where(folder)}, {MANIFEST}",
            expected=f"{', '.join(values)}; found {', '.join(found)}",
            fix=_FIX,
        )


def _read(folder: Path, name: str, hashes: Mapping[str, str], *, memory_map: bool) -> Any:
    """Read one file after its hash was checked: FAISS trusts what it reads."""
    import faiss

    path = folder / name
    flags = faiss.IO_FLAG_MMAP_IFC if memory_map else 0  # the flag without IFC maps inverted lists alone
    try:
        whole = sha256(path) == hashes.get(name)
        index = faiss.read_index(str(path), flags) if whole else None
    except (OSError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise UserError(f"{name} can't be read ({reason})", where=_where(folder), fix=_FIX) from error
    if index is None:
        raise UserError(
            f"{name} is damaged", where=_where(folder),
            expected=f"sha256 {str(hashes.get(name))[:12]}… as {MANIFEST} says", fix=_FIX,
        )  # fmt: skip
    return index


def _where(folder: Path) -> str:
    return f"retriever.dense.index_path={folder}"


def _unwritable(folder: Path, error: OSError) -> UserError:
    what = f"the index can't be written ({error.strerror or error})"
    return UserError(what, where=_where(folder), expected="a writable place", fix="set index_path to another folder")
