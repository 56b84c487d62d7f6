"""Values item by item, from the prediction records of a run: what paired tests and intervals over seeds are made of."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from toolsavvy.errors import UserError
from toolsavvy.methods.overview.gathering import Entry
from toolsavvy.methods.overview.measures import Measure
from toolsavvy.methods.pooling import INTERNALIZATION, Stored
from toolsavvy.metrics import METRICS
from toolsavvy.retrieval.trec import encode
from toolsavvy.suites.catalog_test import CONSTRAINED, FREE, label
from toolsavvy.tracking.records import read_lines

RANKED = METRICS
"""Metrics that a ranking gives for each query."""
FIELDS: Mapping[tuple[str, str], str] = {
    ("mcq", "accuracy"): "correct_{slice}", ("qa", "accuracy"): "correct", ("parameters", "exact_match"): "exact",
    ("parameters", "field_f1"): "f1", ("parameters", "execution_match"): "executed",
}  # fmt: skip
"""(Suite, metric) -> field of its prediction records."""
UNITS = ("tool", "unit")
"""Fields that name what is independent."""
CLOSE = 1e-6


@dataclass(frozen=True)
class Items:
    """Values of one system on the items of a slice.

    Args:
        ids: of the items.
        clusters: [item], what is independent (tools, operations).
        values: measure -> float64 [item].
    """

    ids: tuple[str, ...]
    clusters: tuple[str, ...]
    values: Mapping[Measure, np.ndarray]

    def mean(self, measure: Measure) -> float:
        """Over the items that the measure is defined on, as the runs themselves take it."""
        return float(np.nanmean(self.values[measure]))


@dataclass(frozen=True)
class Reader:
    """The prediction records of a run on one suite, read when first asked for.

    Values whose mean is not the number that the run itself has recorded are not given out: they would be of other items
    than the slice's.

    Args:
        entry: the run.
        suite: name of the suite.
        known: values by what they were read from; shared by all readers, since a system that nothing depends on leaves
            the same file in every run.
    """

    entry: Entry
    suite: str
    known: dict[Any, Mapping[str, np.ndarray]] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def stored(self) -> Stored:
        """Rankings."""
        return Stored(self.entry.folder, self.suite)

    @cached_property
    def data(self) -> str:
        """Digits over what the suite was run on: tools, tasks or questions, and its test items with their golds."""
        record = self.entry.record
        facts = [record.get(k) for k in ("catalog_fingerprint", "tasks_fingerprint")]
        asked = record.get("questions")
        facts += [asked.get(k) for k in ("name", "n", "families")] if isinstance(asked, Mapping) else []
        path = self.entry.folder / "predictions" / f"{self.suite}.qrels"
        golds = path.read_bytes() if path.is_file() else self._asked()
        return hashlib.sha256(repr(facts).encode() + golds).hexdigest()[:8]

    def _asked(self) -> bytes:
        """Test items of a suite without golds: what its first system was asked, as far as that can be read."""
        if not any(suite == self.suite for suite, _ in FIELDS):
            return b""
        path = next(iter(sorted((self.entry.folder / "predictions").glob(f"{self.suite}.*.jsonl"))), None)
        try:
            rows = read_lines(path, ("id",)) if path is not None else []
        except (UserError, OSError):
            return b""
        return repr([(row["id"], row.get("tool"), row.get("question"), row.get("options")) for row in rows]).encode()

    @cached_property
    def _rows(self) -> Mapping[tuple[str, str, Any], Mapping[Measure, Any]]:
        """(System, slice) -> measure -> recorded value."""
        found: dict[tuple[str, str, Any], dict[Measure, Any]] = {}
        for row in self.entry.rows:
            if row["suite"] == self.suite:
                found.setdefault((row["system"], row["slice"], None), {})[row["metric"], row["k"]] = row["value"]
        return found

    def items(self, system: str, slice_: str, measures: Sequence[Measure]) -> Items | None:
        """The values that can be had, or None."""
        key = (system, slice_, tuple(measures))
        if key not in self._cache:
            try:
                self._cache[key] = self._read(system, slice_, measures)
            except (UserError, OSError, ValueError, KeyError, IndexError):  # damaged, or not kept
                self._cache[key] = None
        return self._cache[key]

    @cached_property
    def _cache(self) -> dict[Any, Items | None]:
        return {}

    def _read(self, system: str, slice_: str, measures: Sequence[Measure]) -> Items | None:
        has_golds = (self.entry.folder / "predictions" / f"{self.suite}.qrels").is_file()
        found = self._ranked(system, slice_, measures) if has_golds else self._answered(system, slice_, measures)
        if found is None:
            return None
        told = self._rows.get((system, slice_, None), {})
        kept = {m: v for m, v in found.values.items() if _agrees(v, told.get(m))}
        return Items(found.ids, found.clusters, kept) if kept else None

    def _ranked(self, system: str, slice_: str, measures: Sequence[Measure]) -> Items | None:
        wanted = tuple(m for m in measures if m[0] in RANKED and m[1] is not None)
        if system not in self.stored.systems or slice_ not in self.stored.splits or not wanted:
            return None
        key = (self.suite, self.data, hashlib.sha256(self.stored.systems[system].read_bytes()).digest(), wanted)
        if key not in self.known:
            self.known[key] = self.stored.values(system, [(name, int(k or 0)) for name, k in wanted])
        values, queries = self.known[key][slice_], self.stored.splits[slice_]
        if len(values) != len(queries):
            return None
        ids = tuple(query.id for query in queries)
        clusters = tuple(min(query.relevant) for query in queries)
        return Items(ids, clusters, {m: values[:, i] for i, m in enumerate(wanted)})

    def _answered(self, system: str, slice_: str, measures: Sequence[Measure]) -> Items | None:
        fields = {m: FIELDS[self.suite, m[0]].format(slice=slice_) for m in measures if (self.suite, m[0]) in FIELDS}
        path = prediction_file(self.entry.folder, self.suite, system)
        if not fields or path is None:
            return None
        rows = read_lines(path, ("id",))
        values = {m: np.array([_number(row.get(f)) for row in rows]) for m, f in fields.items()}
        clusters = tuple(next((str(row[u]) for u in UNITS if row.get(u)), row["id"]) for row in rows)
        return Items(tuple(row["id"] for row in rows), clusters, values) if rows else None

    def parts(self, system: str, measure: Measure) -> tuple[tuple[str, Measure], tuple[str, Measure]] | None:
        """Of an internalization score: recall of free decoding, and of constrained, by system; None for others."""
        if measure[0] != INTERNALIZATION:
            return None
        family = system.removesuffix(f"-{FREE}")
        return (label(family, FREE), ("recall", measure[1])), (label(family, CONSTRAINED), ("recall", measure[1]))


def prediction_file(folder: Path, suite: str, system: str) -> Path | None:
    """Where a system's records are; names are percent-encoded by some writers."""
    places = [folder / "predictions" / f"{suite}.{name}.jsonl" for name in dict.fromkeys((encode(system), system))]
    return next((p for p in places if p.parent.name == "predictions" and p.is_file()), None)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else np.nan


def _agrees(values: np.ndarray, told: Any) -> bool:
    known = values[np.isfinite(values)]
    return len(known) > 0 and isinstance(told, int | float) and abs(float(known.mean()) - told) < CLOSE
