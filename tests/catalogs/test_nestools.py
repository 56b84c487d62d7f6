from __future__ import annotations

from pathlib import Path
from typing import Any

from catalog_files import fault, shared, write_jsonl

from toolsavvy.catalogs import nestools


def api(name: str, parameters: dict[str, str], responses: list[str], text: str = "does it") -> dict[str, Any]:
    return {
        "api_name": name,
        "api_description": text,
        "parameters": {key: {"type": kind, "description": key} for key, kind in parameters.items()},
        "required": list(parameters),
        "responses": {key: {"type": "str", "description": key} for key in responses},
    }


def call(name: str, responses: list[str], **parameters: Any) -> dict[str, Any]:
    return {"api_name": name, "parameters": parameters, "responses": responses}


SCAN = api("scan", {"isbn": "str"}, ["details", "count"])
SHOW = api("show", {"number": "int", "items": "list"}, [])
CALLS = (
    call("scan", ["API_call_0", "API_call_1"], isbn="978-3"),
    call("show", [], number="API_call_1", items=["API_call_0", "more"]),
)


def row(key: int, apis: list[dict[str, Any]], calls: tuple[dict[str, Any], ...] = CALLS) -> dict[str, Any]:
    return {"test_id": key, "api": apis, "task": "Scan and show.", "call": list(calls), "field": "Books/Shops"}


def test_labels_of_results_are_shown_and_known(tmp_path: Path) -> None:
    data = nestools.load(write_jsonl(tmp_path / "test_data.jsonl", [row(7, [SCAN, SHOW])]))
    first, second = data.tasks.calls
    assert (first.flags, second.flags) == ((), ("symbolic_reference",))
    assert second.upstream[0].output == {"details": "API_call_0", "count": "API_call_1"}
    assert second.reference.arguments == {"number": "API_call_1", "items": ["API_call_0", "more"]}
    assert dict(data.tasks.audit) == {"arguments_that_name_a_result": 2}
    assert (first.id, first.category, data.catalog.tools[0].group) == ("nestools-7/0", "Books", "Shops")
    assert (first.level, second.level) == ("L1", "L2")


def test_a_label_is_a_whole_word_of_an_earlier_call(tmp_path: Path) -> None:
    calls = (
        CALLS[0],
        call("show", [], number="API_call_10", items=[]),
        call("show", [], number=1, items=["x API_call_1"]),
    )
    data = nestools.load(write_jsonl(tmp_path / "a.jsonl", [row(1, [SCAN, SHOW], calls)]))
    assert [t.flags for t in data.tasks.calls[1:]] == [("reference_violates_schema",), ("symbolic_reference",)]
    assert data.tasks.audit["arguments_that_name_no_earlier_result"] == 1


def test_records_that_define_a_name_otherwise_keep_their_own_tool(tmp_path: Path) -> None:
    other = api("scan", {"isbn": "str", "page": "int"}, ["details"])
    rows = [row(1, [SCAN, SHOW]), row(2, [other, SHOW], CALLS[:1]), row(3, [SCAN, SCAN], CALLS[:1])]
    data = nestools.load(write_jsonl(tmp_path / "a.jsonl", rows))
    assert [tool.id for tool in data.catalog.tools] == ["scan", "show", "scan~2"]
    assert [q.relevant for q in data.splits["test"]] == [{"scan": 1, "show": 1}, {"scan~2": 1}, {"scan": 1}]
    assert data.tasks.calls[2].flags == ("reference_violates_schema",)
    assert data.tasks.calls[2].tool.name == data.tasks.calls[2].reference.name == "scan"
    assert data.tasks.audit["required_arguments_missing"] == 1
    assert (data.audit["source"]["names_with_another_definition"], data.audit["source"]["tools_offered_twice"]) == (
        1,
        1,
    )


def test_faults_are_told(tmp_path: Path) -> None:
    fault(lambda: nestools.load(None), what="not set", where="catalog.path")
    fault(lambda: nestools.load(tmp_path), what="holds no such file", where="catalog.path", expected="*.jsonl")
    path = write_jsonl(tmp_path / "a.jsonl", [row(1, [SCAN]), row(2, [{**SCAN, "parameters": []}])])
    fault(lambda: nestools.load(path), what="a list", where="line 2, field 'api[0]', field 'parameters'")
    write_jsonl(path, [{**row(1, [SCAN]), "call": [{"parameters": {}}]}])
    fault(lambda: nestools.load(path), what="missing", where="line 1, field 'call[0]', field 'api_name'")


def test_the_real_set() -> None:
    data = nestools.load(shared("nestools"))
    assert (len(data.splits["test"]), len(data.tasks.calls)) == (1000, 3036)
    assert data.tasks.audit["arguments_that_name_a_result"] == 1739 + 7
    assert "arguments_that_name_no_earlier_result" not in data.tasks.audit
    assert "calls_of_unknown_tools" not in data.tasks.audit
