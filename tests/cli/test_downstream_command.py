"""Pass rates from the command line: an evaluation that carries calls out, and the report over two of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from commands import lines, toolsavvy

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


def test_an_evaluation_carries_calls_out_and_a_report_draws_them(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model picks and writes; a second suite takes the retriever's first and fills by rule."""
    first = ("_target_=toolsavvy.suites.downstream.Downstream", "pick=first", "ks=[1,3]", "name=first", "resamples=20")
    done = toolsavvy(
        tmp_path, *QUICK, f"catalog.path={folder}", "retriever=[bm25,dense]", *SUITE, "suite.downstream.caller=llm",
        "suite.downstream.max_tokens=4", *(f"+suite.first.{word}" for word in first),
        f"hydra.run.dir={tmp_path / 'run'}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "pass rate@3" in done.stdout
    assert "oracle_tools" in done.stdout
    rows = [r for r in lines(tmp_path / "run" / "results.jsonl") if r["slice"] == "test"]
    values = {(r["suite"], r["system"], r["metric"], r["k"]): r["value"] for r in rows}
    for suite in ("downstream", "first"):
        for system in ("bm25", "dense"):
            assert 0 <= values[suite, system, "picked", 3] <= values[suite, system, "recall", 3] <= 1
        said = lines(tmp_path / "run" / "predictions" / f"{suite}.bm25.jsonl")
        assert {(row["query"], row["k"]) for row in said} == {(f"t{i}", k) for i in range(4) for k in (1, 3)}
    assert values["first", "oracle_tools", "pass_rate", 1] == 1.0
    where = Path.cwd()
    try:
        words = ["method=report", "method.kind=pass_rate", f"runs=[{tmp_path / 'run'}]", "logger=none"]
        assert main([*words, "method.ratios=[[dense,bm25]]", f"hydra.run.dir={tmp_path / 'report'}"]) == 0
    finally:
        os.chdir(where)
    told = capsys.readouterr().out
    for word in ("pick=first", "llm, pick=model (toy)", "dense - bm25"):
        assert word in told
    assert len(lines(tmp_path / "report" / "pass_rates.jsonl")) == 2 * 3 * 2
    assert (tmp_path / "report" / "figures" / "pass_rate.svg").stat().st_size < 200_000


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
