"""Which tokens of a prompt the positions of cells mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from toolsavvy.models.prompts import Rendered

Kind = Literal["prompt", "question"]
"""What positions count back from: the prompt's end, or the end of the last user turn's text."""
KINDS: tuple[Kind, ...] = ("prompt", "question")
MISSING = -1
"""Stands where a text is too short to have the position."""


def token_index(prompt: Rendered, position: int, of: Kind) -> int:
    """Index of the token that a position means, `MISSING` where the prompt is too short.

    Question positions count back from the end of the last user turn's text and may reach into what stands before it,
    as prompt positions do; what follows the text (five to nine fixed tokens of most templates) is not among them.

    Args:
        prompt: as the model reads it.
        position: -1 is the last token.
        of: prompt | question.
    """
    end = len(prompt.ids) if of == "prompt" else prompt.question_end
    return max(end + position, MISSING)


def token_indices(prompts: Sequence[Rendered], positions: int, kinds: Sequence[Kind]) -> np.ndarray:
    """Token indices of the last positions of every prompt.

    Args:
        prompts: as the model reads them.
        positions: how many, counted back from the end of what a kind says.
        kinds: prompt, question or both.

    Returns:
        int64 [prompt, kind, position], positions from -`positions` to -1, `MISSING` where a prompt is too short.
    """
    ends = [[len(p.ids) if kind == "prompt" else p.question_end for kind in kinds] for p in prompts]
    back = np.arange(-positions, 0)
    return np.maximum(np.array(ends, dtype=np.int64).reshape(len(prompts), len(kinds), 1) + back, MISSING)
