"""What belongs to a whole sweep: which of its jobs are done already, where the others go, and the table at its end."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from toolsavvy.config.compose import Job
from toolsavvy.tracking.masking import mask_override
from toolsavvy.tracking.records import (
    Status,
    cell_hash,
    config_hash,
    find_run,
    find_runs,
    is_alive,
    read_record,
    read_status,
    to_lines,
    write_atomic,
)

LEDGER = "sweep.jsonl"
"""One line a job: what it was, how it stands, where it is."""

_STYLES = {"done": "green", "failed": "red", "running": "yellow", "skipped": "yellow"}


@dataclass(frozen=True)
class Outcome:
    """How a job of a sweep ended.

    Args:
        number: of the job.
        overrides: what it was asked for, secrets masked.
        folder: where it ran.
        status: as its status.json says, None if it never started.
        is_over: whether nobody works on it any more, so that a job which still says "running" was cut off.
    """

    number: int
    overrides: tuple[str, ...]
    folder: Path
    status: Status | None
    is_over: bool = False


class Ledger:
    """What became of the jobs of a sweep, read from their folders, and kept in `sweep.jsonl` while they run.

    Args:
        jobs: as composed, in order.
        folder: of the sweep.
        outputs: where earlier runs are.
        resume: whether runs of another sweep count as this one's.
    """

    def __init__(self, jobs: Sequence[Job], folder: Path, outputs: Path, *, resume: bool) -> None:
        """Find the folder of every job."""
        self.folder = folder
        self.hashes = [config_hash(job.config) for job in jobs]
        self._cells = [cell_hash(job.config) for job in jobs]
        self._seeds = [int(job.config.seed) for job in jobs]
        self._overrides = [tuple(mask_override(o) for o in job.overrides) for job in jobs]
        self._folders = [folder / str(i) for i in range(len(jobs))]
        if resume:
            fresh = [i for i, own in enumerate(self._folders) if read_status(own) is None]
            earlier = find_runs(outputs.absolute(), [self.hashes[i] for i in fresh])
            for i in fresh:
                self._folders[i] = earlier.get(self.hashes[i], self._folders[i])
        self._written = ""

    def outcomes(self, *, is_over: bool = False) -> list[Outcome]:
        """How every job stands now."""
        return [
            Outcome(i, overrides, folder, read_status(folder), is_over)
            for i, (overrides, folder) in enumerate(zip(self._overrides, self._folders, strict=True))
        ]

    def waiting(self, since: float) -> int:
        """How many jobs are not done and have not been started since a moment (seconds since the epoch)."""
        files = [o.folder / "status.json" for o in self.outcomes() if o.status is None or o.status.status != "done"]
        return sum(not file.exists() or file.stat().st_mtime < since for file in files)

    def is_done(self) -> bool:
        """Whether there is nothing left to do."""
        return all(o.status is not None and o.status.status == "done" for o in self.outcomes())

    def write(self, *, is_over: bool = False) -> list[Outcome]:
        """Bring `sweep.jsonl` up to date, whole or not at all."""
        ended = self.outcomes(is_over=is_over)
        told = zip(ended, differences(ended), strict=True)
        text = to_lines([self._row(o, differs) for o, differs in told])
        if text != self._written:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomic(self.folder / LEDGER, text)
            self._written = text
        if is_over:
            drop_typed(self.folder)
        return ended

    def _row(self, o: Outcome, differs: str) -> dict[str, Any]:
        """One line of `sweep.jsonl`."""
        inside = o.folder.is_relative_to(self.folder)
        return {
            "job": o.number,
            "overrides": list(o.overrides),
            "differs": differs,
            "status": state_of(o),
            "error": o.status.error if o.status else None,
            "wall_seconds": o.status.wall_seconds if o.status else None,
            "folder": str(o.folder.relative_to(self.folder) if inside else o.folder),
            "config_hash": self.hashes[o.number],
            "cell": self._cells[o.number],
            "seed": self._seeds[o.number],
            "wandb_id": (read_record(o.folder).get("wandb") or {}).get("id"),
        }

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep `sweep.jsonl` up to date in the meantime, whichever processes the jobs are in.

        Raises:
            OSError: the folder cannot be made or written to.
        """
        self.write()
        stop = threading.Event()
        watch = threading.Thread(target=self._watch, args=(stop,), daemon=True)
        watch.start()
        try:
            yield
        finally:
            stop.set()
            watch.join()
            _drop_raw_config(self.folder)

    def _watch(self, stop: threading.Event) -> None:
        """Look every second; a disk that is full now may not be later."""
        while not stop.wait(1.0):
            _drop_raw_config(self.folder)
            with contextlib.suppress(OSError):
                self.write()


def _drop_raw_config(folder: Path) -> None:
    """Hydra's own record of a sweep holds overrides as they were typed, secrets too; every job has its config.yaml."""
    (folder / "multirun.yaml").unlink(missing_ok=True)


def drop_typed(folder: Path) -> None:
    """The jobs that submitit has pickled hold overrides as they were typed too; its logs stay."""
    _drop_raw_config(folder)
    for pickled in folder.glob(".submitit/*/*.pkl"):
        pickled.unlink(missing_ok=True)


def sweep_folder(jobs: Sequence[Job], outputs: Path) -> Path | None:
    """The folder of an earlier sweep that these jobs can continue, each under its own number; else None."""
    for job in jobs:
        earlier = find_run(outputs.absolute(), config_hash(job.config))
        if earlier is None or not earlier.name.isdecimal():
            continue
        if all(_fits(earlier.parent / str(i), other) for i, other in enumerate(jobs)):
            return earlier.parent
    return None


def _fits(folder: Path, job: Job) -> bool:
    """Whether a folder is free or holds an earlier run of this very job."""
    return not (folder / "run.json").exists() or read_record(folder).get("config_hash") == config_hash(job.config)


def job_table(outcomes: Sequence[Outcome]) -> Table:
    """One row a job; folders of the sweep's own, which the title names, go by their names."""
    home = Counter(o.folder.parent for o in outcomes).most_common(1)[0][0] if outcomes else Path()
    table = Table(title=Text(f"{len(outcomes)} jobs in {home}", overflow="fold"), title_justify="left")
    for column in ("job", "overrides", "status", "seconds", "folder", "error"):
        table.add_column(column, overflow="fold")
    for o, differs in zip(outcomes, differences(outcomes), strict=True):
        state = state_of(o)
        wall = "" if o.status is None or o.status.wall_seconds is None else f"{o.status.wall_seconds:.1f}"
        style = _STYLES.get(state, "red")
        error = (o.status.error or "") if o.status else ""
        told = map(escape, (o.folder.name if o.folder.parent == home else str(o.folder), error))
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
    is_cut_off = o.status.status == "running" and (o.is_over or not is_alive(o.status))
    return "cut off" if is_cut_off else o.status.status


def show_jobs(outcomes: Sequence[Outcome], console: Console) -> int:
    """Print the table.

    Returns:
        The sweep's exit code: 0 only if every job is done.
    """
    console.print(job_table(outcomes))
    return 0 if all(o.status is not None and o.status.status == "done" for o in outcomes) else 1
