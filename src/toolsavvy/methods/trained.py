"""What one finished run tells of a generative model: what it knows of tools stage by stage, and what it finds.

Retrieval is measured anew from the TREC runs, so that test splits can be pooled; answers to questions stand in
results.jsonl, and per tool in the prediction records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from toolsavvy.benchmark import TIERS
from toolsavvy.catalog import Query
from toolsavvy.methods.pooling import Stored
from toolsavvy.metrics import Interval, bootstrap, internalization
from toolsavvy.suites.catalog_test import CONSTRAINED, FREE, label
from toolsavvy.suites.scores import Finished
from toolsavvy.tracking.records import read_lines

CONFIGURATIONS = {"tg": "TG", "tg_h": "TG-H", "tg_5fm": "TG-5FM", "tg_lora": "TG-LoRA", "tg_5fm_lora": "TG-5FM-LoRA"}
"""Options of the group `configuration` -> ToolSense's names."""
UNTRAINED, STAGE_1, STAGE_2, RIVAL, CONTROL = "untrained", "stage 1", "stage 2", "rival", "control"
CONTROLS = ("prior", "name", "document")
"""The model before any training: question alone, the tool's name in words, its whole document (upper bound)."""
CATALOG, RRB, MCQ, QA = "catalog_test", "rrb", "mcq", "qa"
RETRIEVAL, KNOWLEDGE = (CATALOG, RRB), (MCQ, QA)
ALL = "all"
HIT = 5
"""Rank down to which a tool counts as found where tools are compared."""


@dataclass(frozen=True)
class Number:
    """One line of dissociation.jsonl.

    Args:
        configuration: name of the row: a configuration, a rival, or the model of a control.
        stage: untrained | stage 1 | stage 2 | rival | control.
        system: as in results.jsonl.
        suite: catalog_test | rrb | mcq | qa.
        slice: of retrieval "all", a subset (short, verbose) or "tier=…"; of questions as in results.jsonl.
        metric: recall, internalization, accuracy, yes_share, auc.
        k: cut-off.
        value: None where it is undefined.
        low: lower end of the 95 % interval over tools.
        high: upper end.
        n: queries or questions.
    """

    configuration: str
    stage: str
    system: str
    suite: str
    slice: str
    metric: str
    k: int | None
    value: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True)
