"""Hard negatives: tools that a retriever ranks high for a query and that are most likely wrong for it."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from toolsavvy.catalog import Catalog, Query, relevant_indices
from toolsavvy.catalogs.splits import plain
from toolsavvy.errors import UserError
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking, Retriever


@dataclass(frozen=True)
class Twins:
    """Tools that could stand for one another: the same document, or embeddings that are almost equal.

    Args:
        documents: the text of every tool.
        vectors: unit vectors float32 [tool, dimension]; None compares documents alone.
        threshold: cosine from which two tools are twins.
    """

    documents: Sequence[str]
    vectors: np.ndarray | None = None
    threshold: float = 1.0

    @staticmethod
    def of(documents: Sequence[str], vectors: np.ndarray | None, threshold: float | None) -> Twins:
        """Twins by document, and by embedding where a threshold is given."""
        if vectors is None or threshold is None:
            return Twins(documents)
        norms = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return Twins(documents, vectors / norms, threshold)

    def matrix(self, left: Sequence[int], right: Sequence[int]) -> np.ndarray:
        """Which tool of `left` is a twin of which of `right`: bool [left, right]; a tool is its own twin."""
        texts = np.array([self.documents[t] for t in right], dtype=object)
        same = np.array([texts == self.documents[t] for t in left], dtype=bool).reshape(len(left), len(right))
        if self.vectors is None:
            return same
        return same | (self.vectors[list(left)] @ self.vectors[list(right)].T >= self.threshold)


@dataclass(frozen=True)
class Filter:
    """What makes a highly ranked tool too likely a gold that nobody marked (NV-Retriever, arXiv 2407.15831, section 3).

    Args:
        relative: drop a tool that scores above this share of the gold's score; None keeps it.
        margin: drop a tool that scores above the gold's score less this; None keeps it.

    The gold is the lowest-scored one of the query; where the ranking misses it, the last ranked score stands in for it,
    which is the most that it can be. A share of a score below 0 would lie above it: the score itself stands in.
    """

    relative: float | None = 0.95
    margin: float | None = None

    def keeps(self, scores: np.ndarray, gold: float) -> np.ndarray:
        """Bool [candidate]."""
        kept = np.ones(len(scores), dtype=bool)
        if self.relative is not None:
            kept &= scores <= (self.relative * gold if gold > 0 else gold)
        if self.margin is not None:
            kept &= scores <= gold - self.margin
        return kept


@dataclass(frozen=True)
class Pools:
    """Candidates from which each training pair draws its hard negatives anew in every epoch.

    Args:
        of_query: candidates of every training query, best first.
        counts: what was dropped and why.
    """

    of_query: tuple[tuple[int, ...], ...]
    counts: dict[str, int] = field(default_factory=dict)

    def draw(self, query: int, n: int, key: str) -> tuple[int, ...]:
        """Up to n distinct candidates; the same for the same key."""
        pool = self.of_query[query]
        return pool if len(pool) <= n else tuple(random.Random(key).sample(pool, n))


def mine(
    retriever: Retriever,
    catalog: Catalog,
    train: Sequence[Query],
    *,
    window: tuple[int, int] = (1, 50),
    score_filter: Filter | None = None,
    twins: Twins | None = None,
) -> Pools:
    """Rank the training queries and keep what may serve as a hard negative (TOOLRET section 5; K of them are drawn).

    Args:
        retriever: any fitted retriever.
        catalog: the tools.
        train: training queries; no other query is looked at.
        window: first and last rank of the candidates, from 1.
        score_filter: drops likely golds by score.
        twins: drops twins of golds.

    Raises:
        UserError: an empty window, one that starts below the catalog's last tool, or shares of scores most of which are
            not above 0 (log-probabilities): they mean nothing.
    """
    low, high = window
    if not 1 <= low <= min(high, len(catalog)):
        raise UserError(
            f"ranks {low} to {high} of {len(catalog)} tools hold none", where="method.mining.window",
            expected=f"1 <= first <= last, first <= {len(catalog)}", fix="method.mining.window=[1,50]",
        )  # fmt: skip
    ranking = retriever.search(train, high)
    twins = twins or Twins(catalog.documents)
    counts: dict[str, int] = {"golds": 0, "twins": 0, "likely_golds": 0, "kept": 0}
    counts |= {"queries_without": 0, "golds_not_above_0": 0}
    pools = []
    for row, golds in enumerate(shared_golds(catalog, train)):
        pool = _pool(_ranked(ranking, row), golds, low, score_filter, twins, counts)
        counts["queries_without"] += not pool
        pools.append(pool)
    below = counts["golds_not_above_0"]
    if score_filter and score_filter.relative is not None and 2 * below > len(train):
        raise UserError(
            f"gold tools of {below} of {len(train)} queries score 0 or less: a share of that means nothing",
            where="method.mining.relative", expected="a retriever with positive scores",
            fix="use method.mining.margin and relative=null",
        )  # fmt: skip
    return Pools(tuple(pools), counts)


def shared_golds(catalog: Catalog, train: Sequence[Query]) -> list[list[int]]:
    """Gold tools of every query's text, ascending: of queries that say the same, one's gold is no other's negative."""
    of_text: dict[str, set[int]] = defaultdict(set)
    for query, golds in zip(train, relevant_indices(catalog, train), strict=True):
        of_text[plain(query.text)].update(golds)
    return [sorted(of_text[plain(query.text)]) for query in train]


def _ranked(ranking: Ranking, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Tools and scores of a query without empty ranks."""
    there = ranking.indices[row] != NO_TOOL
    return ranking.indices[row][there], ranking.scores[row][there]


def _pool(
    ranked: tuple[np.ndarray, np.ndarray],
    golds: Sequence[int],
    low: int,
    score_filter: Filter | None,
    twins: Twins,
    counts: dict[str, int],
) -> tuple[int, ...]:
    """Candidates of one query; `counts` grows."""
    tools, scores = ranked
    if not len(tools) or not golds:  # a query whose golds the catalog lacks is in no pair
        return ()
    found = [scores[tools == gold][0] if (tools == gold).any() else scores[-1] for gold in golds]
    counts["golds_not_above_0"] += int(min(found) <= 0)
    tools, scores = tools[low - 1 :], scores[low - 1 :]
    is_gold = np.isin(tools, golds)
    is_twin = twins.matrix(golds, tools.tolist()).any(axis=0) & ~is_gold
    likely = ~score_filter.keeps(scores, min(found)) if score_filter else np.zeros(len(tools), dtype=bool)
    likely &= ~is_gold & ~is_twin
    kept = ~(is_gold | is_twin | likely)
    for name, mask in (("golds", is_gold), ("twins", is_twin), ("likely_golds", likely), ("kept", kept)):
        counts[name] += int(mask.sum())
    return tuple(tools[kept].tolist())


def given(catalog: Catalog, train: Sequence[Query]) -> Pools:
    """The negatives that came with the rows (TOOLRET-train); unknown ids were refused when the set was loaded."""
    pools = tuple(
        tuple(i for t in q.negatives if (i := catalog.index[t]) not in golds)
        for q, golds in zip(train, shared_golds(catalog, train), strict=True)
    )
    return Pools(pools, {"kept": sum(map(len, pools)), "queries_without": sum(not p for p in pools)})
