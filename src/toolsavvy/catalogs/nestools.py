"""NesTools (2410.11805): 1,000 requests that nest calls of made-up tools; every record brings the tools it needs.

No results are released, but every field of a result has a label, and arguments name it ("API_call_3"), also within
longer values. A task's context shows each earlier call's result as field -> label, so that the label can be found.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from toolsavvy.catalog import DEFAULT_DOCUMENT, RetrievalSet, Tool
from toolsavvy.catalogs.building import retrieval_set
from toolsavvy.catalogs.calling import Step, Story, labelled_fields, query_of, tasks_of
from toolsavvy.catalogs.offering import Offering, python_schema
from toolsavvy.catalogs.reading import Record, as_record, existing, files, read_jsonl
from toolsavvy.tasks import TaskSet


def load(
    path: str | Path | None = None,
    *,
    name: str = "nestools",
    document: str = DEFAULT_DOCUMENT,
) -> RetrievalSet:
    """Load NesTools: a query a record, a parameter task a call of it; the source divides nothing.

    A tool's id is its name; where records define a name otherwise, the later definitions are `name~2` and so on.

    Args:
        path: `test_data.jsonl`, or a folder of such files.
        name: shown in tables.
        document: template of every tool's text.

    Raises:
        UserError: a file is missing or malformed.
    """
    found = existing(path, "NesTools' test_data.jsonl, or its folder")
    counts, odd = Counter[str](), Counter[str]()
    offering, queries, calls = Offering(counts), [], []
    for file in files(found, "*.jsonl"):
        for record in read_jsonl(file):
            values = [as_record(v, record.where(f"api[{i}]")) for i, v in enumerate(record.get("api", list))]
            domain, _, part = record.text("field").partition("/")
            tools = offering.offered((_tool(v, domain, part, counts) for v in values), record, "api")
            story = _story(record, tools, domain)
            queries += [query] if (query := query_of(story, tools)) else []
            calls += tasks_of(story, tools, "nestools", odd)
    data = retrieval_set(name, offering.table, {"test": queries}, document=document, headline=("test",), source=counts)
    return replace(data, tasks=TaskSet(name, tuple(calls), audit={key: n for key, n in odd.items() if n}))


def _tool(record: Record, domain: str, part: str, counts: Counter[str]) -> Tool:
    """A tool; its group and category are those of the first record that has it."""
    name = record.text("api_name", None)
    required = record.get("required", list, [])
    return Tool(
        id=name, name=name, description=record.text("api_description"), group=part, category=domain,
        parameters=python_schema(record, "parameters", counts, required),
        returns=python_schema(record, "responses", Counter(), ()),
    )  # fmt: skip


def _story(record: Record, tools: dict[str, Tool], domain: str) -> Story:
    """A record; the fields of every result stand for their labels."""
    steps = []
    for position, value in enumerate(record.get("call", list)):
        call = as_record(value, record.where(f"call[{position}]"))
        name = call.text("api_name", None)
        labels = tuple(str(label) for label in call.get("responses", list, []))
        output = labelled_fields(tools.get(name), labels)
        steps.append(Step(name, call.get("parameters", dict, {}), output=output, labels=labels))
    key = record.get("test_id", (int, str))
    return Story(f"nestools-{key}", record.text("task", None), steps, domain)
