"""The score of a task's calls: exactness by the task's own rule, fields, schema, kinds of mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolsavvy.calls import bfcl
from toolsavvy.calls.assignment import assign
from toolsavvy.calls.attempts import Call
from toolsavvy.calls.comparing import Alignment, Counts
from toolsavvy.calls.faults import KINDS, faults_of
from toolsavvy.calls.flattening import leaves
from toolsavvy.calls.matching import alignment, missed
from toolsavvy.calls.schema_check import valid
from toolsavvy.tasks import ParamTask

NOTHING = Counts(0, 0, 0)


@dataclass(frozen=True)
class Score:
    """How right the calls of one task are.

    Args:
        exact: by the task's rule.
        precision: right share of the predicted fields.
        recall: predicted share of the right fields.
        f1: of both. Of a task that wants no call, or any: 1 where it is met, else 0.
        valid: every call is of a tool that was offered and keeps to its schema; False without a call where one is due.
        faults: kinds of mistakes, in the order of `faults.KINDS`.
        counts: fields that are right, wrong, missed: for averages over fields instead of over tasks.
    """

    exact: bool
    precision: float
    recall: float
    f1: float
    valid: bool
    faults: tuple[str, ...] = ()
    counts: Counts = NOTHING


def score(task: ParamTask, calls: Sequence[Call] | None) -> Score:
    """Score what was predicted for a task.

    `exact` compares as `matching` does; several references may come in any order, each once. `bfcl` decides by BFCL's
    own rules (`bfcl.is_right`), fields as ever. `any_call` asks for a call, whichever. A task without references asks
    for no call, and an answer that holds nothing readable makes none.

    Args:
        task: in per-call form or a whole record.
        calls: in order; () for an answer without a call, None for one that could not be read.
    """
    made = tuple(calls or ())
    is_valid = all(_is_valid(task, call) for call in made)
    if task.rule == "any_call":
        return _whole(bool(made), is_valid and bool(made), () if made else (_none(calls),))
    if not task.references:
        return _whole(not made, is_valid, ("extra_call",) if made else ())
    if not made:
        due = sum((missed(task, reference) for reference in task.references), NOTHING)
        return Score(False, 0.0, 0.0, 0.0, False, (_none(calls),), due)
    return _against(task, made, is_valid)


def _against(task: ParamTask, calls: Sequence[Call], is_valid: bool) -> Score:
    """Score calls against references."""
    pairs, laid = _paired(task, calls)
    counts, kinds = NOTHING, set[str]()
    for i, call in enumerate(calls):
        if i in pairs:
            counts, kinds = counts + laid[i].counts, kinds | set(faults_of(laid[i]))
        else:
            counts += Counts(0, len(leaves(call.arguments)), 0)
    alone = [call for i, call in enumerate(calls) if i not in pairs]
    left = [r for j, r in enumerate(task.references) if j not in pairs.values()]
    counts = sum((missed(task, reference) for reference in left), counts)
    kinds |= {"wrong_tool"} if alone and left else set()
    kinds |= {"extra_call"} if len(alone) > len(left) else set()
    kinds |= {"no_call"} if len(left) > len(alone) else set()
    right = not kinds if task.rule != "bfcl" else bfcl.is_right(task, calls)
    shown = () if right else tuple(kind for kind in KINDS if kind in kinds)
    return Score(right, counts.precision, counts.recall, counts.f1, is_valid, shown, counts)


def _paired(task: ParamTask, calls: Sequence[Call]) -> tuple[dict[int, int], dict[int, Alignment]]:
    """Which call stands for which reference: the same tool, most right fields; and how they lie on one another."""
    references = task.references
    laid = {
        (i, j): alignment(call.arguments, task, reference)
        for i, call in enumerate(calls)
        for j, reference in enumerate(references)
        if call.name == reference.name
    }
    gains = [[_gain(laid.get((i, j))) for j in range(len(references))] for i in range(len(calls))]
    pairs = {i: j for i, j in assign(gains) if (i, j) in laid}
    return pairs, {i: laid[i, j] for i, j in pairs.items()}


def _gain(found: Alignment | None) -> int:
    """What a pair is worth: being the same tool, right fields, and above all being exact."""
    if found is None:
        return 0
    return 1 + 2 * found.same_count + (1_000 if found.is_exact else 0)


def _is_valid(task: ParamTask, call: Call) -> bool:
    """Whether a call is of a tool that was offered and keeps to its schema."""
    tool = next((tool for tool in task.tools if tool.name == call.name), None)
    return tool is not None and valid(call.arguments, tool.parameters)


def _none(calls: Sequence[Call] | None) -> str:
    """Why there is no call."""
    return "not_json" if calls is None else "no_call"


def _whole(is_right: bool, is_valid: bool, kinds: tuple[str, ...]) -> Score:
    """The score of a task that has no fields."""
    share = float(is_right)
    return Score(is_right, share, share, share, is_valid, kinds)
