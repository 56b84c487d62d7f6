"""Places in an argument object: what the schema and the task say of a value there, looked up once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from toolsavvy.calls.schema_types import branches, child, says_number

Patterns = tuple[tuple[str, ...], ...]


class Place:
    """A place, and those inside it.

    Args:
        root: the whole schema, which references point into.
        schemas: those that hold here; none where the schema is silent.
        patterns: unordered arrays as seen from here, in parts; "*" stands for any index.
    """

    def __init__(self, root: Mapping[str, Any], schemas: Sequence[Mapping[str, Any]], patterns: Patterns) -> None:
        self.root, self.schemas, self.patterns = root, tuple(schemas), patterns
        self.is_unordered = () in patterns
        self._inside: dict[str | int, Place] = {}

    @classmethod
    def top(cls, schema: Mapping[str, Any] | None, unordered: Sequence[str] = ()) -> Place:
        """The place of a whole argument object.

        Args:
            schema: of the arguments.
            unordered: as `ParamTask.unordered`.
        """
        root = schema or {}
        return cls(root, (root,) if root else (), tuple(tuple(pattern.split(".")) for pattern in unordered))

    @cached_property
    def is_number(self) -> bool:
        """Whether the schema has a number here, so that 1 and 1.0 are the same."""
        return says_number(self.schemas, self.root)

    def at(self, part: str | int) -> Place:
        """The place of a property or an element."""
        if isinstance(part, int) and self._is_uniform:
            part = 0
        found = self._inside.get(part)
        if found is None:
            schemas = [inner for schema in self.schemas for inner in child(schema, self.root, part)]
            found = self._inside[part] = Place(self.root, schemas, self._patterns(part))
        return found

    @cached_property
    def _is_uniform(self) -> bool:
        """Whether all elements of an array here are alike."""
        if any(pattern and pattern[0].isdigit() for pattern in self.patterns):
            return False
        nodes = (node for schema in self.schemas for node in branches(schema, self.root))
        return not any("prefixItems" in node or isinstance(node.get("items"), list | tuple) for node in nodes)

    def _patterns(self, part: str | int) -> Patterns:
        is_index = isinstance(part, int)
        return tuple(p[1:] for p in self.patterns if p and (p[0] == str(part) or (is_index and p[0] == "*")))
