"""Two argument objects laid over one another, type-aware, leaf by leaf.

What counts as the same: strings exactly; `true` is no 1; 1 and 1.0 only where the schema says number; arrays in their
order, except those that the task declares unordered, which are compared as multisets, however nested. `null` is a value
like any other: an argument that is null is not the same as one that is left out, since an API treats them differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolsavvy.calls.assignment import assign
from toolsavvy.calls.flattening import Leaf, Path, leaves, scalar_key
from toolsavvy.calls.schema_types import branches, child, says_number

DEEPEST = 150
"""Levels that are compared; what is deeper is never the same."""
Schemas = tuple[Mapping[str, Any], ...]
Patterns = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Counts:
    """Fields of a call: right ones, predicted ones that are wrong, ones that were missed."""

    tp: int
    fp: int
    fn: int

    def __add__(self, other: Counts) -> Counts:
        """Counts of both."""
        return Counts(self.tp + other.tp, self.fp + other.fp, self.fn + other.fn)

    @property
    def precision(self) -> float:
        """Right share of the predicted fields; 0 without any."""
        return self.tp / (self.tp + self.fp) if self.tp + self.fp else 0.0

    @property
    def recall(self) -> float:
        """Predicted share of the right fields; 0 without any."""
        return self.tp / (self.tp + self.fn) if self.tp + self.fn else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of both."""
        total = 2 * self.tp + self.fp + self.fn
        return 2 * self.tp / total if total else 0.0


@dataclass
class Alignment:
    """A prediction laid over a reference.

    Args:
        right: path of every predicted leaf -> whether it is right.
        changed: pairs (predicted, reference) at the same place that differ.
        spurious: predicted leaves where the reference has nothing.
        omitted: reference leaves where the prediction has nothing.
    """

    right: dict[Path, bool] = field(default_factory=dict)
    changed: list[tuple[Leaf, Leaf]] = field(default_factory=list)
    spurious: list[Leaf] = field(default_factory=list)
    omitted: list[Leaf] = field(default_factory=list)

    @property
    def counts(self) -> Counts:
        """Right, wrong and missed fields."""
        tp = self.same_count
        return Counts(tp, len(self.right) - tp, len(self.omitted) + len(self.changed))

    @property
    def same_count(self) -> int:
        """Predicted leaves that are right."""
        return sum(self.right.values())

    @property
    def is_exact(self) -> bool:
        """Whether nothing differs."""
        return not (self.changed or self.spurious or self.omitted)

    def add(self, other: Alignment) -> None:
        """Take in what was found at another place."""
        self.right.update(other.right)
        self.changed += other.changed
        self.spurious += other.spurious
        self.omitted += other.omitted

    def add_alone(self, value: Any, path: Path) -> None:
        """Predicted leaves that nothing answers."""
        leaves_there = below(value, path)
        self.right.update(dict.fromkeys((leaf.path for leaf in leaves_there), False))
        self.spurious += leaves_there


