"""Seal-Tools: 4,076 self-made APIs; a query's golds are the APIs of its (possibly nested) calls.

Every call is a parameter task too. No results are released, so arguments that name an earlier one ("API_call_0") stay
as they are: the model has to name it likewise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolsavvy.catalog import DEFAULT_DOCUMENT, Query, RetrievalSet, Tool
from toolsavvy.catalogs.building import ToolTable, no_gold, retrieval_set
from toolsavvy.catalogs.calling import Step, Story, labelled_fields, tasks_of
from toolsavvy.catalogs.reading import Record, as_record, existing, member, read_jsonl
from toolsavvy.catalogs.splits import hold_out
from toolsavvy.tasks import TaskSet

TESTS = ("test_in_domain", "test_out_domain")
_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array", "dict": "object"}


def load(
    path: str | Path | None = None,
    *,
    name: str = "sealtools",
    document: str = DEFAULT_DOCUMENT,
    train_share: float = 0.0,
    seed: int = 0,
) -> RetrievalSet:
    """Load Seal-Tools: `train.jsonl` (where present), `dev.jsonl` as validation, both test files as headline.

    Parameter tasks follow the queries: those of train, validation and the two tests, whose file is their category.

    Args:
        path: folder with `tool.jsonl` and the query files.
        name: shown in tables.
        document: template of every tool's text.
        train_share: share of `dev.jsonl` to train on where there is no `train.jsonl`; the rest stays validation.
        seed: of that draw.

    Raises:
        UserError: a file is missing or malformed.
    """
    folder = existing(path, "the folder of Seal-Tools (tool.jsonl, dev.jsonl, test_*_domain.jsonl)")
    tools, counts = ToolTable(), Counter[str]()
    for record in read_jsonl(member(folder, "tool.jsonl")):
        tools.add(_tool(record), record, "api_name")
    records = {
        split: list(read_jsonl(member(folder, f"{split}.jsonl")))
        for split in ("train", "dev", *TESTS)
        if split in TESTS or (folder / f"{split}.jsonl").is_file()
    }
    splits = {split: [_query(record, tools, counts) for record in rows] for split, rows in records.items()}
    splits["validation"] = splits.pop("dev", [])
    if train_share and "train" not in splits:
        splits["validation"], splits["train"] = hold_out(splits["validation"], train_share, seed, "train_share")
    order = {split: splits.get(split, []) for split in ("train", "validation", *TESTS)}
    data = retrieval_set(name, tools, order, document=document, headline=TESTS, source=counts)
    return replace(data, tasks=_tasks(name, records, tools, {q.id for q in splits.get("train", ())}))


def _tasks(name: str, records: Mapping[str, Sequence[Record]], tools: ToolTable, trained: set[str]) -> TaskSet:
    """A task a call."""
    counts = Counter[str]()
    stories = [_story(record, file, trained, tools.tools) for file, rows in records.items() for record in rows]
    calls = tuple(task for story in stories for task in tasks_of(story, tools.tools, "sealtools", counts))
    return TaskSet(name, calls, audit={key: n for key, n in counts.items() if n})


def _story(record: Record, file: str, trained: set[str], tools: Mapping[str, Tool]) -> Story:
    """The calls of a query; the fields of every result stand for their labels."""
    key, steps = record.text("id", None), []
    for position, value in enumerate(record.get("calling", list)):
        call = as_record(value, record.where(f"calling[{position}]"))
        name = call.text("api", None)
        labels = tuple(label for label in call.get("responses", list, []) if isinstance(label, str))
        output = labelled_fields(tools.get(name), labels)
        steps.append(Step(name, call.get("parameters", dict, {}), output=output, labels=labels))
    split = "test" if file in TESTS else "train" if key in trained else "validation"
    return Story(key, record.text("query", None), steps, file, split)


def _tool(record: Record) -> Tool:
    """A tool; `field` is "domain/sub-domain"."""
    name, (domain, _, part) = record.text("api_name", None), record.text("field").partition("/")
    return Tool(
        id=name,
        name=name,
        description=record.text("api_description"),
        group=part,
        category=domain,
        parameters=_schema(record, "parameters", record.get("required", list, [])),
        returns=_schema(record, "responses", []),
    )


def _schema(record: Record, field: str, required: list[Any]) -> Mapping[str, Any]:
    """JSON Schema of {name: {type, description}}."""
    properties: dict[str, Any] = {}
    for name, value in record.get(field, dict, {}).items():
        row = as_record(value, record.where(f"{field}.{name}"))
        kind = row.text("type")
        properties[name] = {"type": _TYPES.get(kind, kind), "description": row.text("description")}
    if not properties:
        return {}
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def _query(record: Record, tools: ToolTable, counts: Counter[str]) -> Query:
    """A query; its subset is the difficulty in its id ("dev-easy-0")."""
    relevant: dict[str, int] = {}
    for call in record.get("calling", list):
        gold = tools.gold(as_record(call, record.where("calling")).text("api", None), record, "calling")
        counts["repeated_calls"] += gold in relevant
        relevant[gold] = 1
    if not relevant:
        raise no_gold(record, "calling")
    key = record.text("id", None)
    subset = next((part for part in key.split("-") if part in ("easy", "difficult")), "")
    return Query(key, record.text("query", None), relevant, subset=subset)
