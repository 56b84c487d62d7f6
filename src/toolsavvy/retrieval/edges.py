"""The tool graph: which tools belong together, by use, service, parameters and meaning, and random walks over it."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np

from toolsavvy.catalog import Catalog, Query, split_words
from toolsavvy.retrieval.ranking import blocks, rank_scores, tie_ranks

ROUNDS = 1000
"""Power iterations at most; a damping below 0.98 needs fewer at the default tolerance."""


class Weights(NamedTuple):
    """Weight of every kind of edges: used together in training, one service, parameters, similar documents."""

    co_use: float = 0.0
    group: float = 0.0
    parameters: float = 0.0
    semantic: float = 0.0


KINDS = Weights._fields
"""Kinds of edges, in the order of the settings."""


@dataclass(frozen=True)
class Edges:
    """Edges of every kind, each tool's weights summing to 1 within a kind (0 where it has none).

    Args:
        explicit: kind -> sparse float64 [tool, tool], rows normalised.
        groups: sparse float64 [tool, group], 1 where a tool is a member; every member is linked to all others, which
            is never written out: a service of 20,000 tools has 400 million such edges.
    """

    explicit: Mapping[str, Any]
    groups: Any

    def taught(self, catalog: Catalog, train: Sequence[Query]) -> Self:
        """The same with the co-use of other training queries."""
        return replace(self, explicit={**self.explicit, "co_use": _normalised(_co_use(catalog, train))})

    @property
    def mates(self) -> np.ndarray:
        """Other members of each tool's group, float64 [tool]."""
        sizes = np.asarray(self.groups.sum(axis=0)).ravel()
        return np.maximum(self.groups @ (sizes - 1.0), 0.0)


@dataclass(frozen=True)
class ToolGraph:
    """One random walk over all kinds of edges; a tool without any is left to the restart.

    Args:
        matrix: sparse float64 [tool, tool], probabilities of the steps along explicit edges.
        groups: as in `Edges`.
        per_mate: float64 [tool], probability of the step to each single mate.
    """

    matrix: Any
    groups: Any
    per_mate: np.ndarray

    def __len__(self) -> int:
        """Number of tools."""
        return len(self.per_mate)

    def step(self, mass: np.ndarray) -> np.ndarray:
        """Where probability mass, float64 [tool, query], is after a step; that of isolated tools is gone."""
        spread = self.per_mate[:, None] * mass
        return self.matrix.T @ mass + self.groups @ (self.groups.T @ spread) - _members(self.groups)[:, None] * spread

    def isolated(self) -> np.ndarray:
        """True for tools without edges, bool [tool]."""
        return (np.asarray(self.matrix.sum(axis=1)).ravel() == 0) & (self.per_mate == 0)


def _members(groups: Any) -> np.ndarray:
    """1.0 for tools that have a group, float64 [tool]."""
    return np.asarray(groups.sum(axis=1)).ravel()


def build_edges(
    catalog: Catalog, train: Sequence[Query], neighbours: int, vectors: np.ndarray | None, kinds: Sequence[str] = KINDS
) -> Edges:
    """Find the edges of some kinds.

    `co_use`: how often two tools are gold of one training query. `group`: the same service. `parameters`: parameter
    names shared, or results of one tool that are parameters of the other, weighted by how rare a name is. `semantic`:
    cosine of the documents' embeddings. The last two keep the nearest `neighbours` of every tool, both ways.

    Args:
        catalog: the tools.
        train: training queries, the only ones that count for `co_use`.
        neighbours: edges per tool.
        vectors: float32 [tool, dimension], needed for `semantic` alone.
        kinds: what is wanted.

    Raises:
        ValueError: semantic edges without vectors.
    """
    from scipy.sparse import csr_array

    explicit: dict[str, Any] = {}
    if "co_use" in kinds:
        explicit["co_use"] = _normalised(_co_use(catalog, train))
    if "parameters" in kinds:
        explicit["parameters"] = _normalised(_both_ways(_nearest_by_name(catalog, neighbours)))
    if "semantic" in kinds:
        if vectors is None:
            raise ValueError("semantic edges need the tools' embeddings")
        explicit["semantic"] = _normalised(_both_ways(_nearest_by_meaning(catalog, vectors, neighbours)))
    named = _groups(catalog) if "group" in kinds else []
    rows = [tool for members in named for tool in members]
    columns = [number for number, members in enumerate(named) for _ in members]
    shape = (len(catalog), max(1, len(named)))
    return Edges(explicit, csr_array((np.ones(len(rows)), (rows, columns)), shape=shape))


