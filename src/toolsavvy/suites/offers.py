"""The tools that every system offers for the requests of suite=downstream."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolsavvy.catalog import Catalog, Query, Tool
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking
from toolsavvy.suites.catalog_test import Rankings
from toolsavvy.tasks import ParamTask


@dataclass(frozen=True)
class Offers:
    """The tools that every system offers for the queries of a split.

    Args:
        split: its name.
        catalog: of the tools.
        queries: that are asked.
        tasks: theirs, in the same order; `tools` holds the catalog's right tool alone.
        rankings: system -> [query, depth].
        ks: how many tools are offered.
    """

    split: str
    catalog: Catalog
    queries: Sequence[Query]
    tasks: Sequence[ParamTask]
    rankings: Mapping[str, Ranking]
    ks: tuple[int, ...]

    def __iter__(self) -> Iterator[tuple[str, int, int, tuple[Tool, ...]]]:
        """System, k, position of the query, tools; ranks without a tool are left out."""
        for name, ranking in self.rankings.items():
            for k in self.ks:
                for i, row in enumerate(ranking.indices[:, :k].tolist()):
                    yield name, k, i, tuple(self.catalog.tools[t] for t in row if t != NO_TOOL)


def drawn(count: int, n: int | None, seed: int) -> np.ndarray:
    """Ascending positions of n of `count` items, all where there are no more."""
    if n is None or n >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).permutation(count)[:n])


def oracle_ranking(catalog: Catalog, queries: Sequence[Query], depth: int, seed: int) -> Ranking:
    """The right tool first, then others at random: what a retriever without a fault at rank 1 would offer."""
    rng = np.random.default_rng(seed)
    indices = np.empty((len(queries), depth), dtype=np.int64)
    for i, query in enumerate(queries):
        gold = catalog.index[min(query.gold)]
        others = rng.permutation(len(catalog))
        indices[i] = [gold, *others[others != gold][: depth - 1]]
    return Ranking(indices, np.tile(-np.arange(depth, dtype=np.float64), (len(queries), 1)))


def slices_of(split: str, tasks: Sequence[ParamTask]) -> dict[str, np.ndarray]:
    """Slice name -> positions of its queries: the split, its levels, its services."""
    groups: dict[str, list[int]] = defaultdict(list)
    for i, task in enumerate(tasks):
        groups[split].append(i)
        groups[f"{split}/level={task.level}"].append(i)
        groups[f"{split}/service={task.tool.group or 'none'}"].append(i)
    return {name: np.array(groups[name]) for name in sorted(groups)}


def deep_enough(splits: Rankings, split: str, name: str, queries: int, depth: int) -> Ranking:
    """A system's ranking of a split, deep enough."""
    found = splits.get(split)
    if found is None or found.indices.shape[0] != queries or found.indices.shape[1] < depth:
        raise ValueError(f"{name} did not rank {queries} queries of split {split} to depth {depth}")
    return found
