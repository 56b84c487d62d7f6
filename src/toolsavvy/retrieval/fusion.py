"""Several rankings made one: reciprocal ranks or normalised scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from toolsavvy.catalog import Catalog, Query
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking, Reporting, Retriever, blocks, rank_scores, stack, tie_ranks

RULES = ("rrf", "minmax", "zscore")


def fuse(
    rankings: Mapping[str, Ranking],
    catalog: Catalog,
    k: int,
    rule: str = "rrf",
    weights: Mapping[str, float] | None = None,
    k_rrf: float = 60.0,
) -> Ranking:
    """Fuse the rankings of several systems for the same queries.

    `rrf` adds weight / (k_rrf + rank) over the systems that ranked a tool (Cormack et al., SIGIR 2009). `minmax` and
    `zscore` add weight x the score normalised per query over what the system ranked; a tool that it did not rank gets
    the system's minimum. Ranks that hold no tool keep their place and score nothing.

    Args:
        rankings: system -> ranking [query, its own depth].
        catalog: whose positions the rankings hold.
        k: depth of the result, capped by the catalog.
        rule: rrf | minmax | zscore.
        weights: system -> weight; 1 where missing.
        k_rrf: damping of high ranks.

    Raises:
        UserError: unknown rule, or a weight for no system.
        ValueError: no rankings, or different numbers of queries.
    """
    if rule not in RULES:
        raise UserError(
            f"unknown fusion rule {rule!r}",
            where="retriever.fusion.rule",
            expected=f"one of {', '.join(RULES)}",
            fix=did_you_mean(rule, RULES),
        )
    share = _weights(tuple(rankings), weights)
    sizes = {len(r.indices) for r in rankings.values()}
    if len(sizes) != 1:
        raise ValueError(f"rankings of the same queries expected, not of {sorted(sizes)}")
    ties = tie_ranks([tool.id for tool in catalog.tools])
    queries = sizes.pop()
    parts = [
        rank_scores(_fused({n: _rows(r, cut) for n, r in rankings.items()}, len(catalog), rule, share, k_rrf), ties, k)
        for cut in (blocks(queries, len(catalog)) or [slice(0, 0)])
    ]
    return stack(parts)


def _weights(systems: Sequence[str], weights: Mapping[str, float] | None) -> dict[str, float]:
    """Weight of every system; a misspelled name is refused rather than ignored."""
    for name in weights or ():
        if name not in systems:
            raise UserError(
                f"weight for {name!r}, which is not fused",
                where=f"retriever.fusion.weights.{name}",
                expected=f"one of {', '.join(systems)}",
                fix=did_you_mean(name, systems),
            )
    return {name: float((weights or {}).get(name, 1.0)) for name in systems}


def _rows(ranking: Ranking, cut: slice) -> Ranking:
    """Some queries of a ranking."""
    return Ranking(indices=ranking.indices[cut], scores=ranking.scores[cut])


def _fused(
    rankings: Mapping[str, Ranking], tools: int, rule: str, weights: Mapping[str, float], k_rrf: float
) -> np.ndarray:
    """Fused scores, float64 [query, tool]; -inf where no system ranked the tool."""
    queries = len(next(iter(rankings.values())).indices)
    total = np.zeros((queries, tools))
    ranked = np.zeros((queries, tools), dtype=bool)
    for name, ranking in rankings.items():
        there = ranking.indices != NO_TOOL
        points, missing = _reciprocal(ranking, k_rrf) if rule == "rrf" else _normalised(ranking, there, rule)
        rows, ranks = np.nonzero(there)
        # Worst rank first: of a tool that stands twice, the better rank is written last and stays.
        rows, ranks = rows[::-1], ranks[::-1]
        scores = np.broadcast_to(missing[:, None], total.shape).copy()
        scores[rows, ranking.indices[rows, ranks]] = points[rows, ranks]
        ranked[rows, ranking.indices[rows, ranks]] = True
        total += weights[name] * scores
    return np.where(ranked, total, -np.inf)


def _reciprocal(ranking: Ranking, k_rrf: float) -> tuple[np.ndarray, np.ndarray]:
    """Points of every rank [query, rank], and of tools that were not ranked [query]."""
    queries, depth = ranking.indices.shape
    return np.broadcast_to(1.0 / (k_rrf + np.arange(1, depth + 1)), (queries, depth)), np.zeros(queries)


def _normalised(ranking: Ranking, there: np.ndarray, rule: str) -> tuple[np.ndarray, np.ndarray]:
    """Normalised scores [query, rank], and the minimum [query] that tools that were not ranked get.

    Where a system gives all of its tools one score there is no scale: min-max says 1 for them and 0 for the rest.
    """
    scores = np.where(there, ranking.scores, np.nan)
    empty = ~there.any(axis=1)
    scores[empty] = 0.0
    low, high = np.nanmin(scores, axis=1), np.nanmax(scores, axis=1)
    if rule == "minmax":
        flat = high == low
        points = (scores - low[:, None]) / np.where(flat, 1.0, high - low)[:, None]
        points[flat & ~empty] += 1.0
        return points, np.zeros(len(scores))
    deviation = np.nanstd(scores, axis=1)
    points = (scores - np.nanmean(scores, axis=1)[:, None]) / np.where(deviation > 0, deviation, 1.0)[:, None]
    return points, np.nanmin(points, axis=1)


class Fusion:
    """A retriever that fuses others.

    Args:
        members: name -> retriever.
        rule: rrf | minmax | zscore.
        weights: name -> weight; 1 where missing.
        k_rrf: damping of high ranks.
        depth: how deep every member ranks before fusing (at least the depth asked of the fusion).
        fitted: the members are fitted already; `fit` then only takes the catalog.

    Raises:
        UserError: fewer than two members.
    """

    def __init__(
        self,
        members: Mapping[str, Retriever],
        rule: str = "rrf",
        weights: Mapping[str, float] | None = None,
        k_rrf: float = 60.0,
        depth: int = 100,
        fitted: bool = False,
    ) -> None:
        if len(members) < 2:
            raise UserError(
                f"{len(members)} member(s) to fuse", where="retriever.fusion.members", expected="two or more"
            )
        self.members = dict(members)
        self.rule, self.weights, self.k_rrf, self.depth, self.fitted = rule, weights, k_rrf, depth, fitted
        self._catalog: Catalog | None = None

    def fit(self, catalog: Catalog, train: Sequence[Query] = ()) -> Self:
        """Fit every member."""
        self._catalog = catalog
        if not self.fitted:
            self.members = {name: member.fit(catalog, train) for name, member in self.members.items()}
        return self

    def facts(self) -> dict[str, float]:
        """What the members tell, by their names."""
        told = {name: member.facts() for name, member in self.members.items() if isinstance(member, Reporting)}
        return {f"{name} {key}": value for name, facts in told.items() for key, value in facts.items()}

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        """Rank with every member, then fuse."""
        if self._catalog is None:
            raise RuntimeError("fit the fusion before searching")
        rankings = {name: member.search(queries, max(k, self.depth)) for name, member in self.members.items()}
        return fuse(rankings, self._catalog, k, self.rule, self.weights, self.k_rrf)
