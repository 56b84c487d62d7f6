from __future__ import annotations

import pytest
from catalog_files import fault, shared, write_json, write_jsonl

from toolsavvy.catalogs import functions

BARE = {
    "name": "math.add",
    "description": "Adds.",
    "parameters": {"type": "dict", "properties": {"a": {"type": "float"}}},
}
WRAPPED = {"type": "function", "function": BARE}


@pytest.mark.parametrize("value", [[BARE], [WRAPPED], {"tools": [WRAPPED]}, {"functions": [BARE]}, BARE, WRAPPED])
def test_every_form_gives_the_same_tool(tmp_path, value):
    (tool,) = functions.load(write_json(tmp_path / "f.json", value)).catalog.tools
    assert (tool.id, tool.name, tool.description, tool.group) == ("math.add", "math.add", "Adds.", "f")
    assert tool.parameters == BARE["parameters"]


def test_one_function_a_line_under_a_json_name(tmp_path):
    path = write_jsonl(tmp_path / "f.json", [BARE, {**BARE, "name": "math.sub"}])
    assert [t.id for t in functions.load(path).catalog.tools] == ["math.add", "math.sub"]
    (tmp_path / "f.json").write_text('{"name": "a"}\n{"name": "b"\n')
    fault(lambda: functions.load(path), what="broken JSON", where="f.json, line 2")


def test_other_forms(tmp_path):
    flat = {"type": "function", **BARE}
    foreign = {"name": "b", "input_schema": {"type": "object"}}
    data = functions.load(write_json(tmp_path / "f.json", [flat, foreign, {"type": "web_search"}]))
    assert [t.id for t in data.catalog.tools] == ["math.add", "b"]
    assert data.catalog.tools[1].parameters == {"type": "object"}
    assert data.audit["source"]["other_tool_types"] == 1


@pytest.mark.parametrize(
    ("value", "what", "where", "expected", "fix"),
    [
        ([WRAPPED, WRAPPED], "occurs twice", "function 2, field 'name'", "unique ids", "its own id"),
        ([{"type": "function", "function": {}}], "missing", "function 1, field 'function', field 'name'", "text", ""),
        ([{"type": "function", "function": None}], "missing", "function 1, field 'function'", "an object", ""),
        ([{**BARE, "description": 4}], "a number (4)", "function 1, field 'description'", "text", '"4"'),
        ([], "empty", "f.json", "at least one", ""),
        ([[]], "a list", "f.json, function 1", "an object", ""),
        ([{"type": "web_search"}], "no tool", "catalog functions", "at least one tool", "catalog.path"),
    ],
)
def test_bad_lists(tmp_path, value, what, where, expected, fix):
    path = write_json(tmp_path / "f.json", value)
    fault(lambda: functions.load(path), what=what, where=where, expected=expected, fix=fix)


def test_real_data():
    folder = shared("bfcl") / "multi_turn_func_doc"
    lines = [line for file in folder.glob("*.json") for line in file.read_text().splitlines() if line.strip()]
    data = functions.load(folder, qualify=True)
    assert len(data.catalog) == len(lines) > 100
    assert len({t.group for t in data.catalog.tools}) == len(list(folder.glob("*.json")))
    # The retail and airline tools of tau-bench share three names in one file.
    path = shared("tau_bench") / "tools.json"
    fault(lambda: functions.load(path), what="'calculate' occurs twice", where="tools.json, function 18", fix="own id")
