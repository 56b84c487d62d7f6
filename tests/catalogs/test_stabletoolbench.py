from __future__ import annotations

import json
import time

import pytest
from catalog_files import fault, shared, write_json, write_jsonl

from toolsavvy.catalogs import stabletoolbench


def api(tool="Shop", name="Get Order", **changes):
    return {
        "category_name": "Commerce",
        "tool_name": tool,
        "api_name": name,
        "api_description": "Fetch one order",
        "required_parameters": [{"name": "orderId", "type": "NUMBER", "description": "its number", "default": "7"}],
        "optional_parameters": [{"name": "day", "type": "DATE (YYYY-MM-DD)", "description": "", "default": ""}],
        "method": "GET",
        **changes,
    }


def row(number=1, golds=(("Shop", "Get Order"),), apis=None, **changes):
    golds = [list(g) for g in golds]
    return {
        "api_list": apis or [api()],
        "query": f"query {number}",
        "query_id": number,
        "relevant APIs": golds,
        **changes,
    }


def make(path, rows, catalog=None):
    write_json(path / "test_instruction" / "G1_category.json", rows)
    if catalog is not None:
        write_jsonl(path / "catalog.jsonl", catalog)
    return path


def test_an_api_becomes_a_tool_with_a_json_schema(tmp_path):
    data = stabletoolbench.load(make(tmp_path, [row()]))
    (tool,) = data.catalog.tools
    assert tool.id == "Shop&&Get Order"
    assert (tool.name, tool.group, tool.category, tool.description) == (
        "Get Order",
        "Shop",
        "Commerce",
        "Fetch one order",
    )
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "orderId": {"type": "number", "description": "its number", "default": "7"},
            "day": {"type": "string", "format": "date"},
        },
        "required": ["orderId"],
    }
    (query,) = data.splits["test"]
    assert (query.id, query.subset, query.relevant) == ("1", "G1_category", {"Shop&&Get Order": 1})
    assert data.headline == ("test",)


def test_oddities_of_the_source_are_tolerated_and_counted(tmp_path):
    twice = [("Shop", "Get Order"), ("Shop", "Get Order")]
    blank = api(name="Blank", api_description=" ", required_parameters=[], optional_parameters=[])
    rows = [row(1, twice, [api(category_name="Other"), blank])]
    data = stabletoolbench.load(make(tmp_path, rows, [api(), api(" Shop ", "Get Order")]))
    assert [t.id for t in data.catalog.tools] == ["Shop&&Get Order", " Shop &&Get Order", "Shop&&Blank"]
    assert data.catalog.tools[0].category == "Commerce"
    source = data.audit["source"]
    assert source["duplicate_relevant"] == 1
    assert source["repeats_with_another_category"] == 1
    assert source["blank_descriptions"] == 1
    assert data.audit["id_collisions"] == 2


BAD = [
    (row(golds=[("Shop", "No Such")]), "unknown tool 'Shop&&No Such'", "record 1, field 'relevant APIs'", "tools"),
    (row(golds=[]), "no gold", "record 1, field 'relevant APIs'", "at least one"),
    (row(golds=[("Shop",)]), "no pair", "record 1, field 'relevant APIs'", "[tool_name, api_name]"),
    (row(query=""), "empty", "record 1, field 'query'", "text"),
    (row(query_id=None), "missing", "record 1, field 'query_id'", "a number or text"),
    (row(apis=[api(api_name=None)]), "missing", "record 1, api 1, field 'api_name'", "text"),
    (row(apis=[api(required_parameters={})]), "an object", "record 1, api 1, field 'required_parameters'", "a list"),
]


@pytest.mark.parametrize(("bad", "what", "where", "expected"), BAD)
def test_bad_records(tmp_path, bad, what, where, expected):
    make(tmp_path, [bad])
    fault(lambda: stabletoolbench.load(tmp_path), what=what, where=f"G1_category.json, {where}", expected=expected)


def test_a_folder_without_queries(tmp_path):
    fault(lambda: stabletoolbench.load(tmp_path), what="no such file", where="catalog.path", expected="G*.json")


def test_real_data():
    folder = shared("stabletoolbench")
    start = time.process_time()
    data = stabletoolbench.load(folder)
    assert time.process_time() - start < 2
    queries = data.splits["test"]
    assert (len(data.catalog), len({t.group for t in data.catalog.tools}), len(queries)) == (2479, 811, 617)
    subsets = {f.stem: len(json.loads(f.read_text())) for f in sorted((folder / "test_instruction").glob("*.json"))}
    assert {s: sum(q.subset == s for q in queries) for s in subsets} == subsets
    assert len({q.id for q in queries}) == 617
    assert data.audit["source"]["duplicate_relevant"] > 0
    drawn = stabletoolbench.load(folder, train_share=0.5, validation_share=0.1)
    golds = {split: {t for q in rows for t in q.relevant} for split, rows in drawn.splits.items()}
    assert abs(len(drawn.train) - 308) < 10
    assert not golds["train"] & golds["test"]
    assert not golds["validation"] & (golds["train"] | golds["test"])
