"""What all prompts of a set are made from: tools, their neighbours, the recipe, and orders that say nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from toolsavvy.attacks import tokens
from toolsavvy.catalog import Catalog
from toolsavvy.config.toolsense import Recipe
from toolsavvy.generators.toolsense.neighbourhood import Neighbourhood

DEEPEST = 512
"""Neighbours looked at for those with documents of their own."""


@dataclass(frozen=True)
class Slot:
    """An item that is wanted.

    Args:
        number: from 1, its place in the set.
        kind: tier of a request, pattern of a question.
        target: answer of a yes/no question.
    """

    number: int
    kind: str
    target: bool | None = None

    @property
    def label(self) -> str:
        """Kind and target in a word."""
        return self.kind if self.target is None else f"{self.kind}/{'yes' if self.target else 'no'}"


@dataclass
class Case:
    """A tool's turn at an item.

    Args:
        slot: the item.
        tool: position of the tool.
        attempt: from 1.
        reasons: why drafts were refused, the latest last.
    """

    slot: Slot
    tool: int
    attempt: int = 1
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Ground:
    """What all prompts of a set are made from.

    Args:
        catalog: all tools.
        near: their neighbours.
        recipe: how.
        seed: of all orders.
    """

    catalog: Catalog
    near: Neighbourhood
    recipe: Recipe
    seed: int

    @cached_property
    def copies(self) -> Counter[str]:
        """Document -> tools that have it."""
        return Counter(self.catalog.documents)

    def others(self, tool: int, k: int) -> list[int]:
        """Up to k neighbours, best first, whose documents are neither the tool's nor one another's."""
        documents, depth = self.catalog.documents, k
        while True:
            found = {documents[tool]: tool}
            near = self.near.of(tool, depth)
            for other in near:
                found.setdefault(documents[other], other)
            kept = [other for other in found.values() if other != tool and tokens(documents[other])]
            if len(kept) >= k or len(near) < depth or depth >= DEEPEST:
                return kept[:k]
            depth *= 4

    def shuffled(self, values: Sequence[int], *what: object) -> list[int]:
        """Values in an order that says nothing, the same in every run."""
        order = list(values)
        random.Random(f"{self.seed}/{'/'.join(map(str, what))}").shuffle(order)
        return order

    def feedback(self, case: Case) -> list[str]:
        """The latest reasons."""
        return case.reasons[-self.recipe.feedback :] if self.recipe.feedback else []
