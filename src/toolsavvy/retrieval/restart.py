"""Where a walk over the tool graph restarts: what a first stage found for a query, or for each of its clauses."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from toolsavvy.retrieval.ranking import NO_TOOL, Ranking

_CLAUSE_END = re.compile(r"(?<=[.!?;])\s+|,?\s+\b(?:and then|then|finally|additionally|also)\b,?\s+", re.IGNORECASE)
CLAUSE_WORDS = 3
"""Fewer words are no request of their own and stay with the clause before."""
DECIMALS = 9
"""Scores that differ by less are one score: the order of floating point sums must not rank tools."""


@dataclass(frozen=True)
class Found:
    """What the first stage found.

    Args:
        whole: ranking of every query.
        parts: ranking of every clause of every query, in order.
        owner: int64 [clause], the query that it belongs to, ascending.
    """

    whole: Ranking
    parts: Ranking
    owner: np.ndarray

    def cut(self, cut: slice) -> Found:
        """Some queries, with their clauses."""
        first, last = np.searchsorted(self.owner, [cut.start, cut.stop])
        return Found(_rows(self.whole, cut), _rows(self.parts, slice(first, last)), self.owner[first:last] - cut.start)


@dataclass(frozen=True)
class Start:
    """What the first stage says about a block of queries.

    Args:
        restart: float64 [query, tool], where the walk restarts; rows sum to 1, or to 0 where nothing was found.
        scaled: float64 [query, tool], first scores with the best at 1 and the last of the first `depth` at 0, below 0
            for deeper ones, -inf for tools that were not found.
    """

    restart: np.ndarray
    scaled: np.ndarray

    @classmethod
    def of(cls, found: Found, depth: int, tools: int, temperature: float) -> Start:
        """Read the first stage's rankings; every clause that found something has an equal share of the restart."""
        restart = np.zeros((len(found.whole.indices), tools))
        chance = _chance(found.parts, depth, temperature)
        rows, ranks = np.nonzero(chance > 0)
        np.add.at(restart, (found.owner[rows], found.parts.indices[rows, ranks]), chance[rows, ranks])
        total = restart.sum(axis=1, keepdims=True)
        restart = np.divide(restart, total, out=restart, where=total > 0)
        return cls(restart, _scaled(found.whole, depth, tools))

    def blended(self, reached: np.ndarray, blend: float) -> np.ndarray:
        """Scores of the re-ranked tools, float64 [query, tool]; -inf where neither stage leads to a tool."""
        best = reached.max(axis=1, keepdims=True)
        share = np.divide(reached, best, out=np.zeros_like(reached), where=best > 0)
        both = (1 - blend) * np.maximum(self.scaled, 0.0) + blend * share
        return np.round(np.where((reached > 0) | (self.scaled >= 0), both, self.scaled), DECIMALS)


def _top(found: Ranking, depth: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first `depth` scores [query, rank], NaN where there is no tool, their highest and lowest [query, 1].

    A query that found nothing has 0 for both.
    """
    top = np.where(found.indices[:, :depth] != NO_TOOL, found.scores[:, :depth], np.nan)
    some = ~np.isnan(top)
    high = np.max(top, axis=1, keepdims=True, where=some, initial=-np.inf)
    low = np.min(top, axis=1, keepdims=True, where=some, initial=np.inf)
    return top, np.where(np.isfinite(high), high, 0.0), np.where(np.isfinite(low), low, 0.0)


def _chance(found: Ranking, depth: int, temperature: float) -> np.ndarray:
    """softmax(z / temperature) over the first `depth` tools, float64 [query, rank]; 0 where there is none."""
    top, high, _ = _top(found, depth)
    some = ~np.isnan(top)
    count = np.maximum(some.sum(axis=1, keepdims=True), 1)
    mean = np.nansum(top, axis=1, keepdims=True) / count
    deviation = np.sqrt(np.nansum((top - mean) ** 2, axis=1, keepdims=True) / count)
    z = np.divide(top - high, deviation, out=np.zeros_like(top), where=some & (deviation > 0))
    chance = np.where(some, np.exp(z / temperature), 0.0)
    total = chance.sum(axis=1, keepdims=True)
    return np.divide(chance, total, out=chance, where=total > 0)


def _scaled(found: Ranking, depth: int, tools: int) -> np.ndarray:
    """First scores as in `Start.scaled`; of a tool that stands twice the better rank counts."""
    _, high, low = _top(found, depth)
    spread = np.where(high > low, high - low, 1.0)
    points = np.where(high > low, (found.scores - low) / spread, 1.0 + found.scores - high)
    rows, ranks = np.nonzero(found.indices != NO_TOOL)
    rows, ranks = rows[::-1], ranks[::-1]  # the better rank is written last and stays
    scores = np.full((len(points), tools), -np.inf)
    scores[rows, found.indices[rows, ranks]] = points[rows, ranks]
    return scores


def clauses(text: str) -> list[str]:
    """Split a request into what it asks for: sentences, and parts joined by "then", "also", "finally"; at least one."""
    found: list[str] = []
    for part in (part.strip() for part in _CLAUSE_END.split(text)):
        if found and (len(part.split()) < CLAUSE_WORDS or len(found[-1].split()) < CLAUSE_WORDS):
            found[-1] = f"{found[-1]} {part}".strip()
        else:
            found.append(part)
    return found


def _rows(ranking: Ranking, cut: slice) -> Ranking:
    """Some queries of a ranking."""
    return Ranking(indices=ranking.indices[cut], scores=ranking.scores[cut])
