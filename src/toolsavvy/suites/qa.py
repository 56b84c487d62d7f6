"""Yes/no questions (ToolSense's QA): does a system know what holds for a tool, or does it always say yes?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from toolsavvy.attacks import TIE, groups_of, question_only_scores
from toolsavvy.benchmark import ItemSet, YesNoItem
from toolsavvy.metrics import Resamples, interval
from toolsavvy.suites.questions import Questions, by_pattern
from toolsavvy.suites.table import Column, Outcome, Result, Table

ALL = "all"
"""The slice of all questions."""
MOST = 100.0
"""Log-odds beyond this are cut: a control that saw one kind of answer alone is infinitely sure of it."""
METRICS = ("accuracy", "yes_share", "auc")
BLIND = "blind_question_only"
"""The control: a classifier that reads questions and no tool."""


@dataclass(frozen=True)
class YesNoPrediction:
    """What a system answered to one question; `yes` is the log-odds of yes, `correct` is half at 0."""

    suite: str
    system: str
    id: str
    tool: str
    pattern: str
    question: str
    answer: bool
    yes: float
    correct: float


class Qa(Questions):
    """Accuracy, the share of yes, and the area under the curve, which no inclination to yes can change.

    Slices: "all" and "all/pattern=<pattern>". Paired tests (of accuracy) and intervals are over tools.

    Args:
        path: file of the questions in ToolSense's layout; None makes them by template from the catalog.
        n: questions to make, where none are read.
        seed: of what is made, and of the bootstrap.
        resamples: of the bootstrap over tools.
        pairs: (system, rival) that are compared besides every system with its best rival, and shown.
        name: of the suite.
    """

    kind: ClassVar[str] = "qa"

    def __init__(
        self,
        path: str | None = None,
        n: int = 120,
        seed: int = 0,
        resamples: int = 2000,
        pairs: Sequence[Sequence[str]] = (),
        name: str = "qa",
    ) -> None:
        super().__init__(path, n, seed, resamples, pairs, name)

    def run(self, data: ItemSet[YesNoItem], systems: Mapping[str, np.ndarray]) -> Outcome:
        """Score the log-odds of yes, float64 [item], of every system, and of the control.

        Raises:
            UserError: a pair names no system.
            ValueError: a system was asked other items.
        """
        items, everyone = data.items, {**systems, BLIND: blind(data)}
        self.check(everyone, {name: len(yes) for name, yes in systems.items()}, len(items))
        truth, slices = np.array([item.answer for item in items]), by_pattern(ALL, items)
        columns = []
        for system, yes in everyone.items():
            said = yes_said(yes)
            columns.append(Column(system, "accuracy", None, np.where(truth, said, 1.0 - said)))
            columns.append(Column(system, "yes_share", None, said))
        tools = [item.tool for item in items]
        table = Table(self.name, tools, slices, columns, (), (ALL,), ("accuracy",), self.pairs)
        results, comparisons = table.evaluate(self.resamples, self.seed)
        for name, own in slices.items():
            part = Resamples.of([tools[i] for i in own], self.resamples, self.seed)
            results += [self._auc(name, s, truth[own], yes[own], part) for s, yes in everyone.items()]
        predictions = {
            c.system: self._predictions(c.system, items, everyone[c.system], c.values)
            for c in columns
            if c.metric == "accuracy"
        }
        shown = tuple((metric, None) for metric in METRICS)
        return Outcome(self.name, tuple(results), tuple(comparisons), predictions, self.pairs, (ALL,), shown)

    def _auc(self, name: str, system: str, truth: np.ndarray, yes: np.ndarray, part: Resamples) -> Result:
        """The area with its interval, undefined where all answers are alike."""
        found = interval(auc(truth, yes), auc_replicates(truth, yes, part), len(yes), part.units)
        return Result(system, self.name, name, "auc", None, found.value, found.low, found.high, found.n)

    def _predictions(
        self, system: str, items: Sequence[YesNoItem], yes: np.ndarray, correct: np.ndarray
    ) -> tuple[YesNoPrediction, ...]:
        """One record an item."""
        return tuple(
            YesNoPrediction(self.name, system, i.id, i.tool, i.pattern, i.question, i.answer, odds, right)
            for i, odds, right in zip(items, yes.tolist(), correct.tolist(), strict=True)
        )


def blind(data: ItemSet[YesNoItem]) -> np.ndarray:
    """Log-odds of yes by the question's words alone, learnt from other services' questions: float64 [item]."""
    scores = question_only_scores(data.items, groups_of(data.items, data.tools))
    return np.clip(scores, -MOST, MOST)


def yes_said(yes: np.ndarray) -> np.ndarray:
    """Log-odds as answers: 1 is yes, 0 is no, half is undecided."""
    return np.where(np.abs(yes) <= TIE, 0.5, (yes > 0).astype(np.float64))


def auc(truth: np.ndarray, scores: np.ndarray) -> float:
    """Share of (yes, no) pairs in the right order, ties half; NaN without either."""
    return float(_areas(truth, scores, np.ones((1, len(scores))))[0])


def auc_replicates(truth: np.ndarray, scores: np.ndarray, part: Resamples) -> np.ndarray:
    """The area in every resample of the clusters, float64 [replicate]."""
    cells = max(1, 4_000_000 // max(1, len(scores)) * part.units)  # weights of items, not of clusters, fill the memory
    return np.concatenate([_areas(truth, scores, counts[:, part.clusters]) for counts in part.weights(cells)])


def _areas(truth: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted areas, float64 [replicate], of weights [replicate, item]: cumulated over the sorted scores."""
    order = np.argsort(scores, kind="stable")
    starts = np.flatnonzero(np.diff(scores[order], prepend=np.nan) != 0)
    positive, negative = (
        np.add.reduceat(weights[:, order] * side[order], starts, axis=1) for side in (truth, ~truth)
    )  # per level of equal scores
    below = np.cumsum(negative, axis=1) - negative / 2
    pairs = positive.sum(axis=1) * negative.sum(axis=1)
    return np.divide((positive * below).sum(axis=1), pairs, out=np.full(len(weights), np.nan), where=pairs > 0)
