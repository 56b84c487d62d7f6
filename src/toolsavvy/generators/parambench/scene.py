"""What a story is: calls carried out one after another, then a goal in words and the one call that reaches it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolsavvy.parameters.cloud.world import World
from toolsavvy.tasks import Upstream


@dataclass
class Scene:
    """A story being played.

    Args:
        world: where calls are carried out.
        rng: everything that is drawn.
        calls: carried out so far; what the model will see as context.
    """

    world: World
    rng: random.Random
    calls: list[Upstream] = field(default_factory=list)

    def do(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Carry out a call that the model will see with its result."""
        output = self.world.call(operation, arguments)
        self.calls.append(Upstream(operation, arguments, output))
        return output

    def hidden(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Carry out a call that stays out of the context: no value may come from it alone."""
        return self.world.call(operation, arguments)


@dataclass(frozen=True)
class Goal:
    """How a story ends.

    Args:
        arguments: of the call that reaches the goal.
        sentences: the instruction, sentence by sentence; never an API field name.
        conditions: arguments that are there only because another has a certain value (ports because of the protocol).
        unordered: paths of arrays whose order means nothing, as `ParamTask.unordered`.
    """

    arguments: Mapping[str, Any]
    sentences: tuple[str, ...]
    conditions: int = 0
    unordered: tuple[str, ...] = ()

    @property
    def instruction(self) -> str:
        """The whole instruction."""
        return " ".join(self.sentences)


Program = Callable[[Scene], Goal]
"""Plays one variant of a story, as the scene's rng draws, and says the goal; the same rng gives the same story."""

PROGRAMS: dict[str, list[Program]] = {}
"""Operation ("ec2:CreateVpc") -> the programs that end in it."""


def program(operation: str) -> Callable[[Program], Program]:
    """Register a program under the operation of its last call."""

    def register(function: Program) -> Program:
        PROGRAMS.setdefault(operation, []).append(function)
        return function

    return register
