"""The catalog's own suite: hand-counted numbers, slices, intervals, paired tests, files."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from toolsavvy.catalog import Catalog, Query, RetrievalSet, Tool
from toolsavvy.errors import UserError
from toolsavvy.metrics import bootstrap, internalization, paired_difference, per_query, sign_flip_test
from toolsavvy.retrieval.bm25 import BM25
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking, rank_scores
from toolsavvy.retrieval.trec import Run
from toolsavvy.suites.catalog_test import CatalogTest, name_overlap, rank, write_predictions
from toolsavvy.suites.table import Column, Outcome, Result, Table

NAMES = ("createVpc", "delete_route", "List&&Tags", "attachGateway", "x", "y", "z")
CATALOG = Catalog("c", tuple(Tool(f"t {i}", name) for i, name in enumerate(NAMES)))
SEEN = (
    Query("a", "create a VPC now", {"t 0": 1}, subset="short"),
    Query("b", "delete it", {"t 1": 1}, subset="short"),
    Query("c", "nothing in common", {"t 2": 1, "t 3": 1}, subset="verbose", tier="medium"),
    Query("d", "list of tags", {"t 2": 1}, subset="verbose", tier="easy"),
)
UNSEEN = (Query("a2", "attach a gateway", {"t 3": 1}), Query("b2", "why", {"t 4": 1}))
DATA = RetrievalSet(CATALOG, {"train": SEEN, "test_seen": SEEN, "test_unseen": UNSEEN}, ("test_seen",))


def ranked(*rows: list[int], depth: int = 7) -> Ranking:
    indices = np.array([row + [NO_TOOL] * (depth - len(row)) for row in rows])
    scores = np.where(indices == NO_TOOL, -np.inf, -np.arange(depth, dtype=float))
    return Ranking(indices, np.broadcast_to(scores, indices.shape))


GOOD = {"test_seen": ranked([0, 1], [1], [2, 3], [5, 2]), "test_unseen": ranked([3], [4])}
BAD = {"test_seen": ranked([1, 0], [5], [3], [2]), "test_unseen": ranked([5], [4])}
SYSTEMS = {"good": {"": GOOD}, "gen": {"constrained": GOOD, "free": BAD}}


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return CatalogTest(resamples=500).run(DATA, SYSTEMS)


def find(outcome: Outcome, system: str, slice: str, metric: str, k: int) -> Result:
    found = [r for r in outcome.results if (r.system, r.slice, r.metric, r.k) == (system, slice, metric, k)]
    assert len(found) == 1, (system, slice, metric, k)
    return found[0]


def test_numbers_by_hand(outcome: Outcome) -> None:
    assert find(outcome, "good", "test_seen", "recall", 1).value == pytest.approx((1 + 1 + 1 / 2 + 0) / 4)
    assert find(outcome, "good", "test_seen", "completeness", 5).value == 1.0
    assert find(outcome, "gen-free", "test_seen", "mrr", 5).value == pytest.approx((1 / 2 + 0 + 1 + 1) / 4)
    assert find(outcome, "good", "test_unseen", "recall", 1).n == 2


def test_internalization_compares_free_with_constrained(outcome: Outcome) -> None:
    assert find(outcome, "gen", "test_seen", "internalization", 1).value == pytest.approx((1 / 2 + 1) / 2.5)
    assert not [r for r in outcome.results if r.metric == "internalization" and r.system != "gen"]


def test_internalization_is_null_at_zero_over_zero() -> None:
    nothing = {split: ranked(*[[] for _ in DATA.splits[split]]) for split in DATA.test_splits}
    found = CatalogTest().run(DATA, {"gen": {"constrained": nothing, "free": nothing}})
    result = find(found, "gen", "test_seen", "internalization", 1)
    assert (result.value, result.low, result.high) == (None, None, None)
    assert find(found, "gen-free", "test_seen", "recall", 1).value == 0.0


def test_cutoffs_stop_at_the_catalog(outcome: Outcome) -> None:
    assert {r.k for r in outcome.results} == {1, 5}


def test_slices_cover_subsets_tiers_and_name_overlap(outcome: Outcome) -> None:
    counts = {r.slice: r.n for r in outcome.results if r.system == "good" and r.metric == "recall" and r.k == 1}
    assert counts == {
        "test_seen": 4,
        "test_seen/short": 2,
        "test_seen/verbose": 2,
        "test_seen/golds=several": 1,
        "test_seen/tier=easy": 1,
        "test_seen/tier=medium": 1,
        "test_seen/name_overlap=full": 2,
        "test_seen/name_overlap=partial": 1,
        "test_seen/name_overlap=none": 1,
        "test_seen/short/name_overlap=full": 1,
        "test_seen/short/name_overlap=partial": 1,
        "test_seen/verbose/name_overlap=full": 1,
        "test_seen/verbose/name_overlap=none": 1,
        "test_unseen": 2,
        "test_unseen/name_overlap=full": 1,
        "test_unseen/name_overlap=none": 1,
    }


def test_name_overlap_takes_the_gold_that_gives_most_away() -> None:
    assert name_overlap(Query("q", "attach the gateway to it", {"t 0": 1, "t 3": 1}), CATALOG) == "full"
    assert name_overlap(Query("q", "CREATE-vpcs", {"t 0": 1}), CATALOG) == "partial"
    assert name_overlap(Query("q", "creates", {"t 0": 1}), CATALOG) == "none"


def many(
    seed: int, queries: int = 90, tools: int = 60
) -> tuple[RetrievalSet, dict[str, dict[str, dict[str, Ranking]]]]:
    """Three systems of rising quality on queries that share golds."""
    rng = np.random.default_rng(seed)
    catalog = Catalog("m", tuple(Tool(f"t{i}", f"n{i}") for i in range(tools)))
    gold = rng.integers(0, 30, size=queries)
    data = RetrievalSet(
        catalog, {"test": tuple(Query(f"q{i}", "x", {f"t{g}": 1}) for i, g in enumerate(gold))}, ("test",)
    )
    systems = {}
    for boost in (0, 1, 3):
        scores = rng.normal(size=(queries, tools))
        scores[np.arange(queries), gold] += boost
        systems[f"s{boost}"] = {"": {"test": rank_scores(scores, [t.id for t in catalog.tools], 50)}}
    return data, systems


def test_intervals_equal_the_metric_functions_called_one_by_one() -> None:
    """The table's batched bootstrap is the bootstrap of `metrics`, clustered by first gold, on shared resamples."""
    data, systems = many(0)
    found = CatalogTest(resamples=400, seed=3).run(data, systems)
    clusters = [min(q.relevant) for q in data.splits["test"]]
    gold = [{data.catalog.index[t]: g for t, g in q.relevant.items()} for q in data.splits["test"]]
    values = {s: per_query(m[""]["test"], gold, 5) for s, m in systems.items()}
    for system, scored in values.items():
        for metric, array in scored.items():
            result = find(found, system, "test", metric, 5)
            alone = bootstrap(array, clusters, n=400, seed=3)
            assert (result.value, result.low, result.high) == pytest.approx((alone.value, alone.low, alone.high))
    test = next(c for c in found.comparisons if c.system == "s1" and c.metric == "recall" and c.k == 5)
    assert test.rival == "s3"
    pair = values["s1"].recall, values["s3"].recall
    alone = paired_difference(*pair, clusters, n=400, seed=3)
    assert (test.difference, test.low, test.high) == pytest.approx(
        (alone.interval.value, alone.interval.low, alone.interval.high)
    )
    assert test.p == pytest.approx(sign_flip_test(*pair, clusters, n=2000, seed=3))


