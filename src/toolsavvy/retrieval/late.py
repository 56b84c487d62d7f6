"""Late interaction: every query token finds its best match among a tool's tokens (MaxSim), exactly, in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from toolsavvy.catalog import Catalog, Query
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking, Reporting, Retriever, blocks, rank_scores, stack, tie_ranks
from toolsavvy.retrieval.tokens import TokenEncoder, Tokens

STORAGES = ("float32", "float16")
DOCUMENT_TOKENS, QUERY_TOKENS = 1024, 1024
"""Tokens of a block on either side: 4 MB of similarities, which stay in the processor's cache."""


def maxsim(
    queries: Tokens, documents: Tokens, chosen: np.ndarray | None = None, device: str | None = None
) -> np.ndarray:
    """Sum over a query's tokens of the greatest inner product with a token of the document (ColBERT 2004.12832).

    Documents of one length are scored together, so nothing is padded; whatever the storage, the sums are of 32 bits.

    Args:
        queries: token vectors of queries.
        documents: token vectors of documents.
        chosen: positions of the documents to score; None is all of them.
        device: cpu, cuda, ...; None is the CPU.

    Returns:
        float32 [query, chosen document]; -inf for a document without tokens.
    """
    import torch

    chosen = np.arange(len(documents)) if chosen is None else chosen
    scores = np.full((len(queries), len(chosen)), -np.inf, dtype=np.float32)
    cuts = list(_query_blocks(queries))
    sides = [_on(queries.vectors[rows], device).T for _, rows, _ in cuts]
    for columns in _document_blocks(documents.lengths[chosen]):
        block = _gather(documents, chosen[columns], device)
        for (cut, _, owner), side in zip(cuts, sides, strict=True):
            best = (block.view(-1, block.shape[-1]) @ side).view(*block.shape[:2], -1).amax(1)
            sums = torch.zeros(len(columns), cut.stop - cut.start, device=best.device)
            scores[cut, columns] = sums.index_add_(1, torch.from_numpy(owner).to(best.device), best).T.cpu().numpy()
    return scores


def _on(vectors: np.ndarray, device: str | None) -> Any:
    """A float32 tensor on a device."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32)).to(device or "cpu")


def _query_blocks(queries: Tokens) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Consecutive queries of some tokens: queries, their token rows, and of each row the query within the block."""
    starts = np.append(queries.starts, queries.lengths.sum())
    first = 0
    while first < len(queries):
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + QUERY_TOKENS, side="right")) - 1)
        owner = np.repeat(np.arange(last - first), queries.lengths[first:last])
        yield slice(first, last), slice(int(starts[first]), int(starts[last])), owner
        first = last


