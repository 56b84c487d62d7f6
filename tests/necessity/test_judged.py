"""Answers to prompts with tools: carried out and checked."""

from __future__ import annotations

import json

import numpy as np
import pytest

from toolsavvy.metrics import bootstrap
from toolsavvy.necessity.answers import Numbers
from toolsavvy.necessity.judged import Judged, judge, shares
from toolsavvy.necessity.question import Question
from toolsavvy.necessity.questions.arithmetic import CALCULATOR


def call(expression: object, name: str = "calculator") -> str:
    record = {"name": name, "arguments": {"expression": expression}}
    return f"<tool_call>\n{json.dumps(record)}\n</tool_call>"


def judged(text: str, gold: float | None = 42) -> Judged:
    return judge([Question("q", "?", "f", gold=gold)], [text], Numbers(), (CALCULATOR,))


@pytest.mark.parametrize(
    ("text", "outcome", "correct"),
    [
        (call("6 * 7"), "called", 1),
        (call("6 * 8"), "called", 0),
        (call("9**9**9"), "called", 0),
        (call("__import__('os').getcwd()"), "called", 0),
        (call("1 / 0"), "called", 0),
        (call("6 * 8") + "\n" + call("6 * 7"), "called", 1),
        ("The answer is 42.", "not_called", 1),
        ("The answer is 43.", "not_called", 0),
        ("No idea.", "not_called", 0),
        ('<tool_call>\n{"name": "calculator", "arguments": {"expr', "malformed", 0),
    ],
)
def test_calls_are_carried_out_and_answers_checked(text: str, outcome: str, correct: float) -> None:
    found = judged(text)
    assert found.outcomes == (outcome,)
    assert found.correct.tolist() == [correct]


def test_a_result_that_nobody_knows_is_not_a_number() -> None:
    assert np.isnan(judged(call("6 * 7"), gold=None).correct[0])
    unknown = judge(
        [Question("q", "?", "f", gold=42)], [call("6 * 7")], Numbers(), (CALCULATOR,), execute=lambda q, calls: None
    )
    assert np.isnan(unknown.correct[0])


def test_numbers_of_other_kinds_are_compared_as_numbers() -> None:
    assert judged(call("1 / 4"), gold=0.25).correct[0] == 1
    assert judged(call("10 / 4"), gold=2).correct[0] == 0
    assert judged(call("0.1 + 0.2"), gold=0.3).correct[0] == 1
    assert judged(call("84 / 2")).correct[0] == 1


def test_a_mixture_takes_each_question_from_one_side() -> None:
    a = Judged(("called", "malformed", "called"), np.array([1.0, 0, np.nan]))
    b = Judged(("not_called", "not_called", "refused"), np.array([0.0, 1, 0]))
    mixed = a.where(np.array([True, False, True]), b)
    assert mixed.outcomes == ("called", "not_called", "called")
    np.testing.assert_array_equal(mixed.correct, [1, 1, np.nan])
    assert mixed.parsed.tolist() == [True, True, True]
    assert a.parsed.tolist() == [True, False, True]


def test_shares_are_the_bootstraps_of_their_columns() -> None:
    values = np.random.default_rng(0).random((30, 3))
    values[::4, 1] = np.nan
    values[:, 2] = np.nan
    clusters = np.arange(30) // 3
    found = shares(values, clusters, 200, 5)
    wanted = [bootstrap(values[:, j], clusters, 200, 5) for j in range(3)]
    for ours, theirs in zip(found[:2], wanted[:2], strict=True):
        assert ours.n == theirs.n
        assert (ours.value, ours.low, ours.high) == pytest.approx((theirs.value, theirs.low, theirs.high))
    assert (found[2].value, found[2].n) == (None, 0)
