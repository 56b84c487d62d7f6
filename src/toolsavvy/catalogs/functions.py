"""OpenAI function lists: `[{"type": "function", "function": {…}}]`, bare functions, or one a line (as BFCL)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolsavvy.catalog import DEFAULT_DOCUMENT, RetrievalSet, Tool
from toolsavvy.catalogs.building import ToolTable, retrieval_set
from toolsavvy.catalogs.jsonl import complete_splits, headline, read_queries
from toolsavvy.catalogs.reading import Record, as_list, as_record, existing, files, read_json

_ACROSS = "set catalog.qualify=true: ids become 'file/name'"


def load(
    path: str | Path | None = None,
    *,
    queries: str | Path | Sequence[str | Path] | None = None,
    qualify: bool = False,
    name: str = "functions",
    document: str = DEFAULT_DOCUMENT,
    taught_share: float = 1.0,
    train_share: float = 0.0,
    validation_share: float = 0.0,
    seed: int = 0,
) -> RetrievalSet:
    """Load function lists as chat-completion requests carry them; schemas are kept verbatim.

    Args:
        path: a JSON file (an array, an object with "tools" or "functions", or an object a line), or a folder of them;
            the file's name becomes the tools' group.
        queries: files of queries (see `jsonl.load`), null for none.
        qualify: ids are "file/name" instead of the function's bare name: for files that share names.
        name: shown in tables.
        document: template of every tool's text.
        taught_share: see `jsonl.load`; so the next three.
        train_share: see there.
        validation_share: see there.
        seed: see there.

    Raises:
        UserError: a file is missing or malformed, or two functions share an id.
    """
    tools, counts = ToolTable(), Counter[str]()
    for file in files(existing(path, "a function list, or a folder of them"), "*.json", "*.jsonl"):
        for number, row in enumerate(_rows(read_json(file), str(file)), start=1):
            record = as_record(row, f"{file}, function {number}")
            if record.value.get("type", "function") != "function" and "name" not in record.value:
                counts["other_tool_types"] += 1  # {"type": "web_search"} and the like hold no function
                continue
            tools.add(_tool(_inner(record), file.stem, qualify), record, "name", _ACROSS)
    splits = complete_splits(read_queries(queries, tools), taught_share, train_share, validation_share, seed)
    return retrieval_set(name, tools, splits, document=document, headline=headline(splits), source=counts)


def _rows(value: Any, place: str) -> list[Any]:
    """The list of functions, bare or under "tools" or "functions"; a single function is a list of one."""
    if isinstance(value, dict):
        value = value.get("tools", value.get("functions", [value]))
    return as_list(value, place, "a list of functions")


def _inner(record: Record) -> Record:
    """The function inside {"type": "function", "function": {…}}."""
    if "function" not in record.value:
        return record
    return Record(record.get("function", dict), record.where("function"))


def _tool(record: Record, group: str, qualify: bool) -> Tool:
    """A tool; `input_schema` is Anthropic's word for `parameters`."""
    name = record.text("name", None)
    schema = "parameters" if "parameters" in record.value else "input_schema"
    return Tool(
        id=f"{group}/{name}" if qualify else name,
        name=name,
        description=record.text("description"),
        group=group,
        parameters=record.get(schema, dict, {}),
        returns=record.get("response", dict, {}),
    )
