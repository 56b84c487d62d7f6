"""Probe&Prefill told, and the probe written into model/ for whoever wants to use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from toolsavvy.classification import sigmoid
from toolsavvy.config.schema import Config, ModelConfig
from toolsavvy.figures.curves import Curve, Mark, Panel, curve_panels
from toolsavvy.methods.knowing.behaviour import Behaviour, action_checker, action_prompts, store_of
from toolsavvy.methods.knowing.comparing import percent
from toolsavvy.methods.knowing.probed import NECESSITY, Probed
from toolsavvy.methods.knowing.results import number
from toolsavvy.methods.knowing.subject import Subject, keep_model
from toolsavvy.methods.story import Story
from toolsavvy.metrics import Interval
from toolsavvy.necessity import selfassessed
from toolsavvy.necessity.deployed import DeployedProbe, save_probe
from toolsavvy.necessity.policies import PolicyPoint, PrefillStudy, cheapest_threshold, study
from toolsavvy.necessity.prefilling import Answered, Forced, Prefills, ask_each, force
from toolsavvy.necessity.probe_card import ProbeCard
from toolsavvy.necessity.question import QuestionSet
from toolsavvy.suites.table import Result
from toolsavvy.tracking import Run

SUITE = "prefill"
MOST_LOST = 0.02
"""Accuracy that the deployed threshold may lose on validation questions against always calling."""


class Prefilling:
    """Test and validation questions, asked with either sentence.

    Args:
        cfg: the config.
        asked: the questions.
        subject: the model.
        behaviour: what it did before.
        probed: its probes.
    """

    def __init__(self, cfg: Config, asked: QuestionSet, subject: Subject, behaviour: Behaviour, probed: Probed) -> None:
        self.cfg, self.asked, self.subject, self.probed = cfg, asked, subject, probed
        self.checker, self.limit = action_checker(cfg, behaviour), cfg.method.action.max_tokens
        self.store = store_of(subject, 0.0, self.limit)
        self.prefills = Prefills.of(subject.tokenizer)

    def forced(self, items: np.ndarray) -> Forced:
        """Items after both sentences."""
        rows = self.probed.rows[items]
        prompts = action_prompts(self.asked, self.cfg.method)
        return force(
            self.subject.sampler, self.store, [self.asked.questions[i] for i in rows], [prompts[i] for i in rows],
            self.prefills, self.checker, tools=self.asked.tools, max_tokens=self.limit,
        )  # fmt: skip

    def prompted(self, items: np.ndarray) -> dict[str, Answered]:
        """Items as the model answers them by itself, under every wording."""
        rows, found = self.probed.rows[items], {}
        for wording in self.asked.action_prompts:
            prompts = action_prompts(self.asked, self.cfg.method, wording)
            found[f"prompt: {wording}"] = ask_each(
                self.subject.sampler, self.store, [self.asked.questions[i] for i in rows], [prompts[i] for i in rows],
                self.checker, tools=self.asked.tools, max_tokens=self.limit,
            )  # fmt: skip
        return found


def prefill(
    cfg: Config, run: Run, story: Story, asked: QuestionSet, subject: Subject, behaviour: Behaviour, probed: Probed,
    said: np.ndarray | None,
) -> float:  # fmt: skip
    """Draw the curve over the probe's threshold on test questions; returns the threshold that validation chooses."""
    found = probed.best(NECESSITY)
    assert found is not None
    split = next(s for s in probed.study.splits if s.name == found.split and s.rotation == found.chosen[0].rotation)
    chosen, states = found.chosen[0], probed.states.read(found.chosen[0].index)
    scores = chosen.scores(states)
    rng, most = np.random.default_rng(cfg.seed), cfg.method.prefill
    usable = np.isfinite(scores)
    validation, test = (
        np.sort(rng.permutation(np.flatnonzero(p & usable))[:most]) for p in (split.validation, split.test)
    )
    asking = Prefilling(cfg, asked, subject, behaviour, probed)
    with run.stage("prefill"):
        forced = asking.forced(validation)
        threshold = 0.0 if asking.checker is None else _threshold(forced, scores[validation])
        decisions = {f"oracle ({probed.rule})": probed.necessary[test]}
        if said is not None:
            decisions["self-assessment"] = selfassessed.decisions(said[probed.rows[test]])
        curve = study(
            asking.forced(test), scores[test], decisions=decisions, prompted=asking.prompted(test),
            resamples=cfg.method.resamples, seed=cfg.seed,
        )  # fmt: skip
    run.record(_results(subject.label, curve))
    _show(story, subject.label, curve, threshold, len(test))
    _draw(story, curve)
    return float(sigmoid(np.array([threshold]))[0])


