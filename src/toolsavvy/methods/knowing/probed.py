"""Probes told: hidden states taken, the study of both labels, its table with controls, heat maps, cosines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolsavvy.classification import Quality
from toolsavvy.config.schema import Config
from toolsavvy.figures.heatmap import Map, heat_maps
from toolsavvy.figures.points import Cloud, clouds
from toolsavvy.hidden.capture import capture
from toolsavvy.hidden.states import States
from toolsavvy.methods.knowing.behaviour import Behaviour, action_prompts
from toolsavvy.methods.knowing.labelling import chosen_labels
from toolsavvy.methods.knowing.results import number
from toolsavvy.methods.knowing.subject import Subject
from toolsavvy.methods.story import Story
from toolsavvy.metrics import Interval
from toolsavvy.models.prompts import Rendered, render
from toolsavvy.models.text import TextEncoder
from toolsavvy.necessity.question import QuestionSet
from toolsavvy.necessity.showing import told
from toolsavvy.necessity.surface import surface_features
from toolsavvy.probes.plan import StudySettings
from toolsavvy.probes.results import Probe, Rival, Study
from toolsavvy.probes.study import study
from toolsavvy.suites.table import Result
from toolsavvy.tracking import Run

PROBES = "probes"
"""Suite of the records."""
NECESSITY, ACTION = "necessity", "action"


@dataclass(frozen=True)
class Probed:
    """What probing gave, for the questions whose outcome was a call or an answer.

    Args:
        rows: int64 [item], positions of these questions in the set.
        prompts: [item], as the model read them.
        states: hidden states of the items.
        study: of both labels.
        necessary: bool [item]; all False where nobody said.
        called: bool [item].
        rule: of `necessary`.
    """

    rows: np.ndarray
    prompts: tuple[Rendered, ...]
    states: States
    study: Study
    necessary: np.ndarray
    called: np.ndarray
    rule: str

    def best(self, label: str, split: str = "random") -> Probe | None:
        """A label's probe, of another split where the wanted one was skipped."""
        return self.study.probe(label, split) or next((p for p in self.study.probes if p.label == label), None)


def probe(
    cfg: Config, run: Run, story: Story, asked: QuestionSet, subject: Subject, behaviour: Behaviour
) -> Probed | None:
    """Take hidden states of the action prompts and probe both labels; None, the reason told, where neither varies."""
    seen = behaviour.observed
    rule, needed = chosen_labels(cfg, asked, seen, behaviour.planned)
    rows = np.flatnonzero(seen.parsed())
    labels = {ACTION: seen.called()[rows]}
    if needed is None:
        why = "no answers were checked, and the questions have no labels of their own"
        story.text("no probe for necessity", f"nobody said which questions are necessary: {why}")
    else:
        labels = {NECESSITY: needed[rows], **labels}
    varying = {name: values for name, values in labels.items() if 0 < values.sum() < len(values)}
    for name in labels.keys() - varying.keys():
        word = f"all {len(rows)}" if len(rows) and labels[name].all() else f"none of {len(rows)}"
        what = "questions are necessary" if name == NECESSITY else "questions end in a call"
        story.text(f"no probe for {name}", f"{word} {what}: {name} has one class, and no probe can be trained for it")
    if not varying:
        return None
    text = TextEncoder(subject.tokenizer)
    asked_as = action_prompts(asked, cfg.method)
    prompts = tuple(render(subject.tokenizer, text, asked_as[i]) for i in rows)
    states = _captured(cfg, run, subject, prompts, [seen.ids[i] for i in rows])
    questions = [asked.questions[i] for i in rows]
    with run.stage("probe"):
        found = study(
            states, varying, [q.family for q in questions], surface_features(questions).values,
            settings=_settings(cfg), store=run.checkpoints / "probes.jsonl", key=_key(subject, prompts),
        )  # fmt: skip
    unknown = np.zeros(len(rows), dtype=bool)
    probed = Probed(rows, prompts, states, found, labels.get(NECESSITY, unknown), labels[ACTION], rule)
    _tell(run, story, subject.label, probed)
    return probed


