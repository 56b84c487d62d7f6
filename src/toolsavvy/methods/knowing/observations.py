"""What a model did, question by question, on file: written by method=necessity, read by reports over several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from toolsavvy.errors import UserError
from toolsavvy.necessity.labels import RULES, necessary
from toolsavvy.necessity.question import Observed, Outcome
from toolsavvy.tracking.records import read_lines, to_lines, write_atomic

OUTCOMES: tuple[Outcome, ...] = ("called", "not_called", "malformed", "refused")


def file_name(system: str) -> str:
    """Name of a system's file below predictions/."""
    return f"necessity.{system.replace('/', '_')}.jsonl"


def write_observed(
    folder: Path, system: str, observed: Observed, texts: Mapping[str, str], more: Mapping[str, Sequence[Any]]
) -> None:
    """One record a question: counts, labels under both rules, outcome and text of the action, and further columns."""
    rules = RULES if (observed.samples > 0).all() else ()  # a benchmark's labels need no samples
    labels = {rule: necessary(observed.correct, observed.samples, rule).tolist() for rule in rules}
    rows = [
        {
            "suite": "necessity", "system": system, "id": id_, "family": observed.families[i],
            "correct": int(observed.correct[i]), "samples": int(observed.samples[i]),
            **{f"necessary_{rule}": labels[rule][i] for rule in rules},
            "outcome": observed.outcomes[i], "action": texts.get(id_, ""),
            **{name: column[i] for name, column in more.items()},
        }
        for i, id_ in enumerate(observed.ids)
    ]  # fmt: skip
    write_atomic(folder / file_name(system), to_lines(rows))


@dataclass(frozen=True)
class Seen:
    """One run's observations.

    Args:
        folder: of the run.
        system: what its tables call the model.
        observed: counts and outcomes.
    """

    folder: Path
    system: str
    observed: Observed


def read_observed(folder: Path) -> list[Seen]:
    """Observations of a finished run, one for each model.

    Raises:
        UserError: the run has none, or a record is damaged.
    """
    files = sorted((folder / "predictions").glob("necessity.*.jsonl"))
    if not files:
        raise UserError(
            "is no run of method=necessity", where=str(folder), expected="predictions/necessity.<model>.jsonl",
            fix="give runs that ended with predictions=true",
        )  # fmt: skip
    return [_seen(folder, path) for path in files]


def _seen(folder: Path, path: Path) -> Seen:
    rows = read_lines(path, texts=("system", "id", "family", "outcome"), others=("correct", "samples"))
    for number, row in enumerate(rows, 1):
        counts = (row["correct"], row["samples"])
        whole = all(isinstance(c, int) and not isinstance(c, bool) for c in counts)
        if not whole or not 0 <= counts[0] <= counts[1] or row["outcome"] not in OUTCOMES:
            raise UserError(
                f"correct={counts[0]!r}, samples={counts[1]!r}, outcome={row['outcome']!r}",
                where=f"{path}, line {number}", fix="run it again",
                expected=f"0 <= correct <= samples, and one of {', '.join(OUTCOMES)}",
            )  # fmt: skip
    observed = Observed(
        tuple(r["id"] for r in rows), tuple(r["family"] for r in rows),
        np.array([r["correct"] for r in rows], dtype=np.int64), np.array([r["samples"] for r in rows], dtype=np.int64),
        tuple(r["outcome"] for r in rows),
    )  # fmt: skip
    return Seen(folder, rows[0]["system"] if rows else path.stem.partition(".")[2], observed)
