from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, betabinom

from toolsavvy.errors import UserError
from toolsavvy.necessity.labels import necessary
from toolsavvy.necessity.need import (
    JEFFREYS,
    Prior,
    cost_curve,
    empirical_prior,
    flip_probability,
    mean_need,
    soft_need,
    worth_a_call,
)


def test_soft_need_and_its_jeffreys_interval() -> None:
    found = soft_need(np.array([0, 3, 9, 10]), 10)
    assert found.value.tolist() == pytest.approx([1, 0.7, 0.1, 0])
    assert found.low.tolist()[1:3] == pytest.approx(beta.ppf(0.025, [7.5, 1.5], [3.5, 9.5]))
    assert found.high.tolist()[1:3] == pytest.approx(beta.ppf(0.975, [7.5, 1.5], [3.5, 9.5]))
    assert (found.high[0], found.low[-1]) == (1, 0)
    assert 0.2 < found.high[-1] < 0.25  # ten of ten is not certainty


def test_jeffreys_intervals_cover_on_average() -> None:
    rng = np.random.default_rng(0)
    chance = rng.random(20_000)
    found = soft_need(rng.binomial(10, chance), 10)
    assert 0.93 < ((found.low <= 1 - chance) & (1 - chance <= found.high)).mean() < 0.97


def drawn(seed: int, questions: int = 3000, samples: int = 10, a: float = 1.2, b: float = 0.3):
    rng = np.random.default_rng(seed)
    chance = rng.beta(a, b, size=questions)
    return chance, rng.binomial(samples, chance), rng


def test_the_mean_need_is_that_of_the_set_and_its_interval_covers() -> None:
    inside = 0
    for seed in range(100):
        _, correct, _ = drawn(seed, questions=150)
        found = mean_need(correct, 10, resamples=200)
        inside += found.low <= 0.3 / 1.5 <= found.high
    assert inside >= 88


@pytest.mark.parametrize("rule", ["strict", "released", 4])
@pytest.mark.parametrize("prior", [JEFFREYS, Prior(2.0, 0.3)])
def test_the_chance_of_a_flip_is_beta_binomial(rule: str | int, prior: Prior) -> None:
    n, counts = 10, np.arange(11)
    least = {"strict": 10, "released": 9, 4: 4}[rule]
    again = betabinom.cdf(least - 1, n, prior.right + counts, prior.wrong + n - counts)
    wanted = np.where(counts < least, 1 - again, again)
    assert flip_probability(counts, n, rule, prior) == pytest.approx(wanted)
    smaller = flip_probability(counts, n, "strict", prior, rerun=1)
    again = (prior.wrong + n - counts) / (prior.right + prior.wrong + n)
    assert smaller == pytest.approx(np.where(counts < 10, 1 - again, again))


def test_a_prior_from_the_set_foretells_how_many_labels_flip_and_jeffreys_overstates_it() -> None:
    chance, correct, rng = drawn(0, questions=40_000)
    again = rng.binomial(10, chance)
    prior = empirical_prior(correct, 10)
    assert (prior.right, prior.wrong) == pytest.approx((1.2, 0.3), rel=0.08)
    for rule in ("strict", "released"):
        truth = (necessary(correct, 10, rule) != necessary(again, 10, rule)).mean()
        assert flip_probability(correct, 10, rule, prior).mean() == pytest.approx(truth, abs=0.005)
    assert flip_probability(correct, 10, "strict").mean() > flip_probability(correct, 10, "strict", prior).mean() + 0.01


@pytest.mark.parametrize("right", [0, 10])
def test_a_set_that_is_all_alike_still_has_a_prior(right: int) -> None:
    prior = empirical_prior(np.full(50, right), 10)
    assert np.isfinite([prior.right, prior.wrong]).all()
    assert flip_probability(np.full(50, right), 10, "strict", prior).max() < 0.05


def test_a_call_is_worth_its_cost_where_the_loss_it_saves_is_larger() -> None:
    correct, samples = np.array([0, 5, 9, 10]), np.full(4, 10)
    assert worth_a_call(correct, samples, 0.3).tolist() == [True, True, False, False]
    assert worth_a_call(correct, samples, 0.3, loss=5).tolist() == [True, True, True, False]
    assert worth_a_call(correct, samples, 0.3, tool_accuracy=0.7).tolist() == [True, False, False, False]
    assert not worth_a_call(correct, samples, 1.0).any()


def by_hand(answers: np.ndarray, cost: float, loss: float, failing: float) -> tuple[float, float]:
    """Cost and calls of the cost-aware rule on one question, every answer left out in turn."""
    costs, calls = [], []
    for i, answer in enumerate(answers):
        rest = np.delete(answers, i)
        calls.append(loss * (1 - rest.mean()) > cost + loss * failing)
        costs.append(cost + loss * failing if calls[-1] else loss * (1 - answer))
    return float(np.mean(costs)), float(np.mean(calls))


def test_policies_are_judged_by_samples_that_they_have_not_seen() -> None:
    n, cost, loss, accuracy = 6, 0.5, 2.0, 0.9
    correct = np.arange(n + 1)
    (found,) = cost_curve(
        correct, n, correct < 3, costs=[cost], loss=loss, tool_accuracy=accuracy, resamples=20
    )  # fmt: skip
    rows = [by_hand(np.array([1] * c + [0] * (n - c)), cost, loss, 1 - accuracy) for c in correct]
    assert found.need.value == pytest.approx(np.mean([r[0] for r in rows]))
    assert found.call_rate.value == pytest.approx(np.mean([r[1] for r in rows]))
    assert found.always.value == pytest.approx(0.7)
    assert found.never.value == pytest.approx(loss * (1 - correct / n).mean())
    wanted = np.where(correct < 3, 0.7, loss * (1 - correct / n)).mean()
    assert found.model.value == pytest.approx(wanted)
    assert found.regret.value == pytest.approx(wanted - found.need.value)


def test_the_held_out_cost_of_the_rule_is_what_it_costs_on_new_answers() -> None:
    chance, correct, rng = drawn(1, questions=30_000, samples=10)
    fresh = rng.random(len(chance)) < chance
    decision = worth_a_call(rng.binomial(9, chance), np.full(len(chance), 9), 0.3)
    truth = np.where(decision, 0.3, ~fresh).mean()
    (found,) = cost_curve(correct, 10, decision, costs=[0.3], resamples=20)
    assert found.need.value == pytest.approx(truth, abs=0.005)


def test_where_calls_are_free_or_never_pay_the_rule_is_no_worse_than_the_better_fixed_policy() -> None:
    _, correct, rng = drawn(2)
    free, *_, dear = cost_curve(correct, 10, rng.random(len(correct)) < 0.5, resamples=50)
    assert (free.cost, dear.cost) == (0, 1)
    assert free.always.value == 0
    assert dear.need.value == pytest.approx(dear.never.value)
    assert dear.call_rate.value == 0
    assert free.regret.value > 0 < dear.regret.value
    assert dear.label.value > dear.need.value  # the hard label does not know the price


def test_bad_counts_and_too_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        soft_need(np.array([0]), 0)
    with pytest.raises(ValueError, match="2 samples a question"):
        cost_curve(np.array([1]), 1, np.array([True]))
    with pytest.raises(UserError, match="min_correct is 12"):
        flip_probability(np.array([1]), 10, 12)
