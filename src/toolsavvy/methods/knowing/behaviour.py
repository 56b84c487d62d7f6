"""What a model does with every question: answers without the tool, then its action with the tool offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from toolsavvy.assets import cache_dir
from toolsavvy.calls.parsing import outcome_of
from toolsavvy.config.compose import build
from toolsavvy.config.necessity import NecessityConfig
from toolsavvy.config.schema import Config
from toolsavvy.decoding.samples import Sample
from toolsavvy.errors import UserError
from toolsavvy.methods.knowing.subject import Subject
from toolsavvy.models.chat import Message
from toolsavvy.models.prompts import Prompt
from toolsavvy.necessity.answers import Numbers
from toolsavvy.necessity.asking import Asked, ask_counted, decide
from toolsavvy.necessity.labels import required
from toolsavvy.necessity.question import Checker, Observed, Question, QuestionSet
from toolsavvy.necessity.store import SampleStore
from toolsavvy.tracking import Run

LIKELIHOOD = "likelihood"
"""The checker that reads no answers: it compares how likely given ones are."""


@dataclass(frozen=True)
class Behaviour:
    """What one model did.

    Args:
        observed: counts and outcomes.
        right: bool [question, sample], False where a sample was not needed or could not be read; None without samples.
        answers: a sample of every question without the tool.
        actions: the greedy answer of every question with the tool offered.
        checker: name of the checker behind `right`.
        soft: float64 [question], probability of being right where no answers were counted; None elsewhere.
        planned: samples a question where some were stopped as their label was decided; None where counts are whole.
        sampled_calls: float64 [question], share of further samples with the tool that call; None where none were drawn.
        unread: samples in which no answer could be read.
        facts: tokens and samples, for run.json.
    """

    observed: Observed
    right: np.ndarray | None
    answers: tuple[str, ...]
    actions: tuple[str, ...]
    checker: str
    soft: np.ndarray | None = None
    planned: int | None = None
    sampled_calls: np.ndarray | None = None
    unread: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)


def answer_prompts(asked: QuestionSet) -> list[Prompt]:
    """Every question without tools."""
    return [_prompt(asked.answer_prompt, q, ()) for q in asked.questions]


def action_prompts(asked: QuestionSet, settings: NecessityConfig, wording: str | None = None) -> list[Prompt]:
    """Every question with its tools offered, one system prompt for all models."""
    system = settings.action.prompt if wording is None and settings.action.prompt is not None else None
    if system is None:
        system = asked.action_prompts[wording or settings.action.wording]
    return [_prompt(system, q, q.tools or asked.tools) for q in asked.questions]


def _prompt(system: str, question: Question, tools: Sequence[Mapping[str, Any]]) -> Prompt:
    turns = (Message("system", system),) if system else ()
    return Prompt((*turns, Message("user", question.text)), tuple(tools))


def checker_of(cfg: Config, name: str) -> Checker:
    """The answer checker of a name; encoders and judges are those of the config's groups."""
    if name == "number":
        return Numbers()
    from toolsavvy.necessity.truthful import Judge, Similarity

    return Similarity(build(cfg.encoder)) if name == "similarity" else Judge(build(cfg.llm))


def action_checker(cfg: Config, behaviour: Behaviour) -> Checker | None:
    """The run's checker for answers with the tool offered; None where it reads no answers."""
    return None if behaviour.checker in (LIKELIHOOD, "none") else checker_of(cfg, behaviour.checker)


def observe(cfg: Config, run: Run, asked: QuestionSet, subject: Subject) -> Behaviour:
    """Sample answers without the tool, then let the model act with the tool offered.

    Raises:
        UserError: no answer at all could be read.
    """
    name = cfg.method.sampling.checker or asked.checker
    needed = _believed(cfg, run, asked, subject) if name == LIKELIHOOD else _answered(cfg, run, asked, subject, name)
    with run.stage("act"):
        greedy = draw(cfg, subject, action_prompts(asked, cfg.method), 1, 0.0, cfg.method.action.max_tokens)
    actions = tuple(samples[0].text for samples in greedy.samples)
    outcomes: tuple[Any, ...] = tuple(
        outcome_of(text, q.tools or asked.tools) for q, text in zip(asked.questions, actions, strict=True)
    )
    ids = tuple(q.id for q in asked.questions)
    observed = Observed(ids, asked.families, needed.correct, needed.samples, outcomes)
    return Behaviour(
        observed, needed.right, needed.answers, actions, name, needed.soft, needed.planned,
        _sampled_calls(cfg, run, asked, subject), needed.unread, {**needed.facts, "action": _facts(greedy)},
    )  # fmt: skip


@dataclass(frozen=True)
class _Needed:
    """What the model can do without the tool: as `Behaviour` has it."""

    correct: np.ndarray
    samples: np.ndarray
    right: np.ndarray | None
    answers: tuple[str, ...]
    soft: np.ndarray | None = None
    planned: int | None = None
    unread: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)


