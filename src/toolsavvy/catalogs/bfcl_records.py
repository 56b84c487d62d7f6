"""Functions, questions and answers as BFCL writes them, as tools, instructions and references."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolsavvy.calls import bfcl
from toolsavvy.calls.attempts import Call
from toolsavvy.calls.bfcl_values import from_source, to_source
from toolsavvy.calls.schema_check import valid
from toolsavvy.calls.schema_types import normalised
from toolsavvy.catalog import Tool
from toolsavvy.catalogs.reading import Record, as_record, shorten
from toolsavvy.tasks import OMITTED, ParamTask, Reference

LANGUAGES = {"simple_java": "java", "simple_javascript": "javascript"}
"""Category -> the language of its values; Python's elsewhere."""
_WRITTEN = {"java": "Java", "javascript": "JavaScript"}


class Functions:
    """Functions of all records, each different one a tool; several may share a name, none an id.

    Args:
        counts: oddities are counted there.
    """

    def __init__(self, counts: Counter[str]) -> None:
        self.counts = counts
        self.tools: dict[str, Tool] = {}
        self._by_content: dict[str, Tool] = {}

    def read(self, record: Record, language: str) -> tuple[Tool, ...]:
        """The tools of a record; "" and a missing field are none, an object is one.

        Raises:
            UserError: what should be a function is none.
        """
        given = record.value.get("function")
        if given is None or given == "":
            self.counts["records_without_functions"] += 1
            return ()
        given = [given] if isinstance(given, Mapping) else record.get("function", list)
        found: dict[str, Tool] = {}
        for one in given:
            tool = self.one(as_record(one, record.where("function")), language)
            found.setdefault(tool.name, tool)
        return tuple(found.values())

    def one(self, function: Record, language: str) -> Tool:
        """A function as a tool; the same one twice is the same tool."""
        content = json.dumps([language, function.value], sort_keys=True)
        if content not in self._by_content:
            name = function.text("name", None)
            tool = Tool(
                id=self._free(name),
                name=name,
                description=function.text("description"),
                group=name.rpartition(".")[0],
                parameters=self.schema(function.get("parameters", dict, {}), language),
                returns=normalised(function.get("response", dict, {})).schema,
            )
            self.counts["dotted_names"] += "." in name
            self.counts["functions_that_share_a_name"] += tool.id != name
            self._by_content[content] = self.tools[tool.id] = tool
        return self._by_content[content]

    def _free(self, name: str) -> str:
        """The name, or with a number where another function has it."""
        number, key = 2, name
        while key in self.tools:
            key, number = f"{name} ({number})", number + 1
        return key

    def schema(self, schema: Mapping[str, Any], language: str) -> Mapping[str, Any]:
        """JSON Schema of a function's parameters; Java's and JavaScript's are texts that say their type beside."""
        if language == "python":
            normal = normalised(schema)
        else:
            properties = schema.get("properties")
            inner = properties if isinstance(properties, Mapping) else {}
            normal = normalised({**schema, "properties": {k: _as_text(v, language) for k, v in inner.items()}})
        self.counts.update({f"schema: {what}": n for what, n in normal.oddities.items()})
        return normal.schema


def _as_text(given: Any, language: str) -> dict[str, Any]:
    """A property whose value is written as source text, as BFCL has it."""
    given = given if isinstance(given, Mapping) else {}
    kind = str(given.get("type") or "any")
    items = given.get("items")
    inner = str(items.get("type", "")) if isinstance(items, Mapping) else ""
    of = f" of {inner}" if inner and inner != "any" else ""
    what = "value" if kind == "any" else f"{kind}{of}"
    note = f"Text: a {_WRITTEN[language]} {what}, as it is written in source code."
    told = f"{given.get('description', '')} {note}".strip()
    made: dict[str, Any] = {"type": "string", "description": told, bfcl.KIND: kind}
    return {**made, bfcl.ITEMS: inner} if inner else made


def instruction_of(record: Record, counts: Counter[str]) -> str:
    """What is asked: the text itself, or one turn's messages; a system message and earlier turns stand before it.

    Raises:
        UserError: there is no message.
    """
    question = record.value.get("question")
    if isinstance(question, str) and question.strip():
        return question
    turns = record.get("question", list)
    messages = [m for turn in turns for m in turn_messages(turn, record)]
    if not messages:
        raise record.wrong("question", "there is no message", "text, or [[{role, content}]]")
    roles = [message["role"] for message in messages]
    counts["records_with_a_system_message"] += "system" in roles
    counts["records_with_several_messages"] += len(roles) - roles.count("system") > 1
    if roles.count("user") == len([role for role in roles if role != "system"]) == 1:
        return "\n\n".join(message["content"] for message in messages)
    return "\n".join(f"{message['role']}: {message['content']}" for message in messages)


