from __future__ import annotations

from collections import Counter

import pytest
from set_world import query, source, tool

from toolsavvy.catalog import Catalog, Query
from toolsavvy.errors import UserError
from toolsavvy.generators.collecting import collect, filtered

TOOLS = [tool("get mail", "get_mail", "Reads mail."), tool("2", "pay", "Pays.")]


def test_a_single_source_keeps_its_ids_and_several_get_their_names_in_front() -> None:
    one = source("one", TOOLS, {"test": [query("q", "read my mail", "get mail", tier="easy")]})
    entries, items = collect({"one": one})
    assert [e.tool.id for e in entries] == ["get mail", "2"]
    assert (items[0].query.id, items[0].query.subset, items[0].query.tier) == ("q", "one", "easy")
    entries, items = collect({"one": one, "two": one})
    assert [(e.tool.id, e.source, e.original) for e in entries][2:] == [
        ("two/get mail", "two", "get mail"), ("two/2", "two", "2"),
    ]  # fmt: skip
    assert [(i.query.id, dict(i.query.relevant)) for i in items] == [
        ("one/q", {"one/get mail": 1}), ("two/q", {"two/get mail": 1}),
    ]  # fmt: skip


def test_ids_that_repeat_over_splits_or_within_one_stay_apart() -> None:
    rows = {
        "test": [query("1", "a", "2"), query("1", "b", "2"), query("2", "c", "2"), query("test/3", "d", "2")],
        "train": [query("1", "e", "2"), query("3", "f", "2")],
        "other": [query("3", "g", "2")],
    }
    items = collect({"s": source("s", TOOLS, rows)})[1]
    assert [i.query.text for i in items] == ["e", "f", "a", "b", "c", "d", "g"]  # training first
    ids = [i.query.id for i in items]
    assert ids == ["train/1", "train/3", "test/1#1", "test/1#2", "2", "test/3", "other/3"]


def test_chosen_splits_and_no_such_split() -> None:
    data = {"s": source("s", TOOLS, {"test": [query("1", "a", "2")], "train": [query("2", "b", "2")]})}
    assert [i.split for i in collect(data, ["test"])[1]] == ["test"]
    with pytest.raises(UserError) as caught:
        collect(data, ["tset"])
    error = caught.value
    assert (error.where, error.expected, error.fix) == (
        "generator.splits", "some of test, train", "did you mean 'test'?",
    )  # fmt: skip


def test_filters_count_what_they_drop() -> None:
    rows = [
        query("1", "  ", "2"),
        query("2", "Read  it", "2"),
        Query("3", "read it", {"get mail": 2, "2": 3}, negatives=("2",)),
        query("4", "please get mail for me", "get mail"),
        Query("5", "lost", {}, absent={"gone": 1}),
        Query("6", "half lost", {"2": 1}, absent={"gone": 1}, negatives=("get mail", "nobody")),
    ]
    items = collect({"s": source("s", TOOLS, {"test": rows})})[1]
    catalog, counts = Catalog("c", tuple(TOOLS)), Counter[str]()
    kept = filtered(items, catalog, counts, named=True)
    assert counts == {
        "empty_queries": 1, "repeated_queries": 1, "naming_queries": 1, "goldless_queries": 1, "absent_golds": 2,
    }  # fmt: skip
    assert [i.query.id for i in kept] == ["2", "6"]
    assert kept[0].query.relevant == {"2": 3, "get mail": 2}
    assert kept[0].query.negatives == ()  # a gold is no negative
    assert (kept[1].query.absent, kept[1].query.negatives) == ({}, ("get mail",))
    assert len(filtered(items, catalog, Counter(), named=False)) == 3
