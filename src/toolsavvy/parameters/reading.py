"""Answers read by a model: the state just before each value, how likely its tokens are, and whether it believes them.

Answers are read as text: they are tokenised anew, the way the model is trained on them, whichever tokens it drew. All
numbers so follow from (weights, prompt, text) alone, also of texts that another model or a person wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from toolsavvy.calls.flattening import Path as ValuePath
from toolsavvy.decoding.prefill import Decoder, common_start, inference, length_batches
from toolsavvy.hidden.blocks import blocks
from toolsavvy.hidden.hooks import listening
from toolsavvy.models.framing import Message
from toolsavvy.models.prompts import Prompt, render
from toolsavvy.models.text import TextEncoder
from toolsavvy.necessity.store import prompt_digest
from toolsavvy.parameters.spans import ValueTokens, value_tokens, values
from toolsavvy.retrieval.encoding import fast_linear

BATCH_TOKENS = 768
"""Most tokens of answers in a forward pass, padding counted: logits over the whole vocabulary are held for each."""
QUESTION = "Is this call right, every argument and every value? Answer Yes or No."
_YES, _NO = ("Yes", "yes", "YES", " Yes", " yes"), ("No", "no", "NO", " No", " no")
_LARGEST = float(np.finfo(np.float16).max)


@dataclass(frozen=True)
class ReadValue:
    """One value of an answer.

    Args:
        path: where it stands in the object.
        states: float16 [layer, d], just before the value's first token (of a string: after its quote, where the
            vocabulary allows); beyond float16's range they are clipped.
        logprob_mean: mean log-probability of its tokens, a closing quote included.
        logprob_min: the lowest.
        tokens: how many they are.
        position: tokens of the answer before the first.
    """

    path: ValuePath
    states: np.ndarray
    logprob_mean: float
    logprob_min: float
    tokens: int
    position: int


@dataclass(frozen=True)
class ReadAnswer:
    """An answer that was read.

    Args:
        values: in the text's order.
        layers: whose states were kept: 0 is what enters block 1, i the output of block i, before the final norm.
        logprob: of the whole text, the end of the answer not included.
        tokens: of the text.
    """

    values: tuple[ReadValue, ...]
    layers: tuple[int, ...]
    logprob: float
    tokens: int


@dataclass(frozen=True)
class _Row:
    """Tokens to be read after a head that others may share."""

    head: int
    tail: tuple[int, ...]


@dataclass(frozen=True)
class _Text:
    """A text's tokens and those of its values."""

    ids: tuple[int, ...]
    paths: tuple[ValuePath, ...]
    spans: tuple[ValueTokens, ...]


def read(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt],
    texts: Sequence[str],
    *,
    layers: Sequence[int] | None = None,
    batch_size: int = 16,
    file: Path | None = None,
) -> list[ReadAnswer]:
    """Read answers after their prompts; every prompt is read once, and every text after it once.

    Hooks keep the wanted states alone. They lie in one float16 array (or file) of all values; memory beside it does
    not grow with the number of answers.

    Args:
        model: a causal LM of any family, adapters included.
        tokenizer: its fast tokenizer.
        prompts: without prefill.
        texts: an answer to each.
        layers: whose states are kept; None takes round(2 L / 3), where ParamBench's probe reads.
        batch_size: most rows in a forward pass.
        file: where the states are put (`numpy.load` opens it), None for memory.

    Raises:
        ValueError: a prompt with a prefill.
    """
    if any(prompt.prefill for prompt in prompts):
        raise ValueError("prompts with a prefill can't be read")
    depth = len(blocks(model))
    chosen = tuple(layers) if layers is not None else (round(2 * depth / 3),)
    encoder = TextEncoder(tokenizer)
    digests, place = _distinct(prompts, texts)
    by_digest = dict(zip(digests, prompts, strict=True))
    heads = {digest: render(tokenizer, encoder, prompt).ids for digest, prompt in by_digest.items()}
    number = {digest: i for i, digest in enumerate(heads)}
    encoded = [_encoded(encoder, text) for _, text in place]
    # The last token of the prompt is read with the answer: what follows it is the answer's first.
    rows = [_Row(number[d], (heads[d][-1], *t.ids)) for (d, _), t in zip(place, encoded, strict=True)]
    found = _read_rows(model, [ids[:-1] for ids in heads.values()], rows, encoded, chosen, batch_size, file)
    return [found[place[pair]] for pair in zip(digests, texts, strict=True)]


