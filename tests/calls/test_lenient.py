from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolsavvy.calls.lenient import DEPTH, LONGEST, Read, read_arguments

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip
OBJECT = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), JSON, max_size=4)


@settings(max_examples=50, deadline=None)
@given(OBJECT)
def test_strict_json_is_taken_as_it_is(value):
    assert read_arguments(json.dumps(value)) == Read(value)
    assert read_arguments(f"\ufeff\n {json.dumps(value, ensure_ascii=False, indent=1)}\n") == Read(value)


@settings(max_examples=50, deadline=None)
@given(OBJECT)
def test_python_writes_objects_too(value):
    assert read_arguments(repr(value)).arguments == value


@pytest.mark.parametrize(
    ("text", "value", "repairs"),
    [
        ('"{\\"a\\": 1}"', {"a": 1}, {"string"}),
        ("'{\"a\": 1}'", {"a": 1}, {"string", "quotes"}),
        ('```json\n{"a": 1}\n```', {"a": 1}, {"fence"}),
        ('```\n{"a": 1}', {"a": 1}, {"fence"}),
        ('Here:\n```json\n{"a": 1,}\n```\nMore?', {"a": 1}, {"fence", "text_around", "trailing_comma"}),
        ('Arguments: {"a": 1}', {"a": 1}, {"text_around"}),
        ('{"a": 1}\n{"a": 2}', {"a": 1}, {"text_around"}),
        ('{"a": 1 /* one */, // and\n "b": [2,], # two\n}', {"a": 1, "b": [2]}, {"comments", "trailing_comma"}),
        ('{"a": "http://x/#y"}', {"a": "http://x/#y"}, set()),
        ('{"a": "http://x/#y",}', {"a": "http://x/#y"}, {"trailing_comma"}),
        ("{'a': 'it\\'s', b: \"\"}", {"a": "it's", "b": ""}, {"quotes", "unquoted"}),
        ("{'a': True, 'b': None, 'c': (1, 2)}", {"a": True, "b": None, "c": [1, 2]}, {"quotes", "python"}),
        ('{"a": +3, "b": .5}', {"a": 3, "b": 0.5}, {"plus", "python"}),
        ('[{"a": 1}]', {"a": 1}, {"list_of_one"}),
        ('{"a": "x\ny"}', {"a": "x\ny"}, {"control"}),
        ('{"a": 1, "a": 2}', {"a": 2}, {"repeated_key"}),
        ('{"a": "\\ud83d\\ude00",}', {"a": "😀"}, {"trailing_comma"}),
        ("{}", {}, set()),
    ],
)  # fmt: skip
def test_what_is_mended_is_named(text, value, repairs):
    read = read_arguments(text)
    assert (read.arguments, set(read.repairs), read.problem) == (value, repairs, "")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "nan"])
def test_numbers_that_are_none_become_their_own_text(number):
    read = read_arguments(f'{{"a": {number}, "b": 1}}')
    assert read.arguments == {"a": number, "b": 1}
    assert read.repairs == ("not_finite",)
    json.dumps(read.arguments, allow_nan=False)


def test_numbers_of_thousands_of_digits_stay_text():
    read = read_arguments(f'{{"a": {"9" * 5_000}}}')
    assert (read.arguments, read.repairs) == ({"a": "9" * 5_000}, ("long_number",))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        ("I can't do that.", "no object"),
        ("[1, 2]", "no object"),
        ("3", "no object"),
        ('"text"', "no object"),
        ('[{"a": 1}, {"b": 2}]', "no object"),
        ('{"a": 1', "unclosed"),
        ('{"a": [1, 2', "unclosed"),
        ('{"a": "x', "unclosed"),
        ('{"a"', "unclosed"),
        ('{"a": }', "broken"),
        ('{"a" 1}', "broken"),
        ('{"a": 1 "b": 2}', "broken"),
        ('{"a": yes}', "broken"),
        ('{"a": 1]', "broken"),
        ('{"a": "\\ud800"}', "broken"),
        ('{"a": "\\uZZZZ",}', "broken"),
        ('{"a": 1}' + " " * LONGEST + "x", "too long"),
    ],
)
def test_what_can_not_be_read_says_why(text, problem):
    read = read_arguments(text)
    assert (read.arguments, read.problem) == (None, problem)


@pytest.mark.parametrize("tail", ["", ","])
def test_nesting_is_bounded(tail):
    def nested(depth):
        return '{"a": ' * depth + "1" + tail + "}" * depth

    assert read_arguments(nested(DEPTH)).arguments is not None
    assert read_arguments(nested(DEPTH + 1)).problem == "too deep"
    assert read_arguments(nested(30_000)).problem in ("too deep", "too long")
    assert read_arguments("(" * 5_000).problem in ("too deep", "no object")
    assert read_arguments('{"a": ' + "(" * 5_000).problem == "too deep"
    assert read_arguments(f'{{"a": "{"[" * 5_000}"}}').arguments == {"a": "[" * 5_000}


@settings(deadline=None)
@given(st.text("{}[]()\"'\\:, \n/*#ab1-+.eNtu`", max_size=60))
def test_nothing_makes_it_fail(text):
    read = read_arguments(text)
    assert (read.arguments is None) == bool(read.problem)
    if read.arguments is not None:
        json.dumps(read.arguments, allow_nan=False)


def test_time_is_linear():
    for text in ('{"a": "' + "\\n" * 90_000, "{" * 190_000, '{"a": /*' * 20_000, "[{" * 90_000, "```" * 60_000):
        start = time.process_time()
        read_arguments(text)
        assert time.process_time() - start < 5
