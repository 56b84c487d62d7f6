"""Parameter generation: any systems' calls held against the tasks of a source, by level, category and source."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from toolsavvy.calls.attempts import Call
from toolsavvy.calls.faults import KINDS
from toolsavvy.calls.scoring import Score, score
from toolsavvy.errors import UserError
from toolsavvy.levels import levelled
from toolsavvy.suites.catalog_test import check_named, checked_pairs
from toolsavvy.suites.table import Column, Outcome, Table
from toolsavvy.tasks import LEVELS, SYMBOLIC, ParamTask, TaskSet

if TYPE_CHECKING:
    from toolsavvy.parameters.cloud.effects import Executor

ALL = "all"
"""The slice of everything."""
MISSING = "missing"
"""The fault of a task that a system has no answer for; it counts as wrong, also where no call is right."""
FORMS, SPLITS = ("records", "calls"), ("test", "train", "validation", "all")
QUALITY = ("exact_match", "field_precision", "field_recall", "field_f1", "schema_valid", "execution_match")
"""What is measured of an answer; `execution_match` only where calls can be carried out."""
SHOWN = ("exact_match", "field_f1", "field_precision", "field_recall", "schema_valid", "execution_match")
EXECUTED = "parambench_aws"
"""The source whose calls can be carried out."""
MOST_CATEGORIES = 20
"""More of them are in results.jsonl alone, not in the main table."""
BY_TOOL = ("parambench", "parambench_aws")
"""Sources that ParamBench's recipe divides by API: tasks of one tool are not independent."""
_DEEPEST = 60
"""Levels of a call's arguments that are kept in predictions/."""


@dataclass(frozen=True)
class Answer:
    """What a system said to a task.

    Args:
        calls: in order; () for no call, None where nothing could be read.
        repairs: what had to be mended to read it.
        missing: there is no answer at all.
    """

    calls: tuple[Call, ...] | None
    repairs: tuple[str, ...] = ()
    missing: bool = False


Systems = Mapping[str, Mapping[str, Answer]]
"""System -> task id -> what it said."""


@dataclass(frozen=True)
class Prediction:
    """One line of `predictions/<suite>.<system>.jsonl`.

    Args:
        id: of the task.
        unit: what is independent: its tool, or its record, dialogue or story.
        level: L1 to L5.
        category: its source's own kind.
        calls: `{name, arguments}` each; None where nothing could be read.
        exact: right by the task's rule.
        f1: over fields.
        valid: keeps to the schema.
        executed: has the reference's effect on the cloud; None where that was not tried.
        faults: kinds of mistakes.
        repairs: what had to be mended to read it.
    """

    id: str
    unit: str
    level: str
    category: str
    calls: tuple[Mapping[str, Any], ...] | None
    exact: bool
    f1: float
    valid: bool
    executed: bool | None
    faults: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Graded:
    answer: Answer
    score: Score
    executed: bool | None = None


