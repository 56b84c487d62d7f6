"""Codes: one for each tool whatever the catalog looks like, even clusters, and co-used tools near each other."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolsavvy.catalog import Catalog, Query, Tool
from toolsavvy.errors import UserError
from toolsavvy.indexing import QUANTIZERS, SCHEMES, CodeBook, co_used, codes, hashed_tfidf, smooth
from toolsavvy.quantization import assign, balanced_kmeans, balanced_tree, sinkhorn_costs


def catalog_of(count: int) -> Catalog:
    return Catalog("made", tuple(Tool(f"t{i}", f"tool {i % 7}", f"does thing number {i}") for i in range(count)))


NAMES = st.lists(st.text("ab_ 2-", max_size=4), min_size=1, max_size=12)


@settings(max_examples=50, deadline=None)
@given(NAMES, st.sampled_from(SCHEMES), st.sampled_from(QUANTIZERS))
def test_no_two_tools_share_a_code(names: list[str], scheme: str, quantizer: str) -> None:
    tools = tuple(Tool(f"id {i}", name, group=name[:1]) for i, name in enumerate(names))
    book = codes(Catalog("made", tools), scheme, quantizer=quantizer, branches=3)
    assert len(set(book.symbols)) == len(set(book.texts)) == len(tools)
    assert all(symbols and all(symbols) for symbols in book.symbols)


@pytest.mark.parametrize("quantizer", QUANTIZERS)
def test_5000_vectors_and_5000_identical_ones(quantizer: str) -> None:
    catalog = catalog_of(5000)
    spread = np.random.default_rng(0).normal(size=(5000, 16))
    for vectors in (spread, np.ones((5000, 16))):
        book = codes(catalog, "hierarchical", quantizer=quantizer, embeddings=vectors, seed=1)
        assert len(set(book.symbols)) == 5000
        assert len(book.vocabulary) <= 10 * max(map(len, book.symbols)), "a vocabulary of branches x levels"


def test_symbols_of_every_scheme() -> None:
    tools = (Tool("Driver's  License&&get", "getLicense"), Tool("b", "get_license", group="Roads"), Tool("c", "plain"))
    catalog = Catalog("made", tools)
    assert codes(catalog).symbols == (("<<Driver's  License&&get>>",), ("<<b>>",), ("<<c>>",)), "ids verbatim"
    semantic = codes(catalog, "semantic")
    assert semantic.texts == ("get license", "get license for roads", "plain")
    assert not semantic.virtual
    assert codes(catalog_of(101), "numeric").texts[7] == "0 0 7"
    assert codes(catalog_of(1), "hierarchical").symbols == (("<c0_0>",),)


def test_a_number_that_is_taken_is_passed_over() -> None:
    catalog = Catalog("made", tuple(Tool(str(i), name) for i, name in enumerate(["x", "x 2", "X", "x"])))
    assert codes(catalog, "semantic").texts == ("x", "x 2", "x 3", "x 4")


@pytest.mark.parametrize("quantizer", QUANTIZERS)
def test_the_seed_decides(quantizer: str) -> None:
    catalog, vectors = catalog_of(300), np.random.default_rng(0).normal(size=(300, 8))
    first, again, other = (
        codes(catalog, "hierarchical", quantizer=quantizer, embeddings=vectors, seed=seed) for seed in (4, 4, 5)
    )
    assert first == again
    assert first != other


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 60), st.integers(2, 6), st.integers(0, 99))
def test_clusters_never_exceed_their_capacity(count: int, clusters: int, seed: int) -> None:
    clusters = min(clusters, count)
    rng = np.random.default_rng(seed)
    labels = balanced_kmeans(rng.normal(size=(count, 3)), clusters, rng)
    assert (np.bincount(labels, minlength=clusters) <= -(-count // clusters)).all()
    assert (labels >= 0).all()


def test_assignment_beats_chance_and_nears_the_optimum() -> None:
    from scipy.optimize import linear_sum_assignment

    rng = np.random.default_rng(0)
    for _ in range(5):
        costs = rng.random((30, 30))
        labels = assign(costs, np.ones(30, dtype=int))
        assert sorted(labels) == list(range(30))
        rows, columns = linear_sum_assignment(costs)
        assert costs[np.arange(30), labels].sum() <= 4 * costs[rows, columns].sum() < costs.trace()


def test_clusters_that_are_there_are_found() -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(4), 25)
    vectors = rng.normal(scale=0.05, size=(100, 2)) + np.array([[0, 0], [0, 9], [9, 0], [9, 9]])[truth]
    tops = np.array([path[0] for path in balanced_tree(vectors, 4)])
    assert all(len(set(tops[truth == c])) == 1 for c in range(4))
    assert len(set(tops)) == 4


def test_a_tree_is_as_shallow_as_a_full_one() -> None:
    paths = balanced_tree(np.random.default_rng(0).normal(size=(1000, 4)), 10)
    assert {len(p) for p in paths} == {3}
    assert set(Counter(p[:2] for p in paths).values()) == {10}


def test_co_used_tools_come_closer_and_others_stay() -> None:
    catalog, vectors = catalog_of(6), np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    queries = [Query("q", "both", {"t0": 1, "t1": 1}), Query("r", "alone", {"t2": 1})]
    smoothed = smooth(vectors, co_used(catalog, queries), 2.0)
    laplacian = np.zeros((6, 6))
    laplacian[:2, :2] = [[1, -1], [-1, 1]]
    np.testing.assert_allclose(smoothed, np.linalg.solve(np.eye(6) + 2.0 * laplacian, vectors), atol=1e-4)
    np.testing.assert_array_equal(smoothed[2:], vectors[2:])


def test_co_used_tools_share_more_codes() -> None:
    rng = np.random.default_rng(0)
    catalog, vectors = catalog_of(200), rng.normal(size=(200, 16))
    pairs = rng.permutation(200).reshape(100, 2)
    queries = [Query(str(i), "q", {f"t{a}": 1, f"t{b}": 1}) for i, (a, b) in enumerate(pairs)]

    def shared(quantizer: str) -> int:
        book = codes(catalog, "hierarchical", quantizer=quantizer, embeddings=vectors, queries=queries, smoothing=5.0)
        return sum(book.symbols[a][0] == book.symbols[b][0] for a, b in pairs)

    assert shared("residual_cousage") > 2 * shared("residual")


def test_sinkhorn_uses_all_columns_evenly() -> None:
    rng = np.random.default_rng(0)
    costs = rng.random((400, 8)) + np.arange(8)  # by distance alone the first column would take nearly all
    plan = np.exp(-sinkhorn_costs(costs))
    shares = (plan / plan.sum(1, keepdims=True)).sum(0)
    np.testing.assert_allclose(shares, 50, rtol=0.05)


def test_like_documents_have_like_vectors() -> None:
    vectors = hashed_tfidf(["create a virtual private cloud", "create virtual private clouds", "send an invoice", ""])
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.3
    assert not vectors[3].any()


def test_47k_tools_within_a_minute_of_cpu() -> None:
    start = time.process_time()
    paths = balanced_tree(np.random.default_rng(0).normal(size=(47_000, 32)).astype(np.float32), 10)
    assert len(set(paths)) == 47_000
    assert time.process_time() - start < 60


@pytest.mark.parametrize(
    ("arguments", "where", "fix"),
    [
        ({"scheme": "atomik"}, "indexing.scheme", "did you mean 'atomic'?"),
        ({"scheme": "hierarchical", "quantizer": "residuel"}, "indexing.quantizer", "did you mean 'residual'?"),
        ({"scheme": "hierarchical", "branches": 1}, "indexing.branches", "indexing.branches=2 or more"),
        ({"scheme": "hierarchical", "levels": 0}, "indexing.levels", "indexing.levels=1 or more"),
        ({"scheme": "hierarchical", "embeddings": np.ones((2, 4))}, "catalog made", "encode the documents"),
        ({"scheme": "hierarchical", "embeddings": np.full((3, 4), np.nan)}, "catalog made", "encode the documents"),
    ],
)
def test_mistakes_say_where(arguments: dict, where: str, fix: str) -> None:
    with pytest.raises(UserError) as caught:
        codes(catalog_of(3), **arguments)
    assert caught.value.where == where
    assert fix in caught.value.fix
    assert caught.value.expected


def test_a_code_book_refuses_a_shared_code() -> None:
    with pytest.raises(ValueError, match="share a code"):
        CodeBook("semantic", (("a",), ("a",)), virtual=False)
