"""Few queries that stand for many: k-means over embeddings, and of every cluster the query nearest to its centre."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

ITERATIONS = 25


def representatives(vectors: np.ndarray, k: int, seed: int) -> list[int]:
    """Positions of up to k rows, one per k-means cluster: the nearest to its centroid, the first of equally near ones.

    Fewer distinct rows than k are all kept, each once. A cluster that ends up without rows gives none, so the result
    may be shorter than k. Deterministic: seeded, one thread, no subsampling.

    Args:
        vectors: float32 [item, dimension].
        k: clusters.
        seed: of the first centroids.

    Returns:
        Ascending positions.

    Source: TOOLRET's per-task sampling; 25 iterations are faiss's default.
    """
    _, first = np.unique(vectors, axis=0, return_index=True)
    if len(first) <= k:
        return sorted(first.tolist())
    distances, clusters = _nearest_centroids(vectors, k, seed)
    chosen: dict[int, int] = {}
    for i in np.lexsort((np.arange(len(vectors)), distances)).tolist():
        chosen.setdefault(int(clusters[i]), i)
    return sorted(chosen.values())


def _nearest_centroids(vectors: np.ndarray, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Squared distance to the nearest centroid, and which one it is."""
    import faiss

    rows = np.ascontiguousarray(vectors, dtype=np.float32)
    means = faiss.Kmeans(
        rows.shape[1], k, niter=ITERATIONS, seed=seed % 2**31, min_points_per_centroid=1,
        max_points_per_centroid=len(rows),
    )  # fmt: skip
    with _one_thread():
        means.train(rows)
        distances, clusters = means.index.search(rows, 1)
    return distances[:, 0].round(6), clusters[:, 0]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums in another order would move centroids: the same machine must give the same sample."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
