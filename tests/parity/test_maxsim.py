"""MaxSim in blocks against a naive loop, and against sentence-transformers' own."""

from __future__ import annotations

import numpy as np
import pytest

from toolsavvy.retrieval import late
from toolsavvy.retrieval.late import maxsim
from toolsavvy.retrieval.tokens import Tokens

RNG = np.random.default_rng(0)


def texts(count: int, longest: int, *, shortest: int = 1, dimension: int = 16) -> list[np.ndarray]:
    """Unit token vectors of texts of mixed lengths."""
    parts = [RNG.normal(size=(RNG.integers(shortest, longest + 1), dimension)) for _ in range(count)]
    return [(part / np.linalg.norm(part, axis=1, keepdims=True)).astype(np.float32) for part in parts]


def naive(queries: list[np.ndarray], documents: list[np.ndarray]) -> np.ndarray:
    """The definition, token by token."""
    scores = np.full((len(queries), len(documents)), -np.inf)
    for i, query in enumerate(queries):
        for j, document in enumerate(documents):
            if len(document):
                scores[i, j] = sum(max(float(q @ d) for d in document) for q in query)
    return scores


@pytest.mark.parametrize("block", [1, 7, 40, 1024])
def test_blocks_of_any_size_equal_the_naive_loop(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late, "DOCUMENT_TOKENS", block)
    monkeypatch.setattr(late, "QUERY_TOKENS", block)
    queries, documents = texts(9, 12), texts(40, 30)
    found = maxsim(Tokens.of(queries), Tokens.of(documents))
    assert found.dtype == np.float32
    assert np.allclose(found, naive(queries, documents), atol=1e-5)


def test_scores_equal_sentence_transformers() -> None:
    import torch
    from sentence_transformers.util import maxsim as theirs

    queries, documents = texts(20, 32), texts(100, 64)
    expected = theirs([torch.from_numpy(q) for q in queries], [torch.from_numpy(d) for d in documents]).numpy()
    assert np.allclose(maxsim(Tokens.of(queries), Tokens.of(documents)), expected, atol=1e-5)


def test_chosen_documents_get_the_scores_that_they_get_among_all() -> None:
    queries, documents = texts(5, 8), texts(50, 20)
    chosen = np.array([49, 3, 3, 17])
    some = maxsim(Tokens.of(queries), Tokens.of(documents), chosen)
    assert np.allclose(some, naive(queries, documents)[:, chosen], atol=1e-5)
    assert maxsim(Tokens.of(queries), Tokens.of(documents), chosen[:0]).shape == (5, 0)


def test_documents_without_tokens_score_nothing_and_queries_without_tokens_nought() -> None:
    documents = [*texts(3, 5), np.zeros((0, 16), dtype=np.float32)]
    queries = [texts(1, 4)[0], np.zeros((0, 16), dtype=np.float32)]
    found = maxsim(Tokens.of(queries), Tokens.of(documents))
    assert np.isneginf(found[:, 3]).all()
    assert (found[1, :3] == 0).all() and np.isfinite(found[0, :3]).all()
    assert maxsim(Tokens.of([], 16), Tokens.of(documents)).shape == (0, 4)


def test_half_the_storage_keeps_sums_of_32_bits() -> None:
    queries, documents = texts(6, 30, shortest=30), texts(60, 40)
    half = Tokens.of([document.astype(np.float16) for document in documents])
    exact = maxsim(Tokens.of(queries), Tokens.of(documents))
    stored = maxsim(Tokens.of(queries), half)
    assert np.allclose(stored, exact, atol=0.01)
    again = naive(queries, [document.astype(np.float16).astype(np.float32) for document in documents])
    assert np.allclose(stored, again, atol=1e-5)  # nothing but the storage was rounded
