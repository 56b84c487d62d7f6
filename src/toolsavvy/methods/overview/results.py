"""What is known of systems on one slice of one suite, seeds averaged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolsavvy.methods.overview.gathering import Entry
from toolsavvy.methods.overview.measures import Measure
from toolsavvy.metrics import Interval

OWN, CROSSED, NONE = "items", "seeds x items", ""
"""What an interval covers: the run's own, over items; seeds crossed with items; or there is none."""
BOOTSTRAP, SIGN_FLIP = "bootstrap", "sign-flip"
ALPHA = 0.05


@dataclass(frozen=True)
class Test:
    """The best system minus another on the same items.

    Args:
        difference: in the primary measure, and its 95 % interval; more than 0 where the best has more.
        p: two-sided.
        adjusted: the same by Holm's method over the tests of the board.
        kind: bootstrap (items, crossed with the seeds both have) or sign-flip (the run's own, over clusters).
    """

    difference: Interval
    p: float
    adjusted: float
    kind: str


@dataclass(frozen=True)
class Row:
    """A system of a cell.

    Args:
        system: as in results.jsonl.
        cells: one; several where the system does not depend on what they differ in, and its numbers are the same.
        seeds: of the runs behind the numbers.
        values: measure -> mean over seeds, with its interval.
        span: lowest and highest seed in the primary measure.
        covers: what the interval of the primary measure is over.
        entries: the runs of the first cell.
        test: against the best; None for the best itself, and where nothing can be tested.
    """

    system: str
    cells: tuple[str, ...]
    seeds: tuple[int, ...]
    values: Mapping[Measure, Interval]
    span: tuple[float, float] | None
    covers: str
    entries: tuple[Entry, ...]
    test: Test | None = None


@dataclass(frozen=True)
class Contrast:
    """What one setting does to a system, everything else alike.

    Args:
        system: as in results.jsonl.
        before: cell with the setting's first value.
        after: cell with another.
        test: after minus before.
    """

    system: str
    before: str
    after: str
    test: Test


@dataclass(frozen=True)
class Board:
    """Systems on one slice of one suite.

    Args:
        data: digits of what the suite was run on.
        place: catalog or questions, for people.
        suite: name of the suite.
        slice: of it.
        measures: columns.
        main: what rows are ranked by.
        rows: the best first.
        n: items.
        contrasts: of settings that are no numbers.
    """

    data: str
    place: str
    suite: str
    slice: str
    measures: tuple[Measure, ...]
    main: Measure
    rows: tuple[Row, ...]
    n: int
    contrasts: tuple[Contrast, ...] = ()
