"""Whether the arguments of a call are right: the whole object and field by field, as `comparing` says what is the same.

`null` is a value like any other: an argument that is null is not the same as one that is left out, since an API treats
them differently. Where a task accepts several values of an argument, the one nearest to the prediction counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolsavvy.calls import bfcl
from toolsavvy.calls.comparing import Alignment, Comparison, Counts, below, nothing_like
from toolsavvy.calls.flattening import Leaf, Path
from toolsavvy.catalog import Tool
from toolsavvy.tasks import OMITTED, ParamTask, Reference


def exact(arguments: Mapping[str, Any], task: ParamTask, reference: Reference | None = None) -> bool:
    """Whether the whole object is right.

    Args:
        arguments: as predicted.
        task: in per-call form, unless `reference` is given.
        reference: one of the task's, `task.reference` by default.
    """
    return alignment(arguments, task, reference).is_exact


def field_counts(arguments: Mapping[str, Any] | None, task: ParamTask, reference: Reference | None = None) -> Counts:
    """Fields over flattened (path, value): right, wrong and missed; None predicts nothing."""
    if arguments is None:
        return missed(task, reference)
    return alignment(arguments, task, reference).counts


def right_fields(arguments: Mapping[str, Any], task: ParamTask, reference: Reference | None = None) -> dict[Path, bool]:
    """Whether each predicted (path, value) is right, in the order of `flattening.leaves(arguments)`."""
    return alignment(arguments, task, reference).right


def missed(task: ParamTask, reference: Reference | None = None) -> Counts:
    """The counts of a call that was not made."""
    reference = reference or task.reference
    if reference.accepted is None:
        return Counts(0, 0, len(below(reference.arguments, ())))
    return Counts(0, 0, alignment({}, task, reference).counts.fn)


def alignment(arguments: Mapping[str, Any], task: ParamTask, reference: Reference | None = None) -> Alignment:
    """The prediction laid over the reference, or over the nearest accepted values of each argument."""
    reference = reference or task.reference
    comparison = comparison_of(task, reference.name)
    if not isinstance(arguments, Mapping):
        return nothing_like(arguments, reference.arguments)
    if reference.accepted is None:
        return comparison.align(dict(arguments), dict(reference.arguments))
    return _aligned(arguments, _Accepting(task, reference), comparison)


def comparison_of(task: ParamTask, name: str) -> Comparison:
    """What counts as the same for one of a task's tools; kept with the task, since it is asked for often."""
    kept: dict[str, Comparison] = task.__dict__.setdefault("_comparisons", {})
    if name not in kept:
        schema = next((tool.parameters for tool in task.tools if tool.name == name), {})
        kept[name] = Comparison(schema, task.unordered)
    return kept[name]


class _Accepting:
    """What a task's reference accepts, argument by argument."""

    def __init__(self, task: ParamTask, reference: Reference) -> None:
        self.reference, self.language = reference, task.language
        self.accepted = reference.accepted or {}
        self.is_bfcl = task.rule == "bfcl"
        tool = next((tool for tool in task.tools if tool.name == reference.name), None)
        self.tool = tool or Tool(reference.name, reference.name)
        self.required = set(bfcl.required(self.tool)) if self.is_bfcl else set()

    @property
    def due(self) -> list[str]:
        """Arguments that may not be left out."""
        names = dict.fromkeys((*self.reference.arguments, *self.accepted))
        return [n for n in names if OMITTED not in self.accepted.get(n, ()) or n in self.required]

    def choices(self, name: str, value: Any) -> Sequence[Any]:
        """Values that are right, the reference's own first; an empty text only where it was predicted."""
        own = [self.reference.arguments[name]] if name in self.reference.arguments else []
        also = [choice for choice in self.accepted.get(name, ()) if choice != OMITTED or value == OMITTED]
        if self.is_bfcl and also:
            properties = self.tool.parameters.get("properties", {})
            slot = bfcl.slot_of(properties.get(name, {}))
            also = [bfcl.concrete(choice, slot, self.language) for choice in also]
        return [*own, *also]

    def decides(self, name: str, value: Any) -> bool | None:
        """BFCL's own verdict on a value; None where values are compared as ever."""
        if not self.is_bfcl:
            return None
        return bfcl.argument_is_right(self.tool, name, value, self.accepted, self.language)


def _aligned(arguments: Mapping[str, Any], accepting: _Accepting, comparison: Comparison) -> Alignment:
    """Argument by argument, each over the nearest of its accepted values."""
    found, due = Alignment(), set(accepting.due)
    for name, value in arguments.items():
        verdict, choices = accepting.decides(name, value), accepting.choices(name, value)
        if verdict:
            found.add(Alignment(dict.fromkeys((leaf.path for leaf in below(value, (name,))), True)))
            continue
        laid = [comparison.align(value, choice, (name,)) for choice in choices]
        nearest = max(laid, key=_nearness, default=None)
        if nearest is not None and nearest.is_exact and verdict is False:
            nearest = _refused(value, (name,))
        if nearest is None or (name not in due and not nearest.same_count):
            found.add_alone(value, (name,))  # leaving it out would have been nearer
        else:
            found.add(nearest)
    for name in accepting.due:
        if name not in arguments:
            choices = accepting.choices(name, None)
            found.omitted += below(choices[0], (name,)) if choices else []
    if not arguments:
        found.right[()] = not found.omitted
        found.spurious += [Leaf((), {})] if found.omitted else []
    return found


def _refused(value: Any, path: Path) -> Alignment:
    """A value that looks right and that the task's rule refuses: another type than the schema's."""
    return Alignment(
        dict.fromkeys((leaf.path for leaf in below(value, path)), False),
        [(leaf, leaf) for leaf in below(value, path)],
    )


def _nearness(found: Alignment) -> tuple[int, int]:
    """Most right leaves, then fewest wrong and missed ones."""
    counts = found.counts
    return counts.tp, -counts.fp - counts.fn
