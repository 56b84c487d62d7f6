"""The set: stories of every operation over seeds, chosen so that operations and levels are even."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from toolsavvy.catalog import Tool
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.generators.parambench.dividing import divided
from toolsavvy.generators.parambench.playing import Refused, play, story_seed
from toolsavvy.generators.parambench.scenarios import load_all
from toolsavvy.generators.parambench.scene import PROGRAMS, Program
from toolsavvy.tasks import ParamTask

_ID = re.compile(r"\b[a-z]+(?:-[a-z]+)*-[0-9a-f]{8,17}\b|arn:aws:\S+|/hostedzone/\S+")
_PATIENCE = 4
"""Stories that are played for each that is wanted, before an operation is taken to have no more."""


@dataclass(frozen=True)
class Settings:
    """What is wanted.

    Args:
        n: instances.
        seed: of everything that is drawn.
        operations: those to write for; () takes all that have programs.
        spare: stories played for each instance, among which levels are evened out.
    """

    n: int = 1022
    seed: int = 0
    operations: tuple[str, ...] = ()
    spare: float = 1.6


@dataclass(frozen=True)
class Built:
    """A finished set.

    Args:
        tasks: in the order of operation and number.
        counts: stories played, refused by the cloud, dropped as duplicates.
        refused: program -> what the cloud said, once each.
    """

    tasks: tuple[ParamTask, ...]
    counts: Mapping[str, int]
    refused: Mapping[str, str] = field(default_factory=dict)


def programs(operations: Sequence[str] = ()) -> dict[str, list[Program]]:
    """Operation -> programs, sorted by operation.

    Raises:
        UserError: an operation has none.
    """
    load_all()
    if odd := next((name for name in operations if name not in PROGRAMS), None):
        raise UserError(
            f"no story ends in {odd!r}", where="operations", expected='operations as "ec2:CreateVpc"',
            fix=did_you_mean(odd, PROGRAMS),
        )  # fmt: skip
    return {name: PROGRAMS[name] for name in sorted(operations or PROGRAMS)}


def build(settings: Settings, tools: Mapping[str, Tool], progress: Callable[[str], None] = lambda _: None) -> Built:
    """Play, choose, divide.

    Args:
        settings: what is wanted.
        tools: operation -> tool.
        progress: told each operation that is done.

    Raises:
        UserError: the programs cannot tell so many different stories.
    """
    chosen = programs(settings.operations)
    if settings.n < len(chosen):
        raise UserError(
            f"{settings.n} instances for {len(chosen)} operations", where="n", expected=f"at least {len(chosen)}",
            fix="choose fewer operations, or raise n",
        )  # fmt: skip
    wanted = -(-settings.n // len(chosen))
    counts, refused, pools = Counter[str](), dict[str, str](), dict[str, list[ParamTask]]()
    for operation, own in chosen.items():
        pools[operation] = _pool(operation, own, round(wanted * settings.spare) + 1, settings, tools, counts, refused)
        progress(operation)
    tasks = choose(pools, settings.n, settings.seed)
    return Built(tuple(divided(_numbered(tasks), settings.seed)), dict(counts), refused)


def _pool(
    operation: str,
    own: Sequence[Program],
    size: int,
    settings: Settings,
    tools: Mapping[str, Tool],
    counts: Counter[str],
    refused: dict[str, str],
) -> list[ParamTask]:
    """Different stories of one operation, its programs in turn."""
    found: dict[str, ParamTask] = {}
    for number in range(size * _PATIENCE):
        program = own[number % len(own)]
        seed = story_seed(settings.seed, operation, program.__name__, number // len(own))
        task = play(operation, program, seed, tools[operation])
        counts["played"] += 1
        if isinstance(task, Refused):
            counts["refused"] += 1
            refused.setdefault(task.program, task.why)
        elif (key := masked(task.instruction)) in found:
            counts["duplicates"] += 1
        else:
            found[key] = task
        if len(found) == size:
            break
    return list(found.values())


def masked(instruction: str) -> str:
    """An instruction without the ids that differ from account to account: what makes two the same."""
    return " ".join(_ID.sub("#", instruction).casefold().split())


def choose(pools: Mapping[str, Sequence[ParamTask]], n: int, seed: int) -> list[ParamTask]:
    """Exactly n tasks, as many of each operation as there are of any other, then levels as even as the pools allow.

    Operations take turns, in an order drawn anew each round; each gives of what it has left the task whose level is
    the rarest so far, the earlier played one first.

    Raises:
        UserError: there are fewer.
    """
    if (total := sum(map(len, pools.values()))) < n:
        raise UserError(
            f"there are {total} different stories", where="n", expected=f"at most {total}", fix=f"set n={total}"
        )
    rng, left = random.Random(f"{seed}/choose"), {name: list(pool) for name, pool in pools.items()}
    levels, chosen = Counter[str](), list[ParamTask]()
    while len(chosen) < n:
        order = [name for name in left if left[name]]
        rng.shuffle(order)
        for name in order[: n - len(chosen)]:
            task = min(left[name], key=lambda t: levels[t.level])
            left[name].remove(task)
            levels[task.level] += 1
            chosen.append(task)
    return chosen


def _numbered(tasks: Sequence[ParamTask]) -> list[ParamTask]:
    """Tasks in the order of operation and level, with short ids that say the operation; each a story of its own."""
    numbers, named = Counter[str](), []
    for task in sorted(tasks, key=lambda t: (t.reference.name, t.level, t.id)):
        numbers[task.reference.name] += 1
        name = f"{task.reference.name}/{numbers[task.reference.name]:02}"
        named.append(replace(task, id=name, cluster=name))
    return named
