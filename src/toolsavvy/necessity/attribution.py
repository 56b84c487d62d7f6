"""Factual -> Cognition -> Action: where between need and call the mismatch arises, with what a bad probe would feign.

Factual is the necessity label, cognition what a probe reads from hidden states (its score out of fold, against a
threshold), action whether the model called (2605.14038). A mismatched question has exactly one of the two errors: its
cognition is wrong (stage 1) or its action contradicts its cognition (stage 2). An aligned question has none, or both:
two errors that cancel.

A probe that errs at random moves mismatch from stage 2 to stage 1. The control shows by how much: cognition permuted
within the necessary and within the unnecessary questions keeps the probe's errors, and so its whole ROC curve and AUC,
but knows nothing of the action. Only what exceeds the control is about the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolsavvy.metrics import Interval
from toolsavvy.necessity.estimates import Clusters, checked_weights, estimates, over

STEPS = 41
"""Thresholds of a curve, the two extremes among them."""
KINDS = ("aligned", "cancelled", "stage_1", "stage_2")
"""What a way is: without error, with two that cancel, or a mismatch that arises in one of the stages."""


@dataclass(frozen=True)
class Way:
    """One of the eight ways from need to call.

    Args:
        factual: necessary.
        cognition: the probe says necessary.
        action: called.
        count: questions.
        share: weighted share of all questions.
    """

    factual: bool
    cognition: bool
    action: bool
    count: int
    share: Interval

    @property
    def errors(self) -> tuple[bool, bool]:
        """Whether stage 1 (factual, cognition) and stage 2 (cognition, action) differ."""
        return self.factual != self.cognition, self.cognition != self.action

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        first, second = self.errors
        if first and second:
            return "cancelled"
        return "stage_1" if first else "stage_2" if second else "aligned"


@dataclass(frozen=True)
class Attribution:
    """Where the mismatch arises at one threshold of the probe.

    Args:
        threshold: cognition is a score at or above it.
        ways: the eight, necessary before unnecessary, called before not.
        stage_1: share of the mismatch whose cognition is wrong.
        stage_2: share of the mismatch whose action contradicts the cognition.
        aligned: share of the aligned questions without an error.
        cancelled: share of the aligned questions with two.
        cognition_error: share of all questions with an error in stage 1.
        action_error: share of all questions with an error in stage 2.
        control: stage_1 as the probe's error rates alone would give it.
        excess: stage_1 minus control; 0 says that the probe's errors have nothing to do with the mismatch.
    """

    threshold: float
    ways: tuple[Way, ...]
    stage_1: Interval
    stage_2: Interval
    aligned: Interval
    cancelled: Interval
    cognition_error: Interval
    action_error: Interval
    control: Interval
    excess: Interval

    def count(self, kind: str) -> int:
        """Questions of one of `KINDS`."""
        return sum(way.count for way in self.ways if way.kind == kind)

    @property
    def mismatched(self) -> int:
        """Questions whose action is not what their need asks for."""
        return self.count("stage_1") + self.count("stage_2")


WAYS = tuple((f, c, a) for f in (True, False) for c in (True, False) for a in (True, False))
_FACTUAL, _COGNITION, _ACTION = (np.array(bits) for bits in zip(*WAYS, strict=True))
_FIRST, _SECOND = _FACTUAL != _COGNITION, _COGNITION != _ACTION


def attribution(
    factual: np.ndarray,
    scores: np.ndarray,
    called: np.ndarray,
    thresholds: Sequence[float] = (0.0,),
    weights: np.ndarray | None = None,
    *,
    clusters: Clusters = None,
    resamples: int = 2000,
    seed: int = 0,
) -> list[Attribution]:
    """Attribute the mismatch at every threshold, all of them on the same resamples.

    Args:
        factual: bool [question], necessity.
        scores: float [question], necessity probe out of fold: no question may have trained its own score.
        called: bool [question].
        thresholds: of the scores; 0 for log-odds.
        weights: [question], inverse sampling weights, or None.
        clusters: [question], what is independent, or None.
        resamples: replicates.
        seed: of the resampling.

    Raises:
        ValueError: lengths differ, or a score is not a number.
    """
    factual, scores, called = (np.asarray(a) for a in (factual, scores, called))
    if not factual.shape == scores.shape == called.shape:
        raise ValueError(f"{len(factual)} labels, {len(scores)} scores, {len(called)} actions")
    if np.isnan(scores).any():
        raise ValueError(f"{int(np.isnan(scores).sum())} scores are not a number")
    checked_weights(weights, len(scores))
    places = [_places(factual, scores >= t, called) for t in thresholds]
    marks = np.concatenate([np.eye(8)[place] for place in places], axis=1) if places else np.zeros((len(scores), 0))
    found = estimates(marks, weights, clusters, _statistics, resamples=resamples, seed=seed)
    size = len(found) // len(places) if places else 0
    return [
        _one(float(t), np.bincount(place, minlength=8).tolist(), found[i * size : (i + 1) * size])
        for i, (t, place) in enumerate(zip(thresholds, places, strict=True))
    ]


def _places(factual: np.ndarray, cognition: np.ndarray, called: np.ndarray) -> np.ndarray:
    """Which of `WAYS` every question went, int64 [question]."""
    return 4 * ~factual.astype(bool) + 2 * ~cognition + ~called.astype(bool)


def _one(threshold: float, counts: list[int], found: Sequence[Interval]) -> Attribution:
    ways = tuple(Way(*way, count, share) for way, count, share in zip(WAYS, counts, found, strict=False))
    return Attribution(threshold, ways, *found[8:])


def _statistics(sums: np.ndarray) -> np.ndarray:
    """The eight shares and eight rates of every threshold, float64 [..., 16 x threshold], from sums of ways."""
    ways = sums.reshape(*sums.shape[:-1], -1, 8)
    mismatch, aligned = ways[..., _FACTUAL != _ACTION].sum(-1), ways[..., _FACTUAL == _ACTION].sum(-1)
    whole = ways.sum(-1)
    first = over(ways[..., _FIRST & ~_SECOND].sum(-1), mismatch)
    control = over(_expected(ways), mismatch)
    rates = [
        first,
        1 - first,
        over(ways[..., ~_FIRST & ~_SECOND].sum(-1), aligned),
        over(ways[..., _FIRST & _SECOND].sum(-1), aligned),
        over(ways[..., _FIRST].sum(-1), whole),
        over(ways[..., _SECOND].sum(-1), whole),
        control,
        first - control,
    ]
    both = np.concatenate([over(ways, whole[..., None]), np.stack(rates, axis=-1)], axis=-1)
    return both.reshape(*sums.shape[:-1], -1)


def _expected(ways: np.ndarray) -> np.ndarray:
    """Mismatch in stage 1 if cognition erred independently of the action within each factual class, [...].

    This is the mean over all permutations of cognition within the classes, without drawing any.
    """
    total = np.zeros(ways.shape[:-1])
    for label in (True, False):
        here = label == _FACTUAL
        errors = over(ways[..., here & _FIRST].sum(-1), ways[..., here].sum(-1))
        total += np.nan_to_num(errors) * ways[..., here & (_FACTUAL != _ACTION)].sum(-1)
    return total


def curve_thresholds(scores: np.ndarray, steps: int = STEPS) -> list[float]:
    """Thresholds from "everything is cognised as necessary" (-inf) to "nothing is" (inf) by quantiles of the scores."""
    inner = np.quantile(scores, np.linspace(0, 1, steps)[1:-1]) if len(scores) else []
    return [-np.inf, *np.unique(inner).tolist(), np.inf]


def matched_threshold(factual: np.ndarray, scores: np.ndarray, weights: np.ndarray | None = None) -> float:
    """The threshold at which the probe says "necessary" as often as it is: cognition without a bias of its own.

    Scores of a probe that was trained on balanced data, or is badly calibrated, are off by a constant; this one isn't
    moved by it. inf where nothing is necessary.
    """
    order = np.argsort(-np.asarray(scores), kind="stable")
    weight = checked_weights(weights, len(order))
    wanted = float((weight * factual).sum())
    reached = np.concatenate([[0.0], np.cumsum(weight[order])])
    taken = int(np.argmin(np.abs(reached - wanted)))
    return np.inf if taken == 0 else float(np.asarray(scores)[order[taken - 1]])
