"""Probe&Prefill: the necessity probe decides at the end of the prompt, one prefilled sentence steers the answer.

After When2Tool's Probe&Prefill (2605.09252), with sentences of our own. Every question is answered once after either
sentence; a threshold of the probe, as any other way to decide, picks one of the two answers for each question, so that
a whole curve costs two answers a question. A sentence steers and does not force: what counts as a call is what the
model then wrote. What a call gives back is the tool's real result (`judged`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from toolsavvy.models.prompts import Prompt
from toolsavvy.necessity.judged import Execute, Judged, judge
from toolsavvy.necessity.question import Checker, Question

if TYPE_CHECKING:
    from toolsavvy.decoding.samples import Sampler
    from toolsavvy.necessity.store import SampleStore

ANSWER_SENTENCE = "I can answer this directly."
"""What the answer begins with where no tool is thought to be needed."""
CALL_SENTENCE = "I need the tool for this."
"""What it begins with where one is, before the start of a call."""
_HERMES = '<tool_call>\n{"name": "'


@dataclass(frozen=True)
class Prefills:
    """What answers are made to begin with.

    Args:
        answer: where the decision is to answer.
        call: where it is to call.
    """

    answer: str
    call: str

    @classmethod
    def of(cls, tokenizer: Any = None) -> Prefills:
        """The two sentences; the second goes on with the start of a call as this model's template writes it."""
        return cls(f"{ANSWER_SENTENCE} ", f"{CALL_SENTENCE}\n{call_start(tokenizer)}")


def call_start(tokenizer: Any = None) -> str:
    """What a model writes before the name of the tool that it calls, as its chat template shows earlier calls.

    The form that `models.prompts` describes to models whose template knows no tools (Hermes') is the fallback.

    Args:
        tokenizer: the model's; None where there is none at hand (a server).
    """
    from jinja2 import TemplateError

    from toolsavvy.models.framing import shows_tools

    if tokenizer is None or not shows_tools(tokenizer):
        return _HERMES
    name, plain = "callmarker", "textmarker"
    schema = {"name": name, "description": "", "parameters": {"type": "object", "properties": {}}}
    call = {"type": "function", "id": "abcdefghi", "function": {"name": name, "arguments": {}}}
    turns = ({"content": plain}, {"content": "", "tool_calls": [call]})
    try:
        said, called = (
            str(tokenizer.apply_chat_template(
                [{"role": "user", "content": "?"}, {"role": "assistant", **turn}],
                tools=[{"type": "function", "function": schema}], tokenize=False,
            )) for turn in turns
        )  # fmt: skip
    except (TemplateError, TypeError, ValueError):
        return _HERMES
    before, found, _ = said.partition(plain)
    shared = next((i for i, (a, b) in enumerate(zip(before, called, strict=False)) if a != b), len(before))
    start, named, _ = called[shared:].partition(name)
    return start if found and named and start else _HERMES


@dataclass(frozen=True)
class Answered:
    """What one way of asking comes to.

    Args:
        judged: outcomes and correctness.
        tokens: float64 [question], generated.
    """

    judged: Judged
    tokens: np.ndarray

    def where(self, chosen: np.ndarray, other: Answered) -> Answered:
        """Question by question this one where chosen, else the other."""
        return Answered(self.judged.where(chosen, other.judged), np.where(chosen, self.tokens, other.tokens))


@dataclass(frozen=True)
class Forced:
    """Every question after both sentences.

    Args:
        answer: after the one that answers.
        call: after the one that calls.
    """

    answer: Answered
    call: Answered

    def follow(self, call: np.ndarray) -> Answered:
        """What decisions bool [question] come to: exactly what asking anew with these prefills would give."""
        return self.call.where(call, self.answer)


def ask_each(
    sampler: Sampler,
    store: SampleStore,
    questions: Sequence[Question],
    prompts: Sequence[Prompt],
    checker: Checker | None,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    max_tokens: int = 512,
    execute: Execute | None = None,
) -> Answered:
    """Greedy answers to prompts with tools, judged; those in the store are not asked again.

    Args:
        sampler: the model.
        store: of its greedy samples.
        questions: in order.
        prompts: one each.
        checker: of answers without a call.
        tools: offered with questions that have none of their own.
        max_tokens: longest answer.
        execute: carries calls out; None evaluates the calculator's.
    """
    from toolsavvy.necessity.asking import ask

    samples = [own[0] for own in ask(sampler, store, prompts, 1, temperature=0.0, max_tokens=max_tokens)]
    judged = judge(questions, [s.text for s in samples], checker, tools, execute)
    return Answered(judged, np.array([s.tokens for s in samples], dtype=np.float64))


def force(
    sampler: Sampler,
    store: SampleStore,
    questions: Sequence[Question],
    prompts: Sequence[Prompt],
    prefills: Prefills,
    checker: Checker | None,
    **how: Any,
) -> Forced:
    """Ask every question once after either sentence.

    Args:
        sampler: the model.
        store: of its greedy samples.
        questions: in order.
        prompts: with tools offered, one each, in the wording that the probe read.
        prefills: the two sentences.
        checker: of answers without a call.
        how: as `ask_each`.
    """
    answer, call = (
        ask_each(sampler, store, questions, [replace(p, prefill=start) for p in prompts], checker, **how)
        for start in (prefills.answer, prefills.call)
    )
    return Forced(answer, call)
