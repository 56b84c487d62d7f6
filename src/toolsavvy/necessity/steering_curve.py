"""What steering comes to: calls, mismatch and accuracy under every push, all on the same resamples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolsavvy.metrics import Interval
from toolsavvy.necessity.estimates import Clusters
from toolsavvy.necessity.judged import Judged, shares
from toolsavvy.necessity.labels import TREATMENTS

UNSTEERED = "none"
"""Name of the direction of alpha 0."""
RANDOM = "random"
"""What the names of random directions begin with."""
EVERY = "all"
"""Policy that pushes every question alike."""


@dataclass(frozen=True)
class Mismatch:
    """How often action and necessity differ under steering.

    Args:
        rule: of the necessity labels.
        treatment: parsed (calls and answers alone) | malformed_called.
        rate: share of the questions.
        change: minus that without steering, over questions that count in both; below 0 is better.
    """

    rule: str
    treatment: str
    rate: Interval
    change: Interval


@dataclass(frozen=True)
class SteeringPoint:
    """One push of all test questions.

    Args:
        direction: its name; `none` without steering.
        alpha: its factor, in units of the layer's typical norm.
        policy: all (every question alike) | probe (sign by the probe's decision) | oracle_<rule> (by the labels).
        is_random: whether the direction is a control.
        call_rate: share of calls among calls and answers.
        mismatch: under every rule and treatment.
        accuracy: of end results, calls carried out; malformed calls and refusals are wrong.
        accuracy_answered: of questions without a call.
        accuracy_called: of questions with one whose result is known.
        malformed: share of all questions.
        refused: share of all questions.
        changed: share of the questions whose outcome is another one than without steering.
    """

    direction: str
    alpha: float
    policy: str
    is_random: bool
    call_rate: Interval
    mismatch: tuple[Mismatch, ...]
    accuracy: Interval
    accuracy_answered: Interval
    accuracy_called: Interval
    malformed: Interval
    refused: Interval
    changed: Interval


@dataclass(frozen=True)
class SteeringCurve:
    """All pushes at one layer.

    Args:
        layer: 0 is the embeddings, i the output of block i.
        where: positions that were steered: answer | all.
        scale: what alpha = 1 adds, in norm.
        n: test questions.
        points: unsteered first.
    """

    layer: int
    where: str
    scale: float
    n: int
    points: tuple[SteeringPoint, ...]

    def of(self, direction: str, policy: str = EVERY) -> tuple[SteeringPoint, ...]:
        """Points of one direction by alpha, the unsteered one among them."""
        own = [p for p in self.points if p.direction == UNSTEERED or (p.direction, p.policy) == (direction, policy)]
        return tuple(sorted(own, key=lambda p: p.alpha))

    def control(self, alpha: float, policy: str = EVERY) -> tuple[SteeringPoint, ...]:
        """Points of the random directions at one alpha: a direction that does no better than these does nothing."""
        return tuple(p for p in self.points if p.is_random and p.alpha == alpha and p.policy == policy)


def ways(
    found: Mapping[tuple[str, float], Judged], needed: Mapping[str, np.ndarray], says: np.ndarray | None
) -> Iterator[tuple[str, float, str, Judged]]:
    """Direction, alpha, policy and what came of it: every push alike, then signs by the probe and by the labels.

    Args:
        found: (direction, alpha) -> what came of pushing every question alike; both signs of each alpha.
        needed: rule -> bool [question], the necessity labels.
        says: bool [question], what the probe says; None leaves it out.
    """
    signs = {f"oracle_{rule}": labels for rule, labels in needed.items()}
    if says is not None:
        signs = {"probe": says, **signs}
    for (name, alpha), judged in found.items():
        yield name, alpha, EVERY, judged
    for (name, alpha), judged in found.items():
        if alpha != 0:  # a negative one is the other direction's sign: less where it is needed
            for policy, chosen in signs.items():
                yield name, alpha, policy, judged.where(chosen, found[name, -alpha])


def points(
    tried: Sequence[tuple[str, float, str, Judged]],
    base: Judged,
    needed: Mapping[str, np.ndarray],
    clusters: Clusters,
    resamples: int,
    seed: int,
) -> tuple[SteeringPoint, ...]:
    """Every way with its intervals.

    Args:
        tried: as `ways` gives them.
        base: what comes of no push.
        needed: rule -> bool [question].
        clusters: [question], what is independent; None for the questions.
        resamples: bootstrap replicates.
        seed: of the resampling.
    """
    tables = [_columns(judged, base, needed) for _, _, _, judged in tried]
    found = shares(np.hstack(tables), clusters, resamples, seed)
    width = tables[0].shape[1]
    keys = [(rule, treatment) for rule in needed for treatment in TREATMENTS]
    told = []
    for place, (name, alpha, policy, _) in enumerate(tried):
        own = found[place * width : (place + 1) * width]
        pairs = zip(keys, own[_PLAIN::2], own[_PLAIN + 1 :: 2], strict=True)
        mismatch = tuple(Mismatch(rule, treatment, rate, change) for (rule, treatment), rate, change in pairs)
        calls, right, answered_right, called_right, malformed, refused, changed = own[:_PLAIN]
        told.append(
            SteeringPoint(
                name,
                alpha,
                policy,
                name.startswith(f"{RANDOM}_"),
                calls,
                mismatch,
                right,
                answered_right,
                called_right,
                malformed,
                refused,
                changed,
            )
        )
    return tuple(told)


_PLAIN = 7
"""Columns before those of the mismatch."""


def _columns(judged: Judged, base: Judged, needed: Mapping[str, np.ndarray]) -> np.ndarray:
    """What is averaged for one way, float64 [question, column], NaN where undefined."""
    called, answered_only = judged.called, judged.is_("not_called")
    differs = [a != b for a, b in zip(judged.outcomes, base.outcomes, strict=True)]
    parts = [
        np.where(judged.parsed, called, np.nan), judged.correct, np.where(answered_only, judged.correct, np.nan),
        np.where(called, judged.correct, np.nan), judged.is_("malformed"), judged.is_("refused"), differs,
    ]  # fmt: skip
    for labels in needed.values():
        for treatment in TREATMENTS:
            rate, before = (_mismatch(way, np.asarray(labels, dtype=bool), treatment) for way in (judged, base))
            parts += [rate, rate - before]
    return np.stack([np.asarray(part, dtype=np.float64) for part in parts], axis=1)


def _mismatch(judged: Judged, labels: np.ndarray, treatment: str) -> np.ndarray:
    """1 where action and label differ, float64 [question]; NaN where the treatment leaves the question out."""
    calls = judged.called | (judged.is_("malformed") & (treatment == "malformed_called"))
    return np.where(judged.parsed | calls, calls != labels, np.nan)
