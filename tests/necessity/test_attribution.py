from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from toolsavvy.necessity.attribution import (
    KINDS,
    Attribution,
    attribution,
    curve_thresholds,
    matched_threshold,
)

FEW = {"resamples": 30}
items = st.lists(st.tuples(st.booleans(), st.integers(-2, 2), st.booleans()), max_size=60)


def at(factual, scores, called, threshold=0.0, weights=None, **more) -> Attribution:
    (found,) = attribution(
        np.array(factual, dtype=bool), np.array(scores, dtype=float), np.array(called, dtype=bool), [threshold],
        weights, **{**FEW, **more},
    )  # fmt: skip
    return found


@settings(max_examples=60, deadline=None)
@given(rows=items, threshold=st.sampled_from([-np.inf, -1.0, 0.0, 0.5, np.inf]))
def test_every_item_goes_one_way_and_a_mismatch_has_exactly_one_error(rows, threshold) -> None:
    factual, scores, called = (np.array(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    found = at(factual, scores, called, threshold)
    cognition = np.array(scores) >= threshold
    counts = {(w.factual, w.cognition, w.action): w.count for w in found.ways}
    assert len(counts) == 8
    for i in range(len(rows)):
        counts[bool(factual[i]), bool(cognition[i]), bool(called[i])] -= 1
    assert set(counts.values()) == {0}
    mismatch = int((np.array(factual, dtype=bool) != np.array(called, dtype=bool)).sum())
    assert found.mismatched == mismatch == found.count("stage_1") + found.count("stage_2")
    assert sum(map(found.count, KINDS)) == len(rows)
    if mismatch:
        assert found.stage_1.value == pytest.approx(found.count("stage_1") / mismatch)
        assert found.stage_1.value + found.stage_2.value == pytest.approx(1)
    else:
        assert found.stage_1.value is found.control.value is found.excess.value is None
    if mismatch < len(rows):
        assert found.aligned.value + found.cancelled.value == pytest.approx(1)
        assert found.cancelled.value == pytest.approx(found.count("cancelled") / (len(rows) - mismatch))
    if rows:
        errors = found.count("stage_1") + found.count("cancelled")
        assert found.cognition_error.value == pytest.approx(errors / len(rows))
        assert found.action_error.value == pytest.approx((errors - found.count("stage_1") + found.count("stage_2"))
                                                         / len(rows))  # fmt: skip


def planted(seed: int, n: int = 2000, follows: float = 0.0, skill: float = 1.5):
    """Half of the questions necessary; scores know it; calls follow the cognition, or chance alone."""
    rng = np.random.default_rng(seed)
    factual = rng.random(n) < 0.5
    scores = skill * (factual - 0.5) + rng.normal(size=n)
    called = np.where(rng.random(n) < follows, scores >= 0, rng.random(n) < 0.5)
    return factual, scores, called


def test_at_the_extremes_the_threshold_alone_decides_the_stage() -> None:
    factual, scores, called = planted(0)
    lowest, *_, highest = attribution(factual, scores, called, curve_thresholds(scores, 5), **FEW)
    needless, missed = (~factual & called).sum(), (factual & ~called).sum()
    assert (lowest.threshold, highest.threshold) == (-np.inf, np.inf)
    assert lowest.count("stage_1") == needless == highest.count("stage_2")
    assert lowest.count("stage_2") == missed == highest.count("stage_1")
    for end in (lowest, highest):  # cognition that is constant knows nothing: the control says so
        assert end.excess.value == pytest.approx(0)


def test_the_control_is_the_mean_over_permutations_within_the_classes_with_the_same_auc() -> None:
    factual, scores, called = planted(1, n=300, follows=0.6)
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(400):
        shuffled = scores.copy()
        for label in (True, False):
            shuffled[factual == label] = rng.permutation(scores[factual == label])
        mismatch = factual != called
        shares.append((factual != (shuffled >= 0))[mismatch].mean())
    assert roc_auc_score(factual, shuffled) == pytest.approx(roc_auc_score(factual, scores))
    found = at(factual, scores, called, resamples=500)
    error = np.std(shares) / np.sqrt(len(shares))
    assert abs(found.control.value - np.mean(shares)) < 4 * error
    assert found.excess.value == pytest.approx(found.stage_1.value - found.control.value)


def test_calls_that_follow_the_cognition_exceed_the_control_and_random_calls_do_not() -> None:
    """Random calls: half of the mismatch may be in 'stage 1', and none of it is a cognition gap."""
    caused = at(*planted(2, follows=0.8), resamples=400)
    assert caused.excess.low > 0.2
    inside = 0
    for seed in range(60):
        found = at(*planted(seed, n=500), resamples=200)
        assert found.stage_1.value > 0.1
        inside += found.excess.low <= 0 <= found.excess.high
    assert inside / 60 >= 0.85


def test_weights_change_shares_and_never_counts() -> None:
    factual, scores, called = planted(3, n=400)
    weights = np.where(factual, 3.0, 1.0)
    plain, weighted = (at(factual, scores, called, weights=w) for w in (None, weights))
    assert [w.count for w in plain.ways] == [w.count for w in weighted.ways]
    repeated = np.repeat(np.arange(400), weights.astype(int))
    again = at(factual[repeated], scores[repeated], called[repeated])
    for name in ("stage_1", "cancelled", "cognition_error", "action_error", "control", "excess"):
        assert getattr(weighted, name).value == pytest.approx(getattr(again, name).value)


def test_all_thresholds_of_a_curve_see_the_same_resamples() -> None:
    data = planted(4, n=300)
    together = attribution(*data, [-1.0, 0.0, 1.0], **FEW)
    alone = [attribution(*data, [t], **FEW)[0] for t in (-1.0, 0.0, 1.0)]
    for a, b in zip(together, alone, strict=True):
        for name in ("stage_1", "cancelled", "control", "excess"):
            one, other = getattr(a, name), getattr(b, name)
            assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))


def test_the_matched_threshold_says_necessary_as_often_as_it_is() -> None:
    rng = np.random.default_rng(0)
    factual = rng.random(500) < 0.2
    scores = factual + rng.normal(size=500) + 7  # far off 0
    threshold = matched_threshold(factual, scores)
    assert (scores >= threshold).sum() == factual.sum()
    weights = np.where(factual, 0.25, 1.0)
    balanced = scores >= matched_threshold(factual, scores, weights)
    assert (weights * balanced).sum() == pytest.approx((weights * factual).sum(), abs=0.6)
    assert matched_threshold(np.zeros(5, dtype=bool), np.arange(5)) == np.inf
    assert matched_threshold(np.ones(5, dtype=bool), np.arange(5)) == 0


def test_scores_that_are_not_numbers_and_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="1 scores are not a number"):
        at([1, 0], [0.5, np.nan], [1, 1])
    with pytest.raises(ValueError, match="2 labels, 1 scores, 2 actions"):
        at([1, 0], [0.5], [1, 1])