def _threshold(forced: Forced, scores: np.ndarray) -> float:
    """The cheapest one on validation questions; 0 (a probability of one half) where no call's result is known."""
    called = forced.call.judged
    if not np.isfinite(called.correct[called.called]).any():
        return 0.0
    return cheapest_threshold(forced, scores, MOST_LOST)


def _results(system: str, found: PrefillStudy) -> Iterator[Result]:
    for point in (*found.curve, *found.baselines):
        where = point.policy if point.threshold is None else f"{point.policy}/threshold={point.threshold:.4g}"
        for metric in ("calls", "accuracy", "calls_saved", "accuracy_lost", "over_random"):
            value = getattr(point, metric)
            if value is not None:
                yield number(system, where, metric, value, SUITE)


def _show(story: Story, system: str, found: PrefillStudy, threshold: float, n: int) -> None:
    near = min(found.curve, key=lambda p: abs((p.threshold if p.threshold is not None else np.inf) - threshold))
    step = max(1, len(found.curve) // 8)
    shown = [p for i, p in enumerate(found.curve) if i % step == 0 or p is near or i == len(found.curve) - 1]
    head = ["who decides", "threshold", "calls", "accuracy", "calls saved", "accuracy lost", "above random", "tokens"]
    rows = [[*_cells(p, chosen=p is near)] for p in (*found.baselines, *shown)]
    note = (
        f"{n} test questions; % with 95 % intervals. Saved and lost against '{found.reference}'. above random: "
        "accuracy minus that of deciding at random as often. The marked threshold was chosen on validation "
        f"questions (at most {100 * MOST_LOST:g} points lost); it stands in model/."
    )
    story.table(f"probe and prefill: {system}", head, rows, note)


def _cells(p: PolicyPoint, *, chosen: bool) -> list[str]:
    threshold = "" if p.threshold is None else f"{p.threshold:.2f}{' *' if chosen else ''}"
    over = "" if p.over_random is None else percent(p.over_random)
    rates = [percent(i) for i in (p.calls, p.accuracy, p.calls_saved, p.accuracy_lost)]
    return [p.policy, threshold, *rates, over, "" if p.tokens.value is None else f"{p.tokens.value:.0f}"]


def _draw(story: Story, found: PrefillStudy) -> None:
    """Calls saved against accuracy lost."""
    curve = _curve("probe", found.curve)
    marks = tuple(
        Mark(p.policy, 100 * p.calls_saved.value, 100 * p.accuracy_lost.value)
        for p in found.baselines
        if p.calls_saved.value is not None and p.accuracy_lost.value is not None
    )
    panel = Panel("", f"calls saved against {found.reference}, %", "accuracy lost, points", (curve,), marks)
    title = "Probe&Prefill: calls saved against accuracy lost"
    story.figure("prefill", title, lambda paths: curve_panels(paths, [panel], title=title))


def _curve(name: str, points: Sequence[PolicyPoint]) -> Curve:
    ordered = sorted(points, key=lambda p: p.calls_saved.value or 0.0)

    def scaled(interval: Interval, part: str) -> float:
        value = getattr(interval, part)
        return np.nan if value is None else 100 * value

    value, low, high = ([scaled(p.accuracy_lost, part) for p in ordered] for part in ("value", "low", "high"))
    return Curve(name, [scaled(p.calls_saved, "value") for p in ordered], value, low, high)


def deploy(cfg: Config, run: Run, asked: QuestionSet, subject: Subject, probed: Probed, threshold: float) -> None:
    """Write the necessity probe, its card and an example into model/; a taught model goes with it."""
    found = probed.best(NECESSITY)
    if found is None or not run.is_writer:
        return
    chosen = found.chosen[0]
    folder, spec = run.model_dir, cfg.model
    if cfg.method.teach.questions:
        keep_model(run, subject, {"taught": True})
        spec = ModelConfig(source="path", path=".", attention=cfg.model.attention)
    card = ProbeCard(
        model=replace(spec), model_name=subject.label, model_digest=subject.sampler.key, cell=chosen.cell,
        rule=probed.rule, threshold=threshold, wording=cfg.method.action.wording,
        system=cfg.method.action.prompt or asked.action_prompts[cfg.method.action.wording], tools=tuple(asked.tools),
        questions=asked.name, metrics=_metrics(found), prefills=Prefills.of(subject.tokenizer), seed=cfg.seed,
    )  # fmt: skip
    probe = DeployedProbe(chosen.weights, float(chosen.bias), chosen.mean, chosen.scale, card)
    save_probe(folder, probe, subject.model, subject.tokenizer, asked.questions[int(probed.rows[0])].text)


def _metrics(found: Any) -> Mapping[str, Interval]:
    return {name: value for name, value in found.tuned.items() if value.value is not None}
