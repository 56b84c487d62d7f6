"""Beam search over a causal language model, free or held to a `ToolTrie`: one code path, two candidate sets.

Scores are sums of log-probabilities over the *whole* vocabulary; the trie takes candidates away and never renormalises.
That is `transformers`' own search with `prefix_allowed_tokens_fn`, `length_penalty=0` and `early_stopping=False` (or
"never"): without a length penalty scores only fall, so stopping once no running beam beats the worst finished one is
exact. `early_stopping=True` is not: it stops as soon as k beams have ended, whatever is still running above them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

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

    def run(part: list[Sequence[int]]) -> Beams:
        return search(Decoder(model, part), k, max_new_tokens, eos_id, trie)

    with inference(model):
        return in_batches(prompts, batch_size, run, (k, max_new_tokens))


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


class Decoder:
    """A model with a batch of prompts in its cache, left-padded, true positions.

    After construction `logits` [prompt, vocab] are those of each prompt's next token.
    """

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]]) -> None:
        """Prefill the prompts once."""
        if not all(len(p) for p in prompts):
            raise ValueError("an empty prompt has no next token")
        self.model, self.device = model, model.device
        self._accepted = _forward_parameters(model)
        self._cache_name = "cache" if "cache" in self._accepted else "past_key_values"  # renamed in transformers 5
        longest = max(map(len, prompts))
        padded = [[0] * (longest - len(p)) + list(p) for p in prompts]
        lengths = torch.tensor([len(p) for p in prompts], device=self.device)
        self.mask = (torch.arange(longest, device=self.device) >= longest - lengths[:, None]).long()
        self.positions = lengths[:, None]  # of the next token
        self.cache: Any = None
        inputs = torch.tensor(padded, device=self.device)
        self.logits = self._forward(inputs, self.mask, (self.mask.cumsum(1) - 1).clamp_(min=0))[:, -1]

    def _forward(self, tokens: Tensor, mask: Tensor, positions: Tensor, keep: int = 1) -> Tensor:
        """Float32 logits [row, keep, vocab] of the last `keep` tokens; the cache takes the tokens in."""
        options = {"position_ids": positions, "logits_to_keep": keep, self._cache_name: self.cache}
        options = {name: value for name, value in options.items() if name in self._accepted}
        out = self.model(input_ids=tokens, attention_mask=mask, use_cache=True, return_dict=True, **options)
        self.cache = out.past_key_values
        return out.logits[:, -keep:].float()

    def advance(self, tokens: Tensor, sources: Tensor) -> Tensor:
        """Feed each prompt's k chosen tokens.

        Args:
            tokens: int64 [prompt, k].
            sources: int64 [prompt, k], the beam that each one continues.

        Returns:
            Logits [prompt * k, vocab].
        """
        n, k = tokens.shape
        if len(self.mask) == n != n * k:  # first step: one row per prompt so far
            self.cache.batch_repeat_interleave(k)
            self.mask, self.positions = (t.repeat_interleave(k, 0) for t in (self.mask, self.positions))
        elif k > 1:
            self.cache.reorder_cache((torch.arange(n, device=self.device)[:, None] * k + sources).flatten())
        self.mask = torch.cat([self.mask, self.mask.new_ones(n * k, 1)], dim=1)
        logits = self._forward(tokens.reshape(-1, 1), self.mask, self.positions)[:, -1]
        self.positions = self.positions + 1
        return logits

    def siblings(self, tokens: Tensor, sources: Tensor) -> Tensor:
        """As the first `advance`, without copying the cache: the k tokens share it and do not see one another.

        A four-dimensional mask lets each candidate attend to the prompt and to itself, all at the same position.
        """
        n, k = tokens.shape
        del sources  # one row per prompt: every candidate continues it
        prefix = self.mask.bool()[:, None, :].expand(n, k, -1)
        itself = torch.eye(k, dtype=torch.bool, device=self.device).expand(n, k, k)
        seen = torch.cat([prefix, itself], dim=2)[:, None]
        dtype = self.model.dtype
        mask = torch.zeros(seen.shape, dtype=dtype, device=self.device).masked_fill_(~seen, torch.finfo(dtype).min)
        return self._forward(tokens, mask, self.positions.expand(n, k), keep=k).flatten(0, 1)

    @property
    def can_share(self) -> bool:
        """Whether `siblings` is exact here: plain full attention, by a kernel that takes a mask of our own."""
        layers = getattr(self.cache, "layers", None)
        plain = layers is not None and all(type(layer).__name__ == "DynamicLayer" for layer in layers)
        keeps = {"logits_to_keep", "position_ids"} <= self._accepted
        return plain and keeps and getattr(self.model.config, "_attn_implementation", "") in ("sdpa", "eager")


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
    prompts: Sequence[Sequence[int]],
    batch_size: int,
    run: Callable[[list[Sequence[int]]], Beams],
    shape: tuple[int, int],
) -> Beams:
    """Run over prompts of like lengths together, and give the results back in order; `shape` is [k, time]."""
    parts, order = [], []
    for rows in length_batches(prompts, batch_size):
        parts.append(run([prompts[i] for i in rows]))
        order.extend(rows)
    back = torch.tensor(order, dtype=torch.int64).argsort()
    if not parts:
        return Beams(torch.zeros(0, *shape, dtype=torch.int64), torch.zeros(0, shape[0]))
    return Beams(torch.cat([p.sequences for p in parts])[back], torch.cat([p.scores for p in parts])[back])


def length_batches(prompts: Sequence[Sequence[int]], batch_size: int) -> Iterator[list[int]]:
    """Positions of prompts in batches of like length, longest first: a batch that is too large fails at once."""
    order = sorted(range(len(prompts)), key=lambda i: -len(prompts[i]))
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


@contextmanager
def inference(model: Any) -> Iterator[None]:
    """No gradients and no dropout; training mode is restored."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)


def _forward_parameters(model: Any) -> frozenset[str]:
    """Names that the model's forward takes (an adapter's wrapper hands on whatever it gets)."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    return frozenset(inspect.signature(base.forward).parameters)
