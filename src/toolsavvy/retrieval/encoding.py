"""Texts through a sentence-transformers model with little waste: same vectors as `SentenceTransformer.encode`, sooner.

What is saved: texts are sorted by tokens instead of characters, so that hardly anything is padded; a batch is a number
of tokens that stays in the processor's cache instead of a number of texts; and on x86 processors float32 layers run on
oneDNN, which uses the vector units of every vendor, in place of MKL, which does so for one.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import linear, normalize
from torch.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

CHUNK = 8192
"""Texts that are tokenized at once: bounds the memory of token lists."""
CPU_TOKENS = 1024
"""Tokens of a batch on a processor: more fall out of its cache, fewer don't fill its vector units."""
_NO_LIMIT = 1_000_000
"""Tokenizers without a limit say so with an astronomic number."""


def encode(
    model: SentenceTransformer,
    texts: Sequence[str],
    *,
    max_tokens: int | None,
    batch_size: int,
    normalized: bool,
    prompt: str = "",
) -> np.ndarray:
    """Embed texts: float32 [text, dimension].

    Args:
        model: any model; one with other parts than a text transformer at its start is left to the library's own loop.
        texts: at least one.
        max_tokens: tokens read of a text, None for all.
        batch_size: texts of the longest kind in one forward pass; of shorter ones more fit.
        normalized: scale to length 1.
        prompt: the start that all texts share, for models that leave it out of their pooling.
    """
    if not is_text_transformer(model):
        return _by_library(model, texts, max_tokens, batch_size, normalized, prompt)
    parts: list[np.ndarray] = []
    for start in range(0, len(texts), CHUNK):
        chunk = list(texts[start : start + CHUNK])
        parts.append(_chunk(model, chunk, max_tokens, batch_size, normalized, prompt))
    return np.concatenate(parts)


def is_text_transformer(model: SentenceTransformer) -> bool:
    """Whether the model starts with a plain text transformer, whose features are what its tokenizer gives."""
    from sentence_transformers.sentence_transformer.modules import Transformer

    first: Any = model[0]
    return (
        type(first) is Transformer
        and first.transformer_task == "feature-extraction"
        and set(first.modality_config) == {"text"}
        and first.modality_config["text"]["method"] == "forward"
        and first.processor is first.tokenizer
        and bool(getattr(first.tokenizer, "is_fast", False))
        and not first.processing_kwargs
        and not first.can_flatten_inputs
        and getattr(model, "_distributed_inference", None) is None
    )


