"""Runs of a report: read from their folders, each with its command, its numbers and its state; none is left out."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from toolsavvy.errors import UserError
from toolsavvy.suites.scores import Finished
from toolsavvy.tracking.masking import mask_override, mask_text
from toolsavvy.tracking.records import Status, is_alive, read_lines, read_status

REPORTING = ("report", "doctor")
"""Methods whose runs have no numbers of their own."""
FAST = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Entry(Finished):
    """One run folder."""

    @cached_property
    def status(self) -> Status | None:
        """What status.json says."""
        return read_status(self.folder)

    @property
    def is_done(self) -> bool:
        """Whether its numbers are final."""
        return self.status is not None and self.status.status == "done"

    @cached_property
    def state(self) -> str:
        """done, failed, running or cut off."""
        if self.status is None:
            return "unreadable"
        if self.status.status == "running":
            return "running" if is_alive(self.status) else "cut off"
        return self.status.status

    @property
    def error(self) -> str:
        """One line; '' for none."""
        return mask_text(self.status.error or "") if self.status is not None else "status.json cannot be read"

    @property
    def seed(self) -> int:
        """Of the run; 0 where the record is damaged."""
        seed = self.record.get("seed")
        return seed if isinstance(seed, int) else 0

    @property
    def data(self) -> tuple[str, ...]:
        """Fingerprints of what it ran on: a catalog may change under one and the same configuration."""
        return tuple(str(self.record.get(key) or "") for key in ("catalog_fingerprint", "tasks_fingerprint"))

    @property
    def cell(self) -> str:
        """Config hash without the seed; the folder where the record has none, so that nothing is averaged blindly."""
        return str(self.record.get("cell") or self.folder)

    @property
    def choices(self) -> Mapping[str, Any]:
        """Group -> option."""
        found = self.record.get("choices")
        return found if isinstance(found, Mapping) else {}

    @property
    def method(self) -> str:
        """Of the run."""
        return str(self.choices.get("method", "run"))

    @property
    def overrides(self) -> tuple[str, ...]:
        """The command line of the job, secrets masked."""
        return masked(self.record.get("overrides"))

    @property
    def command(self) -> str:
        """What to type to run it again."""
        return shlex.join(["toolsavvy", *self.overrides])

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """What was composed, resolved; empty where it cannot be read."""
        try:
            found = yaml.load((self.folder / "config.yaml").read_text(encoding="utf-8"), Loader=FAST)  # a safe loader
        except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError):
            return {}
        return found if isinstance(found, Mapping) else {}

    @cached_property
    def comparisons(self) -> Sequence[Mapping[str, Any]]:
        """Paired tests that the run itself made; none where they cannot be read."""
        try:
            return read_lines(self.folder / "comparisons.jsonl", ("suite", "slice", "metric", "system", "rival"))
        except UserError:
            return []


@dataclass(frozen=True)
class Unfinished:
    """A run without final numbers.

    Args:
        name: of its folder, or of the job in its sweep.
        state: failed, cut off, running, skipped, not started, unreadable.
        error: one line, '' for none.
        command: that it was started by.
        folder: None for jobs that never got one.
    """

    name: str
    state: str
    error: str
    command: str
    folder: Path | None


@dataclass(frozen=True)
class Runs:
    """What was found.

    Args:
        done: runs with numbers.
        unfinished: all others.
        notes: what a reader must know about the set, a sentence each.
    """

    done: tuple[Entry, ...]
    unfinished: tuple[Unfinished, ...]
    notes: tuple[str, ...]


def read_runs(done: Iterable[Path], others: Iterable[Path], own: Path | None = None) -> Runs:
    """Read run folders.

    Args:
        done: folders whose status says so.
        others: folders that are not done.
        own: the report's folder, which is no run of itself.

    Raises:
        UserError: nothing but reports.
    """
    entries, unfinished, notes = [], [], []
    reports = 0
    for entry in map(Entry, done):
        if entry.method in REPORTING:
            reports += 1
            continue
        try:
            _ = entry.rows
        except UserError as error:
            unfinished.append(_unfinished(entry, "damaged", str(error).replace("\n", "; ")))
            continue
        entries.append(entry)
    for entry in map(Entry, others):
        if entry.method not in REPORTING and entry.folder != own:
            unfinished.append(_unfinished(entry, entry.state, entry.error))
    if not entries and not unfinished:
        raise UserError(
            "these are reports, not runs", where="runs", expected="runs of methods with results",
            fix="name folders of toolgen, evaluate, necessity, ... below outputs/",
        )  # fmt: skip
    if reports:
        notes.append(
            f"{reports} earlier {_plural(reports, 'report')} among the folders left out: no numbers of their own."
        )
    known = {entry.folder for entry in entries} | {one.folder for one in unfinished}
    unfinished += _never_started({f.parent for f in known if f is not None}, known)
    entries, repeated = _newest(entries)
    notes += [
        f"Repeated, the newest one counts: {name_of(e.folder)} (seed {e.seed} of cell {e.cell})." for e in repeated
    ]
    return Runs(tuple(entries), tuple(unfinished), tuple(notes))


def _unfinished(entry: Entry, state: str, error: str) -> Unfinished:
    return Unfinished(name_of(entry.folder), state, mask_text(error), entry.command, entry.folder)


def name_of(folder: Path) -> str:
    """Short, and still unique in a sweep: the folder and what holds it."""
    return "/".join(folder.parts[-2:])


def _never_started(sweeps: set[Path], known: set[Path | None]) -> list[Unfinished]:
    """Jobs that a sweep's own table names and that left no folder to read."""
    found = []
    for sweep in sorted(sweeps):
        try:
            lines = read_lines(sweep / "sweep.jsonl")
        except UserError:
            continue
        for line in lines:
            folder = line.get("folder")
            place = (sweep / folder).resolve() if isinstance(folder, str) and folder else None
            if place in known or line.get("status") == "done":
                continue
            command = shlex.join(["toolsavvy", *masked(line.get("overrides"))])
            name, error = f"{sweep.name}/job {line.get('job')}", mask_text(str(line.get("error") or ""))
            found.append(Unfinished(name, str(line.get("status")), error, command, None))
    return found


def masked(overrides: Any) -> tuple[str, ...]:
    """Overrides as text, without secrets."""
    return tuple(mask_override(str(o)) for o in overrides) if isinstance(overrides, list) else ()


def _newest(entries: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """One run a seed of a cell on the same data, and those that came before it."""
    newest: dict[tuple[str, int, tuple[str, ...]], Entry] = {}
    earlier = []
    for entry in sorted(entries, key=_written):
        key = entry.cell, entry.seed, entry.data
        if key in newest:
            earlier.append(newest[key])
        newest[key] = entry
    kept = {entry.folder for entry in newest.values()}
    return [e for e in entries if e.folder in kept], earlier


def _written(entry: Entry) -> float:
    path = entry.folder / "run.json"
    return path.stat().st_mtime if path.is_file() else 0.0


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"


def flat(node: Any, above: str = "") -> dict[str, Any]:
    """A config's leaves by their dotted keys; lists are leaves, as JSON."""
    if isinstance(node, Mapping) and node:
        found: dict[str, Any] = {}
        for key, value in node.items():
            found |= flat(value, f"{above}.{key}" if above else str(key))
        return found
    if isinstance(node, list | Mapping):
        return {above: json.dumps(node, default=str, ensure_ascii=False)}
    return {above: node}
