"""MCP servers: the result of `tools/list`, as saved by any client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from toolsavvy.catalog import DEFAULT_DOCUMENT, RetrievalSet, Tool
from toolsavvy.catalogs.building import ToolTable, retrieval_set
from toolsavvy.catalogs.jsonl import complete_splits, headline, read_queries
from toolsavvy.catalogs.reading import Record, as_list, as_record, existing, files, read_json
from toolsavvy.errors import UserError

_ACROSS = "set catalog.qualify=true: ids become 'file/name'"


def load(
    path: str | Path | None = None,
    *,
    queries: str | Path | Sequence[str | Path] | None = None,
    qualify: bool = False,
    name: str = "mcp",
    document: str = DEFAULT_DOCUMENT,
    taught_share: float = 1.0,
    train_share: float = 0.0,
    validation_share: float = 0.0,
    seed: int = 0,
) -> RetrievalSet:
    """Load `tools/list` results: `{"tools": […]}`, bare or inside a JSON-RPC response, or a list of such pages.

    Args:
        path: a JSON file, or a folder of them, one a server; the file's name becomes the tools' group.
        queries: files of queries (see `jsonl.load`), null for none.
        qualify: ids are "file/name" instead of the tool's bare name: for servers that share names.
        name: shown in tables.
        document: template of every tool's text.
        taught_share: see `jsonl.load`; so the next three.
        train_share: see there.
        validation_share: see there.
        seed: see there.

    Raises:
        UserError: a file is missing or malformed, or two tools share an id.
    """
    tools, counts = ToolTable(), Counter[str]()
    for file in files(existing(path, "a tools/list result, or a folder of them"), "*.json"):
        for record in _tools_of(read_json(file), str(file), counts):
            tools.add(_tool(record, file.stem, qualify), record, "name", _ACROSS)
    splits = complete_splits(read_queries(queries, tools), taught_share, train_share, validation_share, seed)
    return retrieval_set(name, tools, splits, document=document, headline=headline(splits), source=counts)


def _tools_of(value: Any, place: str, counts: Counter[str]) -> Iterator[Record]:
    """The tool records of a result, in whichever wrapping it was saved."""
    if isinstance(value, dict) and isinstance(value.get("result"), dict):
        value = value["result"]
    if isinstance(value, dict) and "error" in value and "tools" not in value:
        raise UserError("the server answered with an error", where=place, expected='{"tools": […]}', fix="ask it again")
    pages = value if isinstance(value, list) and value and all(_is_page(page) for page in value) else [value]
    for page in pages:
        rows = page.get("result", page) if isinstance(page, dict) else page
        counts["results_with_further_pages"] += bool(isinstance(rows, dict) and rows.get("nextCursor"))
        if isinstance(rows, dict):
            rows = as_record(rows, place).get("tools", list)
        for number, row in enumerate(as_list(rows, place, '{"tools": [{"name": …}]}'), start=1):
            yield as_record(row, f"{place}, tool {number}")


def _is_page(value: Any) -> bool:
    """Whether a list's member is a page of tools, not a tool."""
    return isinstance(value, dict) and "name" not in value and ("tools" in value or "result" in value)


def _tool(record: Record, server: str, qualify: bool) -> Tool:
    """A tool; the title, where there is one, opens the description."""
    name = record.text("name", None)
    title, text = record.text("title"), record.text("description")
    return Tool(
        id=f"{server}/{name}" if qualify else name,
        name=name,
        description=f"{title}. {text}" if title and title not in (name, text) else text,
        group=server,
        parameters=record.get("inputSchema", dict, {}),
        returns=record.get("outputSchema", dict, {}),
    )
