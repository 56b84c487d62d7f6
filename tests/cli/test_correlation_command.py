"""Correlations from the command line: over finished runs, against a CSV, from published tables alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import lines, runs, status, toolsavvy
from matplotlib.image import imread

from toolsavvy.__main__ import main

QUICK = ("catalog=toy", "encoder=toy", "logger=none", "suite.catalog_test.resamples=20")
KINDS = ["pearson", "spearman", "kendall"]


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("outside") / "mteb.csv"
    path.write_text("system,score\nbm25,40\ndense,56\nknn,51\nunknown,1\n")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, csv: Path) -> Path:
    """An evaluation that also correlates."""
    folder = tmp_path_factory.mktemp("evaluate")
    done = toolsavvy(
        folder, "method=evaluate", *QUICK, "retriever=[bm25,dense,knn]", "suite=[catalog_test,correlation]",
        f"suite.correlation.y.path={csv}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for word in ("correlation: catalog_test ndcg@10", "vs mteb.csv score", "n=3: no conclusion", "unknown (not in x)"):
        assert word in done.stdout
    (run,) = runs(folder)
    return run


def test_an_evaluation_correlates_its_systems_after_the_other_suites(run: Path) -> None:
    records = lines(run / "correlations.jsonl")
    assert [(r["kind"], r["n"]) for r in records] == [(kind, 3) for kind in KINDS]
    results = {r["metric"]: r for r in lines(run / "results.jsonl") if r["suite"] == "correlation"}
    assert {k: results[k]["value"] for k in KINDS} == {r["kind"]: r["value"] for r in records}
    measured = {
        (r["system"], r["slice"]): r["value"]
        for r in lines(run / "results.jsonl")
        if (r["suite"], r["metric"], r["k"]) == ("catalog_test", "ndcg", 10) and "/" not in r["slice"]
    }
    splits = {split for _, split in measured}
    for point in lines(run / "correlation_points.jsonl"):
        assert point["x"] == pytest.approx(sum(measured[point["system"], s] for s in splits) / len(splits))
    assert imread(run / "figures" / "correlation.png").ndim == 3


def test_a_report_correlates_finished_runs(run: Path, csv: Path, tmp_path: Path) -> None:
    done = toolsavvy(
        tmp_path, "method=report", f"runs=[{run}]", "suite=correlation", "suite.correlation.x.metric=recall",
        "suite.correlation.x.k=1", "suite.correlation.x.slice=test_seen", f"suite.correlation.y.path={csv}",
        "logger=none",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "catalog_test recall@1 on test_seen vs mteb.csv score" in done.stdout
    (report,) = runs(tmp_path)
    assert len(lines(report / "correlations.jsonl")) == 3
    assert not (report / "pooled.jsonl").exists()


def test_published_tables_need_no_run(tmp_path: Path) -> None:
    done = toolsavvy(tmp_path, "experiment=published_correlations", "logger=none")
    assert done.returncode == 0, done.stderr
    (report,) = runs(tmp_path)
    assert status(report)["status"] == "done"
    records = lines(report / "correlations.jsonl")
    assert len(records) == 12
    assert all(r["n"] >= 20 and r["low"] < r["value"] < r["high"] for r in records)
    assert len(list((report / "figures").glob("*.png"))) == 4


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("suite.correlation.y.path=mtbe.csv",), ("suite.correlation.y.path", "no such file", "mtbe.csv")),
        ((), ("suite.correlation.y", "no source is named", "suite.correlation.y.path")),
        (
            ("suite.correlation.y.path={csv}", "suite.correlation.x.suite=rrb"),
            ("suite.correlation.x.suite", "nobody measures 'rrb'", "runs='[FOLDER]'"),
        ),
        (("suite.correlation.y.path={csv}", "runs=[nowhere]"), ("'nowhere' holds no run",)),
        (("suite.correlation.y.path={csv}", "suite.correlation.z=1"), ("unknown key 'suite.correlation.z'",)),
    ],
)
def test_what_cannot_be_correlated_is_told_before_the_run(
    tmp_path: Path, csv: Path, args: tuple[str, ...], words: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    overrides = [*(a.format(csv=csv) for a in args), f"paths.outputs={tmp_path}"]
    evaluate = ("method=evaluate", *QUICK, "retriever=bm25", "suite=[catalog_test,correlation]")
    assert main([*evaluate, *overrides]) == 2
    told = capfd.readouterr().err
    for word in words:
        assert word in told
    assert list(tmp_path.iterdir()) == []


def test_a_report_of_what_nobody_measured_names_the_runs(csv: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["method=report", "suite=correlation", f"suite.correlation.y.path={csv}"]) == 2
    assert "nobody measures 'catalog_test'" in capfd.readouterr().err
