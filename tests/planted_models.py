"""A tiny model that calls the calculator iff its residual stream points along a known direction: random, planted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tokenizers import AddedToken

from toolsavvy.hidden.cells import Cell
from toolsavvy.hidden.states import state_of
from toolsavvy.models.chat import Message
from toolsavvy.models.loading import toy_model
from toolsavvy.models.prompts import Prompt, render
from toolsavvy.models.text import TextEncoder
from toolsavvy.necessity.question import Question
from toolsavvy.necessity.questions.arithmetic import CALCULATOR

CALL = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "6 * 7"}}\n</tool_call>'
ANSWER = "The answer is 42."
LAYER = 1
"""Output of the first block; the second adds nothing."""


def planted_model(seed: int = 0) -> tuple[Any, Any, np.ndarray]:
    """Model, tokenizer and the direction float32 [d] whose sign in the last state of `LAYER` decides on a call.

    The first block attends at random, so that the state hangs on the question; the direction is the one along which
    the states of `planted_questions` differ most around 0. A call and an answer are one token each, then comes the end.
    """
    model, tokenizer = toy_model(seed, tied=False)
    tokenizer.add_tokens([AddedToken(CALL, normalized=False), AddedToken(ANSWER, normalized=False)])
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    call, answer = (int(tokenizer.convert_tokens_to_ids(token)) for token in (CALL, ANSWER))
    generator = torch.Generator().manual_seed(seed)
    end = torch.nn.functional.normalize(torch.randn(model.config.hidden_size, generator=generator), dim=0)
    first, second = model.model.layers
    rows, head = model.model.embed_tokens.weight, model.lm_head.weight
    with torch.no_grad():
        first.self_attn.v_proj.weight -= torch.outer(first.self_attn.v_proj.weight @ end, end)
        first.self_attn.o_proj.weight *= 1e5
        for weight in (first.self_attn.o_proj.weight, first.mlp.down_proj.weight):
            weight -= torch.outer(end, end @ weight)  # whether the answer ends hangs on the last token alone
        for weight in (second.self_attn.o_proj.weight, second.mlp.down_proj.weight):
            weight.zero_()
        rows -= 30 * end
        rows[[call, answer]] = 300 * end
        states = torch.from_numpy(last_states(model.eval(), tokenizer, planted_prompts(planted_questions())))
        mean = torch.nn.functional.normalize(states.mean(0), dim=0)
        around = states - states.mean(0)
        around -= torch.outer(around @ mean, mean)
        planted = torch.linalg.svd(around, full_matrices=False).Vh[0]
        head.zero_()
        head[call], head[answer], head[tokenizer.eos_token_id] = planted, -planted, 50 * end
    return model, tokenizer, planted.numpy().copy()


def last_states(model: Any, tokenizer: Any, prompts: Sequence[Prompt]) -> np.ndarray:
    """States of `LAYER` at the last token: float32 [prompt, d]; the planted direction's sign in them decides."""
    text = TextEncoder(tokenizer)
    return np.stack([state_of(model, render(tokenizer, text, prompt), Cell(LAYER, -1)) for prompt in prompts])


def planted_questions(n: int = 24) -> list[Question]:
    """Questions whose answer is always 42; their words differ."""
    return [
        Question(f"q{i}", f"{'abcdefgh'[i % 8] * (1 + i % 5)} case {i}: 6 * 7?", f"f{i % 4}", gold=42) for i in range(n)
    ]


def planted_prompts(questions: list[Question]) -> list[Prompt]:
    """Prompts with the calculator offered."""
    return [Prompt((Message("user", q.text),), (CALCULATOR,)) for q in questions]
