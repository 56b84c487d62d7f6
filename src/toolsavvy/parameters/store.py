"""Generated answers kept between runs: what was drawn once for a prompt and its settings is never drawn again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from toolsavvy.decoding.samples import Sample
from toolsavvy.models.prompts import Prompt
from toolsavvy.necessity.store import SampleStore, prompt_digest


def answer_digest(prompt: Prompt, schema: Mapping[str, Any] | None) -> str:
    """What an answer follows from beside its model and settings: the prompt, and the schema that it must fit."""
    if schema is None:
        return prompt_digest(prompt)
    text = json.dumps(schema, sort_keys=True, ensure_ascii=False, default=str)
    return sha256(f"{prompt_digest(prompt)} {text}".encode()).hexdigest()


class Answers:
    """Answers of one model at one temperature, in an append-only file (`SampleStore`) or in memory.

    Args:
        folder: of the file; None keeps them in memory.
        key: of the sampler: weights, precision, rendering, seed, constraint.
        temperature: 0 is greedy.
        max_tokens: longest answer.
        model: its name, for people who open the file.
    """

    def __init__(self, folder: Path | None, key: str, temperature: float, max_tokens: int, model: str = "") -> None:
        self.temperature, self.max_tokens = temperature, max_tokens
        self._file = SampleStore(folder, key, temperature, max_tokens, model) if folder is not None else None
        self._memory: dict[str, dict[int, Sample]] = {}

    def get(self, digest: str) -> dict[int, Sample]:
        """Index -> answer of a prompt, by its `answer_digest`."""
        return self._file.get(digest) if self._file else dict(self._memory.get(digest, {}))

    def put(self, digest: str, sample: Sample) -> Sample:
        """Keep an answer the moment it is there; an earlier one of the same index holds."""
        if self._file:
            return self._file.put(digest, sample)
        return self._memory.setdefault(digest, {}).setdefault(sample.index, sample)

    def fill(
        self,
        digests: Sequence[str],
        count: int,
        draw: Callable[[Sequence[int], Sequence[Sequence[int]], Callable[[int, Sample], bool]], None],
    ) -> int:
        """Draw what is missing of samples 0 … count - 1 of every digest.

        Args:
            digests: equal ones are drawn once.
            count: samples each.
            draw: given positions, their missing indices and what hears (place among the positions, sample).

        Returns:
            How many were drawn.
        """
        first: dict[str, int] = {}
        for at, digest in enumerate(digests):
            first.setdefault(digest, at)
        missing = {at: [i for i in range(count) if i not in self.get(digest)] for digest, at in first.items()}
        places = [at for at, indices in missing.items() if indices]
        drawn = 0

        def heard(place: int, sample: Sample) -> bool:
            nonlocal drawn
            drawn += 1
            self.put(digests[places[place]], sample)
            return False

        if places:
            draw(places, [missing[at] for at in places], heard)
        return drawn
