"""Answers to parameter tasks: one greedy, and drawn ones, free or held to the tool's schema; batched and resumable."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolsavvy.decoding.json_schema import SchemaConstraint
from toolsavvy.decoding.samples import Heard
from toolsavvy.decoding.sampling import LocalSampler
from toolsavvy.errors import UserError
from toolsavvy.parameters.prompts import ArgumentPrompts
from toolsavvy.parameters.store import Answers, answer_digest
from toolsavvy.tasks import ParamTask

log = logging.getLogger("toolsavvy")


@dataclass(frozen=True)
class Generated:
    """One answer.

    Args:
        task_id: of its task.
        index: 0 is greedy, 1 … are drawn.
        text: as written; nothing is mended.
        finished: False where it was cut at the limit.
    """

    task_id: str
    index: int
    text: str
    finished: bool


def generate(
    model: Any,
    tokenizer: Any,
    tasks: Sequence[ParamTask],
    prompts: ArgumentPrompts,
    *,
    samples: int = 0,
    temperature: float = 0.7,
    max_tokens: int = 256,
    constrained: bool = False,
    seed: int = 0,
    store: Path | None = None,
    batch_size: int = 16,
) -> list[Generated]:
    """Write arguments for every task: one greedy answer and `samples` drawn ones.

    An answer follows from (weights, prompt, temperature, seed, index) alone, whatever else is in the batch; with
    `constrained`, tokens that lead out of the tool's schema are masked, all else is the same. Answers are kept the
    moment they are there: a killed run goes on where it was, more samples only add, and nothing is drawn twice.

    Args:
        model: a causal LM on its device, adapters included.
        tokenizer: its fast tokenizer.
        tasks: in per-call form.
        prompts: how they are asked.
        samples: drawn answers a task.
        temperature: of the drawn ones.
        max_tokens: longest answer.
        constrained: hold answers to the tool's schema (`decoding.json_schema`).
        seed: of the drawn ones.
        store: folder of the answers' files; None keeps them in memory.
        batch_size: rows in a forward pass; halved when memory runs out.

    Returns:
        Answers task by task, each task's by index.

    Raises:
        UserError: drawn answers at temperature 0, or a prompt that the model can't read.
    """
    if samples and temperature <= 0:
        raise UserError(
            f"{samples} samples at temperature {temperature:g} are all the greedy answer", where="temperature",
            expected="above 0", fix="temperature=0.7, or samples=0",
        )  # fmt: skip
    asked = [prompts.prompt(task) for task in tasks]
    schemas = [task.tool.parameters if constrained else None for task in tasks]
    digests = [answer_digest(prompt, schema) for prompt, schema in zip(asked, schemas, strict=True)]
    suffix = "json schema" if constrained else ""
    sampler = LocalSampler(model, tokenizer, seed=seed, batch_size=batch_size, suffix=suffix)
    key = sampler.key if store is not None else ""
    constraint = _constraint(sampler, tasks) if constrained else None
    filled = []
    for heat, count in [(0.0, 1)] + [(float(temperature), samples)] * bool(samples):

        def draw(places: Sequence[int], indices: Sequence[Sequence[int]], heard: Heard, heat: float = heat) -> None:
            held = constraint.at(places) if constraint else None
            wanted = [asked[place] for place in places]
            sampler.draw(wanted, indices, temperature=heat, max_tokens=max_tokens, heard=heard, constraint=held)

        answers = Answers(store, key, heat, max_tokens, sampler.name)
        drawn = answers.fill(digests, count, draw)
        log.debug("%d answers drawn at temperature %g, the rest were there", drawn, heat)
        filled.append((answers, count))
    if constraint and constraint.notes:
        log.warning("schemas held to in part: %s", ", ".join(f"{n} to {k}" for k, n in constraint.notes.items()))
    return [
        Generated(task.id, first + i, (sample := answers.get(digest)[i]).text, sample.finished)
        for task, digest in zip(tasks, digests, strict=True)
        for first, (answers, count) in enumerate(filled)
        for i in range(count)
    ]


def _constraint(sampler: LocalSampler, tasks: Sequence[ParamTask]) -> SchemaConstraint:
    """Every task's own schema."""
    rows = sampler.model.get_output_embeddings().weight.shape[0]
    return SchemaConstraint(sampler.tokenizer, rows, sampler.stops.tolist(), [t.tool.parameters for t in tasks])
