from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted_answers import PLANTED, world
from sklearn.metrics import fbeta_score, precision_score, recall_score

from toolsavvy.parameters import probe as value_probe
from toolsavvy.parameters import selection

SCORES = st.lists(st.tuples(st.sampled_from([0.0, 0.2, 0.5, 0.8, 0.9, 0.95, 1.0]), st.booleans()), min_size=1)


@settings(max_examples=60, deadline=None)
@given(SCORES)
def test_the_chosen_threshold_has_the_highest_f(pairs: list) -> None:
    scores, right = (np.array(column) for column in zip(*pairs, strict=True))
    found = selection.choose_threshold(scores, right)
    assert found.value in selection.GRID

    def f(threshold: float) -> float:
        return float(fbeta_score(right, scores >= threshold, beta=0.5, zero_division=0))

    assert f(found.value) == pytest.approx(max(map(f, selection.GRID)))
    assert found.value == min(t for t in selection.GRID if f(t) >= f(found.value) - 1e-12)


def test_precision_recall_and_f_are_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    kept, right = rng.random((2, 60)) < 0.4
    found = selection.measure(kept, right, n=200)
    assert found.precision.value == pytest.approx(precision_score(right, kept))
    assert found.recall.value == pytest.approx(recall_score(right, kept))
    assert found.f.value == pytest.approx(fbeta_score(right, kept, beta=0.5))
    assert (found.coverage.value, found.kept, found.of) == (kept.mean(), kept.sum(), 60)
    for part in (found.precision, found.recall, found.coverage, found.f):
        assert part.low < part.value < part.high
    clustered = selection.measure(kept, right, clusters=np.repeat(np.arange(5), 12).tolist(), n=200)
    assert clustered.precision.value == found.precision.value
    assert clustered.precision != found.precision


def test_nothing_kept_and_nothing_right_are_told() -> None:
    scores, right = np.array([0.1, 0.2, 0.3]), np.array([True, False, True])
    found = selection.choose_threshold(scores, right)
    assert (found.value, found.labels.kept, found.labels.precision.value) == (0.8, 0, None)
    assert "no right validation call passes" in found.told
    assert "no validation call is right" in selection.choose_threshold(scores, right & False).told
    assert "none of 3 calls" in selection.keep(scores, threshold=0.8).told
    assert "all of 3 usable calls" in selection.keep(scores, threshold=0.1).told
    assert selection.keep(scores, threshold=0.2).told == ""
    assert selection.keep(np.zeros(0), threshold=0.2).told == "there are no calls"
    assert "5 calls were asked for and 3" in selection.keep(scores, count=5).told
    assert "can be read" in selection.unfiltered(right & False).told
    assert "is right" in selection.oracle(right & False).told
    empty = selection.choose_threshold(np.zeros(0), np.zeros(0, dtype=bool))
    assert (empty.value, empty.labels.of, empty.labels.f.value) == (0.8, 0, None)


def test_a_score_of_zero_never_passes() -> None:
    assert selection.keep(np.array([0.0, 0.1]), threshold=0.0).rows.tolist() == [False, True]


@settings(max_examples=60, deadline=None)
@given(SCORES, st.integers(0, 12), st.randoms(use_true_random=False))
def test_equal_counts_whatever_the_order(pairs: list, count: int, random) -> None:
    scores = np.array([p[0] for p in pairs])
    usable = np.array([p[1] for p in pairs])
    ids = [f"task {i}" for i in range(len(pairs))]
    kept = selection.keep(scores, count=count, ids=ids, usable=usable)
    assert kept.count == min(count, int(usable.sum()))
    left = scores[usable & ~kept.rows]
    assert not kept.count or not len(left) or scores[kept.rows].min() >= left.max()
    order = list(range(len(pairs)))
    random.shuffle(order)
    again = selection.keep(scores[order], count=count, ids=[ids[i] for i in order], usable=usable[order])
    assert {ids[i] for i in np.flatnonzero(kept.rows)} == {ids[order[i]] for i in np.flatnonzero(again.rows)}


def test_ties_say_nothing_of_the_order_and_follow_the_seed() -> None:
    ids = [f"task {i}" for i in range(40)]
    first, second = (selection.keep(np.ones(40), count=20, ids=ids, seed=s).rows for s in (0, 1))
    assert (first != second).any()
    assert 4 <= first[:20].sum() <= 16


def test_one_of_threshold_and_count() -> None:
    for wrong in ({}, {"threshold": 0.5, "count": 2}):
        with pytest.raises(ValueError, match="threshold or by a count"):
            selection.keep(np.ones(3), **wrong)
    with pytest.raises(ValueError, match="NaN"):
        selection.keep(np.array([np.nan]), count=1)
    with pytest.raises(ValueError, match="no thresholds"):
        selection.choose_threshold(np.ones(1), np.ones(1, dtype=bool), grid=())


def test_other_scales_have_thresholds_of_their_own() -> None:
    scores = np.array([0.0, 1e-6, 2e-6, 3e-6, 4e-6])
    grid = selection.quantile_grid(scores, (0.0, 0.5, 0.9))
    assert grid == (1e-6, 2e-6, 3e-6)
    right = np.array([False, False, False, True, True])
    assert selection.choose_threshold(scores, right, grid=selection.quantile_grid(scores)).value == 3e-6
    assert selection.quantile_grid(np.zeros(3)) == (0.0,)


def test_the_planted_probe_filters_better_than_none_at_equal_counts() -> None:
    train, held = world(80, 2, seed=1).table, world(200, 0, seed=3, prefix="held").table
    scores = held.calls(value_probe.fit(train, layer=PLANTED).score_fields(held))
    ids = [c.task_id for c in held.candidates]
    for count in (30, 60):
        good = selection.keep(scores, count=count, ids=ids).rows
        chance = selection.keep(np.ones(len(ids)), count=count, ids=ids).rows
        assert held.exact[good].mean() > held.exact[chance].mean() + 0.2
    ceiling = selection.measure(selection.oracle(held.exact).rows, held.exact)
    assert (ceiling.precision.value, ceiling.recall.value) == (1, 1)


def test_precision_over_coverage_by_hand() -> None:
    scores = np.array([0.9, 0.5, 0.9, 0.0, 0.2])
    right = np.array([True, True, False, True, False])
    thresholds, coverage, precision = selection.coverage_curve(scores, right)
    assert thresholds.tolist() == [0.9, 0.5, 0.2]
    assert coverage.tolist() == pytest.approx([0.4, 0.6, 0.8])
    assert precision.tolist() == pytest.approx([1 / 2, 2 / 3, 1 / 2])
    assert [len(part) for part in selection.coverage_curve(np.zeros(2), right[:2])] == [0, 0, 0]


def test_the_best_of_each_task() -> None:
    groups = [np.array([1, 0]), np.array([], dtype=int), np.array([2, 3])]
    assert selection.best_of_each(np.array([0.5, 0.5, 0.1, 0.2]), groups).tolist() == [1, 3]
