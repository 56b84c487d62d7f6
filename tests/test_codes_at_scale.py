"""Codes and tries of large catalogs: the paths that only size takes, at a size that tests can afford."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from toolsavvy import indexing, quantization
from toolsavvy.catalogs.simulated import simulate
from toolsavvy.decoding import ToolTrie
from toolsavvy.indexing import hashed_tfidf
from toolsavvy.quantization import balanced_kmeans, balanced_tree
from toolsavvy.retrieval.dense import build_index


@pytest.mark.parametrize(("count", "branches"), [(10_000, 10), (9_999, 10), (5_001, 7)])
def test_codes_from_samples_differ_are_even_and_the_trie_holds_just_them(
    count: int, branches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantization, "SAMPLE", 700)
    vectors = np.random.default_rng(0).normal(size=(count, 8)).astype(np.float32)
    paths = balanced_tree(vectors, branches, seed=3)
    assert paths == balanced_tree(vectors, branches, seed=3)
    assert len(set(paths)) == count
    room = count
    for depth in range(1, max(map(len, paths)) + 1):
        room = -(-room // branches)
        assert max(Counter(path[:depth] for path in paths if len(path) >= depth).values()) <= room
    spelled = [tuple(10 + branches * d + c for d, c in enumerate(path)) for path in paths]
    trie = ToolTrie.build(spelled, 2)
    rows = torch.full((count, trie.max_length), 2)
    for row, code in zip(rows, spelled, strict=True):
        row[: len(code)] = torch.tensor(code)
    assert torch.equal(trie.lookup(rows), torch.arange(count))
    assert int((trie.terminal >= 0).sum()) == count, "nothing else is accepted"
    cut = rows.clone()
    cut[:, 1] = 2
    assert (trie.lookup(cut) == -1).all(), "a part of a code is no tool"


def test_clusters_that_are_there_are_found_in_a_sample_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantization, "SAMPLE", 200)
    truth = np.random.default_rng(1).permutation(np.repeat(np.arange(4), 500))
    centres = np.array([[0, 0], [0, 9], [9, 0], [9, 9]], dtype=np.float32)
    vectors = centres[truth] + np.random.default_rng(0).normal(scale=0.1, size=(2000, 2)).astype(np.float32)
    labels = balanced_kmeans(vectors, 4, np.random.default_rng(2))
    assert np.bincount(labels).tolist() == [500] * 4
    assert np.mean([Counter(labels[truth == c]).most_common(1)[0][1] for c in range(4)]) > 450


def test_documents_are_hashed_alike_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from toolsavvy.catalog import render

    documents = [render(tool) for tool in simulate(300)]
    whole = hashed_tfidf(documents)
    monkeypatch.setattr(indexing, "HASHED_BLOCK", 7)
    assert np.array_equal(whole, hashed_tfidf(documents))
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1, rtol=1e-5)
    assert whole.dtype == np.float32


def test_codes_of_a_pq_are_ordered_only_where_that_is_used() -> None:
    import faiss

    from toolsavvy.retrieval.dense import _order_codes

    for factory in ("PQ4x4", "IVF4,PQ4x4", "PCA8,IVF4,PQ4x4"):
        index = faiss.index_factory(16, factory, faiss.METRIC_INNER_PRODUCT)
        for wanted in (False, True):
            _order_codes(index, wanted)
            inner = index if hasattr(index, "do_polysemous_training") else faiss.downcast_index(index.index)
            assert inner.do_polysemous_training == wanted
    vectors = np.random.default_rng(0).normal(size=(300, 16)).astype(np.float32)
    assert build_index(vectors, "IVF4,PQ4x4").ntotal == 300