def test_ratio_intervals_equal_internalization() -> None:
    data, systems = many(1)
    modes = {"constrained": systems["s3"][""], "free": systems["s1"][""]}
    found = CatalogTest(resamples=300, seed=2).run(data, {"gen": modes})
    gold = [{data.catalog.index[t]: g for t, g in q.relevant.items()} for q in data.splits["test"]]
    free, constrained = (per_query(modes[m]["test"], gold, 1).recall for m in ("free", "constrained"))
    alone = internalization(free, constrained, [min(q.relevant) for q in data.splits["test"]], n=300, seed=2)
    result = find(found, "gen", "test", "internalization", 1)
    assert (result.value, result.low, result.high) == pytest.approx((alone.value, alone.low, alone.high))


def test_paired_tests_find_the_better_system_and_stay_in_the_headline(outcome: Outcome) -> None:
    data, systems = many(2)
    tests = CatalogTest().run(data, systems).comparisons
    best = next(c for c in tests if c.system == "s3" and c.metric == "recall" and c.k == 5)
    assert best.rival == "s1" and best.difference > 0 and best.p < 0.01
    assert {c.slice for c in outcome.comparisons} == {"test_seen", "test_seen/short", "test_seen/verbose"}
    # A system's own decoding modes are no rivals of each other.
    assert {(c.system, c.rival) for c in outcome.comparisons if c.system.startswith("gen")} == {
        ("gen-constrained", "good"),
        ("gen-free", "good"),
    }


