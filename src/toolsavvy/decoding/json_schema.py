"""Decoding constrained to a JSON schema: only tokens are left that lead to an object which the schema allows."""

from __future__ import annotations

import copy
import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger("toolsavvy")

DEPTH = 8
"""Levels of objects and arrays that are spelt out; what lies deeper is left open. It bounds recursive schemas."""
MOST_PARTS = 3000
"""Parts of a schema that are spelt out."""
MOST_OPTIONS = 20
"""Alternatives of a part that are looked at."""
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
    out, types that JSON Schema does not know are translated or mean any type. A schema of more than `MOST_PARTS` parts
    is spelt out less deep, evenly.

    Args:
        schema: as a source has it; anything that is no schema means any value.
        depth: levels that are spelt out.
    """
    for levels in range(depth, 0, -1):
        try:
            return _Normaliser(schema).plain(schema, levels)
        except _TooManyError:
            continue
    return {"type": "object"}


class SchemaConstraint:
    """Holds every answer to its own tool's schema: one JSON object on one line, keys in the schema's order.

    Types, keys, required keys and allowed values are held; objects of named properties take no other keys. A schema
    that the grammar's compiler refuses is tried with fewer levels spelt out, and any object is allowed in the end:
    `notes` counts that.

    Args:
        tokenizer: the model's.
        rows: logits that the model gives, tokens that only fill the matrix included.
        stops: ids that end an answer.
        schemas: of the prompts, by place.
    """

    def __init__(self, tokenizer: Any, rows: int, stops: Sequence[int], schemas: Sequence[Any]) -> None:
        import xgrammar

        info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=rows, stop_token_ids=list(stops))
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1)
        self._rows, self._grammars = rows, {}
        self._schemas = list(schemas)
        self.notes: Counter[str] = Counter()

    def guide(self, places: Sequence[int]) -> _SchemaGuide:
        """Matchers of rows that begin."""
        return _SchemaGuide([self._grammar(self._schemas[place]) for place in places], self._rows)

    def at(self, places: Sequence[int]) -> SchemaConstraint:
        """The constraint of some of the prompts alone, grammars shared."""
        other = copy.copy(self)
        other._schemas = [self._schemas[place] for place in places]
        return other

    def _grammar(self, schema: Any) -> Any:
        key = json.dumps(schema, sort_keys=True, default=str)
        if key not in self._grammars:
            self._grammars[key] = self._compiled(schema)
        return self._grammars[key]

    def _compiled(self, schema: Any) -> Any:
        """The grammar of a schema, as deep as the compiler takes it."""
        for depth in (DEPTH, 5, 3, 2):
            plain = _as_object(normalised(schema, depth))
            try:
                grammar = self._compile(plain)
            except (RuntimeError, ValueError, TypeError) as error:
                log.warning("a schema of %d levels could not become a grammar (%s)", depth, str(error).split("\n")[0])
                continue
            if depth < DEPTH:
                self.notes[f"{depth} levels"] += 1
            return grammar
        self.notes["any object"] += 1
        log.warning("a schema could not become a grammar at all: any object is allowed")
        return self._compile({"type": "object"})

    def _compile(self, schema: Mapping[str, Any]) -> Any:
        text = json.dumps(_bare(schema))
        return self._compiler.compile_json_schema(text, any_whitespace=False, separators=(", ", ": "))


class _SchemaGuide:
    """Matchers of rows that are written side by side."""

    def __init__(self, grammars: Sequence[Any], rows: int) -> None:
        import xgrammar

        self._matchers = [xgrammar.GrammarMatcher(grammar) for grammar in grammars]
        self._mask = xgrammar.allocate_token_bitmask(len(grammars), rows)
        self._rows = rows

    def masked(self, rows: np.ndarray, logits: Tensor) -> Tensor:
        """Logits without what the schema does not allow next; the given ones stay as they are."""
        import xgrammar

        for place, row in enumerate(rows.tolist()):
            self._matchers[row].fill_next_token_bitmask(self._mask, place)
        logits = logits.clone()
        mask = self._mask[: len(rows)].to(logits.device)
        xgrammar.apply_token_bitmask_inplace(logits, mask, vocab_size=min(self._rows, logits.shape[1]))
        return logits

    def wrote(self, rows: np.ndarray, tokens: np.ndarray) -> None:
        """Go on in every row's grammar.

        Raises:
            RuntimeError: a token that the mask did not allow.
        """
        for row, token in zip(rows.tolist(), tokens.tolist(), strict=True):
            if not self._matchers[row].accept_token(token):
                raise RuntimeError(f"token {token} was drawn against the mask")


def _as_object(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an argument object, whatever a source says of its root."""
    return {**schema, "type": "object"} if "object" in _kinds(schema) else {"type": "object"}


def _bare(schema: Any) -> Any:
    """Without descriptions, which no grammar needs."""
    if isinstance(schema, Mapping):
        made = {k: _bare(v) for k, v in schema.items() if k not in ("description", "properties", "enum")}
        if "properties" in schema:
            made["properties"] = {k: _bare(v) for k, v in schema["properties"].items()}
        return made | ({"enum": schema["enum"]} if "enum" in schema else {})
    return [_bare(v) for v in schema] if isinstance(schema, list) else schema


class _TooManyError(Exception):
    """A schema has too many parts at this depth."""


class _Normaliser:
    """Puts the parts of one schema in plain terms."""

    def __init__(self, root: Any) -> None:
        self.root, self.left = root, MOST_PARTS

    def plain(self, schema: Any, depth: int) -> dict[str, Any]:
        """A part, and what is inside it as deep as told."""
        self.left -= 1
        if self.left < 0:
            raise _TooManyError
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
            return made | {"anyOf": [self.plain(option, depth - 1) for option in options[:MOST_OPTIONS]]}
        if depth > 0 and "object" in kinds:
            made |= self._object(schema, depth - 1)
        if depth > 0 and "array" in kinds and isinstance(schema.get("items"), Mapping):
            made["items"] = self.plain(schema["items"], depth - 1)
        return made

    def _resolved(self, schema: Any, steps: int = DEPTH) -> Any:
        """The schema that a reference names, and parts that all hold as one."""
        if not isinstance(schema, Mapping) or steps <= 0:
            return None
        if isinstance(pointer := schema.get("$ref"), str):
            return self._resolved(_at(self.root, pointer), steps - 1)
        if isinstance(parts := schema.get("allOf"), list | tuple):
            return _merged([schema, *(self._resolved(part, steps - 1) for part in parts[:MOST_OPTIONS])])
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
