"""AWS operations as tools, read from the service models that botocore ships."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from toolsavvy.catalog import Tool

MAX_DEPTH = 8
"""Objects nested deeper are left open; the deepest shapes of interest (EC2 fleets) need six levels."""
MAX_PROPERTIES = 600
"""Properties spelt out per operation: a few media and dashboard services would otherwise unroll to megabytes."""
_SHORT = 160

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_BREAK = re.compile(r"</(?:p|li|div|h\d|dt|dd|pre|tr|note|important|caution)>|<br\s*/?>|<li>|<p>", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_TYPES = {
    "string": "string",
    "character": "string",
    "boolean": "boolean",
    "integer": "integer",
    "long": "integer",
    "biginteger": "integer",
    "float": "number",
    "double": "number",
    "bigdecimal": "number",
}


@lru_cache(maxsize=200_000)
def plain_text(markup: str) -> str:
    """HTML documentation as plain text, one paragraph or list item a line."""
    text = _TAG.sub("", _BREAK.sub("\n", _COMMENT.sub("", markup).replace("\n", " ")))
    lines = (" ".join(line.split()) for line in html.unescape(text).splitlines())
    return "\n".join(line for line in lines if line)


@lru_cache(maxsize=200_000)
def first_sentence(markup: str) -> str:
    """First sentence of HTML documentation, at most 160 characters (cut at a word)."""
    text = _SENTENCE.split(plain_text(markup).split("\n", 1)[0], maxsplit=1)[0]
    if len(text) <= _SHORT:
        return text
    return text[: _SHORT - 1].rsplit(" ", 1)[0] + "…"


class _Schemas:
    """JSON Schemas of one service's shapes."""

    def __init__(self, shapes: Mapping[str, Any]) -> None:
        self.shapes = shapes
        self.left = 0

    def schema(self, shape: str | None, depth: int = MAX_DEPTH) -> dict[str, Any]:
        """Schema of a top-level shape; nested objects below `depth` levels are left open."""
        self.left = MAX_PROPERTIES
        if shape is None:
            return {"type": "object", "properties": {}}
        return self._convert(shape, depth, ())

    def _convert(self, name: str, depth: int, above: tuple[str, ...]) -> dict[str, Any]:
        shape = self.shapes[name]
        kind = shape["type"]
        if kind in ("structure", "list", "map"):
            if name in above or depth <= 0:  # recursive shapes are cut where they meet themselves
                return {"type": "array" if kind == "list" else "object"}
            inside = (*above, name)
            if kind == "structure":
                return self._structure(shape, depth - 1, inside)
            if kind == "list":
                return {"type": "array", "items": self._convert(shape["member"]["shape"], depth, inside)}
            return {"type": "object", "additionalProperties": self._convert(shape["value"]["shape"], depth, inside)}
        return _scalar(shape)

    def _structure(self, shape: Mapping[str, Any], depth: int, above: tuple[str, ...]) -> dict[str, Any]:
        if shape.get("document"):  # any JSON value
            return {}
        properties: dict[str, Any] = {}
        for name, member in shape.get("members", {}).items():
            self.left -= 1
            open_depth = depth if self.left > 0 else 0
            properties[name] = self._convert(member["shape"], open_depth, above)
            markup = member.get("documentation") or self.shapes[member["shape"]].get("documentation", "")
            if text := first_sentence(markup):
                properties[name]["description"] = text
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required := [name for name in shape.get("required", ()) if name in properties]:
            schema["required"] = required
        if shape.get("union"):  # exactly one member may be set
            schema |= {"minProperties": 1, "maxProperties": 1}
        return schema


def _scalar(shape: Mapping[str, Any]) -> dict[str, Any]:
    """Schema of a shape that holds no other."""
    kind = shape["type"]
    if kind == "timestamp":
        return {"type": "string", "format": "date-time"}
    if kind == "blob":
        return {"type": "string", "contentEncoding": "base64"}
    schema: dict[str, Any] = {"type": _TYPES.get(kind, "string")}
    if "enum" in shape:
        schema["enum"] = list(shape["enum"])
    return schema


def tools(service: str, model: Mapping[str, Any]) -> list[Tool]:
    """Every operation of a service model, in alphabetical order.

    Args:
        service: folder name of the model, which becomes group and the front of the id.
        model: parsed `service-2.json`.

    Returns:
        Tools whose results are described one level deep only.
    """
    schemas = _Schemas(model["shapes"])
    category = model["metadata"].get("serviceFullName", service)
    return [
        Tool(
            id=f"{service}:{name}",
            name=name,
            description=plain_text(operation.get("documentation", "")),
            group=service,
            category=category,
            parameters=schemas.schema(operation.get("input", {}).get("shape")),
            returns=schemas.schema(operation.get("output", {}).get("shape"), depth=1),
        )
        for name, operation in sorted(model["operations"].items())
    ]


def latest(members: Sequence[str]) -> dict[str, str]:
    """Service -> archive member of its newest model (API versions are dates, so they sort as text)."""
    pattern = re.compile(r"(?:^|/)botocore/data/([^/]+)/([^/]+)/service-2\.json$")
    newest: dict[str, tuple[str, str]] = {}
    for member in members:
        if match := pattern.search(member):
            newest[match[1]] = max(newest.get(match[1], ("", "")), (match[2], member))
    return {service: newest[service][1] for service in sorted(newest)}
