"""Vectors to short paths of codes: balanced k-means trees and residual quantization, both injective.

Every function is a deterministic function of its arguments and the seed; vectors are float [n, dim].
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

LLOYD_STEPS = 15
SINKHORN_STEPS = 50
SAMPLE = 2**16
"""Vectors that centres are computed from, at most: the published catalogs are below it."""


def balanced_tree(vectors: np.ndarray, branches: int, seed: int = 0) -> list[tuple[int, ...]]:
    """Path of each vector in a tree of even k-means clusters, down to leaves of one vector.

    No cluster holds more than ceil(size / branches) of its parent's vectors, so the depth is that of a full tree and
    identical vectors part too. Time grows as n log n: centres of a cluster above `SAMPLE` follow from a sample of it.
    """
    rng = np.random.default_rng(seed)
    paths = np.full((len(vectors), _depth(len(vectors), branches)), -1, dtype=np.int32)
    pending = [(np.arange(len(vectors)), 0)]
    while pending:
        members, depth = pending.pop()
        if len(members) <= branches:
            paths[members, depth] = np.arange(len(members))
            continue
        labels = balanced_kmeans(vectors, branches, rng, members)
        paths[members, depth] = labels
        order = np.argsort(labels, kind="stable")
        clusters = np.split(members[order], np.cumsum(np.bincount(labels, minlength=branches))[:-1])
        pending += [(cluster, depth + 1) for cluster in clusters if len(cluster)]
    ends = (paths >= 0).sum(1).tolist()
    return [tuple(path[:end]) for path, end in zip(paths.tolist(), ends, strict=True)]


def _depth(count: int, branches: int) -> int:
    """Levels of a full tree over `count` leaves."""
    levels = 1
    while count > branches:
        count, levels = -(-count // branches), levels + 1
    return levels


def balanced_kmeans(
    vectors: np.ndarray, clusters: int, rng: np.random.Generator, members: np.ndarray | None = None
) -> np.ndarray:
    """Label of each vector, int64 [n]; no label occurs more than ceil(n / clusters) times.

    Args:
        vectors: float [all, dim].
        clusters: how many.
        rng: draws the first centres, and the sample that more than `SAMPLE` vectors' centres follow from.
        members: int64 [n], rows of `vectors` to divide; None: all. Large clusters are never copied as a whole.
    """
    members = np.arange(len(vectors)) if members is None else members
    if len(members) <= SAMPLE:
        return _lloyd(vectors[members], clusters, rng)[0]
    centres = _lloyd(vectors[np.sort(rng.choice(members, SAMPLE, replace=False))], clusters, rng)[1]
    blocks = (members[i : i + SAMPLE] for i in range(0, len(members), SAMPLE))
    costs = np.concatenate([squared_distances(vectors[block], centres) for block in blocks])
    return assign(costs, np.full(clusters, -(-len(members) // clusters)))


def _lloyd(vectors: np.ndarray, clusters: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Balanced k-means of all vectors at once: labels and centres."""
    capacity = -(-len(vectors) // clusters)
    centres = vectors[rng.choice(len(vectors), clusters, replace=False)]
    labels = np.full(len(vectors), -1)
    for _ in range(LLOYD_STEPS):
        new = assign(squared_distances(vectors, centres), np.full(clusters, capacity))
        if np.array_equal(new, labels):
            break
        labels = new
        centres = _means(vectors, labels, centres)
    return labels, centres


def assign(costs: np.ndarray, capacities: np.ndarray) -> np.ndarray:
    """Cheap assignment of rows to columns within capacities, int64 [n].

    In rounds: every open row asks for its cheapest open column, and a column that is asked by too many keeps those that
    would lose most elsewhere. A round settles all rows or fills a column, so there are at most as many as columns.

    Args:
        costs: float [n, m].
        capacities: int [m], together at least n.
    """
    labels, free = np.full(len(costs), -1, dtype=np.int64), capacities.astype(np.int64).copy()
    left = np.arange(len(costs))
    while len(left):
        open_columns = np.flatnonzero(free)
        part = costs[np.ix_(left, open_columns)]
        choice = part.argmin(1)
        regret = np.zeros(len(left))
        if len(open_columns) > 1:
            lowest = np.partition(part, 1, axis=1)
            regret = lowest[:, 1] - lowest[:, 0]
        order = np.lexsort((-regret, choice))
        asked = np.bincount(choice, minlength=len(open_columns))
        rank = np.arange(len(left)) - np.repeat(np.cumsum(asked) - asked, asked)
        taken = order[rank < free[open_columns][choice[order]]]
        labels[left[taken]] = open_columns[choice[taken]]
        free -= np.bincount(labels[left[taken]], minlength=len(free))
        left = left[labels[left] < 0]
    return labels


def residual_codes(
    vectors: np.ndarray, branches: int, levels: int, seed: int = 0, *, sinkhorn: bool = False
) -> list[tuple[int, ...]]:
    """Path of each vector by k-means on the residuals of the levels before; codes mean the same after every prefix.

    At the last level the vectors that share a prefix are assigned to different codes, next-nearest where the nearest is
    taken; only where they outnumber the codes does a further level keep them apart.

    Args:
        vectors: float [n, dim].
        branches: codes per level.
        levels: at least 1.
        seed: of all draws.
        sinkhorn: choose the last level's codes by a transport plan that uses all of them evenly.
    """
    rng = np.random.default_rng(seed)
    residual, prefix = vectors.astype(np.float64), np.zeros((len(vectors), 0), dtype=np.int64)
    for _ in range(levels - 1):
        labels, centres = kmeans(residual, branches, rng)
        residual = residual - centres[labels]
        prefix = np.column_stack([prefix, labels])
    _, centres = kmeans(residual, branches, rng)
    costs = squared_distances(residual, centres)
    if costs.shape[1] < branches:  # fewer vectors than codes
        costs = np.pad(costs, ((0, 0), (0, branches - costs.shape[1])), constant_values=costs.max(initial=0.0) + 1.0)
    return _part(prefix, sinkhorn_costs(costs) if sinkhorn else costs, branches)


def _part(prefix: np.ndarray, costs: np.ndarray, branches: int) -> list[tuple[int, ...]]:
    """Finish each prefix with codes of its own, and number what still shares one."""
    groups: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
    for row, codes in enumerate(prefix.tolist()):
        groups[tuple(codes)].append(row)
    paths: list[tuple[int, ...]] = [()] * len(prefix)
    for head, rows in groups.items():
        labels = assign(costs[rows], np.full(branches, -(-len(rows) // branches)))
        cells: defaultdict[int, list[int]] = defaultdict(list)
        for row, label in zip(rows, labels.tolist(), strict=True):
            cells[label].append(row)
        for label, cell in cells.items():
            for tail, row in zip(_numbers(len(cell), branches), cell, strict=True):
                paths[row] = (*head, label, *tail)
    return paths


def _numbers(count: int, branches: int) -> Sequence[tuple[int, ...]]:
    """`count` different suffixes: nothing for one, else its number in digits of base `branches`."""
    width = 0
    while branches**width < count:
        width += 1
    return [tuple(n // branches**d % branches for d in reversed(range(width))) for n in range(count)]


def kmeans(vectors: np.ndarray, clusters: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Plain Lloyd: labels int64 [n] and centres [min(clusters, n), dim]; empty clusters move to far vectors."""
    centres = vectors[rng.choice(len(vectors), min(clusters, len(vectors)), replace=False)]
    labels = np.full(len(vectors), -1)
    for _ in range(LLOYD_STEPS):
        distances = squared_distances(vectors, centres)
        new = distances.argmin(1)
        if np.array_equal(new, labels):
            break
        labels = new
        centres = _means(vectors, labels, centres)
        empty = np.flatnonzero(np.bincount(labels, minlength=len(centres)) == 0)
        centres[empty] = vectors[np.argsort(-distances.min(1), kind="stable")[: len(empty)]]
    return squared_distances(vectors, centres).argmin(1), centres


def _means(vectors: np.ndarray, labels: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Mean of each cluster; an empty one keeps its centre."""
    counts = np.bincount(labels, minlength=len(centres))
    order = np.argsort(labels, kind="stable")
    used = np.flatnonzero(counts)
    starts = (np.cumsum(counts) - counts)[used]
    means = centres.astype(np.float64).copy()
    means[used] = np.add.reduceat(vectors[order], starts, axis=0, dtype=np.float64) / counts[used, None]
    return means.astype(centres.dtype)


def squared_distances(vectors: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Float [n, m] squared Euclidean distances."""
    inner = vectors @ centres.T
    return np.maximum((vectors**2).sum(1)[:, None] - 2 * inner + (centres**2).sum(1)[None], 0)


def sinkhorn_costs(costs: np.ndarray, sharpness: float = 10.0) -> np.ndarray:
    """Costs [n, m] shifted so that their softmax is the transport plan with all columns used evenly (Sinkhorn-Knopp).

    Args:
        costs: float [n, m].
        sharpness: inverse temperature in units of the mean cost.
    """
    scaled = -costs * (sharpness / max(float(costs.mean()), 1e-12))
    column = np.zeros(costs.shape[1])
    for _ in range(SINKHORN_STEPS):
        row = -_logsumexp(scaled + column, axis=1)
        column = -_logsumexp(scaled + row[:, None], axis=0)
    return -(scaled + column)


def _logsumexp(values: np.ndarray, axis: int) -> np.ndarray:
    top = values.max(axis=axis, keepdims=True)
    return np.squeeze(top, axis) + np.log(np.exp(values - top).sum(axis=axis))
