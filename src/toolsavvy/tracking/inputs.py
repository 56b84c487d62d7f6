"""Files and folders that a run reads, by what they hold: a run that is continued must find the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from toolsavvy.errors import UserError

_NOT_INPUTS = ("paths", "index_path")
"""Keys of places that runs write to."""
_ENDS = 1 << 20
"""Bytes at both ends of a file of weights that are read; its size counts too."""
_WEIGHTS = (".safetensors", ".bin", ".gguf", ".pt")
"""Files too large to be read whole at every start, which nobody edits in the middle."""
_MOST = 2000
"""Files of a folder that are read; the names and sizes of all count."""


def fingerprints(config: Any, key: str = "") -> dict[str, str]:
    """Key of every `path` of a configuration and of its `predictions` -> twelve hex digits of what is there.

    Args:
        config: resolved, plain.
        key: of this node.
    """
    name = key.rpartition(".")[2]
    if name in _NOT_INPUTS:
        return {}
    if isinstance(config, Mapping):
        nodes = [(f"{key}.{child}".lstrip("."), node) for child, node in config.items()]
        return {k: v for child, node in nodes for k, v in fingerprints(node, child).items()}
    if isinstance(config, list):
        return {k: v for i, node in enumerate(config) for k, v in fingerprints(node, f"{key}[{i}]").items()}
    is_input = name.partition("[")[0] in ("path", "predictions") and isinstance(config, str) and config
    place = Path(config).expanduser() if is_input else None
    return {} if place is None or not place.exists() else {key: _digest(place)}


def refuse_changed(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse to continue a run whose inputs have changed since.

    Raises:
        UserError: one has.
    """
    for key, digest in before.items():
        if key in now and now[key] != digest:
            raise UserError(
                "what is read from there has changed since this run was cut off", where=key,
                expected=f"fingerprint {digest}, not {now[key]}",
                fix="put the old files back, or start a new run without resume=true",
            )  # fmt: skip


def _digest(place: Path) -> str:
    digest = hashlib.sha256()
    for number, (name, path) in enumerate(_files(place)):
        size = path.stat().st_size
        digest.update(f"{name}\0{size}\0".encode("utf-8", "surrogatepass"))
        if number < _MOST:
            with path.open("rb") as file:
                if path.suffix in _WEIGHTS:
                    digest.update(file.read(_ENDS))
                    file.seek(max(file.tell(), size - _ENDS))
                hashlib.file_digest(file, lambda: digest)  # from there to the end
    return digest.hexdigest()[:12]


def _files(place: Path) -> Iterator[tuple[str, Path]]:
    """(Name, file), without hidden ones and locks."""
    if place.is_file():
        yield "", place
        return
    for path in sorted(place.rglob("*")):
        parts = path.relative_to(place).parts
        if path.is_file() and not path.name.endswith(".lock") and not any(p.startswith(".") for p in parts):
            yield "/".join(parts), path
