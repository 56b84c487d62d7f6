"""PGR on test tasks: the strategy chosen on labelled ones, beside majority, log-probability and the best of all."""

from __future__ import annotations

from toolsavvy.config.schema import Config
from toolsavvy.methods.arguments.board import Board
from toolsavvy.methods.arguments.numbers import number, shown
from toolsavvy.methods.arguments.signals import Detector
from toolsavvy.methods.story import Story
from toolsavvy.parameters import rerank
from toolsavvy.parameters.fields import FieldTable
from toolsavvy.parameters.probe import held_out_scores
from toolsavvy.tracking import Run

RIVALS = ("majority", "logprob", "oracle")


def rerank_test(
    cfg: Config, run: Run, story: Story, board: Board, system: str, test: FieldTable, found: Detector
) -> None:
    """Choose a strategy by cross-validation, use it on the test tasks, and show what else the same samples give.

    Args:
        cfg: method.rerank.
        run: takes the numbers.
        story: takes the table.
        board: takes `<system>+pgr`.
        system: whose calls.
        test: its greedy calls and samples on the test tasks, with states.
        found: the probe, and the labelled tasks' cross-fitted answers that strategies are chosen on.
    """
    strategies = tuple(cfg.method.rerank.strategies)
    with run.stage(f"rerank {system}"):
        inner = held_out_scores(found.table, found.probe.layer, seed=cfg.seed)
        choice = rerank.choose_strategy(found.table, inner, strategies=("greedy", *strategies), seed=cfg.seed)
        scores = found.probe.score_fields(test)
        every = ("greedy", *strategies, *RIVALS)
        answers = {s: rerank.rerank(test, scores, s) for s in every}
        rows = rerank.evaluate(test, answers, n=cfg.method.resamples, seed=cfg.seed)
    board.add_arguments(f"{system}+pgr", answers[choice.strategy])
    run.note(**{f"pgr {system}": {"strategy": choice.strategy, "told": choice.told, "folds": list(choice.folds)}})
    for row in rows:
        place = f"pgr/{row.strategy}" + ("" if row.slice == "all" else f"/level={row.slice}")
        run.record([number(system, place, "exact_match", row.exact), number(system, place, "field_f1", row.field_f1)])
    shown_rows = [
        [r.strategy, shown(r.exact), shown(r.exact_lead.interval, sign=True), shown(r.field_f1)]
        for r in rows if r.slice == "all"
    ]  # fmt: skip
    levels = "; ".join(
        f"{r.slice} {shown(r.exact_lead.interval, sign=True)}"
        for r in rows if r.strategy == choice.strategy and r.slice != "all"
    )  # fmt: skip
    samples = min((r.samples for r in rows), default=0)
    story.table(
        f"PGR: {system}, greedy and {samples} samples", ["strategy", "exact match", "against greedy", "field F1"],
        shown_rows,
        f"chosen by cross-validation on labelled tasks: {choice.strategy} {choice.told and f'({choice.told})'}; "
        f"by level: {levels}",
    )  # fmt: skip