def mix(edges: Edges, chosen: Weights) -> ToolGraph:
    """Walk along kind t with probability w_t over the sum of the weights of the kinds that the tool has edges of."""
    from scipy.sparse import csr_array, diags_array

    tools, weights = edges.groups.shape[0], chosen._asdict()
    mates = edges.mates
    has = {kind: np.asarray(matrix.sum(axis=1)).ravel() > 0 for kind, matrix in edges.explicit.items()}
    has["group"] = mates > 0
    total = sum((weights[kind] * there for kind, there in has.items()), np.zeros(tools))
    share = {k: np.divide(weights[k], total, out=np.zeros(tools), where=total > 0) * has[k] for k in has}
    matrix = csr_array((tools, tools))
    for kind, part in edges.explicit.items():
        matrix = matrix + diags_array(share[kind]) @ part
    per_mate = np.divide(share["group"], mates, out=np.zeros(tools), where=mates > 0)
    return ToolGraph(csr_array(matrix), edges.groups, per_mate)


def pagerank(graph: ToolGraph, restart: np.ndarray, damping: float, tolerance: float = 1e-6) -> np.ndarray:
    """Personalised PageRank (Haveliwala, WWW 2002): p = (1 - damping) restart + damping (p P), by power iteration.

    Mass on a tool without edges goes back to the restart. A step shrinks the distance to the solution by the damping,
    so the iteration stops where the L1 error of every query is below the tolerance.

    Args:
        graph: the walk P.
        restart: float64 [query, tool], rows sum to 1, or to 0 for a query that found nothing.
        damping: probability of following an edge, below 1.
        tolerance: L1 error.

    Returns:
        float64 [query, tool].
    """
    source = np.ascontiguousarray(restart.T, dtype=np.float64)
    isolated = graph.isolated()
    mass = source
    for _ in range(ROUNDS):
        lost = mass[isolated].sum(axis=0)
        moved = (1 - damping + damping * lost) * source + damping * graph.step(mass)
        change = np.abs(moved - mass).sum(axis=0).max(initial=0.0)
        mass = moved
        if change * damping <= tolerance * (1 - damping):
            break
    return np.maximum(mass.T, 0.0)


def _normalised(matrix: Any) -> Any:
    """Scale rows to sum to 1; empty ones stay empty."""
    from scipy.sparse import diags_array

    sums = np.asarray(matrix.sum(axis=1)).ravel()
    return diags_array(np.divide(1.0, sums, out=np.zeros(len(sums)), where=sums > 0)) @ matrix


def _both_ways(matrix: Any) -> Any:
    """An edge that one side has among its nearest is an edge of both."""
    return matrix.maximum(matrix.T)


def _co_use(catalog: Catalog, train: Sequence[Query]) -> Any:
    """In how many training queries two tools are both gold: sparse [tool, tool]."""
    from scipy.sparse import csr_array

    counts: Counter[tuple[int, int]] = Counter()
    for query in train:
        golds = sorted(catalog.index[tool] for tool in query.relevant if tool in catalog.index)
        for a, b in combinations(golds, 2):
            counts[a, b] += 1
            counts[b, a] += 1
    pairs = np.array(sorted(counts), dtype=np.int64).reshape(-1, 2)
    values = np.array([counts[a, b] for a, b in pairs.tolist()], dtype=np.float64)
    return csr_array((values, (pairs[:, 0], pairs[:, 1])), shape=(len(catalog), len(catalog)))


def _groups(catalog: Catalog) -> list[list[int]]:
    """Members of every named group, in catalog order."""
    members: dict[str, list[int]] = defaultdict(list)
    for position, tool in enumerate(catalog.tools):
        if tool.group:
            members[tool.group].append(position)
    return list(members.values())


