from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from toolsavvy.catalog import Catalog, Query, RetrievalSet, Tool
from toolsavvy.errors import UserError
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking
from toolsavvy.training.instructions import GENERAL, has_instructions, with_templates
from toolsavvy.training.negatives import Filter, Pools, Twins, given, mine, shared_golds

CATALOG = Catalog("ten", tuple(Tool(f"t{i}", f"tool {i}", f"does {i}", group=f"g{i // 5}") for i in range(10)))


class Fixed:
    """A retriever that ranks as it is told."""

    def __init__(self, order: list[int], scores: list[float]) -> None:
        self.order, self.scores = order, scores

    def fit(self, catalog: Catalog, train: object = ()) -> Fixed:
        return self

    def search(self, queries: object, k: int) -> Ranking:
        return Ranking(np.array([self.order[:k]]), np.array([self.scores[:k]], dtype=float))


def query(*golds: int) -> Query:
    return Query("q", "do it", {f"t{g}": 1 for g in golds})


def mined(order: list[int], scores: list[float], golds: tuple[int, ...], **settings: object) -> Pools:
    return mine(Fixed(order, scores), CATALOG, [query(*golds)], **settings)  # type: ignore[arg-type]


ORDER, SCORES = [3, 0, 1, 2, 4], [1.0, 0.9, 0.8, 0.5, 0.1]


def test_golds_are_never_negatives_and_the_window_is_one_of_ranks() -> None:
    assert mined(ORDER, SCORES, (0,), window=(1, 4)).of_query == ((3, 1, 2),)
    assert mined(ORDER, SCORES, (0, 2), window=(1, 5)).of_query == ((3, 1, 4),)
    assert mined(ORDER, SCORES, (0,), window=(3, 4)).of_query == ((1, 2),)


def test_likely_golds_are_left_out() -> None:
    pools = mined(ORDER, SCORES, (0,), window=(1, 5), score_filter=Filter(relative=0.9))
    assert pools.of_query == ((1, 2, 4),)  # 0.8 <= 0.9 * 0.9, 1.0 is above
    assert pools.counts["likely_golds"] == 1
    assert pools.counts["golds"] == 1
    assert mined(ORDER, SCORES, (0,), score_filter=Filter(None, margin=0.4)).of_query == ((2, 4),)


def test_the_lowest_gold_sets_the_filter_and_a_missed_one_counts_as_the_last_rank() -> None:
    assert mined(ORDER, SCORES, (0, 2), score_filter=Filter(1.0)).of_query == ((4,),)
    assert mined(ORDER, SCORES, (9,), window=(1, 5), score_filter=Filter(1.0)).of_query == ((4,),)
    assert mined(ORDER, SCORES, (9,), window=(1, 5), score_filter=None).of_query == ((3, 0, 1, 2, 4),)


def test_a_share_of_a_negative_score_is_refused() -> None:
    with pytest.raises(UserError) as error:
        mined(ORDER, [-1.0, -2.0, -3.0, -4.0, -5.0], (0,), score_filter=Filter())
    assert error.value.where == "method.mining.relative"
    assert "margin" in error.value.fix
    assert mined(ORDER, [-1.0, -2.0, -3.0, -4.0, -5.0], (0,), score_filter=Filter(None, 1.5)).of_query == ((2, 4),)


def test_single_golds_below_zero_stop_nothing_and_spare_what_ranks_above_them() -> None:
    class Two(Fixed):
        def search(self, queries: object, k: int) -> Ranking:
            return Ranking(np.array([self.order] * 2), np.array([self.scores, [0.3, 0.2, -0.1, -0.2, -0.3]]))

    asked_twice = [query(0), replace(query(1), text="something else")]
    pools = mine(Two(ORDER, SCORES), CATALOG, asked_twice, window=(1, 5), score_filter=Filter())  # type: ignore[arg-type]
    assert pools.of_query == ((1, 2, 4), (2, 4))
    assert pools.counts["golds_not_above_0"] == 1
    assert all(type(count) is int for count in pools.counts.values())  # they go into JSON


def test_golds_of_queries_that_say_the_same_are_no_negatives_of_one_another() -> None:
    train = [query(0), replace(query(3), id="r", text=" Do IT"), replace(query(4), id="s", text="do that")]
    assert shared_golds(CATALOG, train) == [[0, 3], [0, 3], [4]]
    ranked = Fixed(ORDER, SCORES)
    ranked.search = lambda queries, k: Ranking(np.array([ORDER] * 3), np.array([SCORES] * 3))  # type: ignore[method-assign]
    assert mine(ranked, CATALOG, train, window=(1, 5)).of_query == ((1, 2, 4), (1, 2, 4), (3, 0, 1, 2))  # type: ignore[arg-type]
    assert given(CATALOG, [replace(q, negatives=("t3", "t5")) for q in train]).of_query == ((5,), (5,), (3, 5))


