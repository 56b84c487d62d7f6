"""Multiple-choice questions (ToolSense's MCQ): does a system find the right one of four statements about a tool?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from toolsavvy.attacks import answer_prior_scores, length_scores, name_overlap_scores, shared
from toolsavvy.benchmark import ChoiceItem, ItemSet
from toolsavvy.suites.questions import Questions, by_pattern
from toolsavvy.suites.table import Column, Comparison, Outcome, Result, Table

LIKELIHOOD, LETTERS = "likelihood", "letters"
"""How options are scored; the names of the slices."""


@dataclass(frozen=True)
class ChoiceAnswers:
    """What a system thinks of every option, the right one first; more is better.

    Args:
        likelihood: float64 [item, option]: mean log-probability per token of the option as the answer, or whatever
            else a system scores options by.
        letters: float64 [item, option]: probability of the option's letter among the letters, averaged over cyclic
            orders; None for systems that cannot be shown letters.
    """

    likelihood: np.ndarray
    letters: np.ndarray | None = None

    def of(self, scoring: str) -> np.ndarray | None:
        """The scores of one way."""
        return self.likelihood if scoring == LIKELIHOOD else self.letters


@dataclass(frozen=True)
class ChoicePrediction:
    """What a system answered to one question; options and scores with the right one first, ties shared."""

    suite: str
    system: str
    id: str
    tool: str
    pattern: str
    question: str
    options: tuple[str, ...]
    likelihood: tuple[float, ...]
    letters: tuple[float, ...] | None
    correct_likelihood: float
    correct_letters: float | None


class Mcq(Questions):
    """Accuracy in both ways of scoring, beside blind controls, which see no tool.

    Slices: "likelihood" and "letters", and "<scoring>/pattern=<pattern>". Chance is 25 % only if the blind controls
    say so. Paired tests and intervals are over tools.

    Args:
        path: file of the questions in ToolSense's layout; None makes them by template from the catalog.
        n: questions to make, where none are read.
        seed: of what is made, and of the bootstrap.
        resamples: of the bootstrap over tools.
        pairs: (system, rival) that are compared besides every system with its best rival, and shown.
        name: of the suite.
    """

    kind: ClassVar[str] = "mcq"

    def __init__(
        self,
        path: str | None = None,
        n: int = 120,
        seed: int = 0,
        resamples: int = 2000,
        pairs: Sequence[Sequence[str]] = (),
        name: str = "mcq",
    ) -> None:
        super().__init__(path, n, seed, resamples, pairs, name)

    def run(self, data: ItemSet[ChoiceItem], systems: Mapping[str, ChoiceAnswers]) -> Outcome:
        """Score the answers of every system, and of the controls.

        Raises:
            UserError: a pair names no system.
            ValueError: a system was asked other items.
        """
        items, everyone = data.items, {**systems, **controls(data)}
        self.check(everyone, {name: len(a.likelihood) for name, a in systems.items()}, len(items))
        results: list[Result] = []
        comparisons: list[Comparison] = []
        for scoring in (LIKELIHOOD, LETTERS):
            values = {s: shared(v) for s, a in everyone.items() if (v := a.of(scoring)) is not None}
            rows, tests = self._table(scoring, items, values).evaluate(self.resamples, self.seed)
            results += rows
            comparisons += tests
        predictions = {name: self._predictions(name, items, answers) for name, answers in everyone.items()}
        return Outcome(
            self.name, tuple(results), tuple(comparisons), predictions, self.pairs, (LIKELIHOOD, LETTERS),
            (("accuracy", None),),
        )  # fmt: skip

    def _table(self, scoring: str, items: Sequence[ChoiceItem], values: Mapping[str, np.ndarray]) -> Table:
        """Accuracy of every system that was scored in this way."""
        columns = [Column(system, "accuracy", None, correct) for system, correct in values.items()]
        tools = [item.tool for item in items]
        slices = by_pattern(scoring, items)
        return Table(self.name, tools, slices, columns, (), (scoring,), ("accuracy",), self.pairs)

    def _predictions(
        self, system: str, items: Sequence[ChoiceItem], answers: ChoiceAnswers
    ) -> tuple[ChoicePrediction, ...]:
        """One record an item."""
        right = shared(answers.likelihood).tolist()
        letters = [None] * len(items) if answers.letters is None else answers.letters.tolist()
        lettered = [None] * len(items) if answers.letters is None else shared(answers.letters).tolist()
        return tuple(
            ChoicePrediction(
                self.name, system, item.id, item.tool, item.pattern, item.question, item.options, tuple(scores),
                None if shown is None else tuple(shown), correct, correct_letters,
            )
            for item, scores, shown, correct, correct_letters in zip(
                items, answers.likelihood.tolist(), letters, right, lettered, strict=True
            )
        )  # fmt: skip


def controls(data: ItemSet[ChoiceItem]) -> dict[str, ChoiceAnswers]:
    """Blind attacks as systems: what they reach, nobody needs to know a tool for."""
    scores = {
        "blind_answer_prior": answer_prior_scores(data.items),
        "blind_name_overlap": name_overlap_scores(data.items, data.tools),
        "blind_longest_option": length_scores(data.items),
    }
    return {name: ChoiceAnswers(values, values) for name, values in scores.items()}
