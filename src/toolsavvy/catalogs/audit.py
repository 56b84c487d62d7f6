"""What is odd about a catalog and its queries: counted and shown, never silently repaired."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolsavvy.catalog import Catalog, Query, RetrievalSet, split_name, split_words
from toolsavvy.catalogs.splits import plain

_NOT_WORD = re.compile(r"[^\w]+")
_WORD = re.compile(r"\w")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_MARKUP = re.compile(r"<\|[^|<>]{1,40}\|>|<<[^<>]{1,200}>>")
_LABELS = {
    "tools": "tools",
    "queries": "queries",
    "id_collisions": "tool ids that differ only by case, spaces or punctuation",
    "name_collisions": "tools that share their name with another",
    "duplicate_documents": "tools whose document another tool has too",
    "empty_documents": "tools whose document holds no word",
    "blank_descriptions": "tools without a description",
    "markup_in_tools": "tools whose text looks like special or virtual tokens",
    "control_characters": "texts with control characters",
    "duplicate_query_ids": "query ids used twice within a split",
    "duplicate_query_texts": "queries whose text another one of the split has too",
    "name_leaks": "queries that spell out the name of a gold tool",
    "train_overlap": "test queries whose text is in train or validation",
    "document_queries": "queries that equal the description of a tool",
    "unseen_golds": "test queries with a gold tool that no training query has",
    "multi_gold": "queries with several gold tools",
}


def audit(data: RetrievalSet) -> Mapping[str, Any]:
    """Count the oddities of a set; counts by split are mappings, the source's own counts stay under "source"."""
    catalog, splits = data.catalog, data.splits
    taught = {plain(q.text) for name in ("train", "validation") for q in splits.get(name, ())}
    trained = {tool for q in data.train for tool in q.relevant}
    descriptions = {plain(t.description) for t in catalog.tools if t.description.strip()}
    tests = {name: splits[name] for name in data.test_splits if name in splits}
    return {
        **_audit_tools(catalog),
        "queries": {name: len(queries) for name, queries in splits.items()},
        "duplicate_query_ids": {name: _repeats(q.id for q in queries) for name, queries in splits.items()},
        "duplicate_query_texts": {name: _repeats(plain(q.text) for q in queries) for name, queries in splits.items()},
        "name_leaks": {name: sum(leaks_name(q, catalog) for q in queries) for name, queries in splits.items()},
        "document_queries": {name: sum(plain(q.text) in descriptions for q in qs) for name, qs in splits.items()},
        "multi_gold": {name: sum(len(q.relevant) > 1 for q in queries) for name, queries in splits.items()},
        "train_overlap": {name: sum(plain(q.text) in taught for q in queries) for name, queries in tests.items()},
        "unseen_golds": {name: sum(not trained >= set(q.relevant) for q in qs) for name, qs in tests.items()},
        **({"source": data.audit["source"]} if "source" in data.audit else {}),
    }


def audited(data: RetrievalSet, **source: int) -> RetrievalSet:
    """The set with its audit, and with what the loader itself counted ("merged_rows", …)."""
    told = dataclasses.replace(data, audit={"source": source} if source else {})
    return dataclasses.replace(told, audit=audit(told))


def render_audit(report: Mapping[str, Any]) -> list[str]:
    """The audit as plain lines; counts of zero are left out, control characters are escaped."""
    lines = []
    others = {key: str(key).replace("_", " ") for key in report if key not in _LABELS and key != "source"}
    for key, label in {**_LABELS, **others}.items():
        value = report.get(key, 0)
        if isinstance(value, Mapping):
            value = ", ".join(f"{name} {count:,}" for name, count in value.items() if count or key == "queries")
        elif isinstance(value, int | float) and (value or (key == "tools" and key in report)):
            value = f"{value:,}"
        if value:
            lines.append(f"{label}: {value}")
    lines += [f"source: {name.replace('_', ' ')}: {n:,}" for name, n in report.get("source", {}).items() if n]
    return [visible(line) for line in lines]


def visible(text: str) -> str:
    """Text that a terminal may show: control and direction characters as escapes."""
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def leaks_name(query: Query, catalog: Catalog) -> bool:
    """Whether the query spells the whole name of one of its gold tools, word by word."""
    text = f" {_words(query.text)} "
    for tool_id in query.relevant:
        name = _words(catalog.tools[catalog.index[tool_id]].name)
        if name and f" {name} " in text:
            return True
    return False


def _audit_tools(catalog: Catalog) -> dict[str, int]:
    """The part that needs no queries."""
    return {
        "tools": len(catalog),
        "id_collisions": _repeats(_NOT_WORD.sub("_", t.id).strip("_").lower() for t in catalog.tools),
        "name_collisions": _repeats(split_name(t.name) for t in catalog.tools),
        "duplicate_documents": _repeats(catalog.documents),
        "empty_documents": sum(not _WORD.search(document) for document in catalog.documents),
        "blank_descriptions": sum(not t.description.strip() for t in catalog.tools),
        "markup_in_tools": sum(bool(_MARKUP.search(text)) for text in _texts(catalog)),
        "control_characters": sum(bool(_CONTROL.search(text)) for text in _texts(catalog)),
    }


def _texts(catalog: Catalog) -> Iterator[str]:
    """What a source says of each tool, one at a time: large catalogs are not held twice."""
    return (f"{t.id} {t.name} {t.description}" for t in catalog.tools)


def _repeats(values: Iterable[str]) -> int:
    """How many of the values occur more than once (all copies counted)."""
    return sum(n for n in Counter(values).values() if n > 1)


def _words(text: str) -> str:
    """Lower-case words without punctuation."""
    return " ".join(_NOT_WORD.sub(" ", split_words(text)).split())
