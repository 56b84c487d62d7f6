"""Tools that are one token each: all of them ranked exactly by one forward pass, and free decoding in two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from toolsavvy.decoding.beams import Beams, in_batches, search
from toolsavvy.decoding.prefill import Decoder, inference, length_batches, prefilled
from toolsavvy.retrieval.ranking import Ranking, tie_ranks


def rank_atomic(
    model: Any,
    prompts: Sequence[Sequence[int]],
    tokens: Sequence[int],
    k: int,
    *,
    ids: Sequence[str],
    batch_size: int = 16,
) -> Ranking:
    """The first k tools by log-probability of their token, over the whole vocabulary, right after each prompt.

    Equals trie-constrained beams of one new token, exactly and without beams. The end after the tool, which the mask
    would leave as the only choice, is not scored, as it is in free decoding and in codes of several tokens.

    Args:
        model: a Hugging Face causal language model, or a PEFT wrapper of one.
        prompts: token ids, any lengths.
        tokens: the virtual token of each tool, in catalog order.
        k: tools per prompt; at most all of them.
        ids: tool ids, for the order of equal scores (descending, as trec_eval).
        batch_size: prompts in one forward pass.
    """
    k, ranks = min(k, len(tokens)), tie_ranks(ids)
    indices = np.zeros((len(prompts), k), dtype=np.int64)
    scores = np.zeros((len(prompts), k), dtype=np.float64)
    columns = torch.tensor(tokens, dtype=torch.int64, device=model.device)
    with inference(model):
        for rows, decoder in prefilled(model, prompts, batch_size):
            logits = decoder.logits
            tools = logits.index_select(1, columns) - logits.logsumexp(1, keepdim=True)
            indices[rows], scores[rows] = top_k(tools, k, ranks)
    return Ranking(indices, scores)


def free_atomic(model: Any, prompts: Sequence[Sequence[int]], k: int, *, eos_id: int, batch_size: int = 16) -> Beams:
    """Free beams of two tokens (a tool's and the end), the second in one pass over all k candidates of a prompt.

    Equals `beam_search(trie=None, max_new_tokens=2)`; models whose attention takes no mask of ours (flash, sliding
    windows, recurrent layers) go through that instead.
    """

    def run(decoder: Decoder) -> Beams:
        return search(decoder, k, 2, eos_id, None, share=decoder.can_share)

    return in_batches(model, prompts, batch_size, run, (k, 2))


def rank_both(
    model: Any,
    prompts: Sequence[Sequence[int]],
    tokens: Sequence[int],
    k: int,
    *,
    ids: Sequence[str],
    eos_id: int,
    batch_size: int = 16,
) -> tuple[Ranking, Beams]:
    """`rank_atomic` and `free_atomic` from one reading of every prompt."""
    parts: dict[str, list[Any]] = {"rows": [], "indices": [], "scores": [], "free": []}
    ranks, columns = tie_ranks(ids), torch.tensor(tokens, dtype=torch.int64, device=model.device)

    def run(decoder: Decoder) -> Beams:
        tools = decoder.logits.index_select(1, columns) - decoder.logits.logsumexp(1, keepdim=True)
        indices, scores = top_k(tools, min(k, len(tokens)), ranks)
        parts["indices"].append(indices)
        parts["scores"].append(scores)
        return search(decoder, k, 2, eos_id, None, share=decoder.can_share)

    free = in_batches(model, prompts, batch_size, run, (k, 2))
    order = [row for rows in length_batches(prompts, batch_size) for row in rows]
    back = np.argsort(order)
    shape = (0, min(k, len(tokens)))
    indices = np.concatenate(parts["indices"])[back] if order else np.zeros(shape, dtype=np.int64)
    scores = np.concatenate(parts["scores"])[back] if order else np.zeros(shape)
    return Ranking(indices, scores), free


def top_k(scores: Tensor, k: int, ranks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices and float64 scores [row, k] of the k best columns; equal scores by ascending `tie_ranks`.

    Sorting 47k columns for each query would cost more than scoring them, so only rows with a tie across the cut are
    sorted in full.
    """
    width = scores.shape[1]
    best, at = scores.topk(min(k + 1, width), dim=1)
    values, indices = best.double().cpu().numpy(), at.cpu().numpy()
    if width > k:
        for row in np.flatnonzero(values[:, k] == values[:, k - 1]):
            full = scores[row].double().cpu().numpy()
            indices[row] = np.lexsort((ranks, -full))[: k + 1]
            values[row] = full[indices[row]]
    order = np.lexsort((ranks[indices], -values))[:, :k]
    return np.take_along_axis(indices, order, 1), np.take_along_axis(values, order, 1)
