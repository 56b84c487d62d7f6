"""Ranking metrics by hand, their published defect, and intervals against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from toolsavvy.metrics import (
    GoldMatrix,
    bootstrap,
    internalization,
    ndcg_toolgen,
    paired_difference,
    per_query,
    sign_flip_test,
)
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking


def ranking(*rows: list[int]) -> Ranking:
    indices = np.array(rows, dtype=np.int64)
    return Ranking(indices, np.broadcast_to(-np.arange(indices.shape[1], dtype=float), indices.shape))


def test_missed_golds_count_in_ndcg_and_the_published_variant_forgets_them() -> None:
    """One of three golds, at rank 1: ToolGen's released code says 1.000 where the truth is 0.469."""
    gold = [{7: 1, 8: 1, 9: 1}]
    found = ranking([7, 0, 1, 2, 3])
    truth = 1 / (1 + 1 / np.log2(3) + 1 / np.log2(4))
    assert per_query(found, gold, 5).ndcg[0] == pytest.approx(truth, abs=1e-12)
    assert round(truth, 3) == 0.469
    assert ndcg_toolgen(found, gold, 5)[0] == 1.0
    assert ndcg_toolgen(ranking([0, 1]), gold, 5)[0] == 0.0


def test_every_metric_by_hand() -> None:
    scored = per_query(ranking([4, 1, 5, 2]), [{1: 1, 2: 2, 3: 1}], 4)
    assert scored.recall[0] == pytest.approx(2 / 3)
    assert scored.precision[0] == pytest.approx(2 / 4)
    assert scored.mrr[0] == pytest.approx(1 / 2)
    assert scored.map[0] == pytest.approx((1 / 2 + 2 / 4) / 3)
    assert scored.completeness[0] == 0.0
    ideal = 2 + 1 / np.log2(3) + 1 / np.log2(4)
    assert scored.ndcg[0] == pytest.approx((1 / np.log2(3) + 2 / np.log2(5)) / ideal)


def test_completeness_needs_every_gold_within_k() -> None:
    gold = [{0: 1, 1: 1}]
    assert per_query(ranking([0, 2, 1]), gold, 2).completeness[0] == 0.0
    assert per_query(ranking([0, 2, 1]), gold, 3).completeness[0] == 1.0


def test_a_short_ranking_scores_as_if_padded() -> None:
    """A catalog of one tool with k=10 must work: precision is over k, recall over the golds."""
    scored = per_query(ranking([0]), [{0: 1}], 10)
    assert (scored.recall[0], scored.precision[0], scored.ndcg[0]) == (1.0, 0.1, 1.0)


def test_outputs_that_are_no_tool_keep_their_rank() -> None:
    scored = per_query(ranking([NO_TOOL, 3]), [{3: 1}], 2)
    assert scored.mrr[0] == 0.5
    assert per_query(ranking([NO_TOOL, 3]), [{3: 1}], 1).recall[0] == 0.0


def test_a_repeated_tool_counts_once() -> None:
    scored = per_query(ranking([3, 3, 4]), [{3: 1, 4: 1}], 3)
    assert scored.recall[0] == 1.0
    assert scored.map[0] == pytest.approx((1 + 2 / 3) / 2)


def test_golds_of_one_query_never_score_another() -> None:
    scored = per_query(ranking([0, 1], [2, 3]), [{2: 1}, {0: 1}], 2)
    assert scored.recall.tolist() == [0.0, 0.0]


def test_a_query_without_gold_is_refused() -> None:
    with pytest.raises(ValueError, match="query 1 has no gold"):
        GoldMatrix.of([{0: 1}, {0: 0}])


def test_numbers_of_queries_must_agree() -> None:
    with pytest.raises(ValueError, match="2 ranked queries but 1"):
        per_query(ranking([0], [1]), [{0: 1}], 1)


def test_bootstrap_matches_the_normal_interval_for_independent_items() -> None:
    values = np.random.default_rng(0).normal(size=400)
    found = bootstrap(values, np.arange(400), n=4000)
    half = 1.96 * values.std() / np.sqrt(400)
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - half, abs=0.15 * half)
    assert found.high == pytest.approx(values.mean() + half, abs=0.15 * half)
    assert found.n == 400