def _encoded(encoder: TextEncoder, text: str) -> _Text:
    ids, offsets = encoder.encode_with_offsets(text)
    spans = values(text) if ids else ()
    return _Text(tuple(ids), tuple(s.path for s in spans), value_tokens(spans, offsets))


def _read_rows(
    model: Any,
    heads: Sequence[Sequence[int]],
    rows: Sequence[_Row],
    texts: Sequence[_Text],
    layers: tuple[int, ...],
    batch_size: int,
    file: Path | None,
) -> list[ReadAnswer]:
    """Distinct answers, batch by batch."""
    starts = np.cumsum([0, *(len(t.spans) for t in texts)])
    states: np.ndarray | None = None
    answers: dict[int, ReadAnswer] = {}
    with inference(model), fast_linear(model):
        for which, decoder in _batches(model, heads, rows, batch_size):
            kept, sure = _pass(decoder, [rows[i].tail for i in which], [texts[i].spans for i in which], layers)
            if states is None:
                states = _room(file, (int(starts[-1]), *kept.shape[1:]))
            at = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in which])
            states[at.astype(np.int64)] = kept
            for i, own in zip(which, sure, strict=True):
                answers[i] = _answer(texts[i], states[starts[i] : starts[i + 1]], layers, own)
    return [answers[i] for i in range(len(rows))]


