"""What belongs to a whole sweep: which of its jobs are done already, where the others go, and the table at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from toolsavvy.config.compose import Job
from toolsavvy.tracking.records import Status, config_hash, find_run, is_alive, read_record, read_status

_STYLES = {"done": "green", "failed": "red", "running": "yellow", "skipped": "yellow"}


@dataclass(frozen=True)
class Outcome:
    """How a job of a sweep ended.

    Args:
        number: of the job.
        overrides: what it differs in.
        folder: where it ran.
        status: as its status.json says, None if it never started.
    """

    number: int
    overrides: tuple[str, ...]
    folder: Path
    status: Status | None


def sweep_folder(jobs: Sequence[Job], outputs: Path) -> Path | None:
    """The folder of an earlier sweep that these jobs can continue, each under its own number; else None."""
    for job in jobs:
        earlier = find_run(outputs, config_hash(job.config))
        if earlier is None or not earlier.name.isdecimal():
            continue
        if all(_fits(earlier.parent / str(i), other) for i, other in enumerate(jobs)):
            return earlier.parent
    return None


def _fits(folder: Path, job: Job) -> bool:
    """Whether a folder is free or holds an earlier run of this very job."""
    return not (folder / "run.json").exists() or read_record(folder).get("config_hash") == config_hash(job.config)


def outcome(number: int, job: Job, folder: Path, outputs: Path, *, resume: bool) -> Outcome:
    """Read how a job ended: in its folder of the sweep, or where a resumed one was found."""
    place = folder
    if resume and read_status(folder) is None:
        place = find_run(outputs, config_hash(job.config)) or folder
    return Outcome(number, job.overrides, place, read_status(place))


def job_table(outcomes: Sequence[Outcome]) -> Table:
    """One row a job."""
    table = Table(title=f"{len(outcomes)} jobs")
    for column in ("job", "overrides", "status", "seconds", "folder", "error"):
        table.add_column(column, overflow="fold")
    for o, differs in zip(outcomes, differences(outcomes), strict=True):
        state = state_of(o)
        wall = "" if o.status is None or o.status.wall_seconds is None else f"{o.status.wall_seconds:.1f}"
        style = _STYLES.get(state, "red")
        error = (o.status.error or "") if o.status else ""
        told = map(escape, (str(o.folder), error))
        table.add_row(str(o.number), escape(differs), f"[{style}]{state}[/]", wall, *told)
    return table


def differences(outcomes: Sequence[Outcome]) -> list[str]:
    """What every job differs in from some other."""
    shared = set.intersection(*(set(o.overrides) for o in outcomes)) if len(outcomes) > 1 else set()
    return [" ".join(x for x in o.overrides if x not in shared) for o in outcomes]


def state_of(o: Outcome) -> str:
    """In a word or two."""
    if o.status is None:
        return "not started"
    return "cut off" if o.status.status == "running" and not is_alive(o.status) else o.status.status


def show_jobs(outcomes: Sequence[Outcome], console: Console) -> int:
    """Print the table.

    Returns:
        The sweep's exit code: 0 only if every job is done.
    """
    console.print(job_table(outcomes))
    return 0 if all(o.status is not None and o.status.status == "done" for o in outcomes) else 1
