"""Share of necessity labels that change: between rules, numbers of samples, temperatures, or runs."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from toolsavvy.metrics import Interval
from toolsavvy.necessity.estimates import Clusters, estimates, over
from toolsavvy.necessity.labels import Rule, necessary, required


@dataclass(frozen=True)
class Flips:
    """How two sets of labels of the same questions differ.

    Args:
        to_necessary: questions that only the second calls necessary.
        to_unnecessary: questions that only the first calls necessary.
        share: weighted share of questions whose label differs.
    """

    to_necessary: int
    to_unnecessary: int
    share: Interval


def flips(
    labels_a: np.ndarray,
    labels_b: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    clusters: Clusters = None,
    resamples: int = 2000,
    seed: int = 0,
) -> Flips:
    """Compare labels bool [question] of the same questions; the share has a 95 % bootstrap interval over clusters."""
    a, b = np.asarray(labels_a, dtype=bool), np.asarray(labels_b, dtype=bool)
    if a.shape != b.shape:
        raise ValueError(f"{len(a)} and {len(b)} labels")
    share = mean(a != b, weights, clusters=clusters, resamples=resamples, seed=seed)
    return Flips(int((~a & b).sum()), int((a & ~b).sum()), share)


def mean(
    values: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    clusters: Clusters = None,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Weighted mean of values [question] with a 95 % bootstrap interval over clusters."""
    pair = np.stack([np.asarray(values, dtype=np.float64), np.ones(len(values))], axis=1)
    (found,) = estimates(
        pair, weights, clusters, lambda sums: over(sums[..., :1], sums[..., 1:]), resamples=resamples, seed=seed
    )
    return found


def first_counts(right: np.ndarray, n: int) -> np.ndarray:
    """Right answers among the first n stored samples, int64 [question], from bool [question, sample].

    Raises:
        ValueError: fewer than n samples are stored.
    """
    if not 1 <= n <= right.shape[1]:
        raise ValueError(f"{n} of {right.shape[1]} stored samples")
    return right[:, :n].sum(axis=1, dtype=np.int64)


def need_probability(correct: np.ndarray, samples: np.ndarray | int, n: int, rule: Rule) -> np.ndarray:
    """Chance that n of a question's stored samples, drawn without replacement, make it necessary: float64 [question].

    This is exact (hypergeometric): the mean over all ways to choose n of the N samples, not one of them.
    """
    least = required(rule, n)
    correct, samples = (np.asarray(a) for a in np.broadcast_arrays(correct, samples))
    chances: dict[tuple[int, int], float] = {}
    for right, total in {(int(c), int(s)) for c, s in zip(correct, samples, strict=True)}:
        if n > total:
            raise ValueError(f"{n} of {total} samples")
        ways = sum(comb(right, h) * comb(total - right, n - h) for h in range(least))
        chances[right, total] = ways / comb(total, n)
    return np.array([chances[int(c), int(s)] for c, s in zip(correct, samples, strict=True)], dtype=np.float64)


def sample_size_flips(
    correct: np.ndarray,
    samples: np.ndarray | int,
    n: int,
    rule: Rule,
    weights: np.ndarray | None = None,
    *,
    clusters: Clusters = None,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Expected share of labels that differ between all stored samples and n of them, under the same rule.

    Args:
        correct: int [question].
        samples: int [question] or one number.
        n: size of the smaller sets of samples.
        rule: a name; a number would be another share of n than of N.
        weights: [question], or None.
        clusters: [question], or None.
        resamples: replicates.
        seed: of the resampling.
    """
    chance = need_probability(correct, samples, n, rule)
    differs = np.where(necessary(correct, samples, rule), 1 - chance, chance)
    return mean(differs, weights, clusters=clusters, resamples=resamples, seed=seed)
