"""Prompts with tools: turns, the functions offered, and what the answer is made to begin with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolsavvy.models.chat import Message


@dataclass(frozen=True)
class Prompt:
    """What a model is asked.

    Args:
        messages: ending in a user's turn.
        tools: OpenAI-style function schemas that are offered; () offers none.
        prefill: text that the answer is made to begin with; it is part of the answer's text.
    """

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    prefill: str = ""


@dataclass(frozen=True)
class Rendered:
    """A prompt as a model reads it.

    Args:
        ids: token ids, one BOS where the model has one, up to where its own text begins.
        question_end: index after the last token of the last user turn's text; what follows is the template's.
    """

    ids: tuple[int, ...]
    question_end: int
