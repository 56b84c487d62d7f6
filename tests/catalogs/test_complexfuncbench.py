from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from catalog_files import fault, shared, write_json, write_jsonl

from toolsavvy import assets, unpacking
from toolsavvy.catalogs import complexfuncbench
from toolsavvy.catalogs.reading import read_jsonl

SPEC = [
    {
        "name": "Find",
        "description": "Find a place",
        "host": "travel.example",
        "query_parameters": {"query": {"type": "string", "required": True, "enum": [], "default": None}},
        "output_parameters": {"id": {"type": "string"}},
    },
    {
        "name": "Book",
        "description": "Book it",
        "query_parameters": {
            "place": {"type": "string", "required": True, "enum": []},
            "latitude": {"type": "number", "required": False},
            "legs": {"type": "array", "required": False},
        },
    },
]
PLACES = [{"id": "MIA.CITY", "where": {"latitude": 25.5}}, {"id": "other"}]


def call(name: str, label: str, response: Any, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "label": label, "arguments": arguments, "errors": [], "response": response}


def record(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"input": "  Book a room in Miami.", "output": list(calls), "var_result": {}, **more}


def make(path: Path, *rows: dict[str, Any]) -> Path:
    write_json(path / "deep" / "complexfuncbench-spec.json", SPEC)
    write_json(path / "deep" / "complexfuncbench-data.json", list(rows))
    return path


def two(**arguments: Any) -> dict[str, Any]:
    return record(call("Find", "var1", PLACES, query="Miami"), call("Book", "var2", {"ok": True}, **arguments))


def test_references_become_the_values_that_came_back(tmp_path: Path) -> None:
    data = complexfuncbench.load(make(tmp_path, two(place="$var1.id$", latitude="$var1.where.latitude$")))
    first, second = data.tasks.calls
    assert second.reference.arguments == {"place": "MIA.CITY", "latitude": 25.5}
    assert (second.id, second.cluster, second.instruction) == (
        "complexfuncbench_0/1", "complexfuncbench_0", "Book a room in Miami.",
    )  # fmt: skip
    assert [(u.name, u.label, u.output) for u in second.upstream] == [("Find", "var1", PLACES)]
    assert (first.upstream, first.flags, second.flags) == ((), (), ())
    assert (first.level, second.level) == ("L1", "L3")
    assert dict(data.tasks.audit) == {"references_resolved": 2}
    assert data.splits["test"][0].relevant == {"Find": 1, "Book": 1}


def test_what_leads_nowhere_or_breaks_the_schema_is_kept_and_counted(tmp_path: Path) -> None:
    odd = two(place="$var9.id$", latitude="25.5", legs=[{"fromId": "MIA.CITY"}], extra=1)
    task = complexfuncbench.load(make(tmp_path, odd)).tasks.calls[1]
    assert task.reference.arguments["place"] == "$var9.id$"
    assert task.reference.arguments["legs"] == [{"fromId": "MIA.CITY"}]
    assert task.flags == ("reference_violates_schema",)
    audit = complexfuncbench.load(make(tmp_path, odd)).tasks.audit
    assert audit["references_that_lead_nowhere"] == 1
    assert audit["arguments_outside_the_schema"] == 1
    assert audit["numbers_and_truth_values_as_text"] == 1


def test_long_results_keep_what_later_calls_send(tmp_path: Path) -> None:
    long, needed = "x" * 500, "n" * 80
    result = [{"id": f"id-{i:04}", "text": long, "token": needed if i == 70 else "t"} for i in range(100)]
    row = record(call("Find", "var1", result, query="Miami"), call("Book", "var2", {}, place=needed))
    short = complexfuncbench.load(make(tmp_path, row))
    output = short.tasks.calls[1].upstream[0].output
    assert [item["id"] for item in output] == ["id-0000", "id-0070"]
    assert output[1]["token"] == needed
    assert len(output[0]["text"]) < 100
    assert short.tasks.audit["results_shortened"] == 1
    whole = complexfuncbench.load(tmp_path, result_length=None)
    assert whole.tasks.calls[1].upstream[0].output == result


def test_faults_are_told(tmp_path: Path) -> None:
    fault(lambda: complexfuncbench.load(None, wheel=None), what="not set", where="catalog.path")
    fault(lambda: complexfuncbench.load(tmp_path), what="no spec.json", where="catalog.path", expected="spec.json")
    make(tmp_path, {"input": "x", "output": [{"name": "Find", "arguments": "{}"}]})
    fault(lambda: complexfuncbench.load(tmp_path), what="text", where="record 1, field 'output[0]'", expected="object")
    make(tmp_path, {"input": " ", "output": []})
    fault(lambda: complexfuncbench.load(tmp_path), what="empty", where="record 1, field 'input'")


def test_the_wheel_is_read_where_no_path_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, two(place="$var1.id$"))
    asked = []

    def extract(wheel: assets.Wheel, folder: str) -> Path:
        asked.append((wheel.name, wheel.version, folder))
        return tmp_path

    monkeypatch.setattr(unpacking, "extract", extract)
    assert len(complexfuncbench.load().tasks.calls) == 2
    assert asked == [("nestful-wrapper", "0.1.7", "data_v1/complexfuncbench")]


def test_our_resolution_is_that_of_the_real_set(tmp_path: Path) -> None:
    folder = shared("complexfuncbench")
    rows = [dict(row.value) for row in read_jsonl(folder / "data_1.jsonl")][:150]
    write_json(tmp_path / "spec.json", json.loads((folder / "spec.json").read_text(encoding="utf-8")))
    write_jsonl(tmp_path / "data.jsonl", rows)
    given = complexfuncbench.load(tmp_path)
    for row in rows:
        for one in row["output"]:
            one.pop("arguments_resolved")
    write_jsonl(tmp_path / "data.jsonl", rows)
    ours = complexfuncbench.load(tmp_path)
    assert [t.reference.arguments for t in ours.tasks.calls] == [t.reference.arguments for t in given.tasks.calls]
    assert ours.tasks.audit["references_resolved"] == given.tasks.audit["references_resolved"] > 300
    assert "references_that_lead_nowhere" not in ours.tasks.audit


def test_the_real_set() -> None:
    data = complexfuncbench.load(shared("complexfuncbench"))
    assert (len(data.catalog), len(data.splits["test"]), len(data.tasks.calls)) == (40, 1000, 5070)
    assert data.tasks.audit["references_resolved"] == 3068
    assert data.tasks.audit["arguments_outside_the_schema"] == 2
    odd_types = ("other_values_of_another_type", "numbers_and_truth_values_as_text", "lists_and_objects_for_scalars")
    assert sum(data.tasks.audit.get(key, 0) for key in odd_types) == 3
    assert all(u.output is not None for t in data.tasks.calls for u in t.upstream)
