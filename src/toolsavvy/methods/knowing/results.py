"""Numbers of method=necessity as records of results.jsonl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from toolsavvy.metrics import Interval
from toolsavvy.necessity.labels import QUADRANTS, Labelled
from toolsavvy.suites.table import Result

SUITE = "necessity"
RATES = ("mismatch_rate", "call_rate", "need_rate", "mcc")


def number(system: str, slice_: str, metric: str, value: Interval, suite: str = SUITE) -> Result:
    """One number with its interval."""
    return Result(system, suite, slice_, metric, None, value.value, value.low, value.high, value.n)


def count(system: str, slice_: str, metric: str, value: int, n: int, suite: str = SUITE) -> Result:
    """How many of n questions; a count of what was asked has no interval."""
    return Result(system, suite, slice_, metric, None, value, None, None, n)


def slice_of(row: Labelled) -> str:
    """`strict`, `strict/malformed_called`, `strict/family=two_digit_mult`."""
    treatment = "" if row.treatment == "parsed" else f"/{row.treatment}"
    return f"{row.rule}{treatment}{f'/family={row.family}' if row.family else ''}"


def label_results(system: str, rows: Iterable[Labelled]) -> Iterator[Result]:
    """Quadrants and rates of every rule, treatment and family."""
    for row in rows:
        found, where = row.quadrants, slice_of(row)
        for metric, questions in zip(QUADRANTS, found.counts, strict=True):
            yield count(system, where, metric, questions, found.total)
        for metric in RATES:
            yield number(system, where, metric, getattr(found, metric))
