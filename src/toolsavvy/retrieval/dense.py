"""Exact (or approximate) search over the embeddings of tools."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from toolsavvy.catalog import Catalog, Query
from toolsavvy.errors import UserError
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.ranking import Ranking, blocks, rank_scores, stack, tie_ranks

log = logging.getLogger(__name__)


class Dense:
    """Inner-product search over embeddings of the tools' documents.

    Args:
        encoder: the embedding model.
        index: a FAISS factory string; "Flat" is exact.
        parameters: search-time parameters of the index ({"nprobe": 16}, {"efSearch": 64}).

    Attributes:
        flat_recall: after a search with another index than Flat: mean share of Flat's top k that it found.
    """

    def __init__(self, encoder: Encoder, index: str = "Flat", parameters: Mapping[str, float] | None = None) -> None:
        self.encoder, self.index, self.parameters = encoder, index, dict(parameters or {})
        self.flat_recall: float | None = None
        self._faiss: Any = None
        self._vectors = np.zeros((0, 0), dtype=np.float32)
        self._document_of = np.zeros(0, dtype=np.int64)
        self._ties = np.zeros(0, dtype=np.int64)

    def fit(self, catalog: Catalog, train: Sequence[Query] = ()) -> Self:
        """Embed and index the documents, tools with the same document once; training queries are not used."""
        # One vector per distinct document: tools that share it tie exactly, whatever the order of floating point sums.
        place = {document: i for i, document in enumerate(dict.fromkeys(catalog.documents))}
        self._document_of = np.array([place[document] for document in catalog.documents], dtype=np.int64)
        self._ties = tie_ranks([tool.id for tool in catalog.tools])
        self._vectors = self.encoder.encode_documents(list(place))
        self._faiss = build_index(self._vectors, self.index, self.parameters)
        self.flat_recall = None
        return self

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        """Rank min(k, tools) tools per query; an approximate index may leave ranks empty."""
        vectors = self.encoder.encode_queries(queries)
        found = self._rank(self._faiss, vectors, k, exact=self.index == "Flat")
        if self.index != "Flat" and len(vectors):
            flat = self._rank(build_index(self._vectors, "Flat", {}), vectors, k, exact=True)
            hits = [np.isin(ours, truth).mean() for ours, truth in zip(flat.indices, found.indices, strict=True)]
            self.flat_recall = float(np.mean(hits))
            log.info("index %s found %.1f %% of Flat's top %d", self.index, 100 * self.flat_recall, k)
        return found

    def _rank(self, index: Any, vectors: np.ndarray, k: int, *, exact: bool) -> Ranking:
        """Search distinct documents, then rank the tools that have them."""
        if not len(vectors):
            return rank_scores(np.zeros((0, len(self._ties))), self._ties, k)
        cuts = blocks(len(vectors), len(self._ties))
        return stack([self._rank_block(index, vectors[cut], k, exact=exact) for cut in cuts])

    def _rank_block(self, index: Any, vectors: np.ndarray, k: int, *, exact: bool) -> Ranking:
        """Search deeper until no document outside could tie with rank k."""
        documents = len(self._vectors)
        depth = min(documents, k + 8)
        while True:
            scores, found = index.search(vectors, depth)
            table = np.full((len(vectors), documents), -np.inf, dtype=np.float32)
            rows, ranks = np.nonzero(found >= 0)
            table[rows, found[rows, ranks]] = scores[rows, ranks]
            ranking = rank_scores(table[:, self._document_of], self._ties, k)
            if not exact or depth == documents or (ranking.scores[:, -1] > scores[:, -1]).all():
                return ranking
            depth = min(documents, 2 * depth)


def build_index(vectors: np.ndarray, factory: str, parameters: Mapping[str, float]) -> Any:
    """Build a FAISS index for inner products.

    Args:
        vectors: float32 [item, dimension].
        factory: FAISS factory string.
        parameters: search-time parameters.

    Raises:
        UserError: FAISS does not know the string or a parameter, or has too few vectors to train it.
    """
    import faiss

    try:
        index = faiss.index_factory(vectors.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
        if not index.is_trained:
            index.train(vectors)
        index.add(vectors)
        for name, value in parameters.items():
            faiss.ParameterSpace().set_index_parameter(index, name, value)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise UserError(
            f"FAISS can't build index {factory!r} over {len(vectors)} vectors ({reason})",
            where="retriever.dense.index",
            expected="a FAISS factory string that fits the catalog",
            fix="use index=Flat, which is exact",
        ) from error
    return index
