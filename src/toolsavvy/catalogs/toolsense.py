"""ToolSense's realistic retrieval benchmark (RRB): 5,348 ToolBench endpoints, queries in three tiers of ambiguity."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from toolsavvy.catalog import DEFAULT_DOCUMENT, Query, RetrievalSet, Tool
from toolsavvy.catalogs.building import ToolTable, no_gold, retrieval_set
from toolsavvy.catalogs.reading import Record, as_record, existing, member, read_jsonl
from toolsavvy.catalogs.splits import grouped_split

TIERS = ("easy", "medium", "hard")


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
            counts[f"blank_{field}s"] += _blank(record.text(field))
    queries = [_query(record, tools) for record in read_jsonl(member(folder, "rrb.jsonl"))]
    splits: dict[str, list[Query]] = {"test": queries}
    if train_share or validation_share:
        splits = grouped_split(queries, train_share=train_share, validation_share=validation_share, seed=seed)
    return retrieval_set(name, tools, splits, document=document, headline=("test",), source=counts)


def _tool(record: Record) -> Tool:
    """A tool; its description is the endpoint's, then the service's ("None" as text means none)."""
    texts = [record.text(field) for field in ("api_description", "tool_description")]
    kept = [text for text in texts if not _blank(text)]
    key, title = record.text("tool_name", None), record.text("tool_title")
    return Tool(id=key, name=record.text("api_title") or key, description="\n".join(kept), group=title)


def _blank(text: str) -> bool:
    """Whether a description says nothing; the source also writes "None" as text."""
    return text.strip() in ("", "None")


def _query(record: Record, tools: ToolTable) -> Query:
    """A query; `tool` is one object in the easy tier and a list in the others."""
    golds = record.get("tool", (dict, list))
    relevant: dict[str, int] = {}
    for gold in golds if isinstance(golds, list) else [golds]:
        key = as_record(gold, record.where("tool")).text("tool_name", None)
        relevant[tools.gold(key, record, "tool")] = 1
    if not relevant:
        raise no_gold(record, "tool")
    tier = record.text("complexity", None)
    if tier not in TIERS:
        raise record.wrong("complexity", f"unknown tier {tier!r}", " or ".join(TIERS))
    return Query(record.text("sample_id", None), record.text("query", None), relevant, subset="rrb", tier=tier)
