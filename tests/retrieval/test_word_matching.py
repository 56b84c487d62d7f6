"""BM25's tokenizer and its corners: no padding, small and odd catalogs."""

from __future__ import annotations

import numpy as np
import pytest

from toolsavvy.catalog import Catalog, Query, Tool
from toolsavvy.errors import UserError
from toolsavvy.retrieval.bm25 import BM25, tokenize
from toolsavvy.retrieval.ranking import NO_TOOL, Retriever


def catalog(*texts: str) -> Catalog:
    return Catalog("c", tuple(Tool(f"t{i}", "", text) for i, text in enumerate(texts)), document="{description}")


def ask(text: str, instruction: str | None = None) -> list[Query]:
    return [Query("q", text, {"t0": 1}, instruction=instruction)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("describe_route_tables", ["describe", "route", "tables"]),
        ("CreateVpc getHTTPServer", ["create", "vpc", "get", "http", "server"]),
        ("List VPCs and IPv4 ranges", ["list", "vpcs", "and", "ipv4", "ranges"]),
        ("a 1-2 x.", ["a", "1", "2", "x"]),
        ("Größe 漢字 😀!", ["größe", "漢字"]),
        ("", []),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert tokenize(text) == words


def test_tools_without_a_common_word_stay_unranked() -> None:
    found = BM25().fit(catalog("create vpc", "delete subnet", "route")).search(ask("vpc"), 3)
    assert found.indices.tolist() == [[0, NO_TOOL, NO_TOOL]]
    assert found.scores[0, 1:].tolist() == [-np.inf, -np.inf]


def test_equal_documents_tie_by_descending_id() -> None:
    assert BM25().fit(catalog("vpc", "vpc", "vpc")).search(ask("vpc"), 2).indices.tolist() == [[2, 1]]


@pytest.mark.parametrize("texts", [("vpc",), ("a", "b"), ("", ""), ("😀", "!")])
def test_odd_catalogs_are_searched(texts: tuple[str, ...]) -> None:
    """One tool with k=10, one-letter words, no words at all."""
    found = BM25().fit(catalog(*texts)).search(ask("vpc b 😀"), 10)
    assert found.indices.shape == (1, len(texts))
    expected = {("vpc",): 0, ("a", "b"): 1}.get(texts, NO_TOOL)
    assert found.indices[0, 0] == expected


def test_queries_without_words_find_nothing() -> None:
    found = BM25().fit(catalog("vpc", "subnet")).search([*ask(""), *ask("😀"), *ask("unheard of")], 2)
    assert (found.indices == NO_TOOL).all()
    assert BM25().fit(catalog("vpc")).search([], 5).indices.shape == (0, 1)


def test_stopwords_and_instructions_are_options() -> None:
    tools = catalog("the vpc", "the subnet")
    assert BM25().fit(tools).search(ask("the"), 1).indices[0, 0] == 1
    assert BM25(stopwords=["The"]).fit(tools).search(ask("the"), 1).indices[0, 0] == NO_TOOL
    told = ask("vpc", instruction="subnet subnet subnet")
    assert BM25().fit(tools).search(told, 1).indices[0, 0] == 0
    assert BM25(use_instruction=True).fit(tools).search(told, 1).indices[0, 0] == 1


def test_an_index_can_be_replaced() -> None:
    retriever = BM25().fit(catalog("vpc"))
    assert retriever.fit(catalog("", "")).search(ask("vpc"), 1).indices[0, 0] == NO_TOOL
    assert isinstance(retriever, Retriever)


def test_a_misspelled_method_is_refused_with_the_right_one() -> None:
    with pytest.raises(UserError) as caught:
        BM25(method="lucen")
    assert caught.value.where == "retriever.bm25.method"
    assert "lucen" in caught.value.what and "lucene" in caught.value.expected
    assert "did you mean 'lucene'" in caught.value.fix
    with pytest.raises(UserError, match="b=2"):
        BM25(b=2)


def test_an_instruction_and_a_query_are_joined_by_a_blank_as_toolret_does() -> None:
    """The protocol's sparse systems see `instruction query`; without an instruction, the query and no scaffold."""
    tools = catalog("alpha beta", "beta gamma", "gamma alpha delta")
    joined = BM25().fit(tools).search([Query("q", "find gamma alpha", {"t0": 1})], 3)
    told = BM25(use_instruction=True).fit(tools).search([Query("q", "alpha", {"t0": 1}, instruction="find gamma")], 3)
    assert told.indices.tolist() == joined.indices.tolist() and told.scores.tolist() == joined.scores.tolist()
    plain = BM25().fit(tools).search(ask("alpha"), 3)
    for empty in (None, ""):
        found = BM25(use_instruction=True).fit(tools).search(ask("alpha", instruction=empty), 3)
        assert found.scores.tolist() == plain.scores.tolist()
