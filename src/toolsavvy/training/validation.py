"""torchmetrics' recall inside Lightning modules, with every missed gold in the denominator."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics.retrieval import RetrievalRecall

from toolsavvy.retrieval.ranking import NO_TOOL, Ranking


def full_recall(scores: Tensor, golds: Sequence[Sequence[int]], k: int = 1) -> float:
    """torchmetrics' recall@k over *every* tool's score.

    Args:
        scores: [query, tool].
        golds: gold tools of every query.
        k: cut-off.
    """
    target = torch.zeros(scores.shape, dtype=torch.bool)
    for row, gold in enumerate(golds):
        target[row, list(gold)] = True
    indexes = torch.arange(len(scores))[:, None].expand(scores.shape)
    return float(RetrievalRecall(top_k=k)(scores.detach().cpu().flatten(), target.flatten(), indexes.flatten()))


def recall_of(ranking: Ranking, golds: Sequence[Sequence[int]], k: int = 1) -> float:
    """torchmetrics' recall@k of a cut ranking: golds that it misses are appended at -inf.

    torchmetrics takes the rows it is given for all there are, so a missed gold would vanish from its denominator.
    """
    scores, target, indexes = [], [], []
    for row, gold in enumerate(golds):
        ranked = [int(t) for t in ranking.indices[row]]
        missed = [t for t in gold if t not in ranked]
        scores += [*ranking.scores[row].tolist(), *[-torch.inf] * len(missed)]
        target += [*(t != NO_TOOL and t in gold for t in ranked), *[True] * len(missed)]
        indexes += [row] * (len(ranked) + len(missed))
    metric = RetrievalRecall(top_k=k)
    return float(metric(torch.tensor(scores), torch.tensor(target), torch.tensor(indexes)))
