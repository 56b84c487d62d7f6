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

TEMPLATES = (
    "The request concerns {subject}. Retrieve the tools that fulfil it.",
    "Given a request about {subject}, find the tools that can carry it out.",
    "Find tools for {subject} that match what is asked for.",
    "Retrieve the {subject} tools that this task needs.",
)
"""Our own wordings."""
GENERAL = "Given a user's request, retrieve the tools that can fulfil it."
"""Where training rows name no provider."""


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
    for split, queries in data.splits.items():
        scores = (vectors if split == "train" else embed(queries)) @ vectors.T
        if split == "train":
            np.fill_diagonal(scores, -np.inf)  # its own golds must not vote
        near = np.argsort(-scores, axis=1, kind="stable")[:, :neighbours]
        near = [[j for j in row if np.isfinite(scores[i, j])] for i, row in enumerate(near)]
        splits[split] = tuple(
            q if q.instruction else replace(q, instruction=_instruction(q, [subjects[j] for j in row]))
            for q, row in zip(queries, near, strict=True)
        )
    return replace(data, splits=splits)


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
