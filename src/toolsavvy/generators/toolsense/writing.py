"""Items written by one language model and checked by another: what is asked, how often, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic

from toolsavvy.benchmark import ChoiceItem, Item, RetrievalItem, YesNoItem
from toolsavvy.catalog import Catalog
from toolsavvy.generators.toolsense.neighbourhood import Neighbourhood
from toolsavvy.models.chat import Chat, Message

Progress = Callable[[int], None]
"""Told how many more items are finished, accepted or given up."""


@dataclass(frozen=True)
class Recipe:
    """How items are written.

    Args:
        attempts: answers asked for one item of one tool until a draft passes; then the next tool takes its place.
        drafts: in one answer; the first that passes is taken.
        batch_size: items that are worked on at once.
        temperature: of the writer; the judge is greedy.
        max_tokens: of an answer.
        feedback: most reasons of failed attempts that the writer is told.
        pool: tools that a request's writer chooses from, its target among them.
        neighbours: tools that wrong options and wrong claims come from.
        novelty: ROUGE-L F1 with an accepted item from which one is a near-duplicate.
        patience: tools that may fail before the first item is accepted; then nothing more is asked.
    """

    attempts: int = 3
    drafts: int = 2
    batch_size: int = 32
    temperature: float = 0.7
    max_tokens: int = 600
    feedback: int = 5
    pool: int = 14
    neighbours: int = 4
    novelty: float = 0.7
    patience: int = 64


@dataclass(frozen=True)
class Exchange:
    """One prompt and its answer.

    Args:
        model: who was asked.
        messages: the conversation.
        text: the answer; None when there is none.
        error: why there is none.
        prompt_tokens: as the model counted them.
        completion_tokens: of the answer.
        is_cached: the answer was there from an earlier run.
    """

    model: str
    messages: tuple[Message, ...]
    text: str | None
    error: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    is_cached: bool = False


@dataclass(frozen=True)
class Attempt:
    """One attempt at an item.

    Args:
        item: id of the item.
        tool: id of the tool that it is about, or written for.
        kind: tier of a request; pattern of a question, with its answer for yes/no.
        number: from 1.
        written: what the writer was asked and said.
        judged: what the judge was asked and said; None where no draft got so far.
        fates: of every draft (of the answer, where it holds none): "accepted", "spare" or why it was refused.
    """

    item: str
    tool: str
    kind: str
    number: int
    written: Exchange
    judged: Exchange | None
    fates: tuple[str, ...]


@dataclass(frozen=True)
class Usage:
    """What one model was asked for a set; what an earlier part of a resumed run asked is in it.

    Args:
        calls: answers that it gave.
        cached: answers that were there from earlier runs.
        failed: prompts without an answer.
        prompt_tokens: of the calls.
        completion_tokens: of the calls.
        cached_prompt_tokens: of the cached answers, which cost nothing now.
        cached_completion_tokens: of the cached answers.
    """

    calls: int = 0
    cached: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_prompt_tokens: int = 0
    cached_completion_tokens: int = 0


@dataclass(frozen=True)
class Written(Generic[Item]):
    """A set by language models.

    Args:
        items: accepted, in the order of what was wanted.
        wanted: items asked for; fewer are there when tools ran out.
        attempts: every prompt, answer and verdict, in order.
        tools: how many were tried.
        replaced: tools that failed and gave way to the next.
        rejected: reason -> drafts or answers refused for it.
        writer: what the writer was asked.
        judge: what the judge was asked.
    """

    items: tuple[Item, ...]
    wanted: int
    attempts: tuple[Attempt, ...] = ()
    tools: int = 0
    replaced: int = 0
    rejected: Mapping[str, int] = field(default_factory=dict)
    writer: Usage = field(default_factory=Usage)
    judge: Usage = field(default_factory=Usage)


class LlmWriter(Generic[Item]):
    """Writes items about tools, one tool an item.

    Args:
        writer: writes drafts.
        judge: must say yes to every check of a draft; anything else refuses it.
        recipe: how.
    """

    def __init__(self, writer: Chat, judge: Chat, recipe: Recipe | None = None) -> None:
        """Ask nothing yet."""
        self.writer, self.judge, self.recipe = writer, judge, recipe or Recipe()

    def write(
        self,
        catalog: Catalog,
        chosen: Sequence[int],
        near: Neighbourhood,
        wanted: int | Mapping[str, int],
        *,
        seed: int,
        store: Path,
        progress: Progress | None = None,
    ) -> Written[Item]:
        """Write until everything wanted is there or the chosen tools have run out.

        Args:
            catalog: all tools.
            chosen: positions of tools, in the order in which they are used; those beyond the wanted number replace
                tools that fail.
            near: where hard negatives and wrong options come from.
            wanted: number of items; for requests, by tier.
            seed: of pools' orders.
            store: file of the answers, append-only; a run that is continued asks nothing twice.
            progress: told of items that are finished.

        Raises:
            UserError: nothing can be asked of these tools, or a model that does not answer at all.
        """
        raise NotImplementedError


class RequestWriter(LlmWriter[RetrievalItem]):
    """Requests (RRB); `wanted` is tier -> number."""


class ChoiceWriter(LlmWriter[ChoiceItem]):
    """Multiple-choice questions (MCQ)."""


class YesNoWriter(LlmWriter[YesNoItem]):
    """Yes/no questions (QA), both answers equally often within each pattern."""


def refuse_empty(written: Written[Item], writer: str) -> None:
    """Say what went wrong when a model wrote nothing that passes; fewer items than wanted are logged.

    Raises:
        UserError: there is no item.
    """
    raise NotImplementedError
