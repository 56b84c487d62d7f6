"""A ranking of tools for each query, with one tie rule for every system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


@runtime_checkable
class Reporting(Protocol):
    """A retriever that has numbers of its own to tell: what an approximate index misses, weights that it learned."""

    def facts(self) -> Mapping[str, float]:
        """Numbers about the fitted retriever and the searches since; empty where there is nothing to tell."""
        ...


def tie_ranks(ids: Sequence[str]) -> np.ndarray:
    """Position of each id in descending order, int64 [n]: the order in which equal scores are ranked."""
    ranks = np.empty(len(ids), dtype=np.int64)
    ranks[sorted(range(len(ids)), key=ids.__getitem__, reverse=True)] = np.arange(len(ids))
    return ranks


def rank_scores(scores: np.ndarray, ids: Sequence[str] | np.ndarray, k: int) -> Ranking:
    """Rank the k best tools of every query exactly: higher score first, then descending id (trec_eval's rule).

    Args:
        scores: float [query, tool]; -inf leaves a tool unranked.
        ids: the tools' ids, or their `tie_ranks` where the caller ranks many blocks of queries.
        k: depth; capped by the number of tools.

    Returns:
        Ranking [query, min(k, tools)]; unranked tools become `NO_TOOL` at -inf.

    Raises:
        ValueError: a score is NaN, k is below 1, or scores and ids differ in length.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    if scores.ndim != 2 or scores.shape[1] != len(ids):
        raise ValueError(f"scores {scores.shape} do not fit {len(ids)} tools")
    if np.isnan(scores).any():
        raise ValueError("a score is NaN")
    ranks = ids if isinstance(ids, np.ndarray) else tie_ranks(ids)
    depth = min(k, scores.shape[1])
    possible = ~np.isneginf(scores)
    if 0 < depth < scores.shape[1] and len(scores):  # sort only what can be among the best: catalogs may be large
        possible &= scores >= np.partition(scores, scores.shape[1] - depth, axis=1)[:, -depth, None]
    rows, tools = np.nonzero(possible)
    return rank_candidates(rows, tools, scores[rows, tools], ranks, (len(scores), depth))


def rank_candidates(
    rows: np.ndarray, tools: np.ndarray, scores: np.ndarray, ranks: np.ndarray, shape: tuple[int, int]
) -> Ranking:
    """Rank candidates that stand in one list: what `rank_scores` does where most tools are out of the question.

    Args:
        rows: int64 [candidate], their queries; a query holds a tool once at most.
        tools: int64 [candidate], their tools.
        scores: float [candidate].
        ranks: int64 [tool], `tie_ranks` of the catalog.
        shape: queries and depth of the ranking.
    """
    order = np.lexsort((ranks[tools], -scores, rows))
    rows, tools, scores = rows[order], tools[order], scores[order]
    counts = np.bincount(rows, minlength=shape[0])
    places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = places < shape[1]
    ranking = empty_ranking(*shape)
    ranking.indices[rows[kept], places[kept]] = tools[kept]
    ranking.scores[rows[kept], places[kept]] = scores[kept]
    return ranking


def stack(rankings: Sequence[Ranking]) -> Ranking:
    """Put the rankings of consecutive blocks of queries under one another; all must have one depth."""
    return Ranking(
        indices=np.concatenate([r.indices for r in rankings]), scores=np.concatenate([r.scores for r in rankings])
    )


def empty_ranking(queries: int, k: int) -> Ranking:
    """A ranking that holds no tool at all."""
    return Ranking(indices=np.full((queries, k), NO_TOOL, dtype=np.int64), scores=np.full((queries, k), -np.inf))


def blocks(rows: int, width: int, cells: int = 4_000_000) -> list[slice]:
    """Cut rows so that a [block, width] array holds at most about `cells` numbers."""
    step = max(1, cells // max(1, width))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
