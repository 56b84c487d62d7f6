"""Function schemas as they are offered to models: OpenAI's wrapped form, and what calls are checked against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def function_of(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """The function of a schema, wrapped (`{"type": "function", "function": …}`) or bare."""
    inner = tool.get("function")
    return inner if isinstance(inner, Mapping) else tool


def wrapped(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A schema in OpenAI's wrapped form, which chat templates and servers expect."""
    return {"type": "function", "function": dict(function_of(tool))}


def names(tools: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Names of the tools, in order."""
    return tuple(str(function_of(tool).get("name", "")) for tool in tools)


def parameters(tool: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of a tool's parameters, in the schema's order."""
    schema = function_of(tool).get("parameters")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return tuple(properties) if isinstance(properties, Mapping) else ()
