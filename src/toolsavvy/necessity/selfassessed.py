"""Verbalised self-assessment: the model is asked whether it needs the tool, and what it says is set beside the facts.

The third signal of 2605.14038, beside what hidden states say and what the model does. It is read in two ways: from the
likelihood of yes and no, which gives every model log-odds and a curve, and from the text that the model writes, which
servers give too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolsavvy.classification import Predictions, Quality, quality
from toolsavvy.metrics import Interval, bootstrap
from toolsavvy.models.prompts import Prompt
from toolsavvy.necessity.question import Question
from toolsavvy.necessity.wordings import assessed, assessment

YES = ("yes", "Yes", "YES", " yes", " Yes", " YES")
"""Spellings whose probabilities are added up."""
NO = ("no", "No", "NO", " no", " No", " NO")


@dataclass(frozen=True)
class SelfReport:
    """What self-assessment is worth.

    Args:
        way: likelihood | text.
        yes_share: questions whose answer is yes.
        unreadable: questions whose answer is neither yes nor no; they count as no.
        necessity: rule -> how well it tells necessary questions; `accuracy` is the share that agrees, `auc` that of
            the log-odds (of the word alone, where only texts are there).
        action: how well it tells what the model then does, over calls and answers alone.
    """

    way: str
    yes_share: Interval
    unreadable: Interval
    necessity: Mapping[str, Quality]
    action: Quality


def prompts(questions: Sequence[Question], tools: Sequence[Mapping[str, Any]] = ()) -> list[Prompt]:
    """One prompt a question; tools are told in words, since none may be called.

    Args:
        questions: what would be asked.
        tools: offered with questions that have none of their own.
    """
    return [Prompt(assessment(q, q.tools or tools)) for q in questions]


def log_odds(
    model: Any,
    tokenizer: Any,
    questions: Sequence[Question],
    tools: Sequence[Mapping[str, Any]] = (),
    *,
    precision: str = "fp32",
) -> np.ndarray:
    """Log of P(yes) / P(no) right after each prompt, summed over spellings: float64 [question].

    Args:
        model: a causal language model, or a PEFT wrapper of one.
        tokenizer: its tokenizer.
        questions: what would be asked.
        tools: offered with questions that have none of their own.
        precision: fp32 | bf16, of the forward passes.
    """
    from toolsavvy.decoding.options import option_likelihoods
    from toolsavvy.models.prompts import render
    from toolsavvy.models.text import TextEncoder

    text = TextEncoder(tokenizer)
    asked = [render(tokenizer, text, prompt).ids for prompt in prompts(questions, tools)]
    yes, no = ([list(ids) for ids in dict.fromkeys(map(tuple, text.encode_batch(words)))] for words in (YES, NO))
    means = option_likelihoods(model, asked, [yes + no] * len(asked), precision=precision)
    totals = means * [len(ids) for ids in yes + no]
    parts = np.logaddexp.reduce(totals[:, : len(yes)], axis=1), np.logaddexp.reduce(totals[:, len(yes) :], axis=1)
    return parts[0] - parts[1]


def said(texts: Sequence[str]) -> np.ndarray:
    """Written answers as scores: 1 is yes, -1 is no, NaN is neither: float64 [question]."""
    worth = {True: 1.0, False: -1.0, None: np.nan}
    return np.array([worth[assessed(text)] for text in texts], dtype=np.float64)


def decisions(scores: np.ndarray) -> np.ndarray:
    """Whether each score asks for the tool, bool [question]: above 0; what could not be read does not."""
    return np.nan_to_num(np.asarray(scores, dtype=np.float64)) > 0


def report(
    way: str,
    scores: np.ndarray,
    needed: Mapping[str, np.ndarray],
    called: np.ndarray,
    parsed: np.ndarray,
    *,
    clusters: Sequence[object] | np.ndarray | None = None,
    resamples: int = 2000,
    seed: int = 0,
) -> SelfReport:
    """Set self-assessment beside necessity and action.

    Args:
        way: likelihood | text.
        scores: float [question], above 0 is yes; NaN where no answer could be read.
        needed: rule -> bool [question], necessity.
        called: bool [question], whether the model calls.
        parsed: bool [question], whether its answer is a call or an answer.
        clusters: [question], what is independent; None for the questions themselves.
        resamples: bootstrap replicates.
        seed: of the resampling.
    """
    values = np.asarray(scores, dtype=np.float64)
    groups = np.arange(len(values)) if clusters is None else np.asarray(clusters)
    everything = np.ones(len(values), dtype=bool)

    def against(truth: np.ndarray, kept: np.ndarray) -> Quality:
        found = Predictions.of(np.asarray(truth)[kept], np.nan_to_num(values[kept]), clusters=groups[kept])
        return quality(found, resamples, seed)

    return SelfReport(
        way,
        bootstrap(decisions(values).astype(float), groups, resamples, seed),
        bootstrap(np.isnan(values).astype(float), groups, resamples, seed),
        {rule: against(labels, everything) for rule, labels in needed.items()},
        against(called, np.asarray(parsed, dtype=bool)),
    )
