"""Scoring 10,000 predictions: read leniently, held against schemas, compared exactly and field by field."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

from record import Record, Row, timed

from toolsavvy.calls.attempts import Call
from toolsavvy.calls.lenient import read_arguments
from toolsavvy.calls.schema_check import check, forget
from toolsavvy.calls.scoring import Score, score
from toolsavvy.catalog import Tool
from toolsavvy.catalogs.bfcl import load
from toolsavvy.tasks import ParamTask, Reference

PREDICTIONS, LIMIT = 10_000, 10.0
Answer = list[tuple[str, str]]
"""Calls as they are written: name and text of the arguments."""


def run() -> Record:
    rng = random.Random(0)
    rows, sound = [], True
    for name, tasks in (("BFCL's records", bfcl_records()), ("nested calls, arrays in any order", nested(rng))):
        asked = [tasks[i % len(tasks)] for i in range(PREDICTIONS)]
        answers = [answer(task, rng) for task in asked]
        forget()
        seconds, scores = timed(lambda a=asked, b=answers: [one(*pair) for pair in zip(a, b, strict=True)])
        right = sum(s.exact for s in scores) / PREDICTIONS
        rows.append(Row(f"10,000 predictions: {name}", seconds, None, LIMIT, {"exact": right}))
        sound &= 0.2 < right < 0.8 and all(agrees(s) for s in scores)
    fresh, compiled = validation(rng)
    rows.append(Row("one schema check, validator kept or made", compiled, fresh, None))
    return Record(
        "10_scoring", "10,000 predictions are scored within 10 s", "exact means F1 = 1 and no mistake, and only that",
        sound, rows, "Every second prediction is damaged; some are fenced, or have a trailing comma.",
    )  # fmt: skip


def one(task: ParamTask, written: Answer) -> Score:
    read = [(name, read_arguments(text).arguments) for name, text in written]
    return score(task, None if any(a is None for _, a in read) else [Call(n, a or {}) for n, a in read])


def agrees(found: Score) -> bool:
    return found.exact == (found.f1 == 1.0 and not found.faults)


def bfcl_records() -> list[ParamTask]:
    return [task for task in load(categories=["non_live", "live"]).tasks.records if not task.flags]


def nested(rng: random.Random) -> list[ParamTask]:
    """Calls like those of a cloud's network: permissions with ranges, two arrays deep, over 81 schemas."""
    ranges = {"type": "array", "items": {"type": "object", "properties": {"CidrIp": {"type": "string"}}}}
    item = {"IpProtocol": {"type": "string"}, "FromPort": {"type": "integer"}, "ToPort": {"type": "integer"}}
    permission = {"type": "object", "properties": {**item, "IpRanges": ranges}, "required": ["IpProtocol"]}
    properties = {"GroupId": {"type": "string"}, "IpPermissions": {"type": "array", "items": permission}}
    schema = {"type": "object", "properties": properties, "required": ["GroupId"]}
    tools = [Tool(f"Op{i}", f"Op{i}", parameters=json.loads(json.dumps(schema))) for i in range(81)]
    unordered = ("IpPermissions", "IpPermissions.*.IpRanges")
    tasks = []
    for i in range(1_022):
        tool = tools[i % len(tools)]
        arguments = {"GroupId": f"sg-{rng.getrandbits(32):08x}", "IpPermissions": [rule(rng) for _ in range(4)]}
        tasks.append(ParamTask(str(i), "open ports", (tool,), (Reference(tool.name, arguments),), unordered=unordered))
    return tasks


def rule(rng: random.Random) -> dict[str, Any]:
    port = rng.randrange(1, 9_000)
    ranges = [{"CidrIp": f"10.{rng.randrange(256)}.{rng.randrange(256)}.0/24"} for _ in range(rng.randint(1, 4))]
    return {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, "IpRanges": ranges}


def answer(task: ParamTask, rng: random.Random) -> Answer:
    """The reference as a model may write it, every second time with a fault."""
    calls = [(r.name, json.loads(json.dumps(r.arguments))) for r in task.references]
    if rng.random() < 0.5:
        damage(rng.choice(calls)[1], rng)
    for _, arguments in calls:
        for name in task.unordered[:1]:
            if isinstance(arguments.get(name), list):
                rng.shuffle(arguments[name])
    return [(name, spelled(arguments, rng)) for name, arguments in calls]


def damage(arguments: dict[str, Any], rng: random.Random) -> None:
    if not arguments or rng.random() < 0.2:
        arguments["unheard_of"] = 1
        return
    name = rng.choice(list(arguments))
    if rng.random() < 0.3:
        del arguments[name]
    elif isinstance(arguments[name], list) and arguments[name] and isinstance(arguments[name][0], dict):
        damage(rng.choice(arguments[name]), rng)
    else:
        arguments[name] = "something else"


def spelled(arguments: dict[str, Any], rng: random.Random) -> str:
    text = json.dumps(arguments)
    how = rng.random()
    if how < 0.1:
        return f"```json\n{text}\n```"
    return text[:-1].rstrip() + ",}" if how < 0.2 and arguments else text


def validation(rng: random.Random) -> tuple[float, float]:
    """Seconds of a check with its validator compiled, and kept."""
    task = nested(rng)[0]
    tool, arguments = task.tool, task.reference.arguments
    check(arguments, tool.parameters)
    kept, _ = timed(lambda: [check(arguments, tool.parameters) for _ in range(200)])
    copies = [replace(tool, parameters=json.loads(json.dumps(tool.parameters))) for _ in range(200)]
    fresh, _ = timed(lambda: [check(arguments, copy.parameters) for copy in copies])
    return fresh / 200, kept / 200
