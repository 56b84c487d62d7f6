"""Ways to decide who gets the tool, as calls saved against accuracy lost: the probe's threshold beside all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolsavvy.metrics import Interval
from toolsavvy.necessity.estimates import Clusters, estimates, over
from toolsavvy.necessity.judged import Judged
from toolsavvy.necessity.prefilling import Answered, Forced

STEPS = 41
"""Thresholds of a curve, the two extremes among them."""


@dataclass(frozen=True)
class PolicyPoint:
    """One way to decide.

    Args:
        policy: probe, always, never, or the name of another.
        threshold: of the probe's score, at or above which the tool is called; None for the others.
        decided: share of questions that are sent to the tool; None where the model decides as it writes.
        calls: share that end in a call; malformed ones cost one too.
        accuracy: of end results.
        unknown: share of calls whose result nobody knows; accuracy leaves them out.
        tokens: generated a question.
        calls_saved: share of the reference's calls that are not made.
        accuracy_lost: the reference's accuracy minus this one, on the same questions.
        over_random: accuracy minus that of random decisions at the same rate (their expected value, not one draw).
    """

    policy: str
    threshold: float | None
    decided: Interval | None
    calls: Interval
    accuracy: Interval
    unknown: Interval
    tokens: Interval
    calls_saved: Interval
    accuracy_lost: Interval
    over_random: Interval | None


@dataclass(frozen=True)
class PrefillStudy:
    """Calls saved against accuracy lost.

    Args:
        reference: name of the policy that savings are counted from.
        curve: of the probe, from always to never.
        baselines: every other way to decide.
    """

    reference: str
    curve: tuple[PolicyPoint, ...]
    baselines: tuple[PolicyPoint, ...]


@dataclass(frozen=True)
class _Policy:
    name: str
    answered: Answered
    threshold: float | None = None
    decided: np.ndarray | None = None
    random: np.ndarray | None = None  # correctness of random decisions at the same rate, expected


def thresholds_of(scores: np.ndarray, steps: int = STEPS) -> np.ndarray:
    """Thresholds from "always" to "never", float64: scores at even ranks, and a number above the largest."""
    values = np.asarray(scores, dtype=np.float64)
    ranks = np.quantile(values, np.linspace(0, 1, steps), method="nearest")
    return np.unique(np.append(ranks, np.nextafter(values.max(), np.inf)))


def study(
    forced: Forced,
    scores: np.ndarray,
    *,
    decisions: Mapping[str, np.ndarray] | None = None,
    prompted: Mapping[str, Answered] | None = None,
    reference: str = "always",
    thresholds: Sequence[float] | np.ndarray | None = None,
    clusters: Clusters = None,
    resamples: int = 2000,
    seed: int = 0,
) -> PrefillStudy:
    """Sweep the probe's threshold over answers that are there already, beside other ways to decide.

    Args:
        forced: every question after both sentences.
        scores: float [question], of a probe that saw none of these questions in training.
        decisions: name -> bool [question], whom to send to the tool: self-assessment, the necessity labels (an oracle).
        prompted: name -> what the model does by itself under a wording.
        reference: policy that savings are counted from: always, never or a name of the two mappings.
        thresholds: of the scores; None is `thresholds_of`.
        clusters: [question], what is independent; None for the questions.
        resamples: bootstrap replicates.
        seed: of the resampling.

    Raises:
        ValueError: an unknown reference, or scores with NaN.
    """
    values = np.asarray(scores, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("scores must be finite")
    cuts = thresholds_of(values) if thresholds is None else np.asarray(thresholds, dtype=np.float64)
    everything = np.ones(len(values), dtype=bool)
    chosen = {"always": everything, "never": ~everything, **(decisions or {})}
    curve = [_decided(forced, "probe", values >= cut, float(cut)) for cut in cuts]
    others = [_decided(forced, name, np.asarray(own, dtype=bool)) for name, own in chosen.items()]
    others += [_Policy(name, own) for name, own in (prompted or {}).items()]
    base = next((policy for policy in others if policy.name == reference), None)
    if base is None:
        raise ValueError(f"no policy {reference!r}: one of {[policy.name for policy in others]}")
    points = _points([*curve, *others], base.answered, clusters, resamples, seed)
    return PrefillStudy(reference, tuple(points[: len(curve)]), tuple(points[len(curve) :]))


def cheapest_threshold(forced: Forced, scores: np.ndarray, most_lost: float = 0.02) -> float:
    """The threshold with the fewest calls that loses at most so much accuracy against always calling.

    Choose it on validation questions: on the ones that are then reported it would be chosen by luck.
    Ties go to the higher accuracy.

    Args:
        forced: validation questions after both sentences.
        scores: float [question], the probe's.
        most_lost: accuracy that may be lost.

    Raises:
        ValueError: no call's result is known.
    """
    values = np.asarray(scores, dtype=np.float64)
    always = forced.call.judged.correct
    if np.isnan(always).all():
        raise ValueError("no call's result is known: accuracy can't be kept")
    least = np.nanmean(always) - most_lost - 1e-12
    ways = [(float(cut), forced.follow(values >= cut).judged) for cut in thresholds_of(values, len(values))]
    kept = [(cut, way, right) for cut, way in ways if (right := np.nanmean(way.correct)) >= least]
    return min(kept, key=lambda found: (_costs(found[1]).mean(), -found[2]))[0]  # "always" is among them


def _decided(forced: Forced, name: str, call: np.ndarray, threshold: float | None = None) -> _Policy:
    rate = call.mean() if len(call) else 0.0
    random = rate * forced.call.judged.correct + (1 - rate) * forced.answer.judged.correct
    return _Policy(name, forced.follow(call), threshold, call, random)


def _costs(judged: Judged) -> np.ndarray:
    """Which questions cost a call, bool [question]."""
    return judged.is_("called", "malformed")


def _points(
    policies: Sequence[_Policy], base: Answered, clusters: Clusters, resamples: int, seed: int
) -> list[PolicyPoint]:
    """All policies on the same resamples."""
    table = np.stack([_columns(policy, base) for policy in policies], axis=1)  # [question, policy, column]
    items, number, columns = table.shape

    def statistic(sums: np.ndarray) -> np.ndarray:
        parts = np.moveaxis(sums.reshape(*sums.shape[:-1], number, columns), -1, 0)
        one, decided, calls, known, right, tokens, base_calls, both, lost, likewise, ahead = parts
        rates = [over(part, one) for part in (decided, calls, one - known, tokens)]
        rates += [over(right, known), 1 - over(calls, base_calls), over(lost, both), over(ahead, likewise)]
        return np.stack(rates, axis=-1).reshape(*sums.shape[:-1], -1)

    flat = table.reshape(items, number * columns)
    found = estimates(flat, None, clusters, statistic, resamples=resamples, seed=seed)
    return [_point(policy, found[8 * i : 8 * i + 8]) for i, policy in enumerate(policies)]


def _columns(policy: _Policy, base: Answered) -> np.ndarray:
    """What is summed for one policy, float64 [question, column]."""
    right, base_right = policy.answered.judged.correct, base.judged.correct
    random = np.full(len(right), np.nan) if policy.random is None else policy.random
    decided = np.zeros(len(right)) if policy.decided is None else policy.decided
    lost, ahead = base_right - right, right - random
    parts = [
        np.ones(len(right)), decided, _costs(policy.answered.judged), ~np.isnan(right), np.nan_to_num(right),
        policy.answered.tokens, _costs(base.judged), ~np.isnan(lost), np.nan_to_num(lost), ~np.isnan(ahead),
        np.nan_to_num(ahead),
    ]  # fmt: skip
    return np.stack([np.asarray(part, dtype=np.float64) for part in parts], axis=1)


def _point(policy: _Policy, found: Sequence[Interval]) -> PolicyPoint:
    decided, calls, unknown, tokens, accuracy, saved, lost, ahead = found
    is_decided = policy.decided is not None
    return PolicyPoint(
        policy.name, policy.threshold, decided if is_decided else None, calls, accuracy, unknown, tokens, saved, lost,
        ahead if is_decided else None,
    )  # fmt: skip
