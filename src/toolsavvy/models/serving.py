"""What a saved tool model needs so that any OpenAI-compatible server (vLLM, `transformers serve`) shows its training.

A server knows nothing of `tools.json`: it renders the chat template, draws from every row of the vocabulary, and stops
at the generation config's end. So all three must say what training said.
"""

from __future__ import annotations

import contextlib
import copy
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolsavvy.models.text import Frame

log = logging.getLogger("toolsavvy")
EXAMPLE = "list the users"
"""A text by which two ways to write a prompt are compared."""


def save_served(model: Any, tokenizer: Any, frame: Frame, folder: Path) -> None:
    """Write a plain causal model and its tokenizer; nothing of either changes in memory.

    Args:
        model: without adapters.
        tokenizer: holds the virtual tokens.
        frame: ids around every prompt in training.
        folder: is there.
    """
    rows = max(tokenizer.get_vocab().values()) + 1
    with _generation(model, frame), _vocabulary(model, rows) as state:
        model.save_pretrained(folder, state_dict=state)
    served = copy.deepcopy(tokenizer)
    if rendered(served, EXAMPLE) != _framed(served, frame, EXAMPLE):
        served.chat_template = template_of(served, frame)
        if rendered(served, EXAMPLE) != _framed(served, frame, EXAMPLE):
            log.warning("no chat template writes the prompts of training: send token ids to a server of this model")
            served.chat_template = tokenizer.chat_template
    served.save_pretrained(folder)


def rendered(tokenizer: Any, text: str) -> list[int] | None:
    """Ids of a user's turn as a server renders it; None without a template."""
    if not tokenizer.chat_template:
        return None
    messages = [{"role": "user", "content": text}]
    shown = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return list(tokenizer(str(shown), add_special_tokens=False).input_ids)


def _framed(tokenizer: Any, frame: Frame, text: str) -> list[int]:
    return frame.wrap(tokenizer(text, add_special_tokens=False).input_ids)


def template_of(tokenizer: Any, frame: Frame) -> str:
    """A chat template of one turn, the last: what stands around the text in training."""
    around = [json.dumps(tokenizer.decode(list(ids)), ensure_ascii=False) for ids in (frame.prefix, frame.suffix)]
    return f"{{{{ {around[0]} }}}}{{{{ messages[-1]['content'] }}}}{{{{ {around[1]} }}}}"


@contextlib.contextmanager
def _generation(model: Any, frame: Frame) -> Iterator[None]:
    """Greedy by default, and the end of training's answers ends a server's too."""
    before = model.generation_config
    told = copy.deepcopy(before)
    ends = told.eos_token_id if isinstance(told.eos_token_id, list) else [told.eos_token_id]
    told.eos_token_id = list(dict.fromkeys([frame.end[0], *(e for e in ends if e is not None)]))
    told.do_sample = False
    told.temperature = told.top_p = told.top_k = None
    model.generation_config = told
    try:
        yield
    finally:
        model.generation_config = before


@contextlib.contextmanager
def _vocabulary(model: Any, rows: int) -> Iterator[dict[str, Any] | None]:
    """The weights without rows that stand for no token: a server would draw from them as from any other."""
    config = model.config.get_text_config()
    size = model.get_input_embeddings().weight.shape[0]
    if size <= rows:
        yield None
        return
    ends = {id(m) for m in (model.get_input_embeddings(), model.get_output_embeddings()) if m is not None}
    cut = {name for name, module in model.named_modules() if id(module) in ends}
    whole = model.state_dict()
    before, config.vocab_size = config.vocab_size, rows
    try:
        yield {k: v[:rows].clone() if k.rpartition(".")[0] in cut else v for k, v in whole.items()}
    finally:
        config.vocab_size = before
