"""Decoding constrained to a JSON schema: only tokens are left that lead to an object which the schema allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

DEPTH = 8
"""Levels of objects and arrays that are spelt out; what lies deeper is left open. It bounds recursive schemas."""
_TYPES = {
    "dict": "object", "map": "object", "mapping": "object", "hashmap": "object", "struct": "object",
    "tuple": "array", "list": "array", "arraylist": "array", "set": "array", "sequence": "array",
    "float": "number", "double": "number", "decimal": "number",
    "int": "integer", "long": "integer", "short": "integer", "byte": "integer", "bigint": "integer",
    "str": "string", "char": "string", "text": "string", "date": "string", "datetime": "string", "file": "string",
    "bool": "boolean", "none": "null", "nonetype": "null",
}  # fmt: skip
"""What sources write (Python's, Java's and JavaScript's words) -> JSON Schema's; words in neither mean any type."""
_STANDARD = ("object", "array", "string", "integer", "number", "boolean", "null")


def normalised(schema: Any, depth: int = DEPTH) -> dict[str, Any]:
    """A schema in plain terms: type, properties, required, items, additionalProperties, enum, anyOf, description.

    References inside the schema are put in place, other kinds of limits (patterns, formats, ranges, lengths) are left
    out, types that JSON Schema does not know are translated or mean any type.

    Args:
        schema: as a source has it; anything that is no schema means any value.
        depth: levels that are spelt out.
    """
    return _Normaliser(schema).plain(schema, depth)


class _Normaliser:
    def __init__(self, root: Any) -> None:
        self.root = root

    def plain(self, schema: Any, depth: int) -> dict[str, Any]:
        schema = self._resolved(schema)
        if not isinstance(schema, Mapping):
            return {}
        kinds = _kinds(schema)
        made: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else list(kinds)} if kinds else {}
        if isinstance(text := schema.get("description"), str) and text.strip():
            made["description"] = text
        if isinstance(allowed := schema.get("enum"), list | tuple) and allowed:
            return made | {"enum": list(allowed)}
        if "const" in schema:
            return made | {"enum": [schema["const"]]}
        options = schema.get("anyOf") or schema.get("oneOf")
        if not kinds and isinstance(options, list | tuple) and depth > 0:
            return made | {"anyOf": [self.plain(option, depth - 1) for option in options]}
        if depth > 0 and "object" in kinds:
            made |= self._object(schema, depth - 1)
        if depth > 0 and "array" in kinds and isinstance(schema.get("items"), Mapping):
            made["items"] = self.plain(schema["items"], depth - 1)
        return made

    def _resolved(self, schema: Any) -> Any:
        """The schema that a reference names, and parts that all hold as one."""
        for _ in range(DEPTH):
            if not isinstance(schema, Mapping) or not isinstance(pointer := schema.get("$ref"), str):
                break
            schema = _at(self.root, pointer)
        if isinstance(schema, Mapping) and isinstance(parts := schema.get("allOf"), list | tuple):
            return _merged([schema, *(self._resolved(part) for part in parts)])
        return schema

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        inner = schema.get("properties")
        rest = schema.get("additionalProperties")
        if not isinstance(inner, Mapping) or not inner:
            return {"additionalProperties": self.plain(rest, depth)} if isinstance(rest, Mapping) else {}
        needed = schema.get("required")
        named = set(needed) if isinstance(needed, list | tuple) else set()
        named |= {k for k, v in inner.items() if isinstance(v, Mapping) and v.get("required") is True}
        properties = {str(name): self.plain(value, depth) for name, value in inner.items()}
        made: dict[str, Any] = {"properties": properties}
        if required := [name for name in properties if name in named]:
            made["required"] = required
        made["additionalProperties"] = self.plain(rest, depth) if isinstance(rest, Mapping) and rest else False
        return made


def _kinds(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Types in JSON Schema's words; () is any."""
    stated = schema.get("type")
    words = stated if isinstance(stated, list | tuple) else [stated]
    if stated is None:
        words = ["object"] if "properties" in schema else ["array"] if "items" in schema else []
    found: dict[str, None] = {}
    for word in words:
        kind = str(word).lower()
        kind = _TYPES.get(kind, kind)
        if kind not in _STANDARD:
            return ()
        found[kind] = None
    return tuple(found)


def _at(root: Any, pointer: str) -> Any:
    """What a reference into the same document names; None where there is nothing."""
    if not pointer.startswith("#"):
        return None
    found = root
    for part in pointer[1:].strip("/").split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if key:
            found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _merged(parts: Sequence[Any]) -> dict[str, Any]:
    """Objects that all hold, as one: properties and required of each."""
    made: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items() if isinstance(part, Mapping) else ():
            if key == "properties" and isinstance(value, Mapping):
                made[key] = {**made.get(key, {}), **value}
            elif key == "required" and isinstance(value, list | tuple):
                made[key] = [*made.get(key, []), *value]
            elif key != "allOf":
                made.setdefault(key, value)
    return made
