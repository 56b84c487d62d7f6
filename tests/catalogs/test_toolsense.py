from __future__ import annotations

import collections
import json

import pytest
from catalog_files import fault, shared, write_jsonl

from toolsavvy.catalogs import toolsense


def tool(name="Vimeo&&get  One", about="Video", text="None"):
    title, _, api = name.partition("&&")
    fields = {"tool_title": title, "tool_description": about, "api_title": api, "api_description": text}
    return {"tool_name": name, **fields}


def record(gold, tier="easy", **changes):
    pool = [tool("Seed&&first")]
    return {"sample_id": "s1", "query": "find it", "tool": gold, "analyzed_tools": pool, "complexity": tier, **changes}


def make(path, records, tools=None):
    write_jsonl(path / "catalog.jsonl", tools or [tool(), tool("Vimeo&&two", text="Second")])
    write_jsonl(path / "rrb.jsonl", records)
    return path


def test_gold_is_an_object_or_a_list_and_never_the_pool(tmp_path):
    medium = record([tool(), tool("Vimeo&&two")], "medium", sample_id="s2")
    data = toolsense.load(make(tmp_path, [record(tool()), medium]))
    first, second = data.splits["test"]
    assert (first.relevant, first.tier) == ({"Vimeo&&get  One": 1}, "easy")
    assert (second.relevant, second.tier) == ({"Vimeo&&get  One": 1, "Vimeo&&two": 1}, "medium")
    assert data.catalog.tools[0].id == "Vimeo&&get  One"
    assert data.catalog.tools[0].description == "Video"
    assert data.catalog.tools[1].description == "Second\nVideo"
    assert data.audit["source"]["blank_api_descriptions"] == 1


@pytest.mark.parametrize(
    ("bad", "what", "where", "expected"),
    [
        (record(tool("Vimeo&&get One")), "unknown tool", "line 1, field 'tool'", "one of the 2 tools"),
        (record([]), "no gold", "line 1, field 'tool'", "at least one"),
        (record("Vimeo&&two"), "text", "line 1, field 'tool'", "an object or a list"),
        (record(tool(), "Easy"), "unknown tier", "line 1, field 'complexity'", "easy or medium or hard"),
        (record(tool(), sample_id=None), "missing", "line 1, field 'sample_id'", "text"),
    ],
)
def test_bad_records(tmp_path, bad, what, where, expected):
    make(tmp_path, [bad])
    fault(lambda: toolsense.load(tmp_path), what=what, where=f"rrb.jsonl, {where}", expected=expected)


def test_a_missing_file_is_named(tmp_path):
    write_jsonl(tmp_path / "catalog.jsonl", [tool()])
    fault(lambda: toolsense.load(tmp_path), what="no rrb.jsonl", where="catalog.path", expected="rrb.jsonl")
    only = tmp_path / "catalog.jsonl"
    fault(lambda: toolsense.load(only), what="is a file", where="catalog.path", expected="catalog.jsonl")


def test_real_data():
    folder = shared("toolsense")
    data = toolsense.load(folder)
    assert len(data.catalog) == 5348
    assert collections.Counter(q.tier for q in data.splits["test"]) == {"easy": 137, "medium": 131, "hard": 128}
    for query, line in zip(data.splits["test"], (folder / "rrb.jsonl").read_text().splitlines(), strict=True):
        golds = json.loads(line)["tool"]
        names = [g["tool_name"] for g in (golds if isinstance(golds, list) else [golds])]
        assert list(query.relevant) == names
    assert any("  " in t.id for t in data.catalog.tools)
    assert not any(t.description.strip() == "None" for t in data.catalog.tools)
    drawn = toolsense.load(folder, train_share=0.5, validation_share=0.1)
    trained = {t for q in drawn.train for t in q.relevant}
    assert len(drawn.train) > 150
    assert not any(set(q.relevant) & trained for q in drawn.splits["test"])