def _captured(cfg: Config, run: Run, subject: Subject, prompts: Sequence[Rendered], names: Sequence[str]) -> States:
    p: Any = cfg.probe
    with run.stage("hidden states"):
        return capture(
            subject.model, prompts, run.checkpoints / "states.bin", positions=p.positions, layers=p.layers,
            kinds=tuple(p.kinds), key=subject.sampler.key, names=names,
        )  # fmt: skip


def _key(subject: Subject, prompts: Sequence[Rendered]) -> str:
    return hashlib.sha256(repr((subject.sampler.key, [r.ids for r in prompts])).encode()).hexdigest()


def _settings(cfg: Config) -> StudySettings:
    p: Any = cfg.probe  # its words are checked
    return StudySettings(
        recipe=p.recipe, splits=tuple(p.splits), strengths=tuple(p.strengths), folds=p.folds, shuffles=p.shuffles,
        halvings=p.halvings, resamples=cfg.method.resamples, seed=cfg.seed,
    )  # fmt: skip


def _tell(run: Run, story: Story, system: str, probed: Probed) -> None:
    """Records, the table, the maps."""
    for lost in probed.study.skipped:
        story.text(f"skipped: {lost.label}, {lost.split}", f"{lost.label}, {lost.split} split: {lost.reason}")
    run.record(_results(system, probed.study))
    rows = [row for one in probed.study.probes for row in _rows(one)]
    head = ["label", "split", "system", "cell (layer, position)", "MCC", "AUC", "accuracy", "probe minus it (AUC)"]
    note = (
        "Test items; cell, C and threshold are chosen on training and validation items alone. MCC and accuracy at the "
        "threshold that validation chose. shuffled: the same procedure on shuffled labels, best of its repeats. "
        f"Necessity by the rule '{probed.rule}'."
    )
    story.table(f"probes and controls: {system}", head, rows, note)
    _draw_maps(story, probed)
    _draw_confidences(story, probed)


def _results(system: str, found: Study) -> Iterator[Result]:
    for one in found.probes:
        where = f"{one.label}/{one.split}"
        yield from _quality(system, where, one.tuned)
        yield from _quality(system, f"{where}/threshold=half", one.half)
        for rival in one.controls.rivals():
            yield from _quality(system, f"{where}/{rival.name}", rival.tuned)
            yield number(system, f"{where}/minus_{rival.name}", "auc", rival.difference.auc.interval, PROBES)
        null = one.controls.shuffled.auc
        if len(null):
            yield number(system, f"{where}/shuffled", "auc", _span(null), PROBES)
    for there in found.alignments:
        for a in there.alignments:
            where = f"{there.first}|{there.second}/layer={there.cell.layer}/position={there.cell.position}"
            where += f"/{there.cell.of}/{a.method}/{a.space}"
            yield number(system, where, "cosine", a.cosine, PROBES)
            yield number(system, where, "cosine_ceiling", a.ceiling, PROBES)
            yield number(system, where, "cosine_disattenuated", a.disattenuated, PROBES)


