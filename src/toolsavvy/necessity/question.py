"""Questions for a model, and what it did with them: the types that necessity's parts share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from toolsavvy.calls.parsing import Outcome


@dataclass(frozen=True)
class Question:
    """One question.

    Args:
        id: unique within its set.
        text: what the user asks.
        family: group of held-out splits: template of an expression, topic, source.
        gold: exact number, where there is one.
        expression: what `gold` was computed from.
        correct: answers that are right, the best one first.
        incorrect: answers that are wrong.
        tools: function schemas offered with this question; () are those of its set.
        needs_tool: label that holds for every model, where a benchmark gives one.
    """

    id: str
    text: str
    family: str
    gold: int | float | None = None
    expression: str | None = None
    correct: tuple[str, ...] = ()
    incorrect: tuple[str, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    needs_tool: bool | None = None


@dataclass(frozen=True)
class QuestionSet:
    """Questions of one kind, asked alike.

    Args:
        name: shown in tables and files.
        questions: in order; ids are unique.
        tools: function schemas offered with every question that has none of its own.
        answer_prompt: system prompt for answering without tools.
        action_prompts: wording (neutral, discouraging, encouraging) -> system prompt with tools offered.
        checker: name of the answer checker that fits: number | similarity | likelihood | judge | none.
        audit: counts worth telling.
    """

    name: str
    questions: tuple[Question, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    answer_prompt: str = ""
    action_prompts: Mapping[str, str] = field(default_factory=dict)
    checker: str = "number"
    audit: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        """Number of questions."""
        return len(self.questions)

    @property
    def families(self) -> tuple[str, ...]:
        """Family of every question, in order."""
        return tuple(q.family for q in self.questions)


@dataclass(frozen=True)
class Verdict:
    """What a checker says of one answer.

    Args:
        correct: whether it is right; None where no answer could be read.
        answer: what was read as the answer.
    """

    correct: bool | None
    answer: str | None = None


class Checker(Protocol):
    """Decides whether answers are right."""

    name: str
    """Reported with every number that rests on it."""

    def check(self, questions: Sequence[Question], texts: Sequence[str]) -> list[Verdict]:
        """One verdict per (question, answer) pair."""
        ...


@dataclass(frozen=True)
class Observed:
    """What one model did with the questions of a set: the input of labels, probes and attribution.

    Args:
        ids: [question].
        families: [question].
        correct: int64 [question], right answers among the samples.
        samples: int64 [question], answers that were sampled.
        outcomes: [question], of the greedy answer with tools offered.
    """

    ids: tuple[str, ...]
    families: tuple[str, ...]
    correct: np.ndarray
    samples: np.ndarray
    outcomes: tuple[Outcome, ...]

    def __post_init__(self) -> None:
        """Every array has one entry a question."""
        lengths = {len(part) for part in (self.ids, self.families, self.correct, self.samples, self.outcomes)}
        if len(lengths) != 1:
            raise ValueError(f"arrays of different lengths: {sorted(lengths)}")

    def called(self, *, malformed: bool = False) -> np.ndarray:
        """Which questions ended in a call, bool [question]; with `malformed`, broken calls count as calls."""
        wanted = ("called", "malformed") if malformed else ("called",)
        return np.array([o in wanted for o in self.outcomes], dtype=bool)

    def parsed(self) -> np.ndarray:
        """Which outcomes are a call or an answer, bool [question]: what the headline is over."""
        return np.array([o in ("called", "not_called") for o in self.outcomes], dtype=bool)
