"""Virtual tokens: add them, start their rows well on both ends, keep every tool's code (ToolGen section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AddedToken, PreTrainedModel, PreTrainedTokenizerFast

from toolsavvy.catalog import Catalog, split_words
from toolsavvy.errors import UserError
from toolsavvy.indexing import CodeBook
from toolsavvy.models.text import Frame, TextEncoder

DOCUMENT_START = 24
"""Tokens of the description that `init=document` averages with the name's."""


@dataclass
class ToolModel:
    """A language model that knows a catalog by codes.

    Args:
        model: the causal LM, wrapped by PEFT when LoRA is on.
        tokenizer: holds the virtual tokens.
        text: encodes documents and queries safely.
        frame: ids around every prompt.
        codes: token ids of each tool, in catalog order.
        tool_ids: the catalog's ids, in order.
        new_ids: ids of the rows that were added.
        fingerprint: of the catalog that the codes stand for.
        scheme: the indexing scheme.
    """

    model: nn.Module
    tokenizer: PreTrainedTokenizerFast
    text: TextEncoder
    frame: Frame
    codes: tuple[tuple[int, ...], ...]
    tool_ids: tuple[str, ...]
    new_ids: tuple[int, ...]
    fingerprint: str
    scheme: str

    @property
    def atomic(self) -> bool:
        """True when every tool is one token: ranking then needs one forward pass."""
        return all(len(code) == 1 for code in self.codes)

    @property
    def eos_id(self) -> int:
        """The id that ends an answer."""
        return self.frame.end[0]


def add_virtual_tokens(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    catalog: Catalog,
    book: CodeBook,
    frame: Frame,
    *,
    init: str = "name",
    seed: int = 0,
) -> ToolModel:
    """Add a catalog's symbols to a model and start their input *and* output rows from words.

    Args:
        model: a causal LM without adapters; resized in place.
        tokenizer: its tokenizer; tokens are added in place.
        catalog: the tools.
        book: symbols of every tool from `indexing.codes`.
        frame: ids around every prompt.
        init: "name" (mean of the sub-token rows of the tool's name and group; ToolGen takes the name alone),
            "document" (adds the description's start), or "random" (the model's own initialiser, seeded).
        seed: for the random parts.

    Raises:
        UserError: a virtual token already means something else to the tokenizer.
    """
    text = TextEncoder(tokenizer)
    if not book.virtual:
        codes = tuple(tuple(text.encode(" ".join(symbols))) for symbols in book.symbols)
        return ToolModel(model, tokenizer, text, frame, codes, _ids(catalog), (), catalog.fingerprint, book.scheme)
    tokens = list(dict.fromkeys(s for symbols in book.symbols for s in symbols))
    ids = _add_tokens(tokenizer, tokens)
    text.forbid(ids.values())
    _resize(model, tokenizer)
    _random_rows(model, list(ids.values()), seed)
    if init != "random":
        _start_rows(model, text, catalog, book, ids, init)
    codes = tuple(tuple(ids[s] for s in symbols) for symbols in book.symbols)
    return ToolModel(
        model, tokenizer, text, frame, codes, _ids(catalog), tuple(ids.values()), catalog.fingerprint, book.scheme
    )


def _ids(catalog: Catalog) -> tuple[str, ...]:
    return tuple(tool.id for tool in catalog.tools)


def _add_tokens(tokenizer: PreTrainedTokenizerFast, tokens: Sequence[str]) -> dict[str, int]:
    known = tokenizer.get_vocab()
    clash = next((t for t in tokens if t in known), None)
    if clash is not None:
        raise UserError(
            f"virtual token {clash!r} is already in the tokenizer's vocabulary",
            where="model",
            expected="a base model without this catalog's virtual tokens",
            fix="start from the base model, or continue a trained one with stages=[retrieval] and resume_from",
        )
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in tokens])
    vocabulary = tokenizer.get_vocab()
    return {token: vocabulary[token] for token in tokens}


def _resize(model: Any, tokenizer: PreTrainedTokenizerFast) -> None:
    """Grow both embeddings; some models pad their vocabulary, so rows may already be there."""
    if model.get_input_embeddings().weight.shape[0] < len(tokenizer):
        with torch.random.fork_rng():
            # The default mean-resizing draws nearly identical rows for all new tokens.
            model.resize_token_embeddings(len(tokenizer), mean_resizing=False)


def _matrices(model: Any) -> list[Tensor]:
    """Input and output rows: one matrix where they are tied."""
    matrices = [model.get_input_embeddings().weight]
    head = model.get_output_embeddings()
    return matrices if head is None or head.weight is matrices[0] else [*matrices, head.weight]


@torch.no_grad()
def _random_rows(model: Any, ids: Sequence[int], seed: int) -> None:
    """Draw the new rows as the model draws its own: rows of a padded vocabulary hold whatever was left there."""
    generator = torch.Generator().manual_seed(seed)
    spread = float(getattr(model.config.get_text_config(), "initializer_range", 0.02))
    for matrix in _matrices(model):
        rows = torch.randn(len(ids), matrix.shape[1], generator=generator) * spread
        matrix[list(ids)] = rows.to(matrix)


@torch.no_grad()
def _start_rows(
    model: PreTrainedModel, text: TextEncoder, catalog: Catalog, book: CodeBook, ids: dict[str, int], init: str
) -> None:
    """Set each symbol's rows to the mean over the words of all tools that use it."""
    words: dict[str, list[int]] = {}
    for tool, symbols in zip(catalog.tools, book.symbols, strict=True):
        pieces = text.encode(f"{split_words(tool.name)} {tool.group}".strip(), 32)
        if init == "document":
            pieces = pieces + text.encode(tool.description, DOCUMENT_START)
        for symbol in symbols:
            words.setdefault(symbol, []).extend(pieces)
    for matrix in _matrices(model):
        for symbol, pieces in words.items():
            if pieces:
                matrix[ids[symbol]] = matrix[pieces].mean(0)
