"""What suites of questions about tools (MCQ, QA) share: their keys, slices by pattern, and who may be compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

import numpy as np

from toolsavvy.benchmark import ChoiceItem, YesNoItem
from toolsavvy.errors import UserError
from toolsavvy.suites.catalog_test import check_named, checked_pairs


class Questions:
    """Questions about single tools, asked of every system.

    Args:
        path: file of the questions in ToolSense's layout; None makes them by template from the catalog.
        n: questions to make, where none are read.
        seed: of what is made, and of the bootstrap.
        resamples: of the bootstrap over tools.
        pairs: (system, rival) that are compared besides every system with its best rival, and shown.
        name: of the suite.
    """

    kind: ClassVar[str]
    """What is asked: mcq | qa."""

    def __init__(
        self,
        path: str | None,
        n: int,
        seed: int,
        resamples: int,
        pairs: Sequence[Sequence[str]],
        name: str,
    ) -> None:
        self._name = name
        for key, value in (("n", n), ("resamples", resamples)):
            if value < 1:
                raise UserError(f"{key}={value}", where=f"suite.{self._name}.{key}", expected=">= 1")
        self.path, self.n, self.seed, self.resamples = path, n, seed, resamples
        self.pairs = checked_pairs(pairs, self._name)

    @property
    def name(self) -> str:
        """Shown in tables, files and W&B."""
        return self._name

    def check(self, systems: Collection[str], answered: Mapping[str, int], asked: int) -> None:
        """Every pair must be of systems that were asked, and every system must have answered all questions.

        Raises:
            UserError: a pair names no system.
            ValueError: a system was asked other items.
        """
        check_named(self.pairs, systems, self.name, "that was asked")
        wrong = next((name for name, n in answered.items() if n != asked), None)
        if wrong is not None:
            raise ValueError(f"{wrong} answered {answered[wrong]} of {asked} items")


def by_pattern(name: str, items: Sequence[ChoiceItem | YesNoItem]) -> dict[str, np.ndarray]:
    """Slice -> positions of its items: all of them, then each pattern where there are several."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for position, item in enumerate(items):
        groups[item.pattern].append(position)
    whole = {name: np.arange(len(items))}
    if len(groups) < 2:
        return whole
    return whole | {f"{name}/pattern={p}": np.array(groups[p]) for p in sorted(groups) if p}
