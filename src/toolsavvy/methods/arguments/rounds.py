"""Self-training: generate on unlabelled tasks, keep what a signal trusts, retrain the base model; as often as asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from toolsavvy.config.schema import Config
from toolsavvy.methods.arguments.arms import SYSTEMS, Arm, arms_of
from toolsavvy.methods.arguments.board import Board
from toolsavvy.methods.arguments.desk import Desk, Subject, pseudo
from toolsavvy.methods.arguments.learner import Learner
from toolsavvy.methods.arguments.numbers import number, shown
from toolsavvy.methods.arguments.signals import Detector, detector
from toolsavvy.methods.story import Story
from toolsavvy.parameters.fields import FieldTable
from toolsavvy.parameters.selection import coverage_curve
from toolsavvy.parameters.signals import Signal
from toolsavvy.parameters.splits import Division
from toolsavvy.tracking import Run


@dataclass(frozen=True)
class Bench:
    """What a round works with.

    Args:
        cfg: the config.
        run: keeps everything.
        story: tells it.
        board: scores it.
        learner: trains.
        desk: lets models answer.
        parts: the tasks.
    """

    cfg: Config
    run: Run
    story: Story
    board: Board
    learner: Learner
    desk: Desk
    parts: Division


@dataclass(frozen=True)
class Learnt:
    """What a retrained model follows from; its weights are in the cache.

    Args:
        name: of the model.
        rows: bool [call], which calls it has learnt from.
        table: what they are of.
    """

    name: str
    rows: np.ndarray
    table: FieldTable

    def model(self, bench: Bench) -> Subject:
        """The model again."""
        return _retrained(bench, self.name, self.table, self.rows)

    def detector(self, bench: Bench) -> Detector:
        """Probe and control on answers of fold models that have learnt these calls too, as the model itself has."""
        rows = _rows(bench, self.table, self.rows)
        labelled = bench.parts.labelled
        return detector(bench.cfg, bench.run, bench.desk, bench.learner, labelled, rows, f"{self.name}-fold")


def first_round(bench: Bench, seed: Subject, found: Detector) -> dict[str, Learnt]:
    """Every arm on the seed model's own calls, also at equal counts: system -> what it has learnt from."""
    table, signals, validation, validated = _answered(bench, seed, found)
    settings, m = bench.cfg.method.filter, bench.cfg.method
    arms = arms_of(
        settings, table, signals, validation, validated, equal=settings.equal, resamples=m.resamples,
        seed=bench.cfg.seed,
    )  # fmt: skip
    _tell(bench, 1, arms, table, signals)
    learnt: dict[str, Learnt] = {}
    for arm in arms:
        twin = next((name for name, other in learnt.items() if np.array_equal(other.rows, arm.rows)), None)
        learnt[arm.system] = Learnt(twin or arm.system, arm.rows, table)
        if twin:  # the same calls: the same model
            bench.board.systems[arm.system] = bench.board.systems[twin]
        else:
            bench.board.add(arm.system, bench.desk.greedy(learnt[arm.system].model(bench), bench.parts.test))
    return learnt


def next_round(bench: Bench, turn: int, before: dict[str, Learnt]) -> dict[str, Learnt]:
    """Every arm goes on from its own model's calls; the probe is trained anew on folds that learnt the last ones."""
    cfg, found = bench.cfg, {}
    for arm, system in ((a, SYSTEMS[a]) for a in cfg.method.filter.arms):
        last, name = before[system], f"{system}-round{turn}"
        table, signals, validation, validated = _answered(bench, last.model(bench), last.detector(bench))
        settings = replace(cfg.method.filter, arms=[arm])
        (now,) = arms_of(
            settings, table, signals, validation, validated, equal=False, resamples=cfg.method.resamples, seed=cfg.seed
        )  # fmt: skip
        _tell(bench, turn, [replace(now, system=name)], table, signals)
        found[system] = Learnt(name, now.rows, table)
        bench.board.add(name, bench.desk.greedy(found[system].model(bench), bench.parts.test))
    return found


def _answered(
    bench: Bench, subject: Subject, found: Detector
) -> tuple[FieldTable, dict[str, Signal], FieldTable, dict[str, Signal]]:
    """Greedy calls of unlabelled and validation tasks, with every signal; the samples serve consistency alone."""
    arms = bench.cfg.method.filter.arms
    samples = bench.cfg.method.generation.samples if "consistency" in arms else 0
    made = []
    for tasks in (bench.parts.unlabelled, bench.parts.validation):
        table = bench.desk.table(subject, tasks, samples=samples, ask="p_true" in arms)
        signals = found.signals(table)
        first = table.index == 0
        fields = first[table.candidate]
        made += [
            table.only(first),
            {n: Signal(n, s.fields[fields], s.calls[first]) for n, s in signals.items()},
        ]
    return made[0], made[1], made[2], made[3]


def _rows(bench: Bench, table: FieldTable, kept: np.ndarray) -> list:
    """Kept calls as rows to learn from."""
    chosen = [table.candidates[i] for i in np.flatnonzero(kept)]
    tasks = {task.id: task for task in table.tasks}
    return bench.desk.rows([pseudo(tasks[c.task_id], c) for c in chosen])


def _retrained(bench: Bench, name: str, table: FieldTable, kept: np.ndarray) -> Subject:
    """The base model, trained on the labelled tasks and the kept calls."""
    rows = [*bench.desk.rows(bench.parts.labelled), *_rows(bench, table, kept)]
    seen = frozenset(t.id for t in bench.parts.labelled) | frozenset(
        table.candidates[i].task_id for i in np.flatnonzero(kept)
    )
    return Subject(name, bench.learner.train(name, rows), seen)


def _tell(bench: Bench, turn: int, arms: Sequence[Arm], table: FieldTable, signals: dict[str, Signal]) -> None:
    """Pseudo-label precision and coverage of every arm."""
    rows = []
    for arm in arms:
        q, threshold = arm.quality, "" if arm.threshold is None else f"{arm.threshold.value:.3g}"
        rows.append(
            [arm.system, threshold, f"{q.kept} of {q.of}", shown(q.precision), shown(q.coverage), shown(q.f), arm.told]
        )
        place = f"round={turn}/pseudo_labels"
        found = {"precision": q.precision, "coverage": q.coverage, "f0.5": q.f}
        bench.run.record([number(arm.system, place, metric, value) for metric, value in found.items()])
    columns = ["arm", "threshold", "kept", "precision", "coverage", "F0.5", "odd"]
    story, name = bench.story, "" if turn == 1 and len(arms) > 1 else f", {arms[0].system}"
    story.table(f"Pseudo-labels of round {turn}{name}: right calls among the kept", columns, rows, "percent")
    if turn == 1:
        _draw(story, arms, table, signals)


def _draw(story: Story, arms: Sequence[Arm], table: FieldTable, signals: dict[str, Signal]) -> None:
    """Precision over coverage of every signal."""
    from toolsavvy.figures.arguments import Filter, precision_coverage

    filters = []
    for name, signal in signals.items():
        _, coverage, precision = coverage_curve(signal.calls, table.exact)
        arm = next((a for a in arms if a.system == SYSTEMS.get(name)), None)
        used = arm.quality if arm is not None and arm.quality.kept else None
        mark = None if used is None else (used.coverage.value or 0.0, used.precision.value or 0.0)
        filters.append(Filter(name, coverage.tolist(), precision.tolist(), mark))
    base = float(table.exact.mean()) if len(table.exact) else 0.0
    story.figure(
        "pseudo_labels",
        "Pseudo-labels: precision over coverage",
        lambda paths: precision_coverage(paths, filters, base=base),
    )
