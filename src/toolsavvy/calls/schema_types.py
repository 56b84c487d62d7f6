"""Schemas of all sources as JSON Schema: types mapped, what is no schema dropped and counted, references bounded."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
"""JSON Schema's own."""
_NAMES = {
    "string": "str text char character varchar date datetime time timestamp uri url uuid enum bytes",
    "number": "float double decimal num real",
    "integer": "int long short byte bigint int32 int64 biginteger",
    "boolean": "bool",
    "object": "dict map mapping hashmap hashtable json struct structure record dictionary",
    "array": "list tuple set arraylist queue stack collection sequence vector",
    "null": "none nil nonetype",
}
_KNOWN = {name: kind for kind in TYPES for name in (kind, *_NAMES.get(kind, "").split())}
_ANY = ("any", "anytype", "mixed", "")
_NUMERIC = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_SIZES = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_BRANCHES = ("anyOf", "oneOf", "allOf")
_NOTES = ("title", "description", "default", "examples", "example", "format", "deprecated", "$comment")
DEEPEST = 64
"""Schemas inside one another; what is deeper holds no constraint."""


@dataclass(frozen=True)
class Normalised:
    """A schema that every validator takes.

    Args:
        schema: JSON Schema, Draft 2020-12.
        oddities: what was dropped or mapped, counted: `type float`, `unknown type foo`, `bad required`, `bad ref`, …
    """

    schema: Mapping[str, Any]
    oddities: Mapping[str, int] = field(default_factory=dict)

    @property
    def unknown_types(self) -> int:
        """Types that nobody knows; values there are not held against them."""
        return sum(n for name, n in self.oddities.items() if name.startswith("unknown type"))


def json_type(name: object) -> str | None:
    """JSON Schema's name of a type that a source writes ("dict", "ArrayList", "STRING"); None for any or unknown."""
    return _KNOWN.get(str(name).strip().lower()) if isinstance(name, str) else None


def normalised(schema: Any, *, closed: bool = False) -> Normalised:
    """A source's schema as JSON Schema.

    Types are mapped (`dict`, `tuple`, `float`, `str`, …); `any` and unknown ones become no constraint, counted. What
    is malformed (a `required` that is no list of names, a pattern that is no regular expression, …) is dropped,
    counted. References stay references, so that recursive ones are as deep as the value; those that lead nowhere, out
    of the schema or in a circle are dropped. Numbers in an `enum` that are written as text also count as numbers.

    Args:
        schema: as the source has it; anything but an object is no constraint.
        closed: objects that name their properties and are silent on others allow no others, as an API's do.
    """
    oddities: Counter[str] = Counter()
    if not isinstance(schema, Mapping):
        return Normalised({}, {"no schema": 1} if schema is not None else {})
    made = _Normaliser(schema, oddities, closed).whole()
    return Normalised(made, {what: n for what, n in oddities.items() if n})


