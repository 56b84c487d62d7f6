"""What tests of several areas share; here: an offline W&B run, read back from its file."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_BLOCK = 32 * 1024
_HEADER = 7
_FULL, _LAST = 1, 4


@dataclass
class WandbRun:
    """What one offline run would tell the server."""

    id: str = ""
    project: str = ""
    group: str = ""
    job_type: str = ""
    name: str = ""
    tags: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None


def wandb_records(path: Path) -> list[bytes]:
    """The payloads of a `.wandb` file: a 7-byte file header, then LevelDB's log format (32 KiB blocks)."""
    data = path.read_bytes()
    assert data[:4] == b":W&B", path
    found, part, at = [], b"", _HEADER
    while at + _HEADER <= len(data):
        if (left := _BLOCK - at % _BLOCK) < _HEADER:  # padding at a block's end
            at += left
            continue
        _crc, length, kind = struct.unpack("<IHB", data[at : at + _HEADER])
        part += data[at + _HEADER : at + _HEADER + length]
        at += _HEADER + length
        if kind in (_FULL, _LAST):
            found.append(part)
            part = b""
    return found


def _items(items: Any) -> dict[str, Any]:
    """Key (or nested key, joined with '.') -> value."""
    return {(i.key or ".".join(i.nested_key)): json.loads(i.value_json) for i in items}


def read_wandb(folder: Path) -> WandbRun:
    """Read the only offline run below a run folder."""
    from wandb.proto import wandb_internal_pb2 as pb

    (path,) = folder.glob("wandb/**/*.wandb")
    run = WandbRun()
    for payload in wandb_records(path):
        record = pb.Record()
        record.ParseFromString(payload)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            r = record.run
            run.id, run.project, run.group, run.job_type = r.run_id, r.project, r.run_group, r.job_type
            run.name, run.tags = r.display_name, list(r.tags)
            run.config |= _items(r.config.update)
        elif kind == "config":
            run.config |= _items(record.config.update)
        elif kind == "history":
            run.history.append(_items(record.history.item))
        elif kind == "summary":
            run.summary |= _items(record.summary.update)
        elif kind == "exit":
            run.exit_code = record.exit.exit_code
    return run
