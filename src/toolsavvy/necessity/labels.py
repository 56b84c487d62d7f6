"""Model-adaptive necessity labels, the four quadrants they make with the model's actions, and what flips them.

A question is *necessary* for a model if, without the tool, fewer than `min_correct` of its N sampled answers are right.
The knowing-doing paper (2605.14038) says N of N in its text; its released labels are 9 of 10. Both stand side by side
here, and so does any other number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolsavvy.classification import Confusion
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.metrics import Interval
from toolsavvy.necessity.estimates import Clusters, estimates, over
from toolsavvy.necessity.question import Observed

RULES = ("strict", "released")
"""N of N, as the paper's text has it; 9 of 10, as its released labels have it."""
TREATMENTS = ("parsed", "malformed_called")
"""Calls and answers alone; and with malformed calls counted as calls. Refusals are in neither."""
QUADRANTS = ("n_c", "n_nc", "un_c", "un_nc")
"""Necessary or not, called or not."""

Rule = str | int


def required(rule: Rule, samples: int) -> int:
    """How many of N answers must be right for a question to be unnecessary.

    Args:
        rule: strict (N), released (9 in 10, rounded up) or a number.
        samples: N.

    Raises:
        UserError: unknown rule, or a number that N answers can't reach.
    """
    if samples < 1:
        where, expected = "method.sampling.n", "at least 1 sample a question"
        raise UserError(f"{samples} samples give no label", where=where, expected=expected)
    if isinstance(rule, str):
        if rule not in RULES:
            expected, fix = f"{', '.join(RULES)} or a number", did_you_mean(rule, RULES)
            raise UserError(
                f"unknown necessity rule '{rule}'", where="method.sampling.min_correct", expected=expected, fix=fix
            )
        return samples if rule == "strict" else -(-9 * samples // 10)
    if not 1 <= rule <= samples:
        raise UserError(
            f"min_correct is {rule}, but there are {samples} samples a question: every label would be the same",
            where="method.sampling.min_correct",
            expected=f"1 to {samples}",
            fix="draw more samples, or lower min_correct",
        )
    return int(rule)


def rule_name(rule: Rule) -> str:
    """What tables call it: its own name, or 'min_correct_7'."""
    return rule if isinstance(rule, str) else f"min_correct_{rule}"


def necessary(correct: np.ndarray, samples: np.ndarray | int, min_correct: Rule | np.ndarray) -> np.ndarray:
    """Which questions the model needs the tool for: fewer than `min_correct` of its answers are right.

    Args:
        correct: int [question], right answers; answers that could not be read are not right.
        samples: int [question] or one number, answers that were sampled.
        min_correct: a number for all, one for each question, or the name of a rule.

    Returns:
        bool [question].

    Raises:
        ValueError: counts that can't be.
        UserError: a question without samples, or an unknown rule.
    """
    correct, samples = (np.asarray(a) for a in np.broadcast_arrays(correct, samples))
    if ((correct < 0) | (correct > samples)).any():
        raise ValueError("right answers must be between 0 and the number of samples")
    if isinstance(min_correct, str):
        sizes, places = np.unique(samples, return_inverse=True)
        min_correct = np.array([required(min_correct, int(n)) for n in sizes], dtype=np.int64)[places]
    return correct < np.asarray(min_correct)


def decided(correct: np.ndarray, samples: np.ndarray, planned: int, rule: Rule) -> np.ndarray:
    """Which labels no further sample can change, bool [question], if `planned` samples are drawn in all.

    This is exact: either enough answers are right already, or too few are left to get there.
    """
    least = required(rule, planned)
    correct, samples = np.asarray(correct), np.asarray(samples)
    return (correct >= least) | (samples - correct > planned - least)


@dataclass(frozen=True)
class Quadrants:
    """Necessity against action.

    Args:
        n_c: questions that need the tool and get it.
        n_nc: need it, not called.
        un_c: don't need it, called.
        un_nc: don't need it, not called.
        shares: weighted share of each quadrant, in the order of `QUADRANTS`.
        mismatch_rate: weighted share of n_nc and un_c.
        call_rate: weighted share of calls.
        need_rate: weighted share of necessary questions.
        mcc: Matthews correlation of necessity and action; None where either has one class only.
    """

    n_c: int
    n_nc: int
    un_c: int
    un_nc: int
    shares: tuple[Interval, Interval, Interval, Interval]
    mismatch_rate: Interval
    call_rate: Interval
    need_rate: Interval
    mcc: Interval

    @property
    def total(self) -> int:
        """Number of questions."""
        return sum(self.counts)

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """In the order of `QUADRANTS`; never weighted."""
        return self.n_c, self.n_nc, self.un_c, self.un_nc


def quadrants(
    necessary: np.ndarray,
    called: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    clusters: Clusters = None,
    resamples: int = 2000,
    seed: int = 0,
) -> Quadrants:
    """Count the quadrants; rates come with 95 % bootstrap intervals over clusters.

    Args:
        necessary: bool [question].
        called: bool [question].
        weights: float [question], inverse sampling weights of a rebalanced set; None weighs all alike.
        clusters: [question], what is independent: None for the questions themselves, or their families.
        resamples: replicates.
        seed: of the resampling.
    """
    necessary, called = np.asarray(necessary, dtype=bool), np.asarray(called, dtype=bool)
    if necessary.shape != called.shape:
        raise ValueError(f"{len(necessary)} labels but {len(called)} actions")
    place = 2 * ~necessary + ~called
    marks = np.eye(4)[place]
    n_c, n_nc, un_c, un_nc = np.bincount(place, minlength=4).tolist()
    found = estimates(marks, weights, clusters, _rates, resamples=resamples, seed=seed)
    mismatch, calls, need, correlation = found[4:]
    shares = (found[0], found[1], found[2], found[3])
    return Quadrants(n_c, n_nc, un_c, un_nc, shares, mismatch, calls, need, correlation)


def _rates(totals: np.ndarray) -> np.ndarray:
    """Shares, mismatch, call and need rate, MCC, float64 [..., 8], from quadrants [..., 4]; NaN where undefined."""
    n_c, n_nc, un_c, un_nc = np.moveaxis(totals, -1, 0)
    whole = totals.sum(axis=-1)
    rates = np.stack([n_c, n_nc, un_c, un_nc, n_nc + un_c, n_c + un_c, n_c + n_nc], axis=-1)
    correlation = Confusion(tp=n_c, fp=un_c, fn=n_nc, tn=un_nc).mcc
    return np.concatenate([over(rates, whole[..., None]), correlation[..., None]], axis=-1)


@dataclass(frozen=True)
class Labelled:
    """The quadrants of one way to look at a model's questions.

    Args:
        rule: name of the necessity rule.
        treatment: parsed | malformed_called.
        family: of the questions; '' for all of them, the headline.
        quadrants: what came out.
    """

    rule: str
    treatment: str
    family: str
    quadrants: Quadrants


def label_table(
    observed: Observed,
    rules: Sequence[Rule] = RULES,
    *,
    weights: np.ndarray | None = None,
    planned: int | None = None,
    clusters: Clusters = None,
    resamples: int = 2000,
    seed: int = 0,
) -> list[Labelled]:
    """Quadrants under every rule and treatment, of all questions at their natural prevalence and of every family.

    Args:
        observed: what the model did.
        rules: side by side.
        weights: [question], inverse sampling weights if the set was rebalanced.
        planned: samples a question, where sampling stopped as soon as a label was decided.
        clusters: for the headline; within a family the questions are what is independent.
        resamples: replicates.
        seed: of the resampling.

    Raises:
        ValueError: sampling stopped before a rule's label was decided.
    """
    drawn = {"resamples": resamples, "seed": seed}
    groups = None if clusters is None else np.asarray(clusters)
    families = np.asarray(observed.families, dtype=object)
    rows = []
    for rule in rules:
        labels = labels_of(observed, rule, planned)
        for treatment in TREATMENTS:
            kept, called = action(observed, treatment)
            for family in ("", *dict.fromkeys(observed.families)):
                rows_of = np.flatnonzero(kept if family == "" else kept & (families == family))
                part = None if weights is None else np.asarray(weights)[rows_of]
                by = groups[rows_of] if groups is not None and family == "" else None
                found = quadrants(labels[rows_of], called[rows_of], part, clusters=by, **drawn)
                rows.append(Labelled(rule_name(rule), treatment, family, found))
    return rows


def labels_of(observed: Observed, rule: Rule, planned: int | None = None) -> np.ndarray:
    """Necessity of every question under a rule, bool [question].

    Raises:
        ValueError: sampling stopped before the label was decided.
    """
    if planned is None:
        if not isinstance(rule, str):
            required(rule, int(observed.samples.max(initial=1)))
        return necessary(observed.correct, observed.samples, rule)
    if not decided(observed.correct, observed.samples, planned, rule).all():
        raise ValueError(f"sampling stopped before the label was decided under '{rule_name(rule)}'")
    return necessary(observed.correct, observed.samples, required(rule, planned))


def action(observed: Observed, treatment: str) -> tuple[np.ndarray, np.ndarray]:
    """Which outcomes a treatment keeps, and which of all are calls to it: bool [question] twice."""
    if treatment not in TREATMENTS:
        raise ValueError(f"unknown treatment {treatment!r}, one of {TREATMENTS}")
    malformed = treatment == "malformed_called"
    called = observed.called(malformed=malformed)
    return (observed.parsed() | called), called
