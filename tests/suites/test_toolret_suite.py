"""TOOLRET's suite: averages by hand and by ir-measures, strata that resample apart, published rows beside ours."""

from __future__ import annotations

import subprocess
import sys
import time
import zlib
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import ir_measures
import numpy as np
import pytest
from ir_measures import AP, P, R, nDCG

from toolsavvy.catalog import Catalog, Query, RetrievalSet, Tool
from toolsavvy.catalogs.toolret import CATEGORIES, TASKS
from toolsavvy.errors import UserError
from toolsavvy.metrics import GoldMatrix, Resamples, bootstrap, per_query, sign_flip_test
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking, rank_scores
from toolsavvy.suites.catalog_test import CatalogTest, write_predictions
from toolsavvy.suites.table import Column, Outcome, Result, Table
from toolsavvy.suites.toolret import ToolRet

TOOLS = tuple(Tool(f"t{i}", f"n{i}", "x", category="web") for i in range(40))
CATALOG = Catalog("toolret", TOOLS)
SIZES = {"apibank": 12, "mnms": 3, "toolace": 6, "toolink": 5, "craft-vqa": 2, "metatool": 7, "gta": 4}
"""Tasks of unequal sizes, and categories of unequal numbers of tasks, so that all averages differ."""
NAMES = {"nDCG": "ndcg", "P": "precision", "R": "recall", "AP": "map"}
Systems = dict[str, dict[str, dict[str, Ranking]]]


def made(sizes: dict[str, int], seed: int = 0, absent: bool = False) -> tuple[RetrievalSet, Systems]:
    """Queries with up to three golds that are easier in some tasks than in others, ranked by three systems."""
    rng = np.random.default_rng(seed)
    queries, ease = [], []
    for at, (task, size) in enumerate(sizes.items()):
        for i in range(size):
            golds = {f"t{g}": int(rng.integers(1, 3)) for g in rng.choice(25, size=rng.integers(1, 4), replace=False)}
            lost = {"gone": 1} if absent and i == 0 else {}
            queries.append(Query(f"{task}:q{i}", "words", golds, subset=task, absent=lost))
            ease.append(at)
    systems: Systems = {}
    for name, boost in (("poor", 0.0), ("fair", 0.5), ("good", 0.9)):
        scores = rng.normal(size=(len(queries), len(TOOLS)))
        for row, query in enumerate(queries):
            scores[row, [CATALOG.index[t] for t in query.relevant]] += boost * (1 + ease[row])
        systems[name] = {"": {"test": rank_scores(scores, [t.id for t in TOOLS], 20)}}
    return RetrievalSet(CATALOG, {"test": tuple(queries)}, ("test",)), systems


def find(outcome: Outcome, system: str, slice: str, metric: str, k: int) -> Result:
    (found,) = [r for r in outcome.results if (r.system, r.slice, r.metric, r.k) == (system, slice, metric, k)]
    return found


@pytest.mark.parametrize("absent", [False, True], ids=["", "with golds that the catalog lacks"])
def test_every_average_equals_ir_measures_grouped_by_hand(tmp_path: Path, absent: bool) -> None:
    """The oracle reads the run and qrels files alone, and groups its per-query values by the task in the query's id."""
    data, systems = made(SIZES, absent=absent)
    outcome = ToolRet(resamples=50).run(data, systems)
    write_predictions(tmp_path, data, systems, outcome)
    for system in systems:
        qrels = list(ir_measures.read_trec_qrels(str(tmp_path / "toolret.qrels")))
        run = list(ir_measures.read_trec_run(str(tmp_path / f"toolret.{system}.run")))
        wanted = [m @ k for m in (nDCG, P, R, AP) for k in (5, 10, 20)]
        tasks: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for value in ir_measures.iter_calc(wanted, qrels, run):
            task, k = value.query_id.split("%3A")[0], value.measure["cutoff"]
            metric = NAMES[value.measure.NAME]
            tasks[metric, k][task].append(value.value)
            if metric == "recall":
                tasks["completeness", k][task].append(float(value.value == 1))
        for (metric, k), by_task in tasks.items():
            assert {t: len(v) for t, v in by_task.items()} == SIZES

            def ours(slice: str, metric: str = metric, k: int = k, system: str = system) -> float | None:
                return find(outcome, system, f"test{slice}", metric, k).value

            per_task = {t: fmean(v) for t, v in by_task.items()}
            pooled = {c: [x for t, v in by_task.items() if TASKS[t] == c for x in v] for c in CATEGORIES}
            means = {c: fmean(m for t, m in per_task.items() if TASKS[t] == c) for c in CATEGORIES}
            for task, mean in per_task.items():
                assert ours(f"/{task}") == pytest.approx(mean)
            for category in CATEGORIES:
                assert ours(f"/category={category}/by_task") == pytest.approx(means[category])
                assert ours(f"/category={category}/by_query") == pytest.approx(fmean(pooled[category]))
            assert ours("/average/categories/by_task") == pytest.approx(fmean(means.values()))
            assert ours("/average/categories/by_query") == pytest.approx(fmean(map(fmean, pooled.values())))
            assert ours("/average/tasks") == pytest.approx(fmean(per_task.values()))
            assert ours("") == pytest.approx(fmean(x for v in by_task.values() for x in v))