def _span(values: np.ndarray) -> Interval:
    """Mean of repeats, and their range: too few for an interval."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return Interval(None, None, None, 0)
    return Interval(float(finite.mean()), float(finite.min()), float(finite.max()), len(finite))


def _quality(system: str, where: str, quality: Quality) -> Iterator[Result]:
    for metric, value in quality.items():
        yield number(system, where, metric, value, PROBES)


def _rows(one: Probe) -> Iterator[list[str]]:
    """The probe, then its controls."""
    cells = "; ".join(f"{c.cell.layer}, {c.cell.position} {c.cell.of}" for c in one.chosen)
    yield [one.label, one.split, f"hidden states ({one.verdict.replace('_', ' ')})", cells, *_cells(one.tuned), ""]
    for rival in one.controls.rivals():
        yield [
            one.label,
            one.split,
            _name(rival),
            "",
            *_cells(rival.tuned),
            told(rival.difference.auc.interval, sign="+"),
        ]
    null = one.controls.shuffled
    if len(null.auc):
        best = _span(null.auc)
        yield [one.label, one.split, "shuffled labels", "", "", f"{best.high:.2f} at most" if best.high else "", "", ""]


def _name(rival: Rival) -> str:
    return {"family": "family majority", "surface_family": "surface + family", "combined": "hidden + surface"}.get(
        rival.name, rival.name
    )


def _cells(quality: Quality) -> list[str]:
    return [told(quality.mcc), told(quality.auc), told(quality.accuracy)]


def _draw_maps(story: Story, probed: Probed) -> None:
    """MCC of every cell on test items, and the cosine of both directions beside its ceiling."""
    found = probed.study
    for of in dict.fromkeys(c.of for c in found.cells):
        maps = []
        for one in found.probes:
            grid, chosen = found.heat_map(one, "mcc", "test", of), one.chosen[0].cell
            selected = (chosen.layer, chosen.position) if chosen.of == of else None
            title = f"{one.label}, {one.split} split"
            maps.append(
                Map(title, grid.values, grid.layers, grid.positions, selected, _template(probed, of), _axis(of))
            )
        if maps:
            title = f"MCC on test items, positions of the {of} (framed: chosen on validation)"
            story.figure(f"mcc_{of}", title, lambda paths, m=maps, t=title: heat_maps(paths, m, measure="MCC", title=t))
    cosine = found.cosine_map(NECESSITY, ACTION)
    if cosine is not None:
        _draw_cosines(story, probed, cosine)


def _axis(of: str) -> str:
    return f"position, from the end of the {of}"


def _template(probed: Probed, of: str) -> tuple[int, ...]:
    """Positions behind the question's text: the same tokens for every question."""
    if of != "prompt":
        return ()
    behind = min(len(r.ids) - r.question_end for r in probed.prompts)
    return tuple(range(-behind, 0))


def _draw_cosines(story: Story, probed: Probed, cosine: object) -> None:
    from toolsavvy.probes.results import grid

    for of in dict.fromkeys(c.of for c in probed.study.cells):
        maps = []
        for name in ("cosine", "ceiling", "disattenuated"):
            one = grid(probed.study.cells, getattr(cosine, name), of)
            maps.append(Map(name, one.values, one.layers, one.positions, None, _template(probed, of), _axis(of)))
        title = f"cosine of necessity's and action's directions, positions of the {of}"
        story.figure(
            f"cosine_{of}", title,
            lambda paths, m=maps, t=title: heat_maps(paths, m, measure="cosine", span=(-1, 1), diverging=True, title=t),
        )  # fmt: skip


def _draw_confidences(story: Story, probed: Probed) -> None:
    """What both probes say of every test item, by quadrant."""
    from toolsavvy.classification import sigmoid
    from toolsavvy.figures.canvas import QUADRANT_COLOURS

    scores = probed.study.out_of_fold.get("random", {})
    if not {NECESSITY, ACTION} <= set(scores):
        return
    x, y = sigmoid(scores[NECESSITY]), sigmoid(scores[ACTION])
    known = np.isfinite(x) & np.isfinite(y)
    quadrants = {"N-C": (True, True), "N-NC": (True, False), "UN-C": (False, True), "UN-NC": (False, False)}
    groups = []
    for name, (need, call) in quadrants.items():
        own = known & (probed.necessary == need) & (probed.called == call)
        groups.append(
            Cloud(name, QUADRANT_COLOURS[name], "o" if need == call else "^", x[own].tolist(), y[own].tolist())
        )
    axes = ("necessity probe, out of fold", "action probe, out of fold")
    title = "What both probes say of every question"
    story.figure(
        "confidences", title, lambda paths: clouds(paths, groups, axes=axes, thresholds=(0.5, 0.5), title=title)
    )
