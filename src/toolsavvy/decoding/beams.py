"""Beam search over a causal language model, free or held to a `ToolTrie`: one code path, two candidate sets.

Scores are sums of log-probabilities over the *whole* vocabulary; the trie takes candidates away and never renormalises.
That is `transformers`' own search with `prefix_allowed_tokens_fn`, `length_penalty=0` and `early_stopping=False` (or
"never"): without a length penalty scores only fall, so stopping once no running beam beats the worst finished one is
exact. `early_stopping=True` is not: it stops as soon as k beams have ended, whatever is still running above them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from toolsavvy.decoding.prefill import Decoder, inference, prefilled
from toolsavvy.decoding.trie import ToolTrie
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking, tie_ranks

PAD = -1
"""Fills a sequence after its end."""


@dataclass(frozen=True)
class Beams:
    """The k best outputs of each prompt.

    Args:
        sequences: int64 [prompt, k, time], new tokens only, `PAD` after the end of sequence; an output that was cut off
            has no end of sequence.
        scores: float32 [prompt, k], descending sums of log-probabilities; -inf where there are fewer than k outputs.
    """

    sequences: Tensor
    scores: Tensor


def beam_search(
    model: Any,
    prompts: Sequence[Sequence[int]],
    *,
    k: int,
    max_new_tokens: int,
    eos_id: int,
    trie: ToolTrie | None = None,
    batch_size: int = 16,
) -> Beams:
    """The k best continuations of every prompt; with a trie, only codes of tools.

    Args:
        model: a Hugging Face causal language model, or a PEFT wrapper of one.
        prompts: token ids, any lengths.
        k: beams and outputs per prompt.
        max_new_tokens: longest code + 1 (`ToolTrie.max_length`).
        eos_id: ends an output.
        trie: the constraint; None decodes freely.
        batch_size: prompts decoded together (k rows each).
    """

    def run(decoder: Decoder) -> Beams:
        return search(decoder, k, max_new_tokens, eos_id, trie)

    return in_batches(model, prompts, batch_size, run, (k, max_new_tokens))


def to_ranking(beams: Beams, trie: ToolTrie, ids: Sequence[str] | None = None) -> Ranking:
    """Outputs as ranks: exactly a tool's code and its end is that tool, anything else holds its rank as `NO_TOOL`.

    Args:
        beams: free or constrained.
        trie: all codes.
        ids: tool ids; given, equal scores are put in descending order of id (trec_eval's rule).
    """
    indices = trie.to("cpu").lookup(beams.sequences.cpu()).numpy()
    scores = beams.scores.double().cpu().numpy()
    indices = np.where(np.isneginf(scores), NO_TOOL, indices)
    if ids is not None:
        ranks = np.append(tie_ranks(ids), len(ids))[indices]  # NO_TOOL = -1 reads the appended one: last among equals
        order = np.lexsort((ranks, -scores))
        indices, scores = np.take_along_axis(indices, order, 1), np.take_along_axis(scores, order, 1)
    return Ranking(indices, scores)


def search(decoder: Decoder, k: int, steps: int, eos_id: int, trie: ToolTrie | None, share: bool = False) -> Beams:
    """Beam search from prefilled prompts; `share` takes the first new token by `Decoder.siblings`."""
    n, logits = len(decoder.logits), decoder.logits
    trie = trie and trie.to(decoder.device)
    running = torch.zeros(n, 1, device=decoder.device)
    nodes = torch.zeros(n, 1, dtype=torch.int64, device=decoder.device)
    history = torch.full((n, 1, steps), PAD, device=decoder.device)
    done = Beams(history.repeat(1, k, 1), torch.full((n, k), -torch.inf, device=decoder.device))
    for step in range(steps):
        scores, tokens, following = _candidates(logits, nodes.flatten(), step, trie)
        best, sources, tokens, nodes = _best(scores, tokens, following, running, 2 * k)
        history = _pick(history, sources)
        history[:, :, step] = tokens
        ended = (tokens == eos_id) | (step == steps - 1)
        done = _merge(done, history[:, :k], best[:, :k].masked_fill(~ended[:, :k], -torch.inf))
        running, kept = best.masked_fill(ended, -torch.inf).topk(k, dim=1)
        if step == steps - 1 or not bool((running[:, 0] > done.scores[:, -1]).any()):
            break
        history, nodes, tokens, sources = (_pick(t, kept) for t in (history, nodes, tokens, sources))
        feed: Callable[[Tensor, Tensor], Tensor] = decoder.siblings if share and step == 0 else decoder.advance
        logits = feed(tokens, sources)
    sequences = done.sequences.masked_fill(done.scores.isneginf()[..., None], PAD)
    return Beams(sequences.cpu(), done.scores.cpu())


def _candidates(logits: Tensor, nodes: Tensor, step: int, trie: ToolTrie | None) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities, tokens and nodes [row, width] of what may follow: all tokens, or the trie's."""
    total = logits.logsumexp(1, keepdim=True)
    if trie is None:
        tokens = torch.arange(logits.shape[1], device=logits.device).expand_as(logits)
        return logits - total, tokens, torch.zeros_like(tokens)
    scores, tokens, following = trie.expand(logits, nodes, step)
    return scores - total, tokens, following


def _best(
    scores: Tensor, tokens: Tensor, following: Tensor, running: Tensor, count: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The `count` best continuations over all beams of each prompt: scores, source beams, tokens, nodes.

    Twice as many as beams: were all k best to end here, k others must be left to go on.
    """
    n, beams, width = len(running), running.shape[1], scores.shape[1]
    total = (scores.view(n, beams, width) + running[..., None]).flatten(1)
    best, flat = total.topk(min(count, beams * width), dim=1)
    short = count - best.shape[1]
    best = torch.nn.functional.pad(best, (0, short), value=-torch.inf)
    flat = torch.nn.functional.pad(flat, (0, short))
    rows, columns = flat // width, flat % width
    at = torch.arange(n, device=flat.device)[:, None] * beams + rows
    return best, rows, tokens[at, columns], following[at, columns]


def _merge(done: Beams, sequences: Tensor, scores: Tensor) -> Beams:
    """The k best of what had ended and what ends now."""
    best, at = torch.cat([done.scores, scores], 1).topk(done.scores.shape[1], dim=1)
    return Beams(_pick(torch.cat([done.sequences, sequences], 1), at), best)


def _pick(values: Tensor, at: Tensor) -> Tensor:
    """`values[prompt, at[prompt, i]]` for [prompt, beam] or [prompt, beam, time]."""
    return values[torch.arange(len(at), device=at.device)[:, None], at]


def in_batches(
    model: Any,
    prompts: Sequence[Sequence[int]],
    batch_size: int,
    run: Callable[[Decoder], Beams],
    shape: tuple[int, int],
) -> Beams:
    """Run over prompts of like lengths together, and give the results back in order; `shape` is [k, time]."""
    parts, order = [], []
    with inference(model):
        for rows, decoder in prefilled(model, prompts, batch_size):
            parts.append(run(decoder))
            order.extend(rows)
    back = torch.tensor(order, dtype=torch.int64).argsort()
    if not parts:
        return Beams(torch.zeros(0, *shape, dtype=torch.int64), torch.zeros(0, shape[0]))
    return Beams(torch.cat([p.sequences for p in parts])[back], torch.cat([p.scores for p in parts])[back])
