"""BM25 against the formula written out, and against rank-bm25 with its own idf."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from rank_bm25 import BM25Okapi

from toolsavvy.catalog import Catalog, Query, Tool
from toolsavvy.retrieval.bm25 import BM25, tokenize

WORDS = "create delete describe list vpc subnet route table gateway of the a 1 2 instances address tag peer".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def corpus() -> tuple[Catalog, list[Query]]:
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, size=rng.integers(1, 30))) for _ in range(60)]
    catalog = Catalog(
        "random", tuple(Tool(f"t{i:02}", "", text) for i, text in enumerate(texts)), document="{description}"
    )
    asked = [" ".join(rng.choice([*WORDS, "unseen"], size=rng.integers(1, 9))) for _ in range(40)]
    return catalog, [Query(f"q{i}", text, {"t00": 1}) for i, text in enumerate(asked)]


def scores_by_tool(retriever: BM25, catalog: Catalog, queries: list[Query]) -> np.ndarray:
    found = retriever.fit(catalog).search(queries, len(catalog))
    scores = np.zeros((len(queries), len(catalog)))
    rows, ranks = np.nonzero(found.indices >= 0)
    scores[rows, found.indices[rows, ranks]] = found.scores[rows, ranks]
    return scores


def formula(catalog: Catalog, query: str, k1: float, b: float) -> list[float]:
    """Lucene's BM25 with its smoothed idf, term by term; a word asked twice counts twice."""
    documents = [Counter(tokenize(d)) for d in catalog.documents]
    mean = sum(d.total() for d in documents) / len(documents)
    holders = {w: sum(w in d for d in documents) for w in tokenize(query)}
    idf = {w: math.log(1 + (len(documents) - n + 0.5) / (n + 0.5)) for w, n in holders.items()}
    return [
        sum(idf[w] * d[w] / (d[w] + k1 * (1 - b + b * d.total() / mean)) for w in tokenize(query)) for d in documents
    ]


@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4), (1.2, 0.0)])
def test_scores_equal_the_formula(corpus: tuple[Catalog, list[Query]], k1: float, b: float) -> None:
    catalog, queries = corpus
    ours = scores_by_tool(BM25(k1=k1, b=b), catalog, queries)
    expected = np.array([formula(catalog, q.text, k1, b) for q in queries])
    assert np.allclose(ours, expected, atol=1e-9)


def test_scores_equal_rank_bm25_with_its_idf_replaced(corpus: tuple[Catalog, list[Query]]) -> None:
    """rank-bm25's Okapi differs in a constant k1 + 1 and in an idf that may be negative; the rest must agree."""
    catalog, queries = corpus
    documents = [tokenize(d) for d in catalog.documents]
    oracle = BM25Okapi(documents, k1=1.5, b=0.75)
    oracle.idf = dict.fromkeys(oracle.idf, 1.0)
    expected = np.zeros((len(queries), len(catalog)))
    for row, query in enumerate(queries):
        for word in tokenize(query.text):
            holders = sum(word in d for d in documents)
            idf = math.log(1 + (len(documents) - holders + 0.5) / (holders + 0.5))
            if holders:
                expected[row] += oracle.get_scores([word]) / 2.5 * idf
    assert np.allclose(scores_by_tool(BM25(), catalog, queries), expected, atol=1e-9)


def test_one_word_queries_rank_as_rank_bm25(corpus: tuple[Catalog, list[Query]]) -> None:
    """With one word the idf is a constant, so every Okapi variant must agree on the order."""
    catalog, _ = corpus
    oracle = BM25Okapi([tokenize(d) for d in catalog.documents], k1=1.5, b=0.75)
    retriever = BM25().fit(catalog)
    for word in ("peer", "vpc", "1", "a"):
        theirs = oracle.get_scores([word])
        if oracle.idf[word] <= 0:
            continue
        found = retriever.search([Query("q", word, {})], len(catalog))
        ranked = found.indices[0][found.indices[0] >= 0]
        assert np.all(np.diff(theirs[ranked]) <= 1e-12)
        assert set(ranked) == set(np.flatnonzero(theirs > 0))
