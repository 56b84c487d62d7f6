"""Batches of labelled rows, padded to the right; of several processes each has its share of a global batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from toolsavvy.training.ranks import share


@dataclass(frozen=True)
class Batch:
    """Right-padded rows and their supervised entries.

    Args:
        input_ids: int64 [row, time].
        attention_mask: int64 [row, time].
        positions: int64 [position], flat indices (row * time + t) of the states that predict a label.
        entry_position: int64 [entry], index into `positions`; several entries of one position share its mass.
        entry_target: int64 [entry], vocabulary ids.
        entry_weight: float32 [entry].
        is_query: bool [position], True at the tool positions of query rows.
        rows: int64 [row], index of each row in the data set.
        first: int64 [row], index into `positions` of each row's first label.
        weight: float32 [], of all entries of the global batch, of which this may be one process's share.
        all_rows: int64 [global row], the rows of the global batch.
        tokens: int64 [], read in the global batch.
    """

    input_ids: Tensor
    attention_mask: Tensor
    positions: Tensor
    entry_position: Tensor
    entry_target: Tensor
    entry_weight: Tensor
    is_query: Tensor
    rows: Tensor
    first: Tensor
    weight: Tensor
    all_rows: Tensor
    tokens: Tensor

    def to(self, device: torch.device | str, **options: Any) -> Batch:
        """Move every tensor (Lightning calls this)."""
        return Batch(**{f.name: getattr(self, f.name).to(device, **options) for f in fields(self)})


@dataclass(frozen=True)
class Entry:
    """One label of a row.

    Args:
        at: state of the row that predicts it.
        golds: ids that share its mass.
        weight: float, of the label.
        is_query: whether it is a tool position of a query row.
    """

    at: int
    golds: tuple[int, ...]
    weight: float
    is_query: bool = False


@dataclass(frozen=True)
class Labelled:
    """Token ids of a row, and its labels.

    Args:
        ids: of the whole row but its last label.
        entries: labels in order.
    """

    ids: tuple[int, ...]
    entries: tuple[Entry, ...]


def padded(indexed: Sequence[tuple[int, Labelled]], pad: int) -> Batch:
    """This process's share of a global batch of labelled rows, padded to the right.

    Where there are fewer rows than processes, some read the first row once more, and it weighs nothing there: all
    must take part in every step.
    """
    own = share(indexed)
    silent = not own
    own = own or [indexed[0]]
    time = max(len(row.ids) for _, row in own)
    ids = torch.full((len(own), time), pad)
    mask = torch.zeros_like(ids)
    positions, query, first = [], [], []
    entries: list[tuple[int, int, float]] = []
    for r, (_, row) in enumerate(own):
        ids[r, : len(row.ids)] = torch.tensor(row.ids)
        mask[r, : len(row.ids)] = 1
        first.append(len(positions))
        for entry in row.entries:
            part = 0.0 if silent else entry.weight / len(entry.golds)
            entries.extend((len(positions), gold, part) for gold in entry.golds)
            positions.append(r * time + entry.at)
            query.append(entry.is_query)
    where, target, parts = zip(*entries, strict=True)
    whole = [e.weight / len(e.golds) for _, row in indexed for e in row.entries for _ in e.golds]
    return Batch(
        ids, mask, torch.tensor(positions), torch.tensor(where), torch.tensor(target), torch.tensor(parts),
        torch.tensor(query), torch.tensor([-1 if silent else i for i, _ in own]), torch.tensor(first),
        torch.tensor(whole).sum(), torch.tensor([i for i, _ in indexed]),
        torch.tensor(sum(len(row.ids) for _, row in indexed)),
    )  # fmt: skip
