"""Where models answer: prompts, greedy calls and samples, states and log-probabilities of their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolsavvy.assets import cache_dir
from toolsavvy.calls.lenient import read_arguments
from toolsavvy.config.schema import Config
from toolsavvy.hidden.blocks import blocks
from toolsavvy.methods.arguments.learner import Learner
from toolsavvy.models.prompts import Prompt
from toolsavvy.parameters.fields import Candidate, FieldTable, Origin, table_of
from toolsavvy.parameters.generating import generate
from toolsavvy.parameters.probe import default_layer
from toolsavvy.parameters.prompts import ArgumentPrompts, answer_text
from toolsavvy.parameters.reading import p_true, read
from toolsavvy.tasks import ParamTask, Reference
from toolsavvy.tracking import Run


@dataclass(frozen=True)
class Subject:
    """A model that answers.

    Args:
        name: for files, logs and messages.
        model: ready for inference.
        trained_on: ids of tasks whose references it has seen.
    """

    name: str
    model: Any
    trained_on: frozenset[str] = frozenset()


class Desk:
    """Lets models answer tasks; answers are kept in the cache, for resumed runs and other jobs.

    Args:
        cfg: method.prompt, method.generation and method.probe are read.
        run: times the stages.
        learner: its tokenizer makes the prompts.
        shots: worked examples before every task.
    """

    def __init__(self, cfg: Config, run: Run, learner: Learner, shots: Sequence[ParamTask] = ()) -> None:
        self.cfg, self.run, self.tokenizer = cfg, run, learner.tokenizer
        how = cfg.method.prompt
        self.prompts = ArgumentPrompts(
            learner.tokenizer, learner.text, schema_tokens=how.schema_tokens, context_tokens=how.context_tokens,
            shots=shots,
        )  # fmt: skip
        depth = len(blocks(learner.student))
        layer = cfg.method.probe.layer
        self.layer = default_layer(depth) if layer is None else min(layer, depth)
        self.layers = tuple(range(depth + 1)) if cfg.method.probe.curve else (self.layer,)

    def rows(self, tasks: Sequence[ParamTask]) -> list[tuple[Prompt, str]]:
        """Rows to learn from: prompts with the references."""
        return [(self.prompts.prompt(task), answer_text(task)) for task in tasks]

    def greedy(self, subject: Subject, tasks: Sequence[ParamTask]) -> list[Candidate]:
        """The greedy call of every task."""
        return self.answers(subject, tasks, 0)

    def answers(self, subject: Subject, tasks: Sequence[ParamTask], samples: int) -> list[Candidate]:
        """Greedy calls and samples, in the order of tasks, none of them read by the model."""
        how = self.cfg.method.generation
        with self.run.stage(f"generate {subject.name}"):
            written = generate(
                subject.model, self.tokenizer, tasks, self.prompts, samples=samples, temperature=how.temperature,
                max_tokens=how.max_tokens, constrained=how.constrained, seed=self.cfg.seed,
                store=cache_dir("samples") / "arguments", batch_size=how.batch_size,
            )  # fmt: skip
        return [Candidate(w.task_id, w.index, w.text, read_arguments(w.text).arguments) for w in written]

    def table(
        self,
        subject: Subject,
        tasks: Sequence[ParamTask],
        *,
        samples: int = 0,
        read_samples: bool = False,
        ask: bool = False,
        labelled: bool = True,
    ) -> FieldTable:
        """Calls with the states before their values.

        Args:
            subject: who answers.
            tasks: what is asked.
            samples: beside the greedy call.
            read_samples: states of the samples too, not of the greedy calls alone.
            ask: whether P(True) is asked of the calls that are read.
            labelled: whether references may be looked at.
        """
        candidates = self.answers(subject, tasks, samples)
        chosen = [i for i, c in enumerate(candidates) if c.arguments is not None and (read_samples or not c.index)]
        by_id = {task.id: task for task in tasks}
        asked = [by_id[candidates[i].task_id] for i in chosen]
        with self.run.stage(f"read {subject.name}"):
            prompts = [self.prompts.prompt(task) for task in asked]
            texts = [candidates[i].text for i in chosen]
            found = read(subject.model, self.tokenizer, prompts, texts, layers=self.layers)
            believed = p_true(subject.model, self.tokenizer, prompts, texts) if ask else [None] * len(texts)
        for place, states, belief in zip(chosen, found, believed, strict=True):
            candidates[place] = replace(candidates[place], read=states, p_true=belief)
        return table_of(tasks, candidates, Origin(subject.name, subject.trained_on), labelled=labelled)


def pseudo(task: ParamTask, candidate: Candidate) -> ParamTask:
    """The task with a generated call in place of its reference."""
    return replace(task, references=(Reference(task.tool.name, dict(candidate.arguments or {})),))
