from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from toolsavvy.catalog import Catalog, Tool
from toolsavvy.errors import UserError
from toolsavvy.generators.toolsense import neighbourhood as module
from toolsavvy.generators.toolsense.neighbourhood import LexicalNeighbourhood, from_retriever, neighbourhood
from toolsavvy.retrieval.bm25 import BM25, tokenize
from toolsavvy.retrieval.ranking import blocks

WORDS = [f"word{letter}" for letter in "abcdefghijklmnopqrs"]


def catalog(n: int = 60, seed: int = 0) -> Catalog:
    rng = np.random.default_rng(seed)
    tools = [Tool(f"t{i:03d}", f"tool_{i}", " ".join(rng.choice(WORDS, rng.integers(3, 12)))) for i in range(n)]
    return Catalog("random", tuple(tools))


def cosines(documents) -> np.ndarray:
    """From scikit-learn's counts alone."""
    counts = CountVectorizer(tokenizer=tokenize, token_pattern=None, lowercase=False).fit_transform(documents).toarray()
    idf = np.log((1 + len(counts)) / (0.5 + (counts > 0).sum(0)))
    weights = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * idf
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    return weights @ weights.T


def test_it_is_the_cosine_of_the_whole_documents():
    tools = catalog()
    scores = cosines(tools.documents).round(9)
    near = LexicalNeighbourhood(tools)
    for i in range(len(tools)):
        others = [j for j in range(len(tools)) if j != i]
        wanted = sorted(others, key=lambda j: (scores[i, j], tools.tools[j].id), reverse=True)
        assert near.of(i, 59) == wanted
        assert near.of(i, 5) == wanted[:5]


def test_a_catalog_in_blocks_and_one_by_one_is_the_same(monkeypatch):
    tools = catalog(40)
    whole = LexicalNeighbourhood(tools)
    whole.prepare(range(40), 10)
    monkeypatch.setattr(module, "blocks", lambda rows, width: blocks(rows, width, cells=width * 3))
    parts = LexicalNeighbourhood(tools)
    parts.prepare([*range(40), 3, 3], 10)
    single = LexicalNeighbourhood(tools)
    assert [whole.of(i, 10) for i in range(40)] == [parts.of(i, 10) for i in range(40)]
    assert [single.of(i, 10) for i in range(40)] == [whole.of(i, 10) for i in range(40)]
    assert whole.of(0, 100)[:10] == whole.of(0, 10)
    assert len(whole.of(0, 100)) == 39
    assert whole.of(0, 0) == []


def test_documents_without_words_and_equal_ones_have_neighbours():
    empty = Catalog("empty", tuple(Tool(f"t{i}", "") for i in range(4)), document="{description}")
    assert LexicalNeighbourhood(empty).of(1, 9) == [3, 2, 0]
    same = Catalog("same", tuple(Tool(f"t{i}", "same name", "same words") for i in range(4)))
    assert LexicalNeighbourhood(same).of(0, 9) == [3, 2, 1]


def test_a_retriever_gives_what_it_finds_but_never_the_tool_itself():
    tools = catalog(30)
    retriever = BM25().fit(tools)
    near = from_retriever(retriever, tools)
    near.prepare(range(30), 6)
    for i in range(30):
        found = near.of(i, 6)
        assert i not in found
        assert len(found) == len(set(found)) == 6
        assert near.of(i, 3) == found[:3]
    apart = Catalog("apart", (Tool("a", "one"), Tool("b", "two"), Tool("c", "one thing")))
    assert from_retriever(BM25().fit(apart), apart).of(0, 2) == [2]  # "two" shares no word


def test_one_tool_has_no_neighbour():
    with pytest.raises(UserError, match="at least 2 tools"):
        neighbourhood(catalog(1))
    given = LexicalNeighbourhood(catalog(2))
    assert neighbourhood(catalog(2), given) is given


def test_it_needs_no_model():
    heavy = ("torch", "transformers", "sentence_transformers", "bm25s", "faiss")
    code = (
        "import sys; from toolsavvy.catalog import Catalog, Tool\n"
        "from toolsavvy.generators.toolsense.neighbourhood import neighbourhood\n"
        "neighbourhood(Catalog('c', (Tool('a', 'x'), Tool('b', 'y')))).of(0, 1)\n"
        f"sys.exit(', '.join(sorted(set({heavy!r}) & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