def test_twins_of_golds_are_no_negatives() -> None:
    vectors = np.eye(10, dtype=np.float32)
    vectors[1] = vectors[0] + 0.1 * vectors[1]
    twins = Twins.of(CATALOG.documents, 5 * vectors, 0.95)
    pools = mined(ORDER, SCORES, (0,), window=(1, 5), twins=twins)
    assert pools.of_query == ((3, 2, 4),)
    assert pools.counts["twins"] == 1
    documents = list(CATALOG.documents)
    documents[3] = documents[0]
    assert mined(ORDER, SCORES, (0,), window=(1, 5), twins=Twins(documents)).of_query == ((1, 2, 4),)


@pytest.mark.parametrize("window", [(0, 3), (11, 12), (5, 4)])
def test_an_empty_window_is_refused(window: tuple[int, int]) -> None:
    with pytest.raises(UserError) as error:
        mined(ORDER, SCORES, (0,), window=window)
    assert error.value.where == "method.mining.window"
    assert "10 tools" in error.value.what


def test_empty_ranks_are_no_candidates() -> None:
    assert mined([3, 0, NO_TOOL], [1.0, 0.5, -np.inf], (0,), window=(1, 3)).of_query == ((3,),)
    assert mined([NO_TOOL], [-np.inf], (0,), window=(1, 1)).of_query == ((),)


def test_draws_are_seeded_distinct_and_from_the_pool() -> None:
    pools = Pools(((1, 2, 3, 4, 5, 6), (7,)))
    assert pools.draw(0, 3, "a") == pools.draw(0, 3, "a")
    assert len({pools.draw(0, 3, str(i)) for i in range(20)}) > 5
    for i in range(20):
        drawn = pools.draw(0, 3, str(i))
        assert len(set(drawn)) == 3 and set(drawn) <= {1, 2, 3, 4, 5, 6}
    assert pools.draw(1, 3, "a") == (7,)


def test_negatives_that_came_with_the_rows() -> None:
    rows = [replace(query(0), negatives=("t4", "t0", "t5")), query(1)]
    pools = given(CATALOG, rows)
    assert pools.of_query == ((4, 5), ())
    assert pools.counts == {"kept": 2, "queries_without": 1}


def instructed(train: list[Query], test: list[Query]) -> RetrievalSet:
    """Queries are embedded by their first letter."""
    data = RetrievalSet(CATALOG, {"train": tuple(train), "test": tuple(test)})

    def embed(queries: object) -> np.ndarray:
        return np.array([np.eye(26)[ord(q.text[0]) - 97] for q in queries])  # type: ignore[attr-defined]

    return with_templates(data, embed, neighbours=2)


def asked(id: str, text: str, gold: int) -> Query:
    return Query(id, text, {f"t{gold}": 1})


def test_an_instruction_names_the_provider_of_the_nearest_other_training_queries() -> None:
    train = [asked("1", "a", 0), asked("2", "ab", 7), asked("3", "ac", 8), asked("4", "b", 1), asked("5", "bc", 2)]
    data = instructed(train, [asked("6", "b", 9), asked("7", "a", 0)])
    told = {q.id: str(q.instruction) for queries in data.splits.values() for q in queries}
    assert "g1" in told["1"]  # its own gold is of g0, and does not vote
    assert "g0" in told["4"] and "g0" in told["6"]  # whatever the test query's gold
    assert has_instructions(data.train)
    assert [q.text for q in data.train] == [q.text for q in train]


def test_golds_of_queries_that_say_the_same_do_not_vote_either() -> None:
    train = [asked("1", "a", 0), asked("2", "A ", 0), asked("3", "ab", 7)]
    told = instructed([replace(q, text=q.text.lower()) for q in train], []).splits["train"]
    assert "g1" in str(told[0].instruction) and "g1" in str(told[1].instruction)


def test_many_queries_are_instructed_block_by_block_as_they_would_be_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    train = [asked(str(i), f"{'abc'[i % 3]} {i}", i) for i in range(10)]
    test = [asked(f"t{i}", f"{'abc'[i % 3]}", 0) for i in range(7)]
    whole = instructed(train, test)
    monkeypatch.setattr("toolsavvy.training.instructions.BLOCK", 3)
    assert instructed(train, test).splits == whole.splits


def test_instructions_do_not_depend_on_test_golds() -> None:
    train = [asked("1", "a", 0), asked("2", "b", 7)]
    first, second = (instructed(train, [asked("6", "b", gold)]).splits["test"][0].instruction for gold in (0, 9))
    assert first == second


def test_without_providers_the_instruction_is_general() -> None:
    bare = Catalog("bare", tuple(Tool(f"t{i}", f"tool {i}") for i in range(3)))
    data = RetrievalSet(bare, {"train": (asked("1", "a", 0), asked("2", "a", 1)), "test": (asked("3", "a", 2),)})
    done = with_templates(data, lambda queries: np.ones((len(queries), 1)))
    assert {q.instruction for queries in done.splits.values() for q in queries} == {GENERAL}
