"""What may tell whether a predicted value is right: a probe, the model's own certainty, agreement, and a control.

Every signal is a number in [0, 1] per field; a call has the lowest of its fields (0 where it can't be read or has no
field). Only the probe and the control are trained, on the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolsavvy.calls.flattening import Path, leaves, scalar_key
from toolsavvy.parameters.fields import FieldTable, call_key
from toolsavvy.parameters.linear import Calibrated, fit_calibrated
from toolsavvy.parameters.probe import ValueProbe, check_rows
from toolsavvy.tasks import ParamTask

KINDS = ("string", "integer", "number", "boolean", "null", "object", "array")


@dataclass(frozen=True)
class Signal:
    """Scores of a table.

    Args:
        name: probe | logprob | logprob_mean | consistency | p_true | control, as tables call it.
        fields: float64 [field], in [0, 1].
        calls: float64 [candidate], in [0, 1].
    """

    name: str
    fields: np.ndarray
    calls: np.ndarray


def from_probe(table: FieldTable, probe: ValueProbe, name: str = "probe") -> Signal:
    """Probability of a trained probe that the value is right."""
    return from_fields(table, probe.score_fields(table), name)


def from_fields(table: FieldTable, scores: np.ndarray, name: str) -> Signal:
    """A signal of given field scores, float64 [field] in [0, 1]."""
    return Signal(name, scores, table.calls(scores))


def log_probability(table: FieldTable, *, mean: bool = False) -> Signal:
    """Probability of the value's least likely token, or the geometric mean over its tokens."""
    values = table.logprob_mean if mean else table.logprob_min
    scores = np.exp(np.minimum(np.nan_to_num(values, nan=-np.inf, neginf=-np.inf), 0.0))
    return from_fields(table, scores, "logprob_mean" if mean else "logprob")


def consistency(table: FieldTable) -> Signal:
    """Self-consistency: share of the task's samples with the same value at the same path; of a call: identical calls.

    A sample is not counted for itself: it agrees with itself always.

    Raises:
        ValueError: a task has no sample to compare with.
    """
    fields, calls = np.zeros(len(table)), np.zeros(len(table.candidates))
    for task, members in zip(table.tasks, table.groups, strict=True):
        voters = [c for c in members.tolist() if table.index[c] > 0]
        if len(members) and not voters:
            raise ValueError(f"self-consistency needs samples, and task {task.id!r} has none")
        said = {c: _said(table.candidates[c].arguments) for c in members.tolist()}
        votes = Counter(pair for c in voters for pair in said[c])
        called = {c: _call(table.candidates[c].arguments, task) for c in members.tolist()}
        alike = Counter(called[c] for c in voters)
        for c in members.tolist():
            own = int(table.index[c] > 0)
            others = max(len(voters) - own, 1)
            rows = table.rows[c]
            pairs = [(table.paths[i], scalar_key(table.values[i])) for i in range(rows.start, rows.stop)]
            fields[rows] = [(votes[pair] - own) / others for pair in pairs]
            calls[c] = (alike[called[c]] - own) / others if table.whole[c] else 0.0
    return Signal("consistency", fields, calls)


def _said(arguments: Mapping[str, Any] | None) -> tuple[tuple[Path, str], ...]:
    """Every path with its value, comparable; of a call that can't be read nothing."""
    return () if arguments is None else tuple((leaf.path, scalar_key(leaf.value)) for leaf in leaves(arguments))


def _call(arguments: Mapping[str, Any] | None, task: ParamTask) -> str | None:
    return None if arguments is None else call_key(arguments, task)


def p_true(table: FieldTable) -> Signal:
    """Probability that the model itself gives its answer of being right; one for all fields of a call.

    Raises:
        ValueError: a candidate was not asked about.
    """
    asked = [c.p_true for c in table.candidates]
    if any(value is None for value, whole in zip(asked, table.whole, strict=True) if whole):
        raise ValueError("P(True) was not asked for every candidate")
    scores = np.array([0.0 if value is None else value for value in asked])
    return from_fields(table, scores[table.candidate], "p_true")


def surface(table: FieldTable) -> np.ndarray:
    """What a value looks like from outside, float32 [field, feature]: length, position, depth, kind."""
    numbers = np.stack([
        np.log1p(table.tokens), np.log1p(table.position), np.array([len(p) for p in table.paths], dtype=np.float64),
        np.array([any(isinstance(part, int) for part in p) for p in table.paths], dtype=np.float64),
    ], axis=1).reshape(len(table), 4)  # fmt: skip
    kinds = np.array([KINDS.index(kind_of(v)) for v in table.values], dtype=np.int64)
    return np.concatenate([numbers, np.eye(len(KINDS))[kinds]], axis=1).astype(np.float32)


def kind_of(value: Any) -> str:
    """JSON's name of a value's type."""
    if isinstance(value, bool):
        return "boolean"
    if value is None:
        return "null"
    for kind, name in ((int, "integer"), (float, "number"), (str, "string"), (Mapping, "object")):
        if isinstance(value, kind):
            return name
    return "array"


@dataclass(frozen=True)
class Control:
    """Logistic regression on a value's length, position, depth and kind: what a probe on states has to beat.

    Args:
        linear: weights and calibration.
    """

    linear: Calibrated

    @classmethod
    def fit(cls, table: FieldTable, *, folds: int = 5, seed: int = 0) -> Control:
        """Train on the probe's own rows, with its choice of penalty and its calibration.

        Raises:
            UserError: as `probe.fit` does.
        """
        check_rows(table)
        (fitted,) = fit_calibrated([surface(table)], table.right, table.field_clusters, folds=folds, seed=seed)
        return cls(fitted.model)

    def score(self, table: FieldTable) -> Signal:
        """Its probabilities."""
        scores = self.linear.probabilities(surface(table)) if len(table) else np.zeros(0)
        return from_fields(table, scores, "control")


def all_signals(
    table: FieldTable, *, probe: ValueProbe | None = None, control: Control | None = None
) -> dict[str, Signal]:
    """Every signal that the table allows, the probe's first."""
    found: list[Signal] = [] if probe is None else [from_probe(table, probe)]
    found += [log_probability(table), log_probability(table, mean=True)]
    if all((table.index[members] > 0).any() for members in table.groups if len(members)):
        found.append(consistency(table))
    if all(c.p_true is not None for c, whole in zip(table.candidates, table.whole, strict=True) if whole):
        found.append(p_true(table))
    if control is not None:
        found.append(control.score(table))
    return {signal.name: signal for signal in found}


def stacked(signals: Mapping[str, Signal], *, calls: bool) -> tuple[Sequence[str], np.ndarray]:
    """Names and scores, float64 [field or candidate, signal]."""
    columns = [s.calls if calls else s.fields for s in signals.values()]
    return tuple(signals), np.stack(columns, axis=1) if columns else np.zeros((0, 0))
