"""From values that models write to calls: which tool, which arguments, or what is wrong with them."""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolsavvy.calls.schemas import function_of, parameters

LONGEST_CODE = 20_000
"""Characters of Python that are parsed."""
_ARGUMENTS = ("arguments", "parameters", "args")
_NAMES = ("name", "function", "tool", "tool_name")


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


@dataclass(frozen=True)
class Call:
    """A call that can be carried out.

    Args:
        name: of a tool that was offered.
        arguments: by name.
    """

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Flaw:
    """An attempt at a call that can't be carried out.

    Args:
        problem: broken | unclosed | unknown tool | arguments.
    """

    problem: str


Attempt = Call | Flaw


class Offered:
    """The tools of a prompt, against which attempts are held.

    Args:
        tools: function schemas, wrapped or bare.
    """

    def __init__(self, tools: Sequence[Mapping[str, Any]]) -> None:
        self.parameters = {str(function_of(tool).get("name", "")): parameters(tool) for tool in tools}

    def __contains__(self, name: object) -> bool:
        """Whether a tool of this name was offered."""
        return isinstance(name, str) and self.known(name) in self.parameters

    def known(self, name: str) -> str:
        """The name without the namespace that some templates show ("functions.calculator")."""
        name = name.strip()
        return name if name in self.parameters else name.removeprefix("functions.")

    def attempt(self, name: str, arguments: Any) -> Attempt:
        """A call of a tool that was offered, with an object of arguments; text that holds one is read."""
        if name not in self:
            return Flaw("unknown tool")
        name = self.known(name)
        if isinstance(arguments, str):
            value, end = json_at(arguments.strip(), 0)
            arguments = value if end == len(arguments.strip()) else arguments
        if arguments is None and not self.parameters[name]:
            arguments = {}
        is_schema = isinstance(arguments, dict) and isinstance(arguments.get("properties"), dict)
        if not isinstance(arguments, dict) or (is_schema and "properties" not in self.parameters[name]):
            return Flaw("arguments")  # a schema that is repeated is no call
        return Call(name, arguments)


def json_at(text: str, start: int) -> tuple[Any, int]:
    """The JSON value that begins at `start` and where it ends; -1 where there is none."""
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, -1


def from_value(value: Any, offered: Offered, *, marked: bool) -> list[Attempt]:
    """Attempts that a JSON value holds; [] for data that is no call.

    Args:
        value: an object, or a list of them.
        offered: the tools.
        marked: the model's own marks say that this is a call, whatever it looks like.
    """
    if isinstance(value, list):
        return [
            attempt for part in value if isinstance(part, dict) for attempt in from_value(part, offered, marked=marked)
        ]
    if not isinstance(value, dict):
        return [Flaw("broken")] if marked else []
    if isinstance(value.get("tool_calls"), list):
        return from_value(value["tool_calls"], offered, marked=True)
    inner = value.get("function")
    parts = (inner, value) if isinstance(inner, dict) else (value,)
    name = next((p[k] for p in parts for k in _NAMES if isinstance(p.get(k), str)), None)
    given = [p[k] for p in parts for k in _ARGUMENTS if k in p]
    if name is not None and (marked or given or name in offered):
        return [offered.attempt(name, given[0] if given else None)]
    only = next(iter(value)) if len(value) == 1 else None
    if not marked and not (only in offered and isinstance(value[only], dict)):
        return []
    return [Flaw("broken")]


def from_code(code: str, offered: Offered) -> list[Attempt] | None:
    """Attempts that Python code makes: `f(x="…")`, `[f(…), g(…)]`, `print(f(…))`, `y = f(…)`; None if it is no Python.

    The code is parsed, never run; arguments must be literals.
    """
    if len(code) > LONGEST_CODE:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd escapes in what a model wrote
            body = ast.parse(code.strip()).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    calls = [c for statement in body for c in _calls(getattr(statement, "value", None), offered)]
    return [_from_call(call, offered) for call in calls]


def _calls(node: Any, offered: Offered) -> list[ast.Call]:
    """The outermost calls of an expression, through lists and print()."""
    if isinstance(node, ast.List | ast.Tuple):
        return [call for part in node.elts for call in _calls(part, offered)]
    if not isinstance(node, ast.Call):
        return []
    if _name(node) == "print" and "print" not in offered:
        return [call for part in node.args for call in _calls(part, offered)]
    return [node]


def _name(call: ast.Call) -> str:
    """The called name: `f`, `functions.f`, `f.call`."""
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr in ("call", "run", "invoke"):
        func = func.value
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""


def _from_call(call: ast.Call, offered: Offered) -> Attempt:
    name = _name(call)
    if name not in offered:
        return Flaw("unknown tool")
    names = offered.parameters[offered.known(name)]
    if len(call.args) > len(names) or any(k.arg is None for k in call.keywords):
        return Flaw("arguments")
    given = [*zip(names, call.args, strict=False), *((str(k.arg), k.value) for k in call.keywords)]
    try:
        return offered.attempt(name, {key: ast.literal_eval(value) for key, value in given})
    except (ValueError, TypeError, MemoryError, RecursionError, SyntaxError):
        return Flaw("arguments")
