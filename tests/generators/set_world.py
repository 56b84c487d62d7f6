"""Small sources for the tests of made sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from conftest import SHARED
from toolsavvy.catalog import Catalog, Query, RetrievalSet, Tool
from toolsavvy.generators.collecting import Entry, Item, collect


def source(name: str, tools: Sequence[Tool], splits: Mapping[str, Sequence[Query]] | None = None) -> RetrievalSet:
    return RetrievalSet(Catalog(name, tuple(tools)), {s: tuple(q) for s, q in (splits or {}).items()})


def tool(key: str, name: str, description: str = "", group: str = "", category: str = "", *parameters: str) -> Tool:
    schema = {"type": "object", "properties": {p: {"type": "string"} for p in parameters}} if parameters else {}
    return Tool(key, name, description, group, category, schema)


def query(key: str, text: str, *golds: str, **more: object) -> Query:
    return Query(key, text, dict.fromkeys(golds, 1), **more)  # pyright: ignore[reportArgumentType]


def entries(*sources: RetrievalSet) -> list[Entry]:
    return [
        Entry(
            t if len(sources) == 1 else Tool(**{**t.__dict__, "id": f"{s.catalog.name}/{t.id}"}), s.catalog.name, t.id
        )
        for s in sources
        for t in s.catalog.tools
    ]


def items(*sources: RetrievalSet) -> list[Item]:
    return collect({s.catalog.name: s for s in sources})[1]


def shared(name: str) -> Path:
    """A folder of real data, or skip."""
    if not (SHARED / name).exists():
        pytest.skip(f"shared data is absent: no {name} in {SHARED}")
    return SHARED / name
