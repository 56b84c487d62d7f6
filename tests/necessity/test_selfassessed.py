"""Verbalised self-assessment: log-odds of yes as the model has them, words as it writes them, both beside the facts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, matthews_corrcoef, roc_auc_score

from toolsavvy.models.loading import toy_model
from toolsavvy.models.prompts import render
from toolsavvy.models.text import TextEncoder
from toolsavvy.necessity.question import Question
from toolsavvy.necessity.questions.arithmetic import CALCULATOR
from toolsavvy.necessity.selfassessed import NO, YES, decisions, log_odds, prompts, report, said

QUESTIONS = [Question(f"q{i}", f"What is {i} * {i + 3}?", "f") for i in range(5)]


def test_log_odds_are_those_of_the_words_in_all_spellings() -> None:
    model, tokenizer = toy_model(seed=2)
    text = TextEncoder(tokenizer)
    found = log_odds(model, tokenizer, QUESTIONS, (CALCULATOR,))
    for question, odds in zip(QUESTIONS, found, strict=True):
        (prompt,) = prompts([question], (CALCULATOR,))
        start = list(render(tokenizer, text, prompt).ids)
        totals = [sum(_probability(model, start, text.encode(word)) for word in words) for words in (YES, NO)]
        assert odds == pytest.approx(np.log(totals[0] / totals[1]), abs=1e-4)


def _probability(model: torch.nn.Module, start: list[int], word: list[int]) -> float:
    with torch.no_grad():
        logits = model(torch.tensor([start + word])).logits[0].double()
    chances = logits.log_softmax(1)[len(start) - 1 : -1]
    return float(sum(chances[i, token] for i, token in enumerate(word)).exp())  # type: ignore[union-attr]


def test_questions_with_tools_of_their_own_name_those() -> None:
    own = Question("q", "Where?", "f", tools=({"name": "map", "description": "Shows places."},))
    first, second = prompts([own, QUESTIONS[0]], (CALCULATOR,))
    assert "map" in first.messages[-1].content
    assert "calculator" not in first.messages[-1].content
    assert "calculator" in second.messages[-1].content
    assert first.tools == second.tools == ()


def test_words_become_scores_and_what_is_neither_asks_for_nothing() -> None:
    scores = said(["Yes.", "no", "Perhaps", ""])
    np.testing.assert_array_equal(scores, [1, -1, np.nan, np.nan])
    assert decisions(scores).tolist() == [True, False, False, False]


def test_the_report_agrees_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    needed, called = rng.random(60) < 0.5, rng.random(60) < 0.4
    parsed = rng.random(60) < 0.8
    scores = rng.standard_normal(60) + needed
    found = report("likelihood", scores, {"strict": needed}, called, parsed, resamples=200)
    quality = found.necessity["strict"]
    assert quality.accuracy.value == pytest.approx(accuracy_score(needed, scores > 0))
    assert quality.mcc.value == pytest.approx(matthews_corrcoef(needed, scores > 0))
    assert quality.auc.value == pytest.approx(roc_auc_score(needed, scores))
    assert found.action.accuracy.value == pytest.approx(accuracy_score(called[parsed], scores[parsed] > 0))
    assert found.action.accuracy.n == parsed.sum()
    assert (found.yes_share.value, found.unreadable.value) == ((scores > 0).mean(), 0)
    assert quality.auc.low is not None
    assert quality.auc.low < quality.auc.value < quality.auc.high


def test_answers_that_cannot_be_read_are_counted() -> None:
    found = report(
        "text", said(["yes", "no", "hm"]), {"strict": np.array([True, True, False])}, *[np.ones(3, bool)] * 2
    )
    assert found.unreadable.value == pytest.approx(1 / 3)
    assert found.necessity["strict"].accuracy.value == pytest.approx(2 / 3)
