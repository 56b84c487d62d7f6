"""BFCL's own rules: which calls the Berkeley Function Calling Leaderboard takes as right.

They follow from its answers' form: a list of accepted values for every argument, "" among them where it may be left
out, and lists of accepted values again inside an object. Written anew; agreement with bfcl-eval 2026.3.23 is tested.
Peculiar to these rules: text is compared without case, spaces and the signs `,./-_*^`; a whole number will do for a
float and none other for an integer; a value of the accepted values' own type counts whatever the schema says (there it
is a variable's name); an empty array counts as left out; the order of parallel calls is free, each answer taking the
first call that fits it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolsavvy.calls.attempts import Call
from toolsavvy.calls.bfcl_values import ARRAYS, TYPES, from_source
from toolsavvy.catalog import Tool
from toolsavvy.tasks import OMITTED, ParamTask, Reference

KIND, ITEMS = "x-type", "x-items"
"""Annotations of a property: BFCL's name of its type, and of its elements' type, where JSON Schema's says less."""
_IGNORED = re.compile(r"[ ,./\-_*^]")
_PYTHON = {"number": "float", "object": "dict", "array": "array", None: "any"}


@dataclass(frozen=True)
class Slot:
    """What BFCL knows of an argument.

    Args:
        kind: its type, as BFCL names it.
        items: its elements' type, "" without.
    """

    kind: str
    items: str = ""


def slot_of(schema: Mapping[str, Any]) -> Slot:
    """BFCL's types of a property of a normalised schema."""
    kind = _kind(schema)
    if kind not in ARRAYS:
        return Slot(kind)
    items = schema.get(ITEMS)
    if items is None:
        items = _kind(schema["items"]) if isinstance(schema.get("items"), Mapping) else ""
    return Slot(kind, str(items or ""))


def _kind(schema: Mapping[str, Any]) -> str:
    if KIND in schema:
        return str(schema[KIND])
    kind = schema.get("type")
    kind = kind if isinstance(kind, str) or kind is None else kind[0]
    return str(_PYTHON.get(kind, kind))


def is_right(task: ParamTask, calls: Sequence[Call]) -> bool:
    """Whether the calls of a record are right: as many as answers, each answer met by a call of its own, in any order.

    Args:
        task: a whole record, or in per-call form.
        calls: as predicted.
    """
    if len(calls) != len(task.references):
        return False
    left = dict(enumerate(calls))
    for reference in task.references:
        met = next((i for i, call in left.items() if call_is_right(task, reference, call)), None)
        if met is None:
            return False
        del left[met]
    return True


def call_is_right(task: ParamTask, reference: Reference, call: Call) -> bool:
    """Whether one call meets one answer."""
    tool = next((tool for tool in task.tools if tool.name == reference.name), None)
    if tool is None or call.name != reference.name:
        return False
    accepted = reference.accepted or {name: (value,) for name, value in reference.arguments.items()}
    if not set(required(tool)) <= set(call.arguments):
        return False
    if any(name not in call.arguments and OMITTED not in values for name, values in accepted.items()):
        return False
    return all(argument_is_right(tool, name, value, accepted, task.language) for name, value in call.arguments.items())


def required(tool: Tool) -> Sequence[str]:
    """Arguments that must be there, whatever the answer says."""
    names = tool.parameters.get("required", ())
    return names if isinstance(names, list | tuple) else ()


def argument_is_right(tool: Tool, name: str, value: Any, accepted: Mapping[str, Sequence[Any]], language: str) -> bool:
    """Whether a value of one argument is among those accepted."""
    properties = tool.parameters.get("properties")
    if name not in accepted or not isinstance(properties, Mapping) or name not in properties:
        return False
    slot, choices = slot_of(properties[name]), accepted[name]
    kind = TYPES[language].get(slot.kind, str)
    items = TYPES[language].get(slot.items) if slot.items else None
    if language != "python":
        if not isinstance(value, str):
            return False
        value = from_source(value, slot.kind, language, slot.items)
    elif slot.kind == "float" and type(value) is int:
        value = _as_float(value)
    elif isinstance(value, tuple) and slot.kind == "tuple":
        value = list(value)
    fits, is_variable = _fits(value, choices, kind, items)
    return fits and _among(value, choices, kind if not is_variable else None, items)