def _document_blocks(lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Positions of documents of one length, about DOCUMENT_TOKENS tokens a block; those without tokens are left out."""
    order = np.argsort(lengths, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        length = int(lengths[group[0]]) if len(group) else 0
        step = max(1, DOCUMENT_TOKENS // max(1, length))
        yield from (group[i : i + step] for i in range(0, len(group) if length else 0, step))


def _gather(documents: Tokens, chosen: np.ndarray, device: str | None) -> Any:
    """Token vectors of documents of one length, float32 [document, token, dimension]."""
    length = int(documents.lengths[chosen[0]])
    rows = documents.starts[chosen][:, None] + np.arange(length)
    return _on(documents.vectors[rows.ravel()], device).view(len(chosen), length, -1)


class Late:
    """Late interaction over a bi-encoder's token states or a ColBERT-style checkpoint's token vectors.

    Args:
        encoder: a bi-encoder, or a `multivector.MultiVector`.
        special_tokens: let [CLS], [SEP] and their like of a bi-encoder match too.
        storage: float32 | float16, of the tools' token vectors; the sums are of 32 bits either way.
        first_stage: a retriever whose first tools alone are scored; None scores all tools, which is exact.
        depth: tools that the first stage hands on (at least the depth asked for).

    Raises:
        UserError: unknown storage, a depth below 1, or an encoder that has no token vectors.
    """

    def __init__(
        self,
        encoder: Encoder,
        special_tokens: bool = False,
        storage: str = "float32",
        first_stage: Retriever | None = None,
        depth: int = 1000,
    ) -> None:
        if storage not in STORAGES:
            raise UserError(
                f"{storage!r} is no valid value", where="retriever.late.storage",
                expected=f"one of {', '.join(STORAGES)}", fix=did_you_mean(storage, STORAGES),
            )  # fmt: skip
        if depth < 1:
            raise UserError(f"depth={depth} is out of range", where="retriever.late.depth", expected=">= 1")
        if not isinstance(encoder, Encoder):
            raise UserError(
                f"{type(encoder).__name__} has no token vectors", where="retriever.late.encoder",
                expected="a model in memory: a bi-encoder or a ColBERT-style checkpoint", fix="choose encoder=minilm",
            )  # fmt: skip
        self.encoder, self.first_stage, self.depth = encoder, first_stage, depth
        self.tokens = TokenEncoder(encoder, special_tokens, storage)
        self._documents = Tokens.of([])
        self._document_of = np.zeros(0, dtype=np.int64)
        self._ties = np.zeros(0, dtype=np.int64)

    def fit(self, catalog: Catalog, train: Sequence[Query] = ()) -> Self:
        """Encode the documents, tools with the same document once; training queries go to the first stage alone."""
        # One entry per distinct document: tools that share it tie exactly.
        place = {document: i for i, document in enumerate(dict.fromkeys(catalog.documents))}
        self._document_of = np.array([place[document] for document in catalog.documents], dtype=np.int64)
        self._ties = tie_ranks([tool.id for tool in catalog.tools])
        self._documents = self.tokens.documents(list(place))
        if self.first_stage is not None:
            self.first_stage = self.first_stage.fit(catalog, train)
        return self

    def facts(self) -> dict[str, float]:
        """What the first stage tells."""
        return dict(self.first_stage.facts()) if isinstance(self.first_stage, Reporting) else {}

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        """Rank min(k, tools) tools per query; with a first stage, those that it did not hand on are `NO_TOOL`."""
        cuts = blocks(len(queries), len(self._ties)) or [slice(0, 0)]
        return stack([rank_scores(self._scores(queries[cut], k), self._ties, k) for cut in cuts])

    def _scores(self, queries: Sequence[Query], k: int) -> np.ndarray:
        """MaxSim of every tool, float32 [query, tool]; -inf where the first stage left it out."""
        if not queries:
            return np.zeros((0, len(self._ties)), dtype=np.float32)
        texts = [self.encoder.query_text(query) for query in queries]
        first = {text: row for row, text in reversed(list(enumerate(texts)))}  # equal texts must score alike
        distinct = [queries[row] for row in first.values()]
        tokens, device = self.tokens.queries(distinct), str(self.encoder.model.device)
        row_of = {text: i for i, text in enumerate(first)}
        rows = [row_of[text] for text in texts]
        if self.first_stage is None:
            return maxsim(tokens, self._documents, device=device)[:, self._document_of][rows]
        pools = self.first_stage.search(queries, max(k, self.depth)).indices
        return self._pooled(tokens, rows, pools, device)

    def _pooled(self, tokens: Tokens, rows: Sequence[int], pools: np.ndarray, device: str) -> np.ndarray:
        """The same for the tools in every query's pool alone."""
        scores = np.full((len(rows), len(self._ties)), -np.inf, dtype=np.float32)
        for i, (row, pool) in enumerate(zip(rows, pools, strict=True)):
            tools = pool[pool != NO_TOOL]
            documents, back = np.unique(self._document_of[tools], return_inverse=True)
            start, length = int(tokens.starts[row]), int(tokens.lengths[row])
            one = Tokens(tokens.vectors[start : start + length], tokens.lengths[row : row + 1])
            scores[i, tools] = maxsim(one, self._documents, documents, device)[0, back]
        return scores
