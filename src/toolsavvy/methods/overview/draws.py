"""Resamples of seeds and clusters that all systems of a board share, so that their differences are paired."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from toolsavvy.methods.overview.items import Items
from toolsavvy.methods.overview.measures import Measure
from toolsavvy.metrics import Resamples

COLUMNS_AT_ONCE = 1500
"""Of a bootstrap: bounds its memory."""


class Draws:
    """The same resamples of seeds and clusters for all systems on the same items."""

    def __init__(self, resamples: int) -> None:
        self._n = resamples
        self._known: dict[tuple[str, ...], Resamples] = {}
        self._totals: dict[tuple[int, Measure], tuple[np.ndarray, np.ndarray]] = {}

    @classmethod
    def of(cls, items: Mapping[Any, list[Items] | None], resamples: int) -> Draws:
        """Sums of every column in every replicate: all columns at once, since drawing costs the most."""
        made = cls(resamples)
        columns: dict[tuple[str, ...], list[tuple[Items, Measure]]] = defaultdict(list)
        for group in items.values():
            for one in group or ():
                columns[one.clusters] += [(one, measure) for measure in one.values]
        for clusters, found in columns.items():
            for start in range(0, len(found), COLUMNS_AT_ONCE):
                part = found[start : start + COLUMNS_AT_ONCE]
                total, number = made._of(clusters).totals(np.stack([one.values[m] for one, m in part], axis=1))
                made._totals |= {(id(one), m): (total[:, j], number[:, j]) for j, (one, m) in enumerate(part)}
        return made

    def _of(self, clusters: tuple[str, ...]) -> Resamples:
        if clusters not in self._known:
            self._known[clusters] = Resamples.of(clusters, self._n)
        return self._known[clusters]

    def units(self, items: Sequence[Items]) -> int:
        """Number of clusters."""
        return self._of(items[0].clusters).units

    def means(self, items: Sequence[Items], measure: Measure) -> np.ndarray:
        """Mean over drawn seeds and clusters, float64 [replicate]."""
        parts = [self._sums(one, measure) for one in items]
        drawn = self._of(items[0].clusters).seeds(len(items))
        total = sum(part[0] * drawn[:, i] for i, part in enumerate(parts))
        number = np.asarray(sum(part[1] * drawn[:, i] for i, part in enumerate(parts)))
        return np.divide(total, number, out=np.full(self._n, np.nan), where=number > 0)

    def _sums(self, one: Items, measure: Measure) -> tuple[np.ndarray, np.ndarray]:
        key = (id(one), measure)
        if key not in self._totals:
            total, number = self._of(one.clusters).totals(one.values[measure][:, None])
            self._totals[key] = total[:, 0], number[:, 0]
        return self._totals[key]
