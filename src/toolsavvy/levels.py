"""How hard a parameter task is: four features of it, and the one rule that makes L1 to L5 of them.

ParamBench (2608.03071, section 3) names the four features; its cut-offs are not public. `RULE` is our reading: points
that add up, so that a level can be told from the four numbers by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolsavvy.tasks import LEVELS, ParamTask, Upstream

_SHORTEST = 4
"""Characters of a value that may count as transferred: shorter ones (ports, "tcp") turn up in results by chance."""
_NESTING, _CONDITIONS, _TRANSFERS = 2, 2, 3
"""Most points of a feature."""
_EXTRACTION = (3, 5)
"""Depths at which digging for a value costs one point more."""
_FLOORS = (1, 3, 4, 6)
"""Points at which L2, L3, L4, L5 begin."""

_REFERENCE = re.compile(r"\$(\w+)((?:\.[^$]*)?)(?:\$|\Z)")
"""`$var1.id$`, as sources name an earlier result; the closing sign may be forgotten at the end."""

Path = tuple[str | int, ...]

RULE = f"""\
level = L1 at 0 points, L2 from {_FLOORS[0]}, L3 from {_FLOORS[1]}, L4 from {_FLOORS[2]}, L5 from {_FLOORS[3]}
points of
  nesting depth            objects within objects of the reference, arrays not counted (flat = 1):
                           1 point for every object below the first, at most {_NESTING}
  conditional dependencies arguments that are there because of another's value: 1 point each, at most {_CONDITIONS}
  upstream transfers       values (of {_SHORTEST} characters or more, no words of the schema) that stand in an earlier
                           result and not in the instruction: 1 point each, at most {_TRANSFERS}
  extraction depth         keys and indices down to the transferred value that lies deepest:
                           1 point from {_EXTRACTION[0]}, 2 from {_EXTRACTION[1]}
Our reading of ParamBench's four features; its own cut-offs are not public."""
"""The rule in words, as it is printed."""


@dataclass(frozen=True)
class LevelFeatures:
    """What ParamBench grades a task by.

    Args:
        nesting_depth: levels of objects in the reference; 1 = scalars and arrays of scalars.
        conditional_dependencies: arguments that are there only because another has a certain value.
        upstream_transfers: leaves whose value comes from an earlier result and is not in the instruction.
        upstream_extract_depth: path length down to the transferred value that lies deepest, each at its shallowest
            occurrence; 0 without transfers.
    """

    nesting_depth: int
    conditional_dependencies: int
    upstream_transfers: int
    upstream_extract_depth: int

    @property
    def points(self) -> int:
        """Sum of the points of `RULE`."""
        return (
            min(max(self.nesting_depth - 1, 0), _NESTING)
            + min(self.conditional_dependencies, _CONDITIONS)
            + min(self.upstream_transfers, _TRANSFERS)
            + sum(self.upstream_extract_depth >= depth for depth in _EXTRACTION)
        )


def level_of(features: LevelFeatures) -> str:
    """L1 to L5 by `RULE`."""
    return LEVELS[sum(features.points >= floor for floor in _FLOORS)]


def features_of(task: ParamTask) -> LevelFeatures:
    """Grade a task by its references: sums over them, the deepest nesting and extraction.

    A reference that is only named in the source ("$var1.id$", no result released) is a transfer as deep as its fields.
    """
    schemas = {tool.name: tool.parameters for tool in task.tools}
    held, text = _shallowest(task.upstream), task.instruction.casefold()
    depths = [
        depth
        for reference in task.references
        for path, value in _scalars(reference.arguments)
        if (depth := _transfer(value, held, task.upstream, text)) and not _is_word(value, path, schemas, reference.name)
    ]
    return LevelFeatures(
        nesting_depth=max((_nesting(r.arguments) for r in task.references), default=1),
        conditional_dependencies=task.conditions
        + sum(_declared(r.arguments, schemas.get(r.name, {})) for r in task.references),
        upstream_transfers=len(depths),
        upstream_extract_depth=max(depths, default=0),
    )


def levelled(task: ParamTask) -> ParamTask:
    """The task with its level."""
    return replace(task, level=level_of(features_of(task)))


def _nesting(value: Any) -> int:
    """Objects within objects, at least 1; arrays add nothing of their own."""
    deepest, stack = 1, [(value, 0)]
    while stack:  # not recursive: arguments may be nested deeper than Python's stack
        inner, depth = stack.pop()
        if isinstance(inner, Mapping):
            deepest = max(deepest, depth + 1)
            stack += [(v, depth + 1) for v in inner.values()]
        elif isinstance(inner, list | tuple):
            stack += [(v, depth) for v in inner]
    return deepest


