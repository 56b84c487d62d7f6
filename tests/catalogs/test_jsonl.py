from __future__ import annotations

import json
import time
from functools import partial

import polars as pl
import pytest
from catalog_files import fault, write_jsonl, write_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolsavvy.catalog import Catalog, Query, RetrievalSet, Tool
from toolsavvy.catalogs import jsonl

TOOLS = [
    {"id": "a:One", "name": "makeThing", "description": "Makes a thing.", "group": "G", "category": "C"},
    {"id": "b two", "name": "drop_thing", "description": None, "parameters": {"properties": {"thingId": {}}}},
    {"id": "<<X&&Y>>", "name": "", "description": "Ends with <|im_end|> or <<Other&&Tool>> 🛠️🛠️ \x1b[31mred"},
]
QUERIES = [
    {"id": "1", "text": "make it", "relevant": ["a:One"], "subset": "short", "tier": "easy", "instruction": "find"},
    {"id": "2", "text": "drop or make it", "relevant": {"b two": 2, "a:One": 1, "<<X&&Y>>": 0}},
]


def folder(path, tools=TOOLS, queries=QUERIES):
    write_jsonl(path / "tools.jsonl", tools)
    write_jsonl(path / "queries.jsonl", queries)
    return path


def test_tools_and_queries_stay_verbatim(tmp_path):
    data = jsonl.load(folder(tmp_path))
    assert [t.id for t in data.catalog.tools] == ["a:One", "b two", "<<X&&Y>>"]
    assert data.catalog.tools[2].description == TOOLS[2]["description"]
    assert data.catalog.tools[1].description == ""
    assert data.catalog.documents[0] == "make thing. G. Makes a thing."
    assert "thing id" in data.catalog.documents[1]
    first, second = data.splits["test"]
    assert (first.instruction, first.subset, first.tier) == ("find", "short", "easy")
    assert second.relevant == {"b two": 2, "a:One": 1}
    assert second.instruction is None
    assert data.headline == ("test",)
    assert data.audit["markup_in_tools"] == 1
    assert data.audit["control_characters"] == 1


def test_splits_come_from_the_field_else_from_the_file_name(tmp_path):
    folder(tmp_path)
    write_jsonl(tmp_path / "queries_train.jsonl", [QUERIES[0], {**QUERIES[1], "split": "validation"}])
    data = jsonl.load(tmp_path)
    assert {s: [q.id for q in qs] for s, qs in data.splits.items()} == {
        "train": ["1"],
        "validation": ["2"],
        "test": ["1", "2"],
    }
    assert list(data.splits)[:2] == ["train", "validation"]


def test_a_tools_file_with_queries_elsewhere(tmp_path):
    folder(tmp_path / "a")
    alone = jsonl.load(tmp_path / "a" / "tools.jsonl")
    assert (len(alone.catalog), alone.splits) == (3, {})
    data = jsonl.load(tmp_path / "a" / "tools.jsonl", queries=tmp_path / "a" / "queries.jsonl")
    assert len(data.splits["test"]) == 2
    fault(
        lambda: jsonl.load(tmp_path / "a" / "tools.jsonl", queries=tmp_path / "none.jsonl"),
        what="none.jsonl",
        where="catalog.queries",
        fix="catalog.queries=",
    )


def test_drawn_splits_are_seeded_and_do_not_leak(tmp_path):
    tools = [{"id": f"t{i}", "name": f"tool {i}"} for i in range(20)]
    queries = [
        {"id": f"{i}.{j}", "text": f"do {i} way {j}", "relevant": [f"t{i}"]} for i in range(20) for j in range(5)
    ]
    folder(tmp_path, tools, queries)
    make = lambda seed: jsonl.load(tmp_path, taught_share=0.5, train_share=0.6, validation_share=0.1, seed=seed)  # noqa: E731
    one, again, other = make(1), make(1), make(2)
    assert one.splits == again.splits
    assert one.splits != other.splits
    trained = {t for q in one.train for t in q.relevant}
    assert len(trained) == 10
    assert all(set(q.relevant) <= trained for q in one.splits["test_seen"])
    assert not any(set(q.relevant) & trained for q in one.splits["test_unseen"])
    assert sum(map(len, one.splits.values())) == 100


BAD_TOOLS = [
    ([{"name": "x"}], "missing", "line 1, field 'id'", "text"),
    ([{"id": "", "name": "x"}], "empty", "line 1, field 'id'", "text"),
    ([TOOLS[0], {"id": 7, "name": "x"}], "a number (7)", "line 2, field 'id'", "text"),
    ([TOOLS[0], TOOLS[1], TOOLS[0]], "'a:One' occurs twice", "line 3, field 'id'", "unique ids"),
    (
        [{"id": "a", "name": " ", "description": ""}],
        "no text",
        "line 1, field 'description'",
        "a name or a description",
    ),
    ([{"id": "a", "name": "x", "parameters": []}], "a list", "line 1, field 'parameters'", "an object"),
    ([{"id": "a", "name": ["x"]}], "a list", "line 1, field 'name'", "text"),
    (["text"], "text", "line 1", "an object"),
]


@pytest.mark.parametrize(("tools", "what", "where", "expected"), BAD_TOOLS)
def test_bad_tools(tmp_path, tools, what, where, expected):
    folder(tmp_path, tools, [])
    (tmp_path / "queries.jsonl").unlink()
    fault(lambda: jsonl.load(tmp_path), what=what, where=f"tools.jsonl, {where}", expected=expected)


def query(**changes):
    return {**QUERIES[0], **changes}


