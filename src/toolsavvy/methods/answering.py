"""The run's own model answers parameter tasks, as it is: greedy, free or held to the tool's schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolsavvy.calls.attempts import Call
from toolsavvy.calls.lenient import read_arguments
from toolsavvy.config.schema import Config
from toolsavvy.models.loading import load_base, place
from toolsavvy.models.text import TextEncoder
from toolsavvy.parameters.generating import generate
from toolsavvy.parameters.prompts import ArgumentPrompts
from toolsavvy.suites.parameters import Answer
from toolsavvy.tasks import ParamTask
from toolsavvy.tracking import Run


def answers_of_model(cfg: Config, run: Run, tasks: Sequence[ParamTask]) -> Mapping[str, Answer]:
    """Ask the model every task; answers are kept in the run's checkpoints, so that nothing is asked twice.

    The tool is given (per-call form), so what is read is the arguments alone. An answer that goes on
    after its object is read up to there; an object that was cut off at `method.answers.max_tokens` is none.

    Args:
        cfg: model, method.answers, trainer and seed are read.
        run: keeps the answers.
        tasks: one reference each.
    """
    how = cfg.method.answers
    model, tokenizer = load_base(cfg.model, seed=cfg.seed)
    place(model, cfg.trainer.accelerator)
    prompts = ArgumentPrompts(
        tokenizer, TextEncoder(tokenizer), schema_tokens=how.schema_tokens, context_tokens=how.context_tokens
    )
    with run.stage("answer"):
        written = generate(
            model, tokenizer, tasks, prompts, max_tokens=how.max_tokens, constrained=how.constrained, seed=cfg.seed,
            store=run.checkpoints / "answers", batch_size=how.batch_size,
        )  # fmt: skip
    by_id = {task.id: task for task in tasks}
    return {w.task_id: answer_of(by_id[w.task_id], w.text) for w in written}


def answer_of(task: ParamTask, text: str) -> Answer:
    """A model's text as the call of the task's tool."""
    found = read_arguments(text)
    if found.arguments is None:
        return Answer(None, found.repairs)
    return Answer((Call(task.tool.name, found.arguments),), found.repairs)
