from __future__ import annotations

import json
import time

import pytest
from catalog_files import fault, shared, write_jsonl

from toolsavvy.catalogs import sealtools

TOOL = {
    "api_name": "getFilm",
    "api_description": "Film details",
    "field": "Arts/Film/Old",
    "parameters": {"title": {"type": "str", "description": "its title"}, "n": {"type": "float", "description": ""}},
    "required": ["title"],
    "responses": {"year": {"type": "int", "description": "year"}},
}


def query(key="dev-easy-0", calls=("getFilm",), **changes):
    return {"id": key, "query": f"text of {key}", "calling": [{"api": c, "parameters": {}} for c in calls], **changes}


def make(path, dev=None, tools=None):
    tools = tools or [TOOL, {**TOOL, "api_name": "bare", "parameters": {}, "required": [], "example": 1}]
    write_jsonl(path / "tool.jsonl", tools)
    text = (path / "tool.jsonl").read_text()
    (path / "tool.jsonl").write_bytes(text.replace("\n", "\r\n").encode())
    write_jsonl(path / "dev.jsonl", dev or [query(f"dev-easy-{i}") for i in range(10)])
    for domain in ("in", "out"):
        write_jsonl(
            path / f"test_{domain}_domain.jsonl", [query(f"test_{domain}_domain-difficult-1", ["bare", "getFilm"])]
        )
    return path


def test_tools_and_splits(tmp_path):
    data = sealtools.load(make(tmp_path))
    tool, bare = data.catalog.tools
    assert (tool.id, tool.category, tool.group, tool.description) == ("getFilm", "Arts", "Film/Old", "Film details")
    assert tool.parameters["properties"]["title"] == {"type": "string", "description": "its title"}
    assert tool.parameters["properties"]["n"]["type"] == "number"
    assert tool.parameters["required"] == ["title"]
    assert tool.returns["properties"]["year"]["type"] == "integer"
    assert bare.parameters == {}
    sizes = {s: len(q) for s, q in data.splits.items()}
    assert sizes == {"validation": 10, "test_in_domain": 1, "test_out_domain": 1}
    assert data.headline == ("test_in_domain", "test_out_domain")
    hard = data.splits["test_in_domain"][0]
    assert (hard.subset, hard.relevant) == ("difficult", {"bare": 1, "getFilm": 1})


def test_dev_may_train_unless_there_is_a_train_file(tmp_path):
    data = sealtools.load(make(tmp_path), train_share=0.8)
    assert (len(data.train), len(data.validation)) == (8, 2)
    write_jsonl(tmp_path / "train.jsonl", [query("train-easy-1")])
    data = sealtools.load(tmp_path, train_share=0.8)
    assert (len(data.train), len(data.validation)) == (1, 10)


@pytest.mark.parametrize(
    ("bad", "what", "where", "expected"),
    [
        (query(calls=["getfilm"]), "unknown tool 'getfilm'", "line 1, field 'calling'", "one of the 2 tools"),
        (query(calls=[]), "no gold", "line 1, field 'calling'", "at least one"),
        (query(key=3), "a number (3)", "line 1, field 'id'", "text"),
        (query(calling={}), "an object", "line 1, field 'calling'", "a list"),
        (query(query=" "), "empty", "line 1, field 'query'", "text"),
    ],
)
def test_bad_queries(tmp_path, bad, what, where, expected):
    make(tmp_path, [bad])
    fault(lambda: sealtools.load(tmp_path), what=what, where=f"dev.jsonl, {where}", expected=expected)


def test_bad_tools(tmp_path):
    make(tmp_path, tools=[TOOL, TOOL])
    fault(lambda: sealtools.load(tmp_path), what="occurs twice", where="tool.jsonl, line 2, field 'api_name'")
    make(tmp_path, tools=[{**TOOL, "parameters": {"a": "str"}}])
    where = "tool.jsonl, line 1, field 'parameters.a'"
    fault(lambda: sealtools.load(tmp_path), what="text ('str')", where=where, expected="an object")


def test_a_bad_share_is_named_by_its_own_key(tmp_path):
    make(tmp_path)
    fault(lambda: sealtools.load(tmp_path, train_share=2), what="2", where="catalog.train_share", expected="0 to 1")


def test_real_data():
    folder = shared("sealtools")
    start = time.process_time()
    data = sealtools.load(folder)
    assert time.process_time() - start < 2
    assert len(data.catalog) == 4076
    sizes = {s: len(q) for s, q in data.splits.items()}
    assert sizes == {"validation": 700, "test_in_domain": 562, "test_out_domain": 532}
    assert sum(not t.parameters for t in data.catalog.tools) == 226
    for query, line in zip(data.splits["test_out_domain"], (folder / "test_out_domain.jsonl").open(), strict=True):
        assert set(query.relevant) == {call["api"] for call in json.loads(line)["calling"]}


def test_every_call_is_a_task_with_the_calls_before_it(tmp_path):
    calling = [
        {"api": "getFilm", "parameters": {"title": "Heat", "n": "3"}, "responses": ["API_call_0"]},
        {"api": "getFilm", "parameters": {"title": "API_call_0", "n": [1]}, "responses": ["API_call_1"]},
        {"api": "bare", "parameters": {"x": 1}, "responses": []},
    ]
    make(tmp_path, [{"id": "dev-difficult-1", "query": "Films.", "calling": calling}])
    data = sealtools.load(tmp_path)
    tasks = [t for t in data.tasks.calls if t.split == "validation"]
    assert [t.id for t in tasks] == [f"dev-difficult-1/{i}" for i in range(3)]
    assert {(t.cluster, t.category, t.instruction) for t in tasks} == {("dev-difficult-1", "dev", "Films.")}
    assert tasks[0].reference.arguments == {"title": "Heat", "n": "3"}
    assert tasks[0].flags == ("reference_violates_schema",)
    assert tasks[1].reference.arguments["title"] == "API_call_0"
    assert set(tasks[1].flags) == {"reference_violates_schema", "symbolic_reference"}
    assert [u.output for u in tasks[2].upstream] == [{"year": "API_call_0"}, {"year": "API_call_1"}]
    assert (tasks[0].level, tasks[1].level) == ("L1", "L2")
    audit = data.tasks.audit
    assert audit["numbers_and_truth_values_as_text"] == audit["lists_and_objects_for_scalars"] == 1
    assert audit["arguments_that_name_a_result"] == audit["arguments_outside_the_schema"] == 1
    assert sorted(t.category for t in data.tasks.calls if t.split == "test") == [
        *["test_in_domain"] * 2, *["test_out_domain"] * 2
    ]  # fmt: skip


def test_tasks_follow_the_queries_that_train(tmp_path):
    data = sealtools.load(make(tmp_path), train_share=0.8)
    trained = {q.id for q in data.train}
    assert {t.cluster for t in data.tasks.calls if t.split == "train"} == trained
    assert sum(t.split == "validation" for t in data.tasks.calls) == 2


def test_tasks_of_the_released_files():
    data = sealtools.load(shared("sealtools"))
    tests = [t for t in data.tasks.calls if t.split == "test"]
    assert {t.category for t in tests} == {"test_in_domain", "test_out_domain"}
    assert len({t.id for t in data.tasks.calls}) == len(data.tasks.calls)
    assert data.tasks.audit["lists_and_objects_for_scalars"] >= 8
    assert data.tasks.audit["numbers_and_truth_values_as_text"] >= 79
    assert sum("symbolic_reference" in t.flags for t in data.tasks.calls) >= 60
    assert "arguments_outside_the_schema" not in data.tasks.audit
