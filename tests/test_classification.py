"""Classification metrics against scikit-learn; intervals against closed forms; undefined stays undefined."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef, roc_auc_score

from toolsavvy.classification import METRICS, Predictions, accuracy, auc, compare, ece, f1, mcc, quality
from toolsavvy.metrics import Resamples, bootstrap


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels [item], scores [item, column] full of ties, weights [replicate, item]."""
    rng = np.random.default_rng(0)
    labels = rng.random(200) < 0.3
    scores = np.round(rng.normal(size=(200, 3)) + labels[:, None] * [0.0, 1.0, 3.0], 1)
    return labels, scores, rng.multinomial(200, np.full(200, 1 / 200), size=4).astype(float)


def test_every_metric_is_scikit_learns(data: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    labels, scores, weights = data
    oracles = {
        mcc: lambda s, w: matthews_corrcoef(labels, s > 0, sample_weight=w),
        accuracy: lambda s, w: accuracy_score(labels, s > 0, sample_weight=w),
        f1: lambda s, w: f1_score(labels, s > 0, sample_weight=w),
        auc: lambda s, w: roc_auc_score(labels, s, sample_weight=w),
    }
    for metric, oracle in oracles.items():
        given = scores if metric is auc else scores > 0
        plain, weighted = metric(labels, given), metric(labels, given, weights)
        assert plain.shape == (3,) and weighted.shape == (4, 3)
        np.testing.assert_allclose(plain, [oracle(s, None) for s in scores.T], atol=1e-12)
        np.testing.assert_allclose(weighted, [[oracle(s, w) for s in scores.T] for w in weights], atol=1e-12)
        np.testing.assert_allclose(metric(labels, given[:, 1], weights), weighted[:, 1], atol=1e-12)


def test_auc_within_strata_compares_no_items_of_different_probes() -> None:
    """Two perfect probes on different scales: pooled pairs would be in the wrong order."""
    labels = np.array([0, 1, 0, 1], dtype=bool)
    scores = np.array([0.0, 1.0, 10.0, 11.0])
    assert auc(labels, scores) == 0.75
    assert auc(labels, scores, strata=np.array([0, 0, 1, 1])) == 1.0
    rng = np.random.default_rng(1)
    labels, scores, strata = rng.random(90) < 0.5, rng.normal(size=90), np.repeat([0, 1, 2], 30)
    parts = [(strata == s, labels[strata == s]) for s in range(3)]
    pairs = [y.sum() * (~y).sum() for _, y in parts]
    expected = sum(p * roc_auc_score(y, scores[rows]) for p, (rows, y) in zip(pairs, parts, strict=True)) / sum(pairs)
    assert auc(labels, scores, strata=strata) == pytest.approx(expected)


def test_what_is_undefined_is_none_and_never_zero() -> None:
    labels = np.array([True, False, True])
    never = quality(Predictions.of(labels, np.array([-3.0, -2.0, -1.0])))
    assert never.mcc.value is None and never.auc.value == 0.5 and never.f1.value == 0.0
    one = quality(Predictions.of(np.ones(3, dtype=bool), np.array([1.0, 2.0, 3.0])))
    assert one.auc.value is None and one.mcc.value is None and one.accuracy.value == 1.0
    nothing = quality(Predictions.of(np.zeros(0, dtype=bool), np.zeros(0)))
    assert [found.value for _, found in nothing.items()] == [None] * len(METRICS)
    none = Predictions.of(np.zeros(3, dtype=bool), np.full(3, -1.0))
    assert quality(none).f1.value is None
    assert compare(none, none).mcc.interval.value is None


def test_ece_by_hand() -> None:
    """Bin .9: two items, one right (gap .4 each); bin .1: one item, right (gap .1)."""
    labels = np.array([True, False, False])
    assert ece(labels, np.array([0.9, 0.9, 0.1])) == pytest.approx((2 * 0.4 + 0.1) / 3)
    assert ece(np.ones(2, dtype=bool), np.ones(2)) == 0.0


def test_intervals_of_accuracy_are_the_bootstraps_of_its_mean() -> None:
    rng = np.random.default_rng(2)
    labels, scores = rng.random(60) < 0.5, rng.normal(size=60)
    families = [f"family {i % 7}" for i in range(60)]
    found = quality(Predictions.of(labels, scores, clusters=families), n=300, seed=5).accuracy
    expected = bootstrap((labels == (scores > 0)).astype(float), families, n=300, seed=5)
    assert (found.value, found.low, found.high) == pytest.approx((expected.value, expected.low, expected.high))


def test_families_make_intervals_wider_where_their_items_are_alike() -> None:
    rng = np.random.default_rng(3)
    families = np.repeat(np.arange(20), 20)
    labels = rng.random(400) < 0.5
    right = np.repeat(rng.random(20) < 0.7, 20)
    scores = np.where(right == labels, 1.0, -1.0)
    alone, grouped = (quality(Predictions.of(labels, scores, clusters=c)).mcc for c in (None, families))
    assert grouped.high - grouped.low > 1.5 * (alone.high - alone.low)


def test_differences_are_paired() -> None:
    """A classifier that differs from another by a hair is told apart; from itself it never is."""
    rng = np.random.default_rng(4)
    labels = rng.random(500) < 0.5
    noise = rng.normal(size=500)
    weak, better = (Predictions.of(labels, noise + s * labels - s / 2) for s in (1.0, 1.3))
    found = compare(better, weak)
    assert found.auc.interval.low > 0 and found.auc.p < 0.05
    apart = quality(better).auc.low - quality(weak).auc.high
    assert apart < 0, "their own intervals overlap"
    same = compare(weak, weak)
    assert same.mcc.interval.value == 0.0 and same.mcc.p == 1.0
    with pytest.raises(ValueError, match="same items"):
        compare(better, Predictions.of(~labels, noise))


def test_a_grouped_resample_of_one_family_has_no_interval() -> None:
    labels = np.array([True, False, True, False])
    found = quality(Predictions.of(labels, np.array([1.0, -1.0, 1.0, 1.0]), clusters=["a"] * 4))
    assert found.mcc.value is not None and found.mcc.low is None
    assert Resamples.of(["a"] * 4).units == 1


def test_lengths_and_nan_are_refused() -> None:
    with pytest.raises(ValueError, match="3 labels but 2"):
        auc(np.ones(3, dtype=bool), np.ones(2))
    with pytest.raises(ValueError, match="NaN"):
        auc(np.array([True, False]), np.array([np.nan, 1.0]))
