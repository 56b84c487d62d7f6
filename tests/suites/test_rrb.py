"""The RRB as a suite: whose split is whose, and what its slices are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from toolsavvy.catalog import Query, RetrievalSet
from toolsavvy.errors import UserError
from toolsavvy.retrieval.bm25 import BM25
from toolsavvy.suites.catalog_test import CatalogTest, rank
from toolsavvy.suites.rrb import Rrb, is_rrb, view_of
from world import toy_set

DATA = toy_set(8)
IDS = [tool.id for tool in DATA.catalog.tools]
TIERS = ("easy", "easy", "medium", "hard")
ITEMS = tuple(
    Query(f"r{i}", f"I need {IDS[i]}", dict.fromkeys(IDS[i : i + n], 1), tier=tier)
    for i, (tier, n) in enumerate(zip(TIERS, (1, 1, 2, 4), strict=True))
)
BOTH = replace(DATA, splits={**DATA.splits, "rrb": ITEMS})


def test_each_suite_sees_its_own_splits_where_both_are_there() -> None:
    suites = [CatalogTest(resamples=20), Rrb(resamples=20)]
    systems = {"bm25": {"": rank(BM25(), BOTH, 8)}}
    ours, theirs = (suite.run(view_of(suite, suites, BOTH), systems) for suite in suites)
    assert {r.slice.split("/")[0] for r in ours.results} == set(DATA.test_splits)
    assert {r.slice.split("/")[0] for r in theirs.results} == {"rrb"}
    assert {c.slice for c in theirs.comparisons} <= {"rrb"}
    alone = CatalogTest(resamples=20)
    assert view_of(alone, [alone], BOTH) is BOTH


def test_tiers_are_slices_and_shown() -> None:
    suite = Rrb(resamples=20)
    outcome = suite.run(view_of(suite, [suite], BOTH), {"bm25": {"": rank(BM25(), BOTH, 8)}})
    counts = {r.slice: r.n for r in outcome.results}
    assert [counts[f"rrb/tier={t}"] for t in ("easy", "medium", "hard")] == [2, 1, 1]
    assert counts["rrb"] == 4
    assert outcome.shown == ("rrb", "rrb/tier=easy", "rrb/tier=medium", "rrb/tier=hard")
    assert {r.metric for r in outcome.results} >= {"recall", "ndcg", "completeness"}


def test_a_single_tier_is_named_all_the_same() -> None:
    found = Rrb().slices("rrb", ITEMS[:2], DATA.catalog)
    np.testing.assert_array_equal(found["rrb/tier=easy"], [0, 1])
    assert "rrb/tier=hard" not in found


def test_a_catalog_whose_queries_come_in_tiers_is_an_rrb() -> None:
    assert is_rrb(RetrievalSet(DATA.catalog, {"train": DATA.train, "test": ITEMS}))
    assert not is_rrb(BOTH)
    assert not is_rrb(RetrievalSet(DATA.catalog, {"train": DATA.train}))


def test_no_requests_are_refused() -> None:
    with pytest.raises(UserError, match="n=0") as caught:
        Rrb(n=0)
    assert caught.value.where == "suite.rrb.n"
