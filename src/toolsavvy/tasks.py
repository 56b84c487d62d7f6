"""Parameter generation: a tool, an instruction, earlier calls with their results, and the arguments that are right."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from toolsavvy.catalog import Tool
from toolsavvy.errors import UserError

LEVELS = ("L1", "L2", "L3", "L4", "L5")
"""ParamBench's levels, from values that are stated to values that are dug out of nested results."""
OMITTED = ""
"""Among accepted values: the argument may also be left out (BFCL's convention)."""
SYMBOLIC = "symbolic_reference"
"""Flag: right arguments name an earlier result that is not released ("$var1.id$"), so no schema says if they fit."""


@dataclass(frozen=True)
class Upstream:
    """An earlier call of the same story.

    Args:
        name: the tool's name.
        arguments: as they were sent.
        output: what came back (any JSON value); None where the source has none.
        label: how the source refers to the result ("var1", "API_call_0"), "" for none.
    """

    name: str
    arguments: Mapping[str, Any]
    output: Any = None
    label: str = ""


@dataclass(frozen=True)
class Reference:
    """A call that is right.

    Args:
        name: the tool's name, as `Tool.name` of one of the task's tools.
        arguments: the argument object.
        accepted: top-level argument -> every value that counts as right; None: that of `arguments` alone. `OMITTED`
            among them: it may be left out.
    """

    name: str
    arguments: Mapping[str, Any]
    accepted: Mapping[str, tuple[Any, ...]] | None = None


@dataclass(frozen=True)
class ParamTask:
    """One question of parameter generation (ParamBench, 2608.03071, section 3).

    Args:
        id: unique within its set.
        instruction: what a person asks for.
        tools: offered; those of the references are among them. The call to make is `references[0]` unless several are
            (a whole record of BFCL's parallel categories), or none (no call is right).
        references: the calls that are right, in order.
        upstream: earlier calls with their results, in order.
        source: name of the benchmark.
        category: its own kind ("simple_python", "glaive"), "" without.
        cluster: what is independent: tasks of one record, dialogue or story share it.
        split: "train", "validation", "test" where the source divides by itself, else "".
        level: L1 to L5 by `levels.level_of`, "" before it is computed.
        conditions: arguments that are there only because another has a certain value, as the source declares.
        rule: exact (the whole object, type-aware) | bfcl (its own rules) | any_call (a call is right, whichever).
        language: of the values: json | python | java | javascript.
        flags: what is odd: "reference_violates_schema", ...
        unordered: paths of arrays whose order means nothing ("IpPermissions", "IpPermissions.*.IpRanges"); "*" stands
            for any index.
        facts: anything else of the source, for slices and audits.
    """

    id: str
    instruction: str
    tools: tuple[Tool, ...]
    references: tuple[Reference, ...]
    upstream: tuple[Upstream, ...] = ()
    source: str = ""
    category: str = ""
    cluster: str = ""
    split: str = ""
    level: str = ""
    conditions: int = 0
    rule: str = "exact"
    language: str = "json"
    flags: tuple[str, ...] = ()
    unordered: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reference(self) -> Reference:
        """The call to make, of a task in per-call form.

        Raises:
            ValueError: the task has no reference, or several.
        """
        if len(self.references) != 1:
            raise ValueError(f"task {self.id!r} has {len(self.references)} references")
        return self.references[0]

    @cached_property
    def tool(self) -> Tool:
        """The tool of `reference`."""
        return next(tool for tool in self.tools if tool.name == self.reference.name)


@dataclass(frozen=True)
class TaskSet:
    """The tasks of a source.

    Args:
        name: shown in tables.
        calls: per-call form, one reference each: what models are trained on and PBT is about.
        records: as the source scores them (several references, or none); () where that is `calls`.
        audit: counts of oddities.
    """

    name: str
    calls: tuple[ParamTask, ...]
    records: tuple[ParamTask, ...] = ()
    audit: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse duplicate ids: predictions are matched by id."""
        for form in (self.calls, self.records):
            seen: set[str] = set()
            if double := next((t.id for t in form if t.id in seen or seen.add(t.id)), None):
                what, fix = f"task id {double!r} occurs twice", "give one of the two another id in its file"
                raise UserError(what, where=f"tasks {self.name}", expected="unique ids", fix=fix)

    @property
    def scored(self) -> tuple[ParamTask, ...]:
        """Tasks as the source scores them."""
        return self.records or self.calls

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over every task: two runs compare only if it is equal."""
        return fingerprint([*self.calls, *self.records])


def fingerprint(tasks: Sequence[ParamTask]) -> str:
    """sha256 over tasks, in order."""
    digest = hashlib.sha256()
    for task in tasks:
        digest.update(json.dumps(asdict(task), sort_keys=True, ensure_ascii=False, default=str).encode())
    return digest.hexdigest()
