"""Which tools stand near a tool: where hard negatives and plausible wrong answers come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from toolsavvy.catalog import Catalog, Query
from toolsavvy.errors import UserError
from toolsavvy.retrieval.bm25 import tokenize
from toolsavvy.retrieval.ranking import NO_TOOL, Retriever, blocks, rank_scores, tie_ranks


class Neighbourhood(Protocol):
    """The tools nearest to a tool, over whole documents."""

    def of(self, tool: int, k: int) -> list[int]:
        """Up to k other tools, best first, as positions in the catalog; the tool itself is never among them."""
        ...

    def prepare(self, tools: Sequence[int], k: int) -> None:
        """Work out the first k neighbours of many tools at once; `of` gives the same without it, more slowly."""
        ...


class LexicalNeighbourhood:
    """Cosine of tf-idf vectors (1 + log tf, idf) over whole documents: no model, no download.

    Only rows that are asked for are computed, so memory grows with the words of the catalog and never with the square
    of its tools. Equal scores follow the one tie rule of `retrieval.ranking`.

    Args:
        catalog: the tools.
    """

    def __init__(self, catalog: Catalog) -> None:
        """Weigh every word of every document once."""
        self._vectors = _tfidf(catalog.documents)
        self._columns = self._vectors.T.tocsr()
        self._ties = tie_ranks([tool.id for tool in catalog.tools])
        self._found: dict[int, list[int]] = {}

    def of(self, tool: int, k: int) -> list[int]:
        """The min(k, tools - 1) nearest other tools, best first."""
        if len(self._found.get(tool, ())) < min(k, len(self._ties) - 1):
            self.prepare([tool], k)
        return self._found.get(tool, [])[:k]

    def prepare(self, tools: Sequence[int], k: int) -> None:
        """Compute the rows of many tools in blocks."""
        depth = min(k, len(self._ties) - 1)
        todo = [tool for tool in dict.fromkeys(tools) if len(self._found.get(tool, ())) < depth]
        for block in blocks(len(todo), len(self._ties)):
            part = todo[block]
            scores = (self._vectors[part] @ self._columns).toarray()
            scores[np.arange(len(part)), part] = -np.inf
            # Rounded: sums of the same numbers in another order must not break or make ties.
            ranking = rank_scores(scores.round(9), self._ties, depth)
            self._found |= dict(zip(part, ranking.indices.tolist(), strict=True))


class RetrievedNeighbourhood:
    """What a retriever finds for a tool's own document.

    Args:
        retriever: fitted on the catalog.
        catalog: the tools.
    """

    def __init__(self, retriever: Retriever, catalog: Catalog) -> None:
        """Search later, for what is asked."""
        self._retriever, self._catalog = retriever, catalog
        self._found: dict[int, list[int]] = {}
        self._depth: dict[int, int] = {}

    def of(self, tool: int, k: int) -> list[int]:
        """Up to k other tools, best first; fewer where the retriever leaves tools unranked."""
        self.prepare([tool], k)
        return self._found[tool][:k]

    def prepare(self, tools: Sequence[int], k: int) -> None:
        """Search for many tools in one batch."""
        todo = [tool for tool in dict.fromkeys(tools) if self._depth.get(tool, -1) < k]
        if not todo:
            return
        queries = [Query(self._catalog.tools[t].id, self._catalog.documents[t], {}) for t in todo]
        ranking = self._retriever.search(queries, min(k + 1, len(self._catalog)))  # one more: the tool itself
        for tool, row in zip(todo, ranking.indices.tolist(), strict=True):
            self._found[tool] = [other for other in row if other not in (tool, NO_TOOL)][:k]
            self._depth[tool] = k


def from_retriever(retriever: Retriever, catalog: Catalog) -> Neighbourhood:
    """The neighbourhood by a retriever that was fitted on this very catalog (BM25, an encoder, any other)."""
    return RetrievedNeighbourhood(retriever, catalog)


def neighbourhood(catalog: Catalog, near: Neighbourhood | None = None) -> Neighbourhood:
    """The given one, or the lexical one of the catalog.

    Raises:
        UserError: a catalog of one tool or none, where no tool has a neighbour.
    """
    if len(catalog) < 2:
        raise UserError(
            f"the catalog holds {len(catalog)} tool{'' if len(catalog) == 1 else 's'}",
            where=f"catalog {catalog.name}",
            expected="at least 2 tools, so that a tool has a neighbour",
        )
    return near or LexicalNeighbourhood(catalog)


def _tfidf(documents: Sequence[str]) -> Any:
    """Unit rows, float64 scipy.sparse.csr_array [document, word]; a document without words is a row of zeros."""
    from scipy.sparse import csr_array

    words: dict[str, int] = {}
    starts, columns, counts = [0], [], []
    for document in documents:
        for word, count in Counter(tokenize(document)).items():
            columns.append(words.setdefault(word, len(words)))
            counts.append(count)
        starts.append(len(columns))
    column, start = np.array(columns, dtype=np.int64), np.array(starts, dtype=np.int64)
    frequency = np.bincount(column, minlength=len(words))
    idf = np.log((1 + len(documents)) / (0.5 + frequency))  # above 0 for every word: no row of words is empty
    values = (1 + np.log(np.array(counts, dtype=np.float64))) * idf[column]
    row = np.repeat(np.arange(len(documents)), np.diff(start))
    norms = np.sqrt(np.bincount(row, weights=values**2, minlength=len(documents)))
    return csr_array((values / norms[row], column, start), shape=(len(documents), len(words)))
