from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from toolsavvy.methods.association import Associated, associate


def world(seed: int, effect: float, configurations: int = 1, tools: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Tools that are easy or hard in all configurations alike; known ones are found more often by `effect`."""
    rng = np.random.default_rng(seed)
    easy = rng.uniform(0.2, 0.8 - effect, tools)
    knows = (rng.random((configurations, tools)) < 0.4).astype(float)
    finds = rng.binomial(4, np.clip(easy + effect * knows, 0, 1)) / 4
    return knows, finds


def ends(found: Associated) -> tuple[float, float, float]:
    """Value and interval, which must be there."""
    value, low, high = found.found.value, found.found.low, found.found.high
    assert value is not None and low is not None and high is not None
    return value, low, high


def rho(x: np.ndarray, y: np.ndarray) -> float:
    return float(stats.spearmanr(x, y)[0])  # pyright: ignore[reportArgumentType]


def test_values_are_those_of_scipy() -> None:
    knows, finds = world(0, 0.3)
    difference, pearson, spearman = associate(knows, finds, 200)
    x, y = knows[0], finds[0]
    assert difference.found.value == pytest.approx(y[x == 1].mean() - y[x == 0].mean())
    assert pearson.found.value == pytest.approx(stats.pointbiserialr(x, y)[0])
    assert spearman.found.value == pytest.approx(rho(x, y))
    assert difference.known == x.sum() and difference.found.n == 60


@pytest.mark.parametrize("configurations", [1, 5])
def test_p_values_agree_with_scipys_permutation_test(configurations: int) -> None:
    knows, finds = world(3, 0.12, configurations)

    def statistic(order: np.ndarray) -> float:
        x = knows[:, order.astype(int)]
        return float(np.mean([rho(a, b) for a, b in zip(x, finds, strict=True)]))

    oracle = stats.permutation_test(
        (np.arange(60),), statistic, permutation_type="pairings", n_resamples=1000, rng=np.random.default_rng(1)
    )
    assert associate(knows, finds, 4000)[2].p == pytest.approx(oracle.pvalue, abs=0.035)


@pytest.mark.parametrize("configurations", [1, 3])
def test_intervals_cover_the_truth_and_tests_keep_their_level(configurations: int) -> None:
    """Under no effect and under a known one; p-values under none are small as often as they may be."""
    null = [associate(*world(s, 0.0, configurations), 400, s) for s in range(200)]
    for i in range(3):
        _, low, high = np.array([ends(found[i]) for found in null]).T
        assert 0.90 <= np.mean((low <= 0) & (high >= 0)) <= 0.985
        assert 0.015 <= np.mean([(found[i].p or 0) <= 0.05 for found in null]) <= 0.10
    known = [associate(*world(1000 + s, 0.3, configurations), 400, s)[0] for s in range(200)]
    value, low, high = np.array([ends(found) for found in known]).T
    assert 0.90 <= np.mean((low <= 0.3) & (high >= 0.3)) <= 0.985
    assert np.mean(value) == pytest.approx(0.3, abs=0.02)


def test_what_differs_between_configurations_is_no_association() -> None:
    """One configuration knows and finds everything, the other nothing: within them knowledge says nothing."""
    rng = np.random.default_rng(0)
    knows = np.stack([rng.random(80) < 0.9, rng.random(80) < 0.1]).astype(float)
    finds = np.stack([rng.binomial(4, 0.95, 80) / 4, rng.binomial(4, 0.05, 80) / 4])
    assert np.corrcoef(knows.ravel(), finds.ravel())[0, 1] > 0.7
    for found in associate(knows, finds, 500):
        assert found.p is not None and found.p > 0.05
        assert found.verdict == "no difference shown"


def test_an_effect_is_told() -> None:
    found = associate(*world(5, 0.4), 500)
    assert [f.verdict for f in found] == ["known tools are found better"] * 3
    assert all(f.p is not None and f.p < 0.01 for f in found)


@pytest.mark.parametrize(
    ("knows", "finds", "why"),
    [
        (np.ones((1, 9)), np.arange(9.0)[None], "what is known is the same for all 9 tools"),
        (np.arange(9.0)[None] % 2, np.ones((1, 9)), "how well it is found is the same for all 9 tools"),
        (np.zeros((1, 2)), np.zeros((1, 2)), "2 tools with questions and queries"),
        (np.zeros((0, 0)), np.zeros((0, 0)), "0 tools"),
    ],
)
def test_without_variation_nothing_is_defined(knows: np.ndarray, finds: np.ndarray, why: str) -> None:
    for found in associate(knows, finds, 50):
        assert (found.found.value, found.found.low, found.p) == (None, None, None)
        assert "undefined" in found.verdict and why in found.verdict


def test_a_configuration_without_variation_does_not_count() -> None:
    knows, finds = world(7, 0.3)
    both = associate(np.concatenate([knows, np.ones_like(knows)]), np.concatenate([finds, finds]), 300)
    alone = associate(knows, finds, 300)
    for a, b in zip(both, alone, strict=True):
        assert a.found.value == pytest.approx(b.found.value)
        assert a.p == pytest.approx(b.p)


def test_knowledge_that_never_crosses_the_line_has_a_correlation_and_no_difference() -> None:
    rng = np.random.default_rng(1)
    knows = rng.choice([0.0, 0.25], (1, 50))
    difference, _, spearman = associate(knows, knows + rng.random((1, 50)), 300)
    assert difference.found.value is None and "other side" in difference.verdict and difference.p is None
    assert spearman.found.value is not None and spearman.p is not None


def test_a_configuration_that_finds_nothing_stands_in_the_difference_and_in_its_test() -> None:
    rng = np.random.default_rng(5)
    knows = (rng.random((2, 30)) < 0.5).astype(float)
    finds = np.stack([rng.random(30), np.zeros(30)])
    both, one = (associate(knows[:n], finds[:n], resamples=2000, seed=1)[0] for n in (2, 1))
    assert both.found.value == pytest.approx(one.found.value / 2)
    assert both.p == one.p
