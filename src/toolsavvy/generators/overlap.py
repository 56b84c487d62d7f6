"""Word overlap of texts: tokens, ROUGE-L and shared n-grams, the same everywhere in a set's making and audit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

ROUNDING = 1e-6
"""What a score may fall short of a bound that it reaches."""
BLOCK = 512
"""Texts compared with all others at once: bounds the memory."""

Tokens = list[str]


def rouge_l(a: Sequence[str], b: Sequence[str]) -> float:
    """ROUGE-L F1 of two token lists: 2 x LCS / (tokens of both); 0 where one is empty.

    Source: Lin 2004, with beta = 1 as in rouge-score.
    """
    from rapidfuzz.distance import LCSseq

    return 2 * LCSseq.similarity(a, b) / (len(a) + len(b)) if a and b else 0.0


def nearest(text: Sequence[str], others: Sequence[Sequence[str]], least: float = 0.0) -> tuple[int, float]:
    """Position and ROUGE-L F1 of the most similar of many token lists; (-1, 0.0) where none reaches `least`."""
    from rapidfuzz import process

    if not text or not others:
        return -1, 0.0
    # The scorer's 1 - distance falls a rounding error short of scores such as 0.8: those reach 0.8 all the same.
    found: Any = process.extractOne(text, others, scorer=_scorer(), score_cutoff=max(0.0, least - ROUNDING) or None)
    return (-1, 0.0) if found is None else (int(found[2]), float(found[1]))


def best_matches(texts: Sequence[Sequence[str]], others: Sequence[Sequence[str]]) -> tuple[np.ndarray, np.ndarray]:
    """The most similar of `others` for every text: positions int64 [text] (-1: none) and ROUGE-L F1 float32 [text]."""
    places = np.full(len(texts), -1, dtype=np.int64)
    scores = np.zeros(len(texts), dtype=np.float32)
    for start, block in _similarities(texts, others):
        cut = slice(start, start + len(block))
        places[cut], scores[cut] = block.argmax(axis=1), block.max(axis=1)
    return np.where(scores > 0, places, -1), scores


def near_duplicates(texts: Sequence[Sequence[str]], least: float) -> np.ndarray:
    """Whether another of the texts reaches a ROUGE-L F1 of `least` with each: bool [text]."""
    found = np.zeros(len(texts), dtype=bool)
    for start, block in _similarities(texts, texts):
        rows = np.arange(len(block))
        block[rows, start + rows] = -1.0  # itself
        found[start : start + len(block)] = (block >= np.float32(least)).any(axis=1)
    return found


def _similarities(texts: Sequence[Sequence[str]], others: Sequence[Sequence[str]]) -> Iterator[tuple[int, np.ndarray]]:
    """ROUGE-L F1 in blocks: (first text, float32 [text of the block, other])."""
    from rapidfuzz import process

    numbers: dict[str, int] = {}  # numbers compare faster than words

    def numbered(rows: Sequence[Sequence[str]]) -> list[list[int]]:
        return [[numbers.setdefault(word, len(numbers)) for word in row] for row in rows]

    left, right = numbered(texts), numbered(others)
    filled = np.array([bool(row) for row in right])
    for start in range(0, len(left) if right else 0, BLOCK):
        rows = left[start : start + BLOCK]
        block = process.cdist(rows, right, scorer=_scorer(), dtype=np.float32)
        block[:, ~filled] = 0  # two empty texts are no match
        block[[not row for row in rows]] = 0
        yield start, block


def _scorer() -> Any:
    """Insertions and deletions alone: their normalised similarity is 2 x LCS / (tokens of both), that is ROUGE-L F1."""
    from rapidfuzz.distance import Indel

    return Indel.normalized_similarity


def ngrams(words: Sequence[str], n: int) -> set[tuple[str, ...]]:
    """Every run of n tokens; empty where there are fewer."""
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}
