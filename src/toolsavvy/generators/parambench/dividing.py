"""Operations divided into train, validation and test: no operation crosses, every level and service is in the test."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from toolsavvy.tasks import LEVELS, ParamTask

SHARES = {"train": 0.5, "validation": 0.15, "test": 0.35}
"""Of the operations; about those of the instances too, since operations have about as many each."""
_TRIES = 200


@dataclass(frozen=True)
class Profile:
    """What an operation brings into its split.

    Args:
        service: "ec2".
        levels: level -> instances.
    """

    service: str
    levels: Mapping[str, int]

    @property
    def mean(self) -> float:
        """Mean level, 1 to 5."""
        return sum((LEVELS.index(k) + 1) * n for k, n in self.levels.items()) / max(sum(self.levels.values()), 1)


def divided(tasks: Sequence[ParamTask], seed: int) -> list[ParamTask]:
    """The tasks with their split, by operation."""
    splits = split_operations(profiles(tasks), seed)
    return [replace(task, split=splits[task.reference.name]) for task in tasks]


def profiles(tasks: Sequence[ParamTask]) -> dict[str, Profile]:
    """Operation -> its profile."""
    found: dict[str, Counter[str]] = {}
    for task in tasks:
        found.setdefault(task.reference.name, Counter())[task.level] += 1
    return {name: Profile(name.partition(":")[0], levels) for name, levels in found.items()}


def split_operations(operations: Mapping[str, Profile], seed: int) -> dict[str, str]:
    """Operation -> split.

    Within a service, operations are sorted by their mean level and dealt out so that each split gets its share of easy
    and of hard ones. Of several dealings the one is taken whose splits' levels are nearest to the whole set's.
    """
    dealings = [_deal(operations, random.Random(f"{seed}/{i}")) for i in range(_TRIES)]
    return min(dealings, key=lambda splits: _unevenness(operations, splits))


def _deal(operations: Mapping[str, Profile], rng: random.Random) -> dict[str, str]:
    splits: dict[str, str] = {}
    for service in sorted({p.service for p in operations.values()}):
        names = sorted(name for name, p in operations.items() if p.service == service)
        jitter = {name: operations[name].mean + rng.uniform(-0.4, 0.4) for name in names}
        given = Counter[str]()
        for place, name in enumerate(sorted(names, key=lambda n: jitter[n]), start=1):
            # The split that lags most behind its share comes next; test first, so that small services are in it.
            split = max(reversed(SHARES), key=lambda s: SHARES[s] * place - given[s])
            given[split] += 1
            splits[name] = split
    return splits


def _unevenness(operations: Mapping[str, Profile], splits: Mapping[str, str]) -> tuple[int, float]:
    """Services and levels that the test lacks; then the largest difference of a level's share to the whole set's."""
    counts = {split: Counter[str]() for split in SHARES}
    for name, profile in operations.items():
        counts[splits[name]].update(profile.levels)
    whole = sum(counts.values(), Counter[str]())
    services = {p.service for p in operations.values()}
    tested = {operations[name].service for name, split in splits.items() if split == "test"}
    missing = len(services - tested) + sum(counts["test"][level] == 0 for level in whole)
    shares = [
        abs(found[level] / max(found.total(), 1) - whole[level] / max(whole.total(), 1))
        for found in counts.values()
        for level in LEVELS
    ]
    return missing, max(shares)
