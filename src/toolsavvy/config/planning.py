"""What `dry_run=true` prints: the run as it would be, and the training tokens it would take."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from toolsavvy.config.compose import Job
from toolsavvy.config.preflight import locate
from toolsavvy.config.schema import Config, Plan
from toolsavvy.methods import plans

RANKING = ("catalog", "model", "encoder", "tuning", "indexing", "memorization")
"""Groups that are shown, unless the method asks questions."""


def make_plan(config: Config) -> Plan:
    """Ask the method for its plan; one without has an empty plan.

    Ours are planned in `toolsavvy.methods.plans`, which loads no torch; a user's own method offers `plan(cfg) -> Plan`
    beside its `run`.
    """
    target = config.method._target_
    package, _, name = target.rpartition(".")[0].rpartition(".")
    planner: Callable[[Config], Plan] | None = None
    if package == "toolsavvy.methods":
        planner = getattr(plans, name, None)
    if planner is None:
        planner = getattr(sys.modules[locate(target, "method._target_").__module__], "plan", None)
    return planner(config) if planner is not None else Plan()


def show_plan(job: Job, config: Config, console: Console) -> None:
    """Print one job's plan."""
    plan = make_plan(config)
    choices = job.choices
    table = Table(title="dry run: everything was checked, nothing is done", show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name in (
        "experiment",
        "method",
        *(("questions", "model", "tuning", "probe") if "questions" in config.method.uses else RANKING),
        "trainer",
    ):
        if name == "experiment" and choices.get(name, "None") == "None":
            continue
        table.add_row(name, escape(choices.get(name, "")))
    table.add_row("seed", str(config.seed))
    trained = () if plan.training_tokens == 0 else tuple(config.stages)  # a method's own stages say what it does
    table.add_row("stages", escape("\n".join(plan.stages)) or ", ".join(trained) or "none")
    table.add_row("systems", escape(", ".join(plan.systems or tuple(config.retriever))))
    table.add_row("suites", escape(", ".join(plan.suites or tuple(config.suite))))
    tokens = plan.training_tokens
    table.add_row("training tokens", "none or unknown" if tokens is None else f"about {tokens:,}" if tokens else "none")
    table.add_row("output folder", escape(str(job.folder)))
    for note in plan.notes:
        table.add_row("note", escape(note))
    console.print(table)
