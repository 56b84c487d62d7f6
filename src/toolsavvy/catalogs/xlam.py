"""xLAM (APIGen, 2406.18518): 60,000 requests with the tools on offer and the calls that answer them.

Every record is {id, query, tools, answers}; `tools` and `answers` are JSON in a string. Types are Python's
("List[int], optional"). No results are released; calls of one record are independent of one another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from toolsavvy.catalog import DEFAULT_DOCUMENT, RetrievalSet, Tool
from toolsavvy.catalogs.building import retrieval_set
from toolsavvy.catalogs.calling import Step, Story, query_of, tasks_of
from toolsavvy.catalogs.hub import dataset_folder
from toolsavvy.catalogs.offering import Offering, python_schema
from toolsavvy.catalogs.reading import Record, as_record, existing, files, parse, read_jsonl, read_records
from toolsavvy.errors import UserError
from toolsavvy.tasks import TaskSet


def load(
    path: str | Path | None = None,
    *,
    hub: str = "Salesforce/xlam-function-calling-60k",
    revision: str | None = None,
    records: int | None = None,
    name: str = "xlam",
    document: str = DEFAULT_DOCUMENT,
) -> RetrievalSet:
    """Load xLAM's function-calling set: a query a record, a parameter task a call; the source divides nothing.

    A tool's id is its name; where records define a name otherwise, the later definitions are `name~2` and so on. A
    parameter is required unless its type says "optional" or it has a default.

    Args:
        path: a .json (array) or .jsonl file, or a folder of them; None: the hub, where terms must be accepted.
        hub: data set of the hub.
        revision: its commit.
        records: how many to read, from the beginning; None: all.
        name: shown in tables.
        document: template of every tool's text.

    Raises:
        UserError: a file is missing or malformed, or the hub can't be reached.
    """
    if records is not None and (isinstance(records, bool) or records < 1):
        expected, fix = "a whole number from 1, or null for all", "set catalog.records=1000, say"
        raise UserError(f"{records} records", where="catalog.records", expected=expected, fix=fix)
    if path:
        folder = existing(path, "xLAM's JSON file, or its folder")
    else:
        folder = dataset_folder(hub, revision, ("*.json", "*.jsonl"), key="catalog.hub")
    counts, odd = Counter[str](), Counter[str]()
    offering, queries, calls = Offering(counts), [], []
    for number, record in enumerate(islice(_records(folder), records)):
        values = _listed(record, "tools")
        tools = offering.offered((_tool(value, counts) for value in values), record, "tools")
        story = _story(record, number, odd)
        queries += [query] if (query := query_of(story, tools)) else []
        calls += tasks_of(story, tools, "xlam", odd)
    data = retrieval_set(name, offering.table, {"test": queries}, document=document, headline=("test",), source=counts)
    return replace(data, tasks=TaskSet(name, tuple(calls), audit={key: n for key, n in odd.items() if n}))


def _records(path: Path) -> Iterator[Record]:
    """Records of all files."""
    for file in files(path, "*.json", "*.jsonl"):
        yield from read_jsonl(file) if file.suffix == ".jsonl" else read_records(file)


def _listed(record: Record, field: str) -> list[Record]:
    """The objects of a list, which may be JSON in a string."""
    value: Any = record.get(field, (str, list))
    place = record.where(field)
    value = parse(value, place) if isinstance(value, str) else value
    if not isinstance(value, list):
        raise record.wrong(field, f"{type(value).__name__} instead of a list", "a list of objects, perhaps in a string")
    return [as_record(inner, f"{place}, element {i}") for i, inner in enumerate(value)]


def _tool(record: Record, counts: Counter[str]) -> Tool:
    """A tool."""
    name = record.text("name", None)
    parameters = python_schema(record, "parameters", counts)
    return Tool(id=name, name=name, description=record.text("description"), parameters=parameters)


def _story(record: Record, number: int, odd: Counter[str]) -> Story:
    """A record; without an id its place is one."""
    answers = _listed(record, "answers")
    odd["records_without_a_call"] += not answers
    steps = [Step(call.text("name", None), call.get("arguments", dict, {})) for call in answers]
    key = record.get("id", (int, str), number)
    kind = "parallel" if len(steps) > 1 else "simple"
    return Story(f"xlam-{key}", record.text("query", None).strip(), steps, kind)
