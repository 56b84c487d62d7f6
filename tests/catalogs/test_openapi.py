from __future__ import annotations

import json
import time

import pytest
import yaml
from catalog_files import fault, shared, write_json, write_jsonl, write_text
from hypothesis import given, settings
from hypothesis import strategies as st

from toolsavvy.catalogs import openapi

SPEC = """
openapi: 3.1.0
info: {title: Pet Store, version: "1"}
paths:
  x-internal: {}
  /pets/{petId}:
    parameters:
      - {name: petId, in: path, required: true, schema: {type: string}, description: which pet}
      - $ref: '#/components/parameters/Page'
    get:
      operationId: showPet
      summary: Info for a pet.
      description: Returns one pet.
      tags: [pets, other]
      parameters: [{name: page, in: query, description: own page, schema: {type: number}}]
      responses:
        200:
          content: {application/json: {schema: {$ref: '#/components/schemas/Pet'}}}
    put:
      requestBody:
        required: true
        content: {application/json: {schema: {$ref: '#/components/schemas/Pet'}}}
      responses: {204: {description: ok}}
components:
  parameters:
    Page: {name: page, in: query, schema: {type: integer}}
  schemas:
    Pet:
      type: object
      required: [name]
      properties:
        name: {type: string, enum: [no, yes, on, 2020-01-01]}
        parent: {$ref: '#/components/schemas/Pet', description: mother}
        tags: {type: array, items: {$ref: '#/components/schemas/Tag'}}
        else: {$ref: 'other.yaml#/X'}
        gone: {$ref: '#/components/schemas/Gone'}
    Tag: {type: string}
"""


def test_operations_become_tools(tmp_path):
    path = write_text(tmp_path / "pets.yaml", SPEC)
    data = openapi.load(path)
    show, put = data.catalog.tools
    assert (show.id, show.group, show.category) == ("showPet", "Pet Store", "pets")
    assert show.description == "Info for a pet. Returns one pet."
    assert show.parameters == {
        "type": "object",
        "properties": {
            "petId": {"type": "string", "description": "which pet"},
            "page": {"type": "number", "description": "own page"},
        },
        "required": ["petId"],
    }
    pet = show.returns["properties"]
    assert pet["name"]["enum"] == ["no", "yes", "on", "2020-01-01"]
    assert pet["parent"] == {"type": "object", "description": "mother"}
    assert pet["tags"] == {"type": "array", "items": {"type": "string"}}
    assert pet["else"] == {"$ref": "other.yaml#/X"}
    assert put.id == "PUT /pets/{petId}"
    assert set(put.parameters["properties"]) == {"petId", "page", "name", "parent", "tags", "else", "gone"}
    assert put.parameters["required"] == ["petId", "name"]
    assert data.audit["source"] == {"recursive_refs": 2, "external_refs": 2, "dangling_refs": 2}
    assert len(data.catalog.fingerprint) == 64


def test_json_and_yaml_give_the_same_tools(tmp_path):
    text = yaml.load(SPEC, yaml.BaseLoader)
    one = openapi.load(write_json(tmp_path / "pets.json", json.loads(json.dumps(text).replace('"true"', "true"))))
    two = openapi.load(write_text(tmp_path / "pets.yaml", SPEC))
    assert one.catalog.tools == two.catalog.tools


def test_swagger_2(tmp_path):
    operation = {
        "operationId": "add",
        "parameters": [
            {"name": "dry", "in": "query", "type": "boolean", "required": True},
            {
                "name": "b",
                "in": "body",
                "required": True,
                "schema": {"type": "array", "items": {"$ref": "#/definitions/P"}},
            },
        ],
        "responses": {"201": {"schema": {"$ref": "#/definitions/P"}}},
    }
    spec = {"swagger": "2.0", "info": {"title": "S"}, "paths": {"/p": {"post": operation}}}
    spec["definitions"] = {"P": {"type": "object", "properties": {"n": {"type": "string"}}}}
    (tool,) = openapi.load(write_json(tmp_path / "s.json", spec)).catalog.tools
    assert tool.parameters["properties"]["dry"] == {"type": "boolean"}
    assert tool.parameters["properties"]["body"]["items"]["properties"] == {"n": {"type": "string"}}
    assert tool.parameters["required"] == ["dry", "body"]
    assert tool.returns["properties"] == {"n": {"type": "string"}}