BAD_QUERIES = [
    ([query(relevant=["a:one"])], "unknown tool 'a:one'", "line 1, field 'relevant'", "one of the 3 tools", "a:One"),
    ([query(relevant=[])], "no gold", "line 1, field 'relevant'", "at least one", ""),
    ([query(relevant={"a:One": 0})], "no gold", "line 1, field 'relevant'", "at least one", ""),
    ([query(relevant={"a:One": "2"})], "grade '2'", "line 1, field 'relevant'", "whole number", ""),
    ([query(relevant={"a:One": 10**30})], "grade 1000", "line 1, field 'relevant'", "whole number", ""),
    ([query(absent={"gone": "much"})], "grade 'much' of 'gone'", "line 1, field 'absent'", "whole number", ""),
    ([query(absent={"a:One": 1})], "'a:One' is in the catalog", "line 1, field 'absent'", "lacks", "relevant"),
    ([query(negatives=["gone"])], "unknown tool 'gone'", "line 1, field 'negatives'", "one of the 3 tools", ""),
    ([query(relevant=[3])], "3 is no tool id", "line 1, field 'relevant'", "a list of texts", "quotes"),
    ([query(relevant="a:One")], "text", "line 1, field 'relevant'", "a list or an object", ""),
    ([QUERIES[1], query(id=1)], "a number (1)", "line 2, field 'id'", "text", '"1"'),
    ([query(text="")], "empty", "line 1, field 'text'", "text", ""),
    ([QUERIES[0], QUERIES[1], QUERIES[0]], "'1' occurs twice", "line 3, field 'id'", "unique within a split", ""),
]


@pytest.mark.parametrize(("queries", "what", "where", "expected", "fix"), BAD_QUERIES)
def test_bad_queries(tmp_path, queries, what, where, expected, fix):
    folder(tmp_path, TOOLS, queries)
    fault(lambda: jsonl.load(tmp_path), what=what, where=f"queries.jsonl, {where}", expected=expected, fix=fix)


def test_terminal_escapes_in_ids_do_not_reach_the_message(tmp_path):
    folder(tmp_path, TOOLS, [query(relevant=["\x1b[2Jgone"])])
    fault(lambda: jsonl.load(tmp_path), what="\\x1b[2Jgone", where="line 1, field 'relevant'")


def test_bad_template_and_bad_shares(tmp_path):
    folder(tmp_path)
    fault(lambda: jsonl.load(tmp_path, document="{nmae}"), what="nmae", where="catalog.document", expected="{name}")
    fault(lambda: jsonl.load(tmp_path, document="{name"), what="{name", where="catalog.document", expected="{name}")
    for key in ("taught_share", "train_share", "validation_share"):
        load = partial(jsonl.load, tmp_path, **{key: 1.5})
        fault(load, what="1.5", where=f"catalog.{key}", expected="0 to 1")


def test_a_folder_without_tools(tmp_path):
    fault(lambda: jsonl.load(tmp_path), what="no tools.jsonl", where="catalog.path", expected="tools.jsonl")


def test_a_description_of_5_mb_loads_quickly(tmp_path):
    long = "word " * 1_000_000
    folder(tmp_path, [*TOOLS, {"id": "long", "name": "long", "description": long}])
    start = time.process_time()
    data = jsonl.load(tmp_path)
    assert time.process_time() - start < 5
    assert data.catalog.tools[3].description == long


def test_parquet_that_is_none(tmp_path):
    write_text(tmp_path / "tools.parquet", "no parquet")
    fault(lambda: jsonl.load(tmp_path), what="no readable Parquet", where="tools.parquet", expected="Parquet")


@pytest.mark.parametrize(
    ("cell", "what"), [("{", "broken JSON"), ("[" * 100_000, "too deeply"), (r'{"\ud800": 1}', "surrogate")]
)
def test_json_in_parquet_is_checked_as_in_jsonl(tmp_path, cell, what):
    pl.DataFrame([{"id": "a", "name": "A", "parameters": cell}]).write_parquet(tmp_path / "tools.parquet")
    fault(lambda: jsonl.load(tmp_path), what=what, where="tools.parquet, row 1, field 'parameters'")


WORD = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).filter(str.strip)
SCHEMAS = st.dictionaries(WORD, st.dictionaries(WORD, WORD | st.integers(), max_size=2), max_size=2)


@st.composite
def retrieval_sets(draw):
    ids = draw(st.lists(WORD, min_size=1, max_size=4, unique=True))
    tools = tuple(Tool(i, draw(WORD), draw(WORD), draw(WORD), "", draw(SCHEMAS), draw(SCHEMAS)) for i in ids)
    splits = {}
    for split in ("train", "validation", "test"):
        golds = st.dictionaries(st.sampled_from(ids), st.integers(1, 3), min_size=1)
        rows = [Query(str(i), draw(WORD), draw(golds), draw(st.none() | WORD), draw(WORD), "") for i in range(2)]
        splits[split] = tuple(rows)
    return RetrievalSet(Catalog("made", tools), splits, ("test",))


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@given(data=retrieval_sets())
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_save_and_load_give_the_same_set(tmp_path_factory, kind, data):
    target = tmp_path_factory.mktemp("saved")
    jsonl.save(data, target, kind=kind)
    back = jsonl.load(target)
    assert back.catalog.tools == data.catalog.tools
    assert dict(back.splits) == dict(data.splits)
    assert back.catalog.fingerprint == data.catalog.fingerprint
    assert sorted(p.name for p in target.iterdir()) == [f"queries.{kind}", f"tools.{kind}"]


def test_a_failed_save_leaves_nothing_half_written(tmp_path, monkeypatch):
    data = jsonl.load(folder(tmp_path / "in"))

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(json, "dumps", full)
    fault(lambda: jsonl.save(data, tmp_path / "out"), what="No space left", where=str(tmp_path / "out"))
    assert list((tmp_path / "out").iterdir()) == []
