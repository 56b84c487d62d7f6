from __future__ import annotations

from typing import Any

import pytest
import torch

from toolsavvy.models.chat import Message
from toolsavvy.models.prompts import Prompt, render
from toolsavvy.models.text import TextEncoder
from toolsavvy.training.lessons import Dialogue, Lesson, collate, dialogues
from world import toy_lm, toy_tokenizer

APPENDS = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
FORGETS = (  # shows an earlier answer as dots, as templates do that take reasoning out of earlier turns
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['role'] == 'assistant' and not loop.last %}...{% endif %}{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LESSONS = [
    Lesson(Prompt((Message("system", "add"), Message("user", f"what is {a} + 1 ?"))), str(a + 1)) for a in range(7)
]


def rows(template: str, longest: int) -> tuple[list[Dialogue], Any]:
    tokenizer = toy_tokenizer(["what is 1 + 1 ?", "add"], template=template)
    text = TextEncoder(tokenizer)
    return dialogues(
        LESSONS, lambda p: render(tokenizer, text, p), text.encode, tokenizer.eos_token_id, longest
    ), tokenizer  # fmt: skip


def taught(row: Dialogue, tokenizer: Any) -> list[str]:
    """The answers that a row teaches, read back from its labels."""
    ids = [label for _, label in row.labels]
    return tokenizer.decode(ids).split(tokenizer.eos_token)[:-1]


@pytest.mark.parametrize("longest", [1, 120, 10_000])
def test_every_answer_is_learnt_once_and_predicted_by_the_token_before_it(longest: int) -> None:
    found, tokenizer = rows(APPENDS, longest)
    assert [answer.strip() for row in found for answer in taught(row, tokenizer)] == [t.answer for t in LESSONS]
    for row in found:
        whole = [*row.ids, row.labels[-1][1]]
        assert all(whole[at + 1] == label for at, label in row.labels)


def test_rows_keep_to_their_length_unless_one_lesson_is_longer() -> None:
    (whole,), _ = rows(APPENDS, 10_000)
    alone, _ = rows(APPENDS, 1)
    assert len(alone) == len(LESSONS)
    packed, _ = rows(APPENDS, len(whole.ids) // 2)
    assert 1 < len(packed) < len(LESSONS)
    assert all(len(row.ids) < len(whole.ids) // 2 for row in packed)


def test_a_packed_row_is_the_conversation_as_the_template_shows_it() -> None:
    (row,), tokenizer = rows(APPENDS, 10_000)
    turns = [Message("system", "add")]
    for lesson in LESSONS:
        turns += [lesson.prompt.messages[-1], Message("assistant", lesson.answer)]
    shown = tokenizer.apply_chat_template([{"role": m.role, "content": m.content} for m in turns], tokenize=False)
    assert tokenizer.decode([*row.ids, row.labels[-1][1]]).replace(" ", "") in shown.replace(" ", "")


def test_a_template_that_rewrites_earlier_turns_gets_a_row_a_lesson() -> None:
    assert len(rows(FORGETS, 10_000)[0]) == len(LESSONS)


def test_only_answers_are_supervised_and_padding_is_masked() -> None:
    found, tokenizer = rows(APPENDS, 120)
    batch = collate(list(enumerate(found)), tokenizer.pad_token_id)
    assert batch.attention_mask.sum().item() == sum(len(row.ids) for row in found)
    assert len(batch.entry_target) == sum(len(row.labels) for row in found)
    flat = batch.input_ids.flatten()
    for row, first in zip(found, batch.first.tolist(), strict=True):
        at = batch.positions[first].item()
        assert flat[at].item() == row.ids[row.labels[0][0]]
    model = toy_lm(tokenizer)
    logits = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits.flatten(0, 1)
    scored = logits[batch.positions].log_softmax(-1).gather(1, batch.entry_target[:, None])
    alone = [
        model(input_ids=torch.tensor([row.ids])).logits[0].log_softmax(-1)[at, label]
        for row in found
        for at, label in row.labels
    ]
    torch.testing.assert_close(scored[:, 0], torch.stack(alone), atol=1e-4, rtol=1e-4)
