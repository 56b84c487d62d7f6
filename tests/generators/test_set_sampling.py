from __future__ import annotations

import numpy as np

from toolsavvy.generators.sampling import representatives


def blobs(sizes: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points around far corners, and the corner of each."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    points = 10 * np.eye(len(sizes), 8)[owner] + 0.1 * rng.standard_normal((len(owner), 8))
    order = rng.permutation(len(owner))
    return points[order].astype(np.float32), owner[order]


def test_one_query_of_each_cluster_and_it_is_the_one_nearest_to_the_mean() -> None:
    points, owner = blobs([40, 5, 20, 12])
    chosen = representatives(points, 4, seed=0)
    assert chosen == sorted(set(chosen))
    assert sorted(owner[chosen]) == [0, 1, 2, 3]
    for i in chosen:
        own = np.flatnonzero(owner == owner[i])
        distance = np.linalg.norm(points[own] - points[own].mean(axis=0), axis=1)
        assert i == own[distance.argmin()]


def test_the_same_seed_gives_the_same_sample_whatever_the_threads() -> None:
    import faiss

    points, _ = blobs([30, 30, 30, 30], seed=1)
    before = faiss.omp_get_max_threads()
    first = representatives(points, 25, seed=3)
    try:
        faiss.omp_set_num_threads(2)
        assert representatives(points, 25, seed=3) == first
        assert faiss.omp_get_max_threads() == 2
    finally:
        faiss.omp_set_num_threads(before)
    assert 20 <= len(first) <= 25
    assert representatives(points, 25, seed=4) != first


def test_fewer_distinct_points_than_clusters_are_all_kept_once() -> None:
    points = np.array([[1, 0], [0, 1], [1, 0], [0, 1], [1, 0]], dtype=np.float32)
    assert representatives(points, 2, seed=0) == [0, 1]
    assert representatives(points, 9, seed=0) == [0, 1]
    assert representatives(points, 1, seed=0) == [0]
    assert representatives(np.zeros((0, 2), dtype=np.float32), 3, seed=0) == []
