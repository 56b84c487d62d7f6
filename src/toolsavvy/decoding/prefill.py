"""Prompts into a model's cache, once: what they all start with once for all, the rest in batches of like length."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

SHORTEST_START = 4
"""A common start of fewer tokens is not worth a forward pass of its own."""


@dataclass(frozen=True)
class CommonStart:
    """What all prompts start with (system prompt, template), already in a cache of one row.

    Args:
        length: tokens.
        cache: the model's; copied before use.
    """

    length: int
    cache: Any


class Decoder:
    """A model with a batch of prompts in its cache, padded on the left of what they do not share, true positions.

    After construction `logits` [prompt, vocab] are those of each prompt's next token.
    """

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]], start: CommonStart | None = None) -> None:
        """Prefill the prompts, after what they start with if that was done before."""
        self.model, self.device = model, model.device
        self._accepted = _forward_parameters(model)
        self._cache_name = "cache" if "cache" in self._accepted else "past_key_values"  # renamed in transformers 5
        self.cache: Any = None
        done = 0
        if start is not None:
            done, self.cache = start.length, copy.deepcopy(start.cache)
            self.cache.batch_repeat_interleave(len(prompts))
        rests = [list(p[done:]) for p in prompts]
        longest = max(map(len, rests))
        lengths = torch.tensor([len(r) for r in rests], device=self.device)
        inputs = torch.tensor([[0] * (longest - len(r)) + r for r in rests], device=self.device)
        rest_mask = (torch.arange(longest, device=self.device) >= longest - lengths[:, None]).long()
        self.mask = torch.cat([rest_mask.new_ones(len(prompts), done), rest_mask], dim=1)
        self.positions = done + lengths[:, None]  # of the next token
        self.logits = self._forward(inputs, self.mask, done + (rest_mask.cumsum(1) - 1).clamp_(min=0))[:, -1]

    def _forward(self, tokens: Tensor, mask: Tensor, positions: Tensor, keep: int | Tensor = 1) -> Tensor:
        """Float32 logits [row, keep, vocab] of the last `keep` tokens, or of these columns; the cache takes all in."""
        options = {"position_ids": positions, "logits_to_keep": keep, self._cache_name: self.cache}
        options = {name: value for name, value in options.items() if name in self._accepted}
        out = self.model(input_ids=tokens, attention_mask=mask, use_cache=True, return_dict=True, **options)
        self.cache = out["cache" if "cache" in out else "past_key_values"]
        if isinstance(keep, int):
            return out.logits[:, -keep:].float()
        return (out.logits if "logits_to_keep" in self._accepted else out.logits[:, keep]).float()

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
            self.repeat(k)
        elif k > 1:
            self.cache.reorder_cache((torch.arange(n, device=self.device)[:, None] * k + sources).flatten())
        self.mask = torch.cat([self.mask, self.mask.new_ones(n * k, 1)], dim=1)
        logits = self._forward(tokens.reshape(-1, 1), self.mask, self.positions)[:, -1]
        self.positions = self.positions + 1
        return logits

    def extend(self, endings: Sequence[Sequence[int]], *, ends_only: bool = False) -> Tensor:
        """Feed every row several tokens at once; afterwards the decoder is used up.

        Args:
            endings: ids for each row, of any lengths; padded on the right, where nothing that counts can see.
            ends_only: give the logits after each row's last token alone.

        Returns:
            Logits [row, longest, vocab] after each token, those past a row's own end mean nothing; or [row, vocab].
        """
        longest = max(map(len, endings))
        lengths = torch.tensor([len(e) for e in endings], device=self.device)
        tokens = torch.tensor([[*e, *[0] * (longest - len(e))] for e in endings], device=self.device)
        steps = torch.arange(longest, device=self.device)
        self.mask = torch.cat([self.mask, (steps < lengths[:, None]).long()], dim=1)
        if not ends_only:
            return self._forward(tokens, self.mask, self.positions + steps, keep=longest)
        ends, column = lengths.unique(return_inverse=True)
        kept = self._forward(tokens, self.mask, self.positions + steps, keep=ends - 1)
        return kept[torch.arange(len(endings), device=self.device), column]

    def repeat(self, k: int) -> None:
        """Stand every prompt k times, next to one another."""
        self.cache.batch_repeat_interleave(k)
        self.mask, self.positions = (t.repeat_interleave(k, 0) for t in (self.mask, self.positions))

    def follow(self, tokens: Tensor) -> None:
        """Feed each row its token, int64 [row]; `logits` are then those of the next."""
        self.logits = self.advance(tokens[:, None], tokens[:, None])

    def forward_with(self, cache: Any, tokens: Tensor, mask: Tensor, positions: Tensor) -> Tensor:
        """Float32 logits [row, vocab] of the last tokens with another cache, which takes them in; ours stays."""
        own, self.cache = self.cache, cache
        try:
            return self._forward(tokens, mask, positions)[:, -1]
        finally:
            self.cache = own

    def chosen(self, rows: Tensor) -> Decoder:
        """A decoder of its own over these rows, int64 [row], each as often as it is named; this one stays as it is.

        Only of a plain cache (`is_plain`).
        """
        other = copy.copy(self)
        other.cache = copy.copy(self.cache)
        other.cache.layers = [copy.copy(layer) for layer in self.cache.layers]
        other.keep(rows)
        return other

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these, int64 [row]."""
        self.cache.reorder_cache(rows)
        self.mask, self.positions, self.logits = (t[rows] for t in (self.mask, self.positions, self.logits))

    @property
    def is_plain(self) -> bool:
        """Whether the cache keeps all keys and values of all tokens: padding and copies are neutral there."""
        return _is_plain(self.cache)

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
        keeps = {"logits_to_keep", "position_ids"} <= self._accepted
        kernel = getattr(self.model.config, "_attn_implementation", "")
        return _is_plain(self.cache) and keeps and kernel in ("sdpa", "eager")


