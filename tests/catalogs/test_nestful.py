from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from catalog_files import fault, shared, write_json

from toolsavvy import assets, unpacking
from toolsavvy.catalogs import nestful

FIND = {
    "name": "Find",
    "description": "Find a place",
    "host": "places.example",
    "query_parameters": {
        "query": {"type": "String", "required": True},
        "limit": {"type": "Number", "default": 10},
        "kind": {"type": "Enum", "allowed_values": ["a", "b"]},
        "day": {"type": "Date (yyyy-mm-dd)", "required": False},
    },
    "path_parameters": {"id": {"type": "string", "required": True}},
    "output_parameters": {"place": {"type": "object"}},
}
BUY = {
    "name": "Shop.Buy",
    "description": "Buy it",
    "arguments": {
        "what": {"required": True, "allowed_values": []},
        "count": {"default_value": "1", "possible_values": ["1", "2"]},
    },
    "output_parameters": {},
}


def record(*calls: dict[str, Any], text: str = " Find and buy.") -> dict[str, Any]:
    return {"input": text, "output": [*calls, {"name": "var_result", "arguments": {"x": "$var1$"}}]}


def call(name: str, label: str = "var1", **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, "label": label}


def make(path: Path, rows: list[dict[str, Any]], specs: list[dict[str, Any]] | None = None) -> Path:
    write_json(path / "deep" / "executable-data.json", rows)
    write_json(path / "executable-spec.json", specs or [FIND, BUY])
    return path


def load(path: Path) -> Any:
    return nestful.load(path, kinds=["executable"])


def test_functions_become_tools_whatever_their_parameters_stand_under(tmp_path: Path) -> None:
    data = load(make(tmp_path, [record(call("Find", query="x", id="1"))]))
    find, buy = data.catalog.tools
    assert find.parameters == {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "number", "default": 10},
            "kind": {"type": "string", "enum": ["a", "b"]},
            "day": {"type": "string"},
            "id": {"type": "string"},
        },
        "required": ["query", "id"],
    }
    assert buy.parameters["properties"] == {"what": {}, "count": {"enum": ["1", "2"], "default": "1"}}
    assert (find.group, buy.group, buy.category) == ("places.example", "Shop", "executable")
    assert data.audit["source"]["parameters_without_a_type"] == 2


def test_a_task_a_call_with_the_calls_before_it(tmp_path: Path) -> None:
    rows = [record(call("Find", "var1", query="x", id="1"), call("Shop.Buy", "var2", what="$var1.place.name$"))]
    data = load(make(tmp_path, rows))
    one, two = data.tasks.calls
    assert (one.id, two.id, two.cluster, two.instruction) == (
        "executable-0/0",
        "executable-0/1",
        "executable-0",
        "Find and buy.",
    )
    assert (one.upstream, one.flags) == ((), ())
    assert [(u.name, u.label, u.output) for u in two.upstream] == [("Find", "var1", None)]
    assert two.reference.arguments == {"what": "$var1.place.name$"}
    assert two.flags == ("symbolic_reference",)
    assert (one.level, two.level) == ("L1", "L2")
    assert [q.relevant for q in data.splits["test"]] == [{"Find": 1, "Shop.Buy": 1}]


def test_what_is_odd_is_kept_and_counted(tmp_path: Path) -> None:
    rows = [
        record(
            call("Gone", "var1", a=1),
            call("Find", "var1", query=3, id="1"),
            call("Find", "", extra=1, id="$var7.x$"),
        )
    ]
    data = load(make(tmp_path, rows, [FIND, BUY, {**BUY, "description": "again"}]))
    assert [t.id for t in data.tasks.calls] == ["executable-0/1", "executable-0/2"]
    assert all("reference_violates_schema" in t.flags for t in data.tasks.calls)
    assert data.tasks.calls[0].upstream[0].name == "Gone"
    assert dict(data.tasks.audit) == {
        "records_that_repeat_a_label": 1,
        "calls_without_a_label": 1,
        "calls_of_unknown_tools": 1,
        "arguments_that_name_no_earlier_result": 1,
        "arguments_outside_the_schema": 1,
        "required_arguments_missing": 1,
        "other_values_of_another_type": 1,
        "references_that_violate_their_schema": 2,
    }
    assert data.audit["source"]["functions_specified_again"] == 1
    assert data.catalog.tools[1].description == "Buy it"
    assert data.splits["test"][0].absent == {"Gone": 1}


def test_faults_are_told(tmp_path: Path) -> None:
    fault(
        lambda: nestful.load(None, wheel=None),
        what="not set",
        where="catalog.path",
        expected="NESTFUL",
        fix="catalog.path",
    )
    fault(lambda: nestful.load(tmp_path), what="holds 0 files executable-spec.json", where="catalog.path")
    make(tmp_path, [record(call("Find", query="x"))])
    fault(lambda: nestful.load(tmp_path, kinds=["glave"]), what="'glave'", where="catalog.kinds", expected="glaive")
    write_json(tmp_path / "twice" / "executable-spec.json", [FIND])
    fault(lambda: load(tmp_path), what="holds 2 files", where="catalog.path", fix="one version")
    (tmp_path / "twice" / "executable-spec.json").unlink()
    make(tmp_path, [{"input": "x", "output": [{"name": "Find", "arguments": "{}"}]}])
    fault(lambda: load(tmp_path), what="text", where="record 1, field 'output[0]'", expected="an object")
    fault(lambda: load(tmp_path / "executable-spec.json"), what="is a file", where="catalog.path", fix="wheel")
    with pytest.raises(Exception, match="not pinned"):
        nestful.load(wheel="nestful-wrapper==9")


def test_both_published_versions() -> None:
    folder = shared("nestful")
    cleaned = nestful.load(folder / "cleaned_wheel_0.1.7")
    released = nestful.load(folder / "ibm_repo")
    assert cleaned.tasks is not None
    assert released.tasks is not None
    assert len(cleaned.splits["test"]) == len(released.splits["test"]) == 239
    assert {t.category for t in cleaned.tasks.calls} == set(nestful.KINDS)
    assert "calls_of_unknown_tools" not in cleaned.tasks.audit
    assert cleaned.tasks.audit["arguments_outside_the_schema"] == 1
    assert cleaned.tasks.audit["required_arguments_missing"] == 2
    assert cleaned.tasks.audit["records_that_repeat_a_label"] == 3
    assert released.tasks.audit["records_that_repeat_a_label"] == 4
    assert released.tasks.audit["calls_of_unknown_tools"] > 5
    assert released.audit["source"]["functions_specified_again"] == 6


def test_the_wheel_is_read_where_no_path_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "data_v1" / "executable", [record(call("Find", query="x", id="1"))])
    asked = []

    def extract(wheel: assets.Wheel, folder: str) -> Path:
        asked.append((wheel.name, wheel.version, folder))
        return tmp_path / folder

    monkeypatch.setattr(unpacking, "extract", extract)
    data = nestful.load(kinds=["executable"])
    assert data.tasks is not None
    assert len(data.tasks.calls) == 1
    assert asked == [("nestful-wrapper", "0.1.7", f"data_v1/{n}executable") for n in ("", "non-")]
