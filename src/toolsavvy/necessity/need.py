"""Soft need instead of a hard label: how sure it is, how stable the label would be, and when a call pays.

A hard label turns 10 answers into one bit, and a question that is right 95 % of the time is "necessary" in 40 % of runs
under the strict rule. Soft need is 1 - p, the chance of a wrong answer without the tool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, lgamma

import numpy as np

from toolsavvy.metrics import Interval
from toolsavvy.necessity.estimates import Clusters, estimates, over
from toolsavvy.necessity.flips import mean
from toolsavvy.necessity.labels import Rule, necessary, required


@dataclass(frozen=True)
class SoftNeed:
    """Chance that the model is wrong without the tool, with a 95 % Jeffreys interval: float64 [question] each."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def soft_need(correct: np.ndarray, samples: np.ndarray | int) -> SoftNeed:
    """1 - p of every question from its counts, int [question].

    The interval is Jeffreys' (Brown, Cai and DasGupta 2001): 0 is its lower end where no answer was wrong, 1 its upper
    end where none was right. It is of one question; `mean_need` has that of the set.
    """
    from scipy.special import betaincinv

    correct, samples = _counts(correct, samples)
    wrong = samples - correct
    low, high = (betaincinv(wrong + 0.5, correct + 0.5, q) for q in (0.025, 0.975))
    return SoftNeed(wrong / samples, np.where(wrong == 0, 0.0, low), np.where(correct == 0, 1.0, high))


