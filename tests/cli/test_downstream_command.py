"""Pass rates from the command line: an evaluation that carries calls out, and the report over two of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from commands import lines, runs, toolsavvy

from executed_world import executed_set
from toolsavvy.__main__ import main
from toolsavvy.catalogs import parambench
from toolsavvy.config.compose import compose, compose_sweep, typed
from toolsavvy.config.preflight import check_config

pytest.importorskip("moto")
QUICK = ("method=evaluate", "catalog=parambench", "model=toy", "encoder=toy", "logger=none", "method.depth=5")
SUITE = ("suite=downstream", "suite.downstream.ks=[1,3]", "suite.downstream.resamples=20")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy world as files."""
    path, made = tmp_path_factory.mktemp("tasks"), executed_set()
    assert made.tasks is not None
    parambench.save(path, made.tasks.calls, made.catalog.tools)
    return path


def test_an_evaluation_carries_calls_out_and_a_report_draws_them(folder: Path, tmp_path: Path) -> None:
    for name, how in (("first", "pick=first"), ("model", "pick=model"), ("llm", "caller=llm")):
        more = (f"suite.downstream.{how}", "suite.downstream.max_tokens=4", f"hydra.run.dir={tmp_path / name}")
        done = toolsavvy(tmp_path, *QUICK, f"catalog.path={folder}", "retriever=[bm25,dense]", *SUITE, *more)
        assert done.returncode == 0, done.stderr
        assert "pass rate@3" in done.stdout
        assert "oracle_tools" in done.stdout
        rows = lines(tmp_path / name / "results.jsonl")
        values = {(r["system"], r["metric"], r["k"]): r["value"] for r in rows if r["slice"] == "test"}
        for system in ("bm25", "dense"):
            assert 0 <= values[system, "pass_rate", 3] <= values[system, "recall", 3] <= 1
        said = lines(tmp_path / name / "predictions" / "downstream.bm25.jsonl")
        assert {(row["query"], row["k"]) for row in said} == {(f"t{i}", k) for i in range(4) for k in (1, 3)}
    report = toolsavvy(
        tmp_path, "method=report", "method.kind=pass_rate", f"runs=[{tmp_path}/first,{tmp_path}/model]", "logger=none",
        "method.ratios=[[dense,bm25]]",
    )  # fmt: skip
    assert report.returncode == 0, report.stderr
    assert "pick=first" in report.stdout and "dense - bm25" in report.stdout
    out = max(runs(tmp_path), key=lambda run: run.stat().st_mtime)
    assert len(lines(out / "pass_rates.jsonl")) == 2 * 3 * 2
    assert (out / "figures" / "pass_rate.svg").stat().st_size < 200_000


def test_sets_without_accounts_are_refused_before_anything_is_ranked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = Path.cwd()
    try:
        code = main(
            ["method=evaluate", "catalog=toy", "retriever=bm25", *SUITE, "logger=none", f"paths.outputs={tmp_path}"]
        )
    finally:
        os.chdir(where)
    assert code == 2
    told = capsys.readouterr().err
    for word in ("no task that can be executed", "suite.downstream", "catalog=parambench_aws"):
        assert word in told


def test_the_sweep_is_a_retriever_a_job_with_training_among_them() -> None:
    jobs = compose_sweep(["+sweep=pass_rate"])
    configs = [check_config(job) for job in jobs]
    assert [list(c.retriever) for c in configs] == [["bm25"], ["dense"], ["graph"], ["finetuned"]]
    assert {(c.catalog["name"], tuple(c.suite), c.after_sweep) for c in configs} == {
        ("parambench_aws", ("downstream",), "pass_rate")
    }
    assert typed(compose(["method=report", "method.kind=pass_rate", "runs=[x]"]).config).method.kind == "pass_rate"
