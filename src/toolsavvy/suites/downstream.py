"""Does better retrieval get more done? Retrieved tools, a caller that picks and fills one, and the call carried out.

The pass rate of TOOLRET's Figures 1 and 6 (2503.01763). Deviations: calls run in an account of a simulated
cloud and pass by what they change there, where the paper asks a language model for a verdict; one call a request, where
its agents take several turns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from toolsavvy.catalog import Query, RetrievalSet, Tool
from toolsavvy.errors import UserError
from toolsavvy.metrics import GoldMatrix, per_query
from toolsavvy.parameters.cloud.effects import Executor, is_executable
from toolsavvy.parameters.cloud.world import require_cloud
from toolsavvy.retrieval.ranking import Ranking
from toolsavvy.retrieval.trec import encode
from toolsavvy.suites.catalog_test import CatalogTest, Systems, check_named, label, tested
from toolsavvy.suites.offers import Offers, deep_enough, drawn, oracle_ranking, slices_of
from toolsavvy.suites.parameters import plain
from toolsavvy.suites.table import Column, Outcome, Result, Table, write_jsonl
from toolsavvy.tasks import ParamTask

EXECUTED = "toolsavvy.suites.downstream.Downstream"
"""How a config names this suite."""
CALLERS, PICKS = ("oracle_arguments", "llm"), ("model", "first", "oracle")
ORACLE = "oracle_tools"
"""The arm that is offered the right tool first and random others after it: a ceiling of retrieval."""
METRICS = ("pass_rate", "picked", "recall", "ndcg")


class Picker(Protocol):
    """Says how well each tool fits a request."""

    def scores(self, tasks: Sequence[ParamTask], tools: Sequence[Sequence[Tool]]) -> list[np.ndarray]:
        """float64 [tool] for every task, higher is better; a tool's score doesn't depend on the others."""
        ...


class Filler(Protocol):
    """Writes arguments for a tool that was picked."""

    def fill(self, wanted: Sequence[tuple[ParamTask, Tool]]) -> list[Mapping[str, Any] | None]:
        """Arguments for every pair; None where there is nothing readable."""
        ...


@dataclass(frozen=True)
class Attempt:
    """One line of `predictions/<suite>.<system>.jsonl`.

    Args:
        suite: its name.
        system: whose tools were offered.
        split: of the query.
        query: its id, which is the task's.
        level: L1 to L5.
        k: tools that were offered.
        gold: the right tool.
        offered: the tools, best first.
        picked: the one that was called; None where none was offered.
        arguments: of the call; None where there was nothing readable.
        passed: the call has the reference's effect.
    """

    suite: str
    system: str
    split: str
    query: str
    level: str
    k: int
    gold: str
    offered: tuple[str, ...]
    picked: str | None
    arguments: Mapping[str, Any] | None
    passed: bool


@dataclass
class Calls:
    """Calls that were made, each once, whichever systems led to it: (task, tool) -> arguments and whether it passes."""

    executor: Executor = field(default_factory=Executor)
    arguments: dict[tuple[str, str], Mapping[str, Any] | None] = field(default_factory=dict)
    passed: dict[tuple[str, str], bool] = field(default_factory=dict)

    def make(self, wanted: Mapping[tuple[str, str], tuple[ParamTask, Tool]], filler: Filler) -> None:
        """Fill and carry out those that were not made yet."""
        new = {key: pair for key, pair in wanted.items() if key not in self.passed}
        for (key, (task, tool)), given in zip(new.items(), filler.fill(list(new.values())), strict=True):
            self.arguments[key] = given
            self.passed[key] = self.executor.match(task, given, tool.name)


class Downstream(CatalogTest):
    """Pass rate of calls to retrieved tools: the first k tools, one is picked and filled, the call is carried out.

    A call passes if it has the reference's effect on the task's account, after the task's earlier calls
    (`cloud.effects.Executor.match`), whichever operation it is. What each step costs can be told apart: `recall` (the
    right tool is offered) - `picked` (it is called) is lost by picking, `picked` - `pass_rate` by filling, but for
    calls of other tools that do the same.

    Args:
        caller: oracle_arguments (right arguments where the right tool was picked, else what rules read from request and
            context for the picked one; a tool without a rule fails) | llm (the run's model writes them).
        pick: model (the run's model, see `methods.callers.ModelCaller`) | first (the retriever's first) | oracle (the
            right one where it is offered, else the first).
        ks: numbers of tools that are offered; those beyond the catalog are left out.
        n: test queries that are asked, drawn by the seed; None: all.
        oracle: also offer the right tool with random others, as a system of its own.
        max_tokens: of an answer of caller=llm.
        resamples: of the bootstrap over operations.
        seed: of what is drawn.
        compared: metrics with paired tests against the best rival (the arm `oracle_tools` is none).
        pairs: (system, rival) that are compared in every metric, and shown.
        name: of the suite.

    Raises:
        UserError: a word or number is out of range.
    """

    executes = True
    """Calls are carried out: the set must bring tasks with accounts of their own."""

    def __init__(
        self,
        caller: str = "oracle_arguments",
        pick: str = "model",
        ks: Sequence[int] = (1, 3, 5, 10),
        n: int | None = None,
        oracle: bool = True,
        max_tokens: int = 192,
        resamples: int = 2000,
        seed: int = 0,
        compared: Sequence[str] = ("pass_rate",),
        pairs: Sequence[Sequence[str]] = (),
        name: str = "downstream",
    ) -> None:
        super().__init__(ks, resamples, seed, compared, name=name, pairs=pairs)
        for key, value, known in (("caller", caller, CALLERS), ("pick", pick, PICKS)):
            if value not in known:
                raise UserError(f"{value!r} is no valid value", where=f"suite.{name}.{key}", expected=", ".join(known))
        for key, value in (("n", n), ("max_tokens", max_tokens)):
            if value is not None and value < 1:
                raise UserError(f"{key}={value}", where=f"suite.{name}.{key}", expected=">= 1")
        self.caller, self.pick, self.n, self.oracle, self.max_tokens = caller, pick, n, oracle, max_tokens
        self.picker: Picker | None = None
        self.filler: Filler | None = None
        self.calls = Calls()

    def check(self, data: RetrievalSet) -> None:
        """Refuse before anything is ranked what could not be carried out after it.

        Raises:
            UserError: there is no test query, a test query is no task with an account, or moto is not installed.
        """
        super().check(data)
        known = {task.id: task for task in data.tasks.calls} if data.tasks else {}
        for split, queries in tested(data).items():
            lost = next((q for q in queries if q.id not in known or not is_executable(known[q.id])), None)
            if lost is not None:
                raise UserError(
                    f"query {lost.id!r} of split {split!r} is no task that can be executed",
                    where=f"suite.{self.name}, catalog {data.catalog.name}", expected="tasks that were made on moto",
                    fix="catalog=parambench_aws, or a set of generator=parambench",
                )  # fmt: skip
        require_cloud()

    def run(self, data: RetrievalSet, systems: Systems) -> Outcome:
        """Offer, pick, fill, execute and score, on every test split.

        Raises:
            UserError: a pair names no system, or earlier calls no longer give what a task's context says.
        """
        splits = tested(data)
        names = [label(system, mode) for system, modes in systems.items() for mode in modes]
        check_named(self.pairs, [*names, *([ORACLE] if self.oracle else [])], self.name, "of this run")
        results: list[Result] = []
        comparisons: list[Any] = []
        attempts: dict[str, list[Attempt]] = defaultdict(list)
        for split, queries in splits.items():
            offers = self._offers(data, split, queries, systems)
            picks = self._picks(offers)
            asked = {(t.id, tool.id): (t, tool) for t, tool in picks.values() if tool is not None}
            self.calls.make(asked, self._of(self.filler, "filler"))
            table = self._scored(offers, picks)
            rows, tests = table.evaluate(self.resamples, self.seed)
            results, comparisons = results + rows, comparisons + tests
            for name, found in self._attempts(offers, picks).items():
                attempts[name] += found
        columns = tuple((metric, k) for metric in METRICS[:2] for k in self.cutoffs(data.catalog))
        kept = {name: tuple(found) for name, found in attempts.items()}
        return Outcome(self.name, tuple(results), tuple(comparisons), kept, self.pairs, columns=columns)

    def write(self, folder: Path, data: RetrievalSet, systems: Systems, outcome: Outcome) -> list[Path]:
        """Write `<suite>.<system>.jsonl` into a folder; TREC files are catalog_test's."""
        paths = []
        for system, records in outcome.predictions.items():
            paths.append(folder / f"{outcome.suite}.{encode(system)}.jsonl")
            write_jsonl(paths[-1], records)
        return paths

    def _offers(self, data: RetrievalSet, split: str, queries: Sequence[Query], systems: Systems) -> Offers:
        """The tools of every system for the queries that are asked."""
        tasks = {task.id: task for task in data.tasks.calls} if data.tasks else {}
        rows = drawn(len(queries), self.n, self.seed)
        asked = [queries[i] for i in rows]
        depth = self.depth(data.catalog)
        rankings = {
            label(system, mode): Ranking(found.indices[rows, :depth], found.scores[rows, :depth])
            for system, modes in systems.items()
            for mode, splits in modes.items()
            for found in [deep_enough(splits, split, label(system, mode), len(queries), depth)]
        }
        if self.oracle:
            rankings[ORACLE] = oracle_ranking(data.catalog, asked, depth, self.seed)
        own = [replace(tasks[q.id], tools=(data.catalog.tools[data.catalog.index[min(q.gold)]],)) for q in asked]
        return Offers(split, data.catalog, asked, own, rankings, self.cutoffs(data.catalog))

    def _picks(self, offers: Offers) -> dict[tuple[str, int, int], tuple[ParamTask, Tool | None]]:
        """(system, k, position of the query) -> its task and the tool that is called; equal ones: the earlier rank."""
        liked = self._liked(offers) if self.pick == "model" else {}
        found: dict[tuple[str, int, int], tuple[ParamTask, Tool | None]] = {}
        for name, k, i, tools in offers:
            task = offers.tasks[i]
            best = tools[0] if tools else None
            if self.pick == "model" and tools:
                best = max(tools, key=lambda tool, i=i: liked[i, tool.id])
            elif self.pick == "oracle":
                best = next((tool for tool in tools if tool.id == task.tool.id), best)
            found[name, k, i] = (task, best)
        return found

    def _liked(self, offers: Offers) -> dict[tuple[int, str], float]:
        """(position of the query, tool) -> score by the picker, which is asked once for all systems."""
        union: dict[int, dict[str, Tool]] = {i: {} for i in range(len(offers.tasks))}
        for _, _, i, tools in offers:
            union[i] |= {tool.id: tool for tool in tools}
        scores = self._of(self.picker, "picker").scores(offers.tasks, [list(union[i].values()) for i in union])
        return {(i, tool): float(s) for i in union for tool, s in zip(union[i], scores[i], strict=True)}

    def _scored(self, offers: Offers, picks: Mapping[tuple[str, int, int], tuple[ParamTask, Tool | None]]) -> Table:
        """Values per query of every system."""
        gold = GoldMatrix.from_queries(offers.catalog, offers.queries)
        columns = []
        for name, ranking in offers.rankings.items():
            for k in offers.ks:
                called = [picks[name, k, i] for i in range(len(offers.tasks))]
                right = [tool is not None and tool.id == task.tool.id for task, tool in called]
                passed = [tool is not None and self.calls.passed[task.id, tool.id] for task, tool in called]
                ranked = per_query(ranking, gold, k)
                values = (passed, right, ranked.recall, ranked.ndcg)
                columns += [
                    Column(name, metric, k, np.asarray(v, dtype=np.float64))
                    for metric, v in zip(METRICS, values, strict=True)
                ]
        clusters = [task.tool.id for task in offers.tasks]
        slices = slices_of(offers.split, offers.tasks)
        return Table(
            self.name, clusters, slices, columns, headline=(offers.split,), compared=(), pairs=self._tested(columns)
        )

    def _tested(self, columns: Sequence[Column]) -> tuple[tuple[str, str], ...]:
        """The pairs that were asked for; then every system and the best of the others in a compared metric."""
        means = {(c.metric, c.k, c.system): float(c.values.mean()) for c in columns if c.metric in self.compared}
        pairs = list(self.pairs)
        for metric, k, system in means:
            rivals = [s for m, other, s in means if (m, other) == (metric, k) and s not in (system, ORACLE)]
            if system != ORACLE and rivals:
                pairs.append((system, max(rivals, key=lambda s, m=metric, k=k: means[m, k, s])))
        return tuple(dict.fromkeys(pairs))

    def _attempts(
        self, offers: Offers, picks: Mapping[tuple[str, int, int], tuple[ParamTask, Tool | None]]
    ) -> dict[str, list[Attempt]]:
        """One record per system, k and query."""
        found: dict[str, list[Attempt]] = {name: [] for name in offers.rankings}
        for name, k, i, tools in offers:
            task, tool = picks[name, k, i]
            key = (task.id, tool.id if tool else "")
            found[name].append(
                Attempt(
                    self.name, name, offers.split, task.id, task.level, k, task.tool.id, tuple(t.id for t in tools),
                    tool.id if tool else None, plain(self.calls.arguments.get(key)), self.calls.passed.get(key, False),
                )
            )  # fmt: skip
        return found

    def _of(self, part: Any, name: str) -> Any:
        """A part that `methods` puts in, since a model stands behind it."""
        if part is None:
            raise ValueError(f"suite {self.name} has no {name}")
        return part
