"""Who calls the retrieved tools of suite=downstream: the run's model picks and fills, or rules fill for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from toolsavvy.calls.lenient import read_arguments
from toolsavvy.catalog import Tool
from toolsavvy.config.schema import Config
from toolsavvy.generators.parambench.oracle.reader import derive
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.suites.downstream import Downstream
from toolsavvy.tasks import ParamTask, Reference
from toolsavvy.tracking import Run

SYSTEM = "Name the operation of the cloud's API that does what is asked. Write its name, nothing else."
NOTHING = "(nothing)"
"""The request that tells how likely a name is without one."""


class ModelCaller:
    """The run's model, as it is; loaded when it is first asked.

    It picks the tool whose name gains most by the request: mean log-probability per token of the name after the
    request, less that after no request. A name that is likely anyway is no better for it, and as every tool is scored
    by itself, neither the order of a shortlist nor what else is in it tells. It fills as in suite=parameters, greedily.

    Args:
        cfg: model, method.answers (where the method has it), trainer and seed are read.
        store: folder of the answers, so that nothing is written twice; None keeps them in memory.
        max_tokens: of an answer.
    """

    def __init__(self, cfg: Config, store: Path | None = None, max_tokens: int = 192) -> None:
        self.cfg, self.store, self.max_tokens = cfg, store, max_tokens

    @cached_property
    def _loaded(self) -> tuple[Any, Any, Any]:
        """Model, tokenizer, encoder of plain text."""
        from toolsavvy.models.loading import load_base, place
        from toolsavvy.models.text import TextEncoder

        model, tokenizer = load_base(self.cfg.model, seed=self.cfg.seed)
        place(model, self.cfg.trainer.accelerator)
        return model, tokenizer, TextEncoder(tokenizer)

    def scores(self, tasks: Sequence[ParamTask], tools: Sequence[Sequence[Tool]]) -> list[np.ndarray]:
        """How much likelier the request makes each tool's name: float64 [tool] for every task."""
        names = [[tool.name for tool in own] for own in tools]
        said = self._likelihoods([task.instruction for task in tasks], names)
        every = sorted({name for own in names for name in own})
        usual = dict(zip(every, self._likelihoods([NOTHING], [every])[0].tolist(), strict=True)) if every else {}
        return [s - np.array([usual[name] for name in own]) for s, own in zip(said, names, strict=True)]

    def _likelihoods(self, requests: Sequence[str], names: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """Mean log-probability per token of every name after its request: float64 [name] for every request."""
        from toolsavvy.decoding.options import option_likelihoods
        from toolsavvy.models.framing import Message
        from toolsavvy.models.loading import resolve_precision
        from toolsavvy.models.prompts import Prompt, render

        model, tokenizer, text = self._loaded
        precision = resolve_precision(self.cfg.trainer.precision, self.cfg.trainer.accelerator)
        found = [np.empty(0)] * len(requests)
        groups: dict[int, list[int]] = {}
        for i, own in enumerate(names):
            groups.setdefault(len(own), []).append(i)
        for width, rows in groups.items():
            if width:
                turns = [(Message("system", SYSTEM), Message("user", requests[i])) for i in rows]
                prompts = [render(tokenizer, text, Prompt(turn)).ids for turn in turns]
                options = [text.encode_batch(list(names[i])) for i in rows]
                for i, row in zip(rows, option_likelihoods(model, prompts, options, precision=precision), strict=True):
                    found[i] = row
        return found

    def fill(self, wanted: Sequence[tuple[ParamTask, Tool]]) -> list[Mapping[str, Any] | None]:
        """Arguments as the model writes them; None where they can't be read, or were cut off."""
        from toolsavvy.parameters.generating import generate
        from toolsavvy.parameters.prompts import ArgumentPrompts

        if not wanted:
            return []
        model, tokenizer, text = self._loaded
        asked = [for_tool(task, tool) for task, tool in wanted]
        prompts = ArgumentPrompts(tokenizer, text)
        written = generate(
            model, tokenizer, asked, prompts, max_tokens=self.max_tokens, seed=self.cfg.seed, store=self.store
        )  # fmt: skip
        return [read_arguments(w.text).arguments if w.finished else None for w in written]


class RuleFiller:
    """Right arguments for the right tool, what rules read from request and context for any other.

    The rules are those that audit `generator=parambench`: they see the tool's schema, the instruction and the earlier
    calls, never the reference. A tool that has no rule is not filled, so its call fails.
    """

    def fill(self, wanted: Sequence[tuple[ParamTask, Tool]]) -> list[Mapping[str, Any] | None]:
        """Arguments for every pair; None where no rule reads any."""
        return [
            task.reference.arguments
            if tool.name == task.reference.name
            else derive(Sight(tool, task.instruction, task.upstream))
            for task, tool in wanted
        ]


def for_tool(task: ParamTask, tool: Tool) -> ParamTask:
    """The task as it is asked once a tool was picked: nothing of the reference is left in it."""
    return replace(
        task, id=f"{task.id} by {tool.id}", tools=(tool,), references=(Reference(tool.name, {}),), unordered=()
    )  # fmt: skip


def equip(suite: Downstream, cfg: Config, run: Run) -> None:
    """Give a suite those who pick and fill, as it asks for them."""
    model = ModelCaller(cfg, run.checkpoints / "calls", suite.max_tokens)
    suite.picker = model
    suite.filler = model if suite.caller == "llm" else RuleFiller()
