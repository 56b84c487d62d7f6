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
from toolsavvy.calls.places import Place

DEEPEST = 150
"""Levels that are compared; what is deeper is never the same."""
MOST_PAIRS = 2_500
"""Pairs of elements of an unordered array that are compared; of more, those that are not equal are paired in order."""


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
        self.top = Place.top(schema, unordered)

    def key(self, value: Any) -> str:
        """A text that two values share exactly if they are the same."""
        return _key(value, self.top, 0)

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
        found, place = Alignment(), self.top
        for part in at:
            place = place.at(part)
        _align(predicted, reference, at, at, place, found)
        return found


def _key(value: Any, place: Place, depth: int) -> str:
    """A text that two values share exactly if they are the same at this place."""
    if depth > DEEPEST:
        return f"<deep {id(value)}>"
    if isinstance(value, dict) and value:
        parts = [f"{scalar_key(n)}:{_key(value[n], place.at(n), depth + 1)}" for n in sorted(value, key=str)]
        return "{" + ",".join(parts) + "}"
    if isinstance(value, list | tuple) and value:
        parts = [_key(item, place.at(i), depth + 1) for i, item in enumerate(value)]
        return "[" + ",".join(sorted(parts) if place.is_unordered else parts) + "]"
    return scalar_key(value, number=type(value) in (int, float) and place.is_number)


def _align(predicted: Any, reference: Any, path: Path, other: Path, place: Place, found: Alignment) -> None:
    """Both are at the same place: `path` in the prediction, `other` in the reference."""
    is_scalar = [not v or not isinstance(v, dict | list | tuple) for v in (predicted, reference)]
    if all(is_scalar):
        found.right[path] = _key(predicted, place, 0) == _key(reference, place, 0)
        if not found.right[path]:
            found.changed.append((Leaf(path, predicted), Leaf(other, reference)))
    elif any(is_scalar) or len(path) > DEEPEST or isinstance(predicted, dict) != isinstance(reference, dict):
        _differ(predicted, reference, path, other, found)
    elif isinstance(predicted, dict):
        for name, value in predicted.items():
            if name in reference:
                _align(value, reference[name], (*path, name), (*other, name), place.at(name), found)
            else:
                found.add_alone(value, (*path, name))
        for name, value in reference.items():
            if name not in predicted:
                found.omitted += below(value, (*other, name))
    else:
        _align_arrays(predicted, reference, path, other, place, found)


def _align_arrays(
    predicted: Sequence[Any], reference: Sequence[Any], path: Path, other: Path, place: Place, found: Alignment
) -> None:
    """Element by element, in order or as they fit best."""
    pairs = {i: i for i in range(min(len(predicted), len(reference)))}
    if place.is_unordered:
        pairs = _assigned(predicted, reference, place)
    for i, item in enumerate(predicted):
        if i in pairs:
            j = pairs[i]
            _align(item, reference[j], (*path, i), (*other, j), place.at(i), found)
        else:
            found.add_alone(item, (*path, i))
    met = set(pairs.values())
    for j, item in enumerate(reference):
        if j not in met:
            found.omitted += below(item, (*other, j))


def _assigned(predicted: Sequence[Any], reference: Sequence[Any], place: Place) -> dict[int, int]:
    """Index of every predicted element -> that of the reference's element it is laid over."""
    waiting: dict[str, list[int]] = {}
    for j in range(len(reference) - 1, -1, -1):
        waiting.setdefault(_key(reference[j], place.at(j), 0), []).append(j)
    pairs: dict[int, int] = {}
    for i, item in enumerate(predicted):
        same = waiting.get(_key(item, place.at(i), 0))
        if same:
            pairs[i] = same.pop()
    rows = [i for i in range(len(predicted)) if i not in pairs]
    columns = sorted(j for same in waiting.values() for j in same)
    if len(rows) * len(columns) > MOST_PAIRS:
        return {**pairs, **dict(zip(rows, columns, strict=False))}
    if len(rows) == len(columns) == 1:
        return {**pairs, rows[0]: columns[0]}
    gains = [[_gain(predicted[i], reference[j], place.at(i)) for j in columns] for i in rows]
    return {**pairs, **{rows[i]: columns[j] for i, j in assign(gains)}}


def _gain(predicted: Any, reference: Any, place: Place) -> int:
    """Leaves that are right if these two elements are laid over one another."""
    found = Alignment()
    _align(predicted, reference, (), (), place, found)
    return found.same_count


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
