"""Keeps a set of items where attacks that see no tool stay at chance: while it grows, and by dropping afterwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")
Scores = Mapping[str, np.ndarray]
TOLERANCE = 0.05
"""Points of 1 that an attack may stand away from chance."""
AIM = 0.6
"""Of the tolerance, that is aimed at: attacks that learn react to every item that goes."""


class Ledger:
    """Sums of what attacks have scored so far, so that the next item can be chosen against them.

    Args:
        chance: the score of an attack that knows nothing.
    """

    def __init__(self, chance: float) -> None:
        """Start from nothing."""
        self.chance = chance
        self._excess: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def costs(self, scores: Scores, *kinds: str) -> np.ndarray:
        """Squared excess after each candidate, over all items and over those of each kind: float64 [candidate].

        Args:
            scores: attack -> float [candidate].
            kinds: which sums count ("", a pattern).
        """
        total = np.zeros(1)
        for kind in kinds:
            for attack, values in scores.items():
                total = total + (self._excess[kind][attack] + values - self.chance) ** 2
        return total

    def add(self, scores: Mapping[str, float], *kinds: str) -> None:
        """Take an item in."""
        for kind in kinds:
            for attack, value in scores.items():
                self._excess[kind][attack] += value - self.chance


def keep_balanced(
    items: Sequence[Item],
    attack: Callable[[Sequence[Item]], Scores],
    *,
    chance: float,
    most: int | None = None,
    least: int = 1,
    tolerance: float = TOLERANCE,
) -> list[Item]:
    """Drop as few items as bring every attack within the tolerance of chance, in both directions.

    Greedy: the item goes whose leaving lowers the squared excess of all attacks most; the first of equal ones. Attacks
    are scored anew after every twentieth part of the set has gone, since some of them learn from the set itself.

    Args:
        items: candidates, more than are wanted.
        attack: name -> score of each item (0 to 1).
        chance: of an attack that knows nothing.
        most: how many to keep at most.
        least: never keep fewer, whatever the attacks say.
        tolerance: allowed distance of an attack's mean from chance.
    """
    kept = list(items)
    while kept:
        matrix = np.array([np.asarray(v, dtype=np.float64) for v in attack(kept).values()]).reshape(-1, len(kept))
        drop = _to_drop(matrix - chance, len(kept) - (most or len(kept)), len(kept) - least, tolerance * AIM)
        if not drop:
            break
        kept = [item for i, item in enumerate(kept) if i not in drop]
    return kept


def _to_drop(excess: np.ndarray, needed: int, allowed: int, tolerance: float) -> set[int]:
    """Positions of the items that go in one round: excess is float [attack, item]."""
    size = excess.shape[1]
    gone: set[int] = set()
    totals = excess.sum(axis=1)
    penalty = np.zeros(size)
    while len(gone) < min(allowed, max(1, size // 20)):
        is_fine = np.all(np.abs(totals) <= tolerance * (size - len(gone)))
        if is_fine and len(gone) >= needed:
            break
        after = (((totals[:, None] - excess) / max(size - len(gone) - 1, 1)) ** 2).sum(axis=0) + penalty
        worst = int(after.argmin())
        gone.add(worst)
        penalty[worst] = np.inf
        totals = totals - excess[:, worst]
    return gone
