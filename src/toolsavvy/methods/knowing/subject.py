"""Who is asked: a local model, taught or as it comes, or one on a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolsavvy.config.compose import build
from toolsavvy.config.schema import Config
from toolsavvy.decoding.samples import Sampler
from toolsavvy.methods.common import say
from toolsavvy.necessity.question import QuestionSet
from toolsavvy.tracking import Run

TAUGHT = "taught"
"""Stands in the name of every model that had lessons before."""


@dataclass(frozen=True)
class Subject:
    """A model under study.

    Args:
        label: what tables call it.
        sampler: draws its answers.
        model: None where it is on a server, whose hidden states nobody sees.
        tokenizer: of the model.
    """

    label: str
    sampler: Sampler
    model: Any = None
    tokenizer: Any = None


def subject_of(cfg: Config, run: Run, asked: QuestionSet) -> Subject:
    """Load the model, teach it where that is asked for, and put it behind a sampler."""
    if cfg.method.sampling.backend == "server":
        return _served(cfg)
    from toolsavvy.decoding.sampling import LocalSampler
    from toolsavvy.methods.teaching import taught
    from toolsavvy.models.loading import load_base, place

    with run.stage("load model"):
        model, tokenizer = load_base(cfg.model, seed=cfg.seed)
    label = cfg.method.label or str(run.identity.choices.get("model", "model"))
    if cfg.method.teach.questions:
        model = taught(cfg, run, asked, model, tokenizer)
        label = f"{label}-{TAUGHT}"
        say("[dim]taught: what follows shows whether the instrument finds a planted gap, nothing about the model[/dim]")
    place(model, cfg.trainer.accelerator)
    size = cfg.method.sampling.batch_size
    sampler: Any = LocalSampler(model.eval(), tokenizer, name=label, seed=cfg.seed, batch_size=size)
    return Subject(label, sampler, model, tokenizer)


def _served(cfg: Config) -> Subject:
    """A model on an OpenAI-compatible server."""
    from toolsavvy.decoding.served import ServerSampler

    chat = build(cfg.llm)
    sampler = ServerSampler(chat, seed=cfg.seed)
    return Subject(cfg.method.label or sampler.name, sampler)


def keep_model(run: Run, subject: Subject, note: Mapping[str, Any]) -> Path:
    """Write a taught model into the run's `model/`, so that its probe has something to read."""
    from toolsavvy.models.loading import quiet_transformers

    folder = run.model_dir
    with quiet_transformers():
        subject.model.save_pretrained(folder)
        subject.tokenizer.save_pretrained(folder)
    run.note(model={"folder": "model", **note})
    return folder
