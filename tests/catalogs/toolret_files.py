"""A small ToolRet of the hub's schema with its oddities: Parquet or JSONL, in any of the layouts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from catalog_files import write_jsonl

TOOLS = {
    "web": [
        (
            "apibank_tool_0",
            {"name": "GetWeather", "description": "The weather  of a city.", "parameters": {"city": {}}},
        ),
        ("apibank_tool_1", {"name": "Book\nFlight", "description": "Books a flight, two  blanks kept."}),
        ("mnms_tool_0", {"api_name": "image_caption", "description": "Says what an image shows."}),
        ("toolace_tool_0", {"description": "Converts currencies; it has no name."}),
    ],
    "code": [
        ("toolink_tool_0", "def sort_list(x): sorts a list, a plain text and no JSON"),
        ("craft_tool_0", {"name": "solve_equation", "description": "Solves an equation."}),
    ],
    "customized": [
        ("metatool_tool_0", {"name": "recipes", "description": "Finds recipes for dinner."}),
        ("gta_tool_0", {"name": "calculator", "description": "Computes an expression."}),
    ],
}
QUERIES = {
    "apibank": [
        ("q0", "What is the weather of the city of Rome?", {"apibank_tool_0": 1}),
        ("q1", "The weather, and book me a flight", {"apibank_tool_0": 1, "apibank_tool_1": 1}),
    ],
    "mnms": [("q0", "", {"mnms_tool_0": 1}), ("q1", "what does this image show", {"mnms_tool_0": 1})],
    "toolink": [("q0", "sort a list", {"toolink_tool_0": 1}), ("q2", "solves an equation", {"craft_tool_0": 1})],
    "metatool": [("q0", "dinner recipes", {"metatool_tool_0": 1}), ("q3", "add two numbers", {"gta_tool_0": 1})],
}
CATEGORY = {"apibank": "web", "mnms": "web", "toolink": "code", "metatool": "customized"}


def documentation(value: Any) -> str:
    """As the hub writes it: text."""
    return value if isinstance(value, str) else json.dumps(value, indent=1)


def tool_rows(tools: Iterable[tuple[str, Any]]) -> list[dict[str, Any]]:
    return [{"id": key, "documentation": documentation(value)} for key, value in tools]


def query_row(key: str, text: str, gold: Mapping[str, int], task: str = "apibank", **changes: Any) -> dict[str, Any]:
    labels = json.dumps([{"id": tool, "doc": {"name": tool}, "relevance": grade} for tool, grade in gold.items()])
    instruction = f"Given a `{task}` request, retrieve tools that serve it."
    row = {
        "id": key,
        "query": text,
        "instruction": instruction,
        "labels": labels,
        "category": CATEGORY.get(task, "web"),
    }
    return {**row, **changes}


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Parquet or JSONL, by the name's end."""
    if path.suffix == ".jsonl":
        return write_jsonl(path, rows)
    import polars

    path.parent.mkdir(parents=True, exist_ok=True)
    polars.DataFrame(rows).write_parquet(path)
    return path


LAYOUTS = {
    "hub": ("ToolRet-Queries/{}/queries-00000-of-00001.parquet", "ToolRet-Tools/{}/tools-00000-of-00001.parquet"),
    "hub_jsonl": ("{}/queries.jsonl", "{}/tools.jsonl"),
    "folders": ("queries/{}.jsonl", "tools/{}.jsonl"),
    "shards": ("queries/{}-00000-of-00001.parquet", "tools/{}-00000-of-00001.parquet"),
}


def make(
    folder: Path,
    layout: str = "folders",
    queries: Mapping[str, Any] | None = None,
    tools: Mapping[str, Any] | None = None,
) -> Path:
    """Write a ToolRet; `queries` are (id, text, gold) or whole rows, by task."""
    query_path, tool_path = LAYOUTS[layout]
    for task, rows in (QUERIES if queries is None else queries).items():
        made = [row if isinstance(row, dict) else query_row(*row, task=task) for row in rows]
        write_rows(folder / query_path.format(task), made)
    for category, rows in (TOOLS if tools is None else tools).items():
        write_rows(folder / tool_path.format(category), tool_rows(rows))
    return folder
