"""A tool graph that re-scores a first stage: tools that belong with what was found come up together."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from toolsavvy.catalog import Catalog, Query
from toolsavvy.errors import UserError
from toolsavvy.metrics import GoldMatrix, per_query
from toolsavvy.retrieval.edges import KINDS, Edges, ToolGraph, Weights, build_edges, mix, pagerank
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.ranking import Ranking, Reporting, Retriever, blocks, rank_scores, stack, tie_ranks
from toolsavvy.retrieval.restart import DECIMALS, Found, Start, clauses

log = logging.getLogger("toolsavvy")

DAMPINGS, BLENDS = (0.5, 0.8), (0.25, 0.5, 0.75, 1.0)
"""What `tune` tries, with every kind of edges alone and with the weights that were given."""
TUNED_K, TUNED_QUERIES, TUNED_TOLERANCE = 10, 500, 1e-4
"""`tune` maximises completeness at this depth on so many queries at most, drawn by a hash of their text."""


@dataclass(frozen=True)
class Walk:
    """How the graph is used.

    Args:
        weights: of the kinds of edges.
        damping: probability of following an edge instead of restarting.
        blend: weight of PageRank against the first stage; 0 is the first stage itself.
        clauses: restart for every clause of a query rather than for the whole.
    """

    weights: Weights
    damping: float
    blend: float
    clauses: bool


class Graph:
    """A retriever that re-scores another one's best tools by personalised PageRank over a tool graph.

    The first stage's best `depth` tools are where the walk restarts, with probability softmax(z / temperature) of their
    z-scores; the walk then shares out that mass along the edges (`edges.build_edges`). A tool's score is
    (1 - blend) x the first stage's, scaled to 0..1 over those `depth`, plus blend x PageRank over its maximum; tools
    that the first stage missed can come in by their neighbours, with 0 for a first score. Tools that it found deeper
    and that no edge leads to follow in its own order.

    With `tune`, the kinds of edges, damping and blend are chosen for completeness@10 on the `validation` queries, or,
    where there are none, on the training queries, half by half, each half with the co-use edges of the other. Of equal
    settings the one closest to the first stage is taken, which itself is one of them.

    Args:
        first: the first stage.
        encoder: of the semantic edges; not needed without them.
        co_use: weight of edges between golds of one training query.
        group: between tools of one service.
        parameters: between tools that share parameters, or whose results are the other's parameters.
        semantic: between tools with similar documents.
        neighbours: edges of a tool by parameters and by meaning.
        depth: tools of the first stage at which the walk restarts.
        temperature: higher spreads the restart over more of them.
        damping: probability of following an edge instead of restarting, below 1.
        blend: weight of PageRank against the first stage, 0 to 1.
        clauses: restart for every clause of a query rather than for the whole.
        tune: choose the weights, damping, blend and clauses (unless false) on queries that are not for testing.
        fitted: the first stage is fitted already.

    Attributes:
        validation: queries to tune on, set by whoever has them.
        walk: the settings in use, after `fit` those that were chosen.

    Raises:
        UserError: a setting is out of range, no kind of edges has a weight, or semantic edges lack an encoder.
    """

    def __init__(
        self,
        first: Retriever,
        encoder: Encoder | None = None,
        co_use: float = 1.0,
        group: float = 1.0,
        parameters: float = 0.1,
        semantic: float = 0.1,
        neighbours: int = 10,
        depth: int = 100,
        temperature: float = 0.5,
        damping: float = 0.5,
        blend: float = 0.75,
        clauses: bool = True,
        tune: bool = True,
        fitted: bool = False,
    ) -> None:
        walk = Walk(Weights(co_use, group, parameters, semantic), damping, blend, clauses)
        _check(walk, neighbours, depth, temperature)
        if semantic and encoder is None:
            raise UserError(
                "semantic edges need an encoder", where="retriever.graph.encoder", expected="an encoder",
                fix="set retriever.graph.semantic=0 to do without",
            )  # fmt: skip
        self.first, self.encoder, self.neighbours, self.depth = first, encoder, neighbours, depth
        self.temperature, self.tune, self.fitted = temperature, tune, fitted
        self.validation: Sequence[Query] = ()
        self._asked = self.walk = walk
        self._tuned: dict[str, float] = {}
        self._catalog: Catalog | None = None
        self._graph: ToolGraph | None = None

    def fit(self, catalog: Catalog, train: Sequence[Query] = ()) -> Self:
        """Fit the first stage, build the graph, and tune where that is wanted and some query has several golds."""
        self._catalog, self.walk, self._tuned = catalog, self._asked, {}
        if not self.fitted:
            self.first = self.first.fit(catalog, train)
        kinds = [kind for kind, weight in self.walk.weights._asdict().items() if weight]
        vectors = self.encoder.encode_documents(catalog.documents) if "semantic" in kinds and self.encoder else None
        edges = build_edges(catalog, train, self.neighbours, vectors, kinds)
        if self.tune:
            self._choose(catalog, train, edges)
        self._graph = mix(edges, self.walk.weights)
        return self

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        """Rank with the first stage, then re-score."""
        if self._catalog is None or self._graph is None:
            raise RuntimeError("fit the graph before searching")
        k = min(k, len(self._catalog))
        if not self.walk.blend:
            return self.first.search(queries, k)
        ties = tie_ranks([tool.id for tool in self._catalog.tools])
        found = self._found(queries, k, self.walk.clauses)
        cuts = blocks(len(queries), len(self._catalog)) or [slice(0, 0)]
        return stack([self._rank(found.cut(cut), self._graph, ties, k) for cut in cuts])

    def _found(self, queries: Sequence[Query], k: int, by_clause: bool) -> Found:
        """Ask the first stage, for the clauses of the queries too where that is wanted."""
        depth = min(max(k, self.depth), self._size)
        whole = self.first.search(queries, depth)
        if not by_clause:
            return Found(whole, whole, np.arange(len(queries)))
        parts = [[replace(query, text=text) for text in clauses(query.text)] for query in queries]
        asked = self.first.search([part for row in parts for part in row], depth)
        return Found(whole, asked, np.repeat(np.arange(len(parts)), [len(row) for row in parts]))

    def facts(self) -> Mapping[str, float]:
        """What the first stage tells, and what tuning chose: on how many queries, and what it gained on them."""
        told = dict(self.first.facts()) if isinstance(self.first, Reporting) else {}
        return told | self._tuned

    @property
    def _size(self) -> int:
        """Number of tools."""
        return len(self._catalog) if self._catalog is not None else 0

    def _rank(self, found: Found, graph: ToolGraph, ties: np.ndarray, k: int) -> Ranking:
        """Re-score a block of queries."""
        start = Start.of(found, self.depth, len(graph), self.temperature)
        reached = pagerank(graph, start.restart, self.walk.damping)
        return rank_scores(start.blended(reached, self.walk.blend), ties, k)

    def _choose(self, catalog: Catalog, train: Sequence[Query], edges: Edges) -> None:
        """Take the settings with the highest completeness, then nDCG; of equal ones the first tried."""
        folds = self._folds(catalog, train, edges)
        if not any(len(query.relevant) > 1 for _, queries in folds for query in queries):
            log.info("graph: there is no query with several golds to tune on; its settings stay as they are")
            return
        tried: dict[Walk, list[np.ndarray]] = {walk: [] for walk in self._grid()}
        for part, queries in folds:
            self._try(catalog, part, queries, tried)
        quality = {walk: np.concatenate(values).mean(axis=0) for walk, values in tried.items()}
        self.walk = max(tried, key=lambda walk: tuple(np.round(quality[walk], DECIMALS)))
        before, after = (float(quality[walk][0]) for walk in (next(iter(tried)), self.walk))
        self._tuned = {
            "tuned on": float(sum(len(queries) for _, queries in folds)), "C@10 before": before, "C@10 after": after,
            "damping": self.walk.damping, "blend": self.walk.blend, "clauses": float(self.walk.clauses),
            **self.walk.weights._asdict(),
        }  # fmt: skip

    def _folds(self, catalog: Catalog, train: Sequence[Query], edges: Edges) -> list[tuple[Edges, list[Query]]]:
        """Queries to tune on, none with co-use edges of its own, nor of another one with the same text."""
        if self.validation:
            return [(edges, _drawn(self.validation))]
        halves: tuple[list[Query], list[Query]] = ([], [])
        for query in train:
            halves[_hash(query) % 2].append(query)
        sides = [(half, other) for half, other in (halves, halves[::-1]) if half]
        if "co_use" not in edges.explicit:
            return [(edges, _drawn(half, TUNED_QUERIES // 2)) for half, _ in sides]
        return [(edges.taught(catalog, other), _drawn(half, TUNED_QUERIES // 2)) for half, other in sides]

    def _grid(self) -> list[Walk]:
        """The settings to try, the first stage itself first, then low blends before high ones."""
        used = [kind for kind, weight in self._asked.weights._asdict().items() if weight]
        alone = [Weights(**{kind: float(kind == one) for kind in KINDS}) for one in used] if len(used) > 1 else []
        pairs = [(weights, damping) for weights in (self._asked.weights, *alone) for damping in DAMPINGS]
        ways = [(False, pairs)]
        if self._asked.clauses:  # which may be all that helps: without damping, no edge is followed
            ways.append((True, [(self._asked.weights, 0.0), *pairs]))
        walks = [Walk(w, d, blend, way) for blend in BLENDS for way, them in ways for w, d in them]
        return [replace(self._asked, blend=0.0), *walks]

    def _try(
        self, catalog: Catalog, edges: Edges, queries: Sequence[Query], tried: Mapping[Walk, list[np.ndarray]]
    ) -> None:
        """Append every setting's completeness and nDCG, float64 [query, 2], for some queries."""
        ties = tie_ranks([tool.id for tool in catalog.tools])
        for way in dict.fromkeys(walk.clauses for walk in tried):
            found = self._found(queries, TUNED_K, way)
            for cut in blocks(len(queries), len(catalog)):
                gold = GoldMatrix.from_queries(catalog, queries[cut])
                part, start = found.cut(cut), Start.of(found.cut(cut), self.depth, len(catalog), self.temperature)
                reached: dict[tuple[Weights, float], np.ndarray] = {}
                for walk in (walk for walk in tried if walk.clauses == way):
                    key = (walk.weights, walk.damping)
                    if walk.blend and key not in reached:
                        reached[key] = pagerank(mix(edges, walk.weights), start.restart, walk.damping, TUNED_TOLERANCE)
                    scores = start.blended(reached[key], walk.blend) if walk.blend else None
                    ranking = part.whole if scores is None else rank_scores(scores, ties, TUNED_K)
                    found_of = per_query(ranking, gold, TUNED_K)
                    tried[walk].append(np.stack([found_of.completeness, found_of.ndcg], axis=1))


