from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolsavvy.attacks import tokens
from toolsavvy.generators.overlap import best_matches, near_duplicates, nearest, ngrams, rouge_l

WORDS = st.lists(st.sampled_from("abcdef"), max_size=12)


def naive_rouge_l(a: list[str], b: list[str]) -> float:
    """The textbook table of longest common subsequences, then F1 of precision and recall."""
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    for i, x in enumerate(a, 1):
        for j, y in enumerate(b, 1):
            table[i, j] = table[i - 1, j - 1] + 1 if x == y else max(table[i - 1, j], table[i, j - 1])
    if not a or not b or not table[-1, -1]:
        return 0.0
    precision, recall = table[-1, -1] / len(b), table[-1, -1] / len(a)
    return 2 * precision * recall / (precision + recall)


@given(WORDS, WORDS)
def test_rouge_l_is_the_textbooks(a: list[str], b: list[str]) -> None:
    assert rouge_l(a, b) == pytest.approx(naive_rouge_l(a, b), abs=1e-12)


@settings(max_examples=40)
@given(st.lists(WORDS, max_size=6), st.lists(WORDS, max_size=6))
def test_the_most_similar_text_is_found_as_one_by_one(texts: list[list[str]], others: list[list[str]]) -> None:
    places, scores = best_matches(texts, others)
    for text, place, score in zip(texts, places, scores, strict=True):
        best = max((naive_rouge_l(text, other) for other in others), default=0.0)
        assert score == pytest.approx(best, abs=1e-6)
        assert place == -1 if best == 0 else naive_rouge_l(text, others[place]) == pytest.approx(best, abs=1e-6)
        if text and others and best > 0:
            assert nearest(text, others)[1] == pytest.approx(best, abs=1e-6)
            assert best > 0.99 or nearest(text, others, best + 0.01) == (-1, 0.0)


def test_tokens_are_lower_case_runs_of_letters_and_digits() -> None:
    assert tokens("What's IPv4_address no. 7?") == ["what", "s", "ipv4", "address", "no", "7"]
    assert tokens("Über 北京 2 — …") == ["über", "北京", "2"]
    assert tokens("") == []


def test_ngrams() -> None:
    assert ngrams(["a", "b", "a", "b"], 2) == {("a", "b"), ("b", "a")}
    assert ngrams(["a"], 2) == set()


def test_a_score_that_is_just_the_bound_reaches_it_for_everybody() -> None:
    """4 of 5 tokens in order are 0.8 exactly, which the scorer's own arithmetic misses by a rounding error."""
    text, other = list("abcde"), list("abcdx")
    assert rouge_l(text, other) == 0.8
    assert nearest(text, [list("vwxyz"), other], 0.8)[0] == 1
    assert near_duplicates([text, other], 0.8).all()
    assert nearest(text, [list("abcxy")], 0.8) == (-1, 0.0)
