from __future__ import annotations

from collections import Counter

import networkx
import pytest
from catalog_files import fault
from hypothesis import given, settings
from hypothesis import strategies as st

from toolsavvy.catalog import Query
from toolsavvy.catalogs.splits import cap_per_tool, grouped_split, hold_out, taught_split

ROWS = st.lists(
    st.tuples(st.integers(0, 30), st.sets(st.integers(0, 12), min_size=1, max_size=3)), min_size=1, max_size=40
)
SHARE = st.floats(0, 1)


def queries(rows):
    return [Query(str(i), f"Text {t}", {f"tool{g}": 1 for g in golds}) for i, (t, golds) in enumerate(rows)]


def golds(rows):
    return {tool for q in rows for tool in q.relevant}


def texts(rows):
    return {q.text for q in rows}


@given(ROWS, SHARE, SHARE, SHARE, st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_taught_split_keeps_its_promises(rows, taught, train, validation, seed):
    given_rows = queries(rows)
    split = taught_split(given_rows, taught_share=taught, train_share=train, validation_share=validation, seed=seed)
    assert sorted(int(q.id) for part in split.values() for q in part) == list(range(len(given_rows)))
    trained = golds(split["train"])
    assert golds(split["test_seen"]) <= trained
    assert golds(split["validation"]) <= trained
    assert not golds(split["test_unseen"]) & trained
    parts = [texts(part) for part in split.values()]
    assert sum(map(len, parts)) == len(set().union(*parts)), "a text is on two sides"
    assert all([int(q.id) for q in part] == sorted(int(q.id) for q in part) for part in split.values())


@given(ROWS, SHARE, st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_grouped_split_is_made_of_whole_components(rows, train, seed):
    given_rows = queries(rows)
    split = grouped_split(given_rows, train_share=train, validation_share=(1 - train) / 2, seed=seed)
    graph = networkx.Graph()
    for q in given_rows:
        graph.add_node(q.id)
        graph.add_edges_from([(q.id, ("text", q.text)), *((q.id, ("tool", t)) for t in q.relevant)])
    side = {q.id: name for name, part in split.items() for q in part}
    assert len(side) == len(given_rows)
    for component in networkx.connected_components(graph):
        assert len({side[node] for node in component if node in side}) == 1
    assert len(split["train"]) <= round(train * len(given_rows))


def test_a_taught_tool_with_queries_enough_gets_its_shares():
    rows = [Query(f"{t}.{i}", f"query {i} of {t}", {str(t): 1}) for t in range(10) for i in range(10)]
    split = taught_split(rows, taught_share=0.5, train_share=0.6, validation_share=0.1, seed=0)
    assert {name: len(part) for name, part in split.items()} == {
        "train": 30,
        "validation": 5,
        "test_seen": 15,
        "test_unseen": 50,
        "test_mixed": 0,
    }
    assert set(Counter(t for q in split["train"] for t in q.relevant).values()) == {6}


def test_hold_out_is_seeded_and_keeps_texts_together():
    rows = [Query(str(i), f"text {i // 2}", {"t": 1}) for i in range(100)]
    kept, held = hold_out(rows, 0.2, 3)
    assert len(held) == 20
    assert not texts(kept) & texts(held)
    assert hold_out(rows, 0.2, 3)[1] == held
    assert hold_out(rows, 0.2, 4)[1] != held


def test_cap_per_tool():
    rows = [Query(str(i), f"text {i}", {"often" if i < 30 else "rare": 1}) for i in range(33)]
    assert Counter(next(iter(q.relevant)) for q in cap_per_tool(rows, 5, 0)) == {"often": 5, "rare": 3}
    assert cap_per_tool(rows, None, 0) == rows
    fault(lambda: cap_per_tool(rows, 0, 0), what="0", where="catalog.cap", expected="from 1")


@pytest.mark.parametrize("value", [-0.1, 1.1, True, "half"])
def test_shares_out_of_range(value):
    fault(lambda: hold_out([], value, 0), what=repr(value), where="catalog.validation_share", expected="0 to 1")


def test_shares_that_exceed_one_together():
    rows = [Query("1", "a", {"t": 1})]
    fault(
        lambda: grouped_split(rows, train_share=0.8, validation_share=0.4, seed=0),
        what="more than 1",
        where="catalog.train_share",
        expected="<= 1",
    )
