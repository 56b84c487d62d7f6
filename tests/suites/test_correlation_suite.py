from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from scipy import stats

from toolsavvy.errors import UserError
from toolsavvy.published import toolret
from toolsavvy.suites.correlation_suite import Correlated, CorrelationSuite
from toolsavvy.suites.scores import Finished, names, source

Numbers = Mapping[tuple[str, str, str, int | None], float | None]
"""(System, suite, slice, k) -> nDCG."""


def make_run(
    folder: Path,
    numbers: Numbers,
    *,
    catalog: str = "toy",
    seed: int = 0,
    encoder: str = "minilm",
    metric: str = "ndcg",
) -> Finished:
    """A run folder as the tracker leaves it, as far as a correlation reads it."""
    folder.mkdir(parents=True)
    rows = [
        {"system": s, "suite": u, "slice": p, "metric": metric, "k": k, "value": v, "low": None, "high": None, "n": 9}
        for (s, u, p, k), v in numbers.items()
    ]
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    choices = {"catalog": catalog, "encoder": encoder, "method": "evaluate"}
    (folder / "run.json").write_text(json.dumps({"choices": choices, "catalog_fingerprint": f"print of {catalog}"}))
    retrievers = {"bm25": {"k1": 1.5}, "dense": {"encoder": {"name": encoder}, "seed": seed}}
    config = {"retriever": retrievers, "seed": seed, "catalog": {"name": catalog}, "model": {"source": "toy"}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return Finished(folder)


def one(suite: str, **systems: float | None) -> dict[tuple[str, str, str, int | None], float | None]:
    return {(system, suite, "test", 10): value for system, value in systems.items()}


def correlated(runs: Sequence[Finished], x: Mapping[str, Any], y: Mapping[str, Any], **more: Any) -> Correlated:
    return CorrelationSuite(x, y, resamples=200, **more).run(runs)


X, Y = {"suite": "catalog_test"}, {"suite": "other"}


def test_two_suites_of_one_run_are_joined_by_system(tmp_path: Path) -> None:
    a = {"s1": 0.1, "s2": 0.4, "s3": 0.3, "s4": 0.9, "s5": 0.8}
    b = {"s5": 0.7, "s4": 0.6, "s3": 0.2, "s2": 0.5, "s6": 0.1}
    run = make_run(tmp_path / "run", one("catalog_test", **a) | one("other", **b))
    found = correlated([run], X, Y)
    both = ["s2", "s3", "s4", "s5"]
    assert found.data.systems == tuple(both)
    assert found.data.missing == {"s1": "not in y", "s6": "not in x"}
    assert (found.x, found.y) == ("catalog_test ndcg@10 on test", "other ndcg@10 on test")
    oracles = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}
    for record, result in zip(found.correlations, found.results, strict=True):
        told = oracles[record.kind]([a[s] for s in both], [b[s] for s in both])
        assert record.value == pytest.approx(told[0])  # pyright: ignore
        assert (record.n, record.verdict) == (4, "n=4: no conclusion")
        assert (result.metric, result.value, result.low, result.high, result.n) == (
            record.kind, record.value, record.low, record.high, 4,
        )  # fmt: skip
        assert result.slice == f"{found.x} vs {found.y}"
        assert (record.fisher_low is not None) == (record.kind == "pearson")


def test_undefined_numbers_are_missing_by_name(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", one("catalog_test", a=0.1, b=None, c=0.3) | one("other", a=0.1, b=0.2, c=0.3))
    found = correlated([run], X, Y)
    assert found.data.missing == {"b": "no number in x"}
    assert [c.value for c in found.correlations] == [None] * 3
    assert {c.verdict for c in found.correlations} == {"n=2: undefined with fewer than 3 systems"}


def test_seeds_of_a_system_are_averaged_and_other_encoders_are_other_systems(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / "0", one("catalog_test", bm25=0.5, dense=0.2), seed=0),
        make_run(tmp_path / "1", one("catalog_test", bm25=0.5, dense=0.4), seed=1),
        make_run(tmp_path / "2", one("catalog_test", bm25=0.5, dense=0.9), encoder="bge_base"),
    ]
    scored = source(X, "x").scores(runs)
    assert scored.values == pytest.approx({"bm25": 0.5, "dense (minilm)": 0.3, "dense (bge_base)": 0.9})
    assert set(names(runs).values()) == set(scored.values)


