"""TOOLRET's protocol (2503.01763): every task, its category, and the averages that go by one name in print."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from toolsavvy.catalog import Catalog, Query, RetrievalSet
from toolsavvy.catalogs.toolret import CATEGORIES
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.suites.catalog_test import CatalogTest, Systems
from toolsavvy.suites.table import Outcome, Table

MAIN = ("ndcg", "precision", "recall", "completeness", "map")
"""Metrics of the main table."""
BY_TASK, BY_QUERY = "by_task", "by_query"
"""How a category's mean is taken: every task counts alike, or every query."""


class ToolRet(CatalogTest):
    """Retrieval per task, per category, and averaged; slices are named by what counts alike in them.

    - `test/<task>`: mean over the task's queries.
    - `test/category=<c>/by_task`: mean over the category's tasks. The paper's columns are of this kind: others have
      reproduced its BM25 row so within 0.1 points, and its average is the mean of its three columns.
    - `test/category=<c>/by_query`: mean over the category's queries, large tasks counting more.
    - `test/average/categories/by_task`, `…/by_query`: mean of the three categories. The paper's average is `by_task`.
    - `test/average/tasks`: mean over all tasks, as MTEB reports it.
    - `test`: mean over all queries, as the released code would print it.

    Intervals and tests of averages resample the queries' tools within each task, so the tasks themselves are taken as
    given. A catalog of another source has its subsets for tasks, and no categories unless they are named.

    Args:
        ks: cut-offs; those beyond the catalog are left out.
        resamples: of the bootstrap over tools; a query of several golds counts to the first of them by id.
        seed: of the bootstrap.
        compared: metrics with paired tests against the best rival.
        categories: category -> its tasks; None is TOOLRET's own, where every task is one of its.
        shown: ranks kept in the prediction records.
        name: of the suite.

    Raises:
        UserError: (from `run`) a task that no category holds.
    """

    def __init__(
        self,
        ks: Sequence[int] = (5, 10, 20),
        resamples: int = 2000,
        seed: int = 0,
        compared: Sequence[str] = ("ndcg", "completeness"),
        categories: Mapping[str, Sequence[str]] | None = None,
        shown: int = 10,
        name: str = "toolret",
    ) -> None:
        super().__init__(ks, resamples, seed, compared, shown=shown, name=name)
        self.categories = categories

    def slices(self, split: str, queries: Sequence[Query], catalog: Catalog) -> dict[str, np.ndarray]:
        """The split and its tasks."""
        tasks = {f"{split}/{task}": items for task, items in tasks_of(split, queries).items() if task != split}
        return {split: np.arange(len(queries)), **tasks}

    def run(self, data: RetrievalSet, systems: Systems) -> Outcome:
        """Score rankings; the main table shows averages."""
        outcome = super().run(data, systems)
        cutoffs = self.cutoffs(data.catalog)
        k = 10 if 10 in cutoffs else cutoffs[-1]
        names = dict.fromkeys(r.slice for r in outcome.results)
        main = data.headline or data.test_splits
        shown = [s for s in names if s in main or ("/average/" in s and s.split("/average/")[0] in main)]
        return replace(outcome, shown=tuple(shown), columns=tuple((metric, k) for metric in MAIN))

    def _table(self, data: RetrievalSet, split: str, queries: Sequence[Query], systems: Systems) -> Table:
        """The table of `CatalogTest` with averages; tests are of the averages and of all queries, not of every task."""
        table = super()._table(data, split, queries, systems)
        tasks = tasks_of(split, queries)
        averages = {f"{split}/{name}": weights for name, weights in self._weights(tasks).items()}
        tested = tuple(name for name in averages if not name.endswith(f"/{BY_QUERY}"))
        headline = (split, *tested) if table.headline else ()
        return replace(table, strata=tasks, averages=averages, headline=headline)

    def _weights(self, tasks: Mapping[str, np.ndarray]) -> dict[str, dict[str, float]]:
        """Average -> weight of each task in it."""
        found: dict[str, dict[str, float]] = {}
        sizes = {task: len(items) for task, items in tasks.items()}
        categories = self._categories(tasks)
        present = {name: [t for t in members if t in tasks] for name, members in categories.items()}
        means: dict[str, list[dict[str, float]]] = {BY_TASK: [], BY_QUERY: []}
        for category, members in present.items():
            total = sum(sizes[t] for t in members)
            for kind, weights in (
                (BY_TASK, {t: 1 / len(members) for t in members}),
                (BY_QUERY, {t: sizes[t] / total for t in members}),
            ):
                if members:
                    found[f"category={category}/{kind}"] = weights
                    means[kind].append(weights)
        if present and all(present.values()):  # a mean of some categories would go by the same name
            for kind, parts in means.items():
                found[f"average/categories/{kind}"] = {t: w / len(parts) for part in parts for t, w in part.items()}
        return {**found, "average/tasks": dict.fromkeys(tasks, 1 / len(tasks))}

    def _categories(self, tasks: Mapping[str, np.ndarray]) -> Mapping[str, Sequence[str]]:
        """The categories that hold the tasks.

        Raises:
            UserError: a task is in none of the named ones, or in two.
        """
        if self.categories is None:
            known = {task for members in CATEGORIES.values() for task in members}
            return CATEGORIES if set(tasks) <= known else {}
        members = [task for tasks in self.categories.values() for task in tasks]
        wrong = next((task for task in tasks if members.count(task) != 1), None)
        if wrong is not None:
            raise UserError(
                f"task {wrong!r} is in {members.count(wrong)} categories", where=f"suite.{self.name}.categories",
                expected="every task in one category", fix=did_you_mean(wrong, members),
            )  # fmt: skip
        return self.categories


def tasks_of(split: str, queries: Sequence[Query]) -> dict[str, np.ndarray]:
    """Task -> int positions of its queries; those without a subset are a task that is named like the split."""
    groups: dict[str, list[int]] = defaultdict(list)
    for position, query in enumerate(queries):
        groups[query.subset or split].append(position)
    return {task: np.array(groups[task]) for task in sorted(groups)}
