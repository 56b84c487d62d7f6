"""Every predicted value as a row: whether it is right, the state before it, how sure the model was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from toolsavvy.calls.flattening import Path, leaves
from toolsavvy.errors import UserError
from toolsavvy.probes.splits import fold_codes
from toolsavvy.tasks import ParamTask

if TYPE_CHECKING:
    from toolsavvy.parameters.generating import Generated
    from toolsavvy.parameters.reading import ReadAnswer


@dataclass(frozen=True)
class Candidate:
    """One generated call.

    Args:
        task_id: whose call.
        index: 0 is the greedy answer, 1 to k are samples.
        text: as the model wrote it.
        arguments: read from the text; None where it can't be read.
        read: states and log-probabilities of the values; None where it was not read.
        p_true: probability that the model itself gives the answer of being right; None where it was not asked.
    """

    task_id: str
    index: int
    text: str
    arguments: Mapping[str, Any] | None
    read: ReadAnswer | None = None
    p_true: float | None = None


def candidates_of(
    generated: Sequence[Generated], read: Sequence[ReadAnswer] | None = None, p_true: Sequence[float] | None = None
) -> tuple[Candidate, ...]:
    """Candidates of generated answers, with what reading them gave, [answer] each."""
    from toolsavvy.calls.lenient import read_arguments

    readings = [None] * len(generated) if read is None else read
    asked = [None] * len(generated) if p_true is None else p_true
    return tuple(
        Candidate(g.task_id, g.index, g.text, read_arguments(g.text).arguments, r, p)
        for g, r, p in zip(generated, readings, asked, strict=True)
    )


@dataclass(frozen=True)
class Origin:
    """The model that wrote candidates.

    Args:
        name: shown in messages and cards.
        trained_on: ids of tasks whose references it has seen in training or in its prompt.
    """

    name: str
    trained_on: frozenset[str] = frozenset()


@dataclass(frozen=True)
class FieldTable:
    """Predicted values of candidates, in order of candidates.

    Args:
        tasks: that the candidates are of, each once.
        candidates: [candidate].
        origins: models that wrote them.
        layers: whose states were kept.
        labelled: whether right and exact mean something.
        task: int64 [candidate], position in `tasks`.
        origin: int64 [candidate], position in `origins`.
        exact: bool [candidate], the whole argument object is right.
        whole: bool [candidate], it could be read and has at least one field, each with a state.
        candidate: int64 [field], position in `candidates`, ascending.
        paths: [field].
        values: [field].
        right: bool [field], path and value are right.
        states: float16 or float32 [field, layer, d], just before the value's first token.
        logprob_mean: float64 [field], mean log-probability of the value's tokens.
        logprob_min: float64 [field], the lowest.
        tokens: int64 [field], number of the value's tokens.
        position: int64 [field], tokens of the answer before the value.
    """

    tasks: tuple[ParamTask, ...]
    candidates: tuple[Candidate, ...]
    origins: tuple[Origin, ...]
    layers: tuple[int, ...]
    labelled: bool
    task: np.ndarray
    origin: np.ndarray
    exact: np.ndarray
    whole: np.ndarray
    candidate: np.ndarray
    paths: tuple[Path, ...]
    values: tuple[Any, ...]
    right: np.ndarray
    states: np.ndarray
    logprob_mean: np.ndarray
    logprob_min: np.ndarray
    tokens: np.ndarray
    position: np.ndarray

    def __len__(self) -> int:
        """Number of fields."""
        return len(self.candidate)

    @cached_property
    def clusters(self) -> tuple[str, ...]:
        """[candidate], what is independent: the task's cluster, or the task itself where it has none."""
        labels = [task.cluster or task.id for task in self.tasks]
        return tuple(labels[i] for i in self.task.tolist())

    @cached_property
    def field_clusters(self) -> tuple[str, ...]:
        """[field], cluster of the field's task."""
        return tuple(self.clusters[i] for i in self.candidate.tolist())

    @cached_property
    def index(self) -> np.ndarray:
        """int64 [candidate], 0 for greedy."""
        return np.array([c.index for c in self.candidates], dtype=np.int64)

    @cached_property
    def groups(self) -> tuple[np.ndarray, ...]:
        """[task], positions of its candidates, greedy first."""
        found: list[list[int]] = [[] for _ in self.tasks]
        for place in np.argsort(self.index, kind="stable").tolist():
            found[self.task[place]].append(place)
        return tuple(np.array(members, dtype=np.int64) for members in found)

    @cached_property
    def rows(self) -> tuple[slice, ...]:
        """[candidate], its fields."""
        ends = np.searchsorted(self.candidate, np.arange(len(self.candidates) + 1))
        return tuple(slice(a, b) for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))

    def layer(self, layer: int) -> np.ndarray:
        """States of one layer, [field, d].

        Raises:
            ValueError: the layer was not kept.
        """
        if layer not in self.layers:
            raise ValueError(f"layer {layer} was not kept, but {list(self.layers)}")
        return self.states[:, self.layers.index(layer)]

    def calls(self, scores: np.ndarray) -> np.ndarray:
        """Score of every candidate, float64 [candidate]: the lowest of its fields' scores [field].

        0 where the call can't be read or has no field: nothing speaks for it.
        """
        found = np.where(self.whole, np.inf, 0.0)
        np.minimum.at(found, self.candidate, np.asarray(scores, dtype=np.float64))
        return np.where(self.whole, found, 0.0)

    def only(self, kept: np.ndarray) -> FieldTable:
        """The table of some candidates, bool [candidate]; tasks without any are left out."""
        rows = kept[self.candidate]
        tasks, task = np.unique(self.task[kept], return_inverse=True)
        number = np.cumsum(kept) - 1
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        inner = np.flatnonzero(rows).tolist()
        return replace(
            self, tasks=tuple(self.tasks[i] for i in tasks), task=task, candidate=number[self.candidate[rows]],
            candidates=tuple(self.candidates[i] for i in np.flatnonzero(kept)), origin=self.origin[kept],
            exact=self.exact[kept], whole=self.whole[kept], paths=tuple(self.paths[i] for i in inner),
            values=tuple(self.values[i] for i in inner), **columns,
        )  # fmt: skip

    def greedy(self) -> FieldTable:
        """The table of greedy answers alone."""
        return self.only(self.index == 0)

    def of_tasks(self, wanted: Iterable[str]) -> FieldTable:
        """The table of some tasks, by id."""
        ids = set(wanted)
        inside = np.array([t.id in ids for t in self.tasks], dtype=bool)
        return self.only(inside[self.task] if len(self.tasks) else np.zeros(0, dtype=bool))

    def check_cross_fitted(self) -> None:
        """Refuse answers of a model to tasks that it was trained on: there it is right as it never is elsewhere.

        Raises:
            UserError: names the first task and the model.
        """
        for candidate, origin in zip(self.candidates, self.origin.tolist(), strict=True):
            if candidate.task_id in self.origins[origin].trained_on:
                raise UserError(
                    f"model '{self.origins[origin].name}' was trained on task {candidate.task_id!r}", where="probe",
                    expected="answers of models that have not seen the task's reference (cross-fitting)",
                    fix="generate with a model of another fold",
                )  # fmt: skip


