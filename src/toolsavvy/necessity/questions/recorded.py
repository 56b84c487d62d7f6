"""What the knowing-doing paper's models did, as released (2605.14038): labels and actions without loading a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from toolsavvy.calls.arithmetic import agrees
from toolsavvy.catalogs.reading import existing
from toolsavvy.necessity import wordings
from toolsavvy.necessity.question import Observed, Question, QuestionSet
from toolsavvy.necessity.questions.arithmetic import family_of
from toolsavvy.necessity.questions.released import KEY, Item, Release, answers, read_release

RELEASED = "released"
"""Wording whose system prompt is the one that this model was given; it differs between the released models."""


class Recorded:
    """One of the paper's models on one of its domains.

    Reads a folder with `labels.csv` (and what there is of `questions.jsonl`, `prompts.jsonl`, `raw/`), or the release's
    own `raw_data/<domain>/<model>/`. Families are those of the expression, or the question's category.

    Args:
        path: the folder.
        domain: math_arithmetic_union | truthfulqa.
        model: as the release calls it: Qwen3-4B, Qwen3-8B, Llama-3.1-8B-Instruct, Llama-3.2-3B-Instruct.

    Raises:
        UserError: on reading, a missing file, an unknown domain or model (names what is there), a row that can't be.
    """

    def __init__(
        self, path: str | Path | None = None, domain: str | None = "math_arithmetic_union", model: str | None = None
    ) -> None:
        self.path, self.domain, self.model = path, domain, model

    @cached_property
    def _release(self) -> Release:
        folder = existing(self.path, "a folder with labels.csv or the release's raw_data", key=KEY)
        return read_release(folder, self.domain, self.model)

    @cached_property
    def _questions(self) -> tuple[Question, ...]:
        return tuple(_question(item, str(self.domain)) for item in self._release.items)

    def load(self) -> QuestionSet:
        """The questions, with the tools and the system prompt of the release where they are there."""
        return self._asked

    @cached_property
    def _asked(self) -> QuestionSet:
        release, questions = self._release, self._questions
        is_arithmetic = any(q.expression for q in questions) or "arithmetic" in str(self.domain)
        kind = "arithmetic" if is_arithmetic else "truthfulqa"
        own = {RELEASED: release.system} if release.system else {}
        return QuestionSet(
            name=str(self.domain),
            questions=questions,
            tools=release.tools,
            answer_prompt=wordings.ANSWER[kind],
            action_prompts={**wordings.action(kind), **own},
            checker="number" if is_arithmetic else "similarity",
            audit=_audit(release, questions),
        )

    def observed(self) -> Observed:
        """Right answers among the samples, and whether the model called, as released."""
        items = self._release.items
        return Observed(
            ids=tuple(item.id for item in items),
            families=tuple(q.family for q in self._questions),
            correct=np.array([item.correct for item in items], dtype=np.int64),
            samples=np.array([item.samples for item in items], dtype=np.int64),
            outcomes=tuple("called" if item.called else "not_called" for item in items),
        )

    def outputs(self) -> Mapping[str, str]:
        """Id -> the model's greedy answer with the tool offered, where it was released."""
        known = {item.id for item in self._release.items}
        return {id: text for id, text in self._release.outputs.items() if id in known}


def _question(item: Item, domain: str) -> Question:
    about = item.about
    expression = about.get("expression")
    return Question(
        id=item.id,
        text=about.get("question", ""),
        family=family_of(expression) if expression else about.get("category_topic") or domain,
        gold=about.get("correct_answer"),
        expression=expression,
        correct=tuple(dict.fromkeys([*_best(about), *answers(about, "correct_answers")])),
        incorrect=answers(about, "incorrect_answers"),
    )


def _best(about: Mapping[str, str]) -> list[str]:
    best = about.get("best_answer", "").strip()
    return [best] if best else []


def _audit(release: Release, questions: Sequence[Question]) -> dict[str, object]:
    """What the release's labels, counts and answers say of one another; its text: unnecessary iff all are right."""
    items = release.items
    return {
        "labelled_necessary": sum(i.necessary for i in items),
        "called": sum(i.called for i in items),
        "labels_against_all_right": sum(i.necessary != (i.correct < i.samples) for i in items),
        "labels_against_nine_of_ten_right": sum(i.necessary != (10 * i.correct < 9 * i.samples) for i in items),
        "samples": dict(Counter(i.samples for i in items)),
        "answers_released": len({i.id for i in items} & set(release.outputs)),
        "questions_without_text": sum(not q.text for q in questions),
        "gold_against_expression": sum(
            q.expression is not None and q.gold is not None and not agrees(q.expression, q.gold) for q in questions
        ),
        "families": dict(Counter(q.family for q in questions)),
    }
