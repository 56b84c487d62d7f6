"""From catalog=… to parameter tasks, and what they are divided into."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields

from rich.markup import escape

from toolsavvy.config.schema import Config
from toolsavvy.errors import UserError
from toolsavvy.methods.common import say
from toolsavvy.methods.sets import load_set
from toolsavvy.parameters.splits import Division
from toolsavvy.tasks import LEVELS, TaskSet, fingerprint
from toolsavvy.tracking import Run


def load_tasks(cfg: Config, run: Run) -> TaskSet:
    """The parameter tasks of the catalog.

    Raises:
        UserError: the catalog has none.
    """
    with run.stage("load tasks"):
        data = load_set(cfg, folder=run.dir if run.is_writer else None)
    if data.tasks is None or not data.tasks.calls:
        raise UserError(
            f"catalog {data.catalog.name!r} has no parameter tasks", where="catalog",
            expected="tools, instructions and the arguments that are right",
            fix="catalog=parambench_aws, or parambench, bfcl, nestful, sealtools, xlam, api_bank, complexfuncbench, "
            "nestools, toolalpaca",
        )  # fmt: skip
    run.note(catalog_fingerprint=data.catalog.fingerprint, tasks_fingerprint=data.tasks.fingerprint)
    return data.tasks


def tell_division(run: Run, tasks: TaskSet, parts: Division) -> None:
    """How many tasks of which level are for what, and what was odd about them."""
    say(f"[bold]{escape(tasks.name)}[/bold]: {len(tasks.calls)} tasks")
    for name, value in tasks.audit.items():
        say(f"  [dim]{escape(str(name))}: {escape(str(value))}[/dim]")
    told = {}
    for part in fields(parts):
        own = getattr(parts, part.name)
        levels = Counter(task.level for task in own)
        tools = len({task.tool.id for task in own})
        told[part.name] = {"n": len(own), "tools": tools, "levels": dict(levels), "fingerprint": fingerprint(own)}
        spread = ", ".join(f"{level} {levels[level]}" for level in LEVELS)
        say(f"  {part.name}: {len(own)} tasks of {tools} tools ({spread})")
    run.note(division=told)