def test_ways_to_ask_a_system_and_trained_systems_are_told_apart_by_what_they_are_made_of(tmp_path: Path) -> None:
    one_run, other = (
        make_run(
            tmp_path / e, one("catalog_test", **{"dense-inst": 0.1, "bm25-inst": 0.2, "toolgen-free": 0.3}), encoder=e
        )
        for e in ("minilm", "bge_base")
    )
    assert one_run.recipe("dense-inst") == one_run.recipe("dense") != other.recipe("dense-inst")
    assert one_run.recipe("bm25-inst") == other.recipe("bm25-inst") != one_run.recipe("dense-inst")
    assert one_run.recipe("toolgen-free") == one_run.recipe("densely") != one_run.recipe("dense")
    assert len(set(names([one_run, other]).values())) == 5


def test_one_system_on_two_catalogs_is_one_point(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / "0", one("catalog_test", bm25=0.5, dense=0.2), catalog="aws"),
        make_run(tmp_path / "1", one("catalog_test", bm25=0.3, dense=0.4), catalog="toy"),
    ]
    found = correlated(runs, {**X, "catalog": "aws"}, {**X, "catalog": "toy"})
    assert found.data.systems == ("bm25", "dense")
    assert (found.data.x.tolist(), found.data.y.tolist()) == ([0.5, 0.2], [0.3, 0.4])
    assert found.x == "catalog_test ndcg@10 on test of aws"
    with pytest.raises(UserError, match=r"several catalogs: aws in .*toy in") as error:
        correlated(runs, X, Y)
    assert (error.value.where, error.value.fix[:3]) == ("suite.correlation.x.catalog", "set")


def test_no_slice_is_the_mean_over_the_test_splits(tmp_path: Path) -> None:
    values = {"seen": 0.2, "unseen": 0.6, "seen/short": 0.9}
    numbers: Numbers = {("a", "catalog_test", s, 10): v for s, v in values.items()}
    run = make_run(tmp_path / "run", numbers)
    whole, part = (source({**X, "slice": s}, "x").scores([run]) for s in (None, "seen/short"))
    assert (whole.label, whole.values) == ("catalog_test ndcg@10 on seen and unseen", {"a": pytest.approx(0.4)})
    assert part.values == {"a": 0.9}


