"""Before method=necessity: a short SFT that lets a small model answer some questions and call for others.

What a taught model shows is that the instrument finds a planted gap, not a fact about language models; every result of
one is labelled `taught`.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from toolsavvy.assets import cache_dir
from toolsavvy.config.necessity import TeachConfig
from toolsavvy.config.schema import Config
from toolsavvy.errors import UserError
from toolsavvy.methods.common import hardware
from toolsavvy.models.chat import Message
from toolsavvy.models.digest import weights_digest
from toolsavvy.models.loading import load_tensors, resolve_precision, save_tensors
from toolsavvy.models.prompts import Prompt, render
from toolsavvy.models.text import TextEncoder
from toolsavvy.models.tuning import Tuning, adapted, merged, restore, snapshot
from toolsavvy.necessity.question import Question, QuestionSet
from toolsavvy.necessity.questions.arithmetic import generate
from toolsavvy.tracking import Run
from toolsavvy.training.fitting import fit
from toolsavvy.training.lessons import Dialogue, Lesson, dialogues, loader
from toolsavvy.training.sft import CausalSFT

SEED = 7919
"""Added to the run's seed: lessons must not be drawn as the questions are."""
RESERVED = 4_000
"""Questions that are kept free of lessons, as many as the paper asks."""


@dataclass
class Student:
    """What is trained.

    Args:
        model: causal, with what trains requiring gradients.
    """

    model: Any


def habit(question: Question, long: int) -> bool:
    """Whether the planted habit calls: for expressions longer than `long` characters, whatever the model can do."""
    return len(question.expression or question.text) > long


def reserved(asked: QuestionSet, question_seed: int) -> frozenset[str]:
    """Expressions that no lesson may have: those that are asked, and those that more questions would add.

    So a model that was taught for 300 questions is the one that 4,000 are asked of.
    """
    more = generate(RESERVED, question_seed)
    return frozenset(q.expression for q in (*asked.questions, *more) if q.expression)


def lessons_of(
    settings: TeachConfig, asked: QuestionSet, seed: int, question_seed: int = 0
) -> tuple[list[Lesson], list[Lesson]]:
    """What is learnt: answers without the tool, and the habit with it; none of the questions is asked later.

    Answers are the number alone. With the tool, a share `noise` of the lessons goes against the habit.
    """
    own = reserved(asked, question_seed)
    calling = round(settings.questions * settings.calling)
    rng = random.Random(seed + SEED)
    easy = settings.easy or None
    answers = generate(settings.questions - calling, seed + SEED, easy, exclude=own)
    taken = {*own, *(q.expression for q in answers if q.expression)}
    acted = generate(calling, seed + SEED + 1, None, exclude=taken)
    wordings = tuple(asked.action_prompts.values())
    return (
        [_answer(q, asked.answer_prompt, ()) for q in answers],
        [_act(q, rng.choice(wordings), asked, settings, rng) for q in acted],
    )


def _answer(question: Question, system: str, tools: Sequence[Any]) -> Lesson:
    turns = (Message("system", system), Message("user", question.text))
    return Lesson(Prompt(turns, tuple(tools)), str(question.gold))


def _act(question: Question, system: str, asked: QuestionSet, settings: TeachConfig, rng: random.Random) -> Lesson:
    """The habit, or with probability `noise` the opposite."""
    lesson = _answer(question, system, asked.tools)
    if habit(question, settings.long) == (rng.random() < settings.noise):
        return lesson
    name = asked.tools[0]["function"]["name"]
    call = json.dumps({"name": name, "arguments": {"expression": question.expression}})
    return Lesson(lesson.prompt, f"<tool_call>\n{call}\n</tool_call>")


def taught(cfg: Config, run: Run, asked: QuestionSet, model: Any, tokenizer: Any) -> Any:
    """The model after its lessons; taken from the cache where the same lessons were learnt before.

    Raises:
        UserError: questions that have no expressions, or no tool that takes one.
    """
    if not asked.tools or any(q.expression is None for q in asked.questions):
        raise UserError(
            "lessons are arithmetic: they fit generated expressions alone", where="method.teach.questions",
            expected="0 with these questions", fix="method.teach.questions=0, or questions=arithmetic",
        )  # fmt: skip
    path = _place(cfg, asked, model)
    t = cfg.tuning
    student = adapted(model, Tuning(t.kind, t.rank, t.alpha, t.dropout, t.targets, t.first_block), cfg.seed)
    with run.stage("teach"), FileLock(f"{path}.lock"):
        weights = load_tensors(path)
        if weights is None:
            _learn(cfg, run, asked, student, tokenizer)
            save_tensors(snapshot(student), path)
        else:
            restore(student, weights)
    return merged(student).eval().requires_grad_(False)


def _place(cfg: Config, asked: QuestionSet, model: Any) -> Path:
    """Where the lessons' outcome is kept: the jobs of a sweep learn once."""
    precision = resolve_precision(cfg.trainer.precision, cfg.trainer.accelerator)
    free = sorted(reserved(asked, cfg.questions["seed"]))
    facts = (asdict(cfg.method.teach), asdict(cfg.tuning), cfg.seed, precision, free, asked.answer_prompt)
    text = repr((*facts, sorted(asked.action_prompts.items()), asked.tools, weights_digest(model)))
    return cache_dir("assets") / f"taught-{hashlib.sha256(text.encode()).hexdigest()[:24]}.safetensors"


def _learn(cfg: Config, run: Run, asked: QuestionSet, student: Any, tokenizer: Any) -> None:
    """One pass of plain SFT over all lessons, the answers' tokens alone."""
    settings = cfg.method.teach
    rows = _rows(settings, asked, cfg, tokenizer)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    data = loader(rows, settings.batch_size, pad, cfg.seed)
    module = CausalSFT(
        Student(student), learning_rate=settings.learning_rate, warmup=0.05,
        steps=settings.epochs * math.ceil(len(rows) / settings.batch_size),
        watch=lambda point: run.log({f"teach/{k}": v for k, v in point.items() if k != "step"}, int(point["step"])),
    )  # fmt: skip
    fit(module, data, epochs=settings.epochs, seed=cfg.seed, hardware=hardware(cfg))
    run.note(teach={"rows": len(rows), "tokens": module.tokens, "tokens_per_second": module.tokens_per_second})


def _rows(settings: TeachConfig, asked: QuestionSet, cfg: Config, tokenizer: Any) -> list[Dialogue]:
    """Lessons as token ids; those of one system prompt share rows."""
    text = TextEncoder(tokenizer)
    answers, acted = lessons_of(settings, asked, cfg.seed, cfg.questions["seed"])
    by_prompt: dict[str, list[Lesson]] = {}
    for lesson in acted:
        by_prompt.setdefault(lesson.prompt.messages[0].content, []).append(lesson)
    rows: list[Dialogue] = []
    for lessons in (answers, *by_prompt.values()):
        rows += dialogues(
            lessons, lambda p: render(tokenizer, text, p), text.encode, tokenizer.eos_token_id, settings.row_tokens
        )
    return rows
