"""Which tasks are for what: labelled, unlabelled, validation and test, without a story or a test tool on two sides."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from toolsavvy.errors import UserError
from toolsavvy.tasks import ParamTask

WAYS = ("given", "tool", "record")
"""What a division goes by."""


@dataclass(frozen=True)
class Division:
    """Tasks by what they are for, each part in the order of the source.

    Args:
        labelled: with references: what the seed model and the probe learn from.
        unlabelled: references are hidden from everything but the oracle filter.
        validation: thresholds are chosen on these.
        test: everything is reported on these.
    """

    labelled: tuple[ParamTask, ...]
    unlabelled: tuple[ParamTask, ...]
    validation: tuple[ParamTask, ...]
    test: tuple[ParamTask, ...]


@dataclass(frozen=True)
class _Sizes:
    labelled: int
    unlabelled: int
    validation: int
    test: int

    @property
    def learning(self) -> int:
        """Tasks that are not for testing."""
        return self.labelled + self.unlabelled + self.validation


def divide(
    tasks: Sequence[ParamTask], *, by: str, labelled: int, unlabelled: int, validation: int, test: int, seed: int
) -> Division:
    """Divide tasks in per-call form (ParamBench, 2608.03071, splits by API).

    No cluster (record, dialogue, story) is in two parts. By tool and as given, no tool of the test part is in another:
    tasks that stand in the way are left out of the part that is drawn later.

    Args:
        tasks: one reference each.
        by: given: `ParamTask.split` says train, validation, test; what it lacks of validation comes from train, of
            train from validation; a source without any division is divided by record. tool: by the called tool.
            record: by cluster alone.
        labelled: tasks of that part, likewise the others.
        unlabelled: see above.
        validation: see above.
        test: see above; 0 is all that the other parts leave.
        seed: of the draw; parts do not change when a later one (in the order test, labelled, validation, unlabelled)
            has another size.

    Raises:
        UserError: there are too few tasks.
    """
    if by not in WAYS:
        raise UserError(f"{by!r} is no way to divide", where="method.division.by", expected=", ".join(WAYS))
    sizes = _Sizes(labelled, unlabelled, validation, test)
    if sizes.learning + max(test, 1) > len(tasks):
        raise _too_few(tasks, sizes)
    shuffled = _by_cluster(tasks, seed)
    if by == "given" and any(task.split for task in tasks):
        return _given(tasks, shuffled, sizes)
    return _by_tool(tasks, shuffled, sizes, seed) if by == "tool" else _by_record(tasks, shuffled, sizes)


def _given(tasks: Sequence[ParamTask], shuffled: Sequence[ParamTask], sizes: _Sizes) -> Division:
    """As the source divides."""
    pools = {split: [t for t in shuffled if t.split == split] for split in ("train", "validation", "test")}
    if not pools["test"]:
        raise UserError(
            "the source has no test tasks", where="method.division.by", expected="a source that divides its tasks",
            fix="method.division.by=record",
        )  # fmt: skip
    test = _take(pools["test"], sizes.test or len(pools["test"]), "test")
    free = _Free(test, tools=True)
    train = free.of(pools["train"] or pools["validation"])
    held = free.of(pools["validation"]) if pools["train"] else []
    return _learning(tasks, train, held, sizes, test)


def _by_tool(tasks: Sequence[ParamTask], shuffled: Sequence[ParamTask], sizes: _Sizes, seed: int) -> Division:
    """Tools are drawn for the test part until their share of the tasks is the part's share of what is asked for."""
    if not sizes.test:
        return _all_that_is_left(tasks, shuffled, sizes, seed)
    share = sizes.test / (sizes.test + sizes.learning)
    chosen = _tools(tasks, max(sizes.test, round(share * len(tasks))), seed)
    test = _take([t for t in shuffled if t.tool.id in chosen], sizes.test, "test")
    rest = [t for t in shuffled if t.tool.id not in chosen]
    return _learning(tasks, _Free(test, tools=True).of(rest), [], sizes, test)


def _all_that_is_left(tasks: Sequence[ParamTask], shuffled: Sequence[ParamTask], sizes: _Sizes, seed: int) -> Division:
    """Tools are drawn for learning until they suffice; the tasks of all others are the test part."""
    chosen = _tools(tasks, sizes.learning, seed)
    parts = _learning(tasks, [t for t in shuffled if t.tool.id in chosen], [], sizes, ())
    learnt = [*parts.labelled, *parts.unlabelled, *parts.validation]
    test = _Free(learnt).of([t for t in shuffled if t.tool.id not in chosen])
    if not test:
        raise _short("test", 0, 1)
    return Division(parts.labelled, parts.unlabelled, parts.validation, _ordered(tasks, test))