def spec_of(schema, **schemas):
    body = {"content": {"application/json": {"schema": schema}}}
    paths = {"/p": {"post": {"operationId": "p", "requestBody": body}}}
    return {"openapi": "3.0.0", "info": {"title": "S"}, "paths": paths, "components": {"schemas": schemas}}


def test_references_that_multiply_stay_small_and_quick(tmp_path):
    levels = {
        f"L{i}": {
            "type": "object",
            "properties": {f"p{j}": {"$ref": f"#/components/schemas/L{i + 1}"} for j in range(9)},
        }
        for i in range(20)
    }
    path = write_json(tmp_path / "s.json", spec_of({"$ref": "#/components/schemas/L0"}, **levels))
    start = time.process_time()
    data = openapi.load(path, depth=20)
    assert time.process_time() - start < 2
    assert len(json.dumps(data.catalog.tools[0].parameters)) < 1_000_000
    assert data.audit["source"]["cut_by_size"] > 0


def test_yaml_anchors_that_multiply_or_contain_themselves(tmp_path):
    laughs = "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9) if i else 'lol'}]" for i in range(12))
    ring = "ring: &ring {properties: *ring, items: [*ring]}"
    schema = "{properties: {x: *a11, y: *ring}}"
    paths = f"paths: {{/p: {{post: {{requestBody: {{content: {{a/json: {{schema: {schema}}}}}}}}}}}}}"
    path = write_text(tmp_path / "s.yaml", f"openapi: 3.0.0\n{laughs}\n{ring}\n{paths}\n")
    start = time.process_time()
    data = openapi.load(path)
    assert time.process_time() - start < 3
    assert len(json.dumps(data.catalog.tools[0].parameters)) < 1_000_000


REFS = st.sampled_from(["A", "B", "C", "Gone"]).map(lambda n: {"$ref": f"#/components/schemas/{n}"})
LEAVES = REFS | st.sampled_from([{"type": "string"}, {"type": "integer"}])
SCHEMA = st.recursive(
    LEAVES,
    lambda c: (
        st.dictionaries(st.sampled_from("xyz"), c, max_size=3).map(lambda p: {"type": "object", "properties": p})
        | c.map(lambda i: {"type": "array", "items": i})
        | st.lists(c, min_size=1, max_size=2).map(lambda a: {"allOf": a})
    ),
    max_leaves=6,
)


@given(SCHEMA, SCHEMA, SCHEMA, SCHEMA)
@settings(max_examples=40, deadline=None)
def test_any_web_of_references_resolves(tmp_path_factory, body, a, b, c):
    path = write_json(tmp_path_factory.mktemp("o") / "s.json", spec_of(body, A=a, B=b, C=c))
    (tool,) = openapi.load(path).catalog.tools
    text = json.dumps(tool.parameters)
    assert "schemas/A" not in text
    assert "schemas/B" not in text


def test_yaml_values_that_json_lacks_become_text_or_lists(tmp_path):
    schema = (
        "{default: !!set {a, b}, enum: [!!binary aGk=, !!timestamp 2020-01-01, 0x1F, .inf, 12, 1.5, true, ~, null]}"
    )
    operation = f"{{operationId: a, parameters: [{{name: x, in: query, schema: {schema}}}]}}"
    data = openapi.load(write_text(tmp_path / "s.yml", f"openapi: 3.0.0\npaths: {{/a: {{get: {operation}}}}}\n"))
    parameter = data.catalog.tools[0].parameters["properties"]["x"]
    assert parameter["default"] == ["a", "b"]
    assert parameter["enum"] == ["aGk=", "2020-01-01", "0x1F", ".inf", 12, 1.5, True, None, None]
    assert len(data.catalog.fingerprint) == 64


