"""What answers to prompts with tools come to: calls are carried out, answers are checked, questions are right or not.

A call counts as right if what the tool gives back is right: that the model then repeats it is assumed, no second turn
is generated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from toolsavvy.calls.arithmetic import evaluate
from toolsavvy.calls.parsing import Call, outcome_of, parse_calls
from toolsavvy.metrics import Interval
from toolsavvy.necessity.estimates import Clusters, estimates, over
from toolsavvy.necessity.question import Checker, Outcome, Question

Execute = Callable[[Question, tuple[Call, ...]], bool | None]
"""Whether what the calls give back answers the question; None where nobody can tell."""


@dataclass(frozen=True)
class Judged:
    """Answers of one model to prompts with tools.

    Args:
        outcomes: [question].
        correct: float64 [question], 1 right, 0 wrong; NaN for calls whose result nobody knows, and for answers that
            nobody checks. Malformed calls and refusals are wrong.
    """

    outcomes: tuple[Outcome, ...]
    correct: np.ndarray

    def is_(self, *kinds: Outcome) -> np.ndarray:
        """Which outcomes are of these kinds, bool [question]."""
        return np.array([outcome in kinds for outcome in self.outcomes], dtype=bool)

    @property
    def called(self) -> np.ndarray:
        """Which questions end in a call that can be read, bool [question]."""
        return self.is_("called")

    @property
    def parsed(self) -> np.ndarray:
        """Which questions end in a call or an answer, bool [question]."""
        return self.is_("called", "not_called")

    def where(self, chosen: np.ndarray, other: Judged) -> Judged:
        """Question by question this one where chosen, else the other: what mixing two ways of asking comes to."""
        chosen = np.asarray(chosen, dtype=bool)
        outcomes: list[Outcome] = [*other.outcomes]
        for i in np.flatnonzero(chosen):
            outcomes[i] = self.outcomes[i]
        return Judged(tuple(outcomes), np.where(chosen, self.correct, other.correct))


def judge(
    questions: Sequence[Question],
    texts: Sequence[str],
    checker: Checker | None,
    tools: Sequence[Mapping[str, Any]] = (),
    execute: Execute | None = None,
) -> Judged:
    """Read answers: called or not, right or not.

    Args:
        questions: in order.
        texts: one answer each.
        checker: of answers without a call; one that it cannot read is wrong. None where nothing can check them.
        tools: offered with questions that have none of their own.
        execute: carries calls out; None is `calculated`.
    """
    execute = execute or calculated
    offered = [q.tools or tools for q in questions]
    outcomes: tuple[Outcome, ...] = tuple(outcome_of(text, own) for text, own in zip(texts, offered, strict=True))
    correct = np.zeros(len(questions))
    plain = [i for i, outcome in enumerate(outcomes) if outcome == "not_called"]
    if checker is None:
        correct[plain] = np.nan
    else:
        verdicts = checker.check([questions[i] for i in plain], [texts[i] for i in plain])
        correct[plain] = [bool(verdict.correct) for verdict in verdicts]
    for i, outcome in enumerate(outcomes):
        if outcome == "called":
            right = execute(questions[i], parse_calls(texts[i], offered[i]).calls)
            correct[i] = np.nan if right is None else float(right)
    return Judged(outcomes, correct)


def calculated(question: Question, calls: tuple[Call, ...]) -> bool | None:
    """Whether the last calculator call gives the exact answer; None without a number or such a call.

    An expression that is out of bounds or no arithmetic is wrong, as the tool would give an error.
    """
    expressions = [call.arguments.get("expression") for call in calls if call.name == "calculator"]
    if question.gold is None or not expressions:
        return None
    try:
        value = evaluate(str(expressions[-1]))
        if isinstance(value, float) or isinstance(question.gold, float):
            return math.isclose(float(value), float(question.gold), rel_tol=1e-9, abs_tol=1e-12)
    except (ValueError, OverflowError):  # also a whole number that no float can hold
        return False
    return Fraction(value) == Fraction(question.gold)


def shares(values: np.ndarray, clusters: Clusters, resamples: int, seed: int) -> list[Interval]:
    """Means over the defined values of each column with intervals from the same resamples; n counts the defined ones.

    Args:
        values: float [item, column], NaN where undefined.
        clusters: [item], what is independent; None for the items.
        resamples: bootstrap replicates.
        seed: of the resampling.
    """
    table = np.asarray(values, dtype=np.float64)
    defined, columns = ~np.isnan(table), table.shape[1]
    both = np.hstack([np.nan_to_num(table), defined])
    found = estimates(
        both, None, clusters, lambda s: over(s[..., :columns], s[..., columns:]), resamples=resamples, seed=seed
    )
    counts = defined.sum(axis=0).tolist()
    return [Interval(i.value, i.low, i.high, n) for i, n in zip(found, counts, strict=True)]
