"""Whether arguments keep to a tool's schema: jsonschema, Draft 2020-12, one compiled validator per schema."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolsavvy.calls.flattening import leaves
from toolsavvy.calls.lenient import DEPTH
from toolsavvy.calls.schema_types import Normalised, normalised

_MOST = 4096
"""Validators that are kept."""


@dataclass(frozen=True)
class Checked:
    """Arguments held against a schema.

    Args:
        valid: nothing is wrong.
        problems: "path: what is wrong", a few.
        unknown_types: places of the schema that could not be checked, since nobody knows their type.
    """

    valid: bool
    problems: tuple[str, ...] = ()
    unknown_types: int = 0


@dataclass(frozen=True)
class _Compiled:
    source: Any
    normal: Normalised
    validator: Any


_by_identity: dict[int, _Compiled] = {}


def check(arguments: Any, schema: Any, *, most: int = 5) -> Checked:
    """Hold arguments against a schema, saying what is wrong.

    An argument that the schema does not name is wrong wherever the schema names any and does not allow others: an API
    refuses it. NaN, infinities and what is nested more than 100 deep are never right. A schema that nothing could be
    held against (none, or one that runs in a circle) is no reason against a call.

    Args:
        arguments: the object.
        schema: the tool's, in any source's dialect.
        most: problems that are named.
    """
    if trouble := _no_json(arguments):
        return Checked(False, (trouble,))
    compiled = _compiled(schema)
    unknown = compiled.normal.unknown_types
    try:
        found = []
        for error in compiled.validator.iter_errors(arguments):
            place = ".".join(str(part) for part in error.absolute_path)
            found.append(f"{place or 'arguments'}: {error.message[:200]}")
            if len(found) == most:
                break
    except RecursionError:
        return Checked(True, (), unknown + 1)
    return Checked(not found, tuple(found), unknown)


def valid(arguments: Any, schema: Any) -> bool:
    """Whether arguments keep to a schema; see `check`."""
    if _no_json(arguments):
        return False
    try:
        return _compiled(schema).validator.is_valid(arguments)
    except RecursionError:
        return True


def _compiled(schema: Any) -> _Compiled:
    """The validator of a schema, made once; kept by identity, which its own reference keeps from being reused."""
    kept = _by_identity.get(id(schema))
    if kept is not None and kept.source is schema:
        return kept
    from jsonschema import Draft202012Validator

    if len(_by_identity) >= _MOST:
        _by_identity.clear()
    normal = normalised(_with_arguments(schema), closed=True)
    made = _Compiled(schema, normal, Draft202012Validator(dict(normal.schema)))
    _by_identity[id(schema)] = made
    return made


def _with_arguments(schema: Any) -> Any:
    """A tool's schema; without a type it is still one of an object."""
    if isinstance(schema, Mapping) and "type" not in schema and "$ref" not in schema:
        return {**schema, "type": "object"}
    return schema if isinstance(schema, Mapping) else {"type": "object"}


def _no_json(value: Any) -> str:
    """Why a value is no JSON that could be sent; '' where it is."""
    if not isinstance(value, Mapping):
        return "arguments: no object"
    for leaf in leaves(value):
        if len(leaf.path) > DEPTH:
            return f"arguments: nested more than {DEPTH} deep"
        if isinstance(leaf.value, float) and not math.isfinite(leaf.value):
            return f"{'.'.join(map(str, leaf.path))}: {leaf.value} is no JSON"
    return ""


def forget() -> None:
    """Drop all kept validators."""
    _by_identity.clear()