class Parameters:
    """Exact match, fields, schema and effect of calls (ParamBench, 2608.03071, section 4).

    Precision, recall and F1 are means over tasks of each task's own. Kinds of mistakes are shares of tasks, as metrics
    `error_<kind>`; `error_mended` is the share of answers that no strict reader would have taken. An answer that is
    missing counts as wrong. `schema_valid` leaves out tasks whose right arguments name results by label.

    Args:
        form: records: as the source scores them (several calls, or none) | calls: one call each.
        split: test (all, where the source divides nothing) | train | validation | all.
        execute: also carry calls out where a cloud can (parambench_aws, with the extra `cloud`).
        resamples: of the bootstrap over what is independent: tools, or records, dialogues, stories (`unit_of`).
        seed: of the bootstrap.
        compared: metrics with paired tests against the best rival.
        pairs: (system, rival) that are compared in every metric, and shown.
        name: of the suite.

    Raises:
        UserError: a word or number is out of range.
    """

    def __init__(
        self,
        form: str = "records",
        split: str = "test",
        execute: bool = True,
        resamples: int = 2000,
        seed: int = 0,
        compared: Sequence[str] = ("exact_match", "field_f1", "execution_match"),
        pairs: Sequence[Sequence[str]] = (),
        name: str = "parameters",
    ) -> None:
        for key, value, known in (("form", form, FORMS), ("split", split, SPLITS)):
            if value not in known:
                raise UserError(f"{value!r} is no valid value", where=f"suite.{name}.{key}", expected=", ".join(known))
        if resamples < 1:
            raise UserError(f"resamples={resamples}", where=f"suite.{name}.resamples", expected=">= 1")
        self.name, self.form, self.split, self.execute = name, form, split, execute
        self.resamples, self.seed, self.compared = resamples, seed, tuple(compared)
        self.pairs = checked_pairs(pairs, name)
        self._executor: Executor | None = None

    def tasks(self, data: TaskSet, form: str = "") -> tuple[ParamTask, ...]:
        """The tasks that are asked, each with its level; `form` overrides the suite's.

        Raises:
            UserError: there are none.
        """
        found = data.scored if (form or self.form) == "records" else data.calls
        if self.split != "all" and any(task.split for task in found):
            found = tuple(task for task in found if task.split == self.split)
        if not found:
            raise UserError(
                f"no task is in split {self.split!r}", where=f"suite.{self.name}.split",
                expected="a split of the source", fix=f"suite.{self.name}.split=all",
            )  # fmt: skip
        return tuple(task if task.level else levelled(task) for task in found)

    def run(self, data: Sequence[ParamTask], systems: Systems) -> Outcome:
        """Score every system on the same tasks.

        Args:
            data: tasks with their levels.
            systems: what each system said; a task without an answer counts as wrong.

        Raises:
            UserError: a pair names no system.
        """
        check_named(self.pairs, systems, self.name, "that was asked")
        graded = {name: [self._grade(task, answers.get(task.id)) for task in data] for name, answers in systems.items()}
        table = Table(
            self.name,
            [unit_of(task) for task in data],
            slices_of(data),
            [column for name, rows in graded.items() for column in _columns(name, data, rows)],
            headline=[ALL, *(f"level={level}" for level in LEVELS)],
            compared=self.compared,
            pairs=self.pairs,
        )
        results, comparisons = table.evaluate(self.resamples, self.seed)
        results = [r for r in results if r.value is not None]
        predictions = {
            name: tuple(_prediction(task, row) for task, row in zip(data, rows, strict=True))
            for name, rows in graded.items()
        }
        categories = [s for s in table.slices if s.startswith("category=")]
        shown = [s for s in table.slices if s == ALL or s.startswith("level=")]
        shown += categories if len(categories) <= MOST_CATEGORIES else []
        columns = tuple((metric, None) for metric in SHOWN)
        return Outcome(self.name, tuple(results), tuple(comparisons), predictions, self.pairs, tuple(shown), columns)

    def _grade(self, task: ParamTask, answer: Answer | None) -> _Graded:
        """Score one answer."""
        if answer is None or answer.missing:
            return _Graded(
                Answer(None, missing=True), Score(False, 0.0, 0.0, 0.0, False, (MISSING,)), self._worst(task)
            )
        found = score(task, answer.calls)
        return _Graded(answer, found, self._executed(task, answer.calls, found))

    def _worst(self, task: ParamTask) -> bool | None:
        """The effect of no call."""
        return False if self.execute and _runs(task) else None

    def _executed(self, task: ParamTask, calls: Sequence[Call] | None, found: Score) -> bool | None:
        """Whether a call has the reference's effect; what is the same call needs no trial."""
        if not (self.execute and _runs(task)):
            return None
        if found.exact:
            return True
        if calls is None or len(calls) != 1 or calls[0].name != task.reference.name:
            return False
        from toolsavvy.parameters.cloud.effects import Executor

        self._executor = self._executor or Executor()  # what references do is asked once for all systems
        return self._executor.match(task, calls[0].arguments)


def unit_of(task: ParamTask) -> str:
    """What is independent: the tool where a source is divided by tools, else the task's record, dialogue or story."""
    is_by_tool = task.source in BY_TOOL and len(task.references) == 1
    return task.tool.id if is_by_tool else task.cluster or task.id


