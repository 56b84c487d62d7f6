"""Random numbers for sampling that follow from a sample's own key and step alone, so that batches change nothing."""

from __future__ import annotations

from hashlib import sha256

import numpy as np
import torch
from torch import Tensor

BLOCK = 256
"""Tokens of the vocabulary that are first drawn as one: 448 numbers a row decide among 49,152 tokens."""
_STEP = np.uint64(0x9E3779B97F4A7C15)


def row_key(*parts: object) -> tuple[int, int]:
    """Two 64-bit numbers for a sample, from all that it may follow from (seed, prompt, temperature, index)."""
    digest = sha256("\0".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8]), int.from_bytes(digest[8:16])


def uniforms(keys: np.ndarray, counters: np.ndarray) -> np.ndarray:
    """Uniform numbers strictly between 0 and 1, by a hash of key and counter (SplitMix64's finaliser, twice).

    Args:
        keys: uint64 [row, 2].
        counters: uint64, broadcast against [row, 1].

    Returns:
        float64 [row, counter], with 53 bits.
    """
    with np.errstate(over="ignore"):  # arithmetic modulo 2**64 is what is meant
        mixed = _mix(_mix(keys[:, :1] + counters * _STEP) ^ keys[:, 1:])
    return ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _mix(z: np.ndarray) -> np.ndarray:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def draw_tokens(logits: Tensor, temperature: float, keys: np.ndarray, steps: np.ndarray) -> Tensor:
    """One token a row from softmax(logits / temperature), exactly, or the likeliest at temperature 0.

    Gumbel-max over blocks of the vocabulary, then over the tokens of the block that won. Unlike a search in the
    cumulative distribution, where a rounding error anywhere shifts all that follows, the choice changes only when
    the two best are within the error.

    Args:
        logits: float32 [row, vocab].
        temperature: 0 is greedy.
        keys: uint64 [row, 2], of `row_key`.
        steps: int64 [row], which token of its answer is drawn.

    Returns:
        int64 [row].
    """
    if temperature == 0:
        return logits.argmax(1)
    rows, vocabulary = logits.shape
    if missing := -vocabulary % BLOCK:
        logits = torch.nn.functional.pad(logits, (0, missing), value=-torch.inf)
    blocks = logits.view(rows, -1, BLOCK)
    scaled = (blocks - logits.amax(1)[:, None, None]) / temperature
    mass = scaled.exp().sum(2).double().log()
    noise = _gumbel(keys, steps, blocks.shape[1] + BLOCK, logits.device)
    block = (mass + noise[:, BLOCK:]).argmax(1)
    inside = scaled[torch.arange(rows, device=logits.device), block].double()
    return block * BLOCK + (inside + noise[:, :BLOCK]).argmax(1)


def _gumbel(keys: np.ndarray, steps: np.ndarray, width: int, device: torch.device) -> Tensor:
    """Standard Gumbel noise, float64 [row, width]."""
    counters = steps.astype(np.uint64)[:, None] * np.uint64(width) + np.arange(1, width + 1, dtype=np.uint64)
    return torch.from_numpy(-np.log(-np.log(uniforms(keys, counters)))).to(device)