def test_the_averages_differ_and_are_named_for_it() -> None:
    data, systems = made(SIZES)
    outcome = ToolRet(resamples=50).run(data, systems)
    names = [s for s in dict.fromkeys(r.slice for r in outcome.results) if "/average/" in s or s == "test"]
    assert names == [
        "test",
        "test/average/categories/by_task",
        "test/average/categories/by_query",
        "test/average/tasks",
    ]
    assert len({find(outcome, "good", name, "ndcg", 10).value for name in names}) == 4
    assert set(outcome.shown) == set(names)
    assert outcome.columns == tuple((m, 10) for m in ("ndcg", "precision", "recall", "completeness", "map"))
    assert {r.k for r in outcome.results} == {5, 10, 20}
    assert all(find(outcome, "good", name, "ndcg", 10).n == sum(SIZES.values()) for name in names)


def test_one_system_per_category_has_no_average_of_categories() -> None:
    data, systems = made({"apibank": 4, "mnms": 3})
    slices = {r.slice for r in ToolRet(resamples=50).run(data, systems).results}
    assert {s for s in slices if "categor" in s} == {"test/category=web/by_task", "test/category=web/by_query"}
    assert "test/average/tasks" in slices


def test_other_catalogs_have_tasks_alone_or_categories_of_their_own() -> None:
    data, systems = made({"short": 6, "verbose": 4, "odd": 3})
    found = {r.slice for r in ToolRet(resamples=50).run(data, systems).results}
    assert found == {"test", "test/short", "test/verbose", "test/odd", "test/average/tasks"}
    own = ToolRet(resamples=50, categories={"plain": ["short", "verbose"], "rest": ["odd"]}).run(data, systems)
    two = [find(own, "good", f"test/category={c}/by_task", "ndcg", 5).value for c in ("plain", "rest")]
    assert find(own, "good", "test/average/categories/by_task", "ndcg", 5).value == pytest.approx(fmean(two))
    with pytest.raises(UserError) as caught:
        ToolRet(categories={"plain": ["short", "verbos"], "rest": ["odd"]}).run(data, systems)
    error = caught.value
    assert "'verbose' is in 0 categories" in error.what and error.where == "suite.toolret.categories"
    assert "verbos" in error.fix and "one category" in error.expected


def test_queries_without_a_subset_are_one_task() -> None:
    queries = tuple(Query(f"q{i}", "x", {f"t{i}": 1}) for i in range(5))
    scores = np.random.default_rng(0).normal(size=(5, len(TOOLS)))
    systems = {"s": {"": {"test": rank_scores(scores, [t.id for t in TOOLS], 20)}}}
    outcome = ToolRet(resamples=50).run(RetrievalSet(CATALOG, {"test": queries}), systems)
    assert {r.slice for r in outcome.results} == {"test", "test/average/tasks"}
    alone, average = (find(outcome, "s", s, "ndcg", 20).value for s in ("test", "test/average/tasks"))
    assert alone == pytest.approx(average)


