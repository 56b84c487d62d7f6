"""Where scores of systems come from: the records of finished runs, a CSV of outside scores, a published table.

Everything that can be read before a run starts is read when the source is made, so that faults are told early.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import yaml

from toolsavvy.catalogs.reading import Record, existing, read_rows
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.tracking.records import read_lines, read_record

PUBLISHED = Path(__file__).parents[1] / "published"
"""Tables from papers in long format, one number a line."""
LARGEST = 1e100
"""Of outside scores: the square of larger ones is no number, and no figure has room for them."""
METRIC, K, COLUMN, SYSTEM = "ndcg", 10, "score", "system"
"""What is taken where a source does not say."""
CHOICES = ("experiment", "encoder", "reranker", "llm", "model", "tuning", "indexing", "memorization", "method")
"""Groups whose options tell systems of one name apart."""
TRAINED = ("model", "tuning", "indexing", "memorization", "encoder", "retriever", "stages", "method")
"""What a system that is no retriever of the config is made of."""


@dataclass(frozen=True)
class Scored:
    """Scores of systems, and what they are; None is a system that has none, and the notes say why."""

    label: str
    values: Mapping[str, float | None]
    notes: Mapping[str, str] = field(default_factory=dict)


class Source(Protocol):
    """One side of a correlation."""

    def scores(self, runs: Sequence[Finished]) -> Scored:
        """The scores by system; only some sources look at the runs."""
        ...


RESULT = ("suite", "system", "slice", "metric")
"""Texts that every line of results.jsonl holds."""


@dataclass(frozen=True)
class Finished:
    """What a run folder tells of its systems.

    Args:
        folder: of the run.
    """

    folder: Path

    @cached_property
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """Records of results.jsonl."""
        return read_lines(self.folder / "results.jsonl", RESULT, ("k", "value", "low", "high", "n"))

    @cached_property
    def record(self) -> Mapping[str, Any]:
        """What run.json says."""
        return read_record(self.folder)

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """What was composed, resolved; empty where it cannot be read."""
        try:
            return yaml.safe_load((self.folder / "config.yaml").read_text(encoding="utf-8")) or {}
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            return {}

    def choice(self, group: str) -> str:
        """The option of a group."""
        return str(self.record.get("choices", {}).get(group, ""))

    def recipe(self, system: str) -> str:
        """Twelve hex digits over what a system is made of: the same in runs on other catalogs and with other seeds."""
        nodes = self.config.get("retriever") or {}
        own = [name for name in nodes if f"{system}-".startswith(f"{name}-")]  # dense-inst, toolgen-free
        made_of = [nodes[max(own, key=len)]] if own else [self.config.get(group) for group in TRAINED]
        return hashlib.sha256(json.dumps(_unseeded(made_of), sort_keys=True, default=str).encode()).hexdigest()[:12]


def _unseeded(node: Any) -> Any:
    """A part of a config without its seeds."""
    if isinstance(node, Mapping):
        return {str(key): _unseeded(value) for key, value in node.items() if key != "seed"}
    return [_unseeded(value) for value in node] if isinstance(node, list) else node


def names(runs: Iterable[Finished]) -> dict[tuple[str, str], str]:
    """(System, recipe) -> a name of its own: the system's, with the options that differ where several go by it."""
    made: dict[str, dict[str, Finished]] = defaultdict(dict)
    for run in runs:
        for system in dict.fromkeys(str(row["system"]) for row in run.rows):
            made[system].setdefault(run.recipe(system), run)
    found = {}
    for system, recipes in made.items():
        differ = [group for group in CHOICES if len({run.choice(group) for run in recipes.values()}) > 1]
        told = {recipe: ", ".join(run.choice(group) for group in differ) for recipe, run in recipes.items()}
        for recipe, text in told.items():
            unique = text if list(told.values()).count(text) == 1 else f"{text} {recipe[:6]}".strip()
            found[system, recipe] = f"{system} ({unique})" if len(recipes) > 1 else system
    return found


