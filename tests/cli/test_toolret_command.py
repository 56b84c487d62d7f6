"""ToolRet by the command line: both averages on record, and the published row beside ours."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from commands import lines, record, runs, toolsavvy

sys.path.append(str(Path(__file__).parents[1] / "catalogs"))
from toolret_files import TOOLS, make, query_row

ARGS = ("method=evaluate", "catalog=toolret", "suite=toolret", "suite.toolret.resamples=100", "logger=none")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough tools for the paper's cut-off of 10."""
    more = [(f"gta_tool_{i}", {"name": f"gadget {i}", "description": f"Does number {i}."}) for i in range(1, 15)]
    tools = {**TOOLS, "customized": [*TOOLS["customized"], *more]}
    return make(tmp_path_factory.mktemp("toolret"), "hub", tools=tools)


def test_bm25_by_the_protocol_beside_the_papers(source: Path, tmp_path: Path) -> None:
    done = toolsavvy(tmp_path, *ARGS, f"catalog.path={source}", "retriever=bm25")
    assert done.returncode == 0, done.stderr
    (run,) = runs(tmp_path)
    results = {r["slice"] for r in lines(run / "results.jsonl")}
    averages = {"test/average/tasks", "test/average/categories/by_task", "test/average/categories/by_query"}
    assert averages | {"test", "test/mnms", "test/category=code/by_task"} <= results
    for part in (
        "ours, by task",
        "ours, by query",
        "bm25, w/o inst.",
        "  BM25s",
        "22.32",
        "not comparable",
        "test/average/tasks",
    ):
        assert part in done.stdout, part
    assert "only a part of ToolRet: 4 of 35 tasks" in done.stdout
    assert record(run)["audit"]["source"]["queries_without_text"] == 1


def test_instructions_choose_the_other_table(source: Path, tmp_path: Path) -> None:
    done = toolsavvy(tmp_path, *ARGS, f"catalog.path={source}", "retriever=bm25", "retriever.bm25.use_instruction=true")
    assert done.returncode == 0, done.stderr
    assert "bm25, w/ inst." in done.stdout and "36.46" in done.stdout and "22.32" not in done.stdout


def test_an_encoder_of_no_row_has_no_table_and_the_empty_query_no_harm(source: Path, tmp_path: Path) -> None:
    done = toolsavvy(tmp_path, *ARGS, f"catalog.path={source}", "retriever=dense", "encoder=toy")
    assert done.returncode == 0, done.stderr
    assert "inst." not in done.stdout


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (["catalog.tasks=[api_bank]"], ("catalog.tasks", "did you mean 'apibank'")),
        (["catalog.category=webs"], ("catalog.category", "did you mean 'web'")),
        (["catalog.corpus=category"], ("catalog.corpus", "-m catalog.category=")),
    ],
)
def test_mistakes_end_with_2_and_name_the_key(
    source: Path, tmp_path: Path, args: list[str], parts: tuple[str, ...]
) -> None:
    done = toolsavvy(tmp_path, *ARGS, f"catalog.path={source}", "retriever=bm25", *args)
    assert done.returncode == 2
    for part in parts:
        assert part in done.stderr + done.stdout, part
    assert "Traceback" not in done.stderr


def test_missing_golds_stop_a_run_unless_allowed(tmp_path: Path) -> None:
    lost = make(tmp_path / "data", queries={"gta": [query_row("q", "the weather", {"apibank_tool_0": 1, "gone": 1})]})
    args = (*ARGS, f"catalog.path={lost}", "retriever=bm25")
    refused = toolsavvy(tmp_path / "a", *args)
    assert refused.returncode == 2 and "gta:q → gone" in refused.stderr + refused.stdout
    done = toolsavvy(tmp_path / "b", *args, "catalog.allow_missing_gold=true")
    assert done.returncode == 0, done.stderr
    (run,) = runs(tmp_path / "b")
    found = {(r["slice"], r["metric"], r["k"]): r["value"] for r in lines(run / "results.jsonl")}
    assert found["test/average/tasks", "recall", 5] == 0.5
    assert (run / "predictions" / "toolret.qrels").read_text().split()[6] == "gone"