def stream(task: str, seed: int) -> int:
    """The documented stream of a stratum: its own, by its name."""
    return int(np.random.SeedSequence([seed, zlib.crc32(task.encode())]).generate_state(1)[0])


def test_intervals_of_averages_resample_within_each_task() -> None:
    """Against a plain loop: resample clusters in every task by itself, average the tasks' means, take percentiles."""
    data, systems = made(SIZES, seed=3)
    outcome = ToolRet(resamples=400, seed=7).run(data, systems)
    plain = CatalogTest(ks=[10], resamples=2).run(data, systems)
    assert find(plain, "good", "test", "ndcg", 10).value == find(outcome, "good", "test", "ndcg", 10).value
    queries = data.splits["test"]
    values = per_query(systems["good"][""]["test"], GoldMatrix.from_queries(CATALOG, queries), 10).ndcg
    replicates = []
    for task in SIZES:
        items = [i for i, q in enumerate(queries) if q.subset == task]
        clusters = [min(queries[i].relevant) for i in items]
        drawn = Resamples.of(clusters, 400, stream(task, 7)).means(values[items][:, None])[:, 0]
        replicates.append(drawn)
        alone = bootstrap(values[items], clusters, n=400, seed=stream(task, 7))
        assert alone.low is None or np.quantile(drawn, 0.025) == pytest.approx(alone.low)
    low, high = np.quantile(np.mean(replicates, axis=0), [0.025, 0.975])
    found = find(outcome, "good", "test/average/tasks", "ndcg", 10)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_strata_are_resampled_independently() -> None:
    """Two tasks of equal values: were they drawn alike, the average would be as uncertain as one of them."""
    values = np.tile(np.linspace(0, 1, 60), 2)
    strata = {"a": np.arange(60), "b": np.arange(60, 120)}
    table = Table(
        "s", [str(i) for i in range(120)], {}, [Column("x", "ndcg", 5, values)],
        strata=strata, averages={"both": {"a": 0.5, "b": 0.5}, "one": {"a": 1.0}},
    )  # fmt: skip
    both, one = table.evaluate(resamples=4000)[0]
    assert both.value == pytest.approx(one.value)
    assert None not in (both.low, both.high, one.low, one.high)
    ratio = (both.high - both.low) / (one.high - one.low)  # type: ignore[operator]
    assert ratio == pytest.approx(1 / np.sqrt(2), abs=0.06)


def test_intervals_of_averages_cover_the_truth() -> None:
    """Coverage over many data sets: within-task resampling of unequal tasks holds 95 % roughly."""
    rng, truths, hits = np.random.default_rng(1), {"a": 0.2, "b": 0.7}, 0
    sizes = {"a": 150, "b": 40}
    for seed in range(200):
        values = np.concatenate([rng.random(n) < truths[t] for t, n in sizes.items()]).astype(float)
        strata = {"a": np.arange(150), "b": np.arange(150, 190)}
        table = Table(
            "s", [str(i) for i in range(190)], {}, [Column("x", "recall", 5, values)],
            strata=strata, averages={"mean": {"a": 0.5, "b": 0.5}},
        )  # fmt: skip
        (found,) = table.evaluate(resamples=300, seed=seed)[0]
        hits += found.low <= 0.45 <= found.high  # type: ignore[operator]
    assert 0.88 <= hits / 200 <= 0.99


def test_tasks_of_one_cluster_each_have_no_interval() -> None:
    queries = tuple(Query(f"{t}:q", "x", {"t0": 1}, subset=t) for t in ("apibank", "gta"))
    scores = np.random.default_rng(0).normal(size=(2, len(TOOLS)))
    systems = {"s": {"": {"test": rank_scores(scores, [t.id for t in TOOLS], 20)}}}
    outcome = ToolRet(resamples=50).run(RetrievalSet(CATALOG, {"test": queries}), systems)
    found = find(outcome, "s", "test/average/tasks", "ndcg", 20)
    assert found.value is not None and (found.low, found.high) == (None, None)


