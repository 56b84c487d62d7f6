"""Steering questions with tools: a planted direction moves calls, random ones don't; signs by the probe recombine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planted_models import CALL, LAYER, planted_model, planted_prompts, planted_questions
from toolsavvy.decoding import steering as decoding_steering
from toolsavvy.decoding.sampling import LocalSampler
from toolsavvy.errors import UserError
from toolsavvy.metrics import Interval, bootstrap, paired_difference
from toolsavvy.necessity.answers import Numbers
from toolsavvy.necessity.asking import ask
from toolsavvy.necessity.judged import judge
from toolsavvy.necessity.questions.arithmetic import CALCULATOR
from toolsavvy.necessity.steering import Direction, Items, Setting, answered, steer
from toolsavvy.necessity.store import SampleStore

QUESTIONS = planted_questions()
PROMPTS = planted_prompts(QUESTIONS)
NEEDED = np.arange(len(QUESTIONS)) % 3 == 0
SAYS = np.arange(len(QUESTIONS)) % 3 != 1
SETTING = Setting(LAYER, scale=0.3, alphas=(0.5, 1.5, 50.0), random=2, max_tokens=4, rows=32, resamples=300)


@pytest.fixture(scope="module")
def planted() -> tuple[LocalSampler, np.ndarray]:
    model, tokenizer, direction = planted_model()
    return LocalSampler(model, tokenizer, batch_size=8), direction


def items(**changes: Any) -> Items:
    labels = {"strict": NEEDED, "released": ~NEEDED}
    return Items(
        QUESTIONS, PROMPTS, **{"needed": labels, "checker": Numbers(), "tools": (CALCULATOR,), "says": SAYS} | changes
    )


@pytest.fixture(scope="module")
def curve(planted: tuple[LocalSampler, np.ndarray]) -> Any:
    sampler, direction = planted
    return steer(sampler, items(), [Direction("action", 7 * direction)], SETTING)


def test_a_planted_direction_moves_the_call_rate_and_random_ones_do_not(curve: Any) -> None:
    own = curve.of("action")
    rates = [p.call_rate.value for p in own]
    assert [p.alpha for p in own] == [-50, -1.5, -0.5, 0, 0.5, 1.5, 50]
    assert rates == sorted(rates)
    assert rates[0] == 0.0
    assert rates[-1] == 1.0
    assert 0 < rates[3] < 1, "the unsteered model always does the same: the test shows nothing"
    assert len(set(rates)) > 3
    for alpha in (-50, -1.5, -0.5, 0.5, 1.5, 50):
        control = curve.control(alpha)
        assert len(control) == 2
        assert all(p.call_rate.value == rates[3] and p.changed.value == 0 for p in control)


def test_rates_and_their_changes_are_those_of_the_questions(
    curve: Any, planted: tuple[LocalSampler, np.ndarray]
) -> None:
    sampler, direction = planted
    push = decoding_steering.Push("x", 0.3 * direction, 1.5)
    (texts,) = answered(sampler, PROMPTS, [push], SETTING, None)
    (plain,) = answered(sampler, PROMPTS, [decoding_steering.Push("x", direction, 0.0)], SETTING, None)
    called, before = (np.array([t == CALL for t in own], dtype=float) for own in (texts, plain))
    point = next(p for p in curve.of("action") if p.alpha == 1.5)
    everyone = np.arange(len(QUESTIONS))
    assert _told(point.call_rate) == _plain(bootstrap(called, everyone, 300))
    strict = next(m for m in point.mismatch if (m.rule, m.treatment) == ("strict", "parsed"))
    assert _told(strict.rate) == _plain(bootstrap(called != NEEDED, everyone, 300))
    wanted = paired_difference(called != NEEDED, before != NEEDED, everyone, 300).interval
    assert _told(strict.change) == _plain(wanted)
    released = next(m for m in point.mismatch if (m.rule, m.treatment) == ("released", "parsed"))
    assert released.rate.value == pytest.approx(1 - strict.rate.value)
    assert point.accuracy.value == 1
    assert (point.accuracy_called.n, point.accuracy_answered.n) == (called.sum(), (1 - called).sum())
    assert point.malformed.value == point.refused.value == 0


def test_signs_by_the_probe_are_what_pushing_question_by_question_gives(
    curve: Any, planted: tuple[LocalSampler, np.ndarray]
) -> None:
    sampler, direction = planted
    texts: list[str] = []
    for prompt, says in zip(PROMPTS, SAYS, strict=True):
        push = decoding_steering.Push("x", 0.3 * direction, 1.5 if says else -1.5)
        texts += answered(sampler, [prompt], [push], SETTING, None)[0]
    judged = judge(QUESTIONS, texts, Numbers(), (CALCULATOR,))
    point = next(p for p in curve.of("action", "probe") if p.alpha == 1.5)
    assert point.call_rate.value == judged.called.mean()
    assert {m.rule: m.rate.value for m in point.mismatch if m.treatment == "parsed"} == {
        "strict": (judged.called != NEEDED).mean(), "released": (judged.called == NEEDED).mean(),
    }  # fmt: skip
    oracle = next(p for p in curve.of("action", "oracle_strict") if p.alpha == 50)
    assert oracle.mismatch[0].rate.value == 0
    assert oracle.mismatch[0].change.value < 0
    backwards = next(p for p in curve.of("action", "oracle_strict") if p.alpha == -50)
    assert backwards.mismatch[0].rate.value == 1


def test_without_a_push_texts_are_the_samplers_own_and_come_from_the_same_store(
    planted: tuple[LocalSampler, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler, direction = planted
    store = SampleStore(tmp_path, sampler.key, 0.0, 4)
    greedy = [own[0].text for own in ask(sampler, store, PROMPTS, 1, temperature=0.0, max_tokens=4)]
    push = decoding_steering.Push("none", direction, 0.0)
    assert answered(sampler, PROMPTS, [push], SETTING, None) == [greedy]
    monkeypatch.setattr(decoding_steering, "answers", _never)
    assert answered(sampler, PROMPTS, [push], SETTING, tmp_path) == [greedy]


def test_a_run_that_was_killed_asks_only_what_is_missing(
    planted: tuple[LocalSampler, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, curve: Any
) -> None:
    sampler, direction = planted
    put, asked = SampleStore.put, []

    def killed(self: SampleStore, digest: str, sample: Any) -> Any:
        asked.append(digest)
        if len(asked) > 50:
            raise KeyboardInterrupt
        return put(self, digest, sample)

    monkeypatch.setattr(SampleStore, "put", killed)
    with pytest.raises(KeyboardInterrupt):
        steer(sampler, items(), [Direction("action", direction)], SETTING, tmp_path)
    monkeypatch.setattr(SampleStore, "put", lambda *args: (asked.append(args[1]), put(*args))[1])
    del asked[:]
    again = steer(sampler, items(), [Direction("action", direction)], SETTING, tmp_path)
    assert len(asked) == len(QUESTIONS) * (1 + 3 * 2 * 3) - 50
    assert again == curve
    monkeypatch.setattr(decoding_steering, "answers", _never)
    assert steer(sampler, items(), [Direction("action", direction)], SETTING, tmp_path) == curve


def _told(found: Interval) -> list[float | None]:
    return [found.value, found.low, found.high, found.n]


def _plain(found: Interval) -> Any:
    return pytest.approx(_told(found))


def _never(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("asked again")


def test_what_malformed_calls_do_to_the_mismatch_is_told_apart() -> None:
    from toolsavvy.necessity.judged import Judged
    from toolsavvy.necessity.steering_curve import points

    needed = np.array([True, True, False, False])
    base = Judged(("called", "called", "not_called", "not_called"), np.ones(4))
    broken = Judged(("malformed", "called", "refused", "called"), np.array([0, 1, 0, np.nan]))
    (point,) = points([("d", 1.0, "all", broken)], base, {"strict": needed}, None, 100, 0)
    parsed, counted = point.mismatch
    assert (parsed.rate.value, parsed.rate.n) == (0.5, 2)
    assert (counted.rate.value, counted.rate.n) == (pytest.approx(1 / 3), 3)
    assert (parsed.change.value, counted.change.value) == (0.5, pytest.approx(1 / 3))
    assert (point.malformed.value, point.refused.value, point.changed.value) == (0.25, 0.25, 0.75)
    assert (point.accuracy.value, point.accuracy.n) == (pytest.approx(1 / 3), 3)
    assert (point.accuracy_answered.value, point.accuracy_answered.n) == (None, 0)


@pytest.mark.parametrize("alphas", [(), (0.0, 1.0), (-1.0,), (1.0, 1.0), (float("nan"),)])
def test_factors_that_are_none_are_refused(alphas: tuple[float, ...]) -> None:
    with pytest.raises(UserError, match=r"above 0") as caught:
        Setting(1, 1.0, alphas)
    assert "alphas" in caught.value.where


def test_layers_and_directions_that_the_model_has_not_are_refused(planted: tuple[LocalSampler, np.ndarray]) -> None:
    sampler, direction = planted
    with pytest.raises(UserError, match="0 to 2"):
        steer(sampler, items(), [Direction("action", direction)], Setting(9, 1.0))
    for vector in (direction[:5], 0 * direction, direction * np.nan):
        with pytest.raises(UserError, match="64 finite numbers"):
            steer(sampler, items(), [Direction("action", vector)], SETTING)
    with pytest.raises(UserError, match="a name of its own"):
        steer(sampler, items(), [Direction("a", direction), Direction("a", -direction)], SETTING)