def _scalars(value: Any) -> Iterator[tuple[Path, Any]]:
    """Every leaf with its path, shallow ones first."""
    level: list[tuple[Path, Any]] = [((), value)]
    while level:
        below: list[tuple[Path, Any]] = []
        for path, inner in level:
            if isinstance(inner, Mapping):
                below += [((*path, str(key)), v) for key, v in inner.items()]
            elif isinstance(inner, list | tuple):
                below += [((*path, i), v) for i, v in enumerate(inner)]
            else:
                yield path, inner
        level = below


def _shallowest(upstream: Sequence[Upstream]) -> dict[str, int]:
    """Value (as text) -> path length at its shallowest occurrence in any result; a bare result has length 1."""
    found: dict[str, int] = {}
    for call in upstream:
        for path, value in _scalars(call.output):
            if (text := _text(value)) and len(path) < found.get(text, len(path) + 1):
                found[text] = max(len(path), 1)
    return found


def _text(value: Any) -> str:
    """A value by which transfers are found, "" for what turns up anywhere by chance."""
    text = "" if value is None or isinstance(value, bool) else str(value)
    return text if len(text) >= _SHORTEST else ""


def _transfer(value: Any, held: Mapping[str, int], upstream: Sequence[Upstream], instruction: str) -> int:
    """How deep in an earlier result a value lies, 0 where it is no transfer."""
    if isinstance(value, str) and (fields := symbolic(value, upstream)) is not None:
        return max(len(fields), 1)
    text = _text(value)
    return held.get(text, 0) if text and text.casefold() not in instruction else 0


def symbolic(value: str, upstream: Sequence[Upstream]) -> tuple[str, ...] | None:
    """Fields that a reference by label goes through: ("id",) of "$var1.id$", () of "API_call_0"; None: no reference.

    "$var1.id$" may also stand within longer text. Only labels of calls without a result are looked for: where there
    are results, sources give the values themselves.
    """
    for call in upstream:
        if not call.label or call.output is not None:
            continue
        if value == call.label or value.startswith(f"{call.label}."):
            return _fields(value[len(call.label) :])
        for found in _REFERENCE.finditer(value):
            if found[1] == call.label:
                return _fields(found[2])
    return None


def _fields(path: str) -> tuple[str, ...]:
    """Names of a dotted path."""
    return tuple(filter(None, path.split(".")))


def _is_word(value: Any, path: Path, schemas: Mapping[str, Mapping[str, Any]], tool: str) -> bool:
    """Does the schema itself list the value, as one of an enum or as the default?"""
    node: Any = schemas.get(tool, {})
    for step in path:
        node = _below(node, step)
    if not isinstance(node, Mapping):
        return False
    enum = node.get("enum")
    return (isinstance(enum, list | tuple) and value in enum) or node.get("default") == value


def _below(schema: Any, step: str | int) -> Any:
    """The schema of a member, {} where it says nothing of it."""
    if not isinstance(schema, Mapping):
        return {}
    if isinstance(step, int):
        return schema.get("items", {})
    properties = schema.get("properties")
    return properties.get(step, {}) if isinstance(properties, Mapping) else {}


def _declared(arguments: Any, schema: Any) -> int:
    """Dependencies that a schema declares and this object falls under: dependentRequired and if/then."""
    count, stack = 0, [(arguments, schema)]
    while stack:
        value, node = stack.pop()
        if isinstance(value, Mapping) and isinstance(node, Mapping):
            count += _here(value, node)
            stack += [(inner, _below(node, str(key))) for key, inner in value.items()]
        elif isinstance(value, list | tuple):
            stack += [(inner, _below(node, i)) for i, inner in enumerate(value)]
    return count


def _here(value: Mapping[str, Any], schema: Mapping[str, Any]) -> int:
    """Dependencies of one object; those of `allOf` count as its own."""
    count = 0
    parts = schema.get("allOf")
    for part in (schema, *(parts if isinstance(parts, list | tuple) else ())):
        if not isinstance(part, Mapping):
            continue
        for key in ("dependentRequired", "dependencies"):
            needs = part.get(key)
            for trigger, needed in needs.items() if isinstance(needs, Mapping) else ():
                if trigger in value and isinstance(needed, list | tuple):
                    count += sum(name in value for name in needed)
        tested = part.get("if")
        names = tested.get("properties") if isinstance(tested, Mapping) else None
        if isinstance(names, Mapping) and names and ("then" in part or "else" in part):
            count += all(name in value for name in names)
    return count