def property_names(schema: Any) -> Iterator[str]:
    """Names of the properties of a JSON Schema at any depth, spelled as words."""
    if not isinstance(schema, Mapping):
        return
    properties = schema.get("properties")
    for name, part in properties.items() if isinstance(properties, Mapping) else ():
        yield split_words(str(name))
        yield from property_names(part)
    yield from property_names(schema.get("items"))


def _names(catalog: Catalog) -> tuple[Any, Any]:
    """Which names each tool takes and gives, sparse [tool, name] twice, times each name's rarity, rows of length 1.

    Rarity is log(tools / tools with the name): a name that every tool has links none.
    """
    from scipy.sparse import csr_array, diags_array

    taken = [dict.fromkeys(property_names(tool.parameters)) for tool in catalog.tools]
    given = [dict.fromkeys(property_names(tool.returns)) for tool in catalog.tools]
    frequency = Counter(name for a, b in zip(taken, given, strict=True) for name in {**a, **b})
    column = {name: i for i, name in enumerate(sorted(frequency))}
    rarity = np.array([math.log(len(catalog) / frequency[name]) for name in column])

    def matrix(names: Sequence[Mapping[str, None]]) -> Any:
        rows = [row for row, found in enumerate(names) for _ in found]
        columns = [column[name] for found in names for name in found]
        shape = (len(catalog), max(1, len(column)))
        weighted = csr_array((rarity[columns] if columns else [], (rows, columns)), shape=shape, dtype=np.float64)
        lengths = np.sqrt(np.asarray((weighted * weighted).sum(axis=1)).ravel())
        return diags_array(np.divide(1.0, lengths, out=np.zeros(len(lengths)), where=lengths > 0)) @ weighted

    return matrix(taken), matrix(given)


def _nearest_by_name(catalog: Catalog, neighbours: int) -> Any:
    """Cosine of parameters with parameters plus that of results with parameters, either way: sparse [tool, tool]."""
    from scipy.sparse import vstack

    taken, given = _names(catalog)
    rows = [
        _nearest(taken[cut] @ taken.T + given[cut] @ taken.T + taken[cut] @ given.T, cut.start, neighbours)
        for cut in blocks(len(catalog), len(catalog))
    ]
    return vstack(rows, format="csr")


def _nearest(similar: Any, start: int, neighbours: int) -> Any:
    """The largest entries of each row of a sparse block [row, tool], without the row's own tool (start + row)."""
    from scipy.sparse import csr_array

    similar = csr_array(similar)
    kept: list[np.ndarray] = []
    for row in range(similar.shape[0]):
        span = np.arange(similar.indptr[row], similar.indptr[row + 1])
        span = span[(similar.indices[span] != start + row) & (similar.data[span] > 0)]
        kept.append(span[np.lexsort((similar.indices[span], -similar.data[span]))[:neighbours]])
    rows = np.repeat(np.arange(len(kept)), [len(span) for span in kept])
    chosen = np.concatenate([*kept, np.zeros(0, dtype=np.int64)])
    return csr_array((similar.data[chosen], (rows, similar.indices[chosen])), shape=similar.shape)


def _nearest_by_meaning(catalog: Catalog, vectors: np.ndarray, neighbours: int) -> Any:
    """Cosine with the nearest tools, where it is above 0: sparse [tool, tool]."""
    from scipy.sparse import csr_array

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    ties = tie_ranks([tool.id for tool in catalog.tools])
    rows, columns, values = [], [], []
    for cut in blocks(len(catalog), len(catalog)):
        scores = unit[cut] @ unit.T
        scores[np.arange(len(scores)), np.arange(cut.start, cut.stop)] = -np.inf
        near = rank_scores(scores, ties, min(neighbours, len(catalog)))
        row, rank = np.nonzero(near.scores > 0)
        rows.append(row + cut.start)
        columns.append(near.indices[row, rank])
        values.append(near.scores[row, rank])
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return csr_array(entries, shape=(len(catalog), len(catalog)))
