"""Parameter tasks in a documented layout: ParamBench's official data where a user has it, or what we generate.

A folder with two files, or `tasks.jsonl` alone where every task carries its tool.

`tasks.jsonl`, one task a line:

    {"id": "ec2:CreateSubnet/01",            unique
     "instruction": "Cut the second /24 …",  what a person asks for
     "tool": "ec2:CreateSubnet",             id in tools.jsonl, or the tool itself as an object
     "arguments": {…},                       the right argument object
     "accepted": {"Name": ["a", "b"]},       optional: argument -> every right value; "" says it may be left out
     "context": [{"name": "ec2:CreateVpc", "arguments": {…}, "output": {…}}],   optional: earlier calls, in order
     "split": "train",                       optional: train | validation | test
     "level": "L3",                          optional: L1 to L5; computed by our rule where it is missing
     "unordered": ["Tags"],                  optional: paths of arrays whose order means nothing, "*" for any index
     "conditions": 1,                        optional: arguments that are there because of another's value
     "cluster": "…", "category": "…",        optional: what is independent; a kind, for slices
     "facts": {…}}                           optional: anything else; `world` (a seed) lets calls be executed

`tools.jsonl`, one tool a line: {"id", "name", "description", "group", "category", "parameters", "returns"}, where
`parameters` and `returns` are JSON Schemas and all but `id` may be missing. Tools that no task asks for are allowed:
they are what a retriever has to tell the right one from.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolsavvy.assets import atomic_write
from toolsavvy.catalog import DEFAULT_DOCUMENT, Query, RetrievalSet, Tool
from toolsavvy.catalogs.building import ToolTable, retrieval_set
from toolsavvy.catalogs.reading import Record, as_record, existing, member, read_jsonl, shorten
from toolsavvy.levels import levelled
from toolsavvy.tasks import LEVELS, ParamTask, Reference, TaskSet, Upstream

TASKS, TOOLS = "tasks.jsonl", "tools.jsonl"
SPLITS = ("train", "validation", "test")
VIOLATES = "reference_violates_schema"


def load(path: str | Path | None = None, *, name: str = "parambench", document: str = DEFAULT_DOCUMENT) -> RetrievalSet:
    """Load parameter tasks; each is a query too, whose gold tool is the one it asks for.

    A reference that breaks its tool's schema is kept and flagged. Tasks without a split are in the test.

    Args:
        path: the folder, or its tasks.jsonl.
        name: shown in tables.
        document: template of every tool's text.

    Raises:
        UserError: a file is missing or malformed, with file, line and field.
    """
    place = existing(path, f"a folder with {TASKS} and {TOOLS}, or one {TASKS}")
    file = member(place, TASKS) if place.is_dir() else place
    tools, counts = ToolTable(), Counter[str]()
    if (beside := file.with_name(TOOLS)).is_file():
        for record in read_jsonl(beside):
            tools.add(_tool(record), record)
    tasks: dict[str, ParamTask] = {}
    places: dict[str, str] = {}
    for record in read_jsonl(file):
        task = _task(record, tools, name)
        if task.id in tasks:
            what = f"task id {shorten(task.id)} occurs twice (first: {places[task.id]})"
            raise record.wrong("id", what, "unique ids", "give each task its own id")
        tasks[task.id], places[task.id] = task, record.place
        counts.update(task.flags)
    queries = {split: [_query(t) for t in tasks.values() if (t.split or "test") == split] for split in SPLITS}
    data = retrieval_set(name, tools, queries, document=document, headline=("test",), source=counts)
    return replace(data, tasks=TaskSet(name, tuple(tasks.values()), audit=_counted(tasks.values())))


def save(folder: Path, tasks: Iterable[ParamTask], tools: Iterable[Tool]) -> tuple[str, ...]:
    """Write both files, each whole or not at all; `load` gives the same tasks back.

    Returns:
        Names of the files.
    """
    _write(folder / TOOLS, (vars(tool) for tool in tools))
    _write(folder / TASKS, map(as_row, tasks))
    return TASKS, TOOLS


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with atomic_write(path, text=True) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, default=dict) + "\n")


def as_row(task: ParamTask) -> dict[str, Any]:
    """A task as a line of tasks.jsonl; what is empty is left out."""
    row: dict[str, Any] = {
        "id": task.id,
        "instruction": task.instruction,
        "tool": task.reference.name,
        "arguments": dict(task.reference.arguments),
        "accepted": task.reference.accepted and {k: list(v) for k, v in task.reference.accepted.items()},
        "context": [
            {"name": c.name, "arguments": dict(c.arguments), "output": c.output}
            | ({"label": c.label} if c.label else {})
            for c in task.upstream
        ],
        "split": task.split,
        "level": task.level,
        "unordered": list(task.unordered),
        "conditions": task.conditions,
        "cluster": task.cluster,
        "category": task.category,
        "facts": dict(task.facts),
    }
    return {key: value for key, value in row.items() if value or key == "arguments"}


def _tool(record: Record) -> Tool:
    identifier = record.text("id", None)
    return Tool(
        id=identifier,
        name=record.text("name", identifier),
        description=record.text("description"),
        group=record.text("group"),
        category=record.text("category"),
        parameters=record.get("parameters", dict, {}),
        returns=record.get("returns", dict, {}),
    )


def _task(record: Record, tools: ToolTable, source: str) -> ParamTask:
    """One task; its level is computed where the file has none.

    Raises:
        UserError: a field is missing or of another kind.
    """
    from toolsavvy.calls.schema_check import valid

    tool = _own_tool(record, tools)
    arguments = record.get("arguments", dict)
    split = _one_of(record, "split", SPLITS)
    level = _one_of(record, "level", LEVELS)
    identifier = record.text("id", None)
    task = ParamTask(
        id=identifier,
        instruction=record.text("instruction", None),
        tools=(tool,),
        references=(Reference(tool.name, arguments, _accepted(record)),),
        upstream=tuple(_earlier(record)),
        source=source,
        category=record.text("category"),
        cluster=record.text("cluster", identifier),
        split=split,
        level=level,
        conditions=_count(record, "conditions"),
        flags=() if valid(arguments, tool.parameters) else (VIOLATES,),
        unordered=tuple(_texts(record, "unordered")),
        facts=record.get("facts", dict, {}),
    )
    return task if level else levelled(task)


def _own_tool(record: Record, tools: ToolTable) -> Tool:
    """The task's tool: by id, or carried by the task itself (once, or the same each time)."""
    value = record.get("tool", (str, dict))
    if isinstance(value, str):
        return tools.tools[tools.gold(value, record, "tool")]
    tool = _tool(as_record(value, record.where("tool")))
    if tool.id not in tools:
        tools.add(tool, record, "tool")
    elif tools.tools[tool.id] != tool:
        what = f"tool {shorten(tool.id)} differs from the one of {tools.places[tool.id]}"
        raise record.wrong("tool", what, "one tool for an id", "give them different ids")
    return tools.tools[tool.id]


