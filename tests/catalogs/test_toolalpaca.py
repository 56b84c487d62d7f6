from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from catalog_files import fault, shared, write_json

from toolsavvy.catalogs import toolalpaca

ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
SPEC = {
    "openapi": "3.0.0",
    "info": {"title": "Pets"},
    "paths": {
        "/pets/search": {
            "get": {
                "operationId": "searchPets",
                "description": "Find pets",
                "parameters": [
                    {"name": "kind", "in": "query", "schema": {"type": "string"}},
                    {"name": "limit", "in": "query", "schema": {"type": "integer"}},
                    {"name": "tags", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                ],
            }
        },
        "/pets/{id}": {"get": {"parameters": [ID]}},
    },
}  # fmt: skip


def make(path: Path, *answers: list[tuple[str, str]], **more: Any) -> Path:
    record = {
        "Name": "Pets",
        "Description": "All about pets",
        "Category": "Animals",
        "Documentation": json.dumps(SPEC),
        "Function_Description": {"searchPets": "Find", "pets_id_get": "Get", "components": ""},
        "Instructions": [f"Do {i}" for i in range(len(answers))],
        "Golden_Answers": [[{"Action": a, "Action_Input": i} for a, i in calls] for calls in answers],
        **more,
    }
    write_json(path / "eval_real.json", [record])
    return path


def test_operations_are_tools_by_the_names_of_the_source(tmp_path: Path) -> None:
    data = toolalpaca.load(make(tmp_path, [("searchPets", '{"kind": "cat"}'), ("pets_id_get", '{"id": 3}')]))
    assert [(t.id, t.name, t.description) for t in data.catalog.tools] == [
        ("Pets/searchPets", "searchPets", "Find pets"),
        ("Pets/pets_id_get", "pets_id_get", "All about pets"),
    ]
    first, second = data.tasks.calls
    assert (first.id, second.cluster, second.category) == ("Pets/0/0", "Pets/0", "real")
    assert [(u.name, u.output) for u in second.upstream] == [("searchPets", None)]
    assert data.splits["test"][0].relevant == {"Pets/searchPets": 1, "Pets/pets_id_get": 1}
    assert dict(data.tasks.audit) == {}


@pytest.mark.parametrize(
    ("text", "arguments", "flags"),
    [
        ('{"id": ${id of it}}', {"id": "${id of it}"}, {"reference_mended", "reference_holds_placeholders"}),
        ('{"id": ${id from search, "x": 1}', {"id": "${id from search}", "x": 1},
         {"reference_mended", "reference_holds_placeholders", "reference_violates_schema"}),
        ('{"id": ${start}", "x": 1}', {"id": "${start}", "x": 1},
         {"reference_mended", "reference_holds_placeholders", "reference_violates_schema"}),
        ('{"id": "id": 4}', {"id": 4}, {"reference_mended"}),
        ('{"id": "{some id}"}', {"id": "{some id}"}, {"reference_holds_placeholders"}),
        ('{"id": "4"}', {"id": "4"}, {"reference_violates_schema"}),
    ],
)  # fmt: skip
def test_broken_references_are_mended_and_flagged(
    tmp_path: Path, text: str, arguments: dict[str, Any], flags: set[str]
) -> None:
    (task,) = toolalpaca.load(make(tmp_path, [("pets_id_get", text)])).tasks.calls
    assert (task.reference.arguments, set(task.flags)) == (arguments, flags)


def test_placeholders_in_lists_are_found(tmp_path: Path) -> None:
    (task,) = toolalpaca.load(make(tmp_path, [("searchPets", '{"tags": [${some tag}]}')])).tasks.calls
    assert task.reference.arguments == {"tags": ["${some tag}"]}
    assert "reference_holds_placeholders" in task.flags


def test_what_is_no_call_is_context_alone(tmp_path: Path) -> None:
    calls = [("getDetails", '{"Question": "Which?"}'), ("searchPets", "what?"), ("[Optional]pets_id_get", '{"id": 1}')]
    data = toolalpaca.load(make(tmp_path, calls, []))
    (task,) = data.tasks.calls
    assert [u.name for u in task.upstream] == ["getDetails", "searchPets"]
    assert task.flags == ("optional_call",)
    assert dict(data.tasks.audit) == {
        "actions_outside_the_function_description": 2,
        "questions_to_the_user": 1,
        "references_that_are_no_JSON": 1,
        "references_that_cannot_be_mended": 1,
        "calls_of_unknown_tools": 1,
        "optional_calls": 1,
        "instructions_without_a_call": 1,
    }


def test_faults_are_told(tmp_path: Path) -> None:
    fault(lambda: toolalpaca.load(None), what="not set", where="catalog.path")
    fault(lambda: toolalpaca.load(tmp_path), what="holds no such file", where="catalog.path", expected="eval_")
    make(tmp_path, [], Documentation="{openapi")
    fault(lambda: toolalpaca.load(tmp_path), what="broken JSON", where="record 1, field 'Documentation'")
    make(tmp_path, [], Documentation=json.dumps({"openapi": "3.0.0", "paths": {}}))
    fault(
        lambda: toolalpaca.load(tmp_path), what="no operation", where="record 1, field 'Documentation', field 'paths'"
    )
    make(tmp_path, [], Instructions=["a", "b"])
    fault(lambda: toolalpaca.load(tmp_path), what="1 answers to 2", where="record 1, field 'Golden_Answers'")
    make(tmp_path, [], Golden_Answers=[[{"Action": "searchPets", "Action_Input": 3}]])
    fault(lambda: toolalpaca.load(tmp_path), what="a number", where="element 0, field 'Action_Input'")


def test_the_real_sets() -> None:
    data = toolalpaca.load(shared("toolalpaca"))
    assert len({t.group for t in data.catalog.tools}) == 21
    assert data.tasks.audit["references_that_are_no_JSON"] == 36
    assert "references_that_cannot_be_mended" not in data.tasks.audit
    assert data.tasks.audit["actions_outside_the_function_description"] == 15
    assert len(data.tasks.calls) == 297 - data.tasks.audit["calls_of_unknown_tools"]
