"""Answers of models before training, kept between runs: jobs of a sweep start from one model and need ask it once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toolsavvy.assets import cache_dir
from toolsavvy.methods.arrays import load_arrays, save_arrays


@dataclass(frozen=True)
class SharedAnswers:
    """Answers in the cache, by everything that they follow from.

    Args:
        model: what the weights are, as `models.digest.weights_digest` says.
        rest: further facts: catalog, frame, what stands for a tool, precision.
    """

    model: str
    rest: tuple[str, ...]

    def path(self, questions: str) -> Path:
        """Where the answers to some questions are."""
        key = hashlib.sha256("\0".join((self.model, *self.rest, questions)).encode()).hexdigest()
        return cache_dir("samples") / f"probe-{key}.npz"

    def load(self, questions: str) -> dict[str, np.ndarray] | None:
        """The answers; None where there are none, or they are damaged."""
        return load_arrays(self.path(questions))

    def save(self, questions: str, answers: Mapping[str, np.ndarray]) -> None:
        """Keep answers for other runs."""
        save_arrays(self.path(questions), answers)
