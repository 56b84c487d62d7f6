"""What a set of parameter tasks is worth: derivable, without repeats or leaks, even in levels, not to be guessed."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from toolsavvy.calls.flattening import leaves
from toolsavvy.calls.matching import Comparison
from toolsavvy.catalogs.parambench import VIOLATES
from toolsavvy.generators.parambench.building import masked
from toolsavvy.generators.parambench.leaks import context_words, leaked, origin, stated_ids
from toolsavvy.generators.parambench.oracle.reader import derive
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.tasks import LEVELS, ParamTask

DERIVABLE = 0.99
"""Share of the instances that the oracle must get wholly right."""
EVEN = 0.08
"""Least share of each level."""


@dataclass(frozen=True)
class Audit:
    """Findings over one set.

    Args:
        instances: tasks.
        operations: different ones.
        oracle: share of the tasks that the oracle gets wholly right.
        underived: id of each other task -> what the oracle said (None: nothing).
        by_operation: operation -> {instances, oracle, split, level counts, mean calls in the context}.
        levels: level -> count; over each split likewise.
        duplicates: tasks whose instruction, ids masked, is another's too.
        crossing: operations in more than one split.
        violating: tasks whose reference breaks its schema.
        leaks: id -> API names in its instruction.
        origins: where values can be read: stated | upstream | derived -> share of the leaves.
        stated_ids: share of the tasks whose instruction says an id.
        guessed: share of the tasks that the guesser gets wholly right, of the leaves it gets right.
        context_calls: quartiles of the number of earlier calls.
    """

    instances: int
    operations: int
    oracle: float
    underived: Mapping[str, Any]
    by_operation: Mapping[str, Mapping[str, Any]]
    levels: Mapping[str, Mapping[str, int]]
    duplicates: int
    crossing: tuple[str, ...]
    violating: tuple[str, ...]
    leaks: Mapping[str, Sequence[str]]
    origins: Mapping[str, float]
    stated_ids: float
    guessed: Mapping[str, float]
    context_calls: tuple[float, ...]

    def failures(self, least_level: float = EVEN) -> list[str]:
        """What keeps the set from being sound."""
        total = Counter(self.levels["all"])
        found = {
            f"the oracle derives {self.oracle:.1%}, not {DERIVABLE:.0%}": self.oracle < DERIVABLE,
            f"{self.duplicates} duplicates": self.duplicates > 0,
            f"operations in several splits: {', '.join(self.crossing)}": bool(self.crossing),
            f"API names in {len(self.leaks)} instructions": bool(self.leaks),
        }
        thin = [level for level in LEVELS if total[level] < least_level * self.instances]
        found[f"levels below {least_level:.0%}: {', '.join(thin)}"] = bool(thin)
        return [what for what, is_so in found.items() if is_so]

    def as_json(self) -> dict[str, Any]:
        """For audit.json."""
        return {**asdict(self), "failures": self.failures()}


def audit(tasks: Sequence[ParamTask]) -> Audit:
    """Look at every task; the oracle sees schema, instruction and context alone."""
    answers = {task.id: derive(Sight.of(task)) for task in tasks}
    right = {task.id: _is_right(task, answers[task.id]) for task in tasks}
    texts = Counter(masked(task.instruction) for task in tasks)
    splits = defaultdict(set)
    for task in tasks:
        splits[task.reference.name].add(task.split)
    found = {task.id: names for task in tasks if (names := leaked(task))}
    calls = [len(task.upstream) for task in tasks]
    return Audit(
        instances=len(tasks),
        operations=len(splits),
        oracle=_share(right.values()),
        underived={task.id: answers[task.id] for task in tasks if not right[task.id]},
        by_operation=_by_operation(tasks, right),
        levels=_levels(tasks),
        duplicates=sum(n - 1 for n in texts.values()),
        crossing=tuple(sorted(name for name, own in splits.items() if len(own) > 1)),
        violating=tuple(task.id for task in tasks if VIOLATES in task.flags),
        leaks=found,
        origins=_origins(tasks),
        stated_ids=_share(stated_ids(task) > 0 for task in tasks),
        guessed=guess(tasks),
        context_calls=tuple(statistics.quantiles(calls, n=4)) if len(calls) > 1 else tuple(map(float, calls)),
    )


def _share(values: Any) -> float:
    kept = [bool(value) for value in values]
    return sum(kept) / len(kept) if kept else 0.0


def _is_right(task: ParamTask, arguments: Mapping[str, Any] | None) -> bool:
    """The whole object, as the task compares it."""
    if arguments is None:
        return False
    return Comparison(task.tool.parameters, task.unordered).same(arguments, task.reference.arguments)


def _by_operation(tasks: Sequence[ParamTask], right: Mapping[str, bool]) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[ParamTask]] = defaultdict(list)
    for task in tasks:
        groups[task.reference.name].append(task)
    return {
        name: {
            "instances": len(own),
            "oracle": _share(right[task.id] for task in own),
            "split": own[0].split,
            "levels": {level: n for level in LEVELS if (n := sum(task.level == level for task in own))},
            "calls": statistics.fmean(len(task.upstream) for task in own),
        }
        for name, own in sorted(groups.items())
    }


def _levels(tasks: Sequence[ParamTask]) -> dict[str, dict[str, int]]:
    """Counts over all, then by split."""
    parts = {"all": list(tasks)}
    parts |= {split: [t for t in tasks if t.split == split] for split in dict.fromkeys(t.split for t in tasks)}
    return {name: {level: sum(t.level == level for t in own) for level in LEVELS} for name, own in parts.items()}


def _origins(tasks: Sequence[ParamTask]) -> dict[str, float]:
    """Shares over all leaves of all references."""
    counts = Counter[str]()
    for task in tasks:
        words = context_words(task)
        counts.update(origin(leaf.value, task, words) for leaf in leaves(task.reference.arguments))
    return {name: counts[name] / max(counts.total(), 1) for name in ("stated", "upstream", "derived")}


def guess(tasks: Sequence[ParamTask]) -> dict[str, float]:
    """A control that reads nothing: per operation and path the most frequent value of the *other* tasks.

    Leave-one-out within the operation, since no test operation is in train. It answers every path that most others
    have.
    """
    groups: dict[str, list[ParamTask]] = defaultdict(list)
    for task in tasks:
        groups[task.reference.name].append(task)
    exact, right, total = [], 0, 0
    for own in groups.values():
        held = [{leaf.path: leaf.value for leaf in leaves(task.reference.arguments)} for task in own]
        for i, mine in enumerate(held):
            answer = _frequent([other for j, other in enumerate(held) if j != i])
            hits = sum(path in answer and answer[path] == repr(value) for path, value in mine.items())
            exact.append(hits == len(mine) == len(answer))
            right, total = right + hits, total + len(mine)
    return {"exact": _share(exact), "fields": right / max(total, 1)}


def _frequent(others: Sequence[Mapping[Any, Any]]) -> dict[Any, str]:
    """Path -> its most frequent value, of the paths that at least half have."""
    values: dict[Any, Counter[str]] = defaultdict(Counter)
    for leaf in others:
        for path, value in leaf.items():
            values[path][repr(value)] += 1
    return {path: found.most_common(1)[0][0] for path, found in values.items() if 2 * found.total() >= len(others)}
