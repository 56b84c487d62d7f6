from __future__ import annotations

import numpy as np
import pytest
import torch

from toolsavvy.metrics import per_query
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking, rank_scores
from toolsavvy.training.validation import full_recall, recall_of


def golds_of(rng: np.random.Generator, queries: int, tools: int) -> list[list[int]]:
    return [sorted(rng.choice(tools, size=rng.integers(1, 4), replace=False).tolist()) for _ in range(queries)]


def our_recall(ranking: Ranking, golds: list[list[int]], k: int) -> float:
    """The reported metric, which the training's one must equal."""
    return float(np.mean(per_query(ranking, [dict.fromkeys(gold, 1) for gold in golds], k).recall))


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("depth", [2, 5, 12])
@pytest.mark.parametrize("k", [1, 3, 5])
def test_recall_equals_the_reported_metric_whatever_the_scores_sign(sign: float, depth: int, k: int) -> None:
    rng = np.random.default_rng(depth * 10 + k)
    scores = sign * rng.uniform(0.1, 3.0, size=(40, 12))
    golds = golds_of(rng, 40, 12)
    cut = rank_scores(scores, [f"{i:02d}" for i in range(12)], depth)
    assert recall_of(cut, golds, k) == pytest.approx(our_recall(cut, golds, k), abs=1e-6)
    whole = rank_scores(scores, [f"{i:02d}" for i in range(12)], 12)
    assert full_recall(torch.tensor(scores), golds, k) == pytest.approx(our_recall(whole, golds, k), abs=1e-6)


def test_empty_ranks_hit_nothing_and_missed_golds_count() -> None:
    ranking = Ranking(np.array([[3, NO_TOOL, NO_TOOL]]), np.array([[-0.5, -np.inf, -np.inf]]))
    assert recall_of(ranking, [[3, 1]], 3) == pytest.approx(0.5)
    assert recall_of(ranking, [[1]], 1) == recall_of(ranking, [[1]], 3) == recall_of(ranking, [[1]], 10) == 0.0
