"""The tie rule, exactly, at every depth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from toolsavvy.retrieval.ranking import NO_TOOL, blocks, empty_ranking, rank_scores, stack, tie_ranks


@given(
    arrays(
        np.float64, st.tuples(st.integers(1, 4), st.integers(1, 12)), elements=st.sampled_from([0.0, 0.5, 1.0, -np.inf])
    ),
    st.integers(1, 14),
    st.randoms(use_true_random=False),
)
@settings(max_examples=150, deadline=None)
def test_top_k_equals_sorting_everything(scores: np.ndarray, k: int, random: object) -> None:
    ids = [f"t{i}" for i in range(scores.shape[1])]
    random.shuffle(ids)  # type: ignore[attr-defined]
    found = rank_scores(scores, ids, k)
    for row, indices in zip(scores, found.indices, strict=True):
        # Two stable sorts: by descending id, then by descending score.
        expected = sorted(sorted(range(len(ids)), key=lambda i: ids[i], reverse=True), key=lambda i: -row[i])
        expected = [i if row[i] > -np.inf else NO_TOOL for i in expected][:k]
        assert indices.tolist() == expected


def test_equal_scores_rank_the_greater_id_first() -> None:
    assert rank_scores(np.array([[1.0, 1.0, 2.0]]), ["a", "b", "0"], 3).indices.tolist() == [[2, 1, 0]]


def test_precomputed_tie_ranks_change_nothing() -> None:
    scores = np.random.default_rng(0).integers(0, 3, size=(5, 9)).astype(np.float32)
    ids = [str(i) for i in range(9)]
    assert np.array_equal(rank_scores(scores, ids, 4).indices, rank_scores(scores, tie_ranks(ids), 4).indices)


def test_depth_is_capped_by_the_catalog() -> None:
    assert rank_scores(np.array([[0.3]]), ["only"], 10).indices.tolist() == [[0]]


@pytest.mark.parametrize(
    ("scores", "k", "message"), [([[np.nan]], 1, "NaN"), ([[1.0]], 0, "at least 1"), ([[1.0, 2.0]], 1, "do not fit")]
)
def test_nonsense_is_refused(scores: list[list[float]], k: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rank_scores(np.array(scores), ["a"], k)


def test_blocks_cover_all_rows_once() -> None:
    cut = blocks(10, 4, cells=12)
    assert [i for part in cut for i in range(part.start, part.stop)] == list(range(10))
    assert max(part.stop - part.start for part in cut) == 3
    assert stack([empty_ranking(2, 3), empty_ranking(1, 3)]).indices.shape == (3, 3)
