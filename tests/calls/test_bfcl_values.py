from __future__ import annotations

import time

import pytest

from toolsavvy.calls import bfcl
from toolsavvy.calls.attempts import Call
from toolsavvy.calls.bfcl_values import from_source, to_source
from toolsavvy.catalog import Tool
from toolsavvy.tasks import OMITTED, ParamTask, Reference


@pytest.mark.parametrize(
    ("text", "kind", "items", "value"),
    [
        ("5", "integer", "", 5),
        ("-5L", "long", "", -5),
        ("5", "long", "", "5"),
        ("2.5f", "float", "", 2.5),
        ("2.5", "float", "", "2.5"),
        ("2.5e3", "double", "", 2500.0),
        ("true", "boolean", "", True),
        ("True", "boolean", "", "True"),
        ("Locale.US", "any", "", "Locale.US"),
        ("new int[]{1, 2}", "Array", "integer", [1, 2]),
        ("new ArrayList<>(Arrays.asList(\"a\", 'b'))", "ArrayList", "String", ["a", "b"]),
        ("new ArrayList<Integer>() {{ add(1); add(2); }}", "ArrayList", "integer", [1, 2]),
        ("new ArrayList<>()", "ArrayList", "", []),
        ("userIds", "ArrayList", "", "userIds"),
        ('new HashMap<String, Object>() {{ put("a", 1); put("b", "x"); put("c", true); }}', "HashMap", "",
         {"a": 1, "b": "x", "c": True}),
        ("new HashMap<>()", "HashMap", "", {}),
        ("options", "HashMap", "", "options"),
    ],
)  # fmt: skip
def test_java(text, kind, items, value):
    assert from_source(text, kind, "java", items) == value


@pytest.mark.parametrize(
    ("text", "kind", "items", "value"),
    [
        ("5", "integer", "", 5),
        ("5.0", "integer", "", "5.0"),
        ("5", "float", "", 5.0),
        ("5n", "Bigint", "", 5),
        ("'x'", "String", "", "x"),
        ("x", "String", "", "x"),
        ("false", "Boolean", "", False),
        ("[1, 'two', true, four]", "array", "", [1, "two", True, "four"]),
        ("new Array(1, 2)", "array", "integer", [1, 2]),
        ("[[1, 2], [3, 4]]", "array", "array", [[1, 2], [3, 4]]),
        ("[]", "array", "", []),
        ("rows", "array", "", "rows"),
        ("{a: 1, 'b': \"x\"}", "dict", "", {"a": 1, "b": "x"}),
        ("{'a': [1, 2], 'b': true}", "dict", "", {"a": [1, 2], "b": True}),
        ("{}", "dict", "", {}),
        ("state", "dict", "", "state"),
    ],
)
def test_javascript(text, kind, items, value):
    assert from_source(text, kind, "javascript", items) == value


@pytest.mark.parametrize(
    ("value", "kind", "items", "language"),
    [
        (7, "integer", "", "java"),
        (7, "long", "", "java"),
        (1.5, "float", "", "java"),
        (1.5, "double", "", "java"),
        (True, "boolean", "", "java"),
        ([1, 2], "Array", "integer", "java"),
        (["a", "b"], "ArrayList", "String", "java"),
        (["a", "b"], "Array", "String", "java"),
        ({"a": 1, "b": "x"}, "HashMap", "", "java"),
        ({}, "HashMap", "", "java"),
        ([], "ArrayList", "", "java"),
        (7, "Bigint", "", "javascript"),
        ({"a": "x"}, "dict", "", "javascript"),
        ([1, "x", False], "array", "", "javascript"),
        ([[1], [2]], "array", "", "javascript"),
        (False, "Boolean", "", "javascript"),
    ],
)
def test_what_is_written_is_read_again(value, kind, items, language):
    assert from_source(to_source(value, kind, language, items), kind, language, items) == value


def test_hostile_values_end():
    texts = (
        "[" + "[1]," * 900,
        "[" + "[" * 3_900,
        "new HashMap<" * 300,
        "{" + "a:" * 1_900,
        "9" * 4_000,
        'put("' * 700,
    )
    start = time.process_time()
    for text in texts:
        for kind in ("integer", "ArrayList", "Array", "HashMap"):
            from_source(text, kind, "java")
        for kind in ("integer", "array", "dict"):
            from_source(text, kind, "javascript")
    assert from_source("9" * 100_000, "integer", "java") == "9" * 100_000
    assert time.process_time() - start < 5


def weather(accepted, required=("city",), **properties):
    kinds = {"city": {"type": "string"}, "days": {"type": "integer"}, "far": {"type": "number"}, **properties}
    tool = Tool("w", "w", parameters={"type": "object", "properties": kinds, "required": list(required)})
    return ParamTask("b", "?", (tool,), (Reference("w", {}, accepted),), rule="bfcl", language="python")


@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        ({"city": "NEW-YORK"}, True),
        ({"city": "New York", "days": 3}, True),
        ({"city": "New York", "days": 3.0}, False),
        ({"city": "New York", "far": 2}, True),
        ({"city": "New York", "far": 2.5}, False),
        ({"city": "New York", "days": "3"}, False),
        ({"city": "New York", "more": 1}, False),
        ({"days": 3}, False),
        ({"city": ["New York"]}, False),
        ({"city": "New York", "days": True}, False),
    ],
)
def test_rules_for_values(arguments, right):
    task = weather({"city": ("New York",), "days": (3, OMITTED), "far": (2.0, OMITTED)})
    assert bfcl.is_right(task, [Call("w", arguments)]) is right
    assert not bfcl.is_right(task, [Call("v", arguments)])
    assert not bfcl.is_right(task, [Call("w", arguments)] * 2)
    assert not bfcl.is_right(task, [])
