"""What lies below the first adapter never changes while adapters train: it is run once a row, not once an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from toolsavvy.hidden.blocks import backbone, blocks, embeddings
from toolsavvy.hidden.hooks import run


class Trunk:
    """Blocks without trainable weights, from the embeddings up.

    With `tuning.first_block` at half the depth an epoch costs half of what it costs without, and a row is read by the
    lower half once for all epochs and for all models of a run that start from the same weights.

    Args:
        model: a causal LM with adapters on its upper blocks; nothing below may train.
        limit: most bytes that are kept; rows beyond are read anew every time.
    """

    def __init__(self, model: Any, limit: int = 4_000_000_000) -> None:
        self.model, self.depth, self.room = model, frozen_blocks(model), limit
        self._kept: dict[tuple[int, ...], Tensor] = {}
        self._is_tuple = False

    def states(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Final hidden states [row, time, dimension] of right-padded rows, with gradients to the upper blocks."""
        below = self._below(input_ids, attention_mask)
        with self._replaced(below):
            inputs = {"input_ids": input_ids, "attention_mask": attention_mask, "use_cache": False}
            return backbone(self.model)(**inputs).last_hidden_state

    def _below(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """What enters the first block that trains, [row, time, dimension]; zeros at padding, which nobody looks at."""
        lengths = attention_mask.sum(1).tolist()
        rows = [tuple(ids[:n].tolist()) for ids, n in zip(input_ids, lengths, strict=True)]
        fresh = [i for i, row in enumerate(rows) if row not in self._kept]
        read: dict[int, Tensor] = {}
        if fresh:
            states = self._read(input_ids[fresh], attention_mask[fresh])
            read = {i: state[: lengths[i]] for i, state in zip(fresh, states, strict=True)}
            for i, state in read.items():
                if (size := state.numel() * state.element_size()) <= self.room:
                    self._kept[rows[i]] = state.clone()
                    self.room -= size
        found = [read[i] if i in read else self._kept[row] for i, row in enumerate(rows)]
        return nn.utils.rnn.pad_sequence(found, batch_first=True)

    @torch.no_grad()
    def _read(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask, "use_cache": False}
        with self._noted(), self._steady():
            return run(self.model, [self.depth], inputs, lambda _, states: states.detach())[self.depth]

    @contextmanager
    def _steady(self) -> Iterator[None]:
        """No dropout: one draw of it would be kept for all epochs and models."""
        training = [module for module in self.model.modules() if module.training]
        self.model.eval()
        try:
            yield
        finally:
            for module in training:
                module.training = True

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Whether blocks give a tensor or a tuple around it: what stands in for them must do the same."""

        def note(_: nn.Module, __: Any, output: Any) -> None:
            self._is_tuple = isinstance(output, tuple)

        handle = blocks(self.model)[self.depth - 1].register_forward_hook(note)
        try:
            yield
        finally:
            handle.remove()

    @contextmanager
    def _replaced(self, states: Tensor) -> Iterator[None]:
        """The blocks below hand over what is known already; masks and positions are made as ever."""
        below = blocks(self.model)[: self.depth]
        given: Any = (states,) if self._is_tuple else states
        for block in below:
            block.forward = lambda *_, **__: given
        try:
            yield
        finally:
            for block in below:
                del block.forward


def frozen_blocks(model: Any) -> int:
    """How many blocks from the bottom have nothing to train, 0 where the embeddings train."""
    inside = {id(p) for block in blocks(model) for p in block.parameters()}
    outer = [p for p in embeddings(model).parameters() if p.requires_grad]
    if outer and not all(id(p) in inside for p in outer):
        return 0
    trains = [any(p.requires_grad for p in block.parameters()) for block in blocks(model)]
    return trains.index(True) if True in trains else 0