def _by_record(tasks: Sequence[ParamTask], shuffled: Sequence[ParamTask], sizes: _Sizes) -> Division:
    """By cluster alone."""
    if sizes.test:
        test = _take(shuffled, sizes.test, "test")
        return _learning(tasks, _Free(test).of(shuffled), [], sizes, test)
    parts = _learning(tasks, shuffled, [], sizes, ())
    test = _Free([*parts.labelled, *parts.unlabelled, *parts.validation]).of(shuffled)
    if not test:
        raise _short("test", 0, 1)
    return Division(parts.labelled, parts.unlabelled, parts.validation, _ordered(tasks, test))


def _learning(
    tasks: Sequence[ParamTask],
    train: Sequence[ParamTask],
    held: Sequence[ParamTask],
    sizes: _Sizes,
    test: Sequence[ParamTask],
) -> Division:
    """Labelled, validation and unlabelled tasks, in this order; validation comes from `held` where there is any."""
    labelled = _take(train, sizes.labelled, "labelled")
    validation = _take(_Free(labelled).of(held or train), sizes.validation, "validation")
    unlabelled = _take(_Free([*labelled, *validation]).of(train), sizes.unlabelled, "unlabelled")
    parts = (labelled, unlabelled, validation, test)
    return Division(*(_ordered(tasks, part) for part in parts))


class _Free:
    """What may still be drawn beside parts that are drawn.

    Args:
        taken: tasks of those parts.
        tools: their tools are taken too.
    """

    def __init__(self, taken: Iterable[ParamTask], tools: bool = False) -> None:
        taken = list(taken)
        self.clusters = {_cluster(task) for task in taken}
        self.tools = {task.tool.id for task in taken} if tools else set[str]()

    def of(self, tasks: Iterable[ParamTask]) -> list[ParamTask]:
        """Those of the tasks."""
        return [t for t in tasks if _cluster(t) not in self.clusters and t.tool.id not in self.tools]


def _cluster(task: ParamTask) -> str:
    """What is independent; a task without a cluster stands for itself."""
    return task.cluster or task.id


def _by_cluster(tasks: Sequence[ParamTask], seed: int) -> list[ParamTask]:
    """Tasks cluster by cluster, in an order that is drawn: whoever takes the first n splits one cluster at most."""
    clusters: dict[str, list[ParamTask]] = {}
    for task in tasks:
        clusters.setdefault(_cluster(task), []).append(task)
    names = sorted(clusters)
    order = np.random.default_rng([seed, 0]).permutation(len(names))
    return [task for i in order for task in clusters[names[i]]]


def _tools(tasks: Sequence[ParamTask], least: int, seed: int) -> Collection[str]:
    """Tools, drawn until they have so many tasks; at least one, and never all."""
    counts: dict[str, int] = {}
    for task in tasks:
        counts[task.tool.id] = counts.get(task.tool.id, 0) + 1
    if len(counts) < 2:
        raise UserError(
            f"the tasks are of {len(counts)} tool", where="method.division.by", expected="two tools or more",
            fix="method.division.by=record",
        )  # fmt: skip
    names, chosen, found = sorted(counts), [], 0
    for i in np.random.default_rng([seed, 1]).permutation(len(names))[: len(names) - 1]:
        if found >= least and chosen:
            break
        chosen.append(names[i])
        found += counts[names[i]]
    return frozenset(chosen)


def _take(tasks: Sequence[ParamTask], count: int, part: str) -> tuple[ParamTask, ...]:
    """The first so many; what is left of the last one's cluster is lost to the other parts.

    Raises:
        UserError: there are fewer.
    """
    if len(tasks) < count:
        raise _short(part, len(tasks), count)
    return tuple(tasks[:count])


def _ordered(tasks: Sequence[ParamTask], part: Iterable[ParamTask]) -> tuple[ParamTask, ...]:
    """A part in the order of the source."""
    chosen = {task.id for task in part}
    return tuple(task for task in tasks if task.id in chosen)


def _short(part: str, there: int, wanted: int) -> UserError:
    """The error for a part that can't be filled."""
    return UserError(
        f"{there} tasks are left for {part}, since parts share no record and test tools are tested alone",
        where=f"method.division.{part}", expected=f"{wanted} tasks or more",
        fix=f"lower method.division.{part} or another part, or method.division.by=record",
    )  # fmt: skip


def _too_few(tasks: Sequence[ParamTask], sizes: _Sizes) -> UserError:
    """The error for a set that is too small for all that is asked of it."""
    asked = f"{sizes.labelled} labelled + {sizes.unlabelled} unlabelled + {sizes.validation} validation"
    asked += f" + {sizes.test} test" if sizes.test else " + at least 1 test"
    return UserError(
        f"the set has {len(tasks)} tasks", where="method.division", expected=f"{asked} tasks",
        fix="lower them, as method.division.labelled=50 method.division.test=0 (all that are left)",
    )  # fmt: skip
