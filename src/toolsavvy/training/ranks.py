"""Several processes that train one model: who they are, what each of them reads, and what all of them know.

A global batch, the number of steps and the loss are those of one process. Every process draws the same batches and
takes its share of the rows; a loss is divided by what the *whole* batch weighs, so that rows of different length count
as they do in one process, not as means of means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")


def process() -> tuple[int, int]:
    """Rank of this process and number of processes."""
    group = torch.distributed
    there = group.is_available() and group.is_initialized()
    return (group.get_rank(), group.get_world_size()) if there else (0, 1)


def wait_for_all() -> None:
    """Go on when every process is here: what one of them has written is there for the others."""
    if process()[1] > 1:
        torch.distributed.barrier()


def share(items: Sequence[T]) -> list[T]:
    """This process's part of a global batch; empty where there are fewer items than processes."""
    rank, world = process()
    return list(items[rank::world])


def summed(value: Tensor) -> Tensor:
    """The sum of a tensor over all processes, without gradients."""
    value = value.detach().clone()
    if process()[1] > 1:
        torch.distributed.all_reduce(value)
    return value


def of_first(value: T) -> T:
    """What the first process has: a decision that all must take alike."""
    if process()[1] == 1:
        return value
    box: list[Any] = [value]
    torch.distributed.broadcast_object_list(box, src=0)
    return box[0]


def weights_of_first(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The first process's tensors, under the same names and in the same shapes everywhere."""
    if process()[1] == 1:
        return dict(weights)
    device, found = device_of_group(), {}
    for name in sorted(weights):
        moved = weights[name].detach().to(device, copy=True)
        torch.distributed.broadcast(moved, src=0)
        found[name] = moved.to(weights[name].device)
    return {name: found[name] for name in weights}


def device_of_group() -> str:
    """Where tensors must be to be sent."""
    return "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
