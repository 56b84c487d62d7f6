"""One story, played: its calls are carried out, then the call that reaches its goal, and a task is made of it."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from typing import Any

from toolsavvy.calls.schema_check import valid
from toolsavvy.catalog import Tool
from toolsavvy.catalogs.parambench import VIOLATES
from toolsavvy.generators.parambench.scene import Program, Scene
from toolsavvy.levels import levelled
from toolsavvy.parameters.cloud.world import CallError, World, as_json
from toolsavvy.tasks import ParamTask, Reference, Upstream

SOURCE = "parambench_aws"


@dataclass(frozen=True)
class Refused:
    """A story that the cloud did not play along with.

    Args:
        program: its name.
        why: the cloud's words.
    """

    program: str
    why: str


def story_seed(seed: int, operation: str, program: str, number: int) -> int:
    """Seed of one story: the same for all processes and machines."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{operation}/{program}/{number}".encode()).digest()[:6], "big")


def play(operation: str, program: Program, seed: int, tool: Tool) -> ParamTask | Refused:
    """Play one story in an account of its own and carry out the call that reaches its goal.

    Args:
        operation: "ec2:CreateVpc"; what the goal's arguments are for.
        program: tells the story.
        seed: of the account and of everything that is drawn.
        tool: the operation, with its schema.

    Returns:
        The task with its level; its facts are `world` (the account's seed), `program` and `output` (of the call).

    Raises:
        RuntimeError: the program itself failed, which no draw may make it.
    """
    name = f"{program.__module__.rpartition('.')[2]}.{program.__name__}"
    with World(seed) as world:
        scene = Scene(world, random.Random(seed))
        try:
            goal = program(scene)
            output = world.call(operation, goal.arguments)
        except CallError as error:
            return Refused(name, str(error))
        except Exception as error:
            raise RuntimeError(f"{operation}: {name} failed at seed {seed}: {error!r}") from error
    arguments = as_json(goal.arguments)
    task = ParamTask(
        id=f"{operation}/{seed}",
        instruction=goal.instruction,
        tools=(tool,),
        references=(Reference(operation, arguments),),
        upstream=tuple(Upstream(c.name, as_json(c.arguments), c.output, c.label) for c in scene.calls),
        source=SOURCE,
        category=operation.partition(":")[0],
        conditions=goal.conditions,
        flags=() if valid(arguments, tool.parameters) else (VIOLATES,),
        unordered=goal.unordered,
        facts={"world": seed, "program": name, "output": output, **_replay(world, scene)},
    )
    return levelled(task)


def _replay(world: World, scene: Scene) -> dict[str, Any]:
    """What it takes to play the story again where calls stayed out of the context: all of them, and which are in it."""
    sent = [(name, as_json(arguments)) for name, arguments in world.history[:-1]]
    shown = [(c.name, as_json(c.arguments)) for c in scene.calls]
    if sent == shown:
        return {}
    seen, left = [], list(shown)
    for call in sent:
        seen.append(bool(left) and call == left[0])
        left = left[1:] if seen[-1] else left
    return {"replay": [list(call) for call in sent], "shown": seen}