def test_named_pairs_are_compared_in_every_metric_and_on_queries_of_several_golds() -> None:
    data, systems = many(2)
    found = CatalogTest(resamples=300, pairs=[["s1", "s0"]]).run(data, systems)
    named = [c for c in found.comparisons if (c.system, c.rival) == ("s1", "s0")]
    assert {c.metric for c in named} == {"recall", "precision", "ndcg", "completeness", "mrr", "map"}
    assert len({(c.slice, c.metric, c.k) for c in named}) == len(named), "one comparison each"
    gold = [{data.catalog.index[t]: g for t, g in q.relevant.items()} for q in data.splits["test"]]
    values = [per_query(systems[s][""]["test"], gold, 10).completeness for s in ("s1", "s0")]
    alone = paired_difference(*values, [min(q.relevant) for q in data.splits["test"]], n=300)
    test = next(c for c in named if (c.metric, c.k) == ("completeness", 10))
    assert (test.difference, test.low) == pytest.approx((alone.interval.value, alone.interval.low))
    mixed = CatalogTest(resamples=50, pairs=[["good", "gen-free"]]).run(DATA, SYSTEMS)
    assert mixed.pairs == (("good", "gen-free"),)
    several = [c for c in mixed.comparisons if c.slice == "test_seen/golds=several" and c.metric == "completeness"]
    assert {(c.system, c.rival, c.k, c.difference, c.n) for c in several} == {
        ("good", "gen-free", 1, 0.0, 1),
        ("good", "gen-free", 5, 1.0, 1),
    }


@pytest.mark.parametrize("pairs", [[["good"]], ["good"], [["good", "good"]]])
def test_what_is_no_pair_is_refused(pairs: list[list[str]]) -> None:
    with pytest.raises(UserError, match="is no pair") as caught:
        CatalogTest(pairs=pairs)
    assert caught.value.where == "suite.catalog_test.pairs" and "[system, rival]" in caught.value.expected


def test_a_pair_of_an_unknown_system_is_refused() -> None:
    with pytest.raises(UserError, match="'goood' is no system of this run") as caught:
        CatalogTest(pairs=[["gen-free", "goood"]]).run(DATA, SYSTEMS)
    assert caught.value.where == "suite.catalog_test.pairs" and caught.value.fix == "did you mean 'good'?"


def test_a_system_alone_gets_the_same_numbers_as_in_company() -> None:
    data, systems = many(4)
    together, alone = CatalogTest().run(data, systems), CatalogTest().run(data, {"s1": systems["s1"]})
    assert [r for r in together.results if r.system == "s1"] == list(alone.results)
    assert not alone.comparisons


def test_the_inflated_ndcg_comes_only_when_asked_for(outcome: Outcome) -> None:
    assert not [r for r in outcome.results if r.metric == "ndcg_toolgen"]
    extra = CatalogTest(toolgen_ndcg=True).run(DATA, {"bad": {"": BAD}})
    inflated, true = (find(extra, "bad", "test_seen", m, 5).value for m in ("ndcg_toolgen", "ndcg"))
    assert inflated is not None and true is not None and inflated > true


def test_a_catalog_of_one_tool_works_with_k_10() -> None:
    one = Catalog("one", (Tool("t", "only"),))
    data = RetrievalSet(one, {"test": (Query("q", "only", {"t": 1}),)})
    suite = CatalogTest(ks=[10])
    assert suite.depth(one) == 1
    found = suite.run(data, {"bm25": {"": rank(BM25(), data, 10)}})
    result = find(found, "bm25", "test", "recall", 1)
    assert (result.value, result.low, result.high, result.n) == (1.0, None, None, 1)