def _runs(task: ParamTask) -> bool:
    """Whether a task's calls can be carried out here."""
    return task.source == EXECUTED and len(task.references) == 1 and _has_cloud()


@cache
def _has_cloud() -> bool:
    """Whether the cloud's library is installed."""
    return find_spec("moto") is not None and find_spec("boto3") is not None


def slices_of(tasks: Sequence[ParamTask]) -> dict[str, np.ndarray]:
    """Slice -> positions of its tasks: all, then levels; categories, sources and odd tasks where they differ."""
    groups: dict[str, list[int]] = defaultdict(list)
    for i, task in enumerate(tasks):
        groups[f"level={task.level}"].append(i)
        if task.category:
            groups[f"category={task.category}"].append(i)
        if task.source:
            groups[f"source={task.source}"].append(i)
        for flag in task.flags:
            groups[f"flag={flag}"].append(i)
    found = {ALL: np.arange(len(tasks))}
    for kind in ("level", "category", "source", "flag"):
        names = sorted(name for name in groups if name.startswith(f"{kind}="))
        if len(names) > 1 or kind in ("level", "flag"):
            found |= {name: np.array(groups[name]) for name in names}
    return found


def _columns(system: str, tasks: Sequence[ParamTask], rows: Sequence[_Graded]) -> list[Column]:
    """Every metric of one system; kinds of mistakes that it never makes are left out."""
    scores = [row.score for row in rows]
    symbolic = [SYMBOLIC in task.flags for task in tasks]
    values = {
        "exact_match": [s.exact for s in scores],
        "field_precision": [s.precision for s in scores],
        "field_recall": [s.recall for s in scores],
        "field_f1": [s.f1 for s in scores],
        "schema_valid": [np.nan if named else s.valid for s, named in zip(scores, symbolic, strict=True)],
        "execution_match": [np.nan if row.executed is None else row.executed for row in rows],
    }
    values = {name: v for name, v in values.items() if not all(isinstance(x, float) and math.isnan(x) for x in v)}
    for kind in (*KINDS, MISSING):
        values[f"error_{kind}"] = [kind in s.faults for s in scores]
    values["error_mended"] = [bool(row.answer.repairs) for row in rows]
    made = {name: np.asarray(v, dtype=np.float64) for name, v in values.items()}
    return [Column(system, name, None, v) for name, v in made.items() if name in QUALITY or v.any()]


def _prediction(task: ParamTask, row: _Graded) -> Prediction:
    """The record of one answer."""
    calls = row.answer.calls
    kept = None if calls is None else tuple({"name": c.name, "arguments": plain(c.arguments)} for c in calls)
    s = row.score
    return Prediction(
        task.id, unit_of(task), task.level, task.category, kept, s.exact, round(s.f1, 6), s.valid, row.executed,
        s.faults, row.answer.repairs,
    )  # fmt: skip


def plain(value: Any, depth: int = 0) -> Any:
    """A value that any JSON reader takes: what is not finite, or nested absurdly deep, becomes text."""
    if depth > _DEEPEST:
        return "..."
    if isinstance(value, Mapping):
        return {str(key): plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner, depth + 1) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float) or value is None else str(value)


@dataclass(frozen=True)
class Coverage:
    """How a system's answers cover the tasks.

    Args:
        asked: tasks.
        missing: tasks without an answer.
        unreadable: answers in which nothing could be read.
        mended: answers that had to be mended, by what was mended.
    """

    asked: int
    missing: int
    unreadable: int
    mended: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(tasks: Collection[ParamTask], answers: Mapping[str, Answer]) -> Coverage:
        """Count."""
        given = [answers[task.id] for task in tasks if task.id in answers and not answers[task.id].missing]
        mended: dict[str, int] = {}
        for answer in given:
            for repair in answer.repairs:
                mended[repair] = mended.get(repair, 0) + 1
        broken = sum(answer.calls is None for answer in given)
        return Coverage(len(tasks), len(tasks) - len(given), broken, mended)
