"""Steering told: what pushes along the probes' directions, and random ones, do to calls and mismatch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolsavvy.assets import cache_dir
from toolsavvy.config.schema import Config
from toolsavvy.decoding.steering import scale_of
from toolsavvy.figures.curves import Curve, Panel, curve_panels
from toolsavvy.hidden.cells import Cell
from toolsavvy.methods.knowing.behaviour import Behaviour, action_checker, action_prompts
from toolsavvy.methods.knowing.comparing import percent
from toolsavvy.methods.knowing.labelling import labels_by_rule
from toolsavvy.methods.knowing.probed import NECESSITY, Probed
from toolsavvy.methods.knowing.results import number
from toolsavvy.methods.knowing.subject import Subject
from toolsavvy.methods.story import Story
from toolsavvy.metrics import Interval
from toolsavvy.necessity.question import QuestionSet
from toolsavvy.necessity.steering import Direction, Items, Setting, steer
from toolsavvy.necessity.steering_curve import EVERY, SteeringCurve, SteeringPoint
from toolsavvy.probes.logistic import fit
from toolsavvy.probes.problems import Problems
from toolsavvy.suites.table import Result
from toolsavvy.tracking import Run

SUITE = "steering"


@dataclass(frozen=True)
class Place:
    """Where a label's directions are taken and added: the last prompt token of one layer.

    Args:
        layer: of the label's best cell.
        states: float32 [item, d].
        train: bool [item], items that directions are learnt on.
        test: int64 [item], items that are steered.
        strength: C of the label's probe.
    """

    layer: int
    states: np.ndarray
    train: np.ndarray
    test: np.ndarray
    strength: float


def steer_all(
    cfg: Config, run: Run, story: Story, asked: QuestionSet, subject: Subject, behaviour: Behaviour, probed: Probed
) -> None:
    """Push along every direction at its probe's layer."""
    if not labels_by_rule(cfg, asked, behaviour.observed, behaviour.planned):
        story.text("no steering", "nobody said which questions are necessary: no mismatch could be counted")
        return
    for label in cfg.method.steering.directions:
        place = _place(cfg, probed, label)
        if isinstance(place, str):
            story.text(f"no steering along {label}", place)
            continue
        local: Any = subject.sampler  # its hooks are on the model at hand
        values = probed.necessary if label == NECESSITY else probed.called
        with run.stage("steer"):
            curve = steer(
                local, _items(cfg, asked, behaviour, probed, place), _directions(label, place, values),
                _setting(cfg, place), cache_dir("samples"),
            )  # fmt: skip
        run.record(_results(subject.label, label, curve))
        _show(story, subject.label, label, curve)
        _draw(story, label, curve)


def _place(cfg: Config, probed: Probed, label: str) -> Place | str:
    """Where to steer along a label, or why it can't be done."""
    found = probed.best(label)
    if found is None:
        return f"no probe for {label}: nothing to steer along"
    layers = {c.layer for c in probed.study.cells if c.position == -1 and c.of == "prompt"}
    layer = cfg.method.steering.layer if cfg.method.steering.layer is not None else found.chosen[0].cell.layer
    if layer not in layers:
        known = ", ".join(map(str, sorted(layers))) or "none: add prompt to probe.kinds"
        return f"the last prompt token of layer {layer} was not captured; layers of which it was: {known}"
    states = probed.states.read(list(probed.states.cells).index(Cell(layer, -1)))
    split = next(s for s in probed.study.splits if s.name == found.split and s.rotation == found.chosen[0].rotation)
    test = np.random.default_rng(cfg.seed).permutation(np.flatnonzero(split.test))[: cfg.method.steering.questions]
    train = split.train & np.isfinite(states).all(1)
    return Place(layer, states, train, np.sort(test), found.chosen[0].strength)


def _directions(label: str, place: Place, values: np.ndarray) -> list[Direction]:
    """The probe's own direction and the difference of the class means, both learnt on training items."""
    problem = Problems(values[None], place.train[None], np.array([place.strength]))
    fits = fit(place.states, problem)
    yes, no = (place.states[place.train & (values == v)].mean(0) for v in (True, False))
    logistic = fits.weights[0].astype(np.float64) / fits.scale[0]
    return [Direction(label, logistic), Direction(f"{label}_mean", (yes - no).astype(np.float64))]


