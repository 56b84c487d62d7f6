"""ColBERT-style checkpoints as encoders: one vector per token, read by sentence-transformers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from toolsavvy.errors import UserError
from toolsavvy.retrieval.encoder_models import Source, position_limit
from toolsavvy.retrieval.encoders import Encoder


class MultiVector(Encoder):
    """A ColBERT-style checkpoint: projection, markers, [MASK] expansion and skiplist are the library's business.

    That is what its `MultiVectorEncoder` saves, Stanford's ColBERT (`HF_ColBERT`), PyLate's, and the late interaction
    models of transformers. The templates are put around the text before the model adds its own markers.

    Args:
        source: hub | path.
        id: repository on the hub.
        revision: commit or tag on the hub.
        path: local folder.
        query_template: with {instruction} and {query}.
        plain_template: with {query}, for queries without an instruction.
        document_template: with {document}.
        use_instruction: use the queries' instructions.
        max_length: tokens read of a document; None is the model's own limit. A query's is always the model's.
        batch_size: texts per forward pass.
        dtype: float32 | bfloat16 | float16, of the weights.
        device: cpu, cuda, ...; None chooses.
        cache: keep token vectors in the cache folder.
        trust_remote_code: run code that comes with the model.

    Raises:
        UserError: an unknown or incomplete source, a number below 1, or a template without its field.
    """

    def __init__(
        self,
        source: str = "hub",
        id: str | None = None,
        revision: str | None = None,
        path: str | None = None,
        query_template: str = "{instruction} {query}",
        plain_template: str = "{query}",
        document_template: str = "{document}",
        use_instruction: bool = False,
        max_length: int | None = None,
        batch_size: int = 32,
        dtype: str = "float32",
        device: str | None = None,
        cache: bool = False,
        trust_remote_code: bool = False,
    ) -> None:
        if source not in ("hub", "path"):
            raise UserError(f"{source!r} is no valid value", where="encoder.source", expected="hub or path")
        super().__init__(
            source=source, id=id, revision=revision, path=path, query_template=query_template,
            plain_template=plain_template, document_template=document_template, use_instruction=use_instruction,
            max_length=max_length, batch_size=batch_size, dtype=dtype, device=device, cache=cache,
            trust_remote_code=trust_remote_code,
        )  # fmt: skip

    @property
    def model(self) -> Any:
        """The `MultiVectorEncoder`, loaded when first needed."""
        if self._model is None:
            self._model = _load(self.source)
        return self._model

    @property
    def max_tokens(self) -> int | None:
        """Tokens that are read of a document, at most what the model has positions for."""
        asked = self.max_length or self.model[0].document_length or self.model.max_seq_length
        return min((limit for limit in (asked, position_limit(self.model)) if limit), default=None)

    def encode(self, texts: Sequence[str], prompt: str = "") -> np.ndarray:
        """Refuse to give one vector per text.

        Raises:
            UserError: always.
        """
        raise UserError(
            f"{self.name} has one vector per token, not per text", where="encoder",
            expected="an embedding model such as minilm", fix="use retriever=late for it, or choose another encoder",
        )  # fmt: skip

    def fingerprint(self) -> str:
        """sha256 over modules with their settings, weights and markers."""
        return hashlib.sha256((super().fingerprint() + repr(self.model.prompts)).encode()).hexdigest()


@lru_cache(maxsize=2)
def _load(source: Source) -> Any:
    """Load a multi-vector model once."""
    from toolsavvy.models.loading import quiet_transformers

    with quiet_transformers():
        return _open(source)


def _open(source: Source) -> Any:
    """Load a multi-vector model from a folder or the hub; a checkpoint without a trained projection is refused."""
    import torch
    from sentence_transformers import MultiVectorEncoder

    from toolsavvy.models.loading import UNREADABLE, load_fault

    where = str(source.id) if source.kind == "hub" else str(Path(source.path or "").expanduser())
    if source.kind == "path" and not Path(where).is_dir():
        raise UserError("no such folder", where=f"encoder.path={where}", expected="a folder with a saved model")
    try:
        _refuse_untrained(where, source.revision)
        return MultiVectorEncoder(
            where, device=source.device, revision=source.revision, trust_remote_code=source.trust_remote_code,
            model_kwargs={"dtype": getattr(torch, source.dtype)},
        )  # fmt: skip
    except (OSError, ValueError, KeyError, *UNREADABLE) as error:
        raise UserError(
            f"the multi-vector model can't be loaded ({load_fault(error)})", where=f"encoder {where}",
            expected="a ColBERT-style checkpoint", fix="check the name and the network, or use encoder.source=path",
        ) from error  # fmt: skip


def _refuse_untrained(where: str, revision: str | None) -> None:
    """The library puts a random projection on whatever else it is given, and its rankings would mean nothing."""
    from sentence_transformers.util import load_file_path

    def read(name: str) -> dict[str, Any]:
        path = load_file_path(where, name, revision=revision)
        return json.loads(Path(path).read_text(encoding="utf-8")) if path else {}

    kind = read("config_sentence_transformers.json").get("model_type")
    architectures = read("config.json").get("architectures") or []
    native = any(name == "HF_ColBERT" or name.endswith("ForRetrieval") for name in architectures)
    if kind not in ("MultiVectorEncoder", "ColBERT") and not native:
        raise UserError(
            f"it has no trained projection to token vectors (model_type {kind}, architectures {architectures})",
            where=f"encoder {where}", expected="a ColBERT-style checkpoint",
            fix="for the token states of a bi-encoder choose its own option, such as encoder=minilm retriever=late",
        )  # fmt: skip
