"""Embeddings of any OpenAI-compatible server: in batches, with retries, and no text paid for twice."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from toolsavvy import assets
from toolsavvy.checksums import load_array, save_array
from toolsavvy.errors import UserError
from toolsavvy.models.connection import Connection, holds_all, worth_retrying
from toolsavvy.models.pacing import Pace
from toolsavvy.retrieval.encoders import Encoder


class EmbeddingServer(Encoder):
    """An `Encoder` whose model runs on a server (`/embeddings`).

    Time-outs, broken connections, 408, 409, 429, 5xx and answers that don't hold one finite vector of the same length
    per text are tried again, after what `Retry-After` says or a doubling pause; what still fails stops the run, as a
    ranking with holes is none. Vectors that arrived are in the cache by then.

    Args:
        model: name of the model on the server.
        base_url: of the API, usually ending in /v1.
        key_env: environment variable that holds the key; servers without keys need none.
        dimensions: length of the vectors, where the model lets it be chosen; None is its own.
        query_template: with {instruction} and {query}.
        plain_template: with {query}, for queries without an instruction.
        document_template: with {document}.
        use_instruction: use the queries' instructions.
        normalize: scale embeddings to length 1.
        max_characters: longer texts are cut; None sends them whole. An empty text is sent as a space.
        batch_size: texts a request.
        concurrency: requests at once.
        timeout: seconds for one attempt.
        retries: further attempts after the first.
        backoff: seconds before the first retry; doubled each time, with jitter.
        max_wait: longest pause in seconds; a server that asks for a longer one is not asked again.
        cache: keep embeddings in the cache folder, keyed by server, model, settings and text.

    Raises:
        UserError: no base_url, a number out of range, or a template without its field.
    """

    def __init__(
        self,
        model: str,
        base_url: str = "https://api.openai.com/v1",
        key_env: str = "OPENAI_API_KEY",
        dimensions: int | None = None,
        query_template: str = "Instruct: {instruction}\nQuery: {query}",
        plain_template: str = "{query}",
        document_template: str = "{document}",
        use_instruction: bool = False,
        normalize: bool = True,
        max_characters: int | None = 24_000,
        batch_size: int = 64,
        concurrency: int = 4,
        timeout: float = 60.0,
        retries: int = 5,
        backoff: float = 1.0,
        max_wait: float = 60.0,
        cache: bool = True,
    ) -> None:
        super().__init__(
            query_template=query_template, plain_template=plain_template, document_template=document_template,
            use_instruction=use_instruction, normalize=normalize, batch_size=batch_size, cache=cache,
        )  # fmt: skip
        self._connection = Connection("encoder", base_url, key_env, timeout, backoff, max_wait)
        limits = [("timeout", timeout, 1e-3), ("retries", retries, 0), ("concurrency", concurrency, 1)]
        for key, given in (("dimensions", dimensions), ("max_characters", max_characters)):
            limits += [] if given is None else [(key, given, 1)]
        for key, value, least in limits:
            if not value >= least:
                raise UserError(f"{value} is out of range", where=f"encoder.{key}", expected=f">= {least}")
        self.server_model, self.dimensions, self.retries = model, dimensions, retries
        self.max_characters, self.concurrency = max_characters, concurrency
        self._stop, self._pace = threading.Event(), Pace(concurrency)

    @property
    def name(self) -> str:
        """The model's name on the server."""
        return self.server_model

    @property
    def model(self) -> Any:
        """There is none here.

        Raises:
            UserError: always.
        """
        raise UserError(
            f"the weights of {self.name} are on a server", where="encoder",
            expected="an embedding model with local weights, for training and for retriever=late",
            fix="add encoder=minilm",
        )  # fmt: skip

    @property
    def max_tokens(self) -> int | None:
        """The server's business."""
        return None

    def fingerprint(self) -> str:
        """sha256 over what tells two servers' vectors apart as far as can be known: address, model, dimensions."""
        parts = (self._connection.base_url, self.server_model, self.dimensions, self.max_characters)
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def _cached(self, texts: list[str], prompt: str = "") -> np.ndarray:
        """Every batch is kept by itself, so that what was paid for survives a later failure."""
        return self._encode(texts, prompt)

    def _encode(self, texts: list[str], prompt: str = "") -> np.ndarray:
        """Ask batch by batch, several at once."""
        if not texts:
            return np.zeros((0, self.dimensions or 0), dtype=np.float32)
        self._stop.clear()
        batches = [texts[i : i + self.batch_size] for i in range(0, len(texts), self.batch_size)]
        pool = ThreadPoolExecutor(min(self.concurrency, len(batches)), thread_name_prefix="embeddings")
        try:
            parts = list(pool.map(self._batch, batches))
        finally:
            self._stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
        lengths = sorted({part.shape[1] for part in parts})
        if len(lengths) > 1:
            raise UserError(
                f"the server gave vectors of different lengths ({', '.join(map(str, lengths))})",
                where=f"encoder {self.name}", expected="one length", fix="remove old ones: another model answered then",
            )  # fmt: skip
        vectors = np.concatenate(parts)
        if self.normalize:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors

    def _batch(self, texts: list[str]) -> np.ndarray:
        """Vectors of one request, from the cache where they are."""
        if not self.cache:
            return self._ask(texts)
        path = assets.cache_dir("embeddings") / f"{self._key(texts)}.npy"
        kept = load_array(path)
        if kept is not None and kept.ndim == 2 and len(kept) == len(texts) and np.isfinite(kept).all():
            return kept
        vectors = self._ask(texts)
        save_array(path, vectors)
        return vectors

    def _key(self, texts: list[str], prompt: str = "") -> str:
        """Hash of everything that raw vectors depend on; normalisation comes after the cache."""
        digest = hashlib.sha256(self.fingerprint().encode())
        for text in texts:
            digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
        return digest.hexdigest()

    def _ask(self, texts: list[str]) -> np.ndarray:
        """One request, with retries.

        Raises:
            UserError: it failed for good.
        """
        body: dict[str, Any] = {"model": self.server_model, "input": [self._sent(text) for text in texts]}
        body |= {"encoding_format": "float"} | ({"dimensions": self.dimensions} if self.dimensions else {})
        error: Exception = RuntimeError("not asked")
        for attempt in range(self.retries + 1):
            try:
                with self._pace.turn(self._stop) as mine:
                    if not mine:
                        break
                    answer = self._connection.client.post("/embeddings", cast_to=object, body=body)
                vectors = vectors_of(answer, len(texts), self.dimensions)
                self._pace.went_well()
                return vectors
            except Exception as fault:
                error = fault
            pause = self._connection.pause(error, attempt)
            if attempt == self.retries or pause is None or not worth_retrying(error):
                break
            if holds_all(error):
                self._pace.hold(pause)
            else:
                self._stop.wait(pause)
        self._stop.set()
        raise self._failure(error) from error

    def _sent(self, text: str) -> str:
        cut = text if self.max_characters is None else text[: self.max_characters]
        return cut.encode("utf-8", "replace").decode() or " "

    def _failure(self, error: Exception) -> UserError:
        """One message, without the key."""
        if refusal := self._connection.refusal(error, self.name):
            return refusal
        status, where = getattr(error, "status_code", None), f"encoder.base_url={self._connection.base_url}"
        told = self._connection.told(error)
        expected = "one finite vector per text" + (f" of length {self.dimensions}" if self.dimensions else "")
        fix = "start the server or try again later: vectors that arrived are kept"
        fix = "make encoder.batch_size or encoder.max_characters smaller" if status in (400, 413, 422) else fix
        return UserError(
            f"no embeddings after {self.retries + 1} attempts ({told})", where=where, expected=expected, fix=fix
        )


def vectors_of(answer: Any, count: int, dimensions: int | None) -> np.ndarray:
    """Read a server's answer: float32 [text, dimension], in the order that its `index` fields tell.

    Raises:
        ValueError: it is not one finite vector of the same length for each of `count` texts.
    """
    rows: Sequence[Any] = answer.get("data") or () if isinstance(answer, Mapping) else ()
    try:
        places = [int(row.get("index", i)) for i, row in enumerate(rows)]
        vectors = np.array([row["embedding"] for row in rows], dtype=np.float32)
    except (TypeError, KeyError, ValueError, AttributeError) as fault:
        raise ValueError(f"the answer holds no data[].embedding of equal length: {str(answer)[:80]!r}") from fault
    if sorted(places) != list(range(count)) or vectors.ndim != 2 or not vectors.size:
        raise ValueError(f"the answer holds {len(rows)} vectors for {count} texts: {str(answer)[:80]!r}")
    if dimensions and vectors.shape[1] != dimensions:
        raise ValueError(f"the vectors have length {vectors.shape[1]}, asked for {dimensions}")
    if not np.isfinite(vectors).all():
        raise ValueError("the vectors hold NaN or infinity")
    ordered = np.empty_like(vectors)
    ordered[places] = vectors
    return ordered
