from __future__ import annotations

import pytest
from catalog_files import fault, shared, write_jsonl, write_text

from toolsavvy.catalogs import beir

FLAT = (
    "category_name:Food, tool_name:Worldwide, Recipes, api_name:Suggest, api_description:Get, well, some., "
    'required_params: [{"name": "q", "type": "STRING", "description": "a, b"}], optional_params: [], '
    'return_schema: {"ok": "bool"}'
)


def make(path, qrels="1\t7\t1\n", corpus=None, queries=None, name="test"):
    write_jsonl(path / "corpus.jsonl", corpus or [{"_id": "7", "title": "T", "text": "Text.", "metadata": {}}])
    write_jsonl(path / "queries.jsonl", queries or [{"_id": "1", "text": "one"}, {"_id": "2", "text": "two"}])
    write_text(path / "qrels" / f"{name}.tsv", "query-id\tcorpus-id\tscore\n" + qrels)
    return path


def test_a_plain_folder(tmp_path):
    data = beir.load(make(tmp_path, "1\t7\t2\r\n", name="dev"))
    (tool,) = data.catalog.tools
    assert (tool.id, tool.name, tool.description) == ("7", "T", "Text.")
    (query,) = data.validation
    assert (query.id, query.text, query.relevant) == ("1", "one", {"7": 2})
    assert data.audit["source"]["queries_without_qrels"] == 1


def test_toollens_text_is_taken_apart(tmp_path):
    corpus = [{"_id": "7", "title": "", "text": FLAT}, {"_id": "8", "title": "", "text": "something else"}]
    data = beir.load(make(tmp_path, corpus=corpus), layout="toollens")
    tool, other = data.catalog.tools
    assert (tool.name, tool.group, tool.category) == ("Suggest", "Worldwide, Recipes", "Food")
    assert tool.description == "Get, well, some."
    schema = {"type": "object", "properties": {"q": {"type": "string", "description": "a, b"}}, "required": ["q"]}
    assert tool.parameters == schema
    assert tool.returns == {"ok": "bool"}
    assert (other.name, other.description) == ("", "something else")
    assert data.audit["source"]["not_in_the_flat_layout"] == 1


@pytest.mark.parametrize(
    ("qrels", "what", "where", "expected"),
    [
        ("1\t7\t1\n1\t8\t1\n", "unknown tool '8'", "line 3, field 'corpus-id'", "one of the 1 tools"),
        ("9\t7\t1\n", "unknown query '9'", "line 2, field 'query-id'", "an _id of queries.jsonl"),
        ("1\t7\thigh\n", "'high' is no whole number", "line 2, field 'score'", "0, 1, 2"),
        ("2\t7\t1\n1\t7\t0\n", "query '1' has no gold tool", "line 3, field 'score'", "above 0"),
        ("1\t7\n", "2 columns", "line 2", "3: query-id, corpus-id, score"),
    ],
)
def test_bad_qrels(tmp_path, qrels, what, where, expected):
    make(tmp_path, qrels)
    fault(lambda: beir.load(tmp_path), what=what, where=f"test.tsv, {where}", expected=expected)


def test_numbers_as_ids_and_other_faults(tmp_path):
    make(tmp_path, corpus=[{"_id": 7, "title": "T"}])
    fault(lambda: beir.load(tmp_path), what="a number (7)", where="corpus.jsonl, line 1, field '_id'", expected="text")
    make(tmp_path, queries=[{"_id": "1", "text": "a"}, {"_id": "1", "text": "b"}])
    fault(lambda: beir.load(tmp_path), what="'1' occurs twice", where="queries.jsonl, line 2, field '_id'")
    make(tmp_path, corpus=[{"_id": "7", "title": "", "text": " "}])
    fault(lambda: beir.load(tmp_path), what="no text", where="corpus.jsonl, line 1", expected="a name or a description")
    fault(lambda: beir.load(tmp_path, layout="tool"), what="tool", where="catalog.layout", expected="plain or toollens")


def test_real_data():
    data = beir.load(shared("toollens"), layout="toollens", validation_share=0.1)
    assert len(data.catalog) == 464
    assert {s: len(q) for s, q in data.splits.items()} == {"train": 2700, "validation": 300, "test": 1877}
    for split, queries in (("test", data.splits["test"]), ("train", (*data.train, *data.validation))):
        rows = (shared("toollens") / "qrels" / f"{split}.tsv").read_text().splitlines()[1:]
        assert {(q.id, tool) for q in queries for tool in q.relevant} == {tuple(row.split("\t")[:2]) for row in rows}
    assert data.audit["source"]["repeated_judgements"] > 0
    assert data.audit["source"].get("not_in_the_flat_layout", 0) == 0
    assert all(t.id.isdigit() and t.name and t.group for t in data.catalog.tools)