def test_repeating_each_item_within_its_cluster_adds_no_certainty() -> None:
    values = np.random.default_rng(1).normal(size=50)
    once = bootstrap(values, np.arange(50))
    tenfold = bootstrap(np.repeat(values, 10), np.repeat(np.arange(50), 10))
    naive = bootstrap(np.repeat(values, 10), np.arange(500))
    assert (tenfold.low, tenfold.high) == pytest.approx((once.low, once.high))
    assert naive.high - naive.low < 0.5 * (once.high - once.low)


def test_clusters_of_unequal_size_give_the_mean_over_items() -> None:
    found = bootstrap([1.0, 1.0, 1.0, 0.0], ["a", "a", "a", "b"])
    assert (found.value, found.low, found.high) == (0.75, 0.0, 1.0)


def test_seeds_widen_the_interval_and_a_copied_seed_does_not() -> None:
    rng = np.random.default_rng(2)
    items = rng.normal(size=60)
    seeds = items + np.array([[-1.0], [0.0], [1.0]])
    single = bootstrap(items, np.arange(60))
    copied = bootstrap(np.stack([items] * 3), np.arange(60))
    spread = bootstrap(seeds, np.arange(60))
    assert (copied.low, copied.high) == pytest.approx((single.low, single.high))
    assert spread.high - spread.low > 2 * (single.high - single.low)
    assert spread.n == 180


def test_one_cluster_has_no_interval_and_no_values_no_estimate() -> None:
    assert bootstrap([1.0, 0.0], ["a", "a"]) == bootstrap([0.0, 1.0], ["b", "b"])
    alone = bootstrap([1.0, 0.0], ["a", "a"])
    assert (alone.value, alone.low, alone.high) == (0.5, None, None)
    assert bootstrap([np.nan], ["a"]).value is None
    assert bootstrap([], []).value is None


def test_undefined_values_are_left_out() -> None:
    found = bootstrap([1.0, np.nan, 0.0, np.nan], np.arange(4))
    assert (found.value, found.n) == (0.5, 2)


def test_paired_difference_is_sharper_than_two_intervals() -> None:
    rng = np.random.default_rng(3)
    base = rng.normal(size=100)
    better = base + 0.1 + 0.01 * rng.normal(size=100)
    found = paired_difference(better, base, np.arange(100))
    assert found.interval.value == pytest.approx(0.1, abs=0.01)
    assert found.interval.low is not None and found.interval.low > 0
    assert found.p is not None and found.p < 0.01
    assert bootstrap(better, np.arange(100)).low < bootstrap(base, np.arange(100)).high  # type: ignore[operator]


def test_paired_difference_of_a_system_with_itself_is_nothing() -> None:
    values = np.random.default_rng(4).random(30)
    found = paired_difference(values, values, np.arange(30))
    assert (found.interval.value, found.interval.low, found.interval.high, found.p) == (0.0, 0.0, 0.0, 1.0)


def test_sign_flip_agrees_with_scipy_on_all_permutations() -> None:
    from scipy.stats import permutation_test

    rng = np.random.default_rng(5)
    a, b = rng.random(9), rng.random(9)
    oracle = permutation_test((a, b), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf)
    assert sign_flip_test(a, b, np.arange(9)) == pytest.approx(oracle.pvalue)
    assert sign_flip_test(a, b, np.arange(9), n=400) == pytest.approx(oracle.pvalue, abs=0.08)


def test_sign_flip_swaps_whole_clusters() -> None:
    """Ten copies of one lucky cluster are one observation: with two clusters no p-value below 1/2 is possible."""
    a, b = np.ones(20), np.zeros(20)
    assert sign_flip_test(a, b, np.repeat([0, 1], 10)) == 0.5
    assert sign_flip_test(a, b, np.arange(20)) < 0.01


def test_internalization_is_a_ratio_of_means_on_shared_resamples() -> None:
    constrained = np.array([1.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    found = internalization(constrained * 0.5, constrained, np.arange(6))
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))


def test_internalization_is_undefined_at_zero_over_zero() -> None:
    found = internalization(np.zeros(4), np.zeros(4), np.arange(4))
    assert (found.value, found.low, found.high, found.n) == (None, None, None, 4)


def test_resamples_depend_on_clusters_and_seed_alone() -> None:
    values = np.random.default_rng(6).random(40)
    assert bootstrap(values, np.arange(40), seed=1) == bootstrap(values, [f"op{i}" for i in range(40)], seed=1)
    assert bootstrap(values, np.arange(40), seed=1) != bootstrap(values, np.arange(40), seed=2)
