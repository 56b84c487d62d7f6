"""Instructions by template where a catalog has none, made from training rows alone.

TOOLRET's instructions were written with the gold tools in view, so what they give away is part of the score. These are
not: a query's instruction names the provider that most of its nearest *other* training queries asked for.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from toolsavvy.catalog import Catalog, Query, RetrievalSet
from toolsavvy.catalogs.splits import plain

TEMPLATES = (
    "The request concerns {subject}. Retrieve the tools that fulfil it.",
    "Given a request about {subject}, find the tools that can carry it out.",
    "Find tools for {subject} that match what is asked for.",
    "Retrieve the {subject} tools that this task needs.",
)
"""Our own wordings."""
GENERAL = "Given a user's request, retrieve the tools that can fulfil it."
"""Where training rows name no provider."""
BLOCK = 512
"""Queries that are compared with all training queries at once."""


def has_instructions(queries: Sequence[Query]) -> bool:
    """Whether any query has an instruction."""
    return any(q.instruction for q in queries)


def with_templates(
    data: RetrievalSet, embed: Callable[[Sequence[Query]], np.ndarray], neighbours: int = 5
) -> RetrievalSet:
    """Give every query that has none an instruction that knows nothing of its own gold tools.

    Args:
        data: a set with training queries.
        embed: queries -> unit vectors [query, dimension].
        neighbours: training queries that vote on the subject.
    """
    subjects = [_subject(data.catalog, q) for q in data.train]
    vectors = embed(data.train)
    splits: dict[str, tuple[Query, ...]] = {}
    texts = [plain(q.text) for q in data.train]
    for split, queries in data.splits.items():
        own = texts if split == "train" else []  # the golds of a training query's text must not vote on it
        near = _nearest(vectors if split == "train" else embed(queries), vectors, own, texts, neighbours)
        splits[split] = tuple(
            q if q.instruction else replace(q, instruction=_instruction(q, [subjects[j] for j in row]))
            for q, row in zip(queries, near, strict=True)
        )
    return replace(data, splits=splits)


def _nearest(
    asked: np.ndarray, trained: np.ndarray, own: Sequence[str], texts: Sequence[str], neighbours: int
) -> list[list[int]]:
    """Training queries with the highest cosines for every query, the first of equal ones, without those of its text.

    Args:
        asked: unit vectors [query, dimension].
        trained: unit vectors [training query, dimension].
        own: [query], the texts of training queries; [] where the queries are others.
        texts: [training query].
        neighbours: at most so many.
    """
    alike: dict[str, list[int]] = {}
    for j, text in enumerate(texts):
        alike.setdefault(text, []).append(j)
    near: list[list[int]] = []
    for start in range(0, len(asked), BLOCK):  # all at once may not fit: every row is as wide as the training split
        scores = asked[start : start + BLOCK] @ trained.T
        for row, text in zip(scores, own[start : start + BLOCK], strict=False):
            row[alike[text]] = -np.inf
        order = np.argsort(-scores, axis=1, kind="stable")[:, :neighbours]
        near += [[int(j) for j in js if np.isfinite(row[j])] for js, row in zip(order, scores, strict=True)]
    return near


def _subject(catalog: Catalog, query: Query) -> str:
    """Provider, or else category, of a query's first gold tool; nothing where the catalog lacks its golds."""
    if not query.relevant:
        return ""
    tool = catalog.tools[catalog.index[min(query.relevant)]]
    return tool.group or tool.category


def _instruction(query: Query, subjects: Sequence[str]) -> str:
    """The most frequent subject (the nearest of equal ones) in a wording that the query's id chooses."""
    votes: Mapping[str, int] = Counter(s for s in subjects if s)
    if not votes:
        return GENERAL
    number = int(hashlib.sha256(query.id.encode("utf-8", "surrogatepass")).hexdigest(), 16)
    return TEMPLATES[number % len(TEMPLATES)].format(subject=max(votes, key=lambda s: votes[s]))
