"""A second look at what a first stage found: rerankers over any retriever, and rerankers that score pair by pair."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Protocol, Self

import numpy as np

from toolsavvy import assets
from toolsavvy.catalog import Catalog, Query
from toolsavvy.checksums import load_array, save_array
from toolsavvy.errors import UserError
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking, Reporting, Retriever, tie_ranks
from toolsavvy.retrieval.scorers import Pair, Reading, Scorer, Weights, check_weights, load_scorer
from toolsavvy.retrieval.templates import check_sizes, check_template

log = logging.getLogger("toolsavvy")

PAIRS_PER_BLOCK = 4096
"""Pairs that are scored and kept at once: what a killed run loses at most."""


class Reranker(Protocol):
    """Anything that scores a few candidates of every query anew."""

    def rerank(self, queries: Sequence[Query], documents: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Scores of every query's candidates, float64 [candidate] each, in the order given; higher is better.

        Args:
            queries: the queries.
            documents: of each query, its candidates' documents, the first stage's best first.
        """
        ...


class Rerank:
    """A retriever that reranks the first `depth` tools of another one.

    Reranked tools come first, by the reranker's score and the common tie rule; the first stage's other tools follow in
    its own order, their scores moved below the lowest reranked one (`s - best tail score + lowest - 1`), so that scores
    descend over the whole ranking while differences within each part stay as they were. Ranks of the first stage that
    hold no tool are left out and padded at the end.

    Args:
        first: the first stage.
        reranker: what reranks.
        depth: candidates of a query, capped by the catalog and by what the first stage finds.
        fitted: the first stage is fitted already.

    Raises:
        UserError: depth below 1, or a reranker whose window is larger than the pool of candidates.
    """

    def __init__(self, first: Retriever, reranker: Reranker, depth: int = 100, fitted: bool = False) -> None:
        if depth < 1:
            raise UserError(f"{depth} is out of range", where="retriever.rerank.depth", expected=">= 1")
        self.first, self.reranker, self.depth, self.fitted = first, reranker, depth, fitted
        self._catalog: Catalog | None = None
        self._check_window(depth, f"depth={depth}")

    def _check_window(self, pool: int, why: str) -> None:
        window = getattr(self.reranker, "window", None)
        if window is not None and window > pool:
            keys = f"reranker.window={pool} or less (retriever.llm_rerank.reranker.window={pool})"
            raise UserError(
                f"a rerank window of {window} is larger than the pool of {pool} candidates ({why})",
                where="reranker.window", expected=f"at most {pool}", fix=f"set {keys}, or a deeper pool",
            )  # fmt: skip

    def fit(self, catalog: Catalog, train: Sequence[Query] = ()) -> Self:
        """Fit the first stage.

        Raises:
            UserError: the reranker's window is larger than the catalog.
        """
        self._check_window(len(catalog), f"the catalog has {len(catalog)} tools")
        self._catalog = catalog
        if not self.fitted:
            self.first = self.first.fit(catalog, train)
        return self

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        """Rank with the first stage, then rerank its best."""
        if self._catalog is None:
            raise RuntimeError("fit the reranker before searching")
        catalog, k = self._catalog, min(k, len(self._catalog))
        found = self.first.search(queries, min(max(k, self.depth), len(catalog)))
        pools = [row[row != NO_TOOL] for row in found.indices[:, : self.depth]]
        scores = self.reranker.rerank(queries, [[catalog.documents[i] for i in pool] for pool in pools])
        ties = tie_ranks([tool.id for tool in catalog.tools])
        indices = np.full((len(queries), k), NO_TOOL, dtype=np.int64)
        values = np.full((len(queries), k), -np.inf)
        for row, (pool, new) in enumerate(zip(pools, scores, strict=True)):
            _check_scores(new, len(pool), queries[row])
            order = np.lexsort((ties[pool], -new))
            head, head_scores = pool[order], new[order]
            tail, tail_scores = _tail(found, row, self.depth, head_scores)
            both, both_scores = np.concatenate([head, tail])[:k], np.concatenate([head_scores, tail_scores])[:k]
            indices[row, : len(both)], values[row, : len(both)] = both, both_scores
        return Ranking(indices, values)

    def facts(self) -> Mapping[str, float]:
        """What the first stage and the reranker tell."""
        told: dict[str, float] = {}
        for part in (self.first, self.reranker):
            told |= dict(part.facts()) if isinstance(part, Reporting) else {}
        return told


def _check_scores(scores: np.ndarray, candidates: int, query: Query) -> None:
    if len(scores) != candidates:
        raise ValueError(f"{len(scores)} scores for {candidates} candidates")
    if not np.isfinite(scores).all():
        raise UserError(
            f"a score of query {query.id!r} is NaN or infinite", where="reranker", expected="finite scores",
            fix="use dtype=float32, or check the model's weights",
        )  # fmt: skip


