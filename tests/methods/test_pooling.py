from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from toolsavvy.catalog import Catalog, Query, RetrievalSet, Tool
from toolsavvy.errors import UserError
from toolsavvy.methods.pooling import Pooled, pool_seeds
from toolsavvy.metrics import GoldMatrix, bootstrap, paired_difference, per_query
from toolsavvy.report import markdown
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking
from toolsavvy.suites.catalog_test import CatalogTest, Systems, write_predictions
from toolsavvy.suites.table import Outcome, write_jsonl
from toolsavvy.tracking.records import finished_runs

METRICS = [("recall", 1), ("recall", 5), ("ndcg", 5), ("completeness", 5), ("internalization", 1)]
TOOLS = tuple(Tool(f"service one/{c} tool", f"tool {c}") for c in "abcdefghij")


def make_data(seed: int = 0) -> RetrievalSet:
    """Two test splits with two subsets, several queries a tool, several golds a query, graded."""
    rng = np.random.default_rng(seed)
    splits = {
        split: tuple(
            Query(f"{split} {i}", f"text {i}", {TOOLS[t].id: int(rng.integers(1, 3)) for t in _golds(rng, i)}, None, s)
            for i, s in enumerate(["short", "verbose"] * 9)
        )
        for split in ("test_seen", "test_unseen")
    }
    return RetrievalSet(Catalog("made up", TOOLS), splits, ("test_seen", "test_unseen"))


def _golds(rng: np.random.Generator, i: int) -> list[int]:
    return [i % 6, *(set(rng.integers(6, 10, size=i % 3).tolist()))]


def make_systems(data: RetrievalSet, seed: int) -> Systems:
    """A fixed retriever, and a generator whose rankings depend on the seed and whose free outputs hold misses."""

    def ranking(rng: np.random.Generator, misses: float) -> dict[str, Ranking]:
        found = {}
        for split in data.splits:
            indices = np.stack([rng.permutation(10) for _ in data.splits[split]])
            indices = np.where(rng.random(indices.shape) < misses, NO_TOOL, indices)
            found[split] = Ranking(indices, np.broadcast_to(-np.arange(10.0), indices.shape).copy())
        return found

    fixed, varied = np.random.default_rng(99), np.random.default_rng(seed)
    return {"bm25": {"": ranking(fixed, 0)}, "gen": {"constrained": ranking(varied, 0), "free": ranking(varied, 0.3)}}


def write(folder: Path, seed: int, cell: str = "cell", data: RetrievalSet | None = None) -> tuple[Path, Outcome]:
    """What a finished run leaves."""
    data = data or make_data()
    systems = make_systems(data, seed)
    outcome = CatalogTest(ks=(1, 5), resamples=300).run(data, systems)
    write_predictions(folder / "predictions", data, systems, outcome)
    write_jsonl(folder / "results.jsonl", outcome.results)
    (folder / "run.json").write_text(json.dumps({"cell": cell, "seed": seed, "choices": {"method": "toolgen"}}))
    (folder / "status.json").write_text(json.dumps({"status": "done"}))
    return folder, outcome


def find(rows: list[Pooled], **wanted: object) -> Pooled:
    (row,) = [r for r in rows if all(getattr(r, k) == v for k, v in wanted.items())]
    return row


def test_one_seed_gives_the_numbers_of_the_run_itself(tmp_path: Path) -> None:
    folder, outcome = write(tmp_path / "0", seed=3)
    rows = pool_seeds([folder], METRICS, resamples=300)
    told = {(r.system, r.slice, r.metric, r.k): r for r in outcome.results}
    means = [r for r in rows if r.kind == "mean"]
    assert {r.slice for r in means} == {
        f"{s}{x}" for s in ("test_seen", "test_unseen") for x in ("", "/short", "/verbose")
    }
    assert len(means) == 6 * (3 * 4 + 1)
    for row in means:
        same = told[row.system, row.slice, row.metric, row.k]
        for mine, theirs in ((row.value, same.value), (row.low, same.low), (row.high, same.high)):
            assert mine == pytest.approx(theirs, abs=1e-12)
        assert row.n == same.n


def test_three_seeds_are_crossed_with_clusters(tmp_path: Path) -> None:
    data, seeds = make_data(), (5, 6, 7)
    folders = [write(tmp_path / str(i), seed)[0] for i, seed in enumerate(seeds)]
    rows = pool_seeds(folders, METRICS, pairs=[("gen", "bm25")], resamples=300)
    queries = data.splits["test_unseen"]
    gold, clusters = GoldMatrix.from_queries(data.catalog, queries), [min(q.relevant) for q in queries]

    def values(system: str, mode: str) -> np.ndarray:
        rankings = [make_systems(data, s)[system][mode]["test_unseen"] for s in seeds]
        return np.stack([per_query(r, gold, 5).ndcg for r in rankings])

    row = find(rows, kind="mean", slice="test_unseen", system="gen-free", metric="ndcg", k=5)
    oracle = bootstrap(values("gen", "free"), clusters, n=300)
    assert (row.value, row.low, row.high) == pytest.approx((oracle.value, oracle.low, oracle.high), abs=1e-12)
    assert row.seeds == seeds
    row = find(rows, kind="difference", slice="test_unseen", system="gen-constrained", rival="bm25", metric="ndcg")
    paired = paired_difference(values("gen", "constrained"), values("bm25", ""), clusters, n=300)
    oracle = paired.interval
    assert (row.value, row.low, row.high) == pytest.approx((oracle.value, oracle.low, oracle.high), abs=1e-12)
    assert row.p == paired.p


