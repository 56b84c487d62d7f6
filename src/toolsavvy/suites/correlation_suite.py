"""Does a score matter elsewhere? Rank correlation between two scores over the same systems.

A suite over other suites' numbers: it reads them from run folders, after everything else is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from toolsavvy.correlation import Coefficient, Paired, correlate, fisher_interval, paired, verdict
from toolsavvy.errors import UserError
from toolsavvy.suites.scores import Finished, FromRuns, Scored, source
from toolsavvy.suites.table import Result

ALL = "all"
"""The system that a correlation's record names: it belongs to all of them."""


@dataclass(frozen=True)
class Correlation:
    """One line of `correlations.jsonl`.

    Args:
        suite: name of the suite.
        x: what stands on the one axis.
        y: what stands on the other.
        kind: pearson | spearman | kendall.
        value: None where it is undefined.
        low: lower end of the 95 % bootstrap interval over systems.
        high: upper end.
        fisher_low: of Pearson, lower end of Fisher's interval, for comparison.
        fisher_high: upper end.
        n: systems.
        verdict: what may be said.
        missing: systems that are left out, each with its reason.
    """

    suite: str
    x: str
    y: str
    kind: str
    value: float | None
    low: float | None
    high: float | None
    fisher_low: float | None
    fisher_high: float | None
    n: int
    verdict: str
    missing: Mapping[str, str]


@dataclass(frozen=True)
class Point:
    """One line of `correlation_points.jsonl`: a system with its two scores."""

    suite: str
    system: str
    x: float
    y: float


@dataclass(frozen=True)
class Correlated:
    """What `CorrelationSuite` found.

    Args:
        suite: name of the suite.
        x: label of one side.
        y: label of the other.
        data: the scores.
        coefficients: Pearson, Spearman, Kendall.
    """

    suite: str
    x: str
    y: str
    data: Paired
    coefficients: tuple[Coefficient, ...]

    @property
    def results(self) -> tuple[Result, ...]:
        """The coefficients as numbers of results.jsonl."""
        where = (ALL, self.suite, f"{self.x} vs {self.y}")
        return tuple(Result(*where, c.kind, None, c.value, c.low, c.high, c.n) for c in self.coefficients)

    @property
    def correlations(self) -> tuple[Correlation, ...]:
        """One record per coefficient."""
        return tuple(self._correlation(c) for c in self.coefficients)

    def _correlation(self, c: Coefficient) -> Correlation:
        fisher = fisher_interval(c.value, c.n) if c.kind == "pearson" and c.value is not None else None
        low, high = fisher or (None, None)
        told, missing = verdict(c, self.data.undefined), dict(self.data.missing)
        labels = (self.suite, self.x, self.y, c.kind, c.value, c.low, c.high)
        return Correlation(*labels, low, high, c.n, told, missing)

    @property
    def points(self) -> tuple[Point, ...]:
        """One record per system."""
        columns = (self.data.systems, self.data.x.tolist(), self.data.y.tolist())
        return tuple(Point(self.suite, *row) for row in zip(*columns, strict=True))


class CorrelationSuite:
    """Pearson, Spearman and Kendall between two scores of the same systems, with intervals over systems.

    A score is a metric of a suite (of this run and of those that `runs` names), a column of a CSV file, or one of a
    published table; see `suites.scores.source`.

    Args:
        x: the one score.
        y: the other.
        names: system of the runs -> its name in the file or table.
        resamples: of the bootstrap over systems.
        seed: of the bootstrap.
        name: of the suite.

    Raises:
        UserError: a score is not well described, or its file or table cannot be read.
    """

    after = True
    """It reads what the other suites have recorded."""

    def __init__(
        self,
        x: Mapping[str, object],
        y: Mapping[str, object],
        names: Mapping[str, str] | None = None,
        resamples: int = 2000,
        seed: int = 0,
        name: str = "correlation",
    ) -> None:
        if resamples < 1:
            raise UserError(f"resamples={resamples}", where=f"suite.{name}.resamples", expected=">= 1")
        self.x, self.y = source(x, f"suite.{name}.x"), source(y, f"suite.{name}.y")
        self.names, self.resamples, self.seed, self._name = dict(names or {}), resamples, seed, name

    @property
    def name(self) -> str:
        """Shown in tables, files and W&B."""
        return self._name

    @property
    def reads(self) -> tuple[FromRuns, ...]:
        """The scores that come from runs."""
        return tuple(side for side in (self.x, self.y) if isinstance(side, FromRuns))

    def run(self, runs: Sequence[Finished]) -> Correlated:
        """Correlate.

        Raises:
            UserError: no run has such a number.
        """
        x, y = (self._renamed(side.scores(runs), isinstance(side, FromRuns)) for side in (self.x, self.y))
        data = paired(x.values, y.values)
        data = replace(data, missing={s: x.notes.get(s) or y.notes.get(s) or why for s, why in data.missing.items()})
        return Correlated(self.name, x.label, y.label, data, correlate(data, self.resamples, self.seed))

    def _renamed(self, scored: Scored, is_ours: bool) -> Scored:
        """Systems of runs under the names that the outside knows them by."""
        if not is_ours:
            return scored
        values = {self.names.get(system, system): value for system, value in scored.values.items()}
        if len(values) < len(scored.values):
            raise UserError(
                "two systems get one name", where=f"suite.{self.name}.names", expected="a name of its own for each",
                fix=f"the systems are {', '.join(scored.values)}",
            )  # fmt: skip
        return Scored(scored.label, values)
