"""Does a model call a tool when it needs one, and if not, did it know?

The knowing-doing gap of 2605.14038. Answers without the tool say what the model needs, its greedy answer with the tool
offered says what it does; both are labels of probes on the hidden states at the end of the prompt. Deviations from the
paper: labels under two explicit rules, one action prompt for all models, broken calls apart, one item split for both
probes, controls beside every number.
"""

from __future__ import annotations

from rich.markup import escape

from toolsavvy.config.compose import build
from toolsavvy.config.schema import Config
from toolsavvy.methods.common import say
from toolsavvy.methods.knowing.labelling import tell_labels, tell_sampled
from toolsavvy.methods.knowing.observations import write_observed
from toolsavvy.methods.story import Story
from toolsavvy.necessity.question import QuestionSet
from toolsavvy.necessity.questions.recorded import Recorded
from toolsavvy.tracking import Run


def run(cfg: Config, run: Run) -> None:
    """Ask, label, probe, attribute, intervene."""
    source = build(cfg.questions)
    with run.stage("load questions"):
        asked: QuestionSet = source.load()
    tell_questions(run, asked)
    if isinstance(source, Recorded):
        recorded(cfg, run, source, asked)
    else:
        measured(cfg, run, asked)


def tell_questions(run: Run, asked: QuestionSet) -> None:
    """How many of what, and what was odd about them."""
    families = len(set(asked.families))
    run.note(questions={"name": asked.name, "n": len(asked), "families": families, "audit": dict(asked.audit)})
    word = "family" if families == 1 else "families"
    say(f"[bold]{escape(asked.name)}[/bold]: {len(asked)} questions in {families} {word}")
    for name, value in asked.audit.items():
        say(f"  [dim]{escape(str(name))}: {escape(str(value))}[/dim]")


def recorded(cfg: Config, run: Run, source: Recorded, asked: QuestionSet) -> None:
    """Labels and actions that others have recorded: no model is loaded."""
    system, seen = str(cfg.method.label or source.model), source.observed()
    story = Story(run, f"Necessity and action: {system} on {asked.name}, as recorded")
    tell_labels(cfg, run, story, system, asked, seen)
    if run.is_writer and cfg.predictions:
        write_observed(run.predictions, system, seen, source.outputs(), {})
    finish(run, story)


def measured(cfg: Config, run: Run, asked: QuestionSet) -> None:
    """Everything, with a model at hand; without hidden states (a server, probe=none) it ends with self-assessment."""
    from toolsavvy.methods.knowing.behaviour import observe
    from toolsavvy.methods.knowing.interventions import intervene
    from toolsavvy.methods.knowing.subject import subject_of

    subject = subject_of(cfg, run, asked)
    story = Story(run, f"Necessity and action: {subject.label} on {asked.name}")
    behaviour = observe(cfg, run, asked, subject)
    run.note(**behaviour.facts, checker=behaviour.checker, unread=behaviour.unread)
    seen = behaviour.observed
    if behaviour.checker != "none":
        unread = f"; {behaviour.unread} of them could not be read and count as wrong" if behaviour.unread else ""
        story.text("checker", f"answers without the tool were checked by: {behaviour.checker}{unread}")
    if run.is_writer and cfg.predictions:
        texts = dict(zip(seen.ids, behaviour.actions, strict=True))
        write_observed(run.predictions, subject.label, seen, texts, {"answer": behaviour.answers})
    tell_labels(cfg, run, story, subject.label, asked, seen, planned=behaviour.planned, soft=behaviour.soft)
    tell_sampled(cfg, run, story, subject.label, behaviour)
    intervene(cfg, run, story, asked, subject, behaviour)
    finish(run, story)


def finish(run: Run, story: Story) -> None:
    """The page, and where everything is."""
    story.write()
    say(f"results, predictions, figures and report.html: {escape(str(run.dir))}")
