"""InfoNCE over the tools of a batch, and its gradient when the batch does not fit into memory at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from toolsavvy.training.ranks import device_of_group, process


@dataclass(frozen=True)
class Contrast:
    """Who is compared with whom in one batch; every distinct tool is one column, however often it was drawn.

    Args:
        queries: int64 [row], which query vector a row is (a query with two golds has two rows).
        golds: int64 [row], the column of the row's own tool.
        excluded: bool [row, column], columns that are no negatives of the row: its other golds and their twins.
    """

    queries: Tensor
    golds: Tensor
    excluded: Tensor


def info_nce(queries: Tensor, tools: Tensor, contrast: Contrast, temperature: float, symmetric: bool = False) -> Tensor:
    """Mean over rows of -log softmax at the row's own tool; symmetric adds the same from tools to queries.

    Args:
        queries: unit vectors [query, dimension].
        tools: unit vectors [column, dimension].
        contrast: rows, their tools, and what is no negative.
        temperature: cosines are divided by it.
        symmetric: average with the loss of finding the row's query among the rows' queries, given its tool.
    """
    logits = (queries[contrast.queries] @ tools.T / temperature).masked_fill(contrast.excluded, -torch.inf)
    forward = nn.functional.cross_entropy(logits, contrast.golds)
    if not symmetric:
        return forward
    backward = logits[:, contrast.golds].T  # row i: the tool of row i against the queries of all rows
    own = torch.arange(len(backward), device=backward.device)
    return (forward + nn.functional.cross_entropy(backward, own)) / 2


def replayed_loss(
    embed: Callable[[list[str]], Tensor],
    texts: Sequence[str],
    chunks: Sequence[Sequence[int]],
    loss_of: Callable[[Tensor], Tensor],
    parameters: Sequence[nn.Parameter],
) -> Tensor:
    """A loss over the embeddings of all texts, whose gradient is made chunk by chunk (GradCache, arXiv 2101.06983).

    First all chunks are embedded without a graph; the loss's gradient with respect to the vectors is taken; then each
    chunk is embedded again, with the same dropout, and hands its part on to the parameters. Value and gradient are
    those of the plain loss. Under several processes each embeds its share of the chunks, all see all vectors, and the
    gradients, averaged as DistributedDataParallel does, are those of one process with the same batch.

    Args:
        embed: texts -> vectors [text, dimension].
        texts: of the global batch, the same in every process.
        chunks: positions that are embedded together; every text stands in one.
        loss_of: vectors [text, dimension] -> scalar.
        parameters: those that train.
    """
    rank, world = process()
    mine = list(range(len(chunks)))[rank::world]
    states, parts = [], []
    with torch.no_grad():
        for i in mine:
            states.append(_random_state())
            parts.append(embed([texts[j] for j in chunks[i]]))
    vectors = _gathered(parts, [chunks[i] for i in mine], len(texts)).requires_grad_()
    loss = loss_of(vectors)
    (wanted,) = torch.autograd.grad(loss, vectors)
    totals = [torch.zeros_like(p) for p in parameters]
    for i, state in zip(mine, states, strict=True):
        with _replayed(state):
            out = embed([texts[j] for j in chunks[i]])
        part = wanted[list(chunks[i])]
        for total, g in zip(totals, torch.autograd.grad(out, parameters, part, allow_unused=True), strict=True):
            if g is not None:
                total += g
    return _Known.apply(loss.detach(), [world * total for total in totals], *parameters)  # DDP divides by `world`


class _Known(torch.autograd.Function):
    """A scalar whose gradient is known already: backward passes reach the parameters, and DDP's hooks on them, once."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, gradients: list[Tensor], *parameters: Tensor) -> Tensor:
        """The loss; `gradients` belong to `parameters`."""
        ctx.gradients = gradients
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Any, ...]:
        """What is known, scaled by what comes from above."""
        return None, None, *(outer[0] * g for g in ctx.gradients)


def _gathered(parts: Sequence[Tensor], places: Sequence[Sequence[int]], n: int) -> Tensor:
    """Vectors of all texts [n, dimension]: every process fills in its own rows, and the sum is exact."""
    _, world = process()
    if world > 1:  # a process without a chunk does not know width and device
        shapes: list[Any] = [None] * world
        torch.distributed.all_gather_object(shapes, parts[0].shape[1] if parts else None)
        width = next(s for s in shapes if s is not None)
        device = parts[0].device if parts else torch.device(device_of_group())
        vectors = torch.zeros(n, width, device=device)
    else:
        vectors = torch.zeros(n, parts[0].shape[1], device=parts[0].device)
    for part, rows in zip(parts, places, strict=True):
        vectors[list(rows)] = part.float()
    if world > 1:
        torch.distributed.all_reduce(vectors)
    return vectors


def _random_state() -> tuple[Tensor, Tensor | None]:
    """State of the generators that dropout draws from."""
    return torch.get_rng_state(), torch.cuda.get_rng_state() if torch.cuda.is_available() else None


@contextmanager
def _replayed(state: tuple[Tensor, Tensor | None]) -> Iterator[None]:
    """Draw again what was drawn then; afterwards go on as if nothing had happened."""
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if state[1] is not None else []):
        torch.set_rng_state(state[0])
        if state[1] is not None:
            torch.cuda.set_rng_state(state[1])
        yield