def test_comparisons_are_paired_on_the_averages() -> None:
    """The difference is that of the averages; the p-value flips whole clusters, each weighed as in the average."""
    data, systems = made({**SIZES, "apibank": 60, "metatool": 40}, seed=5)
    suite = ToolRet(resamples=400, seed=2)
    outcome = suite.run(data, systems)
    slices = {c.slice for c in outcome.comparisons}
    assert slices == {
        "test", "test/average/tasks", "test/average/categories/by_task",
        *(f"test/category={c}/by_task" for c in CATEGORIES),
    }  # fmt: skip
    (test,) = [
        c for c in outcome.comparisons
        if (c.slice, c.metric, c.k, c.system) == ("test/average/tasks", "ndcg", 10, "poor")
    ]  # fmt: skip
    values = {s: find(outcome, s, "test/average/tasks", "ndcg", 10).value for s in systems}
    assert test.rival == max(values, key=lambda s: values[s] or 0)
    assert test.difference == pytest.approx((values["poor"] or 0) - (values[test.rival] or 0))
    assert test.low is not None and test.high is not None and test.low < test.difference < test.high < 0
    queries = data.splits["test"]
    gold = GoldMatrix.from_queries(CATALOG, queries)
    ours, theirs = (per_query(systems[s][""]["test"], gold, 10).ndcg for s in ("poor", test.rival))
    tasks = sorted({q.subset for q in queries})
    items = [i for t in tasks for i, q in enumerate(queries) if q.subset == t]
    weight = np.array([1 / len(tasks) / sum(q.subset == queries[i].subset for q in queries) for i in items])
    clusters = [(queries[i].subset, min(queries[i].relevant)) for i in items]
    assert test.p == pytest.approx(
        sign_flip_test(ours[items] * weight, theirs[items] * weight, clusters, n=2000, seed=2)
    )


def test_a_task_lost_altogether_is_no_hole_in_the_table() -> None:
    data, systems = made(SIZES)
    nothing = Ranking(np.full((39, 20), NO_TOOL), np.full((39, 20), -np.inf))
    outcome = ToolRet(resamples=50).run(data, {**systems, "silent": {"": {"test": nothing}}})
    assert find(outcome, "silent", "test/average/tasks", "map", 5).value == 0.0


def test_cutoffs_beyond_a_small_catalog_are_left_out() -> None:
    small = Catalog("c", TOOLS[:6])
    data = RetrievalSet(small, {"test": (Query("apibank:q", "x", {"t0": 1}, subset="apibank"),)})
    scores = np.random.default_rng(0).normal(size=(1, 6))
    outcome = ToolRet().run(data, {"s": {"": {"test": rank_scores(scores, [t.id for t in TOOLS[:6]], 6)}}})
    assert {r.k for r in outcome.results} == {5} and outcome.columns[0] == ("ndcg", 5)


def test_a_benchmark_of_full_size_is_scored_in_a_minute() -> None:
    """7,961 queries of 35 tasks, four systems; the bound is for an idle core, times three."""
    rng = np.random.default_rng(0)
    tools = tuple(Tool(f"t{i}", "n", "x") for i in range(20_000))
    catalog = Catalog("big", tools)
    tasks = list(TASKS)
    queries = tuple(
        Query(f"q{i}", "x", {f"t{g}": 1 for g in rng.integers(0, 20_000, size=2)}, subset=tasks[i % 35])
        for i in range(7961)
    )
    data = RetrievalSet(catalog, {"test": queries}, ("test",))
    indices = np.sort(rng.integers(0, 20_000, size=(4, 7961, 50)), axis=2)
    scores = np.broadcast_to(-np.arange(50.0), (7961, 50))
    systems = {f"s{i}": {"": {"test": Ranking(indices[i], scores)}} for i in range(4)}
    start = time.process_time()
    outcome = ToolRet().run(data, systems)
    assert time.process_time() - start < 60
    assert find(outcome, "s0", "test/average/categories/by_task", "ndcg", 10).n == 7961


def test_the_suite_imports_nothing_heavy() -> None:
    code = "import sys, toolsavvy.suites.toolret; print([m for m in ('torch', 'polars', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
