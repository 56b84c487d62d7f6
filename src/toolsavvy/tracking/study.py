"""Searches: sweeps whose jobs a sweeper chooses one after the other, by the number that the earlier ones reached."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from toolsavvy.config.compose import Job
from toolsavvy.errors import UserError
from toolsavvy.tracking.records import read_lines, read_record, read_status, summary_key
from toolsavvy.tracking.sweep import Ledger, Outcome, state_of

OBJECTIVE = "<suite>/<system>/<metric>@<k>, a number of results.jsonl as W&B's summary calls it"


class StopSearch(BaseException):
    """Ends a search; Hydra would take an ordinary exception for a job that failed, and go on.

    Args:
        error: what is to be told.
    """

    def __init__(self, error: UserError) -> None:
        super().__init__(str(error))
        self.error = error


class Study(Ledger):
    """What became of the jobs of a search, of which nobody knows the next.

    Args:
        folder: of the search.
        ended: folders of the jobs that have ended in this process, those of earlier runs among them.
    """

    def __init__(self, folder: Path, ended: Callable[[], Sequence[Path]]) -> None:
        self.folder = folder
        self._ended = ended
        self._written = ""

    def outcomes(self, *, is_over: bool = False) -> list[Outcome]:
        """How every job stands that was started."""
        own = sorted((p for p in self.folder.glob("*") if p.name.isdecimal()), key=lambda p: int(p.name))
        folders = list(dict.fromkeys([*self._ended(), *own]))
        return [
            Outcome(i, tuple(read_record(folder).get("overrides") or ()), folder, read_status(folder), is_over)
            for i, folder in enumerate(folders)
        ]

    def waiting(self, since: float) -> int:
        """Only the sweeper knows whether there would be more."""
        return 0

    def is_done(self) -> bool:
        """The sweeper is asked again; jobs that it repeats are not."""
        return False

    def _row(self, o: Outcome, differs: str) -> dict[str, Any]:
        """One line of `sweep.jsonl`."""
        record, inside = read_record(o.folder), o.folder.is_relative_to(self.folder)
        return {
            "job": o.number, "overrides": list(o.overrides), "differs": differs, "status": state_of(o),
            "error": o.status.error if o.status else None, "wall_seconds": o.status.wall_seconds if o.status else None,
            "folder": str(o.folder.relative_to(self.folder) if inside else o.folder),
            **{name: record.get(name) for name in ("config_hash", "cell", "seed")},
            "wandb_id": (record.get("wandb") or {}).get("id"),
        }  # fmt: skip


def check_search(first: Job) -> None:
    """A search needs its plugin, and to know what it is for.

    Raises:
        UserError: either is missing.
    """
    module = first.sweeper.rpartition(".")[0]
    try:
        importlib.import_module(module)
        if "optuna" in module:
            importlib.import_module("optuna").logging.set_verbosity(logging.WARNING)
    except Exception as error:  # its plugin is missing, or something that it needs: then whatever that raises
        what = f"its package cannot be imported ({type(error).__name__}: {str(error)[:100]})"
        fix = "pip install 'toolsavvy[optuna]', or leave hydra/sweeper out and name every job"
        raise UserError(what, where="hydra/sweeper", expected=module, fix=fix) from error
    if first.config.get("objective") is None:
        fix = "add objective=catalog_test/bm25/recall@1, or whatever the jobs are to be compared by"
        raise UserError("a search must know what to look for", where="objective", expected=OBJECTIVE, fix=fix)


def reached(folder: Path, objective: str) -> float | None:
    """The number of a job that a search is for; None where the job has not ended well, or left it undefined.

    Raises:
        StopSearch: the job is done and there is no such number: neither will the next one have it.
    """
    status = read_status(folder)
    if status is None or status.status != "done":
        return None
    found = {summary_key(row): row["value"] for row in read_lines(folder / "results.jsonl")}
    if objective not in found:
        from difflib import get_close_matches

        near = get_close_matches(objective, found, 3, 0.3) or list(found)[:3]
        fix = f"set objective to one of {', '.join(map(repr, near))}" if near else "choose a suite that measures it"
        error = UserError("no job reports it", where=f"objective={objective}", expected=OBJECTIVE, fix=fix)
        raise StopSearch(error)
    return None if found[objective] is None else float(found[objective])


def best_text(folder: Path, outcomes: Sequence[Outcome], objective: str) -> str:
    """The best job of a search in a line; empty where none was found."""
    path = folder / "optimization_results.yaml"
    told = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if "best_value" not in (told or {}):
        return ""
    value, params = told["best_value"], " ".join(f"{k}={v}" for k, v in told["best_params"].items())
    place = next((o.folder for o in outcomes if reached(o.folder, objective) == value), folder)
    return f"best {objective}: {value:.4g} with {params}: {place}"
