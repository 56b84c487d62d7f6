from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from toolsavvy.errors import UserError
from toolsavvy.necessity.flips import first_counts, flips, need_probability, sample_size_flips
from toolsavvy.necessity.labels import necessary


def test_flips_are_counted_each_way() -> None:
    a, b = np.array([1, 1, 1, 0, 0], dtype=bool), np.array([1, 0, 0, 1, 0], dtype=bool)
    found = flips(a, b, resamples=100)
    assert (found.to_necessary, found.to_unnecessary) == (1, 2)
    assert found.share.value == pytest.approx(3 / 5)
    assert flips(a, a, resamples=10).share.value == 0
    back = flips(b, a, resamples=100)
    assert (back.to_necessary, back.to_unnecessary, back.share) == (2, 1, found.share)
    assert flips(a, b, np.array([0, 1, 1, 1, 1.0]), resamples=10).share.value == pytest.approx(3 / 4)
    with pytest.raises(ValueError, match="5 and 4 labels"):
        flips(a, b[:4])


def test_between_rules_flips_are_the_questions_in_between() -> None:
    correct = np.arange(11)
    found = flips(necessary(correct, 10, "strict"), necessary(correct, 10, "released"), resamples=10)
    assert (found.to_necessary, found.to_unnecessary) == (0, 1)  # 9 of 10


@pytest.mark.parametrize("rule", ["strict", "released", 2])
def test_the_chance_over_subsets_is_the_share_of_all_subsets(rule: str | int) -> None:
    total, n = 7, 4
    for right in range(total + 1):
        answers = np.array([1] * right + [0] * (total - right))
        counts = np.array([answers[list(chosen)].sum() for chosen in combinations(range(total), n)])
        share = necessary(counts, n, rule if isinstance(rule, str) else np.int64(rule)).mean()
        (found,) = need_probability(np.array([right]), total, n, rule)
        assert found == pytest.approx(share)


def test_fewer_samples_flip_labels_towards_unnecessary_and_first_ones_are_one_draw_of_it() -> None:
    rng = np.random.default_rng(0)
    right = rng.random((3000, 20)) < rng.beta(0.5, 0.5, size=3000)[:, None]
    full = right.sum(axis=1)
    expected = sample_size_flips(full, 20, 5, "strict", resamples=200)
    once = flips(necessary(full, 20, "strict"), necessary(first_counts(right, 5), 5, "strict"), resamples=200)
    assert once.to_necessary == 0 < once.to_unnecessary
    assert expected.value == pytest.approx(once.share.value, abs=0.02)
    assert expected.high - expected.low < once.share.high - once.share.low  # less noise than one draw
    ten = sample_size_flips(full, 20, 10, "strict", resamples=10).value
    assert 0 == sample_size_flips(full, 20, 20, "strict", resamples=10).value < ten < expected.value


def test_more_samples_than_are_stored_are_refused() -> None:
    with pytest.raises(ValueError, match="6 of 5"):
        first_counts(np.ones((2, 5), dtype=bool), 6)
    with pytest.raises(ValueError, match="6 of 5"):
        need_probability(np.array([5]), 5, 6, "strict")
    with pytest.raises(UserError, match="min_correct is 9"):
        sample_size_flips(np.array([5]), 10, 5, 9)
