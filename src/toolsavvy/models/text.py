"""Turn documents and queries into token ids so that no text can ever become a virtual or special token."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Encoding, Tokenizer
from transformers import PreTrainedTokenizerFast

from toolsavvy.errors import UserError

SENTINEL = "\u241f"
"""Stands for the user's text while a chat template is split into its two halves."""
CHARACTERS_PER_TOKEN = 32
"""Upper bound used to cut huge texts before they are tokenised (a 5 MB description costs nothing)."""


class TextEncoder:
    """Encode plain text with the model's own vocabulary, blind to every added token.

    A copy of the tokenizer without its added tokens is used, so `<|im_end|>` or `<<Tool>>` inside a document stays
    ordinary text. Vocabularies in which a special string is an ordinary entry too (SentencePiece models) are
    caught afterwards: that entry is spelled by shorter ones. What has no spelling of its own (an unknown character
    whose only id is special) is left out.

    Args:
        tokenizer: a fast tokenizer; tokens added to it later must be announced by `forbid`.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        """Build the copy once; it costs about 0.1 s."""
        state = json.loads(tokenizer.backend_tokenizer.to_str())
        # Runs of spaces or line breaks, which some vocabularies list as added tokens, are text all the same.
        blank = {t["id"] for t in state["added_tokens"] if not t["special"] and not t["content"].strip(" \t\r\n\u2581")}
        self._forbidden = {t["id"] for t in state["added_tokens"]} - blank
        self._unknown = _unknown(state["model"])
        state["added_tokens"], state["truncation"], state["padding"] = [], None, None
        self._core = Tokenizer.from_str(json.dumps(state))

    def forbid(self, ids: Iterable[int]) -> None:
        """Name further ids that text must never become."""
        self._forbidden.update(ids)

    def encode(self, text: str, max_tokens: int | None = None) -> list[int]:
        """Token ids of one text, its head kept when it is too long."""
        return self.encode_batch([text], max_tokens)[0]

    def encode_batch(self, texts: Sequence[str], max_tokens: int | None = None) -> list[list[int]]:
        """Token ids of several texts, each cut to `max_tokens`."""
        limit = None if max_tokens is None else max_tokens * CHARACTERS_PER_TOKEN
        cut = [text[:limit] for text in texts]
        encoded = self._core.encode_batch(cut, add_special_tokens=False)
        return [self._safe(text, e)[:max_tokens] for text, e in zip(cut, encoded, strict=True)]

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Token ids of one text, and the characters [start, end) that each of them says."""
        encoding = self._core.encode(text, add_special_tokens=False)
        found = [
            (piece, offsets)
            for i, offsets in zip(encoding.ids, encoding.offsets, strict=True)
            for piece in self._pieces(i, text, offsets)
        ]
        return [i for i, _ in found], [offsets for _, offsets in found]

    def _safe(self, text: str, encoding: Encoding) -> list[int]:
        if self._forbidden.isdisjoint(encoding.ids):
            return encoding.ids
        pairs = zip(encoding.ids, encoding.offsets, strict=True)
        return [piece for i, offsets in pairs for piece in self._pieces(i, text, offsets)]

    def _pieces(self, i: int, text: str, offsets: tuple[int, int]) -> list[int]:
        """What stands for a token: itself, or others where it is forbidden."""
        if i not in self._forbidden:
            return [i]
        is_said = i != self._unknown or text[slice(*offsets)] == self._core.id_to_token(i)
        return self._spell(i) if is_said else []

    def _spell(self, forbidden: int, longest: int | None = None) -> list[int]:
        """Ids of shorter vocabulary entries that together spell a forbidden one."""
        token = self._core.id_to_token(forbidden) or ""
        if len(token) < 2 or (longest is not None and len(token) > longest):
            return []
        middle = len(token) // 2
        pieces = [p.id for half in (token[:middle], token[middle:]) for p in self._core.model.tokenize(half)]
        return [q for p in pieces for q in ([p] if p not in self._forbidden else self._spell(p, len(token) - 1))]


def _unknown(model: dict[str, Any]) -> int | None:
    """Id of the unknown token, as the four kinds of models write it."""
    if model.get("unk_id") is not None:
        return model["unk_id"]
    vocabulary = model.get("vocab")
    return vocabulary.get(model.get("unk_token")) if isinstance(vocabulary, dict) else None


@dataclass(frozen=True)
class Frame:
    """The fixed token ids around every prompt: the same in training and evaluation, with one BOS.

    Args:
        prefix: ids before the text.
        suffix: ids between the text and the answer.
        end: ids that close the answer (its first id is where decoding stops).
    """

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    end: tuple[int, ...]

    def wrap(self, ids: Sequence[int]) -> list[int]:
        """Prompt ids of one encoded text."""
        return [*self.prefix, *ids, *self.suffix]


def chat_frame(tokenizer: PreTrainedTokenizerFast, prefix: str | None = None, suffix: str | None = None) -> Frame:
    """Split the model's chat template around the user's text.

    Args:
        tokenizer: the model's tokenizer.
        prefix: text before the user's text, instead of the template's (special tokens allowed).
        suffix: text between the user's text and the answer.

    Returns:
        A frame whose prefix starts with exactly one BOS, where the model has one; without a template, the text stands
        between BOS and a line break.

    Raises:
        UserError: the tokenizer has no end-of-sequence token, or a template that does not show the user's text.
    """
    if tokenizer.eos_token_id is None:
        raise UserError(
            "the tokenizer has no end-of-sequence token", where="model", expected="an eos_token that ends answers",
            fix="set eos_token in the model's tokenizer_config.json",
        )  # fmt: skip
    before, after = ("", "") if prefix is not None and suffix is not None else _template_halves(tokenizer)
    prefix, suffix = before if prefix is None else prefix, after if suffix is None else suffix
    head, tail = (list(tokenizer(half, add_special_tokens=False).input_ids) for half in (prefix, suffix))
    bos: Any = tokenizer.bos_token_id
    end: Any = tokenizer.eos_token_id
    if bos is not None and (not head or head[0] != bos):
        head = [bos, *head]
    while len(head) > 1 and bos is not None and head[0] == head[1] == bos:
        head = head[1:]
    return Frame(tuple(head), tuple(tail), (int(end),))


def _template_halves(tokenizer: PreTrainedTokenizerFast) -> tuple[str, str]:
    if not tokenizer.chat_template:
        return "", "\n"
    messages = [{"role": "user", "content": SENTINEL}]
    text = str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    before, found, after = text.partition(SENTINEL)
    if not found:
        raise UserError(
            "the chat template does not show the user's text", where="model", expected="the text of a user's turn",
            fix="set model.prompt_prefix and model.prompt_suffix",
        )  # fmt: skip
    return before, after
