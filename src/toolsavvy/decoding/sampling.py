"""Sampled answers of a local model: prompts read once, many at a time, and each sample the same in any batch."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import torch

from toolsavvy.decoding.branches import Branches, can_branch, is_out_of_memory
from toolsavvy.decoding.chance import draw_tokens, row_key
from toolsavvy.decoding.prefill import CommonStart, Decoder, common_start, inference, length_batches
from toolsavvy.decoding.samples import Constraint, Heard, Sample
from toolsavvy.errors import UserError
from toolsavvy.models.digest import model_digest
from toolsavvy.models.prompts import Prompt, render
from toolsavvy.models.text import TextEncoder
from toolsavvy.retrieval.encoding import fast_linear

log = logging.getLogger("toolsavvy")

VERSION = 1
"""Of how prompts are rendered and tokens drawn: another one, and stored samples are no longer taken for the same."""


class LocalSampler:
    """Samples of a causal language model.

    Every prompt is read once, what all begin with once for all; a prompt's samples are drawn in waves of 1, 1, 2, 4, …
    beside those of other prompts, so that one whose label is decided early costs little; rows whose answer has ended
    leave the batch.

    The random numbers of a sample follow from (seed, prompt, temperature, index, step) alone. With float32 weights
    logits differ by about 1e-6 between batch sizes, so that a token differs in about one of 10^5 to 10^6 draws, the
    rest are equal; with bfloat16 weights that is not promised, as rounding moves logits by 1e-2.

    Args:
        model: a causal LM on its device, with or without PEFT's wrapper; hooks on its modules stay in force.
        tokenizer: its fast tokenizer.
        name: what tables call the model.
        seed: of the samples.
        batch_size: rows (prompts, or samples) per forward pass; halved for good when memory runs out.
        thinking: let models that can reason before they answer.
        suffix: what else the samples follow from (steering), for `key`.

    Raises:
        UserError: the batch size is below 1.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str = "",
        seed: int = 0,
        batch_size: int = 128,
        thinking: bool = False,
        suffix: str = "",
    ) -> None:
        if batch_size < 1:
            raise UserError(f"{batch_size} rows", where="method.sampling.batch_size", expected=">= 1")
        self.model, self.tokenizer, self.text = model, tokenizer, TextEncoder(tokenizer)
        self.name = name or str(getattr(model.config, "name_or_path", "") or "model")
        self.seed, self.batch_size, self.thinking, self.suffix = seed, batch_size, thinking, suffix
        self._is_plain: bool | None = None
        self._can_branch: bool | None = None
        self.stops = np.array(sorted(_stops(model, tokenizer)), dtype=np.int64)

    @cached_property
    def key(self) -> str:
        """Digest of weights, precision, rendering, ends of answers, seed and suffix."""
        shown = (self.thinking, getattr(self.tokenizer, "chat_template", None), self.stops.tolist())
        facts = (VERSION, model_digest(self.model), *shown, self.seed, self.suffix)
        return sha256(repr(facts).encode()).hexdigest()

    def draw(
        self,
        prompts: Sequence[Prompt],
        indices: Sequence[Sequence[int]],
        *,
        temperature: float,
        max_tokens: int,
        heard: Heard,
        constraint: Constraint | None = None,
    ) -> None:
        """As `Sampler.draw`; a prompt that leaves less room than `max_tokens` is cut where the model's context ends.

        A constraint masks logits before tokens are drawn and changes nothing else; whoever keeps samples names it in
        `suffix`.

        Raises:
            UserError: a prompt longer than the model reads, no token wanted, or no memory for a single row.
        """
        if max_tokens < 1 or temperature < 0:
            what = f"max_tokens={max_tokens}, temperature={temperature}"
            raise UserError(what, where="method.sampling", expected="max_tokens >= 1, temperature >= 0")
        asked = [self._asked(i, p, max_tokens) for i, p in enumerate(prompts) if len(indices[i])]
        for one in asked:
            one.waiting = list(indices[one.place])
        how = _How(float(temperature), heard, constraint)  # 1 and 1.0 are one temperature, and one store's
        with inference(self.model), fast_linear(self.model):
            ids = [one.ids for one in asked]
            start = common_start(self.model, ids)
            if asked and self._is_plain is None:
                self._is_plain = start is not None or Decoder(self.model, ids[:1]).is_plain
            for group in self._groups(asked):
                self._serve(group, start, how)

    def _asked(self, place: int, prompt: Prompt, max_tokens: int) -> _Asked:
        ids = render(self.tokenizer, self.text, prompt, thinking=self.thinking).ids
        config = self.model.config
        limit = getattr(getattr(config, "text_config", config), "max_position_embeddings", None) or 2**31
        if len(ids) >= limit:
            raise UserError(
                f"the prompt has {len(ids)} tokens, the model reads {limit}", where=f"prompt {place + 1}",
                expected="room for an answer", fix="shorten the question or its tools, or choose another model",
            )  # fmt: skip
        digest = sha256(np.asarray(ids, dtype=np.int64).tobytes()).hexdigest()
        return _Asked(place, prompt.prefill, ids, digest, min(max_tokens, limit - len(ids)))

    def _groups(self, asked: Sequence[_Asked]) -> Iterator[list[_Asked]]:
        """Prompts that are read together: of like length, or of equal length where padding may not be neutral."""
        if self._is_plain:
            left = [asked[i] for rows in length_batches([a.ids for a in asked], len(asked) or 1) for i in rows]
            while left:  # the batch size may shrink on the way
                yield left[: self.batch_size]
                left = left[self.batch_size :] if len(left) > self.batch_size else []
            return
        by_length: dict[int, list[_Asked]] = {}
        for one in asked:
            by_length.setdefault(len(one.ids), []).append(one)
        for _, equal in sorted(by_length.items(), reverse=True):
            for at in range(0, len(equal), self.batch_size):
                yield equal[at : at + self.batch_size]

    def _serve(self, group: list[_Asked], start: CommonStart | None, how: _How) -> None:
        """All that is wanted of some prompts, wave by wave."""
        shared = self._read(group, start) if self._is_plain else None
        if self._is_plain and shared is None:  # no memory for all of them
            half = len(group) // 2
            self._serve(group[:half], start, how)
            self._serve(group[half:], start, how)
            return
        for wave in _waves():
            rows = [_Row(m, i) for m, one in enumerate(group) for i in one.next(wave)]
            if not rows:
                if not any(one.waiting for one in group):
                    return
                continue
            while rows:
                batch, later = rows[: self.batch_size], rows[self.batch_size :]
                done = self._try(group, batch, shared, start, how)
                later = later if done else [*batch, *later]
                rows = [row for row in later if not row.told and not group[row.member].stopped]

    def _read(self, group: list[_Asked], start: CommonStart | None) -> Decoder | None:
        """The prompts in a cache; None when memory ran out and fewer should be tried."""
        try:
            decoder = Decoder(self.model, [one.ids for one in group], start)
            if self._can_branch is None:
                self._can_branch = can_branch(decoder)
            return decoder
        except (RuntimeError, MemoryError) as error:
            self._halve(error, len(group))
            return None

    def _try(
        self, group: list[_Asked], rows: list[_Row], shared: Decoder | None, start: CommonStart | None, how: _How
    ) -> bool:
        """Write the answers of some rows; False when memory ran out and fewer should be tried."""
        try:
            if shared is not None:
                owners = torch.tensor([row.member for row in rows], device=shared.device)
                decoder = Branches(shared, owners) if self._can_branch else shared.chosen(owners)
            else:
                decoder = Decoder(self.model, [group[row.member].ids for row in rows], start)
            self._write(group, rows, decoder, how)
        except (RuntimeError, MemoryError) as error:
            self._halve(error, len(rows))
            return False
        return True

    def _write(self, group: list[_Asked], rows: list[_Row], decoder: Decoder | Branches, how: _How) -> None:
        """Token after token for every row; those that end are told and leave."""
        owners = [group[row.member] for row in rows]
        keys = np.array(
            [row_key(self.seed, o.digest, how.temperature, r.index) for o, r in zip(owners, rows, strict=True)],
            dtype=np.uint64,
        )
        limits = np.array([o.limit for o in owners])
        written = np.zeros((len(rows), limits.max()), dtype=np.int64)
        live = np.arange(len(rows))
        guide = how.constraint.guide([o.place for o in owners]) if how.constraint else None
        for step in range(written.shape[1]):
            logits = guide.masked(live, decoder.logits) if guide else decoder.logits
            tokens = draw_tokens(logits, how.temperature, keys[live], np.full(len(live), step))
            written[live, step] = tokens.cpu().numpy()
            if guide:
                guide.wrote(live, written[live, step])
            ended = np.isin(written[live, step], self.stops)
            over = ended | (limits[live] == step + 1)
            if over.any():
                self._tell(owners, rows, live[over], ended[over], written[:, : step + 1], how)
                stays = torch.from_numpy(np.flatnonzero(~over & [not owners[r].stopped for r in live]))
                if not len(stays):
                    return
                live, stays = live[stays.numpy()], stays.to(decoder.device)
                tokens = tokens[stays]
                decoder.keep(stays)
            decoder.follow(tokens)

    def _tell(
        self,
        owners: list[_Asked],
        rows: list[_Row],
        over: np.ndarray,
        ended: np.ndarray,
        written: np.ndarray,
        how: _How,
    ) -> None:
        """Hand over answers that are there; those of a prompt that needs no more are dropped."""
        count = written.shape[1]
        ids = [written[r, : count - e].tolist() for r, e in zip(over, ended, strict=True)]
        # Marks of calls are special tokens in some families, and belong to the answer.
        texts = self.tokenizer.batch_decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        for r, end, text in zip(over, ended, texts, strict=True):
            owner = owners[r]
            rows[r].told = True
            if not owner.stopped:
                sample = Sample(rows[r].index, owner.prefill + text, count, bool(end))
                owner.stopped = how.heard(owner.place, sample)

    def _halve(self, error: Exception, rows: int) -> None:
        """Go on with half as many rows after running out of memory.

        Raises:
            UserError: there was one row only.
        """
        if not is_out_of_memory(error):
            raise error
        if rows == 1:
            fix = "choose a smaller model or max_tokens, or a device with more memory"
            raise UserError("out of memory with one row", where="method.sampling", fix=fix) from error
        self.batch_size = max(1, min(self.batch_size, rows) // 2)
        log.warning("out of memory with %d rows, going on with %d", rows, self.batch_size)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


@dataclass
class _Asked:
    """A prompt and what is still to be drawn of it."""

    place: int
    prefill: str
    ids: tuple[int, ...]
    digest: str
    limit: int
    waiting: list[int] = field(default_factory=list)
    stopped: bool = False

    def next(self, count: int) -> list[int]:
        """Take the next samples that are wanted."""
        if self.stopped:
            self.waiting = []
        taken, self.waiting = self.waiting[:count], self.waiting[count:]
        return taken


@dataclass
class _Row:
    """One sample in a batch."""

    member: int
    index: int
    told: bool = False


@dataclass(frozen=True)
class _How:
    """What holds for a whole call."""

    temperature: float
    heard: Heard
    constraint: Constraint | None = None


def _waves() -> Iterator[int]:
    """1, 1, 2, 4, 8, …: after each, a prompt has had as many samples as there are yet to come in the next."""
    yield 1
    wave = 1
    while True:
        yield wave
        wave *= 2


def _stops(model: Any, tokenizer: Any) -> set[int]:
    """Every token that ends an answer, as the generation settings, the config and the tokenizer name them."""
    found: set[Any] = set()
    for source in (getattr(model, "generation_config", None), model.config, tokenizer):
        ids = getattr(source, "eos_token_id", None)
        found |= set(ids) if isinstance(ids, list | tuple) else {ids}
    return {int(i) for i in found - {None}}
