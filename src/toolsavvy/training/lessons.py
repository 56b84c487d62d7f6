"""Lessons: questions with the answers to learn, several to a row, so that they share a system prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch.utils.data import DataLoader

from toolsavvy.models.chat import Message
from toolsavvy.models.prompts import Prompt, Rendered
from toolsavvy.training.padding import Batch, Entry, Labelled, padded
from toolsavvy.training.sft import LengthGrouped

Render = Callable[[Prompt], Rendered]
Encode = Callable[[str], list[int]]


@dataclass(frozen=True)
class Lesson:
    """One question and the answer to learn.

    Args:
        prompt: system prompt, tools and the question.
        answer: text of the model's turn.
    """

    prompt: Prompt
    answer: str


@dataclass(frozen=True)
class Dialogue:
    """Token ids of a system prompt and some turns.

    Args:
        ids: of the whole row but its last label.
        labels: (index of the state that predicts it, id) for every token of every answer.
    """

    ids: tuple[int, ...]
    labels: tuple[tuple[int, int], ...]


def dialogues(lessons: Sequence[Lesson], render: Render, encode: Encode, end: int, longest: int) -> list[Dialogue]:
    """Rows of as many lessons as fit; all must share system prompt and tools.

    Args:
        lessons: in the order in which they are packed.
        render: prompt -> token ids.
        encode: text of an answer -> ids, none of them special.
        end: id that ends a turn.
        longest: tokens a row; a lesson that is longer by itself has a row of its own. Where the template does not
            simply append (some rewrite earlier turns, so that what was learnt would never be seen again), all have.
    """
    rows: list[Dialogue] = []
    start = 0
    while start < len(lessons):
        row, count = _packed(lessons[start:], render, encode, end, longest)
        rows.append(row)
        start += count
    return rows


def _packed(lessons: Sequence[Lesson], render: Render, encode: Encode, end: int, longest: int) -> tuple[Dialogue, int]:
    """One row, and how many lessons are in it."""
    first = lessons[0]
    row = _alone(first, render, encode, end)
    messages = [*first.prompt.messages, Message("assistant", first.answer)]
    ids, labels, count = [*row.ids, end], list(row.labels), 1
    for lesson in lessons[1:]:
        messages.append(lesson.prompt.messages[-1])
        shown = list(render(Prompt(tuple(messages), lesson.prompt.tools)).ids)
        answer = [*encode(lesson.answer), end]
        if shown[: len(ids)] != ids or len(shown) + len(answer) > longest:
            break
        labels += [(len(shown) - 1 + j, label) for j, label in enumerate(answer)]
        ids, count = [*shown, *answer], count + 1
        messages.append(Message("assistant", lesson.answer))
    return Dialogue(tuple(ids[:-1]), tuple(labels)), count


def _alone(lesson: Lesson, render: Render, encode: Encode, end: int) -> Dialogue:
    shown, answer = render(lesson.prompt).ids, [*encode(lesson.answer), end]
    return Dialogue((*shown, *answer[:-1]), tuple((len(shown) - 1 + j, label) for j, label in enumerate(answer)))


def loader(rows: Sequence[Dialogue], batch_size: int, pad: int, seed: int) -> DataLoader[Any]:
    """Batches of like length in a seeded order, as `CausalSFT` takes them."""
    sampler = LengthGrouped([len(row.ids) for row in rows], batch_size, seed)
    numbered: Any = list(enumerate(rows))  # a list is a map-style dataset
    return DataLoader(numbered, batch_sampler=sampler, collate_fn=lambda items: collate(items, pad))


def collate(numbered: Sequence[tuple[int, Dialogue]], pad: int) -> Batch:
    """Pad rows to the right and list their label positions; every token of an answer weighs the same."""
    rows = [(i, Labelled(row.ids, tuple(Entry(at, (label,), 1.0) for at, label in row.labels))) for i, row in numbered]
    return padded(rows, pad)
