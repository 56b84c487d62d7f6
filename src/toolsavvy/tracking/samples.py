"""A bounded sample of a run's predictions as tables: what was asked, what is right, what each system said.

Read back from `predictions/<suite>.<system>.jsonl`, which every suite and method writes, so that a new one needs
nothing of its own here: fields that no reader below knows are left out.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

ROWS, TOP, WIDTH = 100, 5, 400
"""Rows a table, tools a system, characters a text."""
Record = Mapping[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class SampleTable:
    """A table of one suite.

    Args:
        suite: its name.
        columns: what was asked, the gold, then two a system: what it said, and whether that is right.
        rows: at most `ROWS`.
    """

    suite: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


def sample_tables(folder: Path, seed: int, rows: int = ROWS) -> Iterator[SampleTable]:
    """Sample the same items for every system of a suite.

    Args:
        folder: `predictions/` of a run; without files there are no tables.
        seed: of the sample.
        rows: at most as many a table.
    """
    suites: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        suites.setdefault(path.name.partition(".")[0], []).append(path)
    for suite, paths in suites.items():
        keys = list(dict.fromkeys(_key(record) for record in _records(paths[0])))
        drawn = random.Random(f"{seed}/{suite}").sample(range(len(keys)), min(rows, len(keys)))
        yield _table(suite, paths, [keys[i] for i in sorted(drawn)])


def _table(suite: str, paths: Sequence[Path], keys: Sequence[Key]) -> SampleTable:
    wanted = set(keys)
    found: dict[str, dict[Key, Record]] = {}
    for path in paths:
        system = unquote(path.name.removeprefix(f"{suite}.").removesuffix(".jsonl"))
        found[system] = {key: r for r in _records(path) if (key := _key(r)) in wanted}
    asked = [_asked(next(kept[key] for kept in found.values() if key in kept)) for key in keys]
    names = list(dict.fromkeys(name for row in asked for name in row))
    columns = [*names, *(column for system in found for column in (system, f"{system}: right"))]
    rows = [
        (*(row.get(n) for n in names), *(cell for kept in found.values() for cell in _said(kept.get(key, {}))))
        for key, row in zip(keys, asked, strict=True)
    ]
    return SampleTable(suite, tuple(columns), tuple(rows))


def _records(path: Path) -> Iterator[Record]:
    """Line by line: files of many megabytes are not held."""
    with path.open(encoding="utf-8") as file:
        yield from (json.loads(line) for line in file if line.endswith("\n"))


def _key(record: Record) -> Key:
    """What makes an item: a query of a split (with so many tools offered), or the id of a question or task."""
    return tuple(record.get(name) for name in ("split", "query", "k", "id"))


def _asked(record: Record) -> dict[str, Any]:
    """The columns that all systems share."""
    gold = record.get("gold")
    if "options" in record:  # the right option stands first on file
        gold = record["options"][0]
    elif "answer" in record and "question" in record:
        gold = "yes" if record["answer"] else "no"
    shown = {
        "split": record.get("split"), "item": record.get("query") or record.get("id"), "k": record.get("k"),
        "level": record.get("level"), "tool": record.get("tool"), "family": record.get("family"),
        "question": record.get("text") or record.get("question"), "gold": _text(gold),
    }  # fmt: skip
    return {name: _text(value) if isinstance(value, str) else value for name, value in shown.items() if value}


def _said(record: Record) -> tuple[str | None, Any]:
    """What a system said, and whether it is right: yes or no, a share of a tie, None where nobody can say."""
    if not record:
        return None, None
    if "tools" in record:
        tools = record["tools"][:TOP]
        return _text([tool or "(no tool)" for tool in tools]), bool(tools) and tools[0] in record["gold"]
    if "picked" in record:
        return _text({"tool": record["picked"], "arguments": record["arguments"]}), record["passed"]
    if "options" in record:
        scores = record["likelihood"]
        best = [option for option, s in zip(record["options"], scores, strict=True) if s == max(scores)]
        return _text(best[0] if len(best) == 1 else f"tie: {' | '.join(best)}"), record["correct_likelihood"]
    if "calls" in record:
        return _text(record["calls"]), record["exact"]
    if "yes" in record:
        return "yes" if record["yes"] > 0 else "no" if record["yes"] < 0 else "undecided", record["correct"]
    if "outcome" in record:
        return _text(f"{record['outcome']}: {record.get('action', '')}"), _share(record)
    return None, None


def _share(record: Record) -> str:
    """A model's right answers without the tool."""
    return f"{record.get('correct')} of {record.get('samples')} without the tool"


def _text(value: Any) -> str | None:
    """Short enough for a cell."""
    if value is None:
        return None
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        value = ", ".join(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"
