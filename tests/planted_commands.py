"""What a command of a test meets in its own process: models whose answers are planted, labelled so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lamps import COLOURS
from planted_models import CALCULATOR, planted_model, planted_questions

NAME = "planted"


def call_of_lamps(task: Any, index: int) -> str:
    """An answer to a lamp's task: right in two of three cases, broken in one of 17, as the task's number says."""
    right = dict(task.reference.arguments)
    number = int(task.id.rpartition("-")[2])
    if (number + index) % 3 == 1:
        right["Colour"] = COLOURS[(COLOURS.index(right["Colour"]) + 1) % len(COLOURS)]
    return "broken {" if number % 17 == 5 else json.dumps(right)


def lamps() -> None:
    """Calls of method=pbt are planted; everything else is the toy model's."""
    from toolsavvy.methods.arguments import desk
    from toolsavvy.parameters.generating import Generated

    def planted(model: Any, tokenizer: Any, tasks: Sequence[Any], prompts: Any, **how: Any) -> list[Generated]:
        indices = range(1 + how["samples"])
        return [Generated(t.id, i, call_of_lamps(t, i), True) for t in tasks for i in indices]

    desk.generate = planted  # pyright: ignore[reportPrivateImportUsage]


def knowing() -> None:
    """method=necessity asks the planted model questions whose answer is 42."""
    from toolsavvy.decoding.sampling import LocalSampler
    from toolsavvy.methods.knowing import subject
    from toolsavvy.necessity.question import QuestionSet
    from toolsavvy.necessity.questions.arithmetic import Arithmetic

    model, tokenizer, _ = planted_model()
    wordings = {"neutral": "", "discouraging": "No.", "encouraging": "Yes."}
    asked = QuestionSet(NAME, tuple(planted_questions(40)), (CALCULATOR,), "", wordings)
    sampler = LocalSampler(model, tokenizer, name=NAME, batch_size=64)
    subject.subject_of = lambda *_: subject.Subject(NAME, sampler, model, tokenizer)
    Arithmetic.load = lambda self: asked  # pyright: ignore[reportAttributeAccessIssue]
