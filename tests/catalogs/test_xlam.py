from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from catalog_files import fault, write_json, write_jsonl

from toolsavvy.catalogs import xlam

GIVEAWAYS = {
    "name": "live_giveaways",
    "description": "Live giveaways by kind.",
    "parameters": {
        "kind": {"description": "Which ones.", "type": "str, optional", "default": "game"},
        "most": {"description": "How many.", "type": "int"},
        "near": {"description": "Where.", "type": "List[Union[int, float]]", "default": ""},
    },
}
SCHEMA = {
    "name": "plain",
    "description": "JSON Schema.",
    "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}},
}


def row(key: int, tools: list[Any], *answers: tuple[str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    calls = [{"name": name, "arguments": arguments} for name, arguments in answers]
    return {"id": key, "query": f"Ask {key} ", "answers": json.dumps(calls), "tools": json.dumps(tools), **more}


def test_records_become_tools_and_tasks(tmp_path: Path) -> None:
    rows = [row(0, [GIVEAWAYS, SCHEMA], ("live_giveaways", {"most": 3, "kind": "beta"}), ("plain", {"x": 1}))]
    data = xlam.load(write_json(tmp_path / "xlam.json", rows))
    giveaways, plain = data.catalog.tools
    assert giveaways.parameters["properties"] == {
        "kind": {"type": "string", "description": "Which ones.", "default": "game"},
        "most": {"type": "integer", "description": "How many."},
        "near": {
            "type": "array",
            "items": {"anyOf": [{"type": "integer"}, {"type": "number"}]},
            "description": "Where.",
        },
    }
    assert giveaways.parameters["required"] == ["most"]
    assert plain.parameters == SCHEMA["parameters"]
    first, second = data.tasks.calls
    assert (first.id, first.cluster, first.instruction, first.category) == ("xlam-0/0", "xlam-0", "Ask 0", "parallel")
    assert [(u.name, u.output) for u in second.upstream] == [("live_giveaways", None)]
    assert first.flags == second.flags == ()
    assert data.splits["test"][0].relevant == {"live_giveaways": 1, "plain": 1}


def test_oddities_are_kept_and_counted(tmp_path: Path) -> None:
    other = {**SCHEMA, "description": "Another one."}
    rows = [
        row(0, [SCHEMA, SCHEMA], ("plain", {"x": "1"})),
        row(1, [other], ("plain", {"x": 1}), ("gone", {})),
        {**row(2, [SCHEMA]), "tools": [SCHEMA], "answers": []},
        row(3, [GIVEAWAYS], ("live_giveaways", {"kind": "x"})),
    ]
    data = xlam.load(write_jsonl(tmp_path / "xlam.jsonl", rows))
    assert [tool.id for tool in data.catalog.tools] == ["plain", "plain~2", "live_giveaways"]
    violates = ("reference_violates_schema",)
    assert [t.flags for t in data.tasks.calls] == [violates, (), violates]
    assert dict(data.tasks.audit) == {
        "records_without_a_call": 1,
        "calls_of_unknown_tools": 1,
        "numbers_and_truth_values_as_text": 1,
        "required_arguments_missing": 1,
        "references_that_violate_their_schema": 2,
    }
    assert data.splits["test"][1].absent == {"gone": 1}
    assert len(xlam.load(tmp_path, records=1).tasks.calls) == 1


def test_faults_are_told(tmp_path: Path) -> None:
    fault(lambda: xlam.load(tmp_path), what="holds no such file", where="catalog.path", expected="*.json")
    fault(lambda: xlam.load(tmp_path, records=0), what="0 records", where="catalog.records", expected="null")
    path = tmp_path / "xlam.jsonl"
    good = row(0, [SCHEMA], ("plain", {"x": 1}))
    for field, value, what in (
        ("tools", "[{", "broken JSON"),
        ("answers", "{}", "instead of a list"),
        ("answers", 3, "a number"),
        ("query", "", "empty"),
    ):
        write_jsonl(path, [good, {**good, field: value}])
        fault(lambda: xlam.load(path), what=what, where=f"line 2, field '{field}'")
    write_jsonl(path, [row(0, [{**SCHEMA, "parameters": {"x": {"type": 3}}}])])
    fault(lambda: xlam.load(path), what="a number", where="line 1, field 'tools', element 0, field 'parameters.x'")
    write_jsonl(path, [{**good, "answers": json.dumps([{"name": "plain", "arguments": "{}"}])}])
    fault(
        lambda: xlam.load(path), what="text", where="field 'answers', element 0, field 'arguments'", expected="object"
    )