_COLUMNS = ("right", "states", "logprob_mean", "logprob_min", "tokens", "position")


def call_key(arguments: Mapping[str, Any], task: ParamTask) -> str:
    """A text that two argument objects share exactly if they count as the same for a task."""
    from toolsavvy.calls.matching import comparison_of

    return comparison_of(task, task.tool.name).key(arguments)


def joined(tables: Sequence[FieldTable]) -> FieldTable:
    """One table of several (folds of cross-fitting); a task may have candidates in more than one.

    Raises:
        ValueError: no table, or tables of different layers.
    """
    if not tables or len({table.layers for table in tables}) != 1:
        raise ValueError("tables of the same layers are joined")
    tasks = {task.id: task for table in tables for task in table.tasks}
    place = {name: i for i, name in enumerate(tasks)}
    task = [np.array([place[t.id] for t in table.tasks], dtype=np.int64)[table.task] for table in tables]
    before = np.cumsum([0, *(len(t.origins) for t in tables)])
    rows = np.cumsum([0, *(len(t.candidates) for t in tables)])

    def stacked(name: str) -> np.ndarray:
        return np.concatenate([getattr(table, name) for table in tables])

    return replace(
        tables[0], tasks=tuple(tasks.values()), task=np.concatenate(task), labelled=all(t.labelled for t in tables),
        candidates=tuple(c for t in tables for c in t.candidates), origins=tuple(o for t in tables for o in t.origins),
        origin=np.concatenate([t.origin + b for t, b in zip(tables, before, strict=False)]),
        candidate=np.concatenate([t.candidate + b for t, b in zip(tables, rows, strict=False)]),
        paths=tuple(p for t in tables for p in t.paths), values=tuple(v for t in tables for v in t.values),
        **{name: stacked(name) for name in ("exact", "whole", *_COLUMNS)},
    )  # fmt: skip


