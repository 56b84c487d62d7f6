"""Matching by field: a tool's score is the weighted mean of the query's cosines to its fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self
from zlib import crc32

import numpy as np

from toolsavvy.catalog import Catalog, Query, Tool, parameter_names, render, split_words
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.ranking import Ranking, blocks, rank_scores, stack, tie_ranks

FIELDS = ("document", "name", "description", "parameters", "returns", "group", "category", "profile")
NEGATIVES = 20
"""Best wrong tools of a training query, by even weights, against which its golds must win."""
QUERIES = 2000
"""Training queries that are read at most, evenly spaced: a handful of weights needs no more."""
PENALTIES = (0.01, 0.1, 1.0)
"""Pulls towards even weights that are tried; the held-out queries choose."""
TEMPERATURE = 0.05
HELD_OUT = 5
"""One in so many tools is held out, with all of its queries."""


def field_text(tool: Tool, field: str, document: str) -> str:
    """The text of one field, '' where the tool has none; the words are those that documents show.

    Args:
        tool: the tool.
        field: one of FIELDS; of parameters and returns the names alone.
        document: the tool's whole document.
    """
    if field == "document":
        return document
    if field == "returns":
        return ", ".join(split_words(name) for name in parameter_names(tool.returns))
    return render(tool, f"{{{field}}}")


@dataclass(frozen=True)
class Learned:
    """Weights and how they did on held-out queries (MRR) beside even weights."""

    weights: np.ndarray
    queries: int
    held_out: float
    held_out_even: float


class FieldMatcher:
    """Score a tool by Σ w·cos(query, field) / Σ w over the fields that the tool has.

    A field that a tool lacks neither helps nor harms it: the weights of the others are scaled up. A tool that has none
    of the fields stays unranked.

    Args:
        encoder: the embedding model; its vectors are scaled to length 1 here.
        fields: some of FIELDS.
        weights: field -> weight, not negative, 1 where missing; None learns them from training queries, or takes them
            even where there are none.

    Raises:
        UserError: no or unknown fields, or weights that are for no field, negative, or all 0.
    """

    def __init__(self, encoder: Encoder, fields: Sequence[str], weights: Mapping[str, float] | None = None) -> None:
        _check(fields, weights or {})
        self.encoder, self.fields = encoder, tuple(dict.fromkeys(fields))
        self.given = None if weights is None else np.array([float(weights.get(f, 1.0)) for f in self.fields])
        self.weights = np.full(len(self.fields), 1 / len(self.fields))
        self.learned: Learned | None = None
        self._vectors: list[np.ndarray] = []
        self._rows: list[np.ndarray] = []
        self._has = np.zeros((0, 0), dtype=bool)
        self._ties = np.zeros(0, dtype=np.int64)

    def fit(self, catalog: Catalog, queries: Sequence[Query] = ()) -> Self:
        """Embed every field's distinct texts, then set the weights: given, learned from the queries, or even."""
        self._ties = tie_ranks([tool.id for tool in catalog.tools])
        self._vectors, self._rows, has = [], [], []
        for field in self.fields:
            texts = [field_text(t, field, d) for t, d in zip(catalog.tools, catalog.documents, strict=True)]
            place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
            self._vectors.append(_unit(self.encoder.encode_documents(list(place))))
            self._rows.append(np.array([place[text] for text in texts], dtype=np.int64))
            has.append([bool(text) for text in texts])
        self._has = np.array(has, dtype=bool).T.reshape(len(catalog), len(self.fields))
        self.learned = self._learn(catalog, queries) if self.given is None and len(self.fields) > 1 else None
        weights = self.given if self.given is not None else self.learned.weights if self.learned else self.weights
        self.weights = weights / weights.sum()
        return self

    def facts(self) -> dict[str, float]:
        """The weights, and where they were learned, their held-out MRR beside that of even weights."""
        facts = {f"weight_{field}": float(w) for field, w in zip(self.fields, self.weights, strict=True)}
        if self.learned:
            facts |= {"weights_from_queries": float(self.learned.queries), "held_out_mrr": self.learned.held_out}
            facts |= {"held_out_mrr_even": self.learned.held_out_even}
        return facts

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        """Rank min(k, tools) tools per query."""
        vectors = _unit(self.encoder.encode_queries(queries))
        cuts = blocks(len(vectors), len(self._ties)) or [slice(0, 0)]
        return stack([rank_scores(self._scores(vectors[cut], self.weights), self._ties, k) for cut in cuts])

    def _scores(self, vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Scores of every tool, float64 [query, tool]; -inf where a tool has no field of any weight."""
        total = np.zeros((len(vectors), len(self._ties)))
        for field, weight in enumerate(weights):
            if weight > 0:
                total += weight * (self._cosines(vectors, field) * self._has[:, field])
        present = self._has @ weights
        return np.where(present > 0, total / np.where(present > 0, present, 1.0), -np.inf)

    def _cosines(self, vectors: np.ndarray, field: int) -> np.ndarray:
        """Cosines to one field of every tool, float64 [query, tool]."""
        return (vectors @ self._vectors[field].T).astype(np.float64)[:, self._rows[field]]

    def _learn(self, catalog: Catalog, queries: Sequence[Query]) -> Learned | None:
        """Choose among even and learned weights on held-out tools' queries, then learn from all of them."""
        usable = [q for q in queries if any(self._has[catalog.index[t]].any() for t in q.relevant)]
        usable = [usable[i] for i in np.unique(np.linspace(0, len(usable) - 1, QUERIES).astype(int))] if usable else []
        held = np.array([crc32(min(q.relevant).encode()) % HELD_OUT == 0 for q in usable], dtype=bool)
        if not held.any() or held.all():
            return None
        vectors = _unit(self.encoder.encode_queries(usable))
        cosines, has, gold = self._candidates(catalog, usable, vectors)
        taught = ~held
        even = np.full(len(self.fields), 1 / len(self.fields))
        golds = [[catalog.index[t] for t in q.relevant] for q, h in zip(usable, held, strict=True) if h]
        best = (self._mrr(vectors[held], golds, even), 0.0)
        start = best[0]
        for penalty in sorted(PENALTIES, reverse=True):  # of equal ones the most even stays
            weights = learn_weights(cosines[taught], has[taught], gold[taught], penalty)
            best = max(best, (self._mrr(vectors[held], golds, weights), penalty), key=lambda pair: pair[0])
        weights = learn_weights(cosines, has, gold, best[1]) if best[1] else even
        return Learned(weights, len(usable), best[0], start)

    def _candidates(
        self, catalog: Catalog, queries: Sequence[Query], vectors: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Golds and best wrong tools: cosines and presence [query, candidate, field], gold [query, candidate]."""
        widest = max(len(q.relevant) for q in queries)
        width = min(len(catalog), NEGATIVES + widest)
        shape = (len(queries), width, len(self.fields))
        cosines, has, gold = np.zeros(shape), np.zeros(shape, dtype=bool), np.zeros(shape[:2], dtype=bool)
        for cut in blocks(len(queries), len(catalog)):
            scores = self._scores(vectors[cut], self.weights)
            for row, query in enumerate(queries[cut]):
                scores[row, [catalog.index[t] for t in query.relevant]] = np.inf  # golds first, whatever they score
            tools = rank_scores(scores, self._ties, width).indices
            every = [self._cosines(vectors[cut], field) for field in range(len(self.fields))]
            cosines[cut] = np.stack([np.take_along_axis(c, tools, axis=1) for c in every], axis=2)
            has[cut] = self._has[tools] & (tools >= 0)[..., None]
            golds = np.array([len(q.relevant) for q in queries[cut]])
            gold[cut] = np.arange(width) < golds[:, None]
        return cosines, has, gold

    def _mrr(self, vectors: np.ndarray, golds: Sequence[Sequence[int]], weights: np.ndarray) -> float:
        """Mean reciprocal rank of the best gold over all tools, ties against it."""
        found = []
        for cut in blocks(len(vectors), len(self._ties)):
            for scores, own in zip(self._scores(vectors[cut], weights), golds[cut], strict=True):
                found.append(1.0 / max(1, int((scores >= scores[list(own)].max()).sum())))
        return float(np.mean(found))


def learn_weights(cosines: np.ndarray, has: np.ndarray, gold: np.ndarray, penalty: float) -> np.ndarray:
    """Weights on the simplex that make golds win the softmax over candidates.

    Minimises the mean over golds of -log softmax(score / TEMPERATURE) against the wrong candidates (other golds of the
    query are left out), plus penalty x the mean squared distance of the weights' logits from even ones. Deterministic:
    L-BFGS in 64 bits from even weights.

    Args:
        cosines: float64 [query, candidate, field].
        has: bool of the same shape, fields that the candidates have.
        gold: bool [query, candidate].
        penalty: pull towards even weights.

    Returns:
        float64 [field], not negative, of sum 1.
    """
    import torch

    values, there = torch.from_numpy(np.where(has, cosines, 0.0)), torch.from_numpy(has.astype(np.float64))
    usable, right = torch.from_numpy(has.any(axis=2)), torch.from_numpy(gold)
    logits = torch.zeros(cosines.shape[2], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([logits], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        weights = logits.softmax(0)
        scores = (values @ weights) / (there @ weights).clamp_min(1e-12) / TEMPERATURE
        wrong = scores.masked_fill(right | ~usable, -torch.inf).logsumexp(1, keepdim=True)
        margins = torch.nn.functional.softplus(wrong - scores)[right & usable]
        return margins.mean() + penalty * (logits - logits.mean()).square().mean()

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    optimizer.step(step)  # pyright: ignore[reportArgumentType]
    return logits.detach().softmax(0).numpy()


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Rows of length 1."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _check(fields: Sequence[str], weights: Mapping[str, float]) -> None:
    """Fields must exist, and weights must be for them and make a mean."""
    where, expected = "retriever.dense.fields", f"some of {', '.join(FIELDS)}"
    if not fields:
        raise UserError("no field is named", where=where, expected=expected, fix="null matches whole documents")
    for field in fields:
        if field not in FIELDS:
            raise UserError(f"unknown field {field!r}", where=where, expected=expected, fix=did_you_mean(field, FIELDS))
    for field, weight in weights.items():
        where = f"retriever.dense.field_weights.{field}"
        if field not in fields:
            fix = did_you_mean(field, fields)
            raise UserError("a weight for no field", where=where, expected=f"one of {', '.join(fields)}", fix=fix)
        if not 0 <= weight < np.inf:
            raise UserError(f"weight {weight}", where=where, expected="a finite number of at least 0")
    if not any(weights.get(field, 1.0) > 0 for field in fields):
        raise UserError("all weights are 0", where="retriever.dense.field_weights", expected="one above 0")