def _answered(cfg: Config, run: Run, asked: QuestionSet, subject: Subject, name: str) -> _Needed:
    """N sampled answers a question, checked."""
    if name == "none":
        zeros = np.zeros(len(asked), dtype=np.int64)
        return _Needed(zeros, zeros, None, ("",) * len(asked))
    settings, verdicts = cfg.method.sampling, _Verdicts(checker_of(cfg, name), asked.questions)
    stop = None
    if settings.labels_only:
        wanted = {settings.n, required("released", settings.n), settings.min_correct or settings.n}
        stop = decide(settings.n, *sorted(wanted)).watch(lambda i, sample: bool(verdicts.of(i, [sample])[0]))
    with run.stage("sample"):
        prompts = answer_prompts(asked)
        found = draw(cfg, subject, prompts, settings.n, settings.temperature, settings.max_tokens, stop)
    with run.stage("check answers"):
        known = verdicts.of_all(found.samples)
    right = np.zeros((len(asked), settings.n), dtype=bool)
    for i, samples in enumerate(found.samples):
        right[i, [s.index for s in samples]] = [v is True for v in known[i]]
    unread = sum(v is None for own in known for v in own)
    total = sum(map(len, known))
    if total and unread == total:
        raise UserError(
            f"no answer could be read by the checker {name!r}: {_example(found.samples)}", where="method.sampling",
            expected="answers as the system prompt asks for",
            fix="raise method.sampling.max_tokens, or choose another model or checker",
        )  # fmt: skip
    counts = np.array([len(own) for own in known], dtype=np.int64)
    answers = tuple(own[0].text if own else "" for own in found.samples)
    planned = settings.n if (counts < settings.n).any() else None
    return _Needed(right.sum(1), counts, right, answers, None, planned, unread, {"samples": _facts(found)})


def _believed(cfg: Config, run: Run, asked: QuestionSet, subject: Subject) -> _Needed:
    """No answers: how likely the true ones are beside the false ones. One verdict a question."""
    from toolsavvy.models.text import TextEncoder
    from toolsavvy.necessity.truthful import Likelihood

    if subject.model is None:
        raise UserError(
            "a server does not tell how likely given answers are", where="method.sampling.checker",
            expected="similarity or judge with backend=server", fix="method.sampling.checker=similarity",
        )  # fmt: skip
    likelihood = Likelihood(
        subject.model, subject.tokenizer, TextEncoder(subject.tokenizer), system=asked.answer_prompt
    )
    with run.stage("sample"):
        found = likelihood.score(asked.questions)
    best = found.best.astype(np.int64)
    return _Needed(best, np.ones_like(best), None, ("",) * len(asked), found.mass)


def _sampled_calls(cfg: Config, run: Run, asked: QuestionSet, subject: Subject) -> np.ndarray | None:
    """Share of further samples with the tool that call, float64 [question]; None where none are asked for."""
    m, temperature = cfg.method.action.samples, cfg.method.sampling.temperature
    if not m:
        return None
    with run.stage("act, sampled"):
        found = draw(cfg, subject, action_prompts(asked, cfg.method), m, temperature, cfg.method.action.max_tokens)
    shares = [
        [outcome_of(s.text, q.tools or asked.tools) == "called" for s in own]
        for q, own in zip(asked.questions, found.samples, strict=True)
    ]
    return np.array([np.mean(own) for own in shares])


def draw(
    cfg: Config, subject: Subject, prompts: Sequence[Prompt], n: int, temperature: float, limit: int, stop: Any = None
) -> Asked:
    """Samples of every prompt, from the store where it has them."""
    store = store_of(subject, temperature, limit)
    return ask_counted(
        subject.sampler, store, prompts, n, temperature=temperature, max_tokens=limit, decided=stop
    )  # fmt: skip


def store_of(subject: Subject, temperature: float, max_tokens: int) -> SampleStore:
    """The samples of this model that earlier runs left in the cache."""
    return SampleStore(cache_dir("samples"), subject.sampler.key, temperature, max_tokens, subject.label)


def _facts(found: Asked) -> dict[str, int]:
    """What sampling took: `tokens` is what the samples took whenever they were drawn."""
    return {
        "drawn": found.drawn, "reused": found.reused, "unneeded": found.unneeded,
        "tokens": found.tokens_drawn + found.tokens_reused, "tokens_drawn": found.tokens_drawn,
        "tokens_unneeded": found.tokens_unneeded,
    }  # fmt: skip


def _example(samples: Sequence[Sequence[Sample]]) -> str:
    """A sample for the message, cut short."""
    first = next((s.text for own in samples for s in own), "")
    return f"the first is {first[:120]!r}"


class _Verdicts:
    """Verdicts of a checker, each asked for once.

    Args:
        checker: decides.
        questions: in order.
    """

    def __init__(self, checker: Checker, questions: Sequence[Question]) -> None:
        self.checker, self.questions = checker, questions
        self._known: dict[tuple[int, str], bool | None] = {}

    def of(self, question: int, samples: Sequence[Sample]) -> list[bool | None]:
        """Whether samples of one question are right; None where no answer could be read."""
        self._learn([(question, s.text) for s in samples])
        return [self._known[question, s.text] for s in samples]

    def of_all(self, samples: Sequence[Sequence[Sample]]) -> list[list[bool | None]]:
        """The same for all questions, in one go: judges and encoders read many at once."""
        self._learn([(i, s.text) for i, own in enumerate(samples) for s in own])
        return [[self._known[i, s.text] for s in own] for i, own in enumerate(samples)]

    def _learn(self, pairs: Sequence[tuple[int, str]]) -> None:
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
        found = self.checker.check([self.questions[i] for i, _ in new], [text for _, text in new]) if new else []
        self._known |= {pair: verdict.correct for pair, verdict in zip(new, found, strict=True)}
