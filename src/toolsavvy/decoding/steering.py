"""Steering: alpha times a direction is added to the residual stream while a model writes, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from toolsavvy.decoding.prefill import Decoder, inference, is_reading_start, length_batches, prefilled
from toolsavvy.hidden.blocks import blocks, text_config

Where = Literal["answer", "all"]
"""Positions that are steered: from the prompt's last token on, or every one.

`answer` is the default, as in CAA (2312.06681: all positions after the user's text) and ITI (2306.03341: the position
that writes the next token); probes read the same last token. `all` is RepE's (2310.01405) and also rewrites how the
prompt is read.
"""


@dataclass(frozen=True)
class Push:
    """What is added to the residual stream.

    Args:
        name: of the direction.
        vector: float [d], in the residual stream's own units.
        alpha: its factor; 0 is the unsteered model, exactly.
    """

    name: str
    vector: np.ndarray
    alpha: float


@dataclass(frozen=True)
class Written:
    """One steered answer.

    Args:
        prompt: position of its prompt.
        push: position of its push.
        tokens: ids that were written, without the end.
        finished: False where it was cut at the limit.
    """

    prompt: int
    push: int
    tokens: tuple[int, ...]
    finished: bool


class Steering:
    """What a hook adds, row by row of a batch; rows can be dropped as their answers end."""

    def __init__(self, shift: Tensor, where: Where) -> None:
        """Keep shifts [row or 1, d]; one row holds for every row of a batch."""
        self.shift, self.where = shift, where

    def keep(self, rows: Tensor) -> None:
        """Drop all rows of a batch but these, int64 [row]."""
        if len(self.shift) > 1:
            self.shift = self.shift[rows.to(self.shift.device)]

    def add(self, hidden: Tensor) -> Tensor:
        """Shifted states [row, time, d], summed in float32 or better and rounded once.

        Raises:
            ValueError: the batch has other rows than there are shifts.
        """
        if self.where == "answer" and is_reading_start():
            return hidden
        if len(self.shift) not in (1, len(hidden)):
            raise ValueError(f"{len(self.shift)} shifts for a batch of {len(hidden)} rows")
        wide = torch.promote_types(hidden.dtype, torch.float32)
        self.shift = self.shift.to(hidden.device, wide)
        if self.where == "all":
            return (hidden.to(wide) + self.shift[:, None]).to(hidden.dtype)
        last = (hidden[:, -1:].to(wide) + self.shift[:, None]).to(hidden.dtype)
        return torch.cat([hidden[:, :-1], last], dim=1)


@contextmanager
def steering(model: Any, layer: int, vector: Any, alpha: Any = 1.0, *, where: Where = "answer") -> Iterator[Steering]:
    """Add alpha * vector to the output of a block in every forward pass of the block below; hooks always go.

    `answer` steers the last column of each pass: right for generation with prompts padded on the left, whose first
    pass ends in the prompt's last token and whose others hold one token each. A pass that reads what prompts share
    (`decoding.prefill.common_start`) holds no prompt's last token and is left alone.

    Args:
        model: a causal language model, or a PEFT wrapper of one.
        layer: 0 is the embeddings, i the output of block i, as cells have it.
        vector: float [d], or [row, d] with one for each row of a batch.
        alpha: a factor, or [row].
        where: answer | all.

    Raises:
        ValueError: no such layer, a vector of another width or with NaN or infinity, shapes that do not go together.
    """
    places = blocks(model)
    if not 0 <= layer <= len(places):
        raise ValueError(f"layer {layer} of a model with {len(places)} blocks (0 is the embeddings)")
    if where not in ("answer", "all"):
        raise ValueError(f"where is answer or all, not {where!r}")
    added = Steering(_shift(model, vector, alpha), where)
    hook = _install(places, layer, added) if added.shift.any() else None
    try:
        yield added
    finally:
        if hook is not None:
            hook.remove()


def _shift(model: Any, vector: Any, alpha: Any) -> Tensor:
    """Alpha times vector, float32 [row or 1, d]."""
    direction = torch.atleast_2d(torch.as_tensor(np.asarray(vector, dtype=np.float32)))
    factor = torch.atleast_1d(torch.as_tensor(np.asarray(alpha, dtype=np.float32)))[:, None]
    width = text_config(model).hidden_size
    if direction.shape[1] != width:
        raise ValueError(f"a direction of {direction.shape[1]} numbers for a model of width {width}")
    if len(direction) > 1 and len(factor) not in (1, len(direction)):
        raise ValueError(f"{len(factor)} factors for {len(direction)} directions")
    if not (direction.isfinite().all() and factor.isfinite().all()):
        raise ValueError("a direction or factor with NaN or infinity")
    return factor * direction


def _install(places: Sequence[Any], layer: int, added: Steering) -> Any:
    """Hook on what block `layer` gives, or on what the first block gets."""
    if layer:
        return places[layer - 1].register_forward_hook(lambda _module, _inputs, output: _after(output, added))
    return places[0].register_forward_pre_hook(lambda _module, args, kw: _before(args, kw, added), with_kwargs=True)


def _after(output: Any, added: Steering) -> Any:
    """A block's output, a tensor or a tuple that starts with one, with its states shifted."""
    if isinstance(output, tuple):
        return (added.add(output[0]), *output[1:])
    return added.add(output)


def _before(args: tuple[Any, ...], kwargs: dict[str, Any], added: Steering) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A block's input with its states shifted."""
    if args:
        return (added.add(args[0]), *args[1:]), kwargs
    return args, {**kwargs, "hidden_states": added.add(kwargs["hidden_states"])}