class Comparison:
    """What counts as the same for one tool and one kind of task.

    Args:
        schema: of the arguments.
        unordered: paths of arrays whose order means nothing, as `ParamTask.unordered`.
    """

    def __init__(self, schema: Mapping[str, Any] | None = None, unordered: Sequence[str] = ()) -> None:
        self.root: Mapping[str, Any] = schema or {}
        self.top: Schemas = (self.root,) if self.root else ()
        self.patterns = tuple(tuple(pattern.split(".")) for pattern in unordered)

    def key(self, value: Any) -> str:
        """A text that two values share exactly if they are the same."""
        return self._key(value, self.top, self.patterns, 0)

    def same(self, value: Any, other: Any) -> bool:
        """Whether two argument objects are the same."""
        return self.key(value) == self.key(other)

    def align(self, predicted: Any, reference: Any, at: Path = ()) -> Alignment:
        """Lay a prediction over a reference, leaf by leaf.

        Elements of unordered arrays are paired so that most leaves are right: equal ones first, the rest by optimal
        assignment up to a size, greedily beyond; ties go to the order in which they stand.

        Args:
            predicted: any JSON value.
            reference: what is right.
            at: where both stand.
        """
        found, schemas, patterns = Alignment(), self.top, self.patterns
        for part in at:
            schemas, patterns = self._schemas(schemas, part), inside(patterns, part)
        self._align(predicted, reference, at, at, schemas, patterns, found)
        return found

    def _schemas(self, schemas: Schemas, part: str | int) -> Schemas:
        return tuple(inner for schema in schemas for inner in child(schema, self.root, part))

    def _key(self, value: Any, schemas: Schemas, patterns: Patterns, depth: int) -> str:
        if depth > DEEPEST:
            return f"<deep {id(value)}>"
        if isinstance(value, Mapping) and value:
            parts = []
            for name in sorted(value, key=str):
                inner = self._key(value[name], self._schemas(schemas, name), inside(patterns, name), depth + 1)
                parts.append(f"{scalar_key(name)}:{inner}")
            return "{" + ",".join(parts) + "}"
        if isinstance(value, list | tuple) and value:
            deeper = inside(patterns, 0)
            one = self._element(schemas)
            parts = []
            for i, item in enumerate(value):
                parts.append(self._key(item, self._schemas(schemas, i) if one is None else one, deeper, depth + 1))
            return "[" + ",".join(sorted(parts) if () in patterns else parts) + "]"
        return scalar_key(value, number=type(value) in (int, float) and says_number(schemas, self.root))

    def _element(self, schemas: Schemas) -> Schemas | None:
        """The schema of all elements alike; None where each has its own."""
        own = any(
            "prefixItems" in node or isinstance(node.get("items"), list)
            for s in schemas
            for node in branches(s, self.root)
        )
        return None if own else self._schemas(schemas, 0)

    def _align(
        self, predicted: Any, reference: Any, path: Path, other: Path, schemas: Schemas, patterns: Patterns,
        found: Alignment,
    ) -> None:  # fmt: skip
        """Both are at the same place: `path` in the prediction, `other` in the reference."""
        both = (predicted, reference)
        if len(path) > DEEPEST:
            _differ(predicted, reference, path, other, found)
        elif all(isinstance(v, Mapping) and v for v in both):
            for name in predicted:
                if name in reference:
                    inner = self._schemas(schemas, name), inside(patterns, name)
                    self._align(predicted[name], reference[name], (*path, name), (*other, name), *inner, found)
                else:
                    found.add_alone(predicted[name], (*path, name))
            for name in reference:
                if name not in predicted:
                    found.omitted += below(reference[name], (*other, name))
        elif all(isinstance(v, list | tuple) and v for v in both):
            self._align_arrays(predicted, reference, path, other, schemas, patterns, found)
        elif any(isinstance(v, Mapping | list | tuple) and v for v in both):
            _differ(predicted, reference, path, other, found)
        elif self._key(predicted, schemas, patterns, 0) == self._key(reference, schemas, patterns, 0):
            found.right[path] = True
        else:
            found.right[path] = False
            found.changed.append((Leaf(path, predicted), Leaf(other, reference)))

    def _align_arrays(
        self, predicted: Sequence[Any], reference: Sequence[Any], path: Path, other: Path, schemas: Schemas,
        patterns: Patterns, found: Alignment,
    ) -> None:  # fmt: skip
        """Element by element, in order or as they fit best."""
        pairs = {i: i for i in range(min(len(predicted), len(reference)))}
        deeper = inside(patterns, 0)
        if () in patterns:
            pairs = self._assigned(predicted, reference, self._schemas(schemas, 0), deeper)
        for i, item in enumerate(predicted):
            if i in pairs:
                j = pairs[i]
                inner = self._schemas(schemas, i)
                self._align(item, reference[j], (*path, i), (*other, j), inner, deeper, found)
            else:
                found.add_alone(item, (*path, i))
        met = set(pairs.values())
        for j, item in enumerate(reference):
            if j not in met:
                found.omitted += below(item, (*other, j))

    def _assigned(
        self, predicted: Sequence[Any], reference: Sequence[Any], schemas: Schemas, patterns: Patterns
    ) -> dict[int, int]:
        """Index of every predicted element -> that of the reference's element it is laid over."""
        waiting: dict[str, list[int]] = {}
        for j in range(len(reference) - 1, -1, -1):
            waiting.setdefault(self._key(reference[j], schemas, patterns, 0), []).append(j)
        pairs: dict[int, int] = {}
        for i, item in enumerate(predicted):
            same = waiting.get(self._key(item, schemas, patterns, 0))
            if same:
                pairs[i] = same.pop()
        rows = [i for i in range(len(predicted)) if i not in pairs]
        columns = sorted(j for same in waiting.values() for j in same)
        if rows and columns:
            gains = [[self._gain(predicted[i], reference[j], schemas, patterns) for j in columns] for i in rows]
            pairs.update({rows[i]: columns[j] for i, j in assign(gains)})
        return pairs

    def _gain(self, predicted: Any, reference: Any, schemas: Schemas, patterns: Patterns) -> int:
        """Leaves that are right if these two elements are laid over one another."""
        found = Alignment()
        self._align(predicted, reference, (), (), schemas, patterns, found)
        return found.same_count


def inside(patterns: Patterns, part: str | int) -> Patterns:
    """Patterns of unordered arrays as seen from inside a property or an element."""
    if not patterns:
        return ()
    index = isinstance(part, int)
    return tuple(p[1:] for p in patterns if p and (p[0] == str(part) or (index and p[0] == "*")))


def below(value: Any, path: Path) -> list[Leaf]:
    """Leaves of a value that stands at a path."""
    return [Leaf((*path, *leaf.path), leaf.value) for leaf in leaves(value)]


def nothing_like(predicted: Any, reference: Any) -> Alignment:
    """The alignment of things that have nothing in common."""
    found = Alignment()
    _differ(predicted, reference, (), (), found)
    return found


def _differ(predicted: Any, reference: Any, path: Path, other: Path, found: Alignment) -> None:
    """Values of different structure at one place: nothing in them is right."""
    found.add_alone(predicted, path)
    found.omitted += below(reference, other)
