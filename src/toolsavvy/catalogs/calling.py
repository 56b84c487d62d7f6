"""From records of several calls to parameter tasks of one call each, with everything odd about them counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from toolsavvy.calls.schema_check import valid
from toolsavvy.calls.schema_types import json_type
from toolsavvy.catalog import Query, Tool
from toolsavvy.levels import levelled, symbolic
from toolsavvy.tasks import SYMBOLIC, ParamTask, Reference, Upstream

VIOLATES = "reference_violates_schema"
"""Flag: the right arguments break their own schema."""
_WORD = re.compile(r"\w+")
_SCALARS = {"string": str, "number": int | float, "integer": int, "boolean": bool}


@dataclass(frozen=True)
class Step:
    """A call of a record.

    Args:
        name: as the source has it.
        arguments: as the source has them.
        label: of its result, "" without.
        output: its result, None where none is released.
        labels: of its result's fields, where each has one of its own; `output` shows which is which.
        instruction: what was said until then, "" for the story's.
        flags: of its task.
        blanks: arguments whose values the source leaves open; no schema is held against them.
        is_asked: whether a task is made of it; else it is context alone.
    """

    name: str
    arguments: Mapping[str, Any]
    label: str = ""
    output: Any = None
    labels: tuple[str, ...] = ()
    instruction: str = ""
    flags: tuple[str, ...] = ()
    blanks: tuple[str, ...] = ()
    is_asked: bool = True


def labelled_fields(tool: Tool | None, labels: Sequence[str]) -> dict[str, str] | None:
    """What stands for a result that is not released: the tool's result fields with the labels that later calls use."""
    fields = list(tool.returns.get("properties", {})) if tool is not None else []
    fields += [f"result_{i}" for i in range(len(fields), len(labels))]
    return dict(zip(fields, labels, strict=False)) or None


@dataclass(frozen=True)
class Story:
    """A record: an instruction and the calls that carry it out.

    Args:
        id: unique within the source; the cluster of its tasks.
        instruction: what a person asks for.
        steps: calls, in order.
        category: the source's own kind.
        split: train | validation | test | "".
        facts: anything else, of every task.
    """

    id: str
    instruction: str
    steps: Sequence[Step]
    category: str = ""
    split: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


def tasks_of(story: Story, tools: Mapping[str, Tool], source: str, counts: Counter[str]) -> Iterator[ParamTask]:
    """One task for every call of a known tool; the calls before it are its context, unknown tools' among them.

    Args:
        story: the record.
        tools: name -> tool.
        source: name of the benchmark.
        counts: what is odd, added to.
    """
    _count_labels(story.steps, counts)
    for i, step in enumerate(story.steps):
        tool = tools.get(step.name)
        counts["calls_of_unknown_tools"] += tool is None
        if tool is None or not step.is_asked:
            continue
        earlier = story.steps[:i]
        upstream = tuple(Upstream(s.name, s.arguments, s.output, s.label) for s in earlier)
        labels = {label for s in earlier for label in s.labels}
        flags = (*_flags(step, tool, upstream, labels, counts), *step.flags)
        reference, asked = Reference(tool.name, step.arguments), step.instruction or story.instruction
        task = ParamTask(f"{story.id}/{i}", asked, (tool,), (reference,), upstream, source)
        place = {"category": story.category, "cluster": story.id, "split": story.split}
        yield levelled(replace(task, **place, flags=flags, facts=story.facts))


def query_of(story: Story, tools: Mapping[str, Tool], text: str = "") -> Query | None:
    """A record as a retrieval query: its golds are the tools that it calls, known or not; None without a known one.

    Args:
        story: the record.
        tools: name -> tool.
        text: of the query, "" for the story's instruction.
    """
    names = dict.fromkeys(step.name for step in story.steps)
    known = {tools[name].id: 1 for name in names if name in tools}
    absent = {name: 1 for name in names if name not in tools}
    return Query(story.id, text or story.instruction, known, subset=story.category, absent=absent) if known else None


def _count_labels(steps: Sequence[Step], counts: Counter[str]) -> None:
    """Labels that are no keys; sources without any are not odd."""
    labels = [step.label for step in steps if step.label]
    counts["records_that_repeat_a_label"] += len(set(labels)) < len(labels)
    counts["calls_without_a_label"] += (len(steps) - len(labels)) * bool(labels)


def _flags(
    step: Step, tool: Tool, upstream: Sequence[Upstream], labels: Set[str], counts: Counter[str]
) -> tuple[str, ...]:
    """Flags of a reference; what is odd about its arguments is counted."""
    arguments = step.arguments
    named = {name for name, value in arguments.items() if _is_symbolic(value, upstream) or _has_label(value, labels)}
    counts["arguments_that_name_a_result"] += len(named)
    counts["arguments_that_name_no_earlier_result"] += sum(
        _looks_symbolic(value) for name, value in arguments.items() if name not in named
    )
    is_open = {*named, *step.blanks}
    properties = tool.parameters.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    required = tool.parameters.get("required")
    for name, value in arguments.items():
        if name not in properties:
            counts["arguments_outside_the_schema"] += 1
        elif name not in is_open:
            _count_type(value, properties[name], counts)
    missing = [name for name in required or () if name not in arguments]
    counts["required_arguments_missing"] += len(missing)
    open_schema = {**tool.parameters, "properties": {**properties, **{name: {} for name in is_open}}}
    violates = not valid(arguments, open_schema if is_open else tool.parameters)
    counts["references_that_violate_their_schema"] += violates
    return (*((VIOLATES,) if violates else ()), *((SYMBOLIC,) if named else ()))


def _is_symbolic(value: Any, upstream: Sequence[Upstream]) -> bool:
    """Does a value, or something in it, name an earlier result?"""
    return any(symbolic(text, upstream) is not None for text in _texts(value))


def _has_label(value: Any, labels: Set[str]) -> bool:
    """Does a value, or something in it, name a field of an earlier result?"""
    return bool(labels) and any(not labels.isdisjoint(_WORD.findall(text)) for text in _texts(value))


def _looks_symbolic(value: Any) -> bool:
    """Does a value look as if it named a result, though there is none of that label before it?"""
    return any(t.startswith(("$var", "API_call_")) for t in _texts(value))


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value."""
    stack = [value]
    while stack:
        inner = stack.pop()
        if isinstance(inner, str):
            yield inner
        elif isinstance(inner, Mapping):
            stack += inner.values()
        elif isinstance(inner, list | tuple):
            stack += inner


def _count_type(value: Any, schema: Any, counts: Counter[str]) -> None:
    """Count a value whose type is not the schema's."""
    kind = json_type(schema.get("type")) if isinstance(schema, Mapping) else None
    wanted = _SCALARS.get(kind or "")
    if wanted is None or (isinstance(value, wanted) and isinstance(value, bool) == (kind == "boolean")):
        return
    if isinstance(value, str):
        counts["numbers_and_truth_values_as_text"] += 1
    elif isinstance(value, list | tuple | Mapping):
        counts["lists_and_objects_for_scalars"] += 1
    else:
        counts["other_values_of_another_type"] += 1
