"""Any systems on any catalog's queries, at one depth, in one table; and any calls on its parameter tasks."""

from __future__ import annotations

from toolsavvy.config.predictions import ranks, task_suites
from toolsavvy.config.schema import Config
from toolsavvy.suites.table import Outcome
from toolsavvy.tracking import Run


def run(cfg: Config, run: Run) -> None:
    """Rank tools and ask about them, score calls, or both, as the suites say.

    What ranks is imported only where something is ranked: scoring a file of predictions loads no torch.
    """
    outcomes: list[Outcome] = rank(cfg, run) if ranks(cfg) else []
    if task_suites(cfg):
        from toolsavvy.methods.predicted import merge_comparisons, score_calls

        merge_comparisons([*outcomes, *score_calls(cfg, run)], run)
    if ranks(cfg):
        from toolsavvy.methods.after import run_after

        run_after(cfg, run)


def rank(cfg: Config, run: Run) -> list[Outcome]:
    """Rank every test split with every retriever, ask all systems what they know, and score rankings and answers."""
    from toolsavvy.methods.board import Board
    from toolsavvy.methods.common import leave, load_catalog, load_suites, make_retrievers, show_answers, show_outcomes
    from toolsavvy.methods.probing import Probing, untrained

    data = load_catalog(cfg, run)
    probing = Probing(cfg, run, data.catalog)
    board = Board(
        data, load_suites(cfg, run), run, cfg.method.depth, instructions=cfg.method.instructions, probing=probing
    )  # fmt: skip
    if probing and cfg.method.probe_model and run.is_writer:
        probing.before(untrained(cfg))
    for name, retriever in make_retrievers(cfg, data).items():
        board.add(name, retriever)
    leave(run)
    outcomes = board.score()
    show_outcomes(outcomes, data, run, board.facts, probing.mute)
    show_answers(outcomes, cfg.show)
    return outcomes
