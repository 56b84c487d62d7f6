"""Samples of a model's answers, and what can draw them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from toolsavvy.models.prompts import Prompt

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


@dataclass(frozen=True)
class Sample:
    """One answer.

    Args:
        index: which sample of its prompt, from 0.
        text: the answer; a prefill is part of it.
        tokens: generated.
        finished: False where it was cut at the limit.
    """

    index: int
    text: str
    tokens: int
    finished: bool = True


Heard = Callable[[int, Sample], bool]
"""Told of every sample as soon as it is there (position of its prompt, sample); True: this prompt needs no more."""


class Guide(Protocol):
    """Says which tokens may come next in the answers of some rows that are being written."""

    def masked(self, rows: np.ndarray, logits: Tensor) -> Tensor:
        """Logits [live row, vocab] with -inf where a token may not come; `rows` says which rows are live."""
        ...

    def wrote(self, rows: np.ndarray, tokens: np.ndarray) -> None:
        """Told of the tokens of the live rows."""
        ...


class Constraint(Protocol):
    """What answers are held to."""

    def guide(self, places: Sequence[int]) -> Guide:
        """A guide for rows that begin, each an answer to the prompt at its place."""
        ...


class Sampler(Protocol):
    """Anything that draws answers."""

    @property
    def name(self) -> str:
        """What tables call the model."""
        ...

    @property
    def key(self) -> str:
        """Digest of weights, precision and how prompts are made: samples of equal keys may be shared."""
        ...

    def draw(
        self,
        prompts: Sequence[Prompt],
        indices: Sequence[Sequence[int]],
        *,
        temperature: float,
        max_tokens: int,
        heard: Heard,
    ) -> None:
        """Draw the wanted samples of every prompt, in any order.

        A sample follows from (key, prompt, temperature, seed, index) alone, whatever else is in the batch.

        Args:
            prompts: distinct.
            indices: [prompt][sample], which samples are wanted.
            temperature: 0 is greedy, and then only index 0 makes sense.
            max_tokens: longest answer.
            heard: told of every sample; when it says True, the prompt's further samples are dropped.
        """
        ...
