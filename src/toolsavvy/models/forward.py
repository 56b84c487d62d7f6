"""One training pass of a tool model at little cost: only label positions are scored, only new rows get gradients.

PEFT's wrapper for trainable rows copies the whole embedding matrix, and its gradient, at every step (two times 113 MB
for 135M parameters and a few hundred tools). The same logits follow from the frozen matrix and the few rows apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from toolsavvy.models.tuning import plain


@dataclass(frozen=True)
class Rows:
    """A frozen embedding matrix and its trainable rows.

    Args:
        base: the frozen layer.
        ids: int64 [row], vocabulary ids of the rows.
        values: [row, dimension], what trains.
    """

    base: Any
    ids: Tensor
    values: Tensor


def trainable_rows(layer: Any) -> Rows | None:
    """The parts of a layer under PEFT's `trainable_token_indices`; None for an ordinary layer."""
    adapter = getattr(layer, "token_adapter", None)
    if adapter is None or len(adapter.active_adapters) != 1:
        return None
    name = adapter.active_adapters[0]
    values = adapter.trainable_tokens_delta[name]
    ids = torch.as_tensor(adapter.token_indices[name], device=values.device)
    return Rows(adapter.get_base_layer(), ids, values)


def states(model: nn.Module, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    """Final hidden states [row, time, dimension], with gradients to adapters and new input rows."""
    causal = plain(model)
    embedding = causal.get_input_embeddings()
    rows = trainable_rows(embedding)
    inputs: dict[str, Tensor] = {"input_ids": input_ids}
    if rows is not None and type(rows.base) is nn.Embedding:  # scaled embeddings (Gemma) go through their own module
        inputs = {"inputs_embeds": _embed(rows, input_ids)}
    return causal.get_decoder()(**inputs, attention_mask=attention_mask, use_cache=False).last_hidden_state


def _embed(rows: Rows, input_ids: Tensor) -> Tensor:
    embedded = F.embedding(input_ids, rows.base.weight)
    place = torch.full((rows.base.weight.shape[0],), -1, device=input_ids.device)
    place[rows.ids] = torch.arange(len(rows.ids), device=input_ids.device)
    where = place[input_ids]
    if not (where >= 0).any():
        return embedded
    new = F.embedding(where.clamp(min=0), rows.values)
    return torch.where((where >= 0)[..., None], new, embedded)


def logits(model: nn.Module, hidden: Tensor) -> Tensor:
    """Float32 logits [position, vocabulary] of chosen hidden states [position, dimension]."""
    causal = plain(model)
    head = causal.get_output_embeddings()
    rows = trainable_rows(head)
    if rows is None:
        scores = head(hidden)
    else:
        scores = F.linear(hidden, rows.base.weight, getattr(rows.base, "bias", None))
        new = F.linear(hidden, rows.values, _bias(rows))
        scores = scores.index_copy(1, rows.ids, new.to(scores.dtype))
    cap = getattr(causal.config, "final_logit_softcapping", None)
    return (torch.tanh(scores / cap) * cap if cap else scores).float()


def _bias(rows: Rows) -> Tensor | None:
    bias = getattr(rows.base, "bias", None)
    return None if bias is None else bias[rows.ids]