def test_a_ratio_takes_both_means_on_the_same_resamples(tmp_path: Path) -> None:
    folders = [write(tmp_path / str(i), i)[0] for i in range(3)]
    rows = pool_seeds(folders, METRICS, pairs=[("gen-free", "gen"), ("bm25", "bm25")], resamples=300)
    itself = find(rows, kind="ratio", slice="test_seen", system="bm25", rival="bm25", metric="recall", k=1)
    assert (itself.value, itself.low, itself.high) == (1, 1, 1)
    ratio = find(rows, kind="ratio", slice="test_seen", system="gen-free", metric="recall", k=1)
    means = [
        find(rows, kind="mean", slice="test_seen", system=s, metric="recall", k=1).value
        for s in ("gen-free", "gen-constrained")
    ]
    assert ratio.value == pytest.approx(means[0] / means[1])
    internalization = find(rows, kind="mean", slice="test_seen", metric="internalization", system="gen")
    assert (internalization.value, internalization.low) == (ratio.value, ratio.low)


def test_cells_are_kept_apart_and_slices_can_be_chosen(tmp_path: Path) -> None:
    folders = [write(tmp_path / "a", 0, "a")[0], write(tmp_path / "b", 1, "a")[0], write(tmp_path / "c", 0, "b")[0]]
    rows = pool_seeds(folders, [("recall", 1)], slices=["test_seen/short"], resamples=50)
    assert {(r.cell, r.seeds, r.slice) for r in rows} == {
        ("a", (0, 1), "test_seen/short"), ("b", (0,), "test_seen/short")
    }  # fmt: skip


Break = Callable[[Path], tuple[list[Path], dict[str, object]]]


def twice(base: Path) -> tuple[list[Path], dict[str, object]]:
    return [write(base / "0", 1)[0], write(base / "1", 1)[0]], {}


def other_queries(base: Path) -> tuple[list[Path], dict[str, object]]:
    return [write(base / "0", 1)[0], write(base / "1", 2, data=make_data(1))[0]], {}


def no_run(base: Path) -> tuple[list[Path], dict[str, object]]:
    return [base], {}


def unknown_system(base: Path) -> tuple[list[Path], dict[str, object]]:
    return [write(base / "0", 1)[0]], {"pairs": [("bm52", "gen")]}


def unknown_slice(base: Path) -> tuple[list[Path], dict[str, object]]:
    return [write(base / "0", 1)[0]], {"slices": ["test_sen"]}


def deep(base: Path) -> tuple[list[Path], dict[str, object]]:
    return [write(base / "0", 1)[0]], {"metrics": [("recall", 50)]}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (twice, ("seed 1 is there twice", "one run per seed")),
        (other_queries, ("tested on other queries", "catalog.seed")),
        (no_run, ("no run folder", "run.json")),
        (unknown_system, ("'bm52' is no system here", "method.ratios", "did you mean 'bm25'?")),
        (unknown_slice, ("no slice 'test_sen'", "did you mean 'test_seen'?")),
        (deep, ("did not measure", "k of 1, 5")),
    ],
)
def test_what_cannot_be_pooled_is_refused(tmp_path: Path, make: Break, words: tuple[str, ...]) -> None:
    folders, settings = make(tmp_path)
    with pytest.raises(UserError) as caught:
        pool_seeds(folders, **{"metrics": METRICS, "resamples": 10, **settings})  # type: ignore[arg-type]
    for word in words:
        assert word in str(caught.value)


def test_folders_sweeps_and_globs_name_runs_and_unfinished_ones_are_left_out(tmp_path: Path) -> None:
    sweep = [write(tmp_path / "sweep" / str(i), i)[0] for i in range(3)]
    (sweep[1] / "status.json").write_text('{"status": "failed"}')
    done = [sweep[0], sweep[2]]
    assert finished_runs([str(tmp_path / "sweep")]) == (done, [sweep[1]])
    assert finished_runs([str(tmp_path / "*"), str(sweep[0])]) == (done, [sweep[1]])
    failed, nothing = str(sweep[1]), str(tmp_path / "nothing*")
    for patterns, words in (([failed], "no run is done"), ([nothing], "holds no run"), ([], "no run is named")):
        with pytest.raises(UserError, match=words):
            finished_runs(patterns)


def test_a_sweep_that_went_on_from_an_earlier_one_has_the_jobs_of_both(tmp_path: Path) -> None:
    earlier, own = write(tmp_path / "first" / "0", 0)[0], write(tmp_path / "second" / "1", 1)[0]
    rows = [{"folder": str(earlier)}, {"folder": "1"}, {"folder": "2"}]
    (own.parent / "sweep.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert finished_runs([str(own.parent)]) == ([earlier, own], [])


def test_markdown_has_a_row_per_system_and_the_pairs(tmp_path: Path) -> None:
    rows = pool_seeds([write(tmp_path / "0", 0)[0]], METRICS, pairs=[("gen", "bm25")], slices=["test_seen"])
    lines = markdown(rows, METRICS, pairs=[("gen-constrained", "bm25")], title="title").splitlines()
    assert lines[:5] == [
        "title", "", "**test_seen** (18 queries)", "", "| system | R@1 | R@5 | nDCG@5 | C@5 | IS@1 |",
    ]  # fmt: skip
    names = [line.split("|")[1].strip() for line in lines[6:] if line]
    assert names == ["bm25", "gen-constrained", "gen-free", "*gen-constrained - bm25*", "*gen-constrained / bm25*"]
    value = find(rows, kind="mean", system="bm25", metric="recall", k=1).value
    assert f"| {100 * float(value or 0):.1f} [" in lines[6]
    assert all(line.count("|") == lines[4].count("|") for line in lines[5:] if line)
