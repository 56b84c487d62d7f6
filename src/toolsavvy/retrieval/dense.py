"""Exact (or approximate) search over the embeddings of tools."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from toolsavvy.catalog import Catalog, Query
from toolsavvy.errors import UserError
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.fields import FieldMatcher
from toolsavvy.retrieval.index_file import Origin, load, save
from toolsavvy.retrieval.ranking import Ranking, blocks, empty_ranking, rank_candidates, stack, tie_ranks

log = logging.getLogger(__name__)

EXTRA = 8
"""Documents searched beyond rank k at first: enough unless ties go deeper."""


class Dense:
    """Inner-product search over embeddings of the tools' documents.

    Args:
        encoder: the embedding model.
        index: a FAISS factory string; "Flat" is exact.
        parameters: search-time parameters of the index ({"nprobe": 16}, {"efSearch": 64}).
        index_path: folder that keeps the index: written where it is absent, read (and checked) where it is there.
        memory_map: leave a kept index in its file, of which memory holds what searches touch, once for all processes.
        recall_queries: measure the share of Flat's top k on so many queries; None: all, 0: none, which saves Flat.
        fields: match these fields of a tool each by itself (`fields.FIELDS`); None matches its whole document.
        field_weights: field -> weight; None learns them from training queries, else from `validation`.

    Attributes:
        validation: queries that the weights of fields are learned from where there are no training queries.

    Raises:
        UserError: unknown fields or weights, fields together with another index than Flat, or with `index_path`, or
            fewer than no queries.
    """

    def __init__(
        self,
        encoder: Encoder,
        index: str = "Flat",
        parameters: Mapping[str, float] | None = None,
        index_path: str | None = None,
        memory_map: bool = True,
        recall_queries: int | None = None,
        fields: Sequence[str] | None = None,
        field_weights: Mapping[str, float] | None = None,
    ) -> None:
        self.encoder, self.index, self.parameters = encoder, index, dict(parameters or {})
        self.index_path = Path(index_path).expanduser() if index_path else None
        self.memory_map, self.recall_queries = memory_map, recall_queries
        if recall_queries is not None and recall_queries < 0:
            where = "retriever.dense.recall_queries"
            raise UserError(f"{recall_queries} is out of range", where=where, expected="0 or more, or null for all")
        self.validation: Sequence[Query] = ()
        self.matcher = self._matcher(fields, field_weights)
        self._index: Any = None
        self._flat: Any = None
        self._found: dict[int, list[float]] = {}
        self._tools = self._offsets = np.zeros(0, dtype=np.int64)
        self._ties = np.zeros(0, dtype=np.int64)

    def _matcher(self, fields: Sequence[str] | None, weights: Mapping[str, float] | None) -> FieldMatcher | None:
        """Matching by field, which is exact and in memory."""
        if fields is None:
            if weights is not None:
                raise UserError(
                    "weights without fields", where="retriever.dense.field_weights", expected="null",
                    fix="name the fields: 'retriever.dense.fields=[name,description]'",
                )  # fmt: skip
            return None
        for key, value, wanted in (("index", self.index, "Flat"), ("index_path", self.index_path, None)):
            if value != wanted:
                raise UserError(
                    f"{key}={value} does not go with fields, each of which has vectors of its own",
                    where=f"retriever.dense.{key}", expected=wanted or "null", fix="leave out fields or this",
                )  # fmt: skip
        return FieldMatcher(self.encoder, fields, weights)

    @property
    def flat_recall(self) -> float | None:
        """Mean share of Flat's top k that another index found in all searches so far; None for Flat itself."""
        return float(np.mean([share for shares in self._found.values() for share in shares])) if self._found else None

    def facts(self) -> dict[str, float]:
        """What an index that isn't Flat finds of Flat's ranking, or the weights of fields."""
        if self.matcher is not None:
            return self.matcher.facts()
        return {f"recall_of_flat@{depth}": float(np.mean(shares)) for depth, shares in sorted(self._found.items())}

    def fit(self, catalog: Catalog, train: Sequence[Query] = ()) -> Self:
        """Embed and index the documents, tools with the same document once; only weights of fields need queries.

        Raises:
            UserError: FAISS can't build the index, or the saved one was built from something else or is damaged.
        """
        if self.matcher is not None:
            self.matcher.fit(catalog, train or self.validation)
            return self
        # One vector per distinct document: tools that share it tie exactly, whatever the order of floating point sums.
        place = {document: i for i, document in enumerate(dict.fromkeys(catalog.documents))}
        document_of = np.array([place[document] for document in catalog.documents], dtype=np.int64)
        self._tools = np.argsort(document_of, kind="stable")  # those of document d: from offsets[d] to offsets[d + 1]
        self._offsets = np.concatenate([[0], np.cumsum(np.bincount(document_of, minlength=len(place)))])
        self._ties = tie_ranks([tool.id for tool in catalog.tools])
        self._found = {}
        indexes = self._indexes(catalog, list(place))
        self._index, self._flat = indexes["index"], indexes.get("flat")
        set_parameters(self._index, self.parameters)
        return self

    def _indexes(self, catalog: Catalog, documents: list[str]) -> dict[str, Any]:
        """The index and, where it is not exact, an exact one beside it: from the folder, or built."""
        stems = ("index",) if self.index == "Flat" or self.recall_queries == 0 else ("index", "flat")
        origin = self._origin(catalog, documents) if self.index_path else None
        if self.index_path and origin and (kept := load(self.index_path, origin, stems, memory_map=self.memory_map)):
            log.info("index read from %s", self.index_path)
            return kept
        vectors = self.encoder.encode_documents(documents)
        factories = {"index": self.index, "flat": "Flat"}
        polysemous = "ht" in self.parameters
        indexes = {stem: build_index(vectors, factories[stem], polysemous=polysemous) for stem in stems}
        if self.index_path and origin:
            save(self.index_path, origin, indexes)
            log.info("index written to %s", self.index_path)
            if self.memory_map:
                del vectors, indexes
                return load(self.index_path, origin, stems, memory_map=True) or {}
        return indexes

    def _origin(self, catalog: Catalog, documents: Sequence[str]) -> Origin:
        """What the index of this catalog by this encoder is built from."""
        encoder = self.encoder
        texts = hashlib.sha256(encoder.document_template.encode("utf-8", "surrogatepass"))
        for document in documents:
            texts.update(hashlib.sha256(document.encode("utf-8", "surrogatepass")).digest())
        append_eos, bidirectional, pool_prompt = encoder.shape
        settings = f"max_tokens={encoder.max_tokens} normalize={encoder.normalize} append_eos={append_eos}"
        settings += f" bidirectional={bidirectional} pool_prompt={pool_prompt}"
        return Origin(catalog.fingerprint, texts.hexdigest(), encoder.fingerprint(), settings, self.index)

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        """Rank min(k, tools) tools per query; an approximate index may leave ranks empty."""
        if self.matcher is not None:
            return self.matcher.search(queries, k)
        vectors = self.encoder.encode_queries(queries)
        found = self._rank(self._index, vectors, k, exact=self.index == "Flat")
        if self._flat is not None and len(vectors):
            self._compare(vectors, found, k)
        return found

    def _compare(self, vectors: np.ndarray, found: Ranking, k: int) -> None:
        """Note what share of Flat's top k was found, of as many queries as are asked about."""
        depth, wanted = found.indices.shape[1], self.recall_queries
        shares = self._found.setdefault(depth, [])
        rows = len(vectors) if wanted is None else max(0, min(len(vectors), wanted - len(shares)))
        if not rows:
            return
        flat = self._rank(self._flat, vectors[:rows], k, exact=True)
        shares += [np.isin(f, o).mean() for f, o in zip(flat.indices, found.indices, strict=False)]
        log.info("index %s found %.1f %% of Flat's top %d", self.index, 100 * np.mean(shares), depth)

    def _rank(self, index: Any, vectors: np.ndarray, k: int, *, exact: bool) -> Ranking:
        """Search distinct documents, then rank the tools that have them."""
        if not len(vectors):
            return empty_ranking(0, min(k, len(self._ties)))
        cuts = blocks(len(vectors), k + EXTRA)
        return stack([self._rank_block(index, vectors[cut], k, exact=exact) for cut in cuts])

    def _rank_block(self, index: Any, vectors: np.ndarray, k: int, *, exact: bool) -> Ranking:
        """Search deeper until no document outside could tie with rank k."""
        documents, shape = index.ntotal, (len(vectors), min(k, len(self._ties)))
        depth = min(documents, k + EXTRA)
        while True:
            scores, found = index.search(vectors, depth)
            ranking = rank_candidates(*self._tools_of(found, scores), self._ties, shape)
            if not exact or depth == documents or (ranking.scores[:, -1] > scores[:, -1]).all():
                return ranking
            depth = min(documents, 2 * depth)

    def _tools_of(self, found: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Query, tool and score of every tool whose document was found [query, depth] (-1 is none)."""
        rows, ranks = np.nonzero(found >= 0)
        documents = found[rows, ranks]
        counts = np.diff(self._offsets)[documents]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        tools = self._tools[np.repeat(self._offsets[documents], counts) + within]
        return np.repeat(rows, counts), tools, np.repeat(scores[rows, ranks], counts)


def build_index(vectors: np.ndarray, factory: str, *, polysemous: bool = False) -> Any:
    """Build a FAISS index for inner products.

    Args:
        vectors: float32 [item, dimension].
        factory: FAISS factory string.
        polysemous: order the codes of a PQ for searches with the parameter `ht`, which takes minutes.

    Raises:
        UserError: FAISS does not know the string, or has too few vectors to train it.
    """
    import faiss

    try:
        index = faiss.index_factory(vectors.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
        if not index.is_trained:
            _order_codes(index, polysemous)
            index.train(vectors)
        index.add(vectors)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise UserError(
            f"FAISS can't build index {factory!r} over {len(vectors)} vectors ({reason})",
            where="retriever.dense.index",
            expected="a FAISS factory string that fits the catalog",
            fix="use index=Flat, which is exact",
        ) from error
    return index


def _order_codes(index: Any, polysemous: bool) -> None:
    """Switch FAISS's annealing of PQ codes on or off; its factory always has it on."""
    import faiss

    while index is not None:
        if hasattr(index, "do_polysemous_training"):
            index.do_polysemous_training = polysemous
        within = getattr(index, "index", None) or getattr(index, "base_index", None)  # of a transform, of a refinement
        index = None if within is None else faiss.downcast_index(within)


def set_parameters(index: Any, parameters: Mapping[str, float]) -> None:
    """Set search-time parameters of a FAISS index.

    Raises:
        UserError: the index has no such parameter.
    """
    import faiss

    for name, value in parameters.items():
        try:
            faiss.ParameterSpace().set_index_parameter(index, name, value)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise UserError(
                f"the index has no parameter {name}={value} ({reason})",
                where=f"retriever.dense.parameters.{name}",
                expected="nprobe of IVF indexes, efSearch of HNSW, ...",
                fix="leave it out, or choose an index that has it",
            ) from error