def _counts(correct: np.ndarray, samples: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
    """Counts of equal shapes, checked."""
    right, total = (np.asarray(a) for a in np.broadcast_arrays(correct, samples))
    if (total < 1).any() or (right < 0).any() or (right > total).any():
        raise ValueError("right answers must be between 0 and the number of samples, which is at least 1")
    return right, total


def mean_need(
    correct: np.ndarray,
    samples: np.ndarray | int,
    weights: np.ndarray | None = None,
    *,
    clusters: Clusters = None,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Mean soft need of the set; resampling questions takes in the noise of their samples too."""
    right, total = _counts(correct, samples)
    return mean(1 - right / total, weights, clusters=clusters, resamples=resamples, seed=seed)


@dataclass(frozen=True)
class Prior:
    """A Beta distribution of the chance of a right answer."""

    right: float = 0.5
    wrong: float = 0.5


JEFFREYS = Prior()
"""Knows nothing of the set: overstates how unstable labels are where most questions are easy or hopeless."""


def empirical_prior(correct: np.ndarray, samples: np.ndarray | int) -> Prior:
    """The Beta prior under which the set's counts are most likely (empirical Bayes, beta-binomial)."""
    from scipy.optimize import minimize
    from scipy.special import betaln

    right, total = _counts(correct, samples)
    pairs, often = np.unique(np.stack([right, total - right]), axis=1, return_counts=True)

    def surprise(logs: np.ndarray) -> float:
        a, b = np.exp(logs)
        return -float((often * (betaln(pairs[0] + a, pairs[1] + b) - betaln(a, b))).sum())

    # Bounded: counts that are all alike have no finite optimum.
    found = minimize(surprise, np.log([0.5, 0.5]), method="L-BFGS-B", bounds=[(-6.0, 6.0)] * 2)
    return Prior(*(float(v) for v in np.exp(found.x)))


def flip_probability(
    correct: np.ndarray, samples: np.ndarray | int, rule: Rule, prior: Prior = JEFFREYS, *, rerun: int | None = None
) -> np.ndarray:
    """Chance that a new run of as many samples gives the other label, float64 [question].

    The chance of a right answer is Beta distributed after the counts (prior plus right and wrong answers), so the new
    count is beta-binomial.

    Args:
        correct: int [question].
        samples: int [question] or one number.
        rule: of both runs.
        prior: before the counts.
        rerun: samples of the new run; None for as many as now.
    """
    right, total = _counts(correct, samples)
    labels = necessary(right, total, rule if isinstance(rule, str) else required(rule, int(total.max(initial=1))))
    chance: dict[tuple[int, int], float] = {}
    for pair in zip(right.tolist(), total.tolist(), strict=True):
        if pair not in chance:
            chance[pair] = _need_again(*pair, rerun or pair[1], rule, prior)
    again = np.array([chance[p] for p in zip(right.tolist(), total.tolist(), strict=True)], dtype=np.float64)
    return np.where(labels, 1 - again, again)


def _need_again(right: int, total: int, n: int, rule: Rule, prior: Prior) -> float:
    """Chance that n new samples make the question necessary."""
    a, b = prior.right + right, prior.wrong + total - right
    return min(1.0, sum(_beta_binomial(k, n, a, b) for k in range(required(rule, n))))


def _beta_binomial(k: int, n: int, a: float, b: float) -> float:
    """Chance of k right answers in n."""
    choose = lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
    return exp(choose + _log_beta(k + a, n - k + b) - _log_beta(a, b))


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


COSTS = tuple(i / 20 for i in range(21))
"""Of a call, as shares of the loss of a wrong answer."""

Decision = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""(right answers [question], samples [question]) -> whether to call, bool [question]."""


@dataclass(frozen=True)
class CostPoint:
    """What policies cost a question on average at one price of a call; a wrong answer costs 1 unless said otherwise.

    Args:
        cost: of a call.
        always: call at every question.
        never: answer every question alone.
        model: call where the model called.
        label: call where the hard label says necessary.
        need: call where the expected loss without the tool exceeds that with it by more than the cost.
        regret: model minus need.
        call_rate: share of calls under need.
    """

    cost: float
    always: Interval
    never: Interval
    model: Interval
    label: Interval
    need: Interval
    regret: Interval
    call_rate: Interval


def worth_a_call(
    correct: np.ndarray, samples: np.ndarray, cost: float, loss: float = 1.0, tool_accuracy: float = 1.0
) -> np.ndarray:
    """The cost-aware rule, bool [question]: loss x (1 - p) without the tool exceeds loss with it plus its cost."""
    return loss * (1 - correct / samples) > cost + loss * (1 - tool_accuracy)


def cost_curve(
    correct: np.ndarray,
    samples: np.ndarray | int,
    called: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    costs: Sequence[float] = COSTS,
    loss: float = 1.0,
    tool_accuracy: float = 1.0,
    rule: str = "strict",
    clusters: Clusters = None,
    resamples: int = 2000,
    seed: int = 0,
) -> list[CostPoint]:
    """Expected cost of policies over the price of a call.

    Policies that look at the samples would be flattered by them, so they decide on all samples but one and are judged
    by that one; the mean over which one is exact, from the counts alone.

    Args:
        correct: int [question].
        samples: int [question] or one number, at least 2.
        called: bool [question], the model's own actions.
        weights: [question], or None.
        costs: of a call.
        loss: of a wrong answer.
        tool_accuracy: share of right answers with the tool.
        rule: of the hard label (a name: it must mean something with one sample less).
        clusters: [question], or None.
        resamples: replicates.
        seed: of the resampling.
    """
    right, total = _counts(correct, samples)
    if (total < 2).any():
        raise ValueError("a rule that is judged by a sample it hasn't seen needs 2 samples a question")
    failing, wrong = loss * (1 - tool_accuracy), 1 - right / total
    columns = []
    for cost in costs:
        paid = cost + failing

        def need(c: np.ndarray, n: np.ndarray, cost: float = cost) -> np.ndarray:
            return worth_a_call(c, n, cost, loss, tool_accuracy)

        model = np.where(called, paid, loss * wrong)
        label, _ = _held_out(right, total, lambda c, n: necessary(c, n, rule), paid, loss)
        ours, calls = _held_out(right, total, need, paid, loss)
        columns += [np.full(len(right), paid), loss * wrong, model, label, ours, model - ours, calls]
    values = np.stack([*columns, np.ones(len(right))], axis=1)
    found = estimates(
        values, weights, clusters, lambda sums: over(sums[..., :-1], sums[..., -1:]), resamples=resamples, seed=seed
    )
    return [CostPoint(float(c), *found[7 * i : 7 * i + 7]) for i, c in enumerate(costs)]


def _held_out(
    right: np.ndarray, total: np.ndarray, decide: Decision, paid: float, loss: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean cost and share of calls of a decision on all samples but one, float64 [question] twice.

    The one left out is right in right / total of the cases, and then a question that isn't called costs nothing.
    """
    share = right / total
    without_right = decide(np.maximum(right - 1, 0), total - 1)
    without_wrong = decide(np.minimum(right, total - 1), total - 1)
    cost = share * np.where(without_right, paid, 0.0) + (1 - share) * np.where(without_wrong, paid, loss)
    return cost, share * without_right + (1 - share) * without_wrong