def plan(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Cut texts into batches, longest first, of at most `budget` tokens with padding (one text may be longer)."""
    batches: list[list[int]] = []
    room = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if room == 0:
            batches.append([])
            room = max(1, budget // max(1, lengths[i]))
        batches[-1].append(i)
        room -= 1
    return batches


@torch.inference_mode()
def _chunk(
    model: SentenceTransformer,
    texts: list[str],
    max_tokens: int | None,
    batch_size: int,
    normalized: bool,
    prompt: str,
) -> np.ndarray:
    """Tokenize once, run batch by batch, put the vectors back into the texts' order."""
    model.eval()
    tokens = tokenized(model, texts, max_tokens)
    lengths = [len(ids) for ids in tokens["input_ids"]]
    budget = batch_size * max(lengths)
    if model.device.type == "cpu":
        budget = min(budget, CPU_TOKENS)
    out: np.ndarray | None = None
    with fast_linear(model):
        for batch, features in _features(model, tokens, plan(lengths, budget), prompt):
            vectors = model(features)["sentence_embedding"].float()
            vectors = vectors[:, : model.truncate_dim] if model.truncate_dim else vectors
            vectors = normalize(vectors, dim=1) if normalized else vectors
            if out is None:
                out = np.empty((len(texts), vectors.shape[1]), dtype=np.float32)
            out[batch] = vectors.cpu().numpy()
    assert out is not None
    return out


def tokenized(model: SentenceTransformer, texts: list[str], max_tokens: int | None) -> dict[str, list[list[int]]]:
    """Token ids (and token types, where the model has them) of every text, cut, not padded."""
    limit = {"truncation": True, "max_length": max_tokens} if max_tokens and max_tokens < _NO_LIMIT else {}
    tokenizer: Any = model.tokenizer
    return dict(tokenizer(texts, padding=False, return_attention_mask=False, verbose=False, **limit))


def _features(
    model: SentenceTransformer, tokens: dict[str, list[list[int]]], batches: list[list[int]], prompt: str
) -> Iterator[tuple[list[int], dict[str, Any]]]:
    """What the library's own preprocessing would give for each batch, on the model's device."""
    length = prompt_tokens(model, prompt) if prompt else 0
    tokenizer: Any = model.tokenizer
    for batch in batches:
        rows = {name: [values[i] for i in batch] for name, values in tokens.items()}
        padded = tokenizer.pad(rows, padding=True, return_tensors="pt", return_attention_mask=True, verbose=False)
        features: dict[str, Any] = {name: value.to(model.device) for name, value in padded.items()}
        yield batch, features | {"modality": "text"} | ({"prompt_length": length} if length else {})


def prompt_tokens(model: SentenceTransformer, prompt: str) -> int:
    """Tokens of a prompt at the start of a text: those before it (BOS) count, an end of sequence doesn't."""
    tokenizer: Any = model.tokenizer
    ids = tokenizer(prompt)["input_ids"]
    ends = {tokenizer.eos_token_id, tokenizer.sep_token_id} - {None}
    return len(ids) - 1 if ids and ids[-1] in ends else len(ids)


def _by_library(
    model: SentenceTransformer,
    texts: Sequence[str],
    max_tokens: int | None,
    batch_size: int,
    normalized: bool,
    prompt: str,
) -> np.ndarray:
    """The library's own loop, for models that are more than a text transformer."""
    own_limit = model.max_seq_length
    model.max_seq_length = max_tokens  # pyright: ignore[reportAttributeAccessIssue]
    try:
        vectors = model.encode(
            [text[len(prompt) :] for text in texts],
            prompt=prompt,
            batch_size=batch_size,
            normalize_embeddings=normalized,
            convert_to_tensor=True,
            show_progress_bar=False,
        )
    finally:
        model.max_seq_length = own_limit
    return np.ascontiguousarray(vectors.float().cpu().numpy())


def fast_linear(model: Any) -> AbstractContextManager[Any]:
    """A context in which the model's float32 linear layers run on oneDNN, where that is the faster library."""
    is_float = next((p.dtype for p in model.parameters() if p.is_floating_point()), None) is torch.float32
    on_x86 = model.device.type == "cpu" and platform.machine().lower() in ("x86_64", "amd64")
    return OneDnnLinear() if is_float and on_x86 and _has_onednn() else nullcontext()


def _has_onednn() -> bool:
    """Whether torch was built with the operation that its own compiler uses for linear layers."""
    if not (torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled):
        return False
    try:
        ours = _onednn(torch.ones(2, 3), torch.ones(4, 3), torch.ones(4))
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):
        return False
    return bool(torch.equal(ours, torch.full((2, 4), 4.0)))


def _onednn(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], "")


class OneDnnLinear(TorchFunctionMode):
    """Sends float32 linear layers without gradients to oneDNN; nothing of the model is changed."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Take over one function, pass on all others."""
        if func is linear and not kwargs and len(args) >= 2:
            inputs, weight = args[:2]
            plain = type(inputs) is Tensor and inputs.dtype is weight.dtype is torch.float32
            if plain and weight.dim() == 2 and inputs.numel() and inputs.device.type == "cpu":
                return _onednn(inputs, weight, args[2] if len(args) > 2 else None)
        return func(*args, **(kwargs or {}))
