"""The rival that only remembers: tools of the nearest training queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from toolsavvy.catalog import Catalog, Query
from toolsavvy.errors import UserError
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.ranking import Ranking, blocks, rank_scores, stack, tie_ranks


class Knn:
    """Score a tool by the cosines of its own training queries to the query; it never reads a document.

    Tools without a training query stay unranked, so its score on new tools is 0 by construction.

    Args:
        encoder: the embedding model; its embeddings should be normalised.
        n: how many of a tool's nearest training queries are averaged (fewer where it has fewer); 1 is the maximum.

    Raises:
        UserError: n is below 1.
    """

    def __init__(self, encoder: Encoder, n: int = 1) -> None:
        if n < 1:
            raise UserError(f"n={n} is out of range", where="retriever.knn.n", expected=">= 1")
        self.encoder, self.n = encoder, n
        self._vectors = np.zeros((0, 0), dtype=np.float32)
        self._pairs = np.zeros((0, 2), dtype=np.int64)
        self._ties = np.zeros(0, dtype=np.int64)

    def fit(self, catalog: Catalog, train: Sequence[Query] = ()) -> Self:
        """Embed the training queries.

        Raises:
            UserError: there are none.
        """
        if not train:
            raise UserError(
                "nearest neighbours need training queries",
                where=f"catalog {catalog.name}, split 'train'",
                expected="at least one training query",
                fix="leave out retriever=knn, or choose a catalog with a train split",
            )
        self._ties = tie_ranks([tool.id for tool in catalog.tools])
        self._vectors = self.encoder.encode_queries(train)
        pairs = [(catalog.index[tool], row) for row, query in enumerate(train) for tool in query.relevant]
        self._pairs = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2)
        return self

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        """Rank min(k, tools) tools per query; tools without training queries are `NO_TOOL`."""
        vectors = self.encoder.encode_queries(queries)
        width = max(len(self._ties), len(self._pairs))
        cuts = blocks(len(vectors), width) or [slice(0, 0)]
        return stack([rank_scores(self._scores(vectors[cut]), self._ties, k) for cut in cuts])

    def _scores(self, vectors: np.ndarray) -> np.ndarray:
        """Similarity of every tool, float64 [query, tool]; -inf for tools without training queries."""
        tools, starts = np.unique(self._pairs[:, 0], return_index=True)
        # Columns of one tool lie side by side.
        similar = (vectors @ self._vectors.T).astype(np.float64)[:, self._pairs[:, 1]]
        scores = np.full((len(vectors), len(self._ties)), -np.inf)
        if self.n == 1:
            scores[:, tools] = np.maximum.reduceat(similar, starts, axis=1)
            return scores
        for tool, part in zip(tools, np.split(similar, starts[1:], axis=1), strict=True):
            scores[:, tool] = -np.sort(-part, axis=1)[:, : self.n].mean(axis=1)
        return scores