def table_of(
    tasks: Sequence[ParamTask], candidates: Sequence[Candidate], origin: Origin, *, labelled: bool = True
) -> FieldTable:
    """Lay the values of candidates out as rows.

    A leaf of the arguments without a state (the text was mended in reading, so that its places are unknown) leaves the
    candidate not whole: its score is 0.

    Args:
        tasks: in per-call form, one reference each where `labelled`.
        candidates: of these tasks, any order.
        origin: the model that wrote them.
        labelled: whether references may be looked at; else nothing counts as right.

    Raises:
        ValueError: a candidate of another task, or twice the same.
    """
    from toolsavvy.calls.matching import exact, right_fields

    place = {task.id: i for i, task in enumerate(tasks)}
    if strange := next((c.task_id for c in candidates if c.task_id not in place), None):
        raise ValueError(f"a candidate of task {strange!r}, which is not among the tasks")
    if len({(c.task_id, c.index) for c in candidates}) < len(candidates):
        raise ValueError("a task has two candidates of the same index")
    layers = next((c.read.layers for c in candidates if c.read is not None), ())
    rows: list[tuple[int, Path, Any, bool, Any]] = []
    perfect, whole = np.zeros((2, len(candidates)), dtype=bool)
    for number, candidate in enumerate(candidates):
        if candidate.arguments is None:
            continue
        task = tasks[place[candidate.task_id]]
        perfect[number] = labelled and exact(candidate.arguments, task)
        if candidate.read is None:
            continue
        labels = right_fields(candidate.arguments, task) if labelled else {}
        found = {value.path: value for value in candidate.read.values}
        predicted = leaves(candidate.arguments)
        whole[number] = bool(predicted) and all(leaf.path in found for leaf in predicted)
        rows += [
            (number, leaf.path, leaf.value, labels.get(leaf.path, False), found[leaf.path])
            for leaf in predicted
            if leaf.path in found
        ]
    return FieldTable(
        tasks=tuple(tasks), candidates=tuple(candidates), origins=(origin,), layers=tuple(layers), labelled=labelled,
        task=np.array([place[c.task_id] for c in candidates], dtype=np.int64),
        origin=np.zeros(len(candidates), dtype=np.int64), exact=perfect, whole=whole,
        candidate=np.array([r[0] for r in rows], dtype=np.int64), paths=tuple(r[1] for r in rows),
        values=tuple(r[2] for r in rows), right=np.array([r[3] for r in rows], dtype=bool),
        states=_states([r[4].states for r in rows], len(layers)),
        logprob_mean=np.array([r[4].logprob_mean for r in rows], dtype=np.float64),
        logprob_min=np.array([r[4].logprob_min for r in rows], dtype=np.float64),
        tokens=np.array([r[4].tokens for r in rows], dtype=np.int64),
        position=np.array([r[4].position for r in rows], dtype=np.int64),
    )  # fmt: skip


def _states(parts: Sequence[np.ndarray], layers: int) -> np.ndarray:
    """[field, layer, d], also of no field."""
    return np.stack(parts) if parts else np.zeros((0, layers, 0), dtype=np.float16)


def cross_fits(
    tasks: Sequence[ParamTask], folds: int = 5, seed: int = 0
) -> tuple[tuple[tuple[ParamTask, ...], tuple[ParamTask, ...]], ...]:
    """Divide labelled tasks for cross-fitting: (train a seed model on these, let it answer those) for every fold.

    Tasks of one cluster stay together, so that no model has seen a neighbour of what it answers.

    Args:
        tasks: labelled.
        folds: at least 2; no more than there are clusters.
        seed: of the division.

    Raises:
        UserError: fewer than two clusters or folds.
    """
    clusters = [task.cluster or task.id for task in tasks]
    if folds < 2 or len(set(clusters)) < 2:
        raise UserError(
            f"{len(set(clusters))} clusters of tasks can't be cross-fitted in {folds} folds", where="probe",
            expected="at least 2 of both",
        )  # fmt: skip
    every = np.ones(len(tasks), dtype=bool)
    codes = fold_codes(every, np.zeros(len(tasks), dtype=np.int64), folds, seed=seed, families=clusters)
    return tuple(
        (
            tuple(t for t, code in zip(tasks, codes, strict=True) if code != fold),
            tuple(t for t, code in zip(tasks, codes, strict=True) if code == fold),
        )
        for fold in range(codes.max() + 1)
    )
