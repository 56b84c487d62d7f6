"""Labels told: quadrants under both rules, what flips them, soft need, and what a call is worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from toolsavvy.config.schema import Config
from toolsavvy.figures.bars import quadrant_bars
from toolsavvy.methods.knowing.behaviour import Behaviour
from toolsavvy.methods.knowing.comparing import bar_of, percent
from toolsavvy.methods.knowing.results import count, label_results, number
from toolsavvy.methods.story import Story
from toolsavvy.necessity.flips import flips, mean, sample_size_flips
from toolsavvy.necessity.labels import RULES, Labelled, Rule, label_table, labels_of, quadrants, rule_name
from toolsavvy.necessity.need import cost_curve, empirical_prior, flip_probability, mean_need
from toolsavvy.necessity.question import Observed, QuestionSet
from toolsavvy.necessity.showing import draw_costs, told
from toolsavvy.suites.table import Result
from toolsavvy.tracking import Run

BENCHMARK = "benchmark"
"""Slice of labels that hold for every model."""
FEWER = (5, 10)
"""Sample counts that labels are compared with, where more were drawn."""


def rules_of(cfg: Config) -> tuple[Rule, ...]:
    """Strict and released, and an explicit `min_correct` where it is another one."""
    chosen = cfg.method.sampling.min_correct
    return RULES if chosen is None else (*RULES, chosen)


def labels_by_rule(cfg: Config, asked: QuestionSet, seen: Observed, planned: int | None) -> dict[str, np.ndarray]:
    """Necessity under every rule of the run, or the benchmark's where nothing was sampled: name -> bool [question]."""
    if (seen.samples > 0).all():
        return {rule_name(rule): labels_of(seen, rule, planned) for rule in rules_of(cfg)}
    if all(q.needs_tool is None for q in asked.questions):
        return {}
    return {BENCHMARK: np.array([bool(q.needs_tool) for q in asked.questions])}


def tell_labels(
    cfg: Config, run: Run, story: Story, system: str, asked: QuestionSet, seen: Observed, *,
    planned: int | None = None, soft: np.ndarray | None = None,
) -> None:  # fmt: skip
    """Record and show quadrants, flips, soft need and costs; `planned` and `soft` are as `Behaviour` has them."""
    n = cfg.method.resamples
    if (seen.samples > 0).all():
        rows = label_table(seen, rules_of(cfg), planned=planned, resamples=n, seed=cfg.seed)
        run.record(label_results(system, rows))
        _show_quadrants(story, system, rows)
        _show_families(story, rows)
        run.record(_flip_results(cfg, system, seen, planned))
        if planned is None:
            run.record(_need_results(cfg, story, system, seen, soft))
    if any(q.needs_tool is not None for q in asked.questions):
        run.record(_benchmark(cfg, story, system, asked, seen))
    _tell_outcomes(run, story, system, seen)


def _show_quadrants(story: Story, system: str, rows: Sequence[Labelled]) -> None:
    heads = [r for r in rows if not r.family]
    columns = ["rule", "outcomes", "N-C", "N-NC", "UN-C", "UN-NC", "needed", "called", "mismatch", "MCC(need, call)"]
    cells = [
        [r.rule, r.treatment.replace("_", " "), *map(str, r.quadrants.counts), percent(r.quadrants.need_rate),
         percent(r.quadrants.call_rate), percent(r.quadrants.mismatch_rate), told(r.quadrants.mcc)]
        for r in heads
    ]  # fmt: skip
    note = "N necessary, UN not; C called, NC not. % with 95 % intervals over questions, at their natural prevalence."
    story.table(f"necessity and action: {system}", columns, cells, note)
    bars = [bar_of(f"{system}, {r.rule}", "", r.quadrants) for r in heads if r.treatment == "parsed"]
    story.figure("labels", "Labels", lambda paths: quadrant_bars(paths, bars, title="Necessity and action"))


def _show_families(story: Story, rows: Sequence[Labelled]) -> None:
    """One line a family under the strict rule."""
    own = [r for r in rows if r.family and (r.rule, r.treatment) == ("strict", "parsed")]
    if len(own) > 1:
        cells = [
            [r.family, str(r.quadrants.total), *(percent(i, 0) for i in (
                r.quadrants.need_rate, r.quadrants.call_rate, r.quadrants.mismatch_rate))]
            for r in own
        ]  # fmt: skip
        story.table("families, strict rule", ["family", "questions", "needed", "called", "mismatch"], cells)


