"""ToolSense's realistic retrieval benchmark (RRB): 5,348 ToolBench endpoints, queries in three tiers of ambiguity."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from toolsavvy.catalog import DEFAULT_DOCUMENT, Query, RetrievalSet, Tool
from toolsavvy.catalogs.building import ToolTable, no_gold, retrieval_set
from toolsavvy.catalogs.reading import Record, existing, member, read_jsonl
from toolsavvy.catalogs.splits import grouped_split
from toolsavvy.catalogs.toolsense_items import gold_records, is_blank, tier_of, tool_text


def load(
    path: str | Path | None = None,
    *,
    name: str = "toolsense",
    document: str = DEFAULT_DOCUMENT,
    train_share: float = 0.0,
    validation_share: float = 0.0,
    seed: int = 0,
) -> RetrievalSet:
    """Load the RRB; the order of a record's `analyzed_tools` is never used, since its first entry is the seed tool.

    Args:
        path: folder with `catalog.jsonl` and `rrb.jsonl`.
        name: shown in tables.
        document: template of every tool's text.
        train_share: share of the queries to train on (ToolSense's remedy); no gold tool then crosses the splits.
        validation_share: likewise for validation.
        seed: of the split.

    Raises:
        UserError: a file is missing or malformed.
    """
    folder = existing(path, "the folder of ToolSense (catalog.jsonl, rrb.jsonl)")
    tools, counts = ToolTable(), Counter[str]()
    for record in read_jsonl(member(folder, "catalog.jsonl")):
        tools.add(_tool(record), record, "tool_name")
        for field in ("api_description", "tool_description"):
            counts[f"blank_{field}s"] += is_blank(record.text(field))
    queries = [_query(record, tools) for record in read_jsonl(member(folder, "rrb.jsonl"))]
    splits: dict[str, list[Query]] = {"test": queries}
    if train_share or validation_share:
        splits = grouped_split(queries, train_share=train_share, validation_share=validation_share, seed=seed)
    return retrieval_set(name, tools, splits, document=document, headline=("test",), source=counts)


def _tool(record: Record) -> Tool:
    """A tool; its description is the endpoint's, then the service's."""
    text = tool_text(record)
    kept = [part for part in (text.own, text.shown) if not is_blank(part)]
    return Tool(id=text.id, name=text.name or text.id, description="\n".join(kept), group=text.service)


def _query(record: Record, tools: ToolTable) -> Query:
    """A query with its gold tools."""
    golds = [gold.text("tool_name", None) for gold in gold_records(record)]
    relevant = {tools.gold(gold, record, "tool"): 1 for gold in golds}
    if not relevant:
        raise no_gold(record, "tool")
    tier = tier_of(record)
    return Query(record.text("sample_id", None), record.text("query", None), relevant, subset="rrb", tier=tier)
