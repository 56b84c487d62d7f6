"""Many answers to each of a batch of prompts, which go on from one cache: a prompt's keys and values are never copied.

Kernels that attend to a prompt and to an answer apart and share the first between answers are known as cascade
attention (FlashInfer) and bifurcated attention (2403.08845); here it is a few matrix products, on any device.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AttentionInterface, DynamicCache
from transformers.cache_utils import DynamicLayer

from toolsavvy.decoding.prefill import Decoder

NAME = "toolsavvy_branches"
GROWTH = 16
"""Tokens by which the room for answers grows."""
_ODD = ("softcap", "sliding_window", "s_aux", "position_bias")
"""What attention layers of some families also ask for, and this one does not do."""
_active: ContextVar[Branches] = ContextVar("branches")


class Branches:
    """Answers that are being written, one token a row and step.

    Args:
        decoder: prompts in a plain cache; only read.
        owners: int64 [row], the prompt that each row continues.
    """

    def __init__(self, decoder: Decoder, owners: Tensor) -> None:
        """Nothing is computed yet: the first logits are those of the prompts."""
        self.decoder, self.device, self.owners = decoder, decoder.device, owners
        self.logits, self.positions = decoder.logits[owners], decoder.positions[owners]
        self.prompts = [(layer.keys, layer.values) for layer in decoder.cache.layers]
        dtype = self.prompts[0][0].dtype
        padding = torch.zeros(decoder.mask.shape, dtype=dtype, device=self.device)
        self.padding = padding.masked_fill_(decoder.mask == 0, torch.finfo(dtype).min)[:, None, None]
        self.cache: Any = DynamicCache()
        self.cache.layers = [_Answers() for _ in self.prompts]
        self._configs = _configs(decoder.model)
        self._arrange()

    def _arrange(self) -> None:
        """Where rows stand among those of their prompt: `place` [prompt, slot] -> row, `slot` [row]."""
        owners = self.owners.cpu().numpy()
        order, counts = np.argsort(owners, kind="stable"), np.bincount(owners, minlength=len(self.padding))
        slot = np.empty_like(owners)
        slot[order] = np.arange(len(owners)) - (np.cumsum(counts) - counts)[owners[order]]
        place = np.zeros((len(counts), counts.max()), dtype=np.int64)
        place[owners, slot] = np.arange(len(owners))
        self.place, self.slot = torch.from_numpy(place).to(self.device), torch.from_numpy(slot).to(self.device)

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these, int64 [row]; and prompts, once half of them have none left."""
        self.cache.reorder_cache(rows)
        self.logits, self.positions, self.owners = self.logits[rows], self.positions[rows], self.owners[rows]
        left, owners = self.owners.unique(return_inverse=True)
        if 2 * len(left) <= len(self.padding):
            self.prompts = [(keys[left], values[left]) for keys, values in self.prompts]
            self.padding, self.owners = self.padding[left], owners
        self._arrange()

    def follow(self, tokens: Tensor) -> None:
        """Feed each row its token, int64 [row]; `logits` are then those of the next."""
        mask = self.positions.new_ones(len(tokens), 1)  # for models that make one; attention here has its own
        with self._in_force():
            self.logits = self.decoder.forward_with(self.cache, tokens[:, None], mask, self.positions)
        self.positions = self.positions + 1

    @contextmanager
    def _in_force(self) -> Iterator[None]:
        """Attention layers attend as below."""
        before = [config._attn_implementation for config in self._configs]
        token = _active.set(self)
        try:
            for config in self._configs:
                config._attn_implementation = NAME
            yield
        finally:
            _active.reset(token)
            for config, name in zip(self._configs, before, strict=True):
                config._attn_implementation = name

    def attend(self, layer: int, query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
        """Attention over the prompt and the row's own answer.

        Args:
            layer: index of the model's layer.
            query: [row, head, 1, d].
            keys: of the answers, [row, kv_head, time, d].
            values: [row, kv_head, time, d of values].
            scaling: of the scores.

        Returns:
            [row, 1, head, d of values].
        """
        prompt_keys, prompt_values = self.prompts[layer]
        rows, heads = query.shape[:2]
        query = query.reshape(rows, keys.shape[1], -1, query.shape[3])  # the heads that share keys stand together
        to_prompt = self._by_row(self._by_prompt(query) @ prompt_keys.transpose(2, 3) * scaling + self.padding)
        to_answer = query @ keys.transpose(2, 3) * scaling
        scores = torch.cat([to_prompt, to_answer], dim=3)
        weights = scores.softmax(3, dtype=torch.float32).to(query.dtype)
        split = prompt_keys.shape[2]
        found = self._by_row(self._by_prompt(weights[..., :split]) @ prompt_values) + weights[..., split:] @ values
        return found.reshape(rows, 1, heads, -1)

    def _by_prompt(self, rows: Tensor) -> Tensor:
        """[row, kv_head, group, x] -> [prompt, kv_head, slot * group, x]; empty slots hold any row."""
        return rows[self.place].transpose(1, 2).flatten(2, 3)

    def _by_row(self, prompts: Tensor) -> Tensor:
        """The way back."""
        return prompts.unflatten(2, (self.place.shape[1], -1))[self.owners, :, self.slot]


class _Answers(DynamicLayer):
    """Keys and values of answers alone, written in place into room that grows now and then."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Take in one token a row; views of all so far come back."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.rooms, self.length = [key_states[:, :, :0], value_states[:, :, :0]], 0
        if self.length == self.rooms[0].shape[2]:
            more = [room.new_empty(*room.shape[:2], GROWTH, room.shape[3]) for room in self.rooms]
            self.rooms = [torch.cat(pair, dim=2) for pair in zip(self.rooms, more, strict=True)]
        for room, state in zip(self.rooms, (key_states, value_states), strict=True):
            room[:, :, self.length] = state[:, :, 0]
        self.length += 1
        self.keys, self.values = (room[:, :, : self.length] for room in self.rooms)
        return self.keys, self.values

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Only these rows."""
        if self.is_initialized:
            self.rooms = [room.index_select(0, beam_idx) for room in self.rooms]
            self.keys, self.values = (room[:, :, : self.length] for room in self.rooms)


def can_branch(decoder: Decoder) -> bool:
    """Whether `Branches` gives what the model's own attention gives: tried on two rows, whatever its family."""
    base = decoder.model.get_base_model() if hasattr(decoder.model, "get_base_model") else decoder.model
    kernels = {config._attn_implementation for config in _configs(decoder.model)}
    if not decoder.is_plain or not getattr(base, "_supports_attention_backend", False) or kernels - {"eager", "sdpa"}:
        return False
    rows = torch.tensor([0, len(decoder.logits) - 1, 0], device=decoder.device)
    own = decoder.chosen(rows)
    tokens = own.logits.topk(2).indices[torch.arange(3), torch.tensor([0, 0, 1])]
    branches = Branches(decoder, rows)
    try:
        for _ in range(2):
            own.follow(tokens)
            branches.follow(tokens)
    except (_Unsupported, AttributeError, TypeError, KeyError, IndexError, ValueError):
        return False
    except RuntimeError as error:  # shapes that do not go together; a lack of memory is for the caller
        if is_out_of_memory(error):
            raise
        return False
    allowed = 1e-3 if own.logits.dtype == decoder.model.dtype else 0.1
    return bool((own.logits - branches.logits).abs().max() <= allowed * own.logits.std())


def is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out, on an accelerator or here."""
    known = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return known or "out of memory" in str(error) or "can't allocate memory" in str(error)


class _Unsupported(Exception):
    """An attention layer asks for more than is done here."""


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in place of its own attention."""
    if odd := [name for name in _ODD if kwargs.get(name) is not None]:
        raise _Unsupported(", ".join(odd))
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return _active.get().attend(module.layer_idx, query, key, value, scale), None


AttentionInterface.register(NAME, _attention)


def _configs(model: Any) -> list[Any]:
    """Every config that names the attention of some module."""
    found = {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}
    return [config for config in found.values() if getattr(config, "_attn_implementation", None)]
