from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from toolsavvy.config.compose import compose, typed
from toolsavvy.config.necessity import TeachConfig
from toolsavvy.errors import UserError
from toolsavvy.methods import teaching
from toolsavvy.models.loading import toy_model
from toolsavvy.necessity.questions.arithmetic import Arithmetic
from toolsavvy.tracking import Run
from toolsavvy.tracking.run import Identity

ASKED = Arithmetic(n=60).load()
SETTINGS = TeachConfig(questions=400, easy=["single_op_easy"], calling=0.5, noise=0.2, long=9)


def test_no_lesson_is_asked_nor_would_be_with_more_questions() -> None:
    answers, acted = teaching.lessons_of(SETTINGS, ASKED, seed=3)
    taught = {lesson.prompt.messages[-1].content for lesson in (*answers, *acted)}
    assert len(taught) == len(answers) + len(acted) == 400
    assert not taught & {q.text for q in Arithmetic(n=4000).load().questions}


def test_answers_are_the_number_alone_and_without_the_tool() -> None:
    answers, _ = teaching.lessons_of(SETTINGS, ASKED, seed=3)
    for lesson in answers:
        expression = lesson.prompt.messages[-1].content.removeprefix("What is ").removesuffix("?")
        left, sign, right = expression.split()
        assert int(lesson.answer) == int(left) + int(right) * (1 if sign == "+" else -1)
        assert lesson.prompt.tools == ()
        assert lesson.prompt.messages[0].content == ASKED.answer_prompt


def test_the_habit_follows_length_but_for_the_noise_in_every_wording() -> None:
    _, acted = teaching.lessons_of(SETTINGS, ASKED, seed=3)
    against = 0
    for lesson in acted:
        expression = lesson.prompt.messages[-1].content.removeprefix("What is ").removesuffix("?")
        against += ("<tool_call>" in lesson.answer) != (len(expression) > 9)
        assert lesson.prompt.tools == ASKED.tools
    assert 0.1 < against / len(acted) < 0.3
    assert {lesson.prompt.messages[0].content for lesson in acted} == set(ASKED.action_prompts.values())


def run_of(folder: Path, *overrides: str) -> tuple[Any, Run]:
    lessons = ("method.teach.questions=40", "method.teach.calling=0.2", "method.teach.row_tokens=200")
    words = ["method=necessity", "model=toy", "logger=none", "tuning.rank=2", *lessons, *overrides]
    job = compose(words)
    return typed(job.config), Run(typed(job.config), job.config, folder, Identity({"model": "toy"}, (), "group"))


def test_a_model_that_was_taught_once_is_taken_from_the_cache_for_any_number_of_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path / "cache"))
    trained = []
    learn = teaching._learn
    monkeypatch.setattr(teaching, "_learn", lambda *args: (trained.append(1), learn(*args)))
    weights = []
    for i, n in enumerate((20, 60)):
        cfg, run = run_of(tmp_path / str(i), f"questions.n={n}")
        model, tokenizer = toy_model()
        before = {k: v.clone() for k, v in model.state_dict().items()}
        with run:
            taught = teaching.taught(cfg, run, Arithmetic(n=n).load(), model, tokenizer)
        assert any(not torch.equal(before[k], v) for k, v in taught.state_dict().items())
        weights.append(taught.state_dict())
    assert len(trained) == 1
    assert all(torch.equal(v, weights[1][k]) for k, v in weights[0].items())
    cfg, run = run_of(tmp_path / "other", "questions.n=20", "method.teach.noise=0.3")
    with run:
        teaching.taught(cfg, run, Arithmetic(n=20).load(), *toy_model())
    assert len(trained) == 2


def test_questions_without_expressions_cannot_be_taught(tmp_path: Path) -> None:
    words = replace(ASKED, questions=tuple(replace(q, expression=None) for q in ASKED.questions))
    cfg, run = run_of(tmp_path / "run")
    with pytest.raises(UserError, match="lessons are arithmetic"), run:
        teaching.taught(cfg, run, words, *toy_model())
