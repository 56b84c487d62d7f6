"""After the labels: probes, attribution, self-assessment, steering, Probe&Prefill, and what model/ carries."""

from __future__ import annotations

import numpy as np

from toolsavvy.config.schema import Config
from toolsavvy.methods.knowing.attributed import attribute
from toolsavvy.methods.knowing.behaviour import Behaviour
from toolsavvy.methods.knowing.comparing import percent
from toolsavvy.methods.knowing.labelling import rules_of
from toolsavvy.methods.knowing.prefilled import deploy, prefill
from toolsavvy.methods.knowing.probed import NECESSITY, probe
from toolsavvy.methods.knowing.results import number
from toolsavvy.methods.knowing.steered import steer_all
from toolsavvy.methods.knowing.story import Story
from toolsavvy.methods.knowing.subject import Subject
from toolsavvy.necessity import selfassessed
from toolsavvy.necessity.labels import labels_of, rule_name
from toolsavvy.necessity.question import QuestionSet
from toolsavvy.tracking import Run


def intervene(cfg: Config, run: Run, story: Story, asked: QuestionSet, subject: Subject, behaviour: Behaviour) -> None:
    """What needs the model's weights."""
    said = assess(cfg, run, story, asked, subject, behaviour) if cfg.method.action.self_assessment else None
    if cfg.probe.recipe == "none":
        return
    probed = probe(cfg, run, story, asked, subject, behaviour)
    if probed is None:
        return
    if NECESSITY in {p.label for p in probed.study.probes}:
        attribute(cfg, run, story, subject.label, probed)
        if cfg.method.steering.alphas:
            steer_all(cfg, run, story, asked, subject, behaviour, probed)
        threshold = prefill(cfg, run, story, asked, subject, behaviour, probed, said) if cfg.method.prefill else 0.5
        deploy(cfg, run, asked, subject, probed, threshold)


def assess(
    cfg: Config, run: Run, story: Story, asked: QuestionSet, subject: Subject, behaviour: Behaviour
) -> np.ndarray:
    """Ask whether the tool is needed; log-odds of yes, float64 [question]."""
    seen = behaviour.observed
    with run.stage("self-assessment"):
        scores = selfassessed.log_odds(subject.model, subject.tokenizer, asked.questions, asked.tools)
    needed = {}
    if (seen.samples > 0).all() and not cfg.method.sampling.labels_only:
        needed = {rule_name(rule): labels_of(seen, rule) for rule in rules_of(cfg)}
    found = selfassessed.report(
        "likelihood", scores, needed, seen.called(), seen.parsed(), resamples=cfg.method.resamples, seed=cfg.seed
    )
    rows = []
    for name, quality in {
        **{f"necessity ({r})": q for r, q in found.necessity.items()},
        "action": found.action,
    }.items():
        run.record(number(subject.label, name, metric, value, "self_assessment") for metric, value in quality.items())
        agreed = "undefined" if quality.auc.value is None else f"{quality.auc.value:.2f}"
        rows.append([name, percent(quality.accuracy), agreed])
    run.record([number(subject.label, "all", "yes_share", found.yes_share, "self_assessment")])
    note = f"Says yes to {percent(found.yes_share)} % of the questions, by the likelihood of yes and no."
    story.table(f"self-assessment: {subject.label}", ["against", "agrees %", "AUC"], rows, note)
    return scores
