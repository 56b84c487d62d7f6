"""Can a probe on hidden states pick the right argument values? Seed SFT, PBT and PGR of ParamBench (2608.03071).

A seed model is trained on a few labelled tasks and answers unlabelled ones. A linear probe on the state just before
each value, trained on cross-fitted answers, says which of its calls are right; the base model is trained again with
these (PBT). At inference the probe puts one call together from a greedy one and samples (PGR). Deviations from the
paper: the probe's labels are cross-fitted, every filter is also compared at equal counts, and PGR may choose the greedy
call. Later rounds filter calls to tasks whose earlier calls their own model has learnt, which the probe has not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.markup import escape

from toolsavvy.config.schema import Config
from toolsavvy.levels import RULE, levelled
from toolsavvy.methods.arguments.arms import SYSTEMS
from toolsavvy.methods.arguments.board import Board
from toolsavvy.methods.arguments.desk import Desk, Subject
from toolsavvy.methods.arguments.learner import Learner
from toolsavvy.methods.arguments.reranked import rerank_test
from toolsavvy.methods.arguments.rounds import Bench, Learnt, first_round, next_round
from toolsavvy.methods.arguments.signals import Detector, detector, tell_layers, tell_quality
from toolsavvy.methods.arguments.sources import load_tasks, tell_division
from toolsavvy.methods.common import say
from toolsavvy.methods.story import Story
from toolsavvy.parameters.fields import FieldTable
from toolsavvy.parameters.splits import divide
from toolsavvy.suites.parameters import unit_of
from toolsavvy.tasks import ParamTask
from toolsavvy.tracking import Run

SEED = "seed_sft"


def run(cfg: Config, run: Run) -> None:
    """Baselines, seed model, probe, self-training, reranking; every system on the same test tasks."""
    m = cfg.method
    tasks = load_tasks(cfg, run)
    d = m.division
    parts = divide(
        [t if t.level else levelled(t) for t in tasks.calls], by=d.by, labelled=d.labelled, unlabelled=d.unlabelled,
        validation=d.validation, test=d.test, seed=d.seed,
    )  # fmt: skip
    tell_division(run, tasks, parts)
    parts = replace(parts, validation=by_unit(parts.validation, d.by), test=by_unit(parts.test, d.by))
    story = Story(run, f"Arguments: {run.identity.choices.get('model', 'model')} on {tasks.name}")
    story.text("levels", RULE)
    with run.stage("load model"):
        learner = Learner(cfg, run)
    desk, board = Desk(cfg, run, learner), Board(cfg, run, parts.test)
    bench = Bench(cfg, run, story, board, learner, desk, parts)
    if m.baselines:
        baselines(bench)
    seed = Subject(SEED, learner.train(SEED, desk.rows(parts.labelled)), frozenset(t.id for t in parts.labelled))
    test = answered(bench, seed, SEED)
    if m.filter.arms or m.rerank.of:
        found = detector(cfg, run, desk, learner, parts.labelled)
        judged(bench, tasks.name, test, found)
        trained = first_round(bench, seed, found) if m.filter.arms else {}
        rerank_test_of(bench, test, trained, found)
        for turn in range(2, m.filter.rounds + 1) if m.filter.arms else ():
            trained = next_round(bench, turn, trained)
        keep(bench, trained[SYSTEMS["probe"]].model(bench) if SYSTEMS["probe"] in trained else seed, found)
    board.score(story)
    story.write()
    say(f"results, predictions, figures and report.html: {escape(str(run.dir))}")


def by_unit(tasks: Sequence[ParamTask], by: str) -> tuple[ParamTask, ...]:
    """Tasks whose cluster is what is independent of one another: intervals resample tools where tools divide."""
    return tuple(replace(task, cluster=task.tool.id if by == "tool" else unit_of(task)) for task in tasks)


def baselines(bench: Bench) -> None:
    """The base model, without and with worked examples."""
    base = Subject("base", bench.learner.base())
    bench.board.add("zero_shot", bench.desk.greedy(base, bench.parts.test))
    shots = bench.cfg.method.prompt.shots
    if shots:
        examples = sorted(bench.parts.labelled, key=lambda t: len(str(t.reference.arguments)) + len(str(t.upstream)))
        desk = Desk(bench.cfg, bench.run, bench.learner, examples[:shots])
        bench.board.add("few_shot", desk.greedy(base, bench.parts.test))


def answered(bench: Bench, subject: Subject, system: str) -> FieldTable:
    """A model's greedy calls and samples on the test tasks, with states; its greedy calls go to the board."""
    samples, is_seed = bench.cfg.method.generation.samples, system == SEED
    # P(True) is a signal on the seed model's calls alone, where all signals are compared.
    table = bench.desk.table(subject, bench.parts.test, samples=samples, read_samples=True, ask=is_seed)
    bench.board.add(system, table.candidates)
    return table


def judged(bench: Bench, name: str, test: FieldTable, found: Detector) -> None:
    """How well each signal tells right from wrong on test tasks."""
    tell_quality(bench.cfg, bench.run, bench.story, SEED, test, found)
    if bench.cfg.method.probe.curve:
        tell_layers(bench.cfg, bench.run, bench.story, name, test, found)


def rerank_test_of(bench: Bench, test: FieldTable, trained: Mapping[str, Learnt], found: Detector) -> None:
    """PGR of the seed model and of the arms that the config names."""
    for name in bench.cfg.method.rerank.of:
        if name == "seed":
            rerank_test(bench.cfg, bench.run, bench.story, bench.board, SEED, test, found)
            continue
        system = SYSTEMS[name]
        table = answered(bench, trained[system].model(bench), system)
        own = trained[system].detector(bench)  # the seed model's probe would choose for it as for the seed model
        rerank_test(bench.cfg, bench.run, bench.story, bench.board, system, table, own)


def keep(bench: Bench, subject: Subject, found: Detector) -> None:
    """The last round's PBT model, and the probe of the first, into model/."""
    from toolsavvy.models.loading import quiet_transformers
    from toolsavvy.parameters import probe

    if not bench.run.is_writer:
        return
    with bench.run.stage("save model"), quiet_transformers():
        subject.model.save_pretrained(bench.run.model_dir)
        bench.learner.tokenizer.save_pretrained(bench.run.model_dir)
        probe.save(bench.run.model_dir, found.probe)
