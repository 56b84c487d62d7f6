"""BEIR folders (`corpus.jsonl`, `queries.jsonl`, `qrels/*.tsv`), ToolLens among them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from toolsavvy.catalog import DEFAULT_DOCUMENT, Query, RetrievalSet, Tool
from toolsavvy.catalogs.building import ToolTable, retrieval_set
from toolsavvy.catalogs.rapidapi import parameter_schema
from toolsavvy.catalogs.reading import Record, existing, files, member, read_jsonl, read_rows, shorten
from toolsavvy.catalogs.splits import hold_out
from toolsavvy.errors import UserError

_FLAT = re.compile(
    r"\s*category_name:(?P<category_name>.*?), tool_name:(?P<tool_name>.*?), api_name:(?P<api_name>.*?), "
    r"api_description:(?P<api_description>.*), required_params: ?(?P<required>\[.*?\]), "
    r"optional_params: ?(?P<optional>\[.*?\]), return_schema: ?(?P<returns>.*)",
    re.DOTALL,
)
_VALIDATION = ("validation", "valid", "dev")


def load(
    path: str | Path | None = None,
    *,
    name: str = "beir",
    document: str = DEFAULT_DOCUMENT,
    layout: Literal["plain", "toollens"] = "plain",
    validation_share: float = 0.0,
    seed: int = 0,
) -> RetrievalSet:
    """Load a BEIR folder; splits are its qrels files.

    Args:
        path: the folder.
        name: shown in tables.
        document: template of every tool's text.
        layout: "plain" takes title and text as name and description; "toollens" takes ToolLens' flat text apart
            (records that do not follow it stay plain and are counted).
        validation_share: share of train that becomes validation where the source has no validation qrels.
        seed: of that draw.

    Raises:
        UserError: a file is missing or malformed, or a qrels line names an unknown tool or query.
    """
    if layout not in ("plain", "toollens"):
        raise UserError(
            f"unknown layout {layout!r}", where="catalog.layout", expected="plain or toollens", fix="choose one"
        )
    folder = existing(path, "a BEIR folder (corpus.jsonl, queries.jsonl, qrels/*.tsv)")
    tools, counts = ToolTable(), Counter[str]()
    for record in read_jsonl(member(folder, "corpus.jsonl")):
        tools.add(_tool(record, layout, counts), record, "_id")
    texts = _texts(member(folder, "queries.jsonl"))
    splits: dict[str, list[Query]] = {}
    for qrels in files(folder, "qrels/*.tsv"):
        split = "validation" if qrels.stem in _VALIDATION else qrels.stem
        splits[split] = read_qrels(qrels, tools, texts, counts)
    judged = {q.id for queries in splits.values() for q in queries}
    counts["queries_without_qrels"] = len(texts.keys() - judged)
    if "train" in splits and "validation" not in splits:
        splits["train"], splits["validation"] = hold_out(splits["train"], validation_share, seed)
    headline = [s for s in splits if s not in ("train", "validation")]
    return retrieval_set(name, tools, splits, document=document, headline=headline, source=counts)


def read_qrels(path: Path, tools: ToolTable, texts: Mapping[str, str], counts: Counter[str]) -> list[Query]:
    """Queries of one qrels file, in its order; 0 means judged and not relevant, of repeated rows the highest counts."""
    grades: dict[str, dict[str, int]] = {}
    first: dict[str, Record] = {}
    for record in read_rows(path, ("query-id", "corpus-id", "score"), delimiter="\t"):
        query_id, gold = record.text("query-id", None), record.text("corpus-id", None)
        if query_id not in texts:
            raise record.wrong("query-id", f"unknown query {shorten(query_id)}", "an _id of queries.jsonl")
        grade = _grade(record)
        first.setdefault(query_id, record)
        row = grades.setdefault(query_id, {})
        tools.gold(gold, record, "corpus-id")
        counts["repeated_judgements"] += gold in row
        if grade > 0:
            row[gold] = max(grade, row.get(gold, 0))
    for query_id, row in grades.items():
        if not row:
            what = f"query {shorten(query_id)} has no gold tool (all its scores are 0)"
            raise first[query_id].wrong("score", what, "at least one score above 0", "drop the query from this file")
    return [Query(query_id, texts[query_id], row, subset=path.stem) for query_id, row in grades.items()]


def _texts(path: Path) -> dict[str, str]:
    """Query id -> text."""
    texts: dict[str, str] = {}
    for record in read_jsonl(path):
        key = record.text("_id", None)
        if key in texts:
            raise record.wrong("_id", f"query id {shorten(key)} occurs twice", "unique ids")
        texts[key] = record.text("text", None)
    return texts


def _grade(record: Record) -> int:
    """The score column as a whole number."""
    try:
        return int(record.text("score", None))
    except ValueError as fault:
        what = f"{shorten(record.value['score'])} is no whole number"
        raise record.wrong("score", what, "0, 1, 2, …") from fault


def _tool(record: Record, layout: str, counts: Counter[str]) -> Tool:
    """A corpus record as a tool."""
    key, title, text = record.text("_id", None), record.text("title"), record.text("text")
    flat = _FLAT.fullmatch(text) if layout == "toollens" else None
    parts = _flat_tool(key, flat, record) if flat else None
    if layout == "toollens" and parts is None:
        counts["not_in_the_flat_layout"] += 1
    return parts or Tool(id=key, name=title, description=text)


def _flat_tool(key: str, flat: re.Match[str], record: Record) -> Tool | None:
    """The tool in ToolLens' flat text; None if its parameter lists are not JSON."""
    try:
        parameters = {f"{k}_parameters": json.loads(flat[k]) for k in ("required", "optional")}
    except json.JSONDecodeError:
        return None
    return Tool(
        id=key,
        name=flat["api_name"],
        description=flat["api_description"],
        group=flat["tool_name"],
        category=flat["category_name"],
        parameters=parameter_schema(Record(parameters, record.place)),
        returns=_returns(flat["returns"]),
    )


def _returns(text: str) -> Mapping[str, Any]:
    """The return schema where it is an object."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
