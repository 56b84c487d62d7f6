"""What `predictions=…` may be, who reads it, and what a plan says."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolsavvy.config.compose import compose, typed
from toolsavvy.config.planning import make_plan
from toolsavvy.config.predictions import answers_tasks, prediction_files, ranks, reads_files_alone, task_suites
from toolsavvy.config.preflight import check_config, preflight
from toolsavvy.errors import UserError
from toolsavvy.tracking.records import config_hash

BASE = ("method=evaluate", "catalog=toy", "model=toy")


def config(*overrides: str, base: tuple[str, ...] = BASE):
    return typed(compose([*base, *overrides]).config)


def refused(*overrides: str, base: tuple[str, ...] = BASE) -> UserError:
    with pytest.raises(UserError) as told:
        check_config(compose([*base, *overrides]))
    return told.value


def test_true_and_false_are_no_files() -> None:
    for value in ("true", "false"):
        made = config(f"predictions={value}")
        assert prediction_files(made) == ()
        assert made.predictions is (value == "true")
    assert ranks(config())
    assert not task_suites(config())


def test_one_file_or_several() -> None:
    one = config("suite=parameters", "predictions=a.jsonl")
    two = config("suite=[parameters,catalog_test]", "predictions=[a.jsonl,b.jsonl]")
    assert prediction_files(one) == ("a.jsonl",)
    assert prediction_files(two) == ("a.jsonl", "b.jsonl")
    assert reads_files_alone(one)
    assert not reads_files_alone(two)
    assert answers_tasks(config("suite=parameters"))
    assert not answers_tasks(one)


@pytest.mark.parametrize("value", ["3", "null", "[]", "[a,1]", "{a:1}", "''"])
def test_other_values_are_refused(value: str) -> None:
    error = refused("suite=parameters", f"predictions={value}")
    assert "predictions" in error.where
    assert "file" in error.expected


def test_only_an_evaluation_of_calls_reads_files() -> None:
    error = refused("predictions=a.jsonl")
    assert (error.where, error.fix) == ("predictions", "add suite=parameters")
    error = refused("predictions=a.jsonl", base=("method=toolgen", "catalog=toy", "model=toy"))
    assert "method=evaluate suite=parameters" in error.fix
    error = refused("suite=parameters", base=("method=toolgen", "catalog=toy", "model=toy"))
    assert error.where == "suite"
    assert "method=evaluate" in error.fix


def test_files_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text("{}\n")

    def check(file: Path) -> None:
        preflight(compose([*BASE, "suite=parameters", f"predictions={file}", f"paths.outputs={tmp_path}/out"]))

    check(tmp_path / "mine.jsonl")
    with pytest.raises(UserError) as told:
        check(tmp_path / "mnie.jsonl")
    assert told.value.where == "predictions"
    assert "mine.jsonl" in told.value.fix
    with pytest.raises(UserError, match="folder"):
        check(tmp_path)


def test_no_retriever_is_needed_where_nothing_is_ranked() -> None:
    check_config(compose([*BASE, "suite=parameters", "retriever=[]"]))
    assert refused("retriever=[]").where == "retriever"


def test_which_file_is_scored_is_part_of_a_runs_identity() -> None:
    def mark(*overrides: str) -> str:
        return config_hash(compose([*BASE, "suite=parameters", *overrides]).config)

    assert mark("predictions=a.jsonl") != mark("predictions=b.jsonl")
    assert mark("predictions=true") == mark("predictions=false")


def test_plans_name_the_files_or_the_model() -> None:
    plan = make_plan(config("suite=parameters", "predictions=[x/a.jsonl,b.jsonl]"))
    assert plan.systems == ("a: x/a.jsonl", "b: b.jsonl")
    assert plan.notes == ("no model is loaded",)
    assert make_plan(config("suite=parameters")).systems == ("model",)
    assert make_plan(config("suite=[parameters,catalog_test]")).systems == ("bm25", "model")
