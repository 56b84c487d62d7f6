"""MetaTool: 199 ChatGPT plug-ins, one label a query, and 497 queries that need two tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from toolsavvy.catalog import DEFAULT_DOCUMENT, Query, RetrievalSet, Tool
from toolsavvy.catalogs.building import ToolTable, no_gold, retrieval_set
from toolsavvy.catalogs.reading import (
    Record,
    as_record,
    existing,
    kind_name,
    member,
    read_json,
    read_records,
    read_rows,
    shorten,
)
from toolsavvy.catalogs.splits import cap_per_tool, plain, taught_split
from toolsavvy.errors import UserError


def load(
    path: str | Path | None = None,
    *,
    name: str = "metatool",
    document: str = DEFAULT_DOCUMENT,
    taught_share: float = 0.5,
    train_share: float = 0.6,
    validation_share: float = 0.1,
    cap: int | None = None,
    seed: int = 0,
) -> RetrievalSet:
    """Load MetaTool; the source has no splits, so half of the tools is taught and the others are `test_unseen`.

    Queries with two tools are a slice of their own (`test_multi`). Repeated rows are merged; a text labelled with
    several tools has several golds.

    Args:
        path: folder with `all_clean_data.csv`, `plugin_des.json` and, if there is one, `multi_tool_query_golden.json`.
        name: shown in tables.
        document: template of every tool's text.
        taught_share: share of the tools that get training rows.
        train_share: share of a taught tool's queries to train on.
        validation_share: share of the taught tools' queries for validation.
        cap: at most so many queries a tool (the source ranges from 12 to 1,122), null for all.
        seed: of all draws.

    Raises:
        UserError: a file is missing or malformed.
    """
    folder = existing(path, "the folder of MetaTool (all_clean_data.csv, plugin_des.json)")
    tools, counts = _tools(member(folder, "plugin_des.json")), Counter[str]()
    queries = cap_per_tool(_single(member(folder, "all_clean_data.csv"), tools, counts), cap, seed)
    splits = taught_split(
        queries, taught_share=taught_share, train_share=train_share, validation_share=validation_share, seed=seed
    )
    multi = folder / "multi_tool_query_golden.json"
    splits["test_multi"] = _multi(multi, tools) if multi.is_file() else []
    headline = ("test_seen", "test_unseen")
    return retrieval_set(name, tools, splits, document=document, headline=headline, source=counts)


def _tools(path: Path) -> ToolTable:
    """Tools of the name -> description mapping."""
    value, tools = read_json(path, unique_keys=True), ToolTable()
    if not isinstance(value, Mapping):
        raise UserError(
            kind_name(type(value)), where=str(path), expected="an object {name: description}", fix="use plugin_des.json"
        )
    for number, (key, text) in enumerate(value.items(), start=1):
        record = as_record({"name": key, "description": text}, f"{path}, entry {number} ({shorten(key)})")
        tools.add(Tool(id=key, name=key, description=record.text("description")), record, "name")
    return tools


def _single(path: Path, tools: ToolTable, counts: Counter[str]) -> list[Query]:
    """The single-label queries; rows with the same text become one query."""
    rows: dict[str, Query] = {}
    for record in read_rows(path, ("Query", "Tool")):
        text, gold = record.text("Query", None), tools.gold(record.text("Tool", None), record, "Tool")
        known = rows.get(plain(text))
        if known is None:
            rows[plain(text)] = Query(f"q{len(rows)}", text, {gold: 1}, subset="single")
            continue
        counts["merged_rows"] += 1
        if gold not in known.relevant:
            counts["texts_with_several_labels"] += len(known.relevant) == 1
            rows[plain(text)] = Query(known.id, known.text, {**known.relevant, gold: 1}, subset="single")
    return list(rows.values())


def _multi(path: Path, tools: ToolTable) -> list[Query]:
    """The queries that need several tools."""
    return [_multi_query(record, tools, i) for i, record in enumerate(read_records(path))]


def _multi_query(record: Record, tools: ToolTable, number: int) -> Query:
    """One of them."""
    golds = [as_record({"tool": g}, record.where("tool")).text("tool", None) for g in record.get("tool", list)]
    if not golds:
        raise no_gold(record, "tool")
    relevant = {tools.gold(gold, record, "tool"): 1 for gold in golds}
    return Query(f"multi{number}", record.text("query", None), relevant, subset="multi")
