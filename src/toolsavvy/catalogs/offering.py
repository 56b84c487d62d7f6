"""Tools of sources whose records each bring their own: alike ones are one tool, others of the same name get an id."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from toolsavvy.catalog import Tool
from toolsavvy.catalogs.building import ToolTable
from toolsavvy.catalogs.python_types import python_type
from toolsavvy.catalogs.reading import Record, as_record


class Offering:
    """The table of all records' tools.

    Args:
        counts: where names with several definitions are counted.
    """

    def __init__(self, counts: Counter[str]) -> None:
        """Start empty."""
        self.table, self.counts = ToolTable(), counts
        self._definitions: dict[str, dict[str, Tool]] = {}

    def one(self, tool: Tool, record: Record, field: str) -> Tool:
        """The tool as the table has it: the same object for the same definition; else `name~2`, `name~3`, … as id.

        Raises:
            UserError: it has no name.
        """
        known = self._definitions.setdefault(tool.name, {})
        key = json.dumps([tool.description, tool.parameters, tool.returns], sort_keys=True, ensure_ascii=False)
        if key not in known:
            self.counts["names_with_another_definition"] += bool(known)
            known[key] = replace(tool, id=f"{tool.id}~{len(known) + 1}") if known else tool
            self.table.add(known[key], record, field)
        return known[key]

    def offered(self, tools: Iterable[Tool], record: Record, field: str) -> dict[str, Tool]:
        """The tools of one record by name; of two with one name the first."""
        found: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in found:
                self.counts["tools_offered_twice"] += 1
            else:
                found[tool.name] = self.one(tool, record, field)
        return found


def python_schema(
    record: Record, field: str, counts: Counter[str], required: Iterable[Any] | None = None
) -> Mapping[str, Any]:
    """JSON Schema of {name: {type, description, default, …}} with types as Python spells them.

    Args:
        record: holds the parameters under `field`.
        field: may also hold a JSON Schema of an object, which is taken as it is.
        counts: of types that say nothing.
        required: names, where the source lists them; else a parameter says so itself, or has neither a default nor
            "optional" in its type.

    Raises:
        UserError: a parameter is no object, or its type no text.
    """
    given = record.get(field, dict, {})
    if isinstance(given.get("properties"), dict) and given.get("type") in ("object", "dict"):
        return given
    properties: dict[str, Any] = {}
    needed: list[str] = []
    for name, value in given.items():
        row = as_record(value, record.where(f"{field}.{name}"))
        read = python_type(row.text("type"))
        counts["parameters_without_a_known_type"] += not read.schema
        properties[name] = {**read.schema, **{k: row.value[k] for k in _KEPT if row.value.get(k) not in (None, "")}}
        is_free = read.is_optional or "default" in row.value
        if row.get("required", bool, not is_free):
            needed.append(name)
    needed = needed if required is None else [str(name) for name in required]
    if not properties:
        return {}
    return {"type": "object", "properties": properties, **({"required": needed} if needed else {})}


_KEPT = ("description", "enum", "default", "minimum", "maximum")
