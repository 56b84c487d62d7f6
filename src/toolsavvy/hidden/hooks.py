"""A forward pass that is listened to at chosen layers, and that ends where nobody listens any more."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from toolsavvy.errors import UserError
from toolsavvy.hidden.blocks import backbone, blocks

Take = Callable[[int, Tensor], Tensor]
"""What is kept of a layer's states [row, time, d]."""


class _EnoughError(Exception):
    """The last layer that was asked for is through."""


def run(model: Any, layers: Sequence[int], inputs: Mapping[str, Any], take: Take) -> dict[int, Tensor]:
    """Run the model's backbone once and keep something of every chosen layer.

    No later block, no final norm and no output matrix is computed; nothing else of a layer is kept.

    Args:
        model: a causal LM.
        layers: 0 is what enters block 1, i the output of block i.
        inputs: of the backbone's forward.
        take: what to keep.

    Returns:
        By layer, what `take` made of it.

    Raises:
        UserError: a block gives no states [row, time, d].
    """
    kept: dict[int, Tensor] = {}

    def hear(layer: int, states: Any) -> None:
        if not isinstance(states, Tensor) or states.dim() != 3:
            found = list(states.shape) if isinstance(states, Tensor) else type(states).__name__
            raise UserError(
                f"layer {layer} gives {found}", where="model", expected="one stream of states [row, time, d]"
            )
        kept[layer] = take(layer, states)
        if layer == max(layers):
            raise _EnoughError

    with _listening(blocks(model), layers, hear), contextlib.suppress(_EnoughError):
        backbone(model)(**inputs)
    return kept


@contextmanager
def listening(model: Any, layers: Sequence[int], hear: Callable[[int, Tensor], None]) -> Iterator[None]:
    """While it is open, whatever runs the model, every chosen layer's states [row, time, d] are told.

    Args:
        model: a causal LM.
        layers: 0 is what enters block 1, i the output of block i.
        hear: told of (layer, states) as soon as they are there.
    """
    with _listening(blocks(model), layers, hear):
        yield


@contextmanager
def _listening(stack: Sequence[nn.Module], layers: Sequence[int], hear: Callable[[int, Any], None]) -> Iterator[None]:
    """Hooks on the blocks, removed again whatever happens."""

    def enters(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        hear(0, args[0] if args else kwargs["hidden_states"])

    def leaves(layer: int) -> Callable[[nn.Module, Any, Any], None]:
        return lambda module, args, output: hear(layer, output[0] if isinstance(output, tuple | list) else output)

    hooks = [stack[0].register_forward_pre_hook(enters, with_kwargs=True)] if 0 in layers else []
    hooks += [stack[layer - 1].register_forward_hook(leaves(layer)) for layer in layers if layer]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def computing(model: Any, precision: str) -> contextlib.AbstractContextManager[Any]:
    """How products are computed.

    Args:
        model: says where it is.
        precision: model (as its weights are) | bf16 (autocast: bfloat16 products and attention kernels, float32 sums).

    Raises:
        UserError: neither of them.
    """
    if precision not in ("model", "bf16"):
        raise UserError(f"precision {precision!r} is unknown", where="precision", expected="model or bf16")
    return torch.autocast(model.device.type, torch.bfloat16, enabled=precision == "bf16")