def _hash(query: Query) -> int:
    """Of the text: the same on every machine, and not of the order of the queries."""
    return zlib.crc32(query.text.encode("utf-8", "surrogatepass"))


def _drawn(queries: Sequence[Query], most: int = TUNED_QUERIES) -> list[Query]:
    """At most so many queries, in their order; those of one text are drawn together as far as there is room."""
    kept = sorted(range(len(queries)), key=lambda i: (_hash(queries[i]) // 2, i))[:most]
    return [queries[i] for i in sorted(kept)]


def _check(walk: Walk, neighbours: int, depth: int, temperature: float) -> None:
    """Every setting must be in its range."""
    rules = [(kind, weight, weight >= 0, ">= 0") for kind, weight in walk.weights._asdict().items()]
    rules += [
        ("neighbours", neighbours, neighbours >= 1, ">= 1"),
        ("depth", depth, depth >= 1, ">= 1"),
        ("temperature", temperature, temperature > 0, "> 0"),
        ("damping", walk.damping, 0 <= walk.damping < 1, ">= 0 and < 1"),
        ("blend", walk.blend, 0 <= walk.blend <= 1, "0 to 1"),
    ]
    for key, value, fine, expected in rules:
        if not (np.isfinite(value) and fine):
            raise UserError(f"{value} is out of range", where=f"retriever.graph.{key}", expected=expected)
    if not any(walk.weights):
        raise UserError(
            "no kind of edges has a weight", where="retriever.graph", expected=f"{' or '.join(KINDS)} above 0"
        )