@dataclass(frozen=True)
class FromRuns:
    """A metric of a suite, from this run and finished ones; several seeds of a system are averaged.

    Args:
        where: config key of this source.
        suite: name of the suite.
        metric: as in results.jsonl.
        k: its cut-off; None is 10 where there are several.
        slice: None is the mean over all test splits.
        catalog: option of the runs to take; None is all, which must then be of one catalog.
    """

    where: str
    suite: str
    metric: str = METRIC
    k: int | None = None
    slice: str | None = None
    catalog: str | None = None

    def scores(self, runs: Sequence[Finished]) -> Scored:
        """Read the runs.

        Raises:
            UserError: no run has such a number, or runs of several catalogs have.
        """
        named, k = names(runs), self._cutoff(runs)
        values: dict[str, list[float | None]] = defaultdict(list)
        slices: dict[str, None] = {}
        for run in self._of_one_catalog(runs):
            for system, parts in self._parts(run, k).items():
                slices |= dict.fromkeys(parts)
                known = [v for v in parts.values() if v is not None]
                whole = len(known) == len(parts)
                values[named[system, run.recipe(system)]].append(sum(known) / len(known) if whole else None)
        if not values:
            raise self._nothing("slice", self.slice, [str(r["slice"]) for r in self._rows(runs)])
        at = "" if k is None else f"@{k}"
        of = f" of {self.catalog}" if self.catalog else ""
        label = f"{self.suite} {self.metric}{at} on {' and '.join(slices)}{of}"
        return Scored(label, {system: _mean(found) for system, found in values.items()})

    def _rows(self, runs: Iterable[Finished]) -> list[Mapping[str, Any]]:
        """Records of the suite and metric in the runs of the catalog."""
        return [row for run in runs for row in run.rows if self._fits(run, row)]

    def _fits(self, run: Finished, row: Mapping[str, Any]) -> bool:
        wanted = self.catalog in (None, run.choice("catalog"))
        return wanted and (row["suite"], row["metric"]) == (self.suite, self.metric)

    def _cutoff(self, runs: Sequence[Finished]) -> int | None:
        """The k that is meant."""
        catalogs = [run.choice("catalog") for run in runs]
        if self.catalog is not None and self.catalog not in catalogs:
            raise self._nothing("catalog", self.catalog, catalogs)
        rows = [row for run in runs if self.catalog in (None, run.choice("catalog")) for row in run.rows]
        if self.suite not in (suites := [str(row["suite"]) for row in rows]):
            raise self._nothing("suite", self.suite, suites)
        own = [row for row in rows if row["suite"] == self.suite]
        if self.metric not in (metrics := [str(row["metric"]) for row in own]):
            raise self._nothing("metric", self.metric, metrics)
        ks = list(dict.fromkeys(row["k"] for row in own if row["metric"] == self.metric))
        wanted = self.k if self.k is not None else ks[0] if len(ks) == 1 else K
        if wanted not in ks:
            raise self._nothing("k", wanted, list(map(str, ks)))
        return wanted

    def _of_one_catalog(self, runs: Sequence[Finished]) -> list[Finished]:
        """The runs that measured it."""
        mine = [run for run in runs if self._rows([run])]
        prints = {str(run.record.get("catalog_fingerprint")): run for run in mine}
        if len(prints) > 1:
            told = ", ".join(f"{run.choice('catalog')} in {run.folder}" for run in prints.values())
            raise UserError(
                f"the runs are of several catalogs: {told}", where=f"{self.where}.catalog",
                expected="numbers on the same tools", fix=f"set {self.where}.catalog, or name fewer runs",
            )  # fmt: skip
        return mine

    def _parts(self, run: Finished, k: int | None) -> dict[str, dict[str, float | None]]:
        """System -> slice -> value of one run."""
        found: dict[str, dict[str, float | None]] = defaultdict(dict)
        for row in self._rows([run]):
            is_meant = row["slice"] == self.slice if self.slice else "/" not in row["slice"]
            if row["k"] == k and is_meant:
                found[str(row["system"])][str(row["slice"])] = row["value"]
        return found

    def _nothing(self, key: str, value: object, known: Sequence[str]) -> UserError:
        """No record has this."""
        options = list(dict.fromkeys(known))
        expected = f"one of {', '.join(options)}" if options else "runs with results"
        where = f"{self.where}.{key}"
        return UserError(f"no run has {value!r}", where=where, expected=expected, fix=did_you_mean(str(value), options))


def _mean(values: Sequence[float | None]) -> float | None:
    """Over the seeds; None where one is undefined."""
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


class FromFile:
    """Outside scores from a CSV (or `.tsv`) file with a header; an empty field is a system without a score.

    Args:
        where: config key of this source.
        path: of the file.
        column: of the scores.

    Raises:
        UserError: the file cannot be read, or a score is no number, or a system is there twice.
    """

    def __init__(self, where: str, path: str, column: str = COLUMN) -> None:
        self.path = existing(path, "a CSV file with system and score", f"{where}.path")
        delimiter = "\t" if self.path.suffix == ".tsv" else ","
        self.column = column
        self.values: dict[str, float | None] = {}
        for record in read_rows(self.path, (SYSTEM, column), delimiter=delimiter):
            system = record.text(SYSTEM, None).strip()
            if system in self.values:
                raise record.wrong(SYSTEM, f"{system!r} is there twice", "one line a system", "take one of them out")
            self.values[system] = number(record, column)

    def scores(self, runs: Sequence[Finished]) -> Scored:
        """What the file holds."""
        return Scored(f"{self.path.name} {self.column}", self.values)


