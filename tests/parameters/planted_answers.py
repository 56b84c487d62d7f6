"""Generated calls with known contents: a direction in one layer tells how likely a value is right, and no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolsavvy.catalog import Tool
from toolsavvy.parameters.fields import Candidate, FieldTable, Origin, table_of
from toolsavvy.parameters.reading import ReadAnswer, ReadValue
from toolsavvy.tasks import LEVELS, ParamTask, Reference

LAYERS, PLANTED, WIDTH = (0, 1, 2), 1, 16
NAMES = ("name", "size", "zone", "note")
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"}, "size": {"type": "integer"}, "zone": {"type": "string"}, "note": {"type": "string"},
        "filter": {"type": "object"},
    },
    "required": ["name"],
}  # fmt: skip
TOOL = Tool(id="make", name="make", description="Make a thing.", parameters=SCHEMA)
OTHER = Origin("another fold's model")


def task(name: str, arguments: Mapping[str, Any], *, cluster: str = "", level: str = "L1") -> ParamTask:
    return ParamTask(name, "Make it.", (TOOL,), (Reference("make", arguments),), cluster=cluster, level=level)


def read(arguments: Mapping[str, Any], logprobs: Sequence[float] | float = -0.1, states: Any = None) -> ReadAnswer:
    """A reading of a flat call: one value a key."""
    count = max(len(arguments), 1)
    sure = [logprobs] * count if isinstance(logprobs, float) else list(logprobs)
    rows = np.zeros((count, 1, 2), dtype=np.float16) if states is None else states
    paths: list[tuple[str | int, ...]] = [(k,) for k in arguments] or [()]
    layers = tuple(range(rows.shape[1]))
    values = (ReadValue(p, rows[i], sure[i] / 2, sure[i], 2, 3 * i) for i, p in enumerate(paths))
    return ReadAnswer(tuple(values), layers, float(sum(sure)), 2 * count)


def candidate(name: str, index: int, arguments: Mapping[str, Any] | None, **kept: Any) -> Candidate:
    """A candidate of a flat call."""
    given = kept.pop("reading", None)
    reading = None if arguments is None else given or read(arguments)
    return Candidate(name, index, str(arguments), arguments, reading, **kept)


def chance(z: np.ndarray | float, steep: float, bias: float) -> np.ndarray:
    return 1 / (1 + np.exp(-(steep * np.asarray(z) + bias)))


@dataclass(frozen=True)
class World:
    """A table, and what was planted: the true probability that each field is right."""

    table: FieldTable
    truth: np.ndarray


def world(
    tasks: int = 120, samples: int = 4, *, steep: float = 4.0, seed: int = 0, prefix: str = "task", told: float = 1.0,
    origin: Origin = OTHER, spurious: float = 0.2,
) -> World:  # fmt: skip
    """Tasks with four fields each; a value's latent z decides how likely it is right, and lies along one direction.

    Args:
        tasks: number, two of a cluster.
        samples: a task, beside the greedy answer, whose values are right more often.
        steep: of the logistic curve from z to the probability.
        seed: of everything but the direction.
        prefix: of task ids.
        told: length of z in the states; 0 plants nothing.
        origin: who wrote the answers.
        spurious: share of calls that hold a field too many, of which the state tells too.
    """
    rng = np.random.default_rng(seed)
    direction = np.random.default_rng(7).normal(size=WIDTH)
    direction /= np.linalg.norm(direction)
    made, candidates, truth = [], [], []
    for number in range(tasks):
        name = f"{prefix} {number}"
        right = {"name": f"n{number}", "size": number, "zone": f"z{number % 5}"}
        made.append(task(name, right, cluster=f"{prefix} story {number // 2}", level=LEVELS[number % 5]))
        for index in range(samples + 1):
            arguments: dict[str, Any] = {}
            latents: list[float] = []
            for key, value in right.items():
                z = rng.normal()
                p = float(chance(z, steep, 0.8 if index == 0 else 0.3))
                wrong = int(rng.integers(3))
                fault: Any = 1000 + wrong if isinstance(value, int) else f"x{wrong}"
                arguments[key] = value if rng.random() < p else fault
                latents.append(z)
                truth.append(p)
            if rng.random() < spurious:
                z = -abs(rng.normal()) - 0.5
                arguments["note"] = "more"
                latents.append(z)
                truth.append(float(chance(z, steep, 0.3)))
            states = rng.normal(size=(len(latents), len(LAYERS), WIDTH))
            states[:, PLANTED] += 8 * told * np.array(latents)[:, None] * direction
            values = tuple(
                ReadValue(
                    (key,), states[i].astype(np.float16), -0.1, float(-rng.random()), int(rng.integers(1, 4)), 5 * i
                )
                for i, key in enumerate(arguments)
            )
            candidates.append(
                Candidate(name, index, "", arguments, ReadAnswer(values, LAYERS, float(-rng.random()), 20))
            )
    return World(table_of(made, candidates, origin), np.array(truth))
