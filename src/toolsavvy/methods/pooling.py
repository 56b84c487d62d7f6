"""Several seeds of one experiment as one table: means, ratios and paired differences with intervals, from run folders.

Nothing is trained or ranked again: rankings come from the TREC runs, slices and golds from the prediction records.
Intervals cross seeds and clusters of queries (see `metrics.Resamples`): they cover both another seed and other tools.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from toolsavvy.catalog import Query
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.metrics import GoldMatrix, Resamples, interval, per_query
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking
from toolsavvy.retrieval.trec import NONE_PREFIX, query_keys, read_qrels, read_run
from toolsavvy.suites.catalog_test import CONSTRAINED, FREE, label
from toolsavvy.tracking.records import read_lines, read_record

INTERNALIZATION = "internalization"
MEAN, DIFFERENCE, RATIO = "mean", "difference", "ratio"


_decoded = lru_cache(maxsize=1 << 16)(unquote)
"""Ids come again and again: of every query, system and run."""


@dataclass(frozen=True)
class Pooled:
    """One number of `pooled.jsonl`.

    Args:
        cell: config hash without the seed.
        seeds: of the runs behind the number.
        kind: mean | difference (system minus rival) | ratio (system over rival).
        suite: name of the suite.
        slice: a test split, or `split/subset`.
        system: as in the run's tables.
        rival: of a difference or ratio, None of a mean.
        metric: name without its k.
        k: cut-off.
        value: over all seeds and queries; None where it is undefined.
        low: lower end of the 95 % interval; None where the value is undefined or there is nothing to resample.
        high: upper end, likewise.
        p: two-sided bootstrap p-value of a difference.
        n: queries.
    """

    cell: str
    seeds: tuple[int, ...]
    kind: str
    suite: str
    slice: str
    system: str
    rival: str | None
    metric: str
    k: int
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int


@dataclass(frozen=True)
class Stored:
    """What one finished run left of one suite.

    Args:
        folder: the run's.
        suite: name of the suite.
    """

    folder: Path
    suite: str

    @cached_property
    def record(self) -> Mapping[str, object]:
        """What run.json says."""
        return read_record(self.folder)

    @property
    def seed(self) -> int:
        """Of the run."""
        return int(str(self.record["seed"]))

    @cached_property
    def systems(self) -> dict[str, Path]:
        """System -> its run file."""
        found = sorted((self.folder / "predictions").glob(f"{self.suite}.*.run"))
        return {unquote(p.name[len(self.suite) + 1 : -len(".run")]): p for p in found}

    @cached_property
    def splits(self) -> dict[str, list[Query]]:
        """Test split -> its queries, with golds, subsets and tiers.

        Raises:
            UserError: no prediction records.
        """
        path = next(iter(sorted((self.folder / "predictions").glob(f"{self.suite}.*.jsonl"))), None)
        rows = read_lines(path, ("split", "query", "text")) if path is not None else []
        if not rows:
            raise UserError("no predictions", where=str(self.folder), expected=f"predictions/{self.suite}.*.jsonl")
        splits: dict[str, list[Query]] = defaultdict(list)
        for r in rows:
            splits[r["split"]].append(Query(r["query"], r["text"], {}, None, r.get("subset", ""), r.get("tier", "")))
        grades, keys = read_qrels(self.folder / "predictions" / f"{self.suite}.qrels"), query_keys(splits)
        return {
            split: [replace(q, relevant=grades[unquote(key)]) for q, key in zip(queries, keys[split], strict=True)]
            for split, queries in splits.items()
        }

    def rankings(self, system: str) -> dict[str, Ranking]:
        """Split -> ranking; positions are of tools in the order in which `position` has met them."""
        lines = read_run(self.systems[system])
        return {
            split: self._ranking([[line.document for line in lines.get(key, [])] for key in keys])
            for split, keys in query_keys(self.splits).items()
        }

    def _ranking(self, documents: Sequence[Sequence[str]]) -> Ranking:
        """Ranked documents [query][rank] as positions."""
        depth = max((len(row) for row in documents), default=0)
        indices = np.full((len(documents), max(depth, 1)), NO_TOOL, dtype=np.int64)
        for row, names in enumerate(documents):
            indices[row, : len(names)] = [self.position(name) for name in names]
        scores = np.broadcast_to(-np.arange(indices.shape[1], dtype=np.float64), indices.shape)
        return Ranking(indices, scores)

    def position(self, document: str) -> int:
        """A number for every tool that a gold or a run names; `NO_TOOL` for a placeholder."""
        if document.startswith(NONE_PREFIX):
            return NO_TOOL
        return self._positions.setdefault(_decoded(document), len(self._positions))

    @cached_property
    def _positions(self) -> dict[str, int]:
        golds = sorted({tool for queries in self.splits.values() for q in queries for tool in q.relevant})
        return {tool: i for i, tool in enumerate(golds)}

    def values(self, system: str, metrics: Sequence[tuple[str, int]]) -> dict[str, np.ndarray]:
        """Split -> float64 [query, metric] of one system."""
        found = {}
        for split, ranking in self.rankings(system).items():
            gold = GoldMatrix.of([{self._positions[t]: g for t, g in q.relevant.items()} for q in self.splits[split]])
            found[split] = np.stack([getattr(per_query(ranking, gold, k), name) for name, k in metrics], axis=1)
        return found


def pool_seeds(
    folders: Sequence[Path],
    metrics: Sequence[tuple[str, int]],
    *,
    pairs: Sequence[tuple[str, str]] = (),
    slices: Sequence[str] = (),
    resamples: int = 2000,
    seed: int = 0,
) -> list[Pooled]:
    """Pool finished runs that differ in nothing but their seed; runs of several cells give several tables.

    Args:
        folders: of finished runs.
        metrics: (name, k) of per-query metrics, or of internalization.
        pairs: (system, rival): their difference and ratio in every metric. Besides, every system is compared with the
            best other one. The name of a generative system alone means its constrained decoding.
        slices: test splits and `split/subset` in their order; all of them by default.
        resamples: of the bootstrap.
        seed: of the bootstrap.

    Raises:
        UserError: a folder holds no run, a seed is there twice, runs of one cell saw other data, or a pair or slice
            does not exist.
    """
    cells: dict[tuple[str, str], list[Stored]] = defaultdict(list)
    for folder in folders:
        for stored in _suites(folder):
            cells[str(stored.record["cell"]), stored.suite].append(stored)
    rows: list[Pooled] = []
    for (cell, _), runs in cells.items():
        runs = _same_data(sorted(runs, key=lambda r: r.seed))
        pool = _Pool(cell, runs, _measured(metrics, runs), resamples, seed)
        rows += pool.rows([(pool.resolve(a), pool.resolve(b)) for a, b in pairs], slices)
    return rows


def _suites(folder: Path) -> Iterator[Stored]:
    """The suites that a run has left predictions of."""
    if "cell" not in read_record(folder):
        raise UserError(
            "this is no run folder", where=str(folder), expected="a folder with run.json", fix="correct runs"
        )
    found = sorted((folder / "predictions").glob("*.qrels"))
    if not found:
        raise UserError(
            "the run kept no predictions", where=str(folder), expected="predictions/<suite>.qrels and .run files",
            fix="run it with predictions=true",
        )  # fmt: skip
    yield from (Stored(folder, path.stem) for path in found)


def _same_data(runs: Sequence[Stored]) -> Sequence[Stored]:
    """Runs of one cell, each with its own seed, all on the same queries."""
    first, seen = runs[0], {}
    for run in runs:
        if run.seed in seen:
            raise UserError(
                f"seed {run.seed} is there twice", where=f"{seen[run.seed]} and {run.folder}",
                expected="one run per seed of a cell", fix="name one of them in runs",
            )  # fmt: skip
        seen[run.seed] = run.folder
        if run.splits != first.splits:
            raise UserError(
                "the runs were tested on other queries", where=f"{first.folder} and {run.folder}",
                expected="the same queries and golds for every seed (catalog.seed chooses them)",
                fix="run the older one again: its catalog has changed since",
            )  # fmt: skip
    return runs


def _measured(metrics: Sequence[tuple[str, int]], runs: Sequence[Stored]) -> tuple[tuple[str, int], ...]:
    """The metrics whose depth every run has reached: a small catalog has no recall@50."""
    depths = set.intersection(*({r["k"] for r in read_lines(run.folder / "results.jsonl", (), ("k",))} for run in runs))
    found = tuple((name, k) for name, k in metrics if k in depths)
    if not found:
        expected = f"k of {', '.join(map(str, sorted(k for k in depths if k)))}"
        raise UserError(
            "the runs did not measure this", where="method.metrics", expected=expected, fix="choose these k"
        )
    return found


@dataclass(frozen=True)
class _Pool:
    """Runs of one cell on one suite."""

    cell: str
    runs: Sequence[Stored]
    metrics: tuple[tuple[str, int], ...]
    resamples: int
    seed: int

    @cached_property
    def systems(self) -> list[str]:
        """Those that every run has, in the order of the tables."""
        first, *others = self.runs
        order = {str(r["system"]): None for r in read_lines(first.folder / "results.jsonl", ("system",))}
        names = sorted(first.systems, key=lambda s: list(order).index(s) if s in order else len(order))
        return [name for name in names if all(name in run.systems for run in others)]

    @cached_property
    def basic(self) -> list[tuple[str, int]]:
        """Per-query metrics that are needed: recall comes along for internalization."""
        wanted = [("recall", k) if name == INTERNALIZATION else (name, k) for name, k in self.metrics]
        return list(dict.fromkeys(wanted))

    def resolve(self, name: str) -> str:
        """A system of the table; a generative system's own name means its constrained decoding."""
        for known in (name, label(name, CONSTRAINED)):
            if known in self.systems:
                return known
        raise UserError(
            f"{name!r} is no system here", where="method.ratios", expected=f"some of {', '.join(self.systems)}",
            fix=did_you_mean(name, self.systems),
        )  # fmt: skip

    @cached_property
    def values(self) -> dict[str, np.ndarray]:
        """Split -> float64 [seed, query, system, metric]."""
        found: dict[str, list[np.ndarray]] = defaultdict(list)
        for run in self.runs:
            for system in self.systems:
                for split, values in run.values(system, self.basic).items():
                    found[split].append(values)
        shape = (len(self.runs), len(self.systems))
        return {s: np.moveaxis(np.stack(v).reshape(*shape, *np.shape(v[0])), 1, 2) for s, v in found.items()}

    @cached_property
    def slices(self) -> dict[str, tuple[str, np.ndarray]]:
        """Name -> split and positions, of every split and its subsets."""
        found = {}
        for split, queries in self.runs[0].splits.items():
            found[split] = split, np.arange(len(queries))
            for subset in sorted({q.subset for q in queries} - {""}):
                found[f"{split}/{subset}"] = split, np.array([i for i, q in enumerate(queries) if q.subset == subset])
        return found

    def rows(self, pairs: Sequence[tuple[str, str]], slices: Sequence[str]) -> list[Pooled]:
        """Every number of the cell: means, then comparisons."""
        rows = []
        for name in slices or self.slices:
            if name not in self.slices:
                expected = f"some of {', '.join(self.slices)}"
                fix = did_you_mean(name, self.slices)
                raise UserError(f"there is no slice {name!r}", where="method.slices", expected=expected, fix=fix)
            split, items = self.slices[name]
            clusters = [min(self.runs[0].splits[split][i].relevant) for i in items]
            part = _Slice(self, name, self.values[split][:, items], Resamples.of(clusters, self.resamples, self.seed))
            rows += [*part.means(), *part.internalizations(), *part.comparisons(pairs)]
        return rows