class Trained:
    """What one finished run tells.

    Args:
        folder: of the run.
        name: of its configuration, unique in the report.
        model: of its controls; "" where all runs have the same.
    """

    folder: Path
    name: str = ""
    model: str = ""

    @cached_property
    def run(self) -> Finished:
        """Records of the run."""
        return Finished(self.folder)

    @property
    def configuration(self) -> str:
        """ToolSense's name, or else what the run was made of."""
        chosen = self.run.choice("configuration")
        parts = (self.run.choice(group) for group in ("indexing", "memorization", "tuning"))
        return CONFIGURATIONS.get(chosen) or "-".join(parts)

    @cached_property
    def recipes(self) -> list[str]:
        """Recipes of stage 2 that were evaluated, in order."""
        systems = dict.fromkeys(family(str(row["system"])) for row in self.run.rows)
        return [s.removeprefix("toolgen_") for s in systems if s.startswith("toolgen_") and s != "toolgen_stage1"]

    @cached_property
    def suites(self) -> frozenset[str]:
        """Those with numbers."""
        return frozenset(str(row["suite"]) for row in self.run.rows)

    @property
    def missing(self) -> list[str]:
        """What this run has not measured."""
        if not self.run.rows:
            return [f"{self.name}: no results in {self.folder}"]
        if not self.is_generator:
            return []
        absent = [suite for suite in (*RETRIEVAL, *KNOWLEDGE) if suite not in self.suites]
        told = [f"{self.name}: no {', '.join(absent)}"] if absent else []
        unread = [s for s in RETRIEVAL if s in self.suites and not self._stored(s)]
        told += [f"{self.name}: no predictions of {', '.join(unread)} (predictions=true keeps them)"] if unread else []
        return told + ([] if self.recipes else [f"{self.name}: no stage 2"])

    @property
    def is_generator(self) -> bool:
        """Whether a model was trained to generate tools; other runs give rivals alone."""
        return any(str(row["system"]).startswith("toolgen_") for row in self.run.rows)

    def row_of(self, recipe: str) -> str:
        """Name of a recipe's row."""
        return self.name if len(self.recipes) < 2 else f"{self.name}, {recipe}"

    def place(self, system: str) -> list[tuple[str, str]]:
        """Row and stage of a system's numbers; what comes before stage 2 belongs to every recipe's row."""
        own = family(system)
        rows = [self.row_of(recipe) for recipe in self.recipes] or [self.name]
        if own in ("untrained", "toolgen_stage1"):
            return [(row, UNTRAINED if own == "untrained" else STAGE_1) for row in rows]
        if own.startswith("toolgen_"):
            return [(self.row_of(own.removeprefix("toolgen_")), STAGE_2)]
        if own in CONTROLS or own.startswith("blind_"):
            return [(f"{own} ({self.model})" if self.model and own in CONTROLS else own, CONTROL)]
        encoder = self.run.choice("encoder")
        nodes = str((self.run.config.get("retriever") or {}).get(own, ""))
        return [(f"{own} ({encoder})" if "encoder" in nodes and encoder else own, RIVAL)]

    def retrieval(self, resamples: int) -> Iterator[Number]:
        """Recall and IS of every system on every slice, test splits pooled."""
        for suite in RETRIEVAL:
            stored = self._stored(suite)
            if stored is None:
                continue
            ks = sorted({int(r["k"]) for r in self.run.rows if (r["suite"], r["metric"]) == (suite, "recall")})
            queries, slices = self._slices(stored)
            clusters = np.array([min(q.relevant) for q in queries], dtype=object)
            named = dict.fromkeys(str(r["system"]) for r in self.run.rows)  # in the order of the run's own tables
            recalls = {s: self._recalls(stored, s, ks) for s in named if s in stored.systems}
            for system, values in recalls.items():
                partner = recalls.get(label(family(system), CONSTRAINED)) if system.endswith(FREE) else None
                for name, items in slices.items():
                    for j, k in enumerate(ks):
                        found = bootstrap(values[items, j], clusters[items], resamples)
                        yield from self._numbers(system, suite, name, "recall", k, found)
                        if partner is not None:
                            found = internalization(values[items, j], partner[items, j], clusters[items], resamples)
                            yield from self._numbers(family(system), suite, name, "internalization", k, found)

    def knowledge(self) -> Iterator[Number]:
        """Answers to questions, as recorded; patterns are left to results.jsonl."""
        for r in self.run.rows:
            if r["suite"] in KNOWLEDGE and "/" not in r["slice"]:
                found = Interval(r["value"], r["low"], r["high"], r["n"])
                yield from self._numbers(r["system"], r["suite"], r["slice"], r["metric"], r["k"], found)

    def _numbers(self, system: str, suite: str, name: str, metric: str, k: int | None, i: Interval) -> Iterator[Number]:
        for row, stage in self.place(system):
            yield Number(row, stage, system, suite, name, metric, k, i.value, i.low, i.high, i.n)

    def _stored(self, suite: str) -> Stored | None:
        """The rankings of a suite; None where none were kept."""
        stored = self._stores.setdefault(suite, Stored(self.folder, suite))
        return stored if stored.systems and (self.folder / "predictions" / f"{suite}.qrels").is_file() else None

    @cached_property
    def _stores(self) -> dict[str, Stored]:
        return {}

    @cached_property
    def _tested(self) -> frozenset[tuple[str, str]]:
        """(Suite, split) of the splits with paired tests: those of the headline."""
        rows = read_lines(self.folder / "comparisons.jsonl", ("suite", "slice"))
        return frozenset((str(c["suite"]), str(c["slice"]).partition("/")[0]) for c in rows)

    def _headline(self, stored: Stored) -> list[str]:
        """The test splits of the headline; all of them where nothing was compared."""
        return [s for s in stored.splits if (stored.suite, s) in self._tested] or list(stored.splits)

    def _slices(self, stored: Stored) -> tuple[list[Query], dict[str, np.ndarray]]:
        """Queries of the headline's splits, and slice -> positions: all, subsets of the catalog's, tiers of the RRB."""
        queries = [q for split in self._headline(stored) for q in stored.splits[split]]
        groups: dict[str, list[int]] = defaultdict(list)
        for i, q in enumerate(queries):
            name = f"tier={q.tier}" if stored.suite == RRB else q.subset
            if name not in ("", "tier="):
                groups[name].append(i)
        order = {f"tier={tier}": i for i, tier in enumerate(TIERS)}
        slices = {name: np.array(groups[name]) for name in sorted(groups, key=lambda s: (order.get(s, 9), s))}
        return queries, {ALL: np.arange(len(queries)), **slices}

    def _recalls(self, stored: Stored, system: str, ks: Sequence[int]) -> np.ndarray:
        """Float64 [query, k]."""
        values = stored.values(system, [("recall", k) for k in ks])
        return np.concatenate([values[split] for split in self._headline(stored)])

    def answers(self, suite: str, system: str) -> Sequence[Mapping[str, object]]:
        """Prediction records of a system's answers; none where they were not kept."""
        return read_lines(self.folder / "predictions" / f"{suite}.{system}.jsonl", ("id", "tool"))

    def known(self, scoring: str) -> dict[str, float]:
        """Tool -> share of its questions that are answered rightly after stage 1."""
        return _by_tool(
            (str(r["tool"]), share(r.get(f"correct_{scoring}"))) for r in self.answers(MCQ, "toolgen_stage1")
        )

    def found(self, suite: str, recipe: str) -> tuple[dict[str, float], dict[str, float]]:
        """Tool -> share of its queries with it in the first 5 ranks, and mean reciprocal rank, after stage 2.

        Other gold tools of a query do not count when a tool's reciprocal rank is taken: they are no rivals.
        """
        stored, system = self._stored(suite), label(f"toolgen_{recipe}", CONSTRAINED)
        if stored is None or system not in stored.systems:
            return {}, {}
        rankings, hits, ranks = stored.rankings(system), [], []
        for split in self._headline(stored):
            for query, row in zip(stored.splits[split], rankings[split].indices.tolist(), strict=True):
                golds = {stored.position(tool): tool for tool in query.relevant}
                hits += [(tool, float(place in row[:HIT])) for place, tool in golds.items()]
                ranks += [(tool, _reciprocal(row, place, golds)) for place, tool in golds.items()]
        return _by_tool(hits), _by_tool(ranks)


def _reciprocal(row: Sequence[int], place: int, golds: Mapping[int, str]) -> float:
    """1 / rank of a tool among those that are not gold; 0 where it was not ranked."""
    if place not in row:
        return 0.0
    return 1.0 / (1 + sum(other not in golds for other in row[: row.index(place)]))


def _by_tool(pairs: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    """Mean of every tool's values; None is no value."""
    values: dict[str, list[float]] = defaultdict(list)
    for tool, value in pairs:
        if value is not None:
            values[tool].append(value)
    return {tool: float(np.mean(found)) for tool, found in values.items()}


def share(value: object) -> float | None:
    """How right an answer is; None where it was not given in this way."""
    return float(value) if isinstance(value, int | float) else None


def family(system: str) -> str:
    """A system's name without its decoding mode."""
    return system.removesuffix(f"-{FREE}").removesuffix(f"-{CONSTRAINED}")
