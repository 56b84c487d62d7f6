from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from set_world import entries, items, query, source, tool

from toolsavvy.attacks import tokens
from toolsavvy.catalog import DEFAULT_DOCUMENT
from toolsavvy.generators.collecting import Item
from toolsavvy.generators.merging import _jaccard_pairs, merge, rewritten
from toolsavvy.retrieval.encoders import Encoder

A = source(
    "a",
    [
        tool("w", "get_weather", "Weather of a city.", "meteo", "web", "city"),
        tool("x", "x", "Nothing else."),
        tool("y", "y", "Lists the tags of a resource", "one"),
        tool("z", "y", "Lists the tags of a resource", "two"),
    ],
    {"test": [query("1", "rain?", "w"), query("2", "tags", "y", "z")]},
)
B = source(
    "b",
    [
        tool("W", "getWeather", "weather of a   CITY", "", "", "city"),
        tool("v", "get_weather", "Weather of a city.", "meteo", "web", "town"),
        tool("u", "get_weather", "Weather of a city.", "ocean", "web", "city"),
        tool("近", "…", ""),
        tool("近2", "!!", ""),
    ],
    {"test": [query("1", "sun?", "W", "v", negatives=("u",))]},
)


def test_tools_of_the_same_words_and_parameters_are_one() -> None:
    merged = merge(entries(A, B), "exact", 1.0, None, DEFAULT_DOCUMENT)
    assert [(m.id, m.merged, m.source, m.original, m.kind) for m in merged.merges] == [
        ("a/w", "b/W", "b", "W", "exact")
    ]
    kept = [e.tool.id for e in merged.entries]
    assert kept == ["a/w", "a/x", "a/y", "a/z", "b/v", "b/u", "b/近", "b/近2"]  # groups of one source tell tools apart


def test_golds_and_negatives_follow() -> None:
    merged = merge(entries(A, B), "exact", 1.0, None, DEFAULT_DOCUMENT)
    rows = {item.query.id: item.query for item in rewritten(items(A, B), merged)}
    assert rows["a/1"].relevant == {"a/w": 1}
    assert rows["b/1"].relevant == {"a/w": 1, "b/v": 1}
    assert rows["b/1"].negatives == ("b/u",)


def test_of_two_golds_that_became_one_the_higher_grade_counts() -> None:
    twice = source("t", [tool("p", "n", "d"), tool("q", "N", "d.")], {"test": []})
    merged = merge(entries(twice), "exact", 1.0, None, DEFAULT_DOCUMENT)
    (only,) = rewritten([Item(query("1", "?", "p").__class__("1", "?", {"p": 1, "q": 3}), "t", "test")], merged)
    assert only.query.relevant == {"p": 3}


def test_off_merges_nothing() -> None:
    assert merge(entries(A, B), "off", 1.0, None, DEFAULT_DOCUMENT).merges == ()


def test_near_duplicates_are_merged_across_sources_alone_and_never_in_chains() -> None:
    words = "one two three four five six seven eight nine ten"
    a = source("a", [tool("1", "n", f"{words} alpha"), tool("2", "n", f"{words} beta")])
    b = source("b", [tool("1", "n", f"{words} gamma"), tool("2", "n", f"{words} delta"), tool("3", "n", "else")])
    c = source("c", [tool("1", "n", f"{words} epsilon")])
    merged = merge(entries(a, b, c), "jaccard", 0.8, None, DEFAULT_DOCUMENT)
    assert [(m.id, m.merged) for m in merged.merges] == [("a/1", "b/1"), ("a/2", "b/2"), ("a/1", "c/1")]
    assert {m.similarity for m in merged.merges} == {11 / 13}
    assert merge(entries(a, b, c), "jaccard", 0.9, None, DEFAULT_DOCUMENT).merges == ()


def test_what_was_merged_exactly_follows_its_tool_when_that_is_merged_too() -> None:
    a = source("a", [tool("1", "n", "one two three four")])
    b = source("b", [tool("1", "n", "one two three four five"), tool("2", "n", "One two three, four five!")])
    merged = merge(entries(a, b), "jaccard", 0.7, None, DEFAULT_DOCUMENT)
    assert merged.target == {"b/1": "a/1", "b/2": "a/1"}


def test_embeddings_find_what_words_do_not() -> None:
    encoder = Encoder()
    a = source("a", [tool("1", "n", "weather in a city"), tool("2", "n", "zzzz")])
    b = source("b", [tool("1", "n", "weather in a citi")])
    found = merge(entries(a, b), "embedding", 0.999, encoder, DEFAULT_DOCUMENT)
    vectors = encoder.encode_documents(["n. weather in a city", "n. zzzz", "n. weather in a citi"])
    assert vectors[0] @ vectors[2] > max(0.999, vectors[1] @ vectors[2])  # what the expectation below rests on
    assert [(m.id, m.merged, m.kind) for m in found.merges] == [("a/1", "b/1", "embedding")]
    assert found.merges[0].similarity == pytest.approx(float(vectors[0] @ vectors[2]), abs=1e-5)


@settings(max_examples=60)
@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=8), max_size=10), st.floats(0.3, 1))
def test_the_prefix_filter_loses_no_pair(rows: list[list[str]], threshold: float) -> None:
    texts = [" ".join(row) for row in rows]
    sets = [set(tokens(text)) for text in texts]
    wanted = {
        (i, j)
        for j in range(len(sets))
        for i in range(j)
        if sets[i] and sets[j] and len(sets[i] & sets[j]) / len(sets[i] | sets[j]) >= threshold
    }
    assert {(i, j) for _, i, j in _jaccard_pairs(texts, threshold)} == wanted
    assert np.isfinite([s for s, _, _ in _jaccard_pairs(texts, threshold)]).all()
