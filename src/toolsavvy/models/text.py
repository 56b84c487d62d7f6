"""Turn documents and queries into token ids so that no text can ever become a virtual or special token."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

SENTINEL = "\u241f"
"""Stands for the user's text while a chat template is split into its two halves."""
CHARACTERS_PER_TOKEN = 32
"""Upper bound used to cut huge texts before they are tokenised (a 5 MB description costs nothing)."""


class TextEncoder:
    """Encode plain text with the model's own vocabulary, blind to every added token.

    A copy of the tokenizer without its added tokens is used, so `<|im_end|>` or `<<Tool>>` inside a document stays
    ordinary text. Vocabularies in which a special string is an ordinary entry too (SentencePiece models) are
    caught afterwards: the text is cut inside that string and its halves encoded apart.

    Args:
        tokenizer: a fast tokenizer; tokens added to it later must be announced by `forbid`.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        """Build the copy once; it costs about 0.1 s."""
        state = json.loads(tokenizer.backend_tokenizer.to_str())
        self._forbidden = {token["id"] for token in state["added_tokens"]}
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
        rows = [self._safe(t, e.ids) for t, e in zip(cut, self._encode(cut), strict=True)]
        return [row[:max_tokens] for row in rows]

    def _encode(self, texts: Sequence[str]) -> list:
        return self._core.encode_batch(list(texts), add_special_tokens=False)

    def _safe(self, text: str, ids: list[int]) -> list[int]:
        if self._forbidden.isdisjoint(ids):
            return ids
        spans = self._core.encode(text, add_special_tokens=False)
        start, end = next(o for i, o in zip(spans.ids, spans.offsets, strict=True) if i in self._forbidden)
        middle = (start + end) // 2
        if end - start < 2:  # one character that is a special token by itself cannot be cut: leave it out
            return self.encode(text[:start]) + self.encode(text[end:])
        return self.encode(text[:middle]) + self.encode(text[middle:])


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
        A frame whose prefix holds at most one BOS; without a template, the text stands between BOS and a line break.
    """
    if prefix is None or suffix is None:
        prefix, suffix = _template_halves(tokenizer)
    encode = lambda s: tokenizer(s, add_special_tokens=False)["input_ids"]  # noqa: E731
    head = encode(prefix)
    bos = tokenizer.bos_token_id
    if bos is not None and (not head or head[0] != bos):
        head = [bos, *head]
    while len(head) > 1 and bos is not None and head[0] == head[1] == bos:
        head = head[1:]
    return Frame(tuple(head), tuple(encode(suffix)), (int(tokenizer.eos_token_id),))


def _template_halves(tokenizer: PreTrainedTokenizerFast) -> tuple[str, str]:
    if not tokenizer.chat_template:
        return "", "\n"
    messages = [{"role": "user", "content": SENTINEL}]
    text = str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    before, _, after = text.partition(SENTINEL)
    return before, after
