"""Batches of (query, tool) pairs for contrastive training."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence

from torch.utils.data import Sampler

Pair = tuple[int, int]
"""(index of a training query, index of one of its gold tools)."""


class DistinctTools(Sampler[list[int]]):
    """Seeded batches in which no tool stands twice: a repeated positive would be its twin's false negative.

    Pairs are dealt out like cards, tool by tool, so that batches are filled evenly and every epoch has as many of them
    (Lightning asks for the number once): ceil(pairs / batch size), or more where a tool has more pairs than that.
    Batches are global: under several processes every rank draws the same ones and embeds its share of the texts.

    Args:
        pairs: (query, tool) pairs.
        batch_size: pairs a batch at most, over all processes.
        seed: of the order; every epoch has its own.
    """

    def __init__(self, pairs: Sequence[Pair], batch_size: int, seed: int) -> None:
        self.pairs, self.batch_size, self.seed, self.epoch = list(pairs), batch_size, seed, 0
        most = max(Counter(tool for _, tool in self.pairs).values(), default=0)
        self.batches = max(-(-len(self.pairs) // batch_size), most)
        self.sampler = self  # where Lightning looks for `set_epoch`

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is this epoch's (a training that is continued starts in the middle)."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Batches of every epoch."""
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        """Draw the next epoch, when its first batch is asked for.

        Lightning makes the iterator of a training that is continued before it tells the epoch.
        """
        rng = random.Random(f"{self.seed}/{self.epoch}")
        self.epoch += 1
        places: dict[int, list[int]] = {}
        for i in rng.sample(range(len(self.pairs)), k=len(self.pairs)):
            places.setdefault(self.pairs[i][1], []).append(i)
        dealt = [i for tool in places.values() for i in tool]
        batches = [dealt[start :: self.batches] for start in range(self.batches)]
        rng.shuffle(batches)
        yield from batches
