"""One vector per token: of any bi-encoder's last hidden states, or of a ColBERT-style checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from toolsavvy import assets
from toolsavvy.catalog import Query
from toolsavvy.checksums import load_array, save_array
from toolsavvy.errors import UserError
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.multivector import MultiVector

Side = Literal["query", "document"]
_CHUNK = 512
"""Texts per call of the library, which returns padded states: bounds the memory."""


@dataclass(frozen=True)
class Tokens:
    """Token vectors of several texts, end to end.

    Args:
        vectors: float32 or float16 [token, dimension].
        lengths: int64 [text], tokens of every text.
    """

    vectors: np.ndarray
    lengths: np.ndarray

    def __len__(self) -> int:
        """Number of texts."""
        return len(self.lengths)

    @property
    def starts(self) -> np.ndarray:
        """Row of every text's first token, int64 [text]."""
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]]).astype(np.int64)[: len(self)]

    @classmethod
    def of(cls, parts: Sequence[np.ndarray], dimension: int = 0) -> Tokens:
        """Put texts' vectors [token, dimension] end to end."""
        lengths = np.array([len(part) for part in parts], dtype=np.int64)
        return cls(np.concatenate(parts) if parts else np.zeros((0, dimension), dtype=np.float32), lengths)


class TokenEncoder:
    """Texts to token vectors.

    Of a bi-encoder: the last hidden states of the text's tokens (templates included), scaled to length 1; padding never
    counts, special tokens only if asked, or where a text has no others.

    Args:
        encoder: a bi-encoder or a `MultiVector`, with its templates, limits and cache.
        special_tokens: keep [CLS], [SEP] and their like of a bi-encoder (a `MultiVector` decides for itself).
        storage: float32 | float16, of the vectors that are kept.
    """

    def __init__(self, encoder: Encoder, special_tokens: bool = False, storage: str = "float32") -> None:
        self.encoder, self.special_tokens, self.storage = encoder, special_tokens, storage

    def queries(self, queries: Sequence[Query]) -> Tokens:
        """Token vectors of queries, in their order."""
        return self._encode([self.encoder.query_text(query) for query in queries], "query", cache=False)

    def documents(self, documents: Sequence[str]) -> Tokens:
        """Token vectors of documents, in their order, from the cache where the encoder has one."""
        template = self.encoder.document_template
        texts = [template.format(document=document) for document in documents]
        return self._encode(texts, "document", cache=self.encoder.cache)

    def _encode(self, texts: list[str], side: Side, *, cache: bool) -> Tokens:
        """Read from the cache, or compute and keep."""
        if not cache:
            return self._compute(texts, side)
        folder, key = assets.cache_dir("embeddings"), self._key(texts, side)
        vectors_path, lengths_path = folder / f"{key}.tokens.npy", folder / f"{key}.lengths.npy"
        if (kept := _read(vectors_path, lengths_path, len(texts), self.storage)) is not None:
            return kept
        tokens = self._compute(texts, side)
        for path, array in ((vectors_path, tokens.vectors), (lengths_path, tokens.lengths)):
            save_array(path, array)
        return tokens

    def _compute(self, texts: list[str], side: Side) -> Tokens:
        """Run the model, longest texts first so that a batch holds texts of one length."""
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        parts: list[np.ndarray] = [np.zeros((0, 0))] * len(texts)
        for start in range(0, len(texts), _CHUNK):
            chunk = order[start : start + _CHUNK]
            for i, vectors in zip(chunk, self._run([texts[i] for i in chunk], side), strict=True):
                if not np.isfinite(vectors).all():
                    raise _not_finite(texts[i], self.encoder.name)
                parts[i] = vectors.astype(self.storage, copy=False)
        return Tokens.of(parts)

    def _run(self, texts: list[str], side: Side) -> Iterator[np.ndarray]:
        """Token vectors of a few texts, float32 [token, dimension] each."""
        model: Any = self.encoder.model
        if not isinstance(self.encoder, MultiVector):
            yield from self._states(model, texts)
            return
        own, model[0].document_length = model[0].document_length, self.encoder.max_tokens
        try:
            encode = model.encode_query if side == "query" else model.encode_document
            settings = {"batch_size": self.encoder.batch_size, "convert_to_numpy": True, "show_progress_bar": False}
            yield from (np.asarray(vectors, dtype=np.float32) for vectors in encode(texts, **settings))
        finally:
            model[0].document_length = own

    def _states(self, model: Any, texts: list[str]) -> Iterator[np.ndarray]:
        """Last hidden states of a bi-encoder's real tokens, of length 1."""
        import torch

        own = model.max_seq_length
        model.max_seq_length = self.encoder.max_tokens
        try:
            found = model.encode(
                texts, output_value=None, batch_size=self.encoder.batch_size, show_progress_bar=False,
                convert_to_numpy=False,
            )  # fmt: skip
        finally:
            model.max_seq_length = own
        special = torch.tensor(sorted(_special_ids(model.tokenizer)))
        for features in found:
            if "token_embeddings" not in features:
                raise UserError(
                    f"{self.encoder.name} has no token states", where="retriever.late.encoder", expected="a transformer"
                )
            real = features["attention_mask"].bool().cpu()
            words = real & ~torch.isin(features["input_ids"].cpu(), special)
            chosen = real if self.special_tokens or not words.any() else words
            states = features["token_embeddings"].float().cpu()[chosen]
            yield torch.nn.functional.normalize(states, dim=-1).numpy()

    def _key(self, texts: Sequence[str], side: Side) -> str:
        """Hash of everything that the vectors depend on."""
        encoder = self.encoder
        digest = hashlib.sha256(f"tokens {side} {encoder.fingerprint()} {encoder.max_tokens}".encode())
        digest.update(f"{self.special_tokens} {self.storage} {len(texts)} {encoder.shape!r}".encode())
        for text in texts:
            digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
        return digest.hexdigest()


def _special_ids(tokenizer: Any) -> set[int]:
    """[CLS], [SEP] and their like; an unknown word is a word."""
    return set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}


def _read(vectors_path: Path, lengths_path: Path, texts: int, storage: str) -> Tokens | None:
    """Token vectors from the cache, memory-mapped; None where they are missing, torn or not finite."""
    vectors, lengths = load_array(vectors_path, mapped=True), load_array(lengths_path)
    if vectors is None or lengths is None:
        return None
    whole = lengths.shape == (texts,) and vectors.ndim == 2 and len(vectors) == lengths.sum()
    if not whole or vectors.dtype != storage:
        return None
    cuts = range(0, len(vectors), 65536)
    return Tokens(vectors, lengths) if all(np.isfinite(vectors[i : i + 65536]).all() for i in cuts) else None


def _not_finite(text: str, name: str) -> UserError:
    return UserError(
        f"a token vector holds NaN or infinity, for {text[:60]!r}", where=f"encoder {name}",
        expected="finite vectors", fix="use dtype=float32, or check the model's weights",
    )  # fmt: skip