def number(record: Record, field: str) -> float | None:
    """A number of a CSV row; None where the field is empty.

    Raises:
        UserError: it is no number.
    """
    text = str(record.value[field]).strip()
    if not text:
        return None
    try:
        value = float(text)
        if LARGEST < abs(value) < math.inf:
            raise ValueError(text)
        return value
    except ValueError as error:
        fix = f"correct {field!r} on this line; leave it empty where there is no score"
        raise record.wrong(field, f"{text!r} is no number", "a number such as 56.3", fix) from error


class FromPublished:
    """A column of a table that comes with the package; doubtful numbers, those with a note, are left out.

    Args:
        where: config key of this source.
        published: name of the table.
        setting: in the table's own words; None where it has but one.
        category: likewise.
        metric: likewise.
        k: cut-off.

    Raises:
        UserError: there is no such table or column.
    """

    def __init__(
        self,
        where: str,
        published: str,
        setting: str | None = None,
        category: str | None = None,
        metric: str = METRIC,
        k: int = K,
    ) -> None:
        path = PUBLISHED / f"{published}.csv"
        if not path.is_file():
            tables = sorted(p.stem for p in PUBLISHED.glob("*.csv"))
            raise UserError(
                f"there is no published table {published!r}", where=f"{where}.published",
                expected=f"one of {', '.join(tables)}", fix=did_you_mean(published, tables),
            )  # fmt: skip
        chosen = {"setting": setting, "category": category, "metric": metric, "k": str(k)}
        rows = list(read_rows(path, (SYSTEM, *chosen, "value", "note")))
        for key, value in chosen.items():
            rows = _chosen(rows, key, value, where)
        self.notes = {str(row.value[SYSTEM]): note for row in rows if (note := str(row.value["note"]))}
        self.values = {str(row.value[SYSTEM]): number(row, "value") for row in rows} | dict.fromkeys(self.notes)
        told = [f"{key}={value}" for key, value in (("setting", setting), ("category", category)) if value]
        self.label = " ".join([f"published {published} {metric}@{k}", *told])

    def scores(self, runs: Sequence[Finished]) -> Scored:
        """What the table holds."""
        return Scored(self.label, self.values, self.notes)


def _chosen(rows: Sequence[Record], key: str, value: str | None, where: str) -> list[Record]:
    """Rows with a value in a column; None takes the only one there is."""
    options = list(dict.fromkeys(str(row.value[key]) for row in rows))
    wanted = options[0] if value is None and len(options) == 1 else value
    if wanted not in options:
        what = "not set" if value is None else f"the table has no {value!r}"
        fix = did_you_mean(str(value), options) if value is not None else f"set {where}.{key}"
        raise UserError(what, where=f"{where}.{key}", expected=f"one of {', '.join(options)}", fix=fix)
    return [row for row in rows if row.value[key] == wanted]


def source(spec: Mapping[str, object], where: str) -> FromRuns | FromFile | FromPublished:
    """Make a source from a config's mapping; keys that are null count as absent.

    Args:
        spec: `suite`, `path` or `published`, and keys that go with it.
        where: config key of the mapping.

    Raises:
        UserError: none or several of the three, or keys that do not go with it.
    """
    given: dict[str, Any] = {key: value for key, value in spec.items() if value is not None}
    kinds = [kind for kind in KEYS if kind in given]
    if len(kinds) != 1:
        what = "no source is named" if not kinds else f"several sources: {', '.join(kinds)}"
        expected = "one of suite (of this run and of `runs`), path (a CSV) and published (a table that comes along)"
        fix = f"set {where}.suite, {where}.path or {where}.published, and the others to null"
        raise UserError(what, where=where, expected=expected, fix=fix)
    (kind,) = kinds
    for key, value in given.items():
        if key not in KEYS[kind]:
            known = f"with {kind}: {', '.join(KEYS[kind])}"
            raise UserError(
                f"does not go with {kind}", where=f"{where}.{key}", expected=known, fix=f"set {where}.{key}=null"
            )
        is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        if not (is_count if key == "k" else isinstance(value, str)):
            told = "a whole number of at least 1" if key == "k" else "text"
            raise UserError(f"{value!r} is no valid value", where=f"{where}.{key}", expected=told)
    makers = {"suite": FromRuns, "path": FromFile, "published": FromPublished}
    return makers[kind](where, **given)


KEYS = {
    "suite": ("suite", "metric", "k", "slice", "catalog"),
    "path": ("path", "column"),
    "published": ("published", "setting", "category", "metric", "k"),
}
"""Kind of source -> the keys that go with it; a kind is told by its first key."""
