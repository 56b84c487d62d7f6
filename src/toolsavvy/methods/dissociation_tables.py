"""The tables of the knowledge-retrieval dissociation, before they are drawn: which number stands where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from toolsavvy.methods.trained import (
    ALL,
    CATALOG,
    CONTROL,
    HIT,
    MCQ,
    QA,
    RIVAL,
    RRB,
    STAGE_1,
    STAGE_2,
    UNTRAINED,
    Number,
    family,
)
from toolsavvy.suites.catalog_test import CONSTRAINED, FREE, label
from toolsavvy.suites.mcq import LETTERS, LIKELIHOOD

DEPTH = HIT
"""Cut-off of the main table."""
STAGES = (UNTRAINED, STAGE_1, STAGE_2)


@dataclass(frozen=True)
class Grid:
    """A table before it is drawn.

    Args:
        title: above it.
        head: of the columns behind the first.
        rows: name of the row, then a number or nothing for every column.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Number | None, ...]], ...]


class Numbers:
    """Looks numbers up.

    Args:
        numbers: of the report.
    """

    def __init__(self, numbers: Sequence[Number]) -> None:
        self.all = numbers
        self._cells = {(n.configuration, n.system, n.suite, n.slice, n.metric, n.k): n for n in numbers}
        ks = {n.k for n in numbers if n.metric == "recall" and n.k is not None}
        self.ks = sorted(ks)
        self.depth = max((k for k in ks if k <= DEPTH), default=min(ks, default=DEPTH))

    def rows(self, *stages: str) -> list[str]:
        """Names of the rows with a number of one of the stages, in order."""
        return list(dict.fromkeys(n.configuration for n in self.all if n.stage in stages))

    @property
    def configurations(self) -> list[str]:
        """Rows of trained models."""
        return self.rows(*STAGES)

    def slices(self, suite: str) -> list[str]:
        """Of a retrieval suite: all, then subsets or tiers."""
        found = dict.fromkeys(n.slice for n in self.all if n.suite == suite and n.metric == "recall")
        return sorted(found, key=lambda s: (s != ALL, list(found).index(s)))

    def stage(self, row: str, stage: str) -> str:
        """The system that a row's stage is: 'toolgen_plain'; '' where there is none."""
        for n in self.all:
            if (n.configuration, n.stage) == (row, stage):
                return family(n.system)
        return ""

    def last(self, row: str) -> str:
        """The system after the last stage that ranks tools."""
        return self.stage(row, STAGE_2) or self.stage(row, STAGE_1)

    def retrieval(self, row: str, system: str, suite: str, name: str, k: int, mode: str) -> Number | None:
        """Recall in a decoding mode, or IS ("internalization")."""
        if mode == "internalization":
            return self._cells.get((row, system, suite, name, mode, k))
        return self._cells.get((row, label(system, mode), suite, name, "recall", k))

    def knowledge(self, row: str, system: str, suite: str, name: str, metric: str = "accuracy") -> Number | None:
        """What the questions of a suite told of a system."""
        return self._cells.get((row, system, suite, name, metric, None))


MODES = ((CONSTRAINED, "constrained"), (FREE, "free"), ("internalization", "IS"))
"""Of decoding, and how rows are called."""


def main_grid(numbers: Numbers) -> Grid:
    """The one table: a configuration a block, retrieval after stage 2 and knowledge stage by stage."""
    k = numbers.depth
    places = [(suite, name) for suite in (CATALOG, RRB) for name in _main_slices(numbers, suite)]
    asked = [s for s in (MCQ, QA) if any(n.suite == s for n in numbers.all)]
    head = [f"{'RRB' if suite == RRB else 'R'}@{k} {_short(name)}".strip() for suite, name in places]
    head += [f"{suite.upper()} {word}" for suite in asked for word in ("start", *STAGES[1:])]
    rows: list[tuple[str, tuple[Number | None, ...]]] = []
    for row in numbers.configurations:
        system = numbers.last(row)
        told = [knows(numbers, row, numbers.stage(row, stage), suite) for suite in asked for stage in STAGES]
        for mode, word in MODES:
            found = [numbers.retrieval(row, system, suite, name, k, mode) for suite, name in places]
            cells = (*found, *(told if mode == CONSTRAINED else [None] * len(told)))
            if any(cells):
                rows.append((row if mode == CONSTRAINED else f"  {word}", cells))
    for row in numbers.rows(RIVAL, CONTROL):
        system = next(n.system for n in numbers.all if n.configuration == row)
        found = [numbers.retrieval(row, system, suite, name, k, "") for suite, name in places]
        told = [c for suite in asked for c in (knows(numbers, row, system, suite), None, None)]
        rows.append((row, (*found, *told)))
    return Grid("Knowledge beside retrieval", tuple(head), tuple(rows))


def _main_slices(numbers: Numbers, suite: str) -> list[str]:
    """The catalog's subsets, where it has some; of the RRB all and its tiers."""
    found = numbers.slices(suite)
    return [s for s in found if s != ALL] or found if suite == CATALOG else found


def _short(name: str) -> str:
    return "" if name == ALL else name.removeprefix("tier=")


def knows(numbers: Numbers, row: str, system: str, suite: str) -> Number | None:
    """The headline accuracy of a suite of questions."""
    return numbers.knowledge(row, system, suite, LIKELIHOOD if suite == MCQ else ALL)


def retrieval_grids(numbers: Numbers) -> Iterator[Grid]:
    """Every slice at every cut-off: stages, decoding modes, rivals."""
    for suite in (CATALOG, RRB):
        for name in numbers.slices(suite):
            rows = []
            for row in numbers.configurations:
                for stage in (STAGE_1, STAGE_2):
                    system = numbers.stage(row, stage)
                    for mode, word in MODES if system else ():
                        cells = [numbers.retrieval(row, system, suite, name, k, mode) for k in numbers.ks]
                        rows.append((f"{row}, {stage}, {word}", tuple(cells)))
            for row in numbers.rows(RIVAL):
                cells = [numbers.retrieval(row, row.partition(" (")[0], suite, name, k, "") for k in numbers.ks]
                rows.append((row, tuple(cells)))
            kept = tuple(r for r in rows if any(r[1]))
            count = next((c.n for _, cells in kept for c in cells if c is not None), 0)
            title = f"{suite}, {name}: recall@k, or IS@k ({count} queries)"
            yield Grid(title, tuple(f"@{k}" for k in numbers.ks), kept)


def knowledge_grid(numbers: Numbers) -> Grid:
    """Everything that the questions told."""
    columns = [(MCQ, LIKELIHOOD, "accuracy"), (MCQ, LETTERS, "accuracy")]
    columns += [(QA, ALL, metric) for metric in ("accuracy", "yes_share", "auc")]
    rows = []
    for row in numbers.rows(*STAGES, RIVAL, CONTROL):
        systems = dict.fromkeys((n.stage, n.system) for n in numbers.all if n.configuration == row)
        for stage, system in systems:
            cells = tuple(numbers.knowledge(row, system, *column) for column in columns)
            if any(cells):
                rows.append((f"{row}, {stage}" if stage in STAGES else row, cells))
    head = ("MCQ by likelihood", "MCQ by letter", "QA accuracy", "QA share of yes", "QA AUC")
    return Grid("Knowledge, stage by stage", head, tuple(rows))
