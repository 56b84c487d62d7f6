"""Samples of predictions: every suite's records, the same items for all systems, bounded and seeded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from toolsavvy.tracking.samples import ROWS, WIDTH, SampleTable, sample_tables

QUERY = {"suite": "s", "split": "test", "query": "q1", "text": "list buckets", "gold": ["s3.list"]}
TASK = {"id": "t1", "unit": "u", "level": "L2", "category": "aws", "f1": 0.5, "valid": True}
PICK = {**QUERY, "k": 5, "gold": "s3.list", "offered": ["x"]}
ASKED = {"suite": "necessity", "id": "n1", "family": "sums", "correct": 3, "samples": 10}
ITEM = {"suite": "s", "id": "i1", "tool": "s3.list", "pattern": "p"}


def write(folder: Path, **files: list[Mapping[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, rows in files.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"s.{name}.jsonl").write_text(text + '{"torn')
    return folder


def row(table: SampleTable, number: int = 0) -> dict[str, Any]:
    return dict(zip(table.columns, table.rows[number], strict=True))


@pytest.mark.parametrize(
    ("record", "asked", "said", "right"),
    [
        (
            {**QUERY, "tools": ["s3.list", None, "c", "d", "e", "f"], "scores": [1] * 6},
            {"split": "test", "item": "q1", "question": "list buckets", "gold": "s3.list"},
            "s3.list, (no tool), c, d, e", True,
        ),
        ({**QUERY, "tools": [], "scores": []}, {"item": "q1"}, "", False),
        (
            {**PICK, "picked": "x", "arguments": {"a": 1}, "passed": False},
            {"k": 5, "gold": "s3.list"}, '{"tool": "x", "arguments": {"a": 1}}', False,
        ),
        (
            {
                **ITEM, "question": "what does this tool do?", "options": ["lists", "makes", "drops", "none"],
                "likelihood": [0, 3, 1, 2], "letters": None, "correct_likelihood": 0.0, "correct_letters": None,
            },
            {"item": "i1", "tool": "s3.list", "question": "what does this tool do?", "gold": "lists"}, "makes", 0.0,
        ),
        (
            {
                **ITEM, "question": "what does this tool do?", "options": ["lists", "makes", "drops", "none"],
                "likelihood": [3, 1, 3, 2], "letters": None, "correct_likelihood": 0.5, "correct_letters": None,
            },
            {"gold": "lists"}, "tie: lists | drops", 0.5,
        ),
        (
            {**ITEM, "question": "does it?", "answer": False, "yes": -2.5, "correct": 1.0},
            {"question": "does it?", "gold": "no"}, "no", 1.0,
        ),
        (
            {**TASK, "calls": [{"name": "x", "arguments": {}}], "exact": True},
            {"item": "t1", "level": "L2"}, '[{"name": "x", "arguments": {}}]', True,
        ),
        ({**TASK, "calls": None, "exact": False}, {"item": "t1"}, None, False),
        (
            {**ASKED, "outcome": "called", "action": "x" * 900}, {"item": "n1", "family": "sums"},
            ("called: " + "x" * 900)[: WIDTH - 1] + "…", "3 of 10 without the tool",
        ),
    ],
    ids=["ranking", "no tool at all", "downstream", "mcq", "tied mcq", "qa", "call", "no call", "necessity"],
)  # fmt: skip
def test_records_of_every_kind(tmp_path: Path, record: Any, asked: Any, said: Any, right: Any) -> None:
    (table,) = sample_tables(write(tmp_path / "p", system=[record]), 0)
    found = row(table)
    assert {name: found[name] for name in asked} == asked
    assert (found["system"], found["system: right"]) == (said, right)


def test_systems_stand_side_by_side_on_the_same_seeded_items(tmp_path: Path) -> None:
    def rows(system: str, count: int) -> list[Mapping[str, Any]]:
        return [{**QUERY, "system": system, "query": f"q{i}", "tools": [f"{system}{i}"]} for i in range(count)]

    folder = write(tmp_path / "p", **{"bm25": rows("b", 300), "rerank.k%3D5": rows("r", 299)})
    (folder / "s.bm25.run").write_text("no json")
    (table,) = sample_tables(folder, 7)
    assert len(table.rows) == ROWS
    assert table.columns == (
        "split", "item", "question", "gold", "bm25", "bm25: right", "rerank.k=5", "rerank.k=5: right",
    )  # fmt: skip
    items = [r[1] for r in table.rows]
    assert items == sorted(set(items), key=lambda name: int(name[1:]))
    assert all(row(table, i)["bm25"] == f"b{item[1:]}" for i, item in enumerate(items))
    assert list(sample_tables(folder, 7)) == [table]
    (other,) = sample_tables(folder, 8)
    assert other.rows != table.rows
    last = next(r for r in sample_tables(folder, 7, rows=300)).rows[-1]
    assert last[1] == "q299"
    assert last[-2:] == (None, None)  # the other system has no line for it


def test_without_predictions_there_are_no_tables(tmp_path: Path) -> None:
    assert list(sample_tables(tmp_path / "predictions", 0)) == []
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "s.a.jsonl").touch()
    assert [t.rows for t in sample_tables(tmp_path / "empty", 0)] == [()]
