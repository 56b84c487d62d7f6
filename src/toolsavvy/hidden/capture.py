"""Hidden states at all (layer, position) cells of many prompts, streamed to one file."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from filelock import FileLock

from toolsavvy.decoding.prefill import CommonStart, inference
from toolsavvy.errors import UserError
from toolsavvy.hidden.batches import Padding, batch_of, plan, shared_start
from toolsavvy.hidden.blocks import blocks, text_config
from toolsavvy.hidden.hooks import computing, run
from toolsavvy.hidden.layout import Layout, is_intact, recorded
from toolsavvy.hidden.positions import KINDS, MISSING, Kind, token_indices
from toolsavvy.hidden.states import States, open_states
from toolsavvy.hidden.writing import Packed, check_space, create, pack, sync, write
from toolsavvy.models.digest import model_digest
from toolsavvy.models.prompts import Rendered

log = logging.getLogger("toolsavvy")

RECORD_EVERY = 2.0
"""Seconds after which what is done is synced and said to be done; a killed capture repeats no more than that."""
TELL_EVERY = 60.0
"""Seconds between two lines of progress."""


def capture(
    model: Any,
    prompts: Sequence[Rendered],
    path: Path | str,
    *,
    positions: int = 20,
    layers: Sequence[int] | None = None,
    kinds: Sequence[Kind] = KINDS,
    batch_size: int = 64,
    batch_tokens: int = 2048,
    dtype: Literal["float16", "float32"] = "float16",
    precision: Literal["model", "bf16"] = "model",
    padding: Padding = "right",
    share_start: bool = True,
    key: str | None = None,
    names: Sequence[str] | None = None,
    resume: bool = True,
) -> States:
    """Take the hidden states of every prompt at the last positions of all layers, in one forward pass each.

    Hooks keep the wanted tokens alone, and no later block, final norm or output matrix is computed (arXiv 2605.14038
    keeps whole layers). What all prompts start with is run once. Memory does not grow with the number of prompts.
    States beyond float16's range are stored with a power of two of their own (`layout`): nothing becomes infinite.

    A capture that was cut off continues where it was and gives the same bytes; a finished one is opened. A file of
    another model, other prompts or other cells is refused, and made again with `resume=False`.

    Args:
        model: a causal LM of any family, with or without adapters.
        prompts: as the model reads them; those too short for a position get NaN there.
        path: of the file; a JSON file is written beside it.
        positions: last tokens of what each kind says.
        layers: 0 is the embeddings, i the output of block i, before the final norm; None takes all.
        kinds: prompt (with the template's last tokens) | question (ending with the last user turn's text).
        batch_size: most prompts in a forward pass.
        batch_tokens: most tokens in a forward pass, padding counted.
        dtype: of the file.
        precision: model | bf16 (bfloat16 products and attention kernels).
        padding: right (no mask, fastest) | left, for models that attend to what comes later.
        share_start: run what all prompts start with only once, where the model's cache allows.
        key: digest of the model; None computes it from its weights.
        names: what messages call the prompts; None counts them.
        resume: continue or open what is there.

    Returns:
        The states, item i being prompt i.

    Raises:
        UserError: not enough space, states that are not finite, a prompt longer than the model reads, a wrong option,
            a batch that does not fit into memory, or a file of something else.
    """
    path, names = Path(path), names or [str(i) for i in range(len(prompts))]
    _check(prompts, names, text_config(model))
    job = _Job(
        model, prompts, path, _layout(model, prompts, layers, kinds, positions, dtype, precision, key), names, padding
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f"{path.name}.lock")):
        done = _continued(path, job.layout) if resume else 0
        if done < len(prompts):
            check_space(path, job.layout, done)
            with inference(model), computing(model, precision):
                job.fill(done, batch_size, batch_tokens, share_start=share_start)
        return open_states(path)


@dataclass(frozen=True)
class _Job:
    """Everything that stays the same while a file is filled."""

    model: Any
    prompts: Sequence[Rendered]
    path: Path
    layout: Layout
    names: Sequence[str]
    padding: Padding

    def fill(self, done: int, batch_size: int, batch_tokens: int, *, share_start: bool) -> None:
        """Capture the rows from `done` on."""
        ordered = [self.prompts[i] for i in self.layout.order]
        wanted = token_indices(ordered, self.layout.positions, self.layout.kinds).reshape(len(ordered), -1)
        start = shared_start(self.model, ordered, wanted) if share_start else None
        lengths = [len(p.ids) - (start.length if start else 0) for p in ordered]
        if not done:
            create(self.path, self.layout)
        file = os.open(self.path, os.O_RDWR)
        saved = told = time.monotonic()
        try:
            for part in plan(lengths[done:], batch_size, batch_tokens):
                rows = slice(done + part.start, done + part.stop)
                states = self._states(ordered[rows], wanted[rows], start, rows.start)
                write(file, self.path, self.layout, rows.start, states)
                now = time.monotonic()
                if now - saved >= RECORD_EVERY or rows.stop == len(ordered):
                    sync(file, self.path, self.layout, rows.stop)
                    saved = time.monotonic()
                if now - told >= TELL_EVERY:
                    log.info("hidden states: %d of %d prompts", rows.stop, len(ordered))
                    told = now
        finally:
            os.close(file)

    def _states(
        self, prompts: Sequence[Rendered], wanted: np.ndarray, start: CommonStart | None, first: int
    ) -> list[Packed]:
        """One forward pass: states of every layer."""
        try:
            batch = batch_of(self.model, prompts, wanted, start, self.padding)
            found = run(self.model, self.layout.layers, batch.inputs, batch.chosen)
        except torch.OutOfMemoryError as error:
            raise UserError(
                f"a batch of {len(prompts)} prompts, up to {len(prompts[0].ids)} tokens, does not fit into memory",
                where="batch_tokens",
                fix="lower batch_tokens or batch_size",
            ) from error
        packed = [pack(found[layer], batch.columns == MISSING, self.layout.dtype) for layer in self.layout.layers]
        for layer, states in zip(self.layout.layers, packed, strict=True):
            if len(states.bad):
                self._refuse(layer, first + int(states.bad[0]))
        return packed

    def _refuse(self, layer: int, row: int) -> None:
        name = self.names[self.layout.order[row]]
        raise UserError(
            f"the hidden states of prompt {name!r} at layer {layer} are not finite",
            where="model",
            expected="numbers",
            fix="load the model in bfloat16 or float32 (float16 overflows in some), or check its weights",
        )


def _layout(
    model: Any,
    prompts: Sequence[Rendered],
    layers: Sequence[int] | None,
    kinds: Sequence[Kind],
    positions: int,
    dtype: str,
    precision: str,
    key: str | None,
) -> Layout:
    """What the file will hold."""
    depth = len(blocks(model))
    chosen = tuple(range(depth + 1)) if layers is None else tuple(sorted(set(layers)))
    if not chosen or chosen[0] < 0 or chosen[-1] > depth:
        raise UserError(
            f"layers {list(layers or ())} are not all there", where="probe.layers",
            expected=f"of 0 (the embeddings) to {depth} (the last block)",
        )  # fmt: skip
    if positions < 1:
        raise UserError(f"{positions} positions hold nothing", where="probe.positions", expected=">= 1")
    if not kinds or not set(kinds) <= set(KINDS):
        raise UserError(f"kinds {list(kinds)} are unknown", where="probe.kinds", expected=" and ".join(KINDS))
    if dtype not in ("float16", "float32"):
        raise UserError(f"dtype {dtype!r} can't be stored", where="dtype", expected="float16 or float32")
    order = tuple(sorted(range(len(prompts)), key=lambda i: -len(prompts[i].ids)))
    width = int(text_config(model).hidden_size)
    ordered: tuple[Kind, ...] = tuple(kind for kind in KINDS if kind in kinds)
    key = model_digest(model) if key is None else key
    return Layout(key, prompts_digest(prompts), precision, ordered, chosen, positions, width, dtype, order)


def prompts_digest(prompts: Sequence[Rendered]) -> str:
    """Digest of token ids and question ends, in order."""
    text = json.dumps([[*p.ids, -p.question_end] for p in prompts])
    return hashlib.sha256(text.encode()).hexdigest()


def _check(prompts: Sequence[Rendered], names: Sequence[str], config: Any) -> None:
    """Refuse prompts that no states can be taken of."""
    if not prompts:
        raise UserError("there are no prompts to take hidden states of", where="prompts", expected="at least one")
    if len(names) != len(prompts):
        raise ValueError(f"{len(names)} names for {len(prompts)} prompts")
    longest = getattr(config, "max_position_embeddings", None)
    for name, prompt in zip(names, prompts, strict=True):
        if not 0 < prompt.question_end <= len(prompt.ids):
            raise ValueError(f"prompt {name!r}: its question ends at {prompt.question_end} of {len(prompt.ids)} tokens")
        if longest and len(prompt.ids) > longest:
            raise UserError(
                f"prompt {name!r} has {len(prompt.ids)} tokens", where="prompts",
                expected=f"at most {longest}, the longest text that the model reads", fix="shorten or drop it",
            )  # fmt: skip


def _continued(path: Path, layout: Layout) -> int:
    """Rows that are done already.

    Raises:
        UserError: there is a file of something else.
    """
    found = recorded(path)
    fix = "choose another path, delete the file, or set resume=false to make it again"
    if found is None:
        if path.exists():
            raise UserError(
                "this file was not made by a capture", where=str(path), expected="hidden states, or nothing", fix=fix
            )
        return 0
    if different := found[0].differences(layout):
        raise UserError(
            f"these hidden states differ from what is wanted in: {', '.join(different)}",
            where=str(path), expected="states of this model, these prompts and these cells", fix=fix,
        )  # fmt: skip
    if not path.is_file() or path.stat().st_size != layout.size or not is_intact(path):
        log.warning("%s is damaged and is made again", path.name)
        return 0
    return found[1]
