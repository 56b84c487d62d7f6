from __future__ import annotations

import csv
import json
import time

import pytest
from catalog_files import fault, shared, write_json, write_text

from toolsavvy.catalogs import metatool
from toolsavvy.catalogs.splits import plain

DES = {f"Tool&{i}": f"Does number {i}." for i in range(8)}


def make(path, rows=None, des=DES, multi=None):
    rows = rows if rows is not None else [(f"ask {i} for {t}", t) for t in DES for i in range(10)]
    path.mkdir(parents=True, exist_ok=True)
    with (path / "all_clean_data.csv").open("w", newline="") as out:
        csv.writer(out).writerows([("Query", "Tool"), *rows])
    write_json(path / "plugin_des.json", des)
    if multi is not None:
        write_json(path / "multi_tool_query_golden.json", multi)
    return path


def test_splits_follow_taught_and_untaught_tools(tmp_path):
    data = metatool.load(make(tmp_path, multi=[{"query": "two", "tool": ["Tool&1", "Tool&2"]}]))
    sizes = {s: len(q) for s, q in data.splits.items()}
    assert sizes == {"train": 24, "validation": 4, "test_seen": 12, "test_unseen": 40, "test_multi": 1}
    assert data.headline == ("test_seen", "test_unseen")
    assert data.test_splits == ("test_seen", "test_unseen", "test_multi")
    trained = {t for q in data.train for t in q.relevant}
    assert len(trained) == 4
    assert not any(set(q.relevant) & trained for q in data.splits["test_unseen"])
    assert data.splits["test_multi"][0].relevant == {"Tool&1": 1, "Tool&2": 1}
    assert metatool.load(tmp_path).splits["train"] == data.train
    assert metatool.load(tmp_path, seed=1).train != data.train
    capped = metatool.load(tmp_path, cap=2)
    assert sum(len(q) for s, q in capped.splits.items() if s != "test_multi") == 16


def test_repeated_rows_are_merged(tmp_path):
    rows = [("Same text", "Tool&1"), ("same  text", "Tool&1"), ("same text", "Tool&2"), ("other", "Tool&3")]
    data = metatool.load(make(tmp_path, rows), taught_share=1.0)
    everything = [q for queries in data.splits.values() for q in queries]
    assert sorted((q.text, len(q.relevant)) for q in everything) == [("Same text", 2), ("other", 1)]
    assert data.audit["source"] == {"merged_rows": 2, "texts_with_several_labels": 1}


@pytest.mark.parametrize(
    ("rows", "what", "where", "expected"),
    [
        ([("a", "Tool&1"), ("b", "Tool&11")], "unknown tool 'Tool&11'", "line 3, field 'Tool'", "one of the 8 tools"),
        ([("", "Tool&1")], "empty", "line 2, field 'Query'", "text"),
        ([("a", "")], "empty", "line 2, field 'Tool'", "text"),
        ([("a", "b", "c")], "3 columns", "line 2", "2: Query, Tool"),
    ],
)
def test_bad_rows(tmp_path, rows, what, where, expected):
    make(tmp_path, rows)
    fault(lambda: metatool.load(tmp_path), what=what, where=f"all_clean_data.csv, {where}", expected=expected)


def test_other_bad_files(tmp_path):
    make(tmp_path, des=[1])
    fault(lambda: metatool.load(tmp_path), what="a list", where="plugin_des.json", expected="{name: description}")
    make(tmp_path, des={**DES, "x": 3})
    where = "plugin_des.json, entry 9 ('x'), field 'description'"
    fault(lambda: metatool.load(tmp_path), what="a number (3)", where=where, expected="text")
    write_text(tmp_path / "plugin_des.json", '{"Tool&1": "one", "Tool&1": "other"}')
    where = "plugin_des.json, field 'Tool&1'"
    fault(lambda: metatool.load(tmp_path), what="occurs twice", where=where, expected="unique keys")
    make(tmp_path, multi=[{"query": "q", "tool": []}])
    fault(lambda: metatool.load(tmp_path), what="no gold", where="golden.json, record 1, field 'tool'")
    make(tmp_path, multi=[{"query": "q", "tool": ["Tool&1", "No"]}])
    fault(lambda: metatool.load(tmp_path), what="unknown tool 'No'", where="golden.json, record 1, field 'tool'")
    write_text(tmp_path / "all_clean_data.csv", "Question,Tool\n")
    fault(lambda: metatool.load(tmp_path), what="header", where="all_clean_data.csv, line 1", expected="Query,Tool")


def test_real_data():
    folder = shared("metatool")
    start = time.process_time()
    data = metatool.load(folder)
    assert time.process_time() - start < 2
    with (folder / "all_clean_data.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 20_614
    assert {t.id: t.description for t in data.catalog.tools} == json.loads((folder / "plugin_des.json").read_text())
    assert len(data.splits["test_multi"]) == 497
    single = [q for s, queries in data.splits.items() if s != "test_multi" for q in queries]
    labels = {plain(q.text): set(q.relevant) for q in single}
    assert len(labels) == len(single) == len(rows) - data.audit["source"]["merged_rows"]
    assert all(row["Tool"] in labels[plain(row["Query"])] for row in rows)
    assert sum(data.audit["train_overlap"].values()) == 0
