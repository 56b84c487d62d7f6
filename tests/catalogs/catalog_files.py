"""Small helpers of the catalog tests: writing source files and checking user errors part by part."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from toolsavvy.errors import UserError

SHARED = Path(os.environ.get("TOOLSAVVY_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")


def shared(name: str) -> Path:
    """A folder of real data, or skip."""
    if not (SHARED / name).exists():
        pytest.skip(f"shared data is absent: no {name} in {SHARED}")
    return SHARED / name


def write_jsonl(path: Path, rows: Iterable[Any]) -> Path:
    """Rows as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def write_json(path: Path, value: Any) -> Path:
    """A JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def write_text(path: Path, text: str) -> Path:
    """A text file, byte for byte."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def fault(call: Callable[[], Any], *, what: str, where: str, expected: str = "", fix: str = "") -> UserError:
    """Run a call that must fail with a UserError whose four parts hold these texts, none of them empty."""
    with pytest.raises(UserError) as caught:
        call()
    error = caught.value
    for part, wanted in (("what", what), ("where", where), ("expected", expected), ("fix", fix)):
        said = getattr(error, part)
        assert said, f"{part} is empty in: {error}"
        assert wanted in said, f"{part}: {said!r} lacks {wanted!r}"
    assert "\x1b" not in str(error)
    return error
