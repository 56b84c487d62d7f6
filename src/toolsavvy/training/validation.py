"""torchmetrics' recall inside Lightning modules, with every missed gold in the denominator.

torchmetrics counts a hit only where its score is above 0 and orders equal scores as it likes, so what it is given here
is never a log-probability or a cosine but the reciprocal of the rank.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics.retrieval import RetrievalRecall

from toolsavvy.retrieval.ranking import NO_TOOL, Ranking


def full_recall(scores: Tensor, golds: Sequence[Sequence[int]], k: int = 1) -> float:
    """Recall@k by torchmetrics over *every* tool's score; equal scores in column order.

    Args:
        scores: [query, tool].
        golds: gold tools of every query.
        k: cut-off.
    """
    order = scores.detach().cpu().argsort(dim=1, descending=True, stable=True)[:, :k].tolist()
    # The rows below rank k matter only through the golds among them.
    ranked = [[tool in gold for tool in tools] for tools, gold in zip(order, map(set, golds), strict=True)]
    return _recall([[*hits, *[True] * (len(set(g)) - sum(hits))] for hits, g in zip(ranked, golds, strict=True)], k)


def recall_of(ranking: Ranking, golds: Sequence[Sequence[int]], k: int = 1) -> float:
    """Recall@k by torchmetrics of a cut ranking: golds that it misses are appended below every rank up to k.

    torchmetrics takes the rows it is given for all there are, so a missed gold would vanish from its denominator.
    """
    hits = []
    for tools, gold in zip(ranking.indices.tolist(), golds, strict=True):
        ranked = [t != NO_TOOL and t in gold for t in tools]
        hits.append([*ranked, *[False] * (k - len(ranked)), *[True] * (len(set(gold)) - sum(ranked))])
    return _recall(hits, k)


def _recall(hits: Sequence[Sequence[bool]], k: int) -> float:
    """Recall@k of rows that say, rank by rank, whether a gold tool stands there."""
    scores = [1 / (rank + 1) for row in hits for rank in range(len(row))]
    indexes = [i for i, row in enumerate(hits) for _ in row]
    target = [hit for row in hits for hit in row]
    return float(RetrievalRecall(top_k=k)(torch.tensor(scores), torch.tensor(target), torch.tensor(indexes)))
