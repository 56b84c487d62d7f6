"""MCQ and QA as suites: accuracy, ties, slices, records and controls from given answers, no model involved."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from toolsavvy.benchmark import ChoiceItem, ItemSet, ToolText, YesNoItem
from toolsavvy.errors import UserError
from toolsavvy.metrics import Resamples, bootstrap
from toolsavvy.suites.mcq import ChoiceAnswers, Mcq
from toolsavvy.suites.qa import Qa, auc, auc_replicates
from toolsavvy.suites.table import Outcome

N = 24
TEXTS = {f"t{i}": ToolText(f"t{i}", f"service{i % 4}", f"name{i}", "", "") for i in range(N // 2)}
CHOICES = ItemSet(
    tuple(
        ChoiceItem(f"m{i}", f"What {i}?", f"right {i}", ("a", "bb", "ccc"), f"t{i // 2}", "xy"[i % 2]) for i in range(N)
    ),
    TEXTS,
)
YES_NO = ItemSet(
    tuple(YesNoItem(f"q{i}", f"Does it {i}?", i % 3 == 0, f"t{i // 2}", "xy"[i % 2]) for i in range(N)), TEXTS
)


def value(outcome: Outcome, system: str, part: str, metric: str) -> float | None:
    (found,) = (r for r in outcome.results if (r.system, r.slice, r.metric) == (system, part, metric))
    assert found.k is None
    assert found.suite == outcome.suite
    return found.value


def scores(right: list[int]) -> np.ndarray:
    """The right option wins (1), shares the point with one other (2) or with all (4), or loses (0)."""
    rows = {1: [1.0, 0, 0, 0], 2: [1.0, 1, 0, 0], 4: [0.0, 0, 0, 0], 0: [0.0, 1, 0, 0]}
    return np.array([rows[r] for r in right])


def test_choices_are_counted_with_ties_shared_in_both_ways_and_by_pattern() -> None:
    right = [1, 0, 2, 4] * (N // 4)
    systems = {"model": ChoiceAnswers(scores(right), scores([1] * N)), "bm25": ChoiceAnswers(-scores(right))}
    outcome = Mcq(resamples=50).run(CHOICES, systems)
    assert value(outcome, "model", "likelihood", "accuracy") == pytest.approx((1 + 0 + 0.5 + 0.25) / 4)
    assert value(outcome, "model", "letters", "accuracy") == 1
    assert value(outcome, "model", "likelihood/pattern=x", "accuracy") == pytest.approx(0.75)
    assert value(outcome, "model", "likelihood/pattern=y", "accuracy") == pytest.approx(0.125)
    assert not [r for r in outcome.results if r.system == "bm25" and r.slice.startswith("letters")]
    assert value(outcome, "blind_longest_option", "letters", "accuracy") == 1
    assert value(outcome, "blind_name_overlap", "likelihood", "accuracy") == pytest.approx(0.25)
    assert outcome.columns == (("accuracy", None),)
    assert outcome.shown == ("likelihood", "letters")


def test_intervals_are_over_tools() -> None:
    right = np.array([float(i % 4 < 2) for i in range(N)])
    outcome = Mcq(resamples=400, seed=3).run(CHOICES, {"a": ChoiceAnswers(scores(right.astype(int).tolist()))})
    expected = bootstrap(right, [item.tool for item in CHOICES.items], 400, 3)
    (found,) = (r for r in outcome.results if (r.system, r.slice) == ("a", "likelihood"))
    assert (found.value, found.low, found.high, found.n) == (expected.value, expected.low, expected.high, N)


def test_records_of_choices() -> None:
    systems = {"model": ChoiceAnswers(scores([2] * N), scores([0] * N)), "bm25": ChoiceAnswers(scores([1] * N))}
    outcome = Mcq(resamples=5).run(CHOICES, systems)
    record = json.loads(json.dumps(asdict(outcome.predictions["model"][3]), allow_nan=False))
    assert record == {
        "suite": "mcq", "system": "model", "id": "m3", "tool": "t1", "pattern": "y", "question": "What 3?",
        "options": ["right 3", "a", "bb", "ccc"], "likelihood": [1, 1, 0, 0], "letters": [0, 1, 0, 0],
        "correct_likelihood": 0.5, "correct_letters": 0,
    }  # fmt: skip
    assert asdict(outcome.predictions["bm25"][0])["letters"] is None
    assert asdict(outcome.predictions["bm25"][0])["correct_letters"] is None
    assert set(outcome.predictions) > {"blind_answer_prior", "blind_name_overlap", "blind_longest_option"}


def test_pairs_are_tested_and_unknown_ones_refused() -> None:
    systems = {"a": ChoiceAnswers(scores([1] * N)), "b": ChoiceAnswers(scores([0, 1] * (N // 2)))}
    outcome = Mcq(resamples=50, pairs=[["a", "b"]]).run(CHOICES, systems)
    (pair,) = (c for c in outcome.comparisons if (c.system, c.rival, c.slice) == ("a", "b", "likelihood"))
    assert pair.difference == pytest.approx(0.5)
    assert pair.p < 0.01
    with pytest.raises(UserError, match="'c' is no system") as caught:
        Mcq(pairs=[["a", "c"]]).run(CHOICES, systems)
    assert caught.value.where == "suite.mcq.pairs"
    assert "a, b" in caught.value.expected


@pytest.mark.parametrize("suite", [Mcq, Qa])
@pytest.mark.parametrize(("key", "bad"), [("n", 0), ("resamples", 0)])
def test_values_out_of_range(suite: Any, key: str, bad: int) -> None:
    with pytest.raises(UserError, match=f"{key}=0") as caught:
        suite(**{key: bad})
    assert caught.value.where == f"suite.{suite.kind}.{key}"


def test_answers_to_other_items_are_no_answers() -> None:
    with pytest.raises(ValueError, match="answered 3 of 24"):
        Mcq().run(CHOICES, {"a": ChoiceAnswers(scores([1] * 3))})
    with pytest.raises(ValueError, match="answered 3 of 24"):
        Qa().run(YES_NO, {"a": np.zeros(3)})


def test_yes_bias_is_told_apart_from_knowledge() -> None:
    truth = np.array([item.answer for item in YES_NO.items])
    systems = {"knows": np.where(truth, 2.0, -1.0), "biased": np.where(truth, 3.0, 1.0), "mute": np.zeros(N)}
    outcome = Qa(resamples=50).run(YES_NO, systems)
    found = {s: [value(outcome, s, "all", m) for m in ("accuracy", "yes_share", "auc")] for s in systems}
    assert found["knows"] == [1, pytest.approx(truth.mean()), 1]
    assert found["biased"] == [pytest.approx(truth.mean()), 1, 1]
    assert found["mute"] == [0.5, 0.5, 0.5]
    assert value(outcome, "blind_question_only", "all", "accuracy") is not None
    assert value(outcome, "biased", "all/pattern=x", "yes_share") == 1
    record = json.loads(json.dumps(asdict(outcome.predictions["biased"][1]), allow_nan=False))
    assert record == {
        "suite": "qa", "system": "biased", "id": "q1", "tool": "t0", "pattern": "y", "question": "Does it 1?",
        "answer": False, "yes": 1.0, "correct": 0.0,
    }  # fmt: skip


def test_one_kind_of_answer_has_no_area_and_no_infinity() -> None:
    always = ItemSet(tuple(replace(item, answer=True) for item in YES_NO.items), TEXTS)
    outcome = Qa(resamples=20).run(always, {"a": np.linspace(-1, 1, N)})
    assert value(outcome, "a", "all", "auc") is None
    for records in outcome.predictions.values():
        json.dumps([asdict(r) for r in records], allow_nan=False)


@pytest.mark.parametrize("seed", range(4))
def test_area_and_its_resamples_are_those_of_sklearn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth, yes = rng.random(40) < 0.4, rng.integers(0, 6, 40).astype(float)
    assert auc(truth, yes) == pytest.approx(roc_auc_score(truth, yes))
    part = Resamples.of(rng.integers(0, 12, 40), 30, seed)
    weights = np.concatenate(list(part.weights()))[:, part.clusters]
    expected = [roc_auc_score(truth, yes, sample_weight=w) if w @ truth and w @ ~truth else np.nan for w in weights]
    np.testing.assert_allclose(auc_replicates(truth, yes, part), expected)
