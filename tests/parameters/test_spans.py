from __future__ import annotations

import json
import random

import pytest
from argument_tasks import toy_writer

from toolsavvy.calls.flattening import leaves
from toolsavvy.calls.lenient import read_arguments
from toolsavvy.models.text import TextEncoder
from toolsavvy.parameters.spans import value_tokens, values


def drawn(rng: random.Random, depth: int = 3):
    kind = rng.randrange(8 if depth else 5)
    if kind < 5:
        text = rng.choice(["", "a", 'say "hi"', "back\\slash", "ü\u2028\n", "{[,:]}", "é" * 3, "// no comment"])
        return [text, rng.randint(-99, 99), rng.random() * 1e-7, rng.choice([True, False]), None][kind]
    if kind == 5:
        return [drawn(rng, depth - 1) for _ in range(rng.randrange(3))]
    return {f"k{i} '\"": drawn(rng, depth - 1) for i in range(rng.randrange(4))}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("escaped", [True, False])
def test_spans_of_json_are_its_leaves_and_cut_out_their_own_text(indent, escaped) -> None:
    rng = random.Random(0)
    for _ in range(300):
        tree = {"first": drawn(rng), "second": drawn(rng)}
        text = json.dumps(tree, indent=indent, ensure_ascii=escaped)
        found = values(text)
        assert [(s.path, s.value) for s in found] == [(leaf.path, leaf.value) for leaf in leaves(tree)]
        assert [json.loads(text[s.start : s.end]) for s in found] == [s.value for s in found]


def test_text_around_and_what_models_write_is_read_over() -> None:
    text = 'Sure:\n```json\n{\'a\': \'it\\\'s\', b: True, // yes\n "c": [1, 2,], "d": {}, "n": NaN,}\n```'
    found = values(text)
    assert [(s.path, s.value) for s in found] == [
        (("a",), "it's"), (("b",), True), (("c", 0), 1), (("c", 1), 2), (("d",), {}), (("n",), "NaN"),
    ]  # fmt: skip
    read = read_arguments(text)
    assert [(leaf.path, leaf.value) for leaf in leaves(read.arguments)] == [(s.path, s.value) for s in found]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ('{"a": "x", "b": "unfin', [("a",)]),
        ('{"a": {"b": 1, "c"', [("a", "b")]),
        ('{"a": 1 "b": 2}', [("a",)]),
        ('{"a": .}', []),
        ("no object", []),
        ("", []),
        ("{}", [()]),
        ('{"a": 1, "b": {"c": 2}, "a": {"d": 3}}', [("b", "c"), ("a", "d")]),
        ('{"a": ' * 5000, []),
        ('{"a": ' + "9" * 5000 + "}", [("a",)]),
    ],
)
def test_as_far_as_it_can_be_read(text, paths) -> None:
    assert [s.path for s in values(text)] == paths


def test_the_state_before_a_value_has_seen_nothing_of_it() -> None:
    _, tokenizer, _ = toy_writer()
    encoder = TextEncoder(tokenizer)
    text = json.dumps({"VpcId": "vpc-ünï", "Count": 12, "Empty": "", "CidrBlock": ["10.0.0.0/16", None]})
    ids, offsets = encoder.encode_with_offsets(text)
    assert ids == encoder.encode(text)
    spans = values(text)
    assert len(spans) == 5
    for span, tokens in zip(spans, value_tokens(spans, offsets), strict=True):
        before = tokenizer.decode(ids[: tokens.first])
        assert len(before) <= span.inner
        assert text.startswith(before)
        said = tokenizer.decode(ids[tokens.first : tokens.end])
        assert text[span.inner : span.end] in said


def test_offsets_of_text_that_looks_special() -> None:
    _, tokenizer, _ = toy_writer()
    encoder = TextEncoder(tokenizer)
    text = '{"a": "<|im_end|>x"}'
    ids, offsets = encoder.encode_with_offsets(text)
    assert tokenizer.eos_token_id not in ids
    assert len(ids) == len(offsets)
    assert offsets[-1][1] == len(text)
