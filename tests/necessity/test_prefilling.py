"""Probe&Prefill: every question answered once after either sentence; all ways to decide are recombinations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planted_models import planted_model, planted_prompts, planted_questions
from toolsavvy.decoding.samples import Heard, Sample
from toolsavvy.decoding.sampling import LocalSampler
from toolsavvy.metrics import paired_difference
from toolsavvy.models.loading import toy_model
from toolsavvy.models.prompts import Prompt
from toolsavvy.necessity.answers import Numbers
from toolsavvy.necessity.judged import Judged
from toolsavvy.necessity.policies import cheapest_threshold, study, thresholds_of
from toolsavvy.necessity.prefilling import (
    ANSWER_SENTENCE,
    CALL_SENTENCE,
    Answered,
    Forced,
    Prefills,
    ask_each,
    call_start,
    force,
)
from toolsavvy.necessity.questions.arithmetic import CALCULATOR
from toolsavvy.necessity.store import SampleStore

QUESTIONS = planted_questions(40)
PROMPTS = planted_prompts(QUESTIONS)
HERMES = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "%s"}}\n</tool_call>'
TEXTS = (
    HERMES % "6 * 7",
    HERMES % "6 * 8",
    '<tool_call>\n{"name": "calculator", "argu',
    "The answer is 42.",
    "The answer is 41.",
)


class Scripted:
    """A sampler whose greedy answer hangs on the whole prompt, prefill included."""

    name, key = "scripted", "scripted"

    def __init__(self) -> None:
        self.asked = 0

    def draw(
        self, prompts: Sequence[Prompt], indices: Sequence[Sequence[int]], *, temperature: float, max_tokens: int,
        heard: Heard,
    ) -> None:  # fmt: skip
        for i, prompt in enumerate(prompts):
            self.asked += 1
            digest = sha256(repr((prompt.messages, prompt.prefill)).encode()).digest()
            heard(i, Sample(0, prompt.prefill + TEXTS[digest[0] % len(TEXTS)], 1 + digest[1] % 9))


@pytest.fixture
def scripted(tmp_path: Path) -> tuple[Forced, Any]:
    sampler = Scripted()
    store = SampleStore(tmp_path, sampler.key, 0.0, 16)
    how: dict[str, Any] = {"tools": (CALCULATOR,), "max_tokens": 16}
    prefills = Prefills("Directly: ", "By tool: ")
    forced = force(sampler, store, QUESTIONS, PROMPTS, prefills, Numbers(), **how)
    assert sampler.asked == 2 * len(QUESTIONS)

    def directly(call: np.ndarray) -> Answered:
        starts = [prefills.call if c else prefills.answer for c in call]
        prompts = [replace(p, prefill=start) for p, start in zip(PROMPTS, starts, strict=True)]
        own = SampleStore(tmp_path / "own", sampler.key, 0.0, 16)
        return ask_each(sampler, own, QUESTIONS, prompts, Numbers(), **how)

    return forced, directly


def test_every_threshold_is_what_asking_anew_with_its_decisions_gives(scripted: tuple[Forced, Any]) -> None:
    forced, directly = scripted
    scores = np.random.default_rng(0).standard_normal(len(QUESTIONS))
    found = study(forced, scores, thresholds=[-0.8, 0.0, 0.5], resamples=100)
    assert len({o for way in (forced.answer, forced.call) for o in way.judged.outcomes}) == 3
    for point in found.curve:
        anew = directly(scores >= point.threshold)
        assert forced.follow(scores >= point.threshold).judged.outcomes == anew.judged.outcomes
        assert point.calls.value == pytest.approx(anew.judged.is_("called", "malformed").mean())
        assert point.accuracy.value == pytest.approx(anew.judged.correct.mean())
        assert point.tokens.value == pytest.approx(anew.tokens.mean())
        assert point.decided is not None
        assert point.decided.value == pytest.approx((scores >= point.threshold).mean())


def test_a_real_model_recombines_too(tmp_path: Path) -> None:
    model, tokenizer = toy_model()
    sampler = LocalSampler(model, tokenizer, batch_size=5)
    store = SampleStore(tmp_path, sampler.key, 0.0, 6)
    prefills = Prefills.of(tokenizer)
    forced = force(sampler, store, QUESTIONS, PROMPTS, prefills, Numbers(), tools=(CALCULATOR,), max_tokens=6)
    decisions = np.arange(len(QUESTIONS)) % 3 == 1
    prompts = [
        replace(p, prefill=prefills.call if d else prefills.answer) for p, d in zip(PROMPTS, decisions, strict=True)
    ]
    own = SampleStore(tmp_path / "own", sampler.key, 0.0, 6)
    anew = ask_each(sampler, own, QUESTIONS, prompts, Numbers(), tools=(CALCULATOR,), max_tokens=6)
    mixed = forced.follow(decisions)
    assert mixed.judged.outcomes == anew.judged.outcomes
    np.testing.assert_array_equal(mixed.tokens, anew.tokens)


def made(outcomes: str, correct: Sequence[float]) -> Answered:
    kinds: dict[str, Any] = {"c": "called", "n": "not_called", "m": "malformed"}
    return Answered(
        Judged(tuple(kinds[o] for o in outcomes), np.array(correct, dtype=float)), np.full(len(outcomes), 5.0)
    )


FORCED = Forced(made("nnnnnn", [1, 1, 1, 0, 0, 0]), made("cccccm", [1, 1, 1, 1, 1, 0]))
SCORES = np.array([-3.0, -2, -1, 1, 2, 3])


def test_savings_losses_and_random_decisions_are_what_they_are_called() -> None:
    own = made("cncnnn", [1, 1, 1, 0, 0, 0])
    found = study(
        FORCED, SCORES, decisions={"oracle": SCORES > 0}, prompted={"neutral": own}, reference="always",
        thresholds=[-9.0, 0.0, 9.0], resamples=200,
    )  # fmt: skip
    always, half, never = found.curve
    assert (always.calls.value, never.calls.value) == (1, 0)  # a malformed call costs one too
    assert (always.calls_saved.value, half.calls_saved.value, never.calls_saved.value) == (0, 0.5, 1)
    assert always.accuracy.value == pytest.approx(5 / 6)
    assert (always.accuracy_lost.value, half.accuracy_lost.value) == (0, 0)
    assert never.accuracy_lost.value == pytest.approx(1 / 3)
    assert half.over_random is not None
    assert half.over_random.value == pytest.approx(5 / 6 - (0.5 * 5 / 6 + 0.5 * 3 / 6))
    by_name = {p.policy: p for p in found.baselines}
    assert list(by_name) == ["always", "never", "oracle", "neutral"]
    assert by_name["oracle"].accuracy == half.accuracy
    assert by_name["neutral"].calls_saved.value == pytest.approx(1 - 2 / 6)
    assert (by_name["neutral"].decided, by_name["neutral"].over_random) == (None, None)
    lost = paired_difference([1, 1, 1, 1, 1, 0], [1, 1, 1, 0, 0, 0], np.arange(6), 200).interval
    for ours, theirs in zip((never.accuracy_lost.low, never.accuracy_lost.high), (lost.low, lost.high), strict=True):
        assert ours == pytest.approx(theirs)


def test_results_that_nobody_knows_are_left_out_and_counted() -> None:
    unknown = replace(FORCED, call=made("cccccc", [np.nan] * 6))
    found = study(unknown, SCORES, thresholds=[0.0], reference="never", resamples=50)
    (point,) = found.curve
    assert point.unknown.value == 0.5
    assert (point.accuracy.value, point.calls_saved.value) == (1.0, None)  # never saves nothing of nothing
    with pytest.raises(ValueError, match="no call's result is known"):
        cheapest_threshold(unknown, SCORES)


def test_thresholds_run_from_always_to_never() -> None:
    cuts = thresholds_of(SCORES, 5)
    assert (cuts[0] <= SCORES).all()
    assert not (cuts[-1] <= SCORES).any()
    assert np.isfinite(cuts).all()


def test_the_cheapest_threshold_keeps_the_accuracy_it_was_told_to_keep() -> None:
    assert (cheapest_threshold(FORCED, SCORES, 0.0) <= SCORES).tolist() == [False] * 3 + [True, True, True]
    assert not (cheapest_threshold(FORCED, SCORES, 0.5) <= SCORES).any()


def test_an_unknown_reference_and_scores_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="no policy 'nobody'"):
        study(FORCED, SCORES, reference="nobody")
    with pytest.raises(ValueError, match="finite"):
        study(FORCED, SCORES * np.nan)


OPENING = "{% for t in tools or [] %}[{{ t.function.name }} {{ t.function.parameters }}]{% endfor %}"
TURNS = (
    OPENING + "{% for m in messages %}{{ '<|im_start|>' + m.role + ' ' }}{% if m.tool_calls %}"
    "{% for c in m.tool_calls %}CALL{% endfor %}{% else %}{{ m.content }}{% endif %}{{ '<|im_end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant ' }}{% endif %}"
)
NAMED = "{{ c.function.name }}"


@pytest.mark.parametrize(
    ("written", "start"),
    [
        (
            '<tool_call>{"name": "' + NAMED + '", "arguments": {{ c.function.arguments | tojson }}}</tool_call>',
            '<tool_call>{"name": "',
        ),
        ('{"name": "' + NAMED + '", "parameters": {}}', '{"name": "'),
        ("[CALLS]" + NAMED + "[ARGS]{}", "[CALLS]"),
        ("<function=" + NAMED + ">", "<function="),
    ],
)
def test_a_call_starts_as_the_models_template_writes_it(written: str, start: str) -> None:
    _, tokenizer = toy_model()
    tokenizer.chat_template = TURNS.replace("CALL", written)
    assert call_start(tokenizer) == start
    prefills = Prefills.of(tokenizer)
    assert prefills.call == f"{CALL_SENTENCE}\n{start}"
    assert prefills.answer.startswith(ANSWER_SENTENCE)


def test_without_a_template_for_calls_the_form_is_the_one_that_the_prompt_describes() -> None:
    model, tokenizer = planted_model()[:2]
    del model
    assert call_start(tokenizer) == call_start(None) == '<tool_call>\n{"name": "'
