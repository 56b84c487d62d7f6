"""Systems of many runs on one slice of one suite: seeds of a cell averaged, everyone tested against the best.

Numbers of different catalogs, tasks or test items never meet: they stand in boards of their own.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from toolsavvy.methods.overview.draws import Draws
from toolsavvy.methods.overview.gathering import Entry
from toolsavvy.methods.overview.items import Items, Reader
from toolsavvy.methods.overview.measures import Measure, is_headline, measures_of, primary, sign
from toolsavvy.methods.overview.results import (
    ALPHA,
    BOOTSTRAP,
    CROSSED,
    NONE,
    OWN,
    SIGN_FLIP,
    Board,
    Contrast,
    Row,
    Test,
)
from toolsavvy.methods.pooling import INTERNALIZATION
from toolsavvy.metrics import Interval, interval, paired_difference
from toolsavvy.suites.catalog_test import FREE, label
from toolsavvy.tracking.records import HEADLINE

MOST_RESAMPLES = 10_000
"""That a board asks for by itself: bounds its memory."""


def boards(
    entries: Sequence[Entry],
    wanted: Sequence[Measure],
    resamples: int,
    pairs: Sequence[tuple[str, str]] = (),
) -> list[Board]:
    """All suites and slices that the runs have numbers of.

    Args:
        entries: done runs, at most one a seed of a cell.
        wanted: retrieval measures that become columns.
        resamples: of the bootstrap.
        pairs: cells that are held against one another, see `axes.pairs_of`.
    """
    found: dict[tuple[str, str, str], list[Reader]] = defaultdict(list)
    known: dict[Any, Any] = {}
    for entry in entries:
        for suite in dict.fromkeys(str(r["suite"]) for r in entry.rows):
            reader = Reader(entry, suite, known)
            rows = [r for r in entry.rows if r["suite"] == suite]
            whole = any((r["slice"] or "") in HEADLINE for r in rows)
            for name in dict.fromkeys(str(r["slice"] or "") for r in rows if is_headline(r, whole)):
                found[suite, name, reader.data].append(reader)
    made = [_board(key, readers, wanted, resamples, pairs) for key, readers in found.items()]
    return [board for board in made if board is not None]


def _board(
    key: tuple[str, str, str],
    readers: Sequence[Reader],
    wanted: Sequence[Measure],
    resamples: int,
    pairs: Sequence[tuple[str, str]],
) -> Board | None:
    suite, slice_, data = key
    records = {r.entry.folder: _records(r, suite, slice_) for r in readers}
    measures = measures_of([row for rows in records.values() for row in rows.values()], wanted)
    if not measures:
        return None
    main = primary(measures)
    groups: dict[tuple[str, str], list[Reader]] = defaultdict(list)
    for reader in readers:
        for system in dict.fromkeys(system for system, *_ in records[reader.entry.folder]):
            groups[reader.entry.cell, system].append(reader)
    groups = {key: sorted(rs, key=lambda r: r.entry.seed) for key, rs in groups.items()}
    merged = _merged(groups, records)
    # A p-value is never below 2 / resamples: among many systems too few draws would let Holm's method mark nobody.
    enough = max(resamples, min(MOST_RESAMPLES, math.ceil(4 * len(merged) / ALPHA)))
    pool = _Pool(suite, slice_, tuple(measures), main, {k: groups[k[0][0], k[1]] for k in merged}, records, enough)
    rows, contrasts = pool.solve(pairs)
    place = str(readers[0].entry.choices.get("questions" if suite in ("necessity", "self_assessment") else "catalog"))
    n = max((r.values[main].n for r in rows if main in r.values), default=0)
    return Board(data, place, suite, slice_, tuple(measures), main, tuple(rows), n, contrasts)


Records = Mapping[tuple[str, str, int | None], Mapping[str, Any]]


def _records(reader: Reader, suite: str, slice_: str) -> Records:
    """(System, metric, k) -> record; internalization stands with the free decoding that it is about."""
    own = [r for r in reader.entry.rows if r["suite"] == suite and (r["slice"] or "") == slice_]
    systems = {str(r["system"]) for r in own}
    found = {}
    for r in own:
        system, free = str(r["system"]), label(str(r["system"]), FREE)
        shown = free if r["metric"] == INTERNALIZATION and free in systems else system
        found[shown, str(r["metric"]), r["k"]] = r
    return found


def _merged(
    groups: Mapping[tuple[str, str], Sequence[Reader]], records: Mapping[Any, Records]
) -> list[tuple[tuple[str, ...], str]]:
    """(Cells, system): a system that has the very same numbers in all cells, seed by seed, gets one row."""
    alike: dict[Any, list[str]] = defaultdict(list)
    for (cell, system), readers in groups.items():
        told = tuple(
            (
                r.entry.seed,
                *((k[1:], row["value"], row["low"], row["high"]) for k, row in own.items() if k[0] == system),
            )
            for r in readers
            for own in (records[r.entry.folder],)
        )
        alike[system, told].append(cell)
    every = Counter(system for _, system in groups)
    found: list[tuple[tuple[str, ...], str]] = []
    for (system, _), cells in alike.items():
        found += [(tuple(cells), system)] if len(cells) == every[system] else [((cell,), system) for cell in cells]
    return found


@dataclass(frozen=True)
class _Pool:
    """Rows of one board before their numbers are known."""

    suite: str
    slice: str
    measures: tuple[Measure, ...]
    main: Measure
    groups: Mapping[tuple[tuple[str, ...], str], Sequence[Reader]]
    records: Mapping[Any, Records]
    resamples: int

    @property
    def read(self) -> tuple[Measure, ...]:
        """What is read item by item: recall comes along for internalization."""
        parts = [("recall", k) for name, k in self.measures if name == INTERNALIZATION]
        return tuple(dict.fromkeys([*self.measures, *parts]))

    def solve(self, pairs: Sequence[tuple[str, str]]) -> tuple[list[Row], tuple[Contrast, ...]]:
        """Numbers, then the order, then the tests: against the best, and of settings."""
        made = {key: self._plain(key, readers) for key, readers in self.groups.items()}
        items = {key: self._items(key[1], readers) for key, readers in self.groups.items()}
        draws = Draws.of(items, self.resamples)
        rows = [self._crossed(row, items[key], draws) for key, row in made.items()]
        direction = sign(self.main[0])
        order = sorted(range(len(rows)), key=lambda i: -direction * _value(rows[i], self.main, -direction))
        keys = list(made)
        best = order[0]
        tests = [
            None if i == best else self._test(rows[best], rows[i], items, keys[best], keys[i], draws) for i in order
        ]
        told = dict(zip(keys, rows, strict=True))
        found = [replace(rows[i], test=test) for i, test in zip(order, _holm(tests), strict=True)]
        return found, self._contrasts(told, items, draws, pairs)

    def _contrasts(
        self,
        rows: Mapping[Any, Row],
        items: Mapping[Any, list[Items] | None],
        draws: Draws,
        pairs: Sequence[tuple[str, str]],
    ) -> tuple[Contrast, ...]:
        """After minus before, of every system that has numbers of its own in both."""
        found: list[tuple[str, str, str]] = []
        tests: list[Test | None] = []
        for before, after in pairs:
            for system in (name for cells, name in rows if cells == (before,)):
                first, second = ((after,), system), ((before,), system)
                if first in rows:
                    tests.append(self._test(rows[first], rows[second], items, first, second, draws))
                    found.append((system, before, after))
        named = zip(found, _holm(tests), strict=True)
        return tuple(Contrast(*names, test) for names, test in named if test is not None)

    def _plain(self, key: tuple[tuple[str, ...], str], readers: Sequence[Reader]) -> Row:
        """Means over seeds; the run's own intervals where there is one seed."""
        cells, system = key
        values: dict[Measure, Interval] = {}
        span = None
        for measure in self.measures:
            found = [self.records[r.entry.folder].get((system, *measure)) for r in readers]
            told = [r for r in found if r is not None]
            if not told:
                continue
            if len(readers) == 1:
                one = told[0]
                values[measure] = Interval(one["value"], one["low"], one["high"], one["n"] or 0)
                continue
            if len(told) < len(readers):  # a mean over some of the seeds would pass for one over all
                continue
            numbers = [r["value"] for r in told if r["value"] is not None]
            mean = float(np.mean(numbers)) if numbers and len(numbers) == len(readers) else None
            values[measure] = Interval(mean, None, None, told[0]["n"] or 0)
            if measure == self.main and numbers:
                span = (min(numbers), max(numbers))
        main = values.get(self.main)
        covers = OWN if main is not None and main.low is not None else NONE
        entries = tuple(r.entry for r in readers)
        return Row(system, cells, tuple(e.seed for e in entries), values, span, covers, entries)

    def _items(self, system: str, readers: Sequence[Reader]) -> list[Items] | None:
        """Of every seed, on the same items; None where one has none."""
        found = [r.items(system, self.slice, self.read) for r in readers]
        whole = [i for i in found if i is not None]
        if len(whole) < len(found) or any(i.ids != whole[0].ids for i in whole):
            return None
        return whole

    def _crossed(self, row: Row, items: list[Items] | None, draws: Draws) -> Row:
        """Intervals over seeds crossed with items, where there are several seeds."""
        if len(row.seeds) < 2:
            return row
        if items is None:  # a ratio of means cannot be had, and a mean of ratios is another number
            return replace(row, values={m: v for m, v in row.values.items() if m[0] != INTERNALIZATION})
        values = dict(row.values)
        for measure in self.measures:
            if measure in values and all(measure in i.values for i in items):
                means = draws.means(items, measure)
                units = max(draws.units(items), len(row.seeds))
                values[measure] = interval(
                    float(np.mean([i.mean(measure) for i in items])), means, values[measure].n, units
                )
        for measure in self.measures:
            parts = [r.parts(row.system, measure) for r in self.groups[row.cells, row.system]]
            if measure in values and parts and parts[0] is not None:
                values[measure] = self._ratio(row, parts[0], draws, values[measure])
        main = values.get(self.main)
        return replace(row, values=values, covers=CROSSED if main is not None and main.low is not None else NONE)

    def _ratio(self, row: Row, parts: Any, draws: Draws, told: Interval) -> Interval:
        """Internalization: free over constrained recall, both on the same resamples."""
        readers = self.groups[row.cells, row.system]
        replicates, middles = [], []
        for system, measure in parts:
            read = [r.items(system, self.slice, self.read) for r in readers]
            items = [i for i in read if i is not None]
            if len(items) < len(readers) or any(i.ids != items[0].ids or measure not in i.values for i in items):
                return told
            replicates.append(draws.means(items, measure))
            middles.append(float(np.mean([i.mean(measure) for i in items])))
        if middles[1] == 0:
            return Interval(None, None, None, told.n)
        ratios = np.divide(*replicates, out=np.full(len(replicates[0]), np.nan), where=replicates[1] > 0)
        return interval(middles[0] / middles[1], ratios, told.n, len(row.seeds))

    def _test(
        self, best: Row, row: Row, items: Mapping[Any, list[Items] | None], first: Any, second: Any, draws: Draws
    ) -> Test | None:
        """Best minus row in the main measure; the run's own test where both are of one run."""
        own = self._recorded(best, row)
        if own is not None:
            return own
        a, b = items[first], items[second]
        common = [seed for seed in best.seeds if seed in row.seeds]
        if a is None or b is None or not common or a[0].ids != b[0].ids:
            return None
        if not all(self.main in i.values for i in (*a, *b)):
            return None
        if best.seeds == row.seeds:
            replicates = draws.means(a, self.main) - draws.means(b, self.main)
            value = float(np.mean([x.mean(self.main) - y.mean(self.main) for x, y in zip(a, b, strict=True)]))
            found = interval(value, replicates, len(a[0].ids) * len(a), max(draws.units(a), len(common)))
            tail = min((replicates <= 0).sum(), (replicates >= 0).sum())
            p = float(min(1.0, 2 * (1 + tail) / (1 + len(replicates)))) if found.low is not None else None
        else:
            left, right = (
                np.array([part[row_.seeds.index(seed)].values[self.main] for seed in common])
                for part, row_ in ((a, best), (b, row))
            )
            paired = paired_difference(left, right, a[0].clusters, self.resamples)
            found, p = paired.interval, paired.p
        return None if p is None else Test(found, p, p, BOOTSTRAP)

    def _recorded(self, best: Row, row: Row) -> Test | None:
        """The sign-flip test of comparisons.jsonl, where one run has both systems and there is no other seed."""
        if len(best.entries) != 1 or len(row.entries) != 1 or best.entries[0].folder != row.entries[0].folder:
            return None
        for c in best.entries[0].comparisons:
            if (c["suite"], c["slice"], c["metric"], c.get("k")) != (self.suite, self.slice, *self.main):
                continue
            way = {(best.system, row.system): 1, (row.system, best.system): -1}.get((c["system"], c["rival"]))
            if way and all(isinstance(c.get(f), int | float) for f in ("difference", "low", "high", "p")):
                low, high = sorted((way * c["low"], way * c["high"]))
                return Test(Interval(way * c["difference"], low, high, c.get("n", 0)), c["p"], c["p"], SIGN_FLIP)
        return None


def _value(row: Row, measure: Measure, last: float) -> float:
    """For the order; undefined values come last."""
    found = row.values.get(measure)
    return found.value if found is not None and found.value is not None else last * np.inf


def _holm(tests: Sequence[Test | None]) -> list[Test | None]:
    """p-values adjusted for how many systems are held against the best."""
    known = sorted((i for i, t in enumerate(tests) if t is not None), key=lambda i: _p(tests[i]))
    found, least = list(tests), 0.0
    for rank, i in enumerate(known):
        least = max(least, min(1.0, _p(tests[i]) * (len(known) - rank)))
        test = tests[i]
        found[i] = replace(test, adjusted=least) if test is not None else None
    return found


def _p(test: Test | None) -> float:
    return 1.0 if test is None else test.p
