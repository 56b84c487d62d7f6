"""Prompts of like length in one forward pass each, after what they all start with."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from toolsavvy.decoding.prefill import CommonStart, common_start
from toolsavvy.hidden.blocks import backbone
from toolsavvy.hidden.positions import MISSING
from toolsavvy.models.prompts import Rendered

Padding = Literal["right", "left"]


@dataclass(frozen=True)
class Batch:
    """What a backbone is given, and where the wanted tokens are in it.

    Args:
        inputs: of its forward.
        columns: int64 [row, wanted], `MISSING` where a prompt is too short.
    """

    inputs: dict[str, Any]
    columns: Tensor

    def chosen(self, layer: int, states: Tensor) -> Tensor:
        """The wanted tokens [row, wanted, d] of a layer's states [row, time, d]; any token where one is missing."""
        del layer
        columns = self.columns.to(states.device)
        return states[torch.arange(len(columns), device=states.device)[:, None], columns]


def shared_start(model: Any, prompts: Sequence[Rendered], wanted: np.ndarray) -> CommonStart | None:
    """What all prompts start with before the first wanted token, already in a cache; None where it isn't worth it.

    Args:
        model: a causal LM.
        prompts: all that will be captured, so that a resumed capture has the same start.
        wanted: int64 [prompt, …], token indices.
    """
    if (wanted == MISSING).any():
        return None
    # `common_start` leaves every text a token of its own, which here is the first one that is wanted.
    return common_start(model, [p.ids[: wanted.min() + 1] for p in prompts])


def plan(lengths: Sequence[int], batch_size: int, batch_tokens: int) -> Iterator[slice]:
    """Cut prompts, longest first, into batches.

    Args:
        lengths: tokens to be run, falling.
        batch_size: most prompts of one.
        batch_tokens: most tokens of one, padding counted; a longer prompt stands alone.
    """
    first = 0
    while first < len(lengths):
        count = max(1, min(batch_size, batch_tokens // lengths[first]))
        yield slice(first, min(first + count, len(lengths)))
        first += count


def batch_of(
    model: Any, prompts: Sequence[Rendered], wanted: np.ndarray, start: CommonStart | None, padding: Padding
) -> Batch:
    """Lay prompts out for one forward pass.

    On the right, padding comes after all that is wanted: no causal model sees it, so no mask is needed and the fastest
    attention kernels apply. On the left, mask and position ids say where a prompt begins.

    Args:
        model: a causal LM.
        prompts: of this batch.
        wanted: int64 [prompt, wanted], token indices.
        start: already in a cache.
        padding: right | left.
    """
    done = start.length if start else 0
    rests = [p.ids[done:] for p in prompts]
    longest = max(map(len, rests))
    gaps = [longest - len(r) for r in rests]
    left = padding == "left"
    ids = [[0] * gap + [*rest] if left else [*rest, *[0] * gap] for rest, gap in zip(rests, gaps, strict=True)]
    moved = wanted - done + (np.array(gaps)[:, None] if left else 0)
    columns = torch.as_tensor(np.where(wanted == MISSING, MISSING, moved), device=model.device)
    inputs: dict[str, Any] = {"input_ids": torch.tensor(ids, device=model.device), "use_cache": start is not None}
    accepted = inspect.signature(backbone(model).forward).parameters
    if start:
        inputs["cache" if "cache" in accepted else "past_key_values"] = _repeated(start.cache, len(prompts))
    if left:
        inputs |= _begun(gaps, longest, done, model.device)
    return Batch({name: value for name, value in inputs.items() if name in accepted}, columns)


def _begun(gaps: Sequence[int], longest: int, done: int, device: Any) -> dict[str, Tensor]:
    """Mask and position ids of rows padded on the left of what they do not share."""
    steps = torch.arange(longest, device=device) - torch.tensor(gaps, device=device)[:, None]
    real = (steps >= 0).long()
    mask = torch.cat([real.new_ones(len(gaps), done), real], dim=1)
    return {"attention_mask": mask, "position_ids": done + steps.clamp(min=0)}


def _repeated(cache: Any, rows: int) -> Any:
    """A cache of one row seen as many, without copying it: an update makes new tensors."""
    repeated = copy.deepcopy(cache)
    for layer in repeated.layers:
        layer.keys, layer.values = (t.expand(rows, *t.shape[1:]) for t in (layer.keys, layer.values))
    return repeated
