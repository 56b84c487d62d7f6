"""One way to train every model of a run: the base model, the same adapters at the start, rows of prompt and call."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from filelock import FileLock

from toolsavvy.assets import cache_dir
from toolsavvy.config.schema import Config
from toolsavvy.errors import UserError
from toolsavvy.methods.common import hardware
from toolsavvy.models.digest import weights_digest
from toolsavvy.models.loading import load_base, load_tensors, place, resolve_precision, save_tensors
from toolsavvy.models.prompts import Prompt, render
from toolsavvy.models.text import TextEncoder
from toolsavvy.models.tuning import Tuning, adapted, merged, restore, snapshot
from toolsavvy.tracking import Run
from toolsavvy.training.fitting import fit
from toolsavvy.training.lessons import Dialogue, Lesson, dialogues, loader
from toolsavvy.training.sft import CausalSFT
from toolsavvy.training.trunk import Trunk, frozen_blocks

log = logging.getLogger("toolsavvy")


@dataclass
class Student:
    """What is trained.

    Args:
        model: causal, with what trains requiring gradients.
    """

    model: Any


class Learner:
    """Trains models of a run from one start; what was trained before, also by another job, is read from the cache.

    Args:
        cfg: model, tuning, trainer, method.sft and seed are read.
        run: takes learning curves and throughput.
    """

    def __init__(self, cfg: Config, run: Run) -> None:
        self.cfg, self.run = cfg, run
        base, self.tokenizer = load_base(cfg.model, seed=cfg.seed)
        self.text = TextEncoder(self.tokenizer)
        t = cfg.tuning
        tuning = Tuning(t.kind, t.rank, t.alpha, t.dropout, t.targets, t.first_block)
        self.student: Any = adapted(base, tuning, cfg.seed)
        self.trunk = Trunk(self.student) if frozen_blocks(self.student) else None
        self.start = snapshot(self.student)
        self.weights = weights_digest(base)
        self.precision = resolve_precision(cfg.trainer.precision, cfg.trainer.accelerator)

    def base(self) -> Any:
        """The model before any training, ready for inference."""
        restore(self.student, self.start)
        return self._ready()

    def train(self, name: str, rows: Sequence[tuple[Prompt, str]]) -> Any:
        """The base model after training on rows, ready for inference.

        Args:
            name: of the model, for files, logs and run.json.
            rows: prompts, each with the argument object to write.

        Raises:
            UserError: no row fits into `method.sft.max_length`.
        """
        lessons = self._fitting(name, rows)
        path = cache_dir("assets") / f"arguments-{self._key(lessons)}.safetensors"
        with self.run.stage(f"train {name}"), FileLock(f"{path}.lock"):
            weights = load_tensors(path)
            restore(self.student, weights or self.start)
            if weights is None:
                self._learn(name, lessons)
                save_tensors(snapshot(self.student), path)
        return self._ready()

    def _ready(self) -> Any:
        model = merged(self.student).eval().requires_grad_(False)
        if self.cfg.tuning.kind == "full":  # `merged` gives the student itself, which is trained again later
            import copy

            model = copy.deepcopy(model)
            self.student.requires_grad_(True)
        kind = resolve_precision(self.cfg.method.generation.precision, self.cfg.trainer.accelerator)
        model = model.to(torch.bfloat16 if kind == "bf16" else torch.float32)
        place(model, self.cfg.trainer.accelerator)
        return model

    def _fitting(self, name: str, rows: Sequence[tuple[Prompt, str]]) -> list[Dialogue]:
        """Rows as token ids, those that are too long left out."""
        end: Any = self.tokenizer.eos_token_id
        lessons = [Lesson(prompt, answer) for prompt, answer in rows]
        # A row for each: in a shared one, calls would be copied from those above.
        whole = dialogues(lessons, lambda p: render(self.tokenizer, self.text, p), self.text.encode, end, 0)
        kept = [row for row in whole if len(row.ids) <= self.cfg.method.sft.max_length]
        if len(kept) < len(whole):
            log.warning("%s: %d of %d rows are too long and left out", name, len(whole) - len(kept), len(whole))
        if not kept:
            longest = min((len(row.ids) for row in whole), default=0)
            raise UserError(
                f"no row of {name} fits, the shortest has {longest} tokens", where="method.sft.max_length",
                expected="room for prompt and answer", fix="raise it, or lower method.prompt.context_tokens",
            )  # fmt: skip
        return kept

    def _key(self, rows: Sequence[Dialogue]) -> str:
        """Digest of everything that the weights follow from."""
        settings = (asdict(self.cfg.method.sft), asdict(self.cfg.tuning), self.weights, self.cfg.seed)
        text = json.dumps([settings, self.precision, [[row.ids, row.labels] for row in rows]], default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def _learn(self, name: str, rows: Sequence[Dialogue]) -> None:
        settings = self.cfg.method.sft
        pad: Any = self.tokenizer.pad_token_id
        pad = self.tokenizer.eos_token_id if pad is None else pad
        batches = math.ceil(len(rows) / settings.batch_size)
        module = CausalSFT(
            Student(self.student), learning_rate=settings.learning_rate, warmup=settings.warmup,
            weight_decay=settings.weight_decay, steps=settings.epochs * math.ceil(batches / settings.accumulate),
            trunk=self.trunk,
            watch=lambda point: self.run.log(
                {f"{name}/{k}": v for k, v in point.items() if k != "step"}, int(point["step"])
            ),
        )  # fmt: skip
        data = loader(rows, settings.batch_size, pad, self.cfg.seed)
        fit(
            module, data, epochs=settings.epochs, seed=self.cfg.seed, hardware=hardware(self.cfg),
            accumulate=settings.accumulate,
        )  # fmt: skip
        self.run.note(
            training={
                **self.run.noted("training"),
                name: {"rows": len(rows), "tokens": module.tokens, "tokens_per_second": module.tokens_per_second},
            }
        )
