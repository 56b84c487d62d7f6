"""Decoding held to JSON schemas: what is allowed comes out, and nothing but the mask differs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import jsonschema
import numpy as np
import pytest

from toolsavvy.decoding.json_schema import DEPTH, SchemaConstraint, normalised
from toolsavvy.decoding.samples import Sample
from toolsavvy.decoding.sampling import LocalSampler
from toolsavvy.models.framing import Message
from toolsavvy.models.prompts import Prompt
from world import TEMPLATE, toy_lm, toy_tokenizer

TOKENIZER = toy_tokenizer(["some words to learn from"] * 3, template=TEMPLATE)
MODEL = toy_lm(TOKENIZER, padded=12)
PROMPTS = [Prompt((Message("user", f"call {i}" * (i + 1)),)) for i in range(4)]
CLOSED = {
    "type": "object",
    "properties": {
        "Mode": {"type": "string", "enum": ["on", "off", 'a "quoted" one']},
        "Flag": {"type": "boolean"},
        "Inner": {
            "type": "object",
            "properties": {"Level": {"enum": [1, 2, 3]}, "None": {"type": "null"}},
            "required": ["Level"],
        },
    },
    "required": ["Mode", "Inner"],
}


def draw(constraint: Any, indices: Sequence[int] = range(6), limit: int = 120, **options: Any) -> dict[Any, Sample]:
    sampler = LocalSampler(MODEL, TOKENIZER, seed=3, **options)
    found: dict[tuple[int, int], Sample] = {}

    def heard(place: int, sample: Sample) -> bool:
        found[place, sample.index] = sample
        return False

    sampler.draw(PROMPTS, [list(indices)] * 4, temperature=1, max_tokens=limit, heard=heard, constraint=constraint)
    return found


def held(schemas: Sequence[Any]) -> SchemaConstraint:
    rows = MODEL.get_output_embeddings().weight.shape[0]
    return SchemaConstraint(TOKENIZER, rows, [TOKENIZER.eos_token_id], schemas)


def test_every_answer_fits_its_own_schema() -> None:
    other = {"type": "object", "properties": {"Only": {"enum": ["this", "that"]}}, "required": ["Only"]}
    schemas = [CLOSED, other, CLOSED, other]
    found = draw(held(schemas))
    assert len(found) == 24
    assert all(sample.finished for sample in found.values())
    for (place, _), sample in found.items():
        value = json.loads(sample.text)
        jsonschema.Draft202012Validator({**schemas[place], "additionalProperties": False}).validate(value)
        assert sample.text == json.dumps(value)  # one line, the separators of the answers to learn
        assert list(value) == [name for name in schemas[place]["properties"] if name in value]
    assert len({sample.text for sample in found.values()}) > 6
    assert draw(held(schemas), batch_size=1) == found


class Everything:
    """Allows all, and writes down what it was told."""

    def __init__(self) -> None:
        self.told: list[list[int]] = []

    def guide(self, places: Sequence[int]) -> Everything:
        self.told.append(list(places))
        return self

    def masked(self, rows: np.ndarray, logits: Any) -> Any:
        assert len(rows) == len(logits)
        return logits

    def wrote(self, rows: np.ndarray, tokens: np.ndarray) -> None:
        assert len(rows) == len(tokens)


def test_nothing_but_the_mask_differs() -> None:
    watcher = Everything()
    assert draw(watcher, limit=20) == draw(None, limit=20)
    assert sum(map(len, watcher.told)) == 24


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        ({"type": "dict", "properties": {"a": {"type": "tuple", "items": {"type": "float"}}}},
         {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "number"}}},
          "additionalProperties": False}),
        ({"type": "any"}, {}),
        ({"type": "Wonder"}, {}),
        ("no schema", {}),
        (None, {}),
        ({"type": ["str", "NoneType"]}, {"type": ["string", "null"]}),
        ({"properties": {"a": True}}, {"type": "object", "properties": {"a": {}}, "additionalProperties": False}),
        ({"type": "object", "properties": []}, {"type": "object"}),
        ({"type": "object", "properties": {"a": {"type": "string", "required": True}}, "required": ["b"]},
         {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
          "additionalProperties": False}),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"const": 3}}}, {"enum": [3]}),
        ({"$ref": "#/nowhere"}, {}),
        ({"$ref": "other.json"}, {}),
        ({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}, "required": ["b"]}]},
         {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["b"], "additionalProperties": False}),
        ({"oneOf": [{"type": "string", "pattern": "^x"}, {"type": "int"}]},
         {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
    ],
)  # fmt: skip
def test_odd_schemas_in_plain_terms(schema, plain) -> None:
    assert normalised(schema) == plain


def test_recursion_ends() -> None:
    tree = {"$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"}
    found, depth = normalised(tree), 0
    while "properties" in found:
        found, depth = found["properties"]["next"], depth + 1
    assert depth == DEPTH
    assert normalised({"$ref": "#"}) == {}
    assert normalised({"allOf": [{"$ref": "#"}], "type": "object"})["type"] == "object"
    assert held([tree]).guide([0])
    wide = {"type": "object", "properties": {f"k{i}": {"$ref": "#"} for i in range(30)}}
    found = normalised(wide)
    assert "properties" in found["properties"]["k29"]
    assert held([wide]).guide([0])
    assert normalised({"allOf": [{"$ref": "#"}] * 50}) == {}


ODD = (
    {},
    None,
    {"type": "dict"},
    {"type": "array", "items": {"type": "string"}},
    {"type": "object", "properties": {"a b\"c\\": {"type": "any"}, "ü": {"type": "array"}, "": {"enum": [None, {}]}}},
    {"type": "object", "properties": {"a": {"type": ["integer", "array"], "items": {"type": "tuple"}}}},
    {"type": "object", "properties": {"m": {"type": "object", "additionalProperties": {"type": "integer"}}}},
    {"type": "object", "properties": {f"k{i}": {"type": "string", "enum": ["x"] * 9} for i in range(600)}},
)  # fmt: skip


@pytest.mark.parametrize("place", range(len(ODD)))
def test_every_schema_becomes_a_grammar_that_begins_an_object(place: int) -> None:
    constraint = held(ODD)
    guide = constraint.guide([place])
    logits = MODEL.get_output_embeddings().weight.detach()[:, 0][None].clone()
    before = logits.clone()
    allowed = guide.masked(np.array([0]), logits).isfinite()[0].nonzero()[:, 0].tolist()
    assert allowed
    assert all(TOKENIZER.decode([i]).startswith("{") for i in allowed)
    assert (logits == before).all()
    assert not constraint.notes


def test_a_grammar_that_is_refused_gets_shallower_and_then_open(monkeypatch, caplog) -> None:
    constraint = held([CLOSED])
    compile_ = constraint._compile

    def refusing(schema: Any) -> Any:
        if "Inner" in json.dumps(schema):
            raise RuntimeError("too large\nmore")
        return compile_(schema)

    monkeypatch.setattr(constraint, "_compile", refusing)
    constraint.guide([0, 0])
    assert constraint.notes == {"any object": 1}
    assert "any object is allowed" in caplog.text
