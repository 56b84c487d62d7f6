"""`$ref` resolution with bounds: recursion, depth and total size are cut, so that no description can blow up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

MAX_NODES = 5_000
"""Nodes of one resolved schema; past it, everything further is cut."""
_KEPT = ("type", "title", "description", "format", "enum")


class Resolver:
    """Resolves the references of one document.

    Args:
        root: the whole document.
        depth: levels of schemas that are kept (a schema and its "properties" are one level).
        counts: where cuts are counted: recursive_refs, cut_by_depth, cut_by_size, external_refs, dangling_refs.
    """

    def __init__(self, root: Mapping[str, Any], depth: int, counts: Counter[str]) -> None:
        """Keep the document; nothing is resolved yet."""
        self.root, self.depth, self.counts = root, depth, counts
        self._left = MAX_NODES

    def resolve(self, schema: Any) -> Any:
        """A copy of the schema without local references."""
        self._left = MAX_NODES
        return self._walk(schema, 2 * self.depth, ())

    def target(self, value: Any) -> Any:
        """What a reference (or a chain of them) points to; other values as they are.

        References to other documents, to nothing, or in a circle come back as they are and are counted.
        """
        seen: set[str] = set()
        while isinstance(value, Mapping) and isinstance(value.get("$ref"), str):
            ref = value["$ref"]
            found = self._lookup(ref)
            if found is None or ref in seen:
                self.counts["recursive_refs"] += ref in seen
                return value
            seen.add(ref)
            value = found
        return value

    def _lookup(self, ref: str) -> Any:
        """The node a local pointer names, or None."""
        if not ref.startswith("#"):
            self.counts["external_refs"] += 1
            return None
        node: Any = self.root
        for part in filter(None, ref[1:].split("/")):
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isdigit() and int(key) < len(node):
                node = node[int(key)]
            else:
                self.counts["dangling_refs"] += 1
                return None
        return node

    def _walk(self, node: Any, depth: int, trail: tuple[str, ...]) -> Any:
        """Copy a node; `trail` holds the references being resolved above it."""
        if not isinstance(node, Mapping | list):
            return node
        self._left -= 1
        if self._left < 0 or depth < 0:
            return self._cut(node, "cut_by_size" if self._left < 0 else "cut_by_depth")
        if isinstance(node, list):
            return [self._walk(child, depth - 1, trail) for child in node]
        ref = node.get("$ref")
        if not isinstance(ref, str):
            return {key: self._walk(child, depth - 1, trail) for key, child in node.items()}
        around = {k: v for k, v in node.items() if k != "$ref" and isinstance(v, str)}
        found = self._lookup(ref)
        if found is None:
            return {"$ref": ref, **around}
        inner = self._cut(found, "recursive_refs") if ref in trail else self._walk(found, depth, (*trail, ref))
        return {**inner, **around} if isinstance(inner, Mapping) else inner

    def _cut(self, node: Any, why: str) -> Any:
        """What stays of a node that is not followed: its type and description."""
        self.counts[why] += 1
        if isinstance(node, list):
            return [child for child in node if not isinstance(child, Mapping | list)]
        kept = {k: node[k] for k in _KEPT if k in node} if isinstance(node, Mapping) else {}
        return {k: v for k, v in kept.items() if isinstance(v, str)} or {"type": "object"}