@dataclass(frozen=True)
class _Slice:
    """Values [seed, query, system, metric] of one slice, and its resamples."""

    pool: _Pool
    name: str
    values: np.ndarray
    part: Resamples

    @cached_property
    def estimates(self) -> np.ndarray:
        """Means over seeds and queries, float64 [system, metric]."""
        return self.values.mean(axis=(0, 1))

    @cached_property
    def replicates(self) -> np.ndarray:
        """The same in every resample of seeds and clusters, float64 [replicate, system, metric]."""
        seeds, queries, *columns = self.values.shape
        flat = np.moveaxis(self.values, 1, 0).reshape(queries, -1)
        total, number = (x.reshape(-1, seeds, *columns) for x in self.part.totals(flat))
        drawn = self.part.seeds(seeds)[:, :, None, None]
        return (total * drawn).sum(axis=1) / (number * drawn).sum(axis=1)

    def means(self) -> list[Pooled]:
        """Every system in every per-query metric."""
        return [
            self._row(MEAN, system, None, m, self.estimates[i, j], self.replicates[:, i, j])
            for i, system in enumerate(self.pool.systems)
            for j, m in enumerate(self.pool.basic)
        ]

    def internalizations(self) -> list[Pooled]:
        """Recall of free over recall of constrained decoding, both on the same resamples; named after the system."""
        rows = []
        for system in self.pool.systems:
            family = system.removesuffix(f"-{FREE}")
            if label(family, FREE) == system and label(family, CONSTRAINED) in self.pool.systems:
                for metric, k in self.pool.metrics:
                    if metric == INTERNALIZATION:
                        j = self.pool.basic.index(("recall", k))
                        ratio = self._ratio(system, label(family, CONSTRAINED), j)
                        rows.append(self._row(MEAN, family, None, (metric, k), *ratio))
        return rows

    def comparisons(self, pairs: Sequence[tuple[str, str]]) -> list[Pooled]:
        """Every system minus the best other, then the chosen pairs: difference and ratio."""
        rows = []
        for j, metric in enumerate(self.pool.basic):
            best = [(system, self._best_rival(system, j)) for system in self.pool.systems]
            for a, b in dict.fromkeys([*((s, r) for s, r in best if r is not None), *pairs]):
                rows.append(self._row(DIFFERENCE, a, b, metric, *self._difference(a, b, j)))
                if (a, b) in pairs:
                    rows.append(self._row(RATIO, a, b, metric, *self._ratio(a, b, j)))
        return rows

    def _best_rival(self, system: str, j: int) -> str | None:
        """The other system with the highest mean; the two decoding modes of one model are no rivals."""
        others = [i for i, other in enumerate(self.pool.systems) if _family(other) != _family(system)]
        return self.pool.systems[max(others, key=lambda i: self.estimates[i, j])] if others else None

    def _difference(self, a: str, b: str, j: int) -> tuple[float, np.ndarray]:
        left, right = self.pool.systems.index(a), self.pool.systems.index(b)
        replicates = self.replicates[:, left, j] - self.replicates[:, right, j]
        return self.estimates[left, j] - self.estimates[right, j], replicates

    def _ratio(self, a: str, b: str, j: int) -> tuple[float, np.ndarray]:
        top, bottom = self.pool.systems.index(a), self.pool.systems.index(b)
        tops, bottoms = self.replicates[:, top, j], self.replicates[:, bottom, j]
        ratios = np.divide(tops, bottoms, out=np.full(len(tops), np.nan), where=bottoms > 0)
        below = self.estimates[bottom, j]
        return float(self.estimates[top, j] / below) if below > 0 else np.nan, ratios

    def _row(
        self, kind: str, system: str, rival: str | None, metric: tuple[str, int], value: float, replicates: np.ndarray
    ) -> Pooled:
        """Name a number and its interval."""
        seeds = tuple(run.seed for run in self.pool.runs)
        found = interval(value, replicates, self.values.shape[1], max(self.part.units, len(seeds)))
        p = None
        if kind == DIFFERENCE and found.low is not None:
            tail = min((replicates <= 0).sum(), (replicates >= 0).sum())
            p = float(min(1.0, 2 * (1 + tail) / (1 + len(replicates))))
        labels = (self.pool.cell, seeds, kind, self.pool.runs[0].suite, self.name, system, rival, *metric)
        return Pooled(*labels, found.value, found.low, found.high, p, found.n)


def _family(system: str) -> str:
    """A system's name without its decoding mode."""
    return system.removesuffix(f"-{FREE}").removesuffix(f"-{CONSTRAINED}")