def turn_messages(turn: Any, record: Record) -> list[dict[str, str]]:
    """The messages of a turn; an empty turn has none.

    Raises:
        UserError: a message has no role or no text.
    """
    if not isinstance(turn, list | Mapping):
        raise record.wrong("question", f"a turn is no list of messages ({shorten(turn)})", "[[{role, content}]]")
    found = []
    for message in turn if isinstance(turn, list) else [turn]:
        one = as_record(message, record.where("question"))
        found.append({"role": one.text("role", None), "content": one.text("content")})
    return found


def references_of(record: Record, answer: Record, tools: Sequence[Tool], language: str) -> Iterator[Reference]:
    """The references that an answer's accepted values make.

    Raises:
        UserError: the answer is malformed, or calls what was not offered.
    """
    for part in answer.get("ground_truth", list):
        for name, accepted in as_record(part, answer.where("ground_truth")).value.items():
            tool = next((tool for tool in tools if tool.name == name), None)
            if tool is None:
                names = ", ".join(tool.name for tool in tools)
                raise answer.wrong("ground_truth", f"function {shorten(name)} was not offered", f"one of: {names}")
            yield reference_of(tool, _accepted(accepted, answer, name), language)


def _accepted(given: Any, answer: Record, name: str) -> dict[str, tuple[Any, ...]]:
    """Argument -> accepted values."""
    values = as_record(given, answer.where(f"ground_truth.{name}")).value
    wrong = next((key for key, value in values.items() if not isinstance(value, list)), None)
    if wrong is not None:
        what = f"no list of accepted values ({shorten(values[wrong])})"
        raise answer.wrong(f"ground_truth.{name}.{wrong}", what, "a list")
    return {key: tuple(value) for key, value in values.items()}


def reference_of(tool: Tool, accepted: Mapping[str, tuple[Any, ...]], language: str) -> Reference:
    """A reference of the first accepted values; what may be left out is, unless the schema requires it."""
    properties = tool.parameters.get("properties", {})
    arguments: dict[str, Any] = {}
    for name, values in accepted.items():
        if not values or (OMITTED in values and name not in bfcl.required(tool)):
            continue
        chosen = next((value for value in values if value != OMITTED), OMITTED)
        arguments[name] = written(chosen, properties.get(name, {}), language)
    return Reference(tool.name, arguments, accepted)


def written(choice: Any, schema: Mapping[str, Any], language: str) -> Any:
    """An accepted value as a call has it: lists of choices resolved, in Java and JavaScript as source text."""
    slot = bfcl.slot_of(schema)
    value = bfcl.concrete(choice, slot, language)
    if language == "python":
        return value
    if isinstance(value, str) and from_source(value, slot.kind, language, slot.items) == value:
        return value
    return to_source(value, slot.kind, language, slot.items)


def flagged(task: ParamTask, counts: Counter[str]) -> ParamTask:
    """A task with what is odd about its references: they break the schema, or BFCL's own rule."""
    by_name = {tool.name: tool for tool in task.tools}
    flags = []
    if not all(valid(r.arguments, by_name[r.name].parameters) for r in task.references):
        flags.append("reference_violates_schema")
    if task.rule == "bfcl" and task.references:
        calls = [Call(reference.name, reference.arguments) for reference in task.references]
        flags += [] if bfcl.is_right(task, calls) else ["reference_fails_rule"]
    counts.update(flags)
    return replace(task, flags=(*task.flags, *flags)) if flags else task


@dataclass(frozen=True)
class Written:
    """A call that an answer writes as Python.

    Args:
        name: of the function, dotted names whole.
        arguments: literals, positional ones named by the schema; None where they are no literals.
    """

    name: str
    arguments: Mapping[str, Any] | None


def written_call(code: str, tools: Mapping[str, Tool]) -> Written | None:
    """Read `f(x=1)`; parsed, never run. None for what is no call of one of the tools."""
    try:
        node = ast.parse(code.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    if not isinstance(node, ast.Call):
        return None
    name = ast.unparse(node.func)
    tool = tools.get(name)
    if tool is None:
        return None
    names = list(tool.parameters.get("properties", {}))
    if len(node.args) > len(names) or any(keyword.arg is None for keyword in node.keywords):
        return Written(name, None)
    given = [*zip(names, node.args, strict=False), *((str(k.arg), k.value) for k in node.keywords)]
    try:
        return Written(name, {key: _json(ast.literal_eval(value)) for key, value in given})
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return Written(name, None)


def _json(value: Any) -> Any:
    """A Python literal as JSON has it: tuples are arrays."""
    if isinstance(value, Mapping):
        return {str(key): _json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_json(inner) for inner in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"no JSON: {value!r}")
