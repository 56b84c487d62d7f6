from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from planted_answers import PLANTED, world
from sklearn.metrics import roc_auc_score

from toolsavvy.errors import UserError
from toolsavvy.parameters import calibration, signals
from toolsavvy.parameters import probe as value_probe
from toolsavvy.parameters.fields import Origin

TRAIN, HELD = world(80, 3, seed=1).table, world(80, 3, seed=2, prefix="held").table
PROBE, CONTROL = value_probe.fit(TRAIN, layer=PLANTED), signals.Control.fit(TRAIN)
SIGNALS = signals.all_signals(HELD, probe=PROBE, control=CONTROL)


def test_the_planted_probe_leads_every_signal_on_fields_and_calls() -> None:
    for found in calibration.of_table(HELD, SIGNALS, n=200):
        assert list(found.signals) == list(SIGNALS)
        first, *others = found.signals.values()
        assert first.auc_lead is None
        for other in others:
            if other.name == "consistency":
                continue  # samples share nothing but the reference: agreement tells of right values too
            assert other.auc_lead.interval.low > 0
            assert other.auc_lead.interval.value == pytest.approx(first.auc.value - other.auc.value)


def test_values_are_scikit_learns_and_of_greedy_answers() -> None:
    fields, calls = calibration.of_table(HELD, SIGNALS, n=50)
    greedy = HELD.greedy()
    scores = PROBE.score_fields(greedy)
    assert fields.n == len(greedy)
    assert fields.signals["probe"].auc.value == pytest.approx(roc_auc_score(greedy.right, scores))
    assert calls.signals["probe"].auc.value == pytest.approx(roc_auc_score(greedy.exact, greedy.calls(scores)))
    assert calls.right == pytest.approx(greedy.exact.mean())
    every, _ = calibration.of_table(HELD, SIGNALS, n=50, greedy=False)
    assert every.n == len(HELD)


def test_intervals_resample_whole_clusters() -> None:
    right = np.tile([True, False, True, False], 10)
    scores = {"one": np.tile([0.9, 0.1, 0.3, 0.6], 10)}
    apart = calibration.compare(right, scores, list(range(40)), n=300).signals["one"].auc
    together = calibration.compare(right, scores, ["same"] * 40, n=300).signals["one"].auc
    alike = calibration.compare(right, scores, np.repeat(np.arange(10), 4).tolist(), n=300).signals["one"].auc
    assert apart.low < apart.value < apart.high
    assert (together.low, together.high) == (None, None)
    assert alike.low == alike.value == alike.high  # clusters are copies of one another


def test_reliability_and_its_error_by_hand() -> None:
    right, scores = np.array([True, False, True, True]), np.array([0.95, 1.0, 0.05, 0.25])
    bins = calibration.reliability(right, scores)
    assert [b.n for b in bins] == [1, 0, 1, 0, 0, 0, 0, 0, 0, 2]
    assert (bins[9].predicted, bins[9].right) == pytest.approx((0.975, 0.5))
    assert (bins[1].predicted, bins[1].right) == (None, None)
    found = calibration.compare(right, {"s": scores}, list("abcd"), n=10).signals["s"]
    assert found.ece.value == pytest.approx((0.95 + 0.75 + 2 * 0.475) / 4)


def test_scores_that_are_no_probabilities_or_too_few_are_refused() -> None:
    right = np.array([True, False])
    for wrong in ([0.1, 1.2], [0.1, np.nan], [0.1]):
        with pytest.raises(ValueError, match="'s' are not 2 numbers"):
            calibration.compare(right, {"s": np.array(wrong)}, ["a", "b"])


def test_one_class_or_nothing_is_undefined_not_a_crash() -> None:
    found = calibration.compare(np.ones(3, dtype=bool), {"a": np.ones(3), "b": np.zeros(3)}, list("abc"), n=10)
    assert found.signals["a"].auc.value is None
    assert found.signals["b"].auc_lead.interval.value is None
    assert calibration.compare(np.zeros(0, dtype=bool), {"a": np.zeros(0)}, []).signals["a"].auc.n == 0


def test_answers_of_a_model_to_its_own_training_tasks_measure_nothing() -> None:
    leaked = replace(HELD, origins=(Origin("seed", frozenset({"held 1"})),))
    with pytest.raises(UserError, match="'held 1'"):
        calibration.of_table(leaked, SIGNALS)
    samples = HELD.only(HELD.index > 0)
    with pytest.raises(UserError, match="no greedy answer"):
        calibration.of_table(samples, {})
