"""Types as Python spells them ("List[Union[int, float]], optional"), as JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolsavvy.calls.schema_types import json_type

_TOKEN = re.compile(r"[\w.]+|[\[\](),|]")
_ASIDE = re.compile(r"\(\s*optional\s*\)", re.IGNORECASE)
_LISTS = ("list", "sequence", "iterable", "collection", "set", "frozenset", "array")
_MAPPINGS = ("dict", "mapping", "defaultdict", "ordereddict")
_SIGNS = tuple("[](),|")
_NOTHING = ("none", "nonetype")
_DEEPEST = 32
"""Brackets within one another; what is deeper is no constraint."""


@dataclass(frozen=True)
class PythonType:
    """A type that was read.

    Args:
        schema: JSON Schema; {} where anything goes, or for what is no type.
        is_optional: it says so: "str, optional", "Optional[str]", "str | None".
    """

    schema: Mapping[str, Any] = field(default_factory=dict)
    is_optional: bool = False


def python_type(text: str) -> PythonType:
    """Read a type; round brackets count as square ones ("list(str)"), what is not understood is no constraint.

    Args:
        text: the type, perhaps with ", optional" or ", default …" after it.
    """
    tokens = _TOKEN.findall(_ASIDE.sub(",optional", text))
    reader = _Reader(tokens)
    schema = reader.union(0)
    said = {token.lower() for token in tokens[reader.at :]}
    return PythonType(schema or {}, reader.has_none or "optional" in said)


@dataclass
class _Reader:
    """Recursive descent over tokens.

    Args:
        tokens: names and signs.
        at: the next one.
        has_none: None was among the alternatives at the top.
    """

    tokens: list[str]
    at: int = 0
    has_none: bool = False

    def union(self, depth: int) -> dict[str, Any] | None:
        """Alternatives separated by "|"; None for nothing but None."""
        found = [self.one(depth)]
        while self.at < len(self.tokens) and self.tokens[self.at] == "|":
            self.at += 1
            found.append(self.one(depth))
        if depth == 0 and len(found) > 1:
            self.has_none |= None in found
        return _either(found)

    def one(self, depth: int) -> dict[str, Any] | None:
        """A name with what stands in brackets after it."""
        if self.at >= len(self.tokens):
            return {}
        name = self.tokens[self.at].rpartition(".")[2].lower()
        if name in _SIGNS:
            self._bracketed(depth)
            return {}
        self.at += 1
        return self._made(name, self._bracketed(depth), depth)

    def _bracketed(self, depth: int) -> list[dict[str, Any] | None]:
        """The parts within brackets, where some open here."""
        parts: list[dict[str, Any] | None] = []
        if self.at >= len(self.tokens) or self.tokens[self.at] not in "[(":
            return parts
        self.at += 1
        while self.at < len(self.tokens) and self.tokens[self.at] not in "])":
            if self.tokens[self.at] in ",|" or depth > _DEEPEST:
                self.at += 1
            else:
                parts.append(self.union(depth + 1))
        self.at += 1
        return parts

    def _made(self, name: str, parts: list[dict[str, Any] | None], depth: int) -> dict[str, Any] | None:
        """The schema of a name and the parts in its brackets."""
        if name in _NOTHING:
            return None
        if name in ("optional", "union"):
            self.has_none |= depth == 0 and (name == "optional" or None in parts)
            return _either(parts)
        if name == "literal":
            return {}
        if name in _LISTS:
            return {"type": "array", **({"items": parts[0]} if parts and parts[0] else {})}
        if name == "tuple":
            return {"type": "array", **_elements([part or {} for part in parts])}
        if name in _MAPPINGS:
            return {"type": "object", **({"additionalProperties": parts[1]} if len(parts) > 1 and parts[1] else {})}
        kind = json_type(name)
        return {"type": kind} if kind else {}


def _either(found: list[dict[str, Any] | None]) -> dict[str, Any] | None:
    """One schema of several; None among them is dropped."""
    kept: list[dict[str, Any]] = []
    for schema in found:
        if schema is not None and schema not in kept:
            kept.append(schema)
    if {} in kept or not kept:
        return {} if kept or not found else None
    return kept[0] if len(kept) == 1 else {"anyOf": kept}


def _elements(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Elements of a tuple: all alike, or each its own; JSON has them as an array."""
    if not parts:
        return {}
    return {"items": parts[0]} if all(part == parts[0] for part in parts) else {"prefixItems": parts}
