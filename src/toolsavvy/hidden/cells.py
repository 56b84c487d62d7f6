"""Cells: the (layer, position) pairs that hidden states are taken at, and what can be read cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np


@dataclass(frozen=True, order=True)
class Cell:
    """Where a hidden state is taken.

    Args:
        layer: 0 is the embeddings, i the output of block i, before the final norm.
        position: -1 is the last token, counted from the end of what `of` says.
        of: prompt (with the template's own last tokens) | question (the last user turn's text).
    """

    layer: int
    position: int
    of: Literal["prompt", "question"] = "prompt"


class Cells(Protocol):
    """Hidden states of the same items at many cells."""

    @property
    def cells(self) -> Sequence[Cell]:
        """In the order in which they are read."""
        ...

    def read(self, index: int) -> np.ndarray:
        """States of one cell, float32 [item, d]; rows of NaN where a text is too short to have the position."""
        ...