def _batches(
    model: Any, heads: Sequence[Sequence[int]], rows: Sequence[_Row], batch_size: int
) -> Iterator[tuple[list[int], Decoder]]:
    """Positions of rows and a decoder in which their heads are; heads of like length are read together, once."""
    if not rows:
        return
    start = common_start(model, heads)
    plain = start is not None or Decoder(model, heads[:1]).is_plain
    own: list[list[int]] = [[] for _ in heads]
    for i, row in enumerate(rows):
        own[row.head].append(i)
    if plain:
        groups = list(length_batches(heads, batch_size))
    else:  # padding between head and tail may not be neutral
        lengths = sorted({len(head) for head in heads}, reverse=True)
        groups = [[h for h, head in enumerate(heads) if len(head) == length] for length in lengths]
    for group in groups:
        shared = Decoder(model, [heads[h] for h in group], start) if plain else None
        slot = {h: s for s, h in enumerate(group)}
        left = sorted((i for h in group for i in own[h]), key=lambda i: -len(rows[i].tail))
        while left:
            count = max(1, min(batch_size, BATCH_TOKENS // len(rows[left[0]].tail)))
            which, left = left[:count], left[count:]
            if shared is None:
                yield which, Decoder(model, [heads[rows[i].head] for i in which])
            else:
                yield which, shared.chosen(torch.tensor([slot[rows[i].head] for i in which], device=shared.device))


def _pass(
    decoder: Decoder, tails: Sequence[Sequence[int]], spans: Sequence[Sequence[ValueTokens]], layers: Sequence[int]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """One forward pass: states [value, layer, d] of all rows' values, and the log-probabilities of every row."""
    row, column = _wanted(spans)
    kept: dict[int, Tensor] = {}

    def hear(layer: int, heard: Tensor) -> None:
        picked = heard[row.to(heard.device), column.to(heard.device)]
        kept[layer] = picked.float().clamp(-_LARGEST, _LARGEST).half().cpu()

    with listening(decoder.model, layers, hear):
        logits = decoder.extend(tails)
    return torch.stack([kept[layer] for layer in layers], dim=1).numpy(), _logprobs(logits, tails)


def _wanted(spans: Sequence[Sequence[ValueTokens]]) -> tuple[Tensor, Tensor]:
    """Rows of a batch and columns of their tails, of the state before each value: column 0 is the prompt's end."""
    pairs = [(row, tokens.first) for row, own in enumerate(spans) for tokens in own]
    both = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _logprobs(logits: Tensor, tails: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Log-probability of every token of each tail but its first."""
    found = []
    for own, tail in zip(logits, tails, strict=True):
        said = torch.tensor(tail[1:], dtype=torch.long, device=own.device)
        own = own[: len(said)]
        picked = own.gather(1, said[:, None])[:, 0] - own.logsumexp(1)
        found.append(picked.double().cpu().numpy())
    return found


def _answer(text: _Text, states: np.ndarray, layers: tuple[int, ...], sure: np.ndarray) -> ReadAnswer:
    made = []
    for path, tokens, state in zip(text.paths, text.spans, states, strict=True):
        own = sure[tokens.first : tokens.end]
        made.append(ReadValue(path, state, float(own.mean()), float(own.min()), len(own), tokens.first))
    return ReadAnswer(tuple(made), layers, float(sure.sum()), len(sure))


def _room(file: Path | None, shape: tuple[int, ...]) -> np.ndarray:
    if file is None:
        return np.empty(shape, dtype=np.float16)
    file.parent.mkdir(parents=True, exist_ok=True)
    return np.lib.format.open_memmap(file, mode="w+", dtype=np.float16, shape=shape)


def p_true(
    model: Any, tokenizer: Any, prompts: Sequence[Prompt], texts: Sequence[str], *, batch_size: int = 16
) -> list[float]:
    """P(True) of every answer: asked in the next turn if it is right, Yes against No (2207.05221, section 3).

    The paper asks for "(A) True" or "(B) False" of a question's one answer; here the question is of a call, and the
    first tokens of the words' spellings count.

    Args:
        model: a causal LM.
        tokenizer: its fast tokenizer.
        prompts: as for `read`.
        texts: an answer to each.
        batch_size: most rows in a forward pass.

    Returns:
        P(yes) / (P(yes) + P(no)), one an answer.
    """
    encoder = TextEncoder(tokenizer)
    digests, place = _distinct(prompts, texts)
    by_digest = dict(zip(digests, prompts, strict=True))
    whole = [render(tokenizer, encoder, _asked_back(by_digest[digest], text)).ids for digest, text in place]
    heads, rows = [], []
    for number, (digest, prompt) in enumerate(by_digest.items()):
        own = [ids for ids, (d, _) in zip(whole, place, strict=True) if d == digest]
        length = _shared(render(tokenizer, encoder, prompt).ids, own)
        heads.append(own[0][:length])
        rows += [(ids, _Row(number, ids[length:])) for ids in own]
    order = dict(rows)
    cut = [order[ids] for ids in whole]
    yes, no = _first_tokens(tokenizer)
    found: dict[int, float] = {}
    with inference(model), fast_linear(model):
        for which, decoder in _batches(model, heads, cut, batch_size):
            logits = decoder.extend([cut[i].tail for i in which], ends_only=True)
            for_it, against = logits[:, yes].logsumexp(1), logits[:, no].logsumexp(1)
            found.update(zip(which, torch.sigmoid(for_it - against).tolist(), strict=True))
    return [found[place[pair]] for pair in zip(digests, texts, strict=True)]


def _distinct(prompts: Sequence[Prompt], texts: Sequence[str]) -> tuple[list[str], dict[tuple[str, str], int]]:
    """Digests of the prompts, and every different (digest, text) with its place."""
    digests = [prompt_digest(prompt) for prompt in prompts]
    place: dict[tuple[str, str], int] = {}
    for pair in zip(digests, texts, strict=True):
        place.setdefault(pair, len(place))
    return digests, place


def _asked_back(prompt: Prompt, text: str) -> Prompt:
    turns = (*prompt.messages, Message("assistant", text), Message("user", QUESTION))
    return replace(prompt, messages=turns, prefill="")


def _shared(head: Sequence[int], rows: Sequence[Sequence[int]]) -> int:
    """Tokens that a prompt and all that goes on from it begin with; one at least, and one is left to every row."""
    both = [tuple(head), *map(tuple, rows)]
    first, last = min(both), max(both)
    most = min(map(len, both)) - 1
    return max(1, next((i for i in range(most) if first[i] != last[i]), most))


def _first_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """First tokens of yes and of no in their spellings, those that both begin with left out."""
    yes, no = ({tokenizer(word, add_special_tokens=False).input_ids[0] for word in words} for words in (_YES, _NO))
    return sorted(yes - no), sorted(no - yes)
