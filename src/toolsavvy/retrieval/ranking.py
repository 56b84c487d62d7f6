"""A ranking of tools for each query, with one tie rule for every system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from toolsavvy.catalog import Catalog, Query

NO_TOOL = -1
"""Index of a rank that holds no tool: padding of a short ranking, or a free output that is no tool."""


@dataclass(frozen=True)
class Ranking:
    """The first k tools for each query.

    Args:
        indices: int64 [query, k], positions in the catalog, best first; `NO_TOOL` where a rank holds none.
        scores: float64 [query, k], descending; -inf for padding.
    """

    indices: np.ndarray
    scores: np.ndarray

    def __post_init__(self) -> None:
        """Both arrays must have one shape."""
        if self.indices.shape != self.scores.shape:
            raise ValueError(f"indices {self.indices.shape} and scores {self.scores.shape} differ")


@runtime_checkable
class Retriever(Protocol):
    """Anything that ranks a catalog's tools for queries: BM25, encoders, rerankers, ToolGen."""

    def fit(self, catalog: Catalog, train: Sequence[Query] = ()) -> Retriever:
        """Index the catalog; `train` holds the queries a system may learn from (most ignore them)."""
        ...

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        """Rank min(k, len(catalog)) tools for every query."""
        ...
