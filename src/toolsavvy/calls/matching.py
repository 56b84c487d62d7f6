"""Whether the arguments of a call are right: the whole object and field by field, as `comparing` says what is the same.

`null` is a value like any other: an argument that is null is not the same as one that is left out, since an API treats
them differently. Where a task accepts several values of an argument, the one nearest to the prediction counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolsavvy.calls.comparing import Alignment, Comparison, Counts, below, nothing_like
from toolsavvy.calls.flattening import Leaf, Path
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
    accepted = reference.accepted or {}
    due = {name: value for name, value in reference.arguments.items() if OMITTED not in accepted.get(name, ())}
    return Counts(0, 0, len(below(due, ())))


def alignment(arguments: Mapping[str, Any], task: ParamTask, reference: Reference | None = None) -> Alignment:
    """The prediction laid over the reference, or over the nearest accepted values of each argument."""
    reference = reference or task.reference
    comparison = comparison_of(task, reference.name)
    if not isinstance(arguments, Mapping):
        return nothing_like(arguments, reference.arguments)
    if reference.accepted is None:
        return comparison.align(arguments, reference.arguments)
    return _aligned(arguments, reference, comparison)


def comparison_of(task: ParamTask, name: str) -> Comparison:
    """What counts as the same for one of a task's tools; kept with the task, since it is asked for often."""
    kept: dict[str, Comparison] = task.__dict__.setdefault("_comparisons", {})
    if name not in kept:
        schema = next((tool.parameters for tool in task.tools if tool.name == name), {})
        kept[name] = Comparison(schema, task.unordered)
    return kept[name]


def _aligned(arguments: Mapping[str, Any], reference: Reference, comparison: Comparison) -> Alignment:
    """Argument by argument, each over the nearest of its accepted values."""
    accepted = reference.accepted or {}
    found = Alignment()
    for name, value in arguments.items():
        choices = _choices(name, reference, value)
        if not choices:
            found.add_alone(value, (name,))
            continue
        laid = [comparison.align(value, choice, (name,)) for choice in choices]
        found.add(max(laid, key=_nearness))
    for name in dict.fromkeys((*reference.arguments, *accepted)):
        if name not in arguments and OMITTED not in accepted.get(name, ()):
            choices = _choices(name, reference, None)
            found.omitted += below(choices[0], (name,)) if choices else []
    if not arguments:
        found.right[()] = not found.omitted
        found.same_count += not found.omitted
        found.spurious += [Leaf((), {})] if found.omitted else []
    return found


def _choices(name: str, reference: Reference, value: Any) -> Sequence[Any]:
    """Values of an argument that are right, the reference's own first; an empty text only where it was predicted."""
    accepted = (reference.accepted or {}).get(name)
    own = [reference.arguments[name]] if name in reference.arguments else []
    if accepted is None:
        return own
    return [*own, *(choice for choice in accepted if choice != OMITTED or value == OMITTED)]


def _nearness(found: Alignment) -> tuple[int, int]:
    """Most right leaves, then fewest wrong and missed ones."""
    counts = found.counts
    return counts.tp, -counts.fp - counts.fn
