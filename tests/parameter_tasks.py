"""Made-up parameter tasks for tests of scoring: flat and nested, parallel, without a call, all five levels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolsavvy.calls.attempts import Call
from toolsavvy.catalog import Tool
from toolsavvy.suites.parameters import Answer
from toolsavvy.tasks import ParamTask, Reference, TaskSet

BOOK = Tool(
    id="book", name="book", description="Book a table.",
    parameters={
        "type": "object",
        "properties": {
            "place": {"type": "string"}, "people": {"type": "integer"},
            "extras": {"type": "object", "properties": {"menu": {"type": "string"}}},
        },
        "required": ["place", "people"],
    },
)  # fmt: skip
CANCEL = Tool(id="cancel", name="cancel", description="Cancel it.", parameters={"type": "object", "properties": {}})


def made(n: int = 60, split: str = "") -> TaskSet:
    """Tasks of one call each, and records: every fifth wants two calls, every seventh none."""
    calls, records = [], []
    for i in range(n):
        arguments: dict[str, Any] = {"place": f"place {i}", "people": i}
        if i % 3 == 0:
            arguments["extras"] = {"menu": f"menu {i}"}
        task = ParamTask(
            f"t{i}", f"A table at place {i} for {i}", (BOOK, CANCEL), (Reference("book", arguments),),
            source="toy", category="nested" if i % 3 == 0 else "flat", cluster=f"c{i // 2}", split=split,
        )  # fmt: skip
        calls.append(task)
        references = () if i % 7 == 6 else task.references * (2 if i % 5 == 4 else 1)
        records.append(
            ParamTask(f"r{i}", task.instruction, task.tools, references, source="toy", category=task.category)
        )
    return TaskSet("toy", tuple(calls), tuple(records))


def right(tasks: tuple[ParamTask, ...]) -> dict[str, Answer]:
    """What a perfect system says."""
    return {t.id: Answer(tuple(Call(r.name, r.arguments) for r in t.references)) for t in tasks}


def line(task: ParamTask, **change: Any) -> dict[str, Any]:
    """A right line of a prediction file."""
    calls: list[Mapping[str, Any]] = [{"name": r.name, "arguments": dict(r.arguments)} for r in task.references]
    return {"id": task.id, "calls": calls, **change}