def prefilled(model: Any, prompts: Sequence[Sequence[int]], batch_size: int) -> Iterator[tuple[list[int], Decoder]]:
    """Positions of prompts and their decoder, batch by batch.

    Raises:
        ValueError: a prompt is empty.
    """
    if not all(len(p) for p in prompts):
        raise ValueError("an empty prompt has no next token")
    start = common_start(model, prompts)
    for rows in length_batches(prompts, batch_size):
        yield rows, Decoder(model, [prompts[i] for i in rows], start)


_READING_START: ContextVar[bool] = ContextVar("reading_start", default=False)


def is_reading_start() -> bool:
    """Whether the pass under way reads what prompts share, so that its last token is no prompt's last: for hooks."""
    return _READING_START.get()


def common_start(model: Any, prompts: Sequence[Sequence[int]]) -> CommonStart | None:
    """The longest start that leaves every prompt a token of its own; None when short, or the cache is no plain one.

    With sliding windows or recurrent layers, padding between the start and the rest would not be neutral.
    """
    if len(prompts) < 2:
        return None
    ordered = [tuple(p) for p in prompts]
    first, last = min(ordered), max(ordered)  # what these two share, all share
    limit = min(map(len, prompts)) - 1
    length = next((i for i in range(limit) if first[i] != last[i]), limit)
    if length < SHORTEST_START:
        return None
    reading = _READING_START.set(True)
    try:
        cache = Decoder(model, [first[:length]]).cache
    finally:
        _READING_START.reset(reading)
    return CommonStart(length, cache) if _is_plain(cache) else None


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


def _is_plain(cache: Any) -> bool:
    """Whether every layer keeps all keys and values of all tokens."""
    layers = getattr(cache, "layers", None)
    return layers is not None and all(type(layer).__name__ == "DynamicLayer" for layer in layers)