def test_a_metric_without_a_cutoff_needs_none(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", {("a", "mcq", "all", None): 0.25}, metric="accuracy")
    scored = source({"suite": "mcq", "metric": "accuracy"}, "x").scores([run])
    assert (scored.label, scored.values) == ("mcq accuracy on all", {"a": 0.25})


@pytest.mark.parametrize(
    ("spec", "where", "words"),
    [
        ({"suite": "catalog_tset"}, "x.suite", ("catalog_tset", "catalog_test", "did you mean")),
        ({"suite": "catalog_test", "metric": "ndgc"}, "x.metric", ("'ndgc'", "one of ndcg", "did you mean")),
        ({"suite": "catalog_test", "k": 7}, "x.k", ("no run has 7", "one of 10, 1")),
        ({"suite": "catalog_test", "slice": "tset"}, "x.slice", ("'tset'", "one of test", "did you mean 'test'")),
        ({"suite": "catalog_test", "catalog": "aws"}, "x.catalog", ("'aws'", "one of toy")),
    ],
)
def test_numbers_that_no_run_has(tmp_path: Path, spec: dict[str, Any], where: str, words: tuple[str, ...]) -> None:
    run = make_run(tmp_path / "run", one("catalog_test", a=0.1) | {("a", "catalog_test", "test", 1): 0.2})
    with pytest.raises(UserError) as error:
        source(spec, "x").scores([run])
    assert error.value.where == where
    for word in words:
        assert word in str(error.value)


def test_outside_scores_from_a_csv(tmp_path: Path) -> None:
    path = tmp_path / "mteb.csv"
    path.write_text('system,licence,score\nall-MiniLM-L6-v2,a,56.3\n"BM25, plain",b,40\nempty,c,\nx,d,7\n')
    run = make_run(tmp_path / "run", one("catalog_test", bm25=0.4, dense=0.5, x=0.1))
    renamed = {"bm25": "BM25, plain", "dense": "all-MiniLM-L6-v2"}
    found = correlated([run], X, {"path": str(path), "column": None}, names=renamed)
    assert dict(zip(found.data.systems, found.data.y.tolist(), strict=True)) == {
        "BM25, plain": 40, "all-MiniLM-L6-v2": 56.3, "x": 7,
    }  # fmt: skip
    assert (found.y, found.data.missing) == ("mteb.csv score", {"empty": "not in x, no number in y"})
    with pytest.raises(UserError, match="two systems get one name"):
        correlated([run], X, {"path": str(path)}, names={"bm25": "dense"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("system,score\na,1\nb,high\n", ("scores.csv, line 3, field 'score'", "'high' is no number", "such as", "fix")),
        (
            "system,score\na,1\nb,1e308\n",
            ("scores.csv, line 3, field 'score'", "'1e308' is no number", "such as", "fix"),
        ),
        ("system,score\na,1\na,2\n", ("scores.csv, line 3, field 'system'", "'a' is there twice", "one line a system")),
        ("system,score\n,1\n", ("scores.csv, line 2, field 'system'", "empty", "fix")),
        ("system,score\na,1,2\n", ("scores.csv, line 2", "3 columns", "expected: 2: system, score")),
        ("name,points\na,1\n", ("scores.csv, line 1", "header", "expected: system,score")),
        ("", ("scores.csv", "empty")),
    ],
)
def test_a_malformed_csv_is_told_by_line_and_column(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    path = tmp_path / "scores.csv"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        CorrelationSuite(X, {"path": str(path)})
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("spec", "where", "words"),
    [
        ({}, "y", ("no source is named", "suite", "path", "published")),
        ({"suite": None, "path": None}, "y", ("no source is named",)),
        ({"suite": "a", "published": "toolret"}, "y", ("several sources: suite, published", "null")),
        ({"path": "nowhere.csv"}, "y.path", ("no such file", "nowhere.csv")),
        ({"suite": "a", "column": "b"}, "y.column", ("does not go with suite", "y.column=null")),
        ({"suite": "a", "k": "10"}, "y.k", ("'10' is no valid value", "a whole number")),
        ({"suite": "a", "k": True}, "y.k", ("True is no valid value",)),
        ({"suite": 5}, "y.suite", ("5 is no valid value", "text")),
        ({"published": "toolrte"}, "y.published", ("no published table 'toolrte'", "did you mean 'toolret'?")),
        ({"published": "toolret", "setting": "with"}, "y.category", ("not set", "web", "average")),
        (
            {"published": "toolret", "setting": "with", "category": "wbe"}, "y.category",
            ("no 'wbe'", "did you mean 'web'?"),
        ),
        ({"published": "toolret", "setting": "with", "category": "web", "k": 5}, "y.k", ("no '5'", "one of 10")),
    ],
)  # fmt: skip
def test_a_side_that_is_not_well_described(spec: dict[str, Any], where: str, words: tuple[str, ...]) -> None:
    with pytest.raises(UserError) as error:
        source(spec, "y")
    assert error.value.where == where
    for word in words:
        assert word in str(error.value)


def test_the_published_table_gives_many_systems_without_its_doubtful_numbers() -> None:
    x, y = ({"published": "toolret", "setting": s, "category": "average"} for s in toolret.SETTINGS)
    found = correlated([], x, y)
    doubtful = {c.system: c.note for c in toolret.cells() if (c.category, c.metric) == ("average", "ndcg") and c.note}
    assert doubtful
    assert found.data.missing == doubtful
    assert len(found.data.systems) == len(toolret.systems()) - len(doubtful)
    for point in found.points:
        for setting, value in (("without", point.x), ("with", point.y)):
            assert value / 100 == pytest.approx(toolret.row(point.system, setting)["average", "ndcg"].value)


def test_no_resamples_are_refused() -> None:
    with pytest.raises(UserError, match="resamples=0"):
        CorrelationSuite(X, Y, resamples=0)
