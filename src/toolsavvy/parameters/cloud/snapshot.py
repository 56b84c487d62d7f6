"""What an account holds, resource by resource, as text that can be compared.

Read from moto's own objects, since no set of Describe calls shows all of it. A resource is what a backend keeps in one
of its tables; inside, another resource is written as its place, so that a change shows where it happened and no circle
is followed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType
from typing import Any

from toolsavvy.parameters.cloud.world import SERVICES, backend

Snapshot = Mapping[str, str]
"""Place ("ec2.subnets/us-east-1a/subnet-0a1b…") -> canonical JSON of what is there."""
_PLAIN = (str, int, float, bool, type(None))
_SKIPPED = (FunctionType, MethodType, BuiltinFunctionType, GeneratorType, type)
_CONSTANT = frozenset({"region_name", "account_id", "partition", "default_vpc", "deleted_amis"})
_DEEPEST = 12


def snapshot() -> Snapshot:
    """Of the world that is open."""
    held: dict[str, Any] = {}
    for service in SERVICES:
        for name, value in vars(backend(service)).items():
            if name not in _CONSTANT:
                _collect(f"{service}.{name}", value, held)
    places = {id(value): place for place, value in held.items() if not isinstance(value, _PLAIN)}
    writer = _Writer(places)
    return {place: writer.text(value) for place, value in held.items()}


def _collect(place: str, value: Any, held: dict[str, Any]) -> None:
    """Everything that a table holds, tables in tables included; an empty table is nothing."""
    if isinstance(value, Mapping) and not (value and all(isinstance(v, _PLAIN) for v in value.values())):
        for key, inner in value.items():
            _collect(f"{place}/{key}", inner, held)
    elif isinstance(value, list) and value and not all(isinstance(v, _PLAIN) for v in value):
        for inner in value:
            key = next((str(found) for name in _KEYS if (found := getattr(inner, name, None))), "")
            _collect(f"{place}/{key or value.index(inner)}", inner, held)
    elif value or isinstance(value, bool):
        held[place] = value


_KEYS = ("id", "arn", "allocation_id", "name")
"""What a resource in a list is known by."""


class _Writer:
    """Writes resources; `places` are those of all resources, by identity."""

    def __init__(self, places: Mapping[int, str]) -> None:
        self.places = places

    def text(self, resource: Any) -> str:
        """Canonical JSON of one resource."""
        return canonical(self._inside(resource, (id(resource),)))

    def _json(self, value: Any, above: tuple[int, ...]) -> Any:
        if isinstance(value, _PLAIN):
            return value
        if place := self.places.get(id(value)):
            return f"-> {place}"
        if id(value) in above or len(above) > _DEEPEST:
            return "(above)"
        return self._inside(value, (*above, id(value)))

    def _inside(self, value: Any, above: tuple[int, ...]) -> Any:
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, Mapping):
            return {str(k): self._json(v, above) for k, v in value.items() if not _is_code(v)}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._json(v, above) for v in value if not _is_code(v)]
        if not hasattr(value, "__dict__") or not type(value).__module__.startswith("moto."):
            return str(value)  # times, networks, addresses
        return {name: self._json(inner, above) for name, inner in vars(value).items() if not _is_code(inner)}


def _is_code(value: Any) -> bool:
    """Functions and iterators, and whole backends, which every resource points back to."""
    if isinstance(value, _PLAIN):
        return False
    return isinstance(value, (_backend_class(), *_SKIPPED)) or hasattr(value, "__next__")


@cache
def _backend_class() -> type:
    from moto.core.base_backend import BaseBackend

    return BaseBackend


def canonical(value: Any) -> str:
    """JSON in which neither the order of keys nor that of lists tells."""
    return json.dumps(_ordered(value), sort_keys=True, default=str)


def _ordered(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _ordered(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return sorted((_ordered(v) for v in value), key=lambda v: json.dumps(v, sort_keys=True, default=str))
    return value
