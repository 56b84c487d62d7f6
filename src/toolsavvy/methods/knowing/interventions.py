"""After the labels: probes, attribution, self-assessment, steering, Probe&Prefill, and what model/ carries."""

from __future__ import annotations

import numpy as np

from toolsavvy.config.schema import Config
from toolsavvy.methods.knowing.attributed import attribute
from toolsavvy.methods.knowing.behaviour import Behaviour, draw
from toolsavvy.methods.knowing.comparing import percent
from toolsavvy.methods.knowing.labelling import labels_by_rule
from toolsavvy.methods.knowing.prefilled import deploy, prefill
from toolsavvy.methods.knowing.probed import NECESSITY, probe
from toolsavvy.methods.knowing.results import number
from toolsavvy.methods.knowing.steered import steer_all
from toolsavvy.methods.knowing.subject import Subject
from toolsavvy.methods.story import Story
from toolsavvy.necessity import selfassessed
from toolsavvy.necessity.question import QuestionSet
from toolsavvy.tracking import Run

SAID_TOKENS = 16
"""Longest self-assessment in words."""


def intervene(cfg: Config, run: Run, story: Story, asked: QuestionSet, subject: Subject, behaviour: Behaviour) -> None:
    """Self-assessment, then what needs the model's weights."""
    said = assess(cfg, run, story, asked, subject, behaviour) if cfg.method.action.self_assessment else None
    if cfg.probe.recipe == "none" or subject.model is None:
        return
    probed = probe(cfg, run, story, asked, subject, behaviour)
    if probed is None:
        return
    can_attribute = NECESSITY in {p.label for p in probed.study.probes}
    if can_attribute:
        attribute(cfg, run, story, subject.label, probed)
    if cfg.method.steering.alphas:
        steer_all(cfg, run, story, asked, subject, behaviour, probed)
    if can_attribute:
        threshold = prefill(cfg, run, story, asked, subject, behaviour, probed, said) if cfg.method.prefill else 0.5
        deploy(cfg, run, asked, subject, probed, threshold)


def assess(
    cfg: Config, run: Run, story: Story, asked: QuestionSet, subject: Subject, behaviour: Behaviour
) -> np.ndarray:
    """Ask whether the tool is needed; log-odds of yes, or what a server's model says, float64 [question]."""
    seen = behaviour.observed
    with run.stage("self-assessment"):
        if subject.model is None:
            found = draw(cfg, subject, selfassessed.prompts(asked.questions, asked.tools), 1, 0.0, SAID_TOKENS)
            way, scores = "text", selfassessed.said([own[0].text for own in found.samples])
        else:
            way = "likelihood"
            scores = selfassessed.log_odds(subject.model, subject.tokenizer, asked.questions, asked.tools)
    needed = labels_by_rule(cfg, asked, seen, behaviour.planned)
    found = selfassessed.report(
        way, scores, needed, seen.called(), seen.parsed(), resamples=cfg.method.resamples, seed=cfg.seed
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
    how = "by the likelihood of yes and no" if way == "likelihood" else "in words"
    note = f"Says yes to {percent(found.yes_share)} % of the questions, {how}."
    if way == "text":
        note += f" {percent(found.unreadable)} % of its words are neither, and count as no."
    story.table(f"self-assessment: {subject.label}", ["against", "agrees %", "AUC"], rows, note)
    return scores