def test_yaml_never_runs_code(tmp_path):
    text = f"openapi: !!python/object/apply:os.mkdir ['{tmp_path}/made']\n"
    path = write_text(tmp_path / "s.yaml", text)
    fault(lambda: openapi.load(path), what="broken YAML", where="s.yaml, line 1", expected="valid YAML")
    assert not (tmp_path / "made").exists()


def test_ids_that_two_files_share(tmp_path):
    for stem in ("one", "two"):
        write_json(tmp_path / f"{stem}.json", spec_of({}))
    where = "two.json, POST /p, field 'operationId'"
    fault(lambda: openapi.load(tmp_path), what="'p' occurs twice", where=where, fix="catalog.qualify=true")
    assert [t.id for t in openapi.load(tmp_path, qualify=True).catalog.tools] == ["one/p", "two/p"]


def test_queries_of_the_users_own(tmp_path):
    path = write_text(tmp_path / "pets.yaml", SPEC)
    queries = write_jsonl(tmp_path / "q.jsonl", [{"id": "1", "text": "show the pet", "relevant": ["showPet"]}])
    assert openapi.load(path, queries=queries).splits["test"][0].relevant == {"showPet": 1}
    write_jsonl(queries, [{"id": "1", "text": "show the pet", "relevant": ["showpet"]}])
    where = "q.jsonl, line 1, field 'relevant'"
    fault(lambda: openapi.load(path, queries=queries), what="'showpet'", where=where, fix="'showPet'")


@pytest.mark.parametrize(
    ("text", "what", "where", "expected"),
    [
        ("openapi: 3.0.0\npaths: {a: [}\n", "broken YAML", "s.yaml, line 2", "valid YAML"),
        ("info: {}\npaths: {}\n", "missing", "s.yaml, field 'openapi'", "OpenAPI 3"),
        ("openapi: 3.0.0\n", "missing", "s.yaml, field 'paths'", "an object"),
        ("openapi: 3.0.0\npaths: {/a: {parameters: []}}\n", "no operation", "s.yaml, field 'paths'", "at least one"),
        ("- a\n", "a list", "s.yaml", "an object"),
        (
            "openapi: 3.0.0\npaths: {/a: {get: {operationId: 7}}}\n",
            "a number (7)",
            "GET /a, field 'operationId'",
            "text",
        ),
    ],
)
def test_bad_files(tmp_path, text, what, where, expected):
    path = write_text(tmp_path / "s.yaml", text)
    fault(lambda: openapi.load(path), what=what, where=where, expected=expected)


def test_an_empty_folder_and_a_bad_depth(tmp_path):
    fault(lambda: openapi.load(tmp_path), what="holds no such file", where="catalog.path", expected="*.yaml")
    fault(lambda: openapi.load(tmp_path, depth=0), what="0", where="catalog.depth", expected="from 1")


def test_real_data():
    folder = shared("nestful") / "open_api_specs"
    data = openapi.load(folder)
    ids = {
        operation["operationId"]
        for file in folder.glob("*.json")
        for item in json.loads(file.read_text())["paths"].values()
        for operation in item.values()
    }
    assert {t.id for t in data.catalog.tools} == ids
    assert len(data.catalog) == 37
    assert all(t.description and t.group for t in data.catalog.tools)


def test_real_descriptions_kept_as_text(tmp_path):
    rows = json.loads((shared("toolalpaca") / "eval_real.json").read_text())
    for i, row in enumerate(rows):
        write_text(tmp_path / f"{i}.json", row["Documentation"])
    data = openapi.load(tmp_path, qualify=True)
    specs = [json.loads(row["Documentation"]) for row in rows]
    methods = set(openapi.METHODS)
    assert len(data.catalog) == sum(len(methods & item.keys()) for s in specs for item in s["paths"].values())
