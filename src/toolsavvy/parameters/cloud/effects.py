"""What a call does to an account, and whether two calls do the same: the metric `execution_match`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolsavvy.calls.matching import Comparison
from toolsavvy.errors import UserError
from toolsavvy.parameters.cloud.snapshot import Snapshot, canonical, snapshot
from toolsavvy.parameters.cloud.world import CallError, World
from toolsavvy.tasks import ParamTask

_MADE_UP = re.compile(
    r"(?P<uuid>\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b)|(?P<kind>\b[a-z]+(?:-[a-z]+)*)-[0-9a-f]{8,17}\b"
    r"|(?P<mac>\b[0-9a-f]{2}(?::[0-9a-f]{2}){5}\b)|(?P<zone>/hostedzone/|\b)[A-Z0-9]{20,}\b|(?P<arn>/)[0-9a-f]{16}\b"
)
"""What the cloud makes up: ids, tokens, hardware addresses, ends of arns."""


@dataclass(frozen=True)
class Effect:
    """What one call did.

    Args:
        refused: error code, "" where it was carried out.
        changes: every resource that was made, changed or removed, as it is afterwards; new ids are masked, and in any
            order.
        output: the result, likewise.
    """

    refused: str = ""
    changes: tuple[str, ...] = ()
    output: str = ""


class Executor:
    """Carries calls out in the accounts that tasks were made in; what references do is kept.

    A task says its account by its facts: `world` is the seed, `replay` the calls that led there if some of them stayed
    out of the context.
    """

    def __init__(self) -> None:
        self._references: dict[str, tuple[ParamTask, Effect]] = {}

    def effect(self, task: ParamTask, arguments: Mapping[str, Any], operation: str = "") -> Effect:
        """What a call does after the task's earlier calls.

        Args:
            task: whose story is played again, in a fresh account.
            arguments: of the call.
            operation: "ec2:CreateVpc"; the task's own if left out.

        Raises:
            UserError: the task can't be executed, or its earlier calls no longer give what its context says.
        """
        with World(_seed(task)) as world:
            _replay(world, task)
            before = snapshot()
            try:
                output = world.call(operation or task.reference.name, arguments)
            except CallError as error:
                return Effect(refused=error.code)
            return _effect(before, snapshot(), output)

    def reference(self, task: ParamTask) -> Effect:
        """What the reference does."""
        kept = self._references.get(task.id)
        if kept is None or kept[0] is not task:
            self._references[task.id] = kept = (task, self.effect(task, task.reference.arguments))
        return kept[1]

    def match(self, task: ParamTask, arguments: Mapping[str, Any] | None, operation: str = "") -> bool:
        """Does the call have the same effect as the reference?

        The same arguments have, without being carried out. A refused call has only where the reference is refused
        alike. Calls that read are compared by their results. Where moto shows neither change nor result, only the same
        arguments match.

        Args:
            task: with a reference and an account.
            arguments: of the predicted call; None: there is none, which never matches.
            operation: the call's, where it may be another tool's.
        """
        if arguments is None:
            return False
        name = operation or task.reference.name
        if name == task.reference.name and _is_same(task, arguments):
            return True
        right = self.reference(task)
        found = self.effect(task, arguments, name)
        if right.refused or found.refused:
            return right.refused == found.refused
        if right.changes or found.changes:
            return right.changes == found.changes
        return name == task.reference.name and right.output == found.output and not _is_empty(right.output)

    def matches(self, task: ParamTask, answers: Sequence[Mapping[str, Any] | None]) -> list[bool]:
        """Several answers to one task; equal ones are carried out once."""
        known: dict[str, bool] = {}
        found = []
        for arguments in answers:
            key = "" if arguments is None else Comparison(task.tool.parameters, task.unordered).key(arguments)
            if key not in known:
                known[key] = self.match(task, arguments)
            found.append(known[key])
        return found


def execution_match(task: ParamTask, arguments: Mapping[str, Any] | None, executor: Executor | None = None) -> bool:
    """Does the predicted call have the same effect on the account as the reference? See `Executor.match`."""
    return (executor or Executor()).match(task, arguments)


def is_executable(task: ParamTask) -> bool:
    """Was the task made in an account that can be made again?"""
    return isinstance(task.facts.get("world"), int)


def _seed(task: ParamTask) -> int:
    if not is_executable(task):
        raise UserError(
            f"task {task.id!r} can't be executed", where="catalog", expected="tasks that were made on moto",
            fix="catalog=parambench_aws, or a set of generator=parambench",
        )  # fmt: skip
    return int(task.facts["world"])


def _replay(world: World, task: ParamTask) -> None:
    """The calls that led to the task; those of the context must give what they gave."""
    script = task.facts.get("replay")
    if script is not None:
        outputs = [_tried(world, name, arguments) for name, arguments in script]
        outputs = [out for out, seen in zip(outputs, task.facts["shown"], strict=True) if seen]
    else:
        outputs = [_tried(world, call.name, call.arguments) for call in task.upstream]
    for call, output in zip(task.upstream, outputs, strict=True):
        if call.output != output:
            raise UserError(
                f"{call.name} no longer gives what the context of task {task.id!r} says", where="catalog",
                expected="the version of moto that made the set", fix="build the set again, or install that version",
            )  # fmt: skip


def _tried(world: World, name: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        return world.call(name, arguments)
    except CallError:  # a story may have been refused something, out of sight
        return None


def _is_same(task: ParamTask, arguments: Mapping[str, Any]) -> bool:
    return Comparison(task.tool.parameters, task.unordered).same(arguments, task.reference.arguments)


def _effect(before: Snapshot, after: Snapshot, output: Mapping[str, Any]) -> Effect:
    """Changes between two snapshots; ids that were there before stay, new ones are masked."""
    changed = {place: after.get(place, "gone") for place in {*before, *after} if before.get(place) != after.get(place)}
    known = "\n".join((*before, *before.values()))
    changes = sorted(f"{_masked(place, known)} {_masked(text, known)}" for place, text in changed.items())
    return Effect(changes=tuple(changes), output=_masked(canonical(output), known))


def _masked(text: str, known: str) -> str:
    def mask(found: re.Match[str]) -> str:
        return found[0] if found[0] in known else f"{found['kind'] or found.lastgroup or ''}-new"

    return _MADE_UP.sub(mask, text)


def _is_empty(output: str) -> bool:
    return output in ("{}", '{"Return": true}')
