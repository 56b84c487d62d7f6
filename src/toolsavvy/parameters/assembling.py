"""From values at paths to an argument object: which fields are there, and how they fit together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolsavvy.calls.flattening import Path


@dataclass(frozen=True)
class Option:
    """A value at a path.

    Args:
        path: where.
        value: which.
        score: the highest among the candidates that have it.
        votes: how many have it.
        first: index of the first of them.
    """

    path: Path
    value: Any
    score: float
    votes: int
    first: int


def votes(options: Sequence[Option]) -> int:
    """How many candidates have a path, whatever value they give it."""
    return sum(option.votes for option in options)


def present(best: Option, options: Sequence[Option], readable: int, schema: Mapping[str, Any]) -> bool:
    """Whether a field is there: it is required, or its score is at least the chance that it should be absent.

    That chance is the share of candidates without it, by the rule of succession: (without + 1) / (all + 2).

    Args:
        best: value of the path that would be taken.
        options: all values of the path.
        readable: number of candidates.
        schema: of the tool's arguments.
    """
    return required(best.path, schema) or best.score >= (readable - votes(options) + 1) / (readable + 2)


def required(path: Path, schema: Mapping[str, Any]) -> bool:
    """Whether a schema asks for the field whatever else there is: every object on the way requires the next key."""
    here: Any = schema
    for part in path:
        if not isinstance(here, Mapping):
            return False
        if isinstance(part, int):
            return False  # how many elements an array has is never required
        names = here.get("required")
        if not isinstance(names, list | tuple) or part not in names:
            return False
        inner = here.get("properties")
        here = inner.get(part) if isinstance(inner, Mapping) else None
    return bool(path)


def assemble(chosen: Sequence[Option]) -> dict[str, Any]:
    """An argument object of fields.

    Where two can't stand together (one says that `Tags` is a text, the other that it is a list) the one with the higher
    score stays. Elements of arrays close up where one before them is left out.
    """
    kept: dict[Path, Option] = {}
    for option in sorted(chosen, key=lambda o: (-o.score, -o.votes, o.first, _order(o.path))):
        if option.path and _fits(option.path, kept):
            kept[option.path] = option
    root: dict[Any, Any] = {}
    # In the order in which candidates gave them.
    for option in (o for o in chosen if kept.get(o.path) is o):
        here = root
        for part in option.path[:-1]:
            here = here.setdefault(part, {})
        here[option.path[-1]] = _Leaf(option.value)
    return {str(name): _closed(value) for name, value in root.items()}


@dataclass(frozen=True)
class _Leaf:
    """Told from a container that is being filled."""

    value: Any


def _order(path: Path) -> tuple[str, ...]:
    return tuple(f"{part:08d}" if isinstance(part, int) else part for part in path)


def _fits(path: Path, kept: Mapping[Path, Option]) -> bool:
    """Whether a path can stand beside others: none is inside another, and no container is both object and array."""
    for other in kept:
        common = next((i for i, (a, b) in enumerate(zip(path, other, strict=False)) if a != b), None)
        if common is None or isinstance(path[common], int) != isinstance(other[common], int):
            return False
    return True


def _closed(value: Any) -> Any:
    """Containers by number become arrays."""
    if isinstance(value, _Leaf):
        return value.value
    if all(isinstance(name, int) for name in value):
        return [_closed(value[i]) for i in sorted(value)]
    return {name: _closed(inner) for name, inner in value.items()}
