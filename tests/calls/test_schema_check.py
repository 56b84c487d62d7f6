from __future__ import annotations

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolsavvy.calls import schema_check
from toolsavvy.calls.schema_check import check, valid
from toolsavvy.calls.schema_types import json_type, normalised

STRICT = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"},
        "n": {"type": "integer", "minimum": 1, "maximum": 3},
        "kind": {"enum": ["x", "y"]},
        "items": {"type": "array", "items": {"type": "number"}, "minItems": 1},
        "either": {"oneOf": [{"type": "string"}, {"type": "object", "properties": {"a": {"type": "boolean"}}}]},
    },
    "required": ["name"],
    "additionalProperties": False,
}
VALUE = st.sampled_from(["ab", "A", "", 0, 1, 1.0, 2.5, 4, True, None, "x", [], [1], ["a"], {}, {"a": True}, {"a": 1}])


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from([*STRICT["properties"], "other"]), VALUE, max_size=4))
def test_plain_schemas_are_checked_as_jsonschema_does(arguments):
    assert valid(arguments, STRICT) == jsonschema.Draft202012Validator(STRICT).is_valid(arguments)
    assert check(arguments, STRICT).valid == valid(arguments, STRICT)


def test_dialects_of_the_sources():
    schema = {
        "type": "dict",
        "properties": {
            "a": {"type": "float"}, "b": {"type": "tuple", "items": {"type": "str"}}, "c": {"type": "any"},
            "d": {"type": "Bool"}, "e": {"type": "moment"}, "f": {"type": "HashMap"}, "g": {"type": "STRING"},
            "h": {"type": "integer", "enum": ["1", "2"]}, "i": {"type": "string", "nullable": True},
        },
        "required": ["a"],
    }  # fmt: skip
    for right in ({"a": 1}, {"a": 1.5, "b": ["x"], "c": [1], "d": True, "e": 3, "f": {}, "g": ""}, {"a": 1, "h": 2}):
        assert check(right, schema).valid, right
    assert valid({"a": 1, "i": None}, schema)
    for wrong in ({}, {"a": "1"}, {"a": 1, "b": [1]}, {"a": 1, "d": "true"}, {"a": 1, "f": []}, {"a": 1, "h": 3}):
        assert not valid(wrong, schema)
    assert check({"a": 1}, schema).unknown_types == 1
    normal = normalised(schema)
    assert normal.oddities["type float"] == normal.oddities["unknown type moment"] == normal.oddities["type any"] == 1
    jsonschema.Draft202012Validator.check_schema(dict(normal.schema))
    assert [json_type(t) for t in ("ArrayList", "str", "NUMBER", "any", None)] == [
        "array", "string", "number", None, None
    ]  # fmt: skip


def test_an_argument_that_nobody_named_is_refused_unless_the_schema_is_open():
    named = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {}}}}}
    assert not valid({"x": 1}, named)
    assert not valid({"a": {"c": 1}}, named)
    assert valid({"x": 1}, {**named, "additionalProperties": True})
    assert valid({"x": 1}, {"type": "object"})
    assert valid({"x": 1}, {})
    assert valid({"x": 1, "a": 2}, {"allOf": [{"properties": {"x": {}}}, {"properties": {"a": {}}}]})
    assert "x" in check({"x": 1}, named).problems[0]


def test_recursive_references_are_as_deep_as_the_value():
    schema = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/definitions/node"}},
        "definitions": {
            "node": {"type": "object", "properties": {"v": {"type": "int"}, "l": {"$ref": "#/definitions/node"}}}
        },
    }
    deep = {"v": 1}
    for _ in range(30):
        deep = {"v": 1, "l": deep}
    assert valid({"tree": deep}, schema)
    assert not valid({"tree": {"l": {"l": {"v": "x"}}}}, schema)
    assert "tree.l.l.v" in check({"tree": {"l": {"l": {"v": "x"}}}}, schema).problems[0]
    assert valid({"a": {"a": {}}}, {"properties": {"a": {"$ref": "#"}}})
    assert not valid({"a": {"b": {}}}, {"properties": {"a": {"$ref": "#"}}})


def test_references_may_point_anywhere_in_the_schema():
    schema = {
        "properties": {
            "a": {"$ref": "#/components/schemas/Port"}, "b": {"$ref": "#/properties/c/items/0"},
            "c": {"type": "list", "items": [{"type": "int"}]}, "d": {"$ref": "#/components/schemas/Tree"},
        },
        "components": {"schemas": {
            "Port": {"type": "int", "maximum": 9},
            "Tree": {"type": "dict", "properties": {"l": {"$ref": "#/components/schemas/Tree"}}},
        }},
    }  # fmt: skip
    assert valid({"a": 9, "b": 1, "c": [1], "d": {"l": {"l": {}}}}, schema)
    for wrong in ({"a": 10}, {"b": "x"}, {"c": ["x"]}, {"d": {"l": {"r": 1}}}):
        assert not valid(wrong, schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"allOf": [{"$ref": "#"}]},
        {"properties": {"a": {"$ref": "https://example.org/schema.json"}}},
        {"properties": {"a": {"$ref": "#/nowhere"}}},
        {"properties": {"a": {"$ref": 7}}},
        {"properties": [], "required": "a", "items": 3},
        {"properties": {"a": "string"}, "required": True},
        {"properties": {"a": {"enum": "x", "pattern": "(", "minimum": "1", "maxLength": -1, "multipleOf": 0}}},
        {"properties": {"a": {"type": ["string", 7]}}},
        {"properties": {"a": {"type": []}}},
        {"type": "object", "properties": {"a": {"items": [], "anyOf": []}}},
        {"properties": {"a": None}},
        "no schema",
        None,
        7,
    ],
)
def test_broken_schemas_hold_nothing_against_a_call(schema):
    assert valid({"a": 1}, schema)
    assert check({"a": 1}, schema).valid
    assert not valid([1], schema)
    assert not valid("text", schema)
    jsonschema.Draft202012Validator.check_schema(dict(normalised(schema).schema))


def test_a_schema_of_absurd_depth_ends():
    schema: dict = {"type": "string"}
    for _ in range(300):
        schema = {"type": "object", "properties": {"a": schema}}
    assert valid({"a": {"a": {}}}, schema)
    assert normalised(schema).oddities["too deep"] == 1


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_no_json_is_never_valid(number):
    assert not valid({"a": number}, {})
    assert "no JSON" in check({"a": [number]}, {}).problems[0]
    deep: object = 1
    for _ in range(200):
        deep = {"a": deep}
    assert "deep" in check(deep, {}).problems[0]


def test_old_requirements_of_properties_count():
    schema = {"properties": {"a": {"type": "string", "required": True}, "b": {"type": "string", "required": False}}}
    assert valid({"a": "x"}, schema)
    assert not valid({"b": "x"}, schema)


def test_a_validator_is_made_once_per_schema(monkeypatch):
    made = []
    build = jsonschema.Draft202012Validator
    monkeypatch.setattr(jsonschema, "Draft202012Validator", lambda schema: made.append(1) or build(schema))
    schema_check.forget()
    schema = dict(STRICT)
    for _ in range(5):
        valid({"name": "ab"}, schema)
        check({"name": "ab"}, schema)
    assert len(made) == 1
    valid({"name": "ab"}, dict(STRICT))
    assert len(made) == 2