def _as_float(value: int) -> Any:
    """A whole number as a float; one too large for it stays what it is."""
    try:
        return float(value)
    except OverflowError:
        return value


def _fits(value: Any, choices: Sequence[Any], kind: type, items: type | None) -> tuple[bool, bool]:
    """Whether a value has the right type, and whether it stands for a variable: it has the answers' own type."""
    own = next((type(choice) for choice in choices if choice != OMITTED), None)
    if type(value) is not kind:
        return own is type(value), True
    is_variable = own is not None and own is not kind
    if items is None:
        return True, is_variable
    fits = any(
        not isinstance(choice, list) or all(_fits(part, choice, items, None)[0] for part in value) for choice in choices
    )
    return fits, is_variable


def _among(value: Any, choices: Sequence[Any], kind: type | None, items: type | None) -> bool:
    """Whether a value is one of those accepted, as its type is compared."""
    if kind is dict:
        return any(_same_object(value, choice) for choice in choices if choice != OMITTED)
    if kind is list and items is dict:
        return any(_same_objects(value, choice) for choice in choices)
    if kind is str:
        return plain(value) in [plain(choice) for choice in choices if isinstance(choice, str)]
    if kind is list:
        return _plain_parts(value) in [_plain_parts(choice) for choice in choices]
    return value in choices


def plain(text: str) -> str:
    """Text as BFCL compares it."""
    return _IGNORED.sub("", text).lower().replace("'", '"')


def _plain_parts(parts: Any) -> Any:
    """Elements as BFCL compares them; an empty text is an array without any."""
    if not isinstance(parts, list | tuple | str):
        return parts
    return [plain(part) if isinstance(part, str) else part for part in parts]


def _same_object(value: Any, choice: Any) -> bool:
    """Whether an object meets one whose values are lists of what is accepted."""
    if not isinstance(value, Mapping) or not isinstance(choice, Mapping):
        return False
    for name, part in value.items():
        if name not in choice:
            return False
        part = plain(part) if isinstance(part, str) else part
        if part not in _plain_parts(choice[name]):
            return False
    return all(name in value or _may_lack(parts) for name, parts in choice.items())


def _may_lack(parts: Any) -> bool:
    """Whether a name inside an object may be left out; the empty text is part of every text."""
    return isinstance(parts, list | tuple | str | Mapping) and OMITTED in parts


def _same_objects(value: Sequence[Any], choice: Any) -> bool:
    """Whether objects meet others in order; "" has none."""
    if not isinstance(choice, list | tuple | str) or len(value) != len(choice):
        return False
    return all(part != OMITTED and _same_object(own, part) for own, part in zip(value, choice, strict=True))


def concrete(choice: Any, slot: Slot, language: str) -> Any:
    """An accepted value as one value: of the lists inside an object the first, of what may be left out nothing."""
    kinds = TYPES[language]
    if kinds.get(slot.kind) is dict and isinstance(choice, Mapping):
        return _concrete_object(choice)
    if kinds.get(slot.kind) is list and kinds.get(slot.items) is dict and isinstance(choice, list | tuple):
        return [_concrete_object(part) if isinstance(part, Mapping) else part for part in choice]
    return choice


def _concrete_object(choice: Mapping[str, Any]) -> dict[str, Any]:
    made = {}
    for name, parts in choice.items():
        if not isinstance(parts, list | tuple):
            made[name] = parts
        elif OMITTED not in parts and parts:
            made[name] = parts[0]
    return made