def _flip_results(cfg: Config, system: str, seen: Observed, planned: int | None) -> Iterator[Result]:
    """Share of labels that another rule, or fewer samples, would change."""
    drawn = {"resamples": cfg.method.resamples, "seed": cfg.seed}
    strict, released = (labels_of(seen, rule, planned) for rule in RULES)
    yield number(system, "strict|released", "flips", flips(strict, released, **drawn).share)
    if planned is not None:
        return
    most = int(seen.samples.min())
    for fewer in FEWER:
        for rule in RULES if fewer < most else ():
            found = sample_size_flips(seen.correct, seen.samples, fewer, rule, **drawn)
            yield number(system, f"{rule}|n={fewer}", "flips", found)
    if most > 1:
        prior = empirical_prior(seen.correct, seen.samples)
        for rule in RULES:
            again = flip_probability(seen.correct, seen.samples, rule, prior)
            yield number(system, f"{rule}|again", "flips", mean(again, **drawn))


def _need_results(cfg: Config, story: Story, system: str, seen: Observed, right: np.ndarray | None) -> Iterator[Result]:
    """Soft need, and what each policy costs where a call costs something."""
    drawn = {"resamples": cfg.method.resamples, "seed": cfg.seed}
    soft = mean_need(seen.correct, seen.samples, **drawn) if right is None else mean(1 - right, **drawn)
    yield number(system, "all", "soft_need", soft)
    if int(seen.samples.min()) < 2:
        return
    kept = seen.parsed()
    points = cost_curve(
        seen.correct[kept], seen.samples[kept], seen.called()[kept], costs=tuple(cfg.method.costs), **drawn
    )
    names = ("always", "never", "model", "label", "need", "regret")
    for point in points:
        for name in names:
            yield number(system, f"cost={point.cost:g}", f"cost_{name}", getattr(point, name))
    cells = [[f"{p.cost:g}", *(told(getattr(p, name)) for name in names)] for p in points]
    note = (
        "Expected cost a question, a wrong answer costs 1: call always, never, as the model does, as the hard label "
        "says, where the expected loss exceeds the price; regret is the model's cost above the last. "
        f"Soft need {percent(soft)} %."
    )
    story.table(f"what a call is worth: {system}", ["price of a call", *names], cells, note)
    title = "What policies cost over the price of a call"
    curve = cost_curve(seen.correct[kept], seen.samples[kept], seen.called()[kept], **drawn)
    story.figure("costs", title, lambda paths: draw_costs(paths, curve, title=title))


def _benchmark(cfg: Config, story: Story, system: str, asked: QuestionSet, seen: Observed) -> Iterator[Result]:
    """The benchmark's own labels, the same for every model, against the action; and against the model's own need."""
    drawn = {"resamples": cfg.method.resamples, "seed": cfg.seed}
    known = np.array([q.needs_tool is not None for q in asked.questions])
    needs = np.array([bool(q.needs_tool) for q in asked.questions])
    kept = known & seen.parsed()
    found = quadrants(needs[kept], seen.called()[kept], **drawn)
    row = Labelled(BENCHMARK, "parsed", "", found)
    yield from label_results(system, [row])
    _show_quadrants(story, f"{system}, the benchmark's labels", [row])
    if (seen.samples[known] > 0).all():
        for rule in RULES:
            changed = flips(needs[known], labels_of(seen, rule)[known], **drawn).share
            yield number(system, f"{BENCHMARK}|{rule}", "flips", changed)


def _tell_outcomes(run: Run, story: Story, system: str, seen: Observed) -> None:
    """How many calls, answers, broken calls and refusals."""
    outcomes = ("called", "not_called", "malformed", "refused")
    counts = {name: sum(o == name for o in seen.outcomes) for name in outcomes}
    run.record([count(system, "all", f"n_{name}", k, len(seen.outcomes)) for name, k in counts.items()])
    listed = ", ".join(f"{k} {name.replace('_', ' ')}" for name, k in counts.items())
    story.text(f"outcomes: {system}", f"outcomes of {len(seen.outcomes)} questions with the tool offered: {listed}")


def chosen_labels(
    cfg: Config, asked: QuestionSet, seen: Observed, planned: int | None
) -> tuple[str, np.ndarray | None]:
    """The necessity that probes learn: the run's rule, or the benchmark's where nothing was sampled; with its name.

    None where nobody said which questions are necessary.
    """
    labels = labels_by_rule(cfg, asked, seen, planned)
    name = rule_name(cfg.method.sampling.min_correct or "strict")
    return (name, labels[name]) if name in labels else (BENCHMARK, labels.get(BENCHMARK))


def tell_sampled(cfg: Config, run: Run, story: Story, system: str, behaviour: Behaviour) -> None:
    """The call rate at sampling's temperature beside the greedy one."""
    if behaviour.sampled_calls is None:
        return
    drawn = {"resamples": cfg.method.resamples, "seed": cfg.seed}
    rates = {"greedy": behaviour.observed.called().astype(float), "sampled": behaviour.sampled_calls}
    found = {name: mean(values, **drawn) for name, values in rates.items()}
    run.record([number(system, f"action={name}", "call_rate", value) for name, value in found.items()])
    temperature, rate = cfg.method.sampling.temperature, {k: percent(v) for k, v in found.items()}
    story.text("call rates", f"call rate: {rate['greedy']} % greedy, {rate['sampled']} % sampled at T={temperature:g}")
