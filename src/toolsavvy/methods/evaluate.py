"""Any systems on any catalog's queries, at one depth, in one table."""

from __future__ import annotations

from toolsavvy.config.schema import Config
from toolsavvy.methods.after import run_after
from toolsavvy.methods.board import Board
from toolsavvy.methods.common import load_catalog, load_suites, make_retrievers, show_answers, show_outcomes
from toolsavvy.methods.probing import Probing, untrained
from toolsavvy.tracking import Run


def run(cfg: Config, run: Run) -> None:
    """Rank every test split with every retriever, ask all systems what they know, and score rankings and answers."""
    data = load_catalog(cfg, run)
    probing = Probing(cfg, run, data.catalog)
    board = Board(
        data, load_suites(cfg), run, cfg.method.depth, instructions=cfg.method.instructions, probing=probing
    )  # fmt: skip
    if probing and cfg.method.probe_model:
        probing.before(untrained(cfg))
    for name, retriever in make_retrievers(cfg, data).items():
        board.add(name, retriever)
    outcomes = board.score()
    show_outcomes(outcomes, data, run, board.facts, probing.mute)
    show_answers(outcomes, cfg.show)
    run_after(cfg, run)
