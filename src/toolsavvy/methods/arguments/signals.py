"""What tells right values: the probe and its control, trained on cross-fitted answers, and how good each signal is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolsavvy.config.schema import Config
from toolsavvy.errors import UserError
from toolsavvy.methods.arguments.desk import Desk, Subject
from toolsavvy.methods.arguments.learner import Learner
from toolsavvy.methods.arguments.numbers import number, shown
from toolsavvy.methods.story import Story
from toolsavvy.models.prompts import Prompt
from toolsavvy.parameters import calibration, probe
from toolsavvy.parameters.fields import FieldTable, cross_fits, joined
from toolsavvy.parameters.probe import ValueProbe
from toolsavvy.parameters.signals import Control, Signal, all_signals
from toolsavvy.tasks import ParamTask
from toolsavvy.tracking import Run

TITLE = "Signals on held-out tests"


@dataclass(frozen=True)
class Detector:
    """What was trained to tell right values from wrong ones.

    Args:
        table: cross-fitted answers to the labelled tasks.
        probe: on the states before values.
        control: on how values look from outside.
    """

    table: FieldTable
    probe: ValueProbe
    control: Control

    def signals(self, table: FieldTable) -> dict[str, Signal]:
        """Every signal that a table allows."""
        return all_signals(table, probe=self.probe, control=self.control)


def detector(
    cfg: Config,
    run: Run,
    desk: Desk,
    learner: Learner,
    labelled: Sequence[ParamTask],
    pseudo: Sequence[tuple[Prompt, str]] = (),
    name: str = "fold",
) -> Detector:
    """Train probe and control on answers of models that have not seen the tasks.

    Args:
        cfg: method.probe.
        run: keeps what is trained.
        desk: where models answer.
        learner: trains one model a fold.
        labelled: tasks with references.
        pseudo: further rows that every fold's model learns from (a later round's).
        name: of the folds' models.

    Raises:
        UserError: all values are right, or all wrong: nothing can be told.
    """
    tables = []
    for i, (seen, held) in enumerate(cross_fits(labelled, cfg.method.probe.folds, cfg.seed)):
        model = learner.train(f"{name}{i}", [*desk.rows(seen), *pseudo])
        subject = Subject(f"{name}{i}", model, frozenset(t.id for t in seen))
        samples = cfg.method.probe.samples if cfg.method.probe.samples is not None else cfg.method.generation.samples
        tables.append(desk.table(subject, held, samples=samples, read_samples=True, ask=False))
    table = joined(tables)
    if not len(table):
        raise UserError(
            f"none of the cross-fitted answers holds a value ({len(table.candidates)} answers, all unreadable)",
            where="method.sft", expected="JSON objects of arguments", fix="more epochs or labelled tasks",
        )  # fmt: skip
    if not 0 < table.right.sum() < len(table):
        what = "right" if len(table) and table.right.all() else "wrong"
        raise UserError(
            f"all {len(table)} values of the cross-fitted answers are {what}", where="method.sft",
            expected="right and wrong ones, for the probe to tell apart",
            fix="more epochs or tasks" if what == "wrong" else "harder tasks",
        )  # fmt: skip
    with run.stage("probe"):
        found = probe.fit(table, layer=desk.layer, seed=cfg.seed, model=name)
        return Detector(table, found, Control.fit(table, seed=cfg.seed))


def tell_quality(cfg: Config, run: Run, story: Story, system: str, test: FieldTable, found: Detector) -> None:
    """AUC and calibration of every signal on test tasks, fields and whole calls, beside the probe's controls."""
    signals = found.signals(test)
    probe.check_apart(found.table, test)
    both = calibration.of_table(test, signals, n=cfg.method.resamples, seed=cfg.seed)
    for quality in both:
        rows = []
        for name, s in quality.signals.items():
            lead = shown(s.auc_lead.interval, scale=1, digits=3, sign=True) if s.auc_lead else ""
            rows.append([name, shown(s.auc, scale=1, digits=3), lead, shown(s.ece, scale=1, digits=3)])
            place = f"{quality.of}/{name}"
            run.record([number(system, place, "auc", s.auc), number(system, place, "ece", s.ece)])
        right = "undefined" if quality.right is None else f"{100 * quality.right:.1f} %"
        story.table(
            f"{TITLE}: {quality.of} of {system}", ["signal", "AUC", "probe's lead", "ECE"], rows,
            f"{quality.n} {quality.of}, {right} right; 95 % intervals over clusters of tasks; control: length, "
            "position, depth and kind of the value alone",
        )  # fmt: skip
    drawn = probe.shuffled(found.table, test, found.probe, shuffles=cfg.method.probe.shuffles, seed=cfg.seed)
    if len(drawn):
        values = ", ".join(f"{v:.3f}" for v in drawn)
        story.text("shuffled labels", f"probes with shuffled labels, AUC on the same values: {values}")
    _draw(story, both)


def _draw(story: Story, both: Sequence[calibration.Quality]) -> None:
    """Reliability of every signal."""
    from toolsavvy.figures.arguments import reliability_plots

    for quality in both:
        plots = [_reliability(name, s) for name, s in quality.signals.items() if s.bins]
        if plots:
            title = f"Reliability on test {quality.of}"
            story.figure(
                f"reliability_{quality.of}", title, lambda paths, p=plots, t=title: reliability_plots(paths, p, title=t)
            )


def _reliability(name: str, quality: calibration.SignalQuality) -> Any:
    from toolsavvy.figures.arguments import Reliability

    bins = [(b.predicted, b.right, b.n) for b in quality.bins if b.predicted is not None and b.right is not None]
    error = "undefined" if quality.ece.value is None else f"{quality.ece.value:.3f}"
    predicted, right = [p for p, _, _ in bins], [r for _, r, _ in bins]
    return Reliability(f"{name}, ECE {error}", predicted, right, [n for _, _, n in bins])


def tell_layers(cfg: Config, run: Run, story: Story, name: str, test: FieldTable, found: Detector) -> None:
    """AUC of a probe on every layer, with shuffled labels beside it."""
    from toolsavvy.figures.arguments import layer_curves
    from toolsavvy.figures.curves import Curve

    m = cfg.method
    with run.stage("layer curve"):
        points = probe.layer_curve(found.table, test, shuffles=m.probe.shuffles, resamples=m.resamples, seed=cfg.seed)
    run.record([number("probe", f"layer={p.layer}", "auc", p.held_out) for p in points])
    rows = [[str(p.layer), shown(p.held_out, scale=1, digits=3), f"{_mean(p.shuffled):.3f}"] for p in points]
    note = f"chosen by folds of the labelled tasks: {probe.best_layer(points)}; used here: {found.probe.layer}"
    story.table("Layers: AUC on test fields", ["layer", "AUC", "shuffled labels"], rows, note)
    x = [p.layer for p in points]
    drawn = {
        "probe": Curve("probe", x, [p.held_out.value or 0.5 for p in points]),
        "shuffled": Curve("shuffled labels", x, [_mean(p.shuffled) for p in points]),
    }
    story.figure(
        "layers", "AUC by layer", lambda paths: layer_curves(paths, {name: drawn}, chosen={name: found.probe.layer})
    )


def _mean(values: Any) -> float:
    return float(values.mean()) if len(values) else float("nan")
