"""Argument objects as (path, value) leaves: what fields are counted, probed and chosen by."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Leaf:
    """One value and where it stands.

    Args:
        path: keys and indices from the root.
        value: a scalar, or an empty object or array.
    """

    path: Path
    value: Any


def leaves(value: Any) -> tuple[Leaf, ...]:
    """The leaves of a JSON value, in its own order; empty objects and arrays are leaves of their own.

    An argument object without arguments is one leaf at the empty path, so that a call without arguments can be right.
    """
    return tuple(_leaves(dict(value) if isinstance(value, Mapping) else value))


def _leaves(value: Any) -> Iterator[Leaf]:
    """Depth first on a stack of our own: values of files may be nested deeper than Python recurses."""
    stack: list[tuple[Path, Any]] = [((), value)]
    while stack:
        path, inner = stack.pop()
        if isinstance(inner, dict) and inner:
            stack += [((*path, key), inner[key]) for key in reversed(inner)]
        elif isinstance(inner, list | tuple) and inner:
            stack += [((*path, i), inner[i]) for i in reversed(range(len(inner)))]
        else:
            yield Leaf(path, inner)


def shown(path: Path) -> str:
    """A path as people write it: `IpPermissions.0.IpRanges.0.CidrIp`."""
    return ".".join(str(part) for part in path)


def scalar_key(value: Any, *, number: bool = False) -> str:
    """A text that two leaves share exactly if they are the same value.

    Strings are exact, `true` is no 1, `null` is a value of its own; 1 and 1.0 are the same only where `number` says
    that the schema has a number there.
    """
    if isinstance(value, str):
        return encode_basestring(value)
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        if number and math.isfinite(value) and value == int(value):
            return str(int(value))
        return repr(value)
    if isinstance(value, int):
        return hex(value) if value.bit_length() > 10_000 else str(value)  # str refuses thousands of digits
    if isinstance(value, dict) and not value:
        return "{}"
    if isinstance(value, list | tuple) and not value:
        return "[]"
    return f"{type(value).__name__}:{value!r}"
