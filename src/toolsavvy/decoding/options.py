"""How likely a model finds given answers: log-probabilities of whole options and of single next tokens, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from toolsavvy.decoding.prefill import Decoder, common_start, inference

Ids = Sequence[int]
CACHED_TOKENS = 8192
"""Of a batch, over all its rows: bounds the memory of keys and values."""
SCORED_TOKENS = 1024
"""Of a batch whose every position is scored over the whole vocabulary: bounds the memory of logits."""


def option_likelihoods(
    model: Any, prompts: Sequence[Ids], options: Sequence[Sequence[Ids]], *, precision: str = "fp32"
) -> np.ndarray:
    """Mean log-probability per token of every option as the prompt's continuation; a prompt is read once for all.

    Args:
        model: a Hugging Face causal language model, or a PEFT wrapper of one.
        prompts: token ids, any lengths.
        options: as many for every prompt; token ids, any lengths.
        precision: fp32 | bf16, of the forward passes.

    Returns:
        float64 [prompt, option]. Nothing but the option's own tokens counts, not the end after them.

    Raises:
        ValueError: a prompt or an option is empty, or prompts have different numbers of options.
    """
    width = _width(prompts, options)
    scores = np.zeros((len(prompts), width))
    with _numbers(model, precision):
        for rows, decoder in _batches(model, prompts, options, SCORED_TOKENS):
            chosen = [option for row in rows for option in options[row]]
            lengths = np.array([len(option) for option in chosen])
            decoder_scores = _begun(decoder, chosen, width) + _followed(decoder, chosen, width)
            scores[rows] = (decoder_scores / lengths).reshape(len(rows), width)
    return scores


def next_token_scores(model: Any, prompts: Sequence[Ids], token_ids: Ids, *, precision: str = "fp32") -> np.ndarray:
    """Log-probabilities of single tokens right after each prompt: float64 [prompt, token].

    Args:
        model: a Hugging Face causal language model, or a PEFT wrapper of one.
        prompts: token ids, any lengths.
        token_ids: the tokens.
        precision: fp32 | bf16, of the forward passes.

    Raises:
        ValueError: a prompt is empty.
    """
    scores = np.zeros((len(prompts), len(token_ids)))
    with _numbers(model, precision):
        for rows, decoder in _batches(model, prompts, [[()]] * len(prompts)):
            scores[rows] = _columns(decoder.logits, token_ids)
    return scores


def ending_scores(
    model: Any, prompts: Sequence[Ids], endings: Sequence[Sequence[Ids]], token_ids: Ids, *, precision: str = "fp32"
) -> np.ndarray:
    """`next_token_scores` of prompts that end in several ways; what a prompt's endings share is read once.

    Args:
        model: a Hugging Face causal language model, or a PEFT wrapper of one.
        prompts: token ids up to where the endings differ.
        endings: as many for every prompt; token ids, any lengths.
        token_ids: the tokens.
        precision: fp32 | bf16, of the forward passes.

    Returns:
        float64 [prompt, ending, token].

    Raises:
        ValueError: a prompt or an ending is empty, or prompts have different numbers of endings.
    """
    width = _width(prompts, endings)
    scores = np.zeros((len(prompts), width, len(token_ids)))
    with _numbers(model, precision):
        for rows, decoder in _batches(model, prompts, endings):
            decoder.repeat(width)
            last = decoder.extend([ending for row in rows for ending in endings[row]], ends_only=True)
            scores[rows] = _columns(last, token_ids).reshape(len(rows), width, -1)
    return scores


def _width(prompts: Sequence[Ids], endings: Sequence[Sequence[Ids]]) -> int:
    """How many endings every prompt has."""
    if len(prompts) != len(endings):
        raise ValueError(f"{len(prompts)} prompts, and options of {len(endings)}")
    widths = {len(own) for own in endings} or {0}
    if len(widths) > 1:
        raise ValueError(f"as many options for every prompt expected, not {sorted(widths)}")
    if not all(len(ending) for own in endings for ending in own):
        raise ValueError("an empty option has no likelihood")
    return widths.pop()


def _begun(decoder: Decoder, options: Sequence[Ids], width: int) -> np.ndarray:
    """Log-probability of each option's first token, float64 [option], from the prompts alone."""
    first = torch.tensor([option[0] for option in options], device=decoder.device).reshape(-1, width)
    logits = decoder.logits
    return (logits.gather(1, first) - logits.logsumexp(1, keepdim=True)).double().flatten().cpu().numpy()


def _followed(decoder: Decoder, options: Sequence[Ids], width: int) -> np.ndarray:
    """Summed log-probabilities of each option's further tokens, float64 [option]."""
    longest = max(map(len, options)) - 1
    if not longest:
        return np.zeros(len(options))
    decoder.repeat(width)
    logits = decoder.extend([option[:-1] or option for option in options])[:, :longest]
    wanted = torch.tensor([[*o[1:], *[0] * (longest + 1 - len(o))] for o in options], device=decoder.device)
    counts = torch.tensor([len(option) - 1 for option in options], device=decoder.device)
    found = logits.gather(2, wanted[..., None])[..., 0] - logits.logsumexp(2)
    is_own = torch.arange(longest, device=decoder.device) < counts[:, None]
    return found.double().masked_fill(~is_own, 0.0).sum(1).cpu().numpy()


def _columns(logits: Tensor, token_ids: Ids) -> np.ndarray:
    """Log-probabilities of chosen tokens over the whole vocabulary, float64 [row, token]."""
    chosen = torch.tensor(list(token_ids), dtype=torch.int64, device=logits.device)
    return (logits.index_select(1, chosen) - logits.logsumexp(1, keepdim=True)).double().cpu().numpy()


def _batches(
    model: Any, prompts: Sequence[Ids], endings: Sequence[Sequence[Ids]], scored: int | None = None
) -> Iterator[tuple[list[int], Decoder]]:
    """Positions of prompts and their decoder; longest first, as many as the bounds on tokens let in.

    Raises:
        ValueError: a prompt is empty.
    """
    if not all(len(prompt) for prompt in prompts):
        raise ValueError("an empty prompt has no next token")
    start = common_start(model, prompts)
    longest = [max(map(len, own), default=0) for own in endings]
    order = sorted(range(len(prompts)), key=lambda i: -len(prompts[i]) - longest[i])
    while order:
        width = max(1, len(endings[order[0]]))
        size = CACHED_TOKENS // (width * (len(prompts[order[0]]) + longest[order[0]]))
        if scored is not None:
            size = min(size, scored // (width * max(longest[i] for i in order)))
        rows, order = order[: max(1, size)], order[max(1, size) :]
        yield rows, Decoder(model, [prompts[i] for i in rows], start)


@contextmanager
def _numbers(model: Any, precision: str) -> Iterator[None]:
    """Inference in the wanted precision."""
    device = next(model.parameters()).device.type
    with inference(model), torch.autocast(device, dtype=torch.bfloat16, enabled=precision == "bf16"):
        yield
