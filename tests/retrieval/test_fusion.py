"""Fusion by hand."""

from __future__ import annotations

import numpy as np
import pytest

from toolsavvy.catalog import Catalog, Query, Tool
from toolsavvy.errors import UserError
from toolsavvy.retrieval.bm25 import BM25
from toolsavvy.retrieval.dense import Dense
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.fusion import Fusion, fuse
from toolsavvy.retrieval.late import Late
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking

CATALOG = Catalog(
    "c", tuple(Tool(f"t{i}", f"n{i}", text) for i, text in enumerate(["vpc route", "vpc", "subnet", "x"]))
)


def ranked(indices: list[int], scores: list[float]) -> Ranking:
    return Ranking(np.array([indices]), np.array([scores]))


A = ranked([0, 1, NO_TOOL], [0.9, 0.5, -np.inf])
B = ranked([2, 0, 1], [30.0, 20.0, 10.0])


def test_reciprocal_ranks_add_up() -> None:
    found = fuse({"a": A, "b": B}, CATALOG, 10, k_rrf=60)
    expected = {0: 1 / 61 + 1 / 62, 1: 1 / 62 + 1 / 63, 2: 1 / 61}
    order = sorted(expected, key=lambda i: -expected[i])
    assert found.indices.tolist() == [[*order, NO_TOOL]]
    assert found.scores[0, :3] == pytest.approx([expected[i] for i in order])


def test_weights_shift_the_order() -> None:
    found = fuse({"a": A, "b": B}, CATALOG, 1, weights={"b": 5.0}, k_rrf=1)
    assert found.indices.tolist() == [[2]]


def test_minmax_gives_missing_tools_the_minimum() -> None:
    found = fuse({"a": A, "b": B}, CATALOG, 3, rule="minmax")
    assert dict(zip(found.indices[0].tolist(), found.scores[0].tolist(), strict=True)) == pytest.approx(
        {0: 1.0 + 0.5, 2: 0.0 + 1.0, 1: 0.0 + 0.0}
    )


def test_zscores_are_standardised_per_query() -> None:
    found = fuse({"a": A, "b": B}, CATALOG, 3, rule="zscore")
    z = (np.array([30.0, 20.0, 10.0]) - 20) / np.std([30.0, 20.0, 10.0])
    expected = {0: 1.0 + z[1], 1: -1.0 + z[2], 2: -1.0 + z[0]}
    assert dict(zip(found.indices[0].tolist(), found.scores[0].tolist(), strict=True)) == pytest.approx(expected)


@pytest.mark.parametrize("rule", ["minmax", "zscore"])
def test_scale_of_scores_does_not_matter(rule: str) -> None:
    scaled = Ranking(B.indices, B.scores * 1000 - 7)
    assert np.array_equal(
        fuse({"a": A, "b": B}, CATALOG, 4, rule=rule).indices,
        fuse({"a": A, "b": scaled}, CATALOG, 4, rule=rule).indices,
    )


@pytest.mark.parametrize("rule", ["rrf", "minmax", "zscore"])
def test_a_system_that_found_nothing_changes_nothing(rule: str) -> None:
    nothing = ranked([NO_TOOL] * 3, [-np.inf] * 3)
    found = fuse({"b": B, "nothing": nothing}, CATALOG, 4, rule=rule)
    assert found.indices.tolist() == [[2, 0, 1, NO_TOOL]]
    assert not np.isnan(found.scores).any()


def test_an_output_that_is_no_tool_keeps_its_rank() -> None:
    free = ranked([NO_TOOL, 1], [-0.1, -0.2])
    found = fuse({"free": free}, CATALOG, 1)
    assert found.scores[0, 0] == pytest.approx(1 / 62)


def test_one_tied_list_still_counts_for_its_tools() -> None:
    found = fuse({"tied": ranked([1], [0.0]), "b": B}, CATALOG, 4, rule="minmax")
    assert found.scores[0, list(found.indices[0]).index(1)] == pytest.approx(1.0)


def test_members_are_fitted_and_searched() -> None:
    fusion = Fusion({"a": BM25(), "b": BM25(b=0.0)}).fit(CATALOG)
    found = fusion.search([Query("q", "vpc", {"t0": 1}), Query("r", "subnet", {"t0": 1})], 2)
    assert set(found.indices[0].tolist()) == {0, 1}
    assert found.indices[1].tolist() == [2, NO_TOOL]


def test_mistakes_are_named() -> None:
    with pytest.raises(UserError) as caught:
        fuse({"bm25": A, "dense": B}, CATALOG, 1, weights={"bm52": 1})
    assert caught.value.where == "retriever.fusion.weights.bm52"
    assert "bm25, dense" in caught.value.expected and "bm25" in caught.value.fix
    with pytest.raises(UserError, match="rff") as caught:
        fuse({"a": A}, CATALOG, 1, rule="rff")
    assert "rrf" in caught.value.fix
    with pytest.raises(UserError, match=r"1 member") as caught:
        Fusion({"a": BM25()})
    assert caught.value.where == "retriever.fusion.members"
    with pytest.raises(ValueError, match="same queries"):
        fuse({"a": A, "b": Ranking(np.zeros((2, 1), dtype=int), np.zeros((2, 1)))}, CATALOG, 1)


def test_what_members_tell_is_told_under_their_names() -> None:
    lossy, late = Dense(Encoder(), index="HNSW4"), Late(Encoder(), first_stage=Dense(Encoder(), index="HNSW4"))
    fusion = Fusion({"bm25": BM25(), "lossy": lossy, "late": late}, depth=5).fit(CATALOG)
    assert fusion.facts() == {}
    fusion.search([Query("q", "vpc", {"t0": 1})], 3)
    assert sorted(fusion.facts()) == ["late recall_of_flat@4", "lossy recall_of_flat@4"]