def scale_of(states: np.ndarray) -> float:
    """The typical norm of a layer's residual stream: the median over items, which outliers do not move.

    Args:
        states: float [item, d]; rows with NaN are left out.

    Raises:
        ValueError: no row is finite.
    """
    norms = np.linalg.norm(states.astype(np.float64), axis=1)
    finite = norms[np.isfinite(norms)]
    if not len(finite):
        raise ValueError("no finite state to take a norm of")
    return float(np.median(finite))


def random_directions(vector: np.ndarray, k: int, *, seed: int = 0, orthogonal: bool = True) -> np.ndarray:
    """Random directions of a vector's norm: float32 [k, d], the control of steering.

    Args:
        vector: float [d].
        k: how many; the first ones are the same whatever k is.
        seed: of the generator.
        orthogonal: each stands at a right angle to the vector (not to one another).

    Raises:
        ValueError: the vector has no length, or one dimension leaves no right angle.
    """
    steered = np.asarray(vector, dtype=np.float64)
    norm = float(np.linalg.norm(steered))
    if not 0 < norm < np.inf or (orthogonal and len(steered) < 2):
        raise ValueError(f"no random direction for a vector of norm {norm} in {len(steered)} dimensions")
    drawn = np.random.default_rng(seed).standard_normal((k, len(steered)))
    if orthogonal:
        drawn -= np.outer(drawn @ steered, steered) / norm**2
    return (drawn * (norm / np.linalg.norm(drawn, axis=1, keepdims=True))).astype(np.float32)


def answers(
    model: Any,
    prompts: Sequence[Sequence[int]],
    pushes: Sequence[Push],
    layer: int,
    *,
    max_tokens: int,
    ends: Collection[int],
    where: Where = "answer",
    rows: int = 64,
    heard: Callable[[Written], None],
) -> None:
    """Greedy answers to every prompt under every push.

    With `answer` a prompt is read once, up to its last token, whatever the number of pushes: until there they differ
    in nothing. Rows whose answers have ended leave the batch.

    Args:
        model: a causal language model, or a PEFT wrapper of one.
        prompts: token ids, at least two each.
        pushes: what is added; any mixture of directions and factors shares a batch.
        layer: 0 is the embeddings, i the output of block i.
        max_tokens: longest answer.
        ends: ids that end an answer.
        where: answer | all.
        rows: most rows of a batch.
        heard: told of all answers of a batch of prompts as soon as they are there.

    Raises:
        ValueError: a prompt of fewer than two tokens, or what `steering` raises.
    """
    if not all(len(prompt) > 1 for prompt in prompts):
        raise ValueError("a prompt of fewer than two tokens")
    with inference(model):
        for first in range(0, len(pushes), rows):
            part = pushes[first : first + rows]
            size = max(1, rows // len(part))
            batches = _unread(prompts, size) if where == "all" else prefilled(model, [p[:-1] for p in prompts], size)
            for own, decoder in batches:
                lines = [(i, j) for i in own for j in range(len(part))]
                vectors, alphas = np.stack([part[j].vector for _, j in lines]), [part[j].alpha for _, j in lines]
                with steering(model, layer, vectors, alphas, where=where) as added:
                    begun = _begin(model, prompts, len(part), own, decoder)
                    texts = _greedy(begun, added, max_tokens, frozenset(ends))
                for (i, j), (tokens, finished) in zip(lines, texts, strict=True):
                    heard(Written(i, first + j, tuple(tokens), finished))


def _unread(prompts: Sequence[Sequence[int]], size: int) -> Iterator[tuple[list[int], None]]:
    """Batches of prompts of which nothing can be read without steering."""
    return ((own, None) for own in length_batches(prompts, size))


def _begin(
    model: Any, prompts: Sequence[Sequence[int]], k: int, own: Sequence[int], decoder: Decoder | None
) -> Decoder:
    """The decoder of a batch, each prompt k times, with the logits of the answers' first tokens."""
    if decoder is None:
        return Decoder(model, [prompts[i] for i in own for _ in range(k)])
    decoder.repeat(k)
    last = torch.tensor([prompts[i][-1] for i in own for _ in range(k)], device=decoder.device)
    decoder.logits = _feed(decoder, last)
    return decoder


def _feed(decoder: Decoder, tokens: Tensor) -> Tensor:
    """Logits [row, vocab] after one more token a row, int64 [row]."""
    return decoder.advance(tokens[:, None], torch.zeros_like(tokens)[:, None])


def _greedy(decoder: Decoder, added: Steering, max_tokens: int, ends: frozenset[int]) -> list[tuple[list[int], bool]]:
    """The likeliest token of every row until it ends: ids and whether it ended, row by row."""
    texts: list[tuple[list[int], bool]] = [([], False) for _ in range(len(decoder.logits))]
    alive = list(range(len(texts)))
    for step in range(max_tokens):
        tokens = decoder.logits.argmax(1)
        going = [row for row, token in enumerate(tokens.tolist()) if token not in ends]
        for row in going:
            texts[alive[row]][0].append(int(tokens[row]))
        for row in set(range(len(alive))) - set(going):
            texts[alive[row]] = (texts[alive[row]][0], True)
        if not going or step + 1 == max_tokens:
            break
        if len(going) < len(alive):
            kept = torch.tensor(going, device=decoder.device)
            decoder.keep(kept)
            added.keep(kept)
            alive, tokens = [alive[row] for row in going], tokens[kept]
        decoder.logits = _feed(decoder, tokens)
    return texts
