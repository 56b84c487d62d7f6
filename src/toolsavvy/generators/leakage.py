"""What a test split shares with what models may have learnt from: texts, near-duplicates, gold tools, n-grams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from toolsavvy.attacks import tokens
from toolsavvy.catalog import Query, RetrievalSet
from toolsavvy.catalogs.splits import plain
from toolsavvy.generators.overlap import best_matches, ngrams

LEARNT = ("train", "validation")
SHOWN = 10
"""Pairs of near-duplicates that are named."""


@dataclass(frozen=True)
class Pair:
    """A test query and the training query it is most like.

    Args:
        test: id.
        train: id.
        rouge_l: F1 of the two texts.
    """

    test: str
    train: str
    rouge_l: float


@dataclass(frozen=True)
class Leakage:
    """One test split against one split that is learnt from.

    Args:
        test: split.
        train: split.
        queries: of the test split.
        exact: test queries whose text is in train (but for case and spaces).
        near: further test queries whose ROUGE-L F1 with a training query reaches the threshold.
        instructions: test queries whose instruction is word for word that of a training query.
        gold_tools: gold tools of the test split.
        shared_tools: those that are gold in train too.
        taught_queries: test queries of which every gold is gold in train.
        same_golds: test queries with exactly the golds of some training query.
        ngram_queries: test queries that share an n-gram with train.
        ngram_share: share of the test queries' distinct n-grams that train has, the mean over queries that have any.
        nearest: mean ROUGE-L F1 of a test query with its nearest training query.
        pairs: the most similar ones.
    """

    test: str
    train: str
    queries: int
    exact: int
    near: int
    instructions: int
    gold_tools: int
    shared_tools: int
    taught_queries: int
    same_golds: int
    ngram_queries: int
    ngram_share: float
    nearest: float
    pairs: tuple[Pair, ...]


def audit_leakage(data: RetrievalSet, *, threshold: float = 0.8, n: int = 8) -> list[Leakage]:
    """Compare every test split with train and with validation.

    Args:
        data: the set.
        threshold: ROUGE-L F1 from which two texts are near-duplicates.
        n: length of the n-grams.
    """
    learnt = [split for split in LEARNT if data.splits.get(split)]
    tests = [split for split in data.test_splits if data.splits[split]]
    return [_compare(data, test, train, threshold, n) for test in tests for train in learnt]


def _compare(data: RetrievalSet, test: str, train: str, threshold: float, n: int) -> Leakage:
    """One pair of splits."""
    asked, learnt = data.splits[test], data.splits[train]
    texts, words = {plain(q.text) for q in learnt}, [tokens(q.text) for q in asked]
    places, scores = best_matches(words, [tokens(q.text) for q in learnt])
    exact = np.array([plain(q.text) in texts for q in asked])
    golds, taught = _golds(asked), _golds(learnt)
    known = {frozenset(q.relevant) for q in learnt}
    instructions = {plain(q.instruction) for q in learnt if q.instruction}
    grams = set().union(*(ngrams(tokens(q.text), n) for q in learnt))
    shares = [len(g & grams) / len(g) for w in words if (g := ngrams(w, n))]
    order = sorted(range(len(asked)), key=lambda i: (-scores[i], asked[i].id))
    return Leakage(
        test=test,
        train=train,
        queries=len(asked),
        exact=int(exact.sum()),
        near=int(((scores >= threshold) & ~exact).sum()),
        instructions=sum(bool(q.instruction) and plain(q.instruction or "") in instructions for q in asked),
        gold_tools=len(golds),
        shared_tools=len(golds & taught),
        taught_queries=sum(set(q.relevant) <= taught for q in asked),
        same_golds=sum(frozenset(q.relevant) in known for q in asked),
        ngram_queries=sum(share > 0 for share in shares),
        ngram_share=round(float(np.mean(shares)), 4) if shares else 0.0,
        nearest=round(float(scores.mean()), 4),
        pairs=tuple(
            Pair(asked[i].id, learnt[places[i]].id, round(float(scores[i]), 4))
            for i in order[:SHOWN]
            if scores[i] >= threshold
        ),
    )


def _golds(queries: Sequence[Query]) -> set[str]:
    """Tools that are gold of some query."""
    return {tool for q in queries for tool in q.relevant}


def leakage_json(rows: Sequence[Leakage], threshold: float, n: int) -> Mapping[str, Any]:
    """What audit.json holds about it."""
    return {"near_duplicate_rouge_l": threshold, "ngram": n, "splits": [asdict(row) for row in rows]}