def _tail(found: Ranking, row: int, depth: int, head: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first stage's tools below the pool, and their scores moved below those of the head."""
    there = found.indices[row, depth:] != NO_TOOL
    tools, scores = found.indices[row, depth:][there], found.scores[row, depth:][there]
    if not len(tools) or not len(head):
        return tools, scores
    return tools, scores - scores[0] + head[-1] - 1.0


class PairReranker:
    """Scores of a model that reads query and document together.

    With an instruction a query is written as `query_template`, without one as `plain_template`. Equal pairs are scored
    once, so that tools with one document tie exactly.

    Args:
        kind: cross_encoder (a classification head) | seq2seq (monoT5) | causal (a model that says yes or no).
        source: hub | path | toy (a tiny cross-encoder with random weights).
        id: repository on the hub.
        revision: commit or tag on the hub.
        path: local folder.
        query_template: with {instruction} and {query}.
        plain_template: with {query}.
        document_template: with {document}.
        use_instruction: use the queries' instructions.
        prompt: of seq2seq and causal models, with {query} then {document}.
        positive: of the same, the vocabulary entry whose logit is the score.
        negative: the one that is subtracted; None takes the logit of `positive` alone.
        max_length: tokens of a pair; None is the model's own limit.
        batch_size: pairs per forward pass.
        dtype: float32 | bfloat16 | float16, of the weights.
        device: cpu, cuda, ...; None chooses.
        cache: keep scores in the cache folder, keyed by weights, settings and texts.
        trust_remote_code: run code that comes with the model.
        seed: of the toy's weights.

    Raises:
        UserError: an unknown or incomplete source, a number below 1, or a template without its field.
    """

    def __init__(
        self,
        kind: str = "cross_encoder",
        source: str = "toy",
        id: str | None = None,
        revision: str | None = None,
        path: str | None = None,
        query_template: str = "Instruct: {instruction}\nQuery: {query}",
        plain_template: str = "{query}",
        document_template: str = "{document}",
        use_instruction: bool = False,
        prompt: str = "",
        positive: str = "",
        negative: str | None = None,
        max_length: int | None = None,
        batch_size: int = 32,
        dtype: str = "float32",
        device: str | None = None,
        cache: bool = False,
        trust_remote_code: bool = False,
        seed: int = 0,
    ) -> None:
        self.weights = Weights(kind, source, id, revision, path, dtype, device, trust_remote_code, seed)
        check_weights(self.weights)
        check_sizes("reranker", batch_size, max_length)
        self.query_template = check_template("reranker.query_template", query_template, "instruction", "query")
        self.plain_template = check_template("reranker.plain_template", plain_template, "query")
        self.document_template = check_template("reranker.document_template", document_template, "document")
        if kind != "cross_encoder":
            check_template("reranker.prompt", prompt, "query", "document")
            if prompt.index("{query}") > prompt.index("{document}") or not positive:
                expected = "a prompt with {query} before {document}, and the word `positive`"
                raise UserError(
                    "the order is wrong, or no positive word is given", where="reranker.prompt", expected=expected
                )
        self.reading = Reading(prompt, positive, negative)
        self.use_instruction, self.max_length = use_instruction, max_length
        self.batch_size, self.cache = batch_size, cache
        self._scored = 0

    @property
    def scorer(self) -> Scorer:
        """The model, loaded when first needed."""
        return load_scorer(self.weights, self.reading)

    def query_text(self, query: Query) -> str:
        """The text that stands for a query."""
        if self.use_instruction and query.instruction:
            return self.query_template.format(instruction=query.instruction, query=query.text)
        return self.plain_template.format(query=query.text)

    def rerank(self, queries: Sequence[Query], documents: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """As `Reranker.rerank`."""
        rows = [
            [(self.query_text(query), self.document_template.format(document=d)) for d in candidates]
            for query, candidates in zip(queries, documents, strict=True)
        ]
        distinct = list(dict.fromkeys(pair for row in rows for pair in row))
        values: dict[Pair, float] = {}
        for start in range(0, len(distinct), PAIRS_PER_BLOCK):
            block = distinct[start : start + PAIRS_PER_BLOCK]
            values.update(zip(block, self._block(block).tolist(), strict=True))
            if len(distinct) > PAIRS_PER_BLOCK:
                log.info("%s: %d of %d pairs are scored", self.weights.name, len(values), len(distinct))
        self._scored += len(distinct)
        return [np.array([values[pair] for pair in row], dtype=np.float64) for row in rows]

    def facts(self) -> Mapping[str, float]:
        """Pairs that were scored."""
        return {"pairs": float(self._scored)}

    def _block(self, pairs: list[Pair]) -> np.ndarray:
        """Score pairs, or read the scores of exactly these from the cache: float32 [pair]."""
        if not self.cache:
            return self.scorer.score(pairs, self.batch_size, self.max_length)
        digest = hashlib.sha256(f"{self.scorer.fingerprint} {self.max_length}".encode())
        for text in (text for pair in pairs for text in pair):
            digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
        path = assets.cache_dir("embeddings") / f"pairs-{digest.hexdigest()}.npy"
        kept = load_array(path)
        if kept is not None and kept.shape == (len(pairs),) and np.isfinite(kept).all():
            return kept
        scores = self.scorer.score(pairs, self.batch_size, self.max_length)
        save_array(path, scores)
        return scores