def resolve(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema after its references; {} for one that leads nowhere, out of the schema or in a circle."""
    seen: set[str] = set()
    while isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str):
        ref = schema["$ref"]
        if ref in seen:
            return {}
        seen.add(ref)
        schema = _pointed(ref, root)
    return schema if isinstance(schema, Mapping) else {}


def _pointed(ref: str, root: Mapping[str, Any]) -> Any:
    """What a local reference points at, None for any other."""
    if ref == "#":
        return root
    if not ref.startswith("#/"):
        return None
    found: Any = root
    for part in ref[2:].split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, Sequence) and not isinstance(found, str) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found


def branches(schema: Any, root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A schema and those that it is composed of, each once."""
    stack, seen = [schema], set()
    while stack and len(seen) < 256:
        node = resolve(stack.pop(), root)
        if not node or id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        for word in _BRANCHES:
            if isinstance(node.get(word), list | tuple):
                stack += reversed(node[word])


def child(schema: Any, root: Mapping[str, Any], part: str | int) -> tuple[Mapping[str, Any], ...]:
    """Schemas of a property or an element: usually one, none where the schema is silent."""
    found = []
    for node in branches(schema, root):
        if isinstance(part, int):
            first = node.get("prefixItems", node.get("items"))
            inner = first[part] if isinstance(first, list | tuple) and part < len(first) else node.get("items")
        else:
            properties = node.get("properties")
            inner = properties.get(part) if isinstance(properties, Mapping) else None
            inner = node.get("additionalProperties") if inner is None else inner
        if isinstance(inner, Mapping) and inner:
            found.append(inner)
    return tuple(found)


def says_number(schemas: Sequence[Any], root: Mapping[str, Any]) -> bool:
    """Whether one of these schemas allows a number that is no integer by type."""
    for schema in schemas:
        for node in branches(schema, root):
            kinds = node.get("type")
            for kind in kinds if isinstance(kinds, list | tuple) else (kinds,):
                if json_type(kind) == "number":
                    return True
    return False


class _Normaliser:
    """One walk over one schema."""

    def __init__(self, root: Mapping[str, Any], oddities: Counter[str], closed: bool) -> None:
        self.root, self.oddities, self.closed = root, oddities, closed
        self.elsewhere: dict[str, str] = {}

    def whole(self) -> dict[str, Any]:
        """The root, with what references point at beside its definitions where it stands elsewhere."""
        made = self.schema(self.root, 0)
        assert isinstance(made, dict)
        done = 0
        while done < len(self.elsewhere):
            ref, name = list(self.elsewhere.items())[done]
            made.setdefault("$defs", {})[name] = self.schema(resolve({"$ref": ref}, self.root), 1)
            done += 1
        return made

    def schema(self, node: Any, depth: int, *, part_of: bool = False) -> dict[str, Any] | bool:
        """A schema; `part_of` a composition, which must stay open."""
        if isinstance(node, bool):
            return node
        if not isinstance(node, Mapping):
            self.oddities["no schema"] += 1
            return {}
        if depth > DEEPEST:
            self.oddities["too deep"] += 1
            return {}
        if isinstance(node.get("$ref"), str):
            return self.reference(node, depth)
        self.oddities["bad ref"] += "$ref" in node
        made = {word: node[word] for word in node if word in _NOTES or str(word).startswith("x-")}
        self.kind(node, made)
        self.values(node, made)
        self.sizes(node, made)
        self.inner(node, made, depth)
        self.required(node, made)
        if self.closed and made.get("properties") and not part_of:
            composed = any(word in node for word in (*_BRANCHES, "patternProperties", "if", "not"))
            made.setdefault("additionalProperties", bool(composed))
        return made

    def reference(self, node: Mapping[str, Any], depth: int) -> dict[str, Any]:
        """A reference that leads somewhere, with the definitions beside it."""
        made: dict[str, Any] = {word: node[word] for word in node if word in _NOTES}
        ref = node["$ref"]
        if not resolve(node, self.root):
            self.oddities["bad ref"] += 1
        elif ref == "#" or (ref.count("/") == 2 and ref.startswith(("#/$defs/", "#/definitions/"))):
            made["$ref"] = ref
        else:  # the walk may move or drop what stands there
            made["$ref"] = "#/$defs/" + self.elsewhere.setdefault(ref, f"elsewhere {len(self.elsewhere)}")
        self.definitions(node, made, depth)
        return made

    def kind(self, node: Mapping[str, Any], made: dict[str, Any]) -> None:
        """The type, mapped."""
        given = node.get("type")
        if given is None:
            return
        kinds: list[str] = []
        for name in given if isinstance(given, list | tuple) else (given,):
            kind = json_type(name)
            if kind is None:
                is_any = isinstance(name, str) and name.strip().lower() in _ANY
                self.oddities["type any" if is_any else f"unknown type {str(name)[:40]}"] += 1
                return
            if kind != name:
                self.oddities[f"type {name}"] += 1
            if str(name).lower() == "tuple":
                made.setdefault("x-type", "tuple")  # BFCL's rules tell it from an array
            kinds.append(kind)
        if node.get("nullable") is True:
            kinds.append("null")
        kinds = list(dict.fromkeys(kinds))
        if kinds:
            made["type"] = kinds[0] if len(kinds) == 1 else kinds

    def values(self, node: Mapping[str, Any], made: dict[str, Any]) -> None:
        """`enum` and `const`; numbers that are written as text count as both."""
        if "const" in node:
            made["const"] = node["const"]
        if "enum" not in node:
            return
        allowed = node["enum"]
        if not isinstance(allowed, list | tuple) or not allowed:
            self.oddities["bad enum"] += 1
            return
        also = []
        kinds = made.get("type")
        if not {"number", "integer"}.isdisjoint(kinds if isinstance(kinds, list) else [kinds]):
            also = [number for word in allowed if (number := _as_number(word)) is not None]
            self.oddities["enum as text"] += bool(also)
        made["enum"] = [*allowed, *also, *([None] if node.get("nullable") is True and None not in allowed else [])]

    def sizes(self, node: Mapping[str, Any], made: dict[str, Any]) -> None:
        """Bounds, patterns and uniqueness."""
        for word in (*_NUMERIC, *_SIZES):
            value = node.get(word)
            if value is None:
                continue
            least = 0 if word in _SIZES else float("-inf")
            is_number = isinstance(value, int if word in _SIZES else int | float) and not isinstance(value, bool)
            if is_number and value >= least and (word != "multipleOf" or value > 0):
                made[word] = value
            else:
                self.oddities[f"bad {word}"] += 1
        if "pattern" in node:
            if _is_pattern(node["pattern"]):
                made["pattern"] = node["pattern"]
            else:
                self.oddities["bad pattern"] += 1
        if node.get("uniqueItems") is True:
            made["uniqueItems"] = True

    def inner(self, node: Mapping[str, Any], made: dict[str, Any], depth: int) -> None:
        """Schemas inside: properties, elements, compositions, definitions."""
        if "properties" in node:
            if isinstance(node["properties"], Mapping):
                made["properties"] = {str(k): self.schema(v, depth + 1) for k, v in node["properties"].items()}
            else:
                self.oddities["bad properties"] += 1
        items = node.get("prefixItems", node.get("items"))
        if isinstance(items, list | tuple) and items:
            made["prefixItems"] = [self.schema(item, depth + 1) for item in items]
            if "prefixItems" in node and isinstance(node.get("items"), Mapping | bool):
                made["items"] = self.schema(node["items"], depth + 1)
        elif isinstance(items, str):
            made["items"] = self.schema({"type": items}, depth + 1)
        elif items is not None and items != []:
            made["items"] = self.schema(items, depth + 1)
        more = node.get("additionalProperties")
        if isinstance(more, Mapping | bool):
            made["additionalProperties"] = self.schema(more, depth + 1)
        patterns = node.get("patternProperties")
        if isinstance(patterns, Mapping):
            made["patternProperties"] = {k: self.schema(v, depth + 1) for k, v in patterns.items() if _is_pattern(k)}
        for word in _BRANCHES:
            if isinstance(node.get(word), list | tuple) and node[word]:
                made[word] = [self.schema(part, depth + 1, part_of=True) for part in node[word]]
        if isinstance(node.get("not"), Mapping):
            made["not"] = self.schema(node["not"], depth + 1, part_of=True)
        self.definitions(node, made, depth)

    def definitions(self, node: Mapping[str, Any], made: dict[str, Any], depth: int) -> None:
        """What references point at."""
        for word in ("$defs", "definitions"):
            if depth == 0 and isinstance(node.get(word), Mapping):
                made[word] = {str(k): self.schema(v, depth + 1) for k, v in node[word].items()}

    def required(self, node: Mapping[str, Any], made: dict[str, Any]) -> None:
        """Names that must be there; `required: true` on a property (Draft 3) belongs to its object."""
        given = node.get("required")
        names = list(given) if isinstance(given, list | tuple) else []
        if given is not None and not isinstance(given, list | tuple) and not isinstance(given, bool):
            self.oddities["bad required"] += 1
        properties = node.get("properties")
        if isinstance(properties, Mapping):
            names += [k for k, v in properties.items() if isinstance(v, Mapping) and v.get("required") is True]
        kept = list(dict.fromkeys(name for name in names if isinstance(name, str)))
        if kept:
            made["required"] = kept


def _as_number(word: object) -> int | float | None:
    """The number that a text spells."""
    if not isinstance(word, str) or not re.fullmatch(r"\s*[-+]?\d{1,15}(?:\.\d{1,15})?\s*", word):
        return None
    return float(word) if "." in word else int(word)


def _is_pattern(pattern: object) -> bool:
    """Whether a text is a regular expression that Python takes."""
    try:
        re.compile(str(pattern))
    except re.error:
        return False
    return isinstance(pattern, str)
