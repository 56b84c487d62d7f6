"""The API records of the ToolBench family (ToolBench, StableToolBench, ToolLens) as tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from toolsavvy.catalog import Query, Tool
from toolsavvy.catalogs.building import ToolTable, no_gold
from toolsavvy.catalogs.reading import Record, as_record, shorten

_TYPES = {"string": "string", "str": "string", "enum": "string", "number": "number", "float": "number"}
_TYPES |= {"int": "integer", "integer": "integer", "boolean": "boolean", "bool": "boolean"}
_TYPES |= {"array": "array", "list": "array", "object": "object", "dict": "object"}


def tool_id(tool_name: str, api_name: str) -> str:
    """The key of an API, as ToolGen's virtual tokens spell it; both names verbatim."""
    return f"{tool_name}&&{api_name}"


def parameter_schema(record: Record) -> dict[str, Any]:
    """JSON Schema of `required_parameters` and `optional_parameters`; types in any case, defaults verbatim."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for field in ("required_parameters", "optional_parameters"):
        for value in record.get(field, list, []):
            row = as_record(value, record.where(field))
            name = row.text("name")
            if not name:
                continue
            properties.setdefault(name, _property(row))
            if field == "required_parameters" and name not in required:
                required.append(name)
    if not properties:
        return {}
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def api_tool(record: Record) -> Tool:
    """A Tool of one API record ({tool_name, api_name, api_description, category_name, …})."""
    tool_name, api_name = record.text("tool_name", None), record.text("api_name", None)
    return Tool(
        id=tool_id(tool_name, api_name),
        name=api_name,
        description=record.text("api_description"),
        group=tool_name,
        category=record.text("category_name"),
        parameters=parameter_schema(record),
        returns=_template(record),
    )


def add_api(tools: ToolTable, record: Record, counts: Counter[str]) -> str:
    """Keep an API once; a repetition under another category or description is counted, the first one stays.

    Returns:
        the tool's id.
    """
    tool = api_tool(record)
    known = tools.tools.get(tool.id)
    if known is None:
        tools.add(tool, record, "api_name")
        counts["blank_descriptions"] += not tool.description.strip()
    else:
        counts["repeats_with_another_category"] += known.category != tool.category
        counts["repeats_with_another_description"] += tool.description not in known.description
    return tool.id


def api_query(record: Record, tools: ToolTable, subset: str, counts: Counter[str], prefix: str = "") -> Query:
    """A query of the `G*_query.json` form; its relevant pairs must be known tools, repeated pairs are counted.

    `prefix` goes before the id where several files count their queries from the same number.

    Raises:
        UserError: no pair, a malformed pair, or one that names no tool.
    """
    field = "relevant APIs" if "relevant APIs" in record.value else "relevant_apis"
    relevant: dict[str, int] = {}
    for pair in record.get(field, list, []):
        if not (isinstance(pair, list) and len(pair) >= 2 and all(isinstance(p, str) for p in pair[:2])):
            raise record.wrong(field, f"{shorten(pair)} is no pair", "[tool_name, api_name]")
        gold = tools.gold(tool_id(pair[0], pair[1]), record, field)
        counts["duplicate_relevant"] += gold in relevant
        relevant[gold] = 1
    if not relevant:
        raise no_gold(record, field)
    number = record.get("query_id", (int, str))
    return Query(id=f"{prefix}{number}", text=record.text("query", None), relevant=relevant, subset=subset)


def _property(row: Record) -> dict[str, Any]:
    """One parameter's schema; "DATE (YYYY-MM-DD)" keeps its format."""
    spelled = row.text("type").strip()
    word = spelled.split(" ", 1)[0].lower()
    schema: dict[str, Any] = {"type": _TYPES.get(word, "string")} if word else {}
    if word in ("date", "time"):
        schema["format"] = word
    if row.text("description").strip():
        schema["description"] = row.text("description")
    if row.value.get("default") not in (None, ""):
        schema["default"] = row.value["default"]
    return schema


def _template(record: Record) -> Mapping[str, Any]:
    """ToolBench's response template ({field: type name}) where it is one."""
    template = record.value.get("template_response")
    return template if isinstance(template, dict) else {}