def _accepted(record: Record) -> dict[str, tuple[Any, ...]] | None:
    found = record.get("accepted", dict, None)
    if found is None:
        return None
    for key, values in found.items():
        if not isinstance(values, list):
            raise record.wrong(f"accepted.{key}", f"{shorten(values)} is no list", "every value that is right")
    return {key: tuple(values) for key, values in found.items()}


def _earlier(record: Record) -> Iterable[Upstream]:
    """The context's calls."""
    for i, value in enumerate(record.get("context", list, [])):
        call = as_record(value, record.where(f"context.{i}"))
        yield Upstream(
            call.text("name", None), call.get("arguments", dict, {}), call.value.get("output"), call.text("label")
        )


def _one_of(record: Record, field: str, options: tuple[str, ...]) -> str:
    value = record.text(field)
    if value and value not in options:
        raise record.wrong(field, f"unknown {field} {shorten(value)}", " or ".join(options))
    return value


def _count(record: Record, field: str) -> int:
    value = record.get(field, int, 0)
    if value < 0:
        raise record.wrong(field, f"{value} is negative", "a whole number from 0")
    return value


def _texts(record: Record, field: str) -> list[str]:
    values = record.get(field, list, [])
    if odd := next((v for v in values if not isinstance(v, str)), None):
        raise record.wrong(field, f"{shorten(odd)} is no text", 'paths as "Rules.*.Ports"')
    return values


def _query(task: ParamTask) -> Query:
    return Query(task.id, task.instruction, {task.tool.id: 1}, subset=task.category, tier="")


def _counted(tasks: Iterable[ParamTask]) -> dict[str, Any]:
    """What a reader of a number should know."""
    kept = list(tasks)
    levels = Counter(t.level for t in kept)
    return {
        "tasks": len(kept),
        "tools asked for": len({t.reference.name for t in kept}),
        **{f"level {level}": levels[level] for level in LEVELS},
        **{f"split {split or 'test'}": n for split, n in Counter(t.split for t in kept).items()},
        "references that violate their schema": sum(VIOLATES in t.flags for t in kept),
    }