def _items(cfg: Config, asked: QuestionSet, behaviour: Behaviour, probed: Probed, place: Place) -> Items:
    """Test questions, as they were asked before."""
    rows, prompts = probed.rows[place.test], action_prompts(asked, cfg.method)
    known = labels_by_rule(cfg, asked, behaviour.observed, behaviour.planned)
    needed = {rule: labels[rows] for rule, labels in known.items()}
    scores = probed.study.out_of_fold.get("random", {}).get(NECESSITY)
    says = None if scores is None else scores[place.test] >= 0
    return Items(
        [asked.questions[i] for i in rows], [prompts[i] for i in rows], needed,
        action_checker(cfg, behaviour), asked.tools, says,
    )  # fmt: skip


def _setting(cfg: Config, place: Place) -> Setting:
    s = cfg.method.steering
    return Setting(
        place.layer, scale_of(place.states), tuple(s.alphas), s.random, max_tokens=cfg.method.action.max_tokens,
        seed=cfg.seed, resamples=cfg.method.resamples,
    )  # fmt: skip


def _results(system: str, label: str, curve: SteeringCurve) -> Iterator[Result]:
    for p in curve.points:
        where = f"{label}/layer={curve.layer}/{p.direction}/alpha={p.alpha:g}/{p.policy}"
        for metric in ("call_rate", "accuracy", "malformed", "refused", "changed"):
            yield number(system, where, metric, getattr(p, metric), SUITE)
        for m in p.mismatch:
            yield number(system, f"{where}/{m.rule}/{m.treatment}", "mismatch_rate", m.rate, SUITE)
            yield number(system, f"{where}/{m.rule}/{m.treatment}", "mismatch_change", m.change, SUITE)


def _headline(point: SteeringPoint) -> tuple[Interval, Interval]:
    """Mismatch and its change under the first rule, over calls and answers alone."""
    found = next(m for m in point.mismatch if m.treatment == "parsed")
    return found.rate, found.change


def _show(story: Story, system: str, label: str, curve: SteeringCurve) -> None:
    head = ["direction", "alpha", "who is pushed", "called", "mismatch", "change", "accuracy", "malformed"]
    rows = []
    for p in curve.points:
        if p.policy not in (EVERY, "probe") or (p.is_random and p.policy != EVERY):
            continue  # what the labels themselves would steer is in results.jsonl
        rate, change = _headline(p)
        cells = [percent(i) for i in (p.call_rate, rate, change, p.accuracy, p.malformed)]
        rows.append([p.direction, f"{p.alpha:+g}", p.policy.replace("_", " "), *cells])
    note = (
        f"Added at layer {curve.layer} from the last prompt token on; alpha 1 is the layer's median norm "
        f"({curve.scale:.1f}); {curve.n} test questions. Who is pushed: all alike; by the probe: +alpha "
        "where it says that the tool is needed, -alpha where not. Change is against no push, on the same questions."
    )
    story.table(f"steering along {label}: {system}", head, rows, note)


def _draw(story: Story, label: str, curve: SteeringCurve) -> None:
    """Call rate, mismatch, accuracy and broken calls over alpha, random directions behind."""
    shown = {
        "called": lambda p: p.call_rate, "mismatch": lambda p: _headline(p)[0],
        "accuracy": lambda p: p.accuracy, "malformed": lambda p: p.malformed,
    }  # fmt: skip
    ways = [
        (label, EVERY, "all alike"),
        (f"{label}_mean", EVERY, "all alike, mean difference"),
        (label, "probe", "by the probe"),
    ]
    panels = []
    for title, value in shown.items():
        curves = [_curve(f"{label}: {name}", curve.of(d, policy), value) for d, policy, name in ways]
        randoms = [_curve("random directions", curve.of(d), value, control=True) for d in _randoms(curve)]
        panels.append(Panel(title, "alpha", f"{title}, %", tuple(c for c in (*randoms, *curves) if len(c.x) > 1)))
    title = f"Steering along {label} at layer {curve.layer}"
    story.figure(f"steering_{label}", title, lambda paths: curve_panels(paths, panels, title=title))


def _randoms(curve: SteeringCurve) -> list[str]:
    return list(dict.fromkeys(p.direction for p in curve.points if p.is_random))


def _curve(
    name: str, points: Sequence[SteeringPoint], value: Callable[[SteeringPoint], Interval], *, control: bool = False
) -> Curve:
    found = [value(p) for p in points]

    def scaled(part: str) -> list[float]:
        ends = [getattr(v, part) for v in found]
        return [np.nan if e is None else 100 * e for e in ends]

    band = ((), ()) if control else (scaled("low"), scaled("high"))
    return Curve(name, [p.alpha for p in points], scaled("value"), *band, control)