def test_undefined_values_of_other_suites_are_left_out() -> None:
    """MCQ and QA suites fill the same table; an item that a system could not answer may be NaN."""
    values = np.array([1.0, np.nan, 0.0, 1.0])
    table = Table(
        "mcq",
        ["a", "b", "c", "d"],
        {"all": np.arange(4), "none": np.array([], dtype=int)},
        [Column("s", "accuracy", None, values)],
    )
    results, comparisons = table.evaluate(resamples=200)
    assert [(r.slice, r.value, r.n, r.k) for r in results] == [("all", pytest.approx(2 / 3), 3, None)]
    assert not comparisons


def test_different_depths_and_missing_splits_are_refused() -> None:
    shallow = {split: Ranking(r.indices[:, :3], r.scores[:, :3]) for split, r in GOOD.items()}
    with pytest.raises(ValueError, match="one depth of at least 5"):
        CatalogTest().run(DATA, {"a": {"": shallow}})
    with pytest.raises(ValueError, match="one depth"):
        CatalogTest(ks=[1]).run(DATA, {"a": {"": shallow}, "b": {"": GOOD}})
    with pytest.raises(ValueError, match="a did not rank split test_unseen"):
        CatalogTest().run(DATA, {"a": {"": {"test_seen": GOOD["test_seen"]}}})
    with pytest.raises(ValueError, match="ranked 2 of 4 queries"):
        CatalogTest().run(DATA, {"a": {"": {**GOOD, "test_seen": GOOD["test_unseen"]}}})


def test_mistakes_in_settings_and_data_are_named() -> None:
    with pytest.raises(UserError) as caught:
        CatalogTest(ks=[0, 5])
    assert caught.value.where == "suite.catalog_test.ks" and "at least 1" in caught.value.expected
    with pytest.raises(UserError, match="no test queries") as caught:
        CatalogTest().run(RetrievalSet(CATALOG, {"train": SEEN}), {})
    assert caught.value.where == "catalog c" and "train" in caught.value.expected


def test_files_read_back_and_score_the_same(outcome: Outcome, tmp_path: Path) -> None:
    paths = write_predictions(tmp_path, DATA, SYSTEMS, outcome)
    assert sorted(p.name for p in paths) == sorted(p.name for p in tmp_path.iterdir())
    assert "catalog_test.qrels" in {p.name for p in paths}
    again = {
        system: {"": rank(Run(str(tmp_path / f"catalog_test.{system}.run")), DATA, 7)}
        for system in ("good", "gen-constrained", "gen-free")
    }
    rescored = CatalogTest(resamples=500).run(DATA, again)
    assert set(rescored.results) == {r for r in outcome.results if r.metric != "internalization"}
    lines = [json.loads(line) for line in (tmp_path / "catalog_test.gen-free.jsonl").read_text().splitlines()]
    assert len(lines) == 6
    assert lines[0]["query"] == "a" and lines[0]["gold"] == ["t 0"] and lines[0]["tools"] == ["t 1", "t 0"]
    assert lines[0]["split"] == "test_seen" and lines[0]["scores"] == [0.0, -1.0]


def test_a_whole_table_takes_seconds() -> None:
    """12 systems, 6 metrics, 4 cut-offs, several slices; 3 s is the bound on an idle core."""
    data, systems = many(5, queries=500)
    twelve = {f"{name}{i}": modes for i in range(4) for name, modes in systems.items()}
    start = time.process_time()
    found = CatalogTest().run(data, twelve)
    assert time.process_time() - start < 6
    assert len({(r.system, r.metric, r.k) for r in found.results}) == 12 * 6 * 4


def test_importing_suites_and_retrievers_loads_no_heavy_library() -> None:
    modules = ["suites", *(f"retrieval.{m}" for m in ("bm25", "dense", "knn", "fusion", "trec"))]
    heavy = {"torch", "transformers", "sentence_transformers", "faiss", "bm25s", "scipy", "pandas"}
    code = f"import sys, {', '.join(f'toolsavvy.{m}' for m in modules)}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
