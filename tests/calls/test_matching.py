from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from toolsavvy.calls.assignment import LARGEST, assign
from toolsavvy.calls.comparing import Comparison, Counts
from toolsavvy.calls.flattening import leaves
from toolsavvy.calls.matching import exact, field_counts, right_fields
from toolsavvy.catalog import Tool
from toolsavvy.tasks import OMITTED, ParamTask, Reference

RULE = {"type": "object", "properties": {"Port": {"type": "integer"}, "Ranges": {"type": "array"}}}
SCHEMA = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "either": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/price"}]},
        "Rules": {"type": "array", "items": RULE},
        "anything": {},
        "tree": {"$ref": "#/$defs/tree"},
    },
    "$defs": {
        "price": {"type": ["number", "null"]},
        "tree": {"type": "object", "properties": {"v": {"type": "float"}, "next": {"$ref": "#/$defs/tree"}}},
    },
}


def task(arguments, accepted=None, unordered=(), schema=SCHEMA):
    tool = Tool("f", "f", parameters=schema)
    return ParamTask("t", "do it", (tool,), (Reference("f", arguments, accepted),), unordered=unordered)


@pytest.mark.parametrize(
    ("predicted", "reference", "same"),
    [
        ({"share": 1}, {"share": 1.0}, True),
        ({"count": 1.0}, {"count": 1}, False),
        ({"anything": 1.0}, {"anything": 1}, False),
        ({"share": True}, {"share": 1}, False),
        ({"count": True}, {"count": 1}, False),
        ({"either": 2}, {"either": 2.0}, True),
        ({"tree": {"next": {"next": {"v": 3}}}}, {"tree": {"next": {"next": {"v": 3.0}}}}, True),
        ({"either": "2"}, {"either": 2}, False),
        ({"either": "A"}, {"either": "a"}, False),
        ({"either": "a "}, {"either": "a"}, False),
        ({"either": None}, {}, False),
        ({}, {"either": None}, False),
        ({"either": None}, {"either": None}, True),
        ({"Rules": []}, {"Rules": {}}, False),
        ({"Rules": [{"Port": 1}, {"Port": 2}]}, {"Rules": [{"Port": 2}, {"Port": 1}]}, False),
        ({"b": 1, "a": {"d": 1, "c": 2}}, {"a": {"c": 2, "d": 1}, "b": 1}, True),
        ({}, {}, True),
        ({"count": 1, "count ": 1}, {"count": 1}, False),
    ],
)
def test_types_decide_what_is_the_same(predicted, reference, same):
    assert exact(predicted, task(reference)) is same
    assert exact(reference, task(predicted)) is same
    assert exact(predicted, task(predicted))
    counts = field_counts(predicted, task(reference))
    assert (counts.fp == counts.fn == 0) is same


def test_unordered_arrays_are_multisets_at_the_declared_paths_alone():
    given = {"Rules": [{"Port": 1, "Ranges": ["a", "b", "b"]}, {"Port": 2, "Ranges": []}]}
    turned = {"Rules": [{"Port": 2, "Ranges": []}, {"Port": 1, "Ranges": ["b", "a", "b"]}]}
    assert not exact(turned, task(given))
    assert not exact(turned, task(given, unordered=("Rules",)))
    assert exact(turned, task(given, unordered=("Rules", "Rules.*.Ranges")))
    assert not exact(turned, task(given, unordered=("Rules.*.Ranges",)))
    fewer = {"Rules": [{"Port": 1, "Ranges": ["a", "a", "b"]}, {"Port": 2, "Ranges": []}]}
    assert not exact(fewer, task(given, unordered=("Rules", "Rules.*.Ranges")))


def test_fields_are_counted_over_the_best_alignment():
    reference = {"Rules": [{"Port": 1, "Ranges": ["a"]}, {"Port": 2, "Ranges": ["b"]}], "count": 3}
    predicted = {"Rules": [{"Port": 9, "Ranges": ["b"]}, {"Port": 1, "Ranges": ["a"]}, {"Port": 7}], "share": 0.5}
    found = right_fields(predicted, task(reference, unordered=("Rules",)))
    assert found == {
        ("Rules", 0, "Port"): False, ("Rules", 0, "Ranges", 0): True, ("Rules", 1, "Port"): True,
        ("Rules", 1, "Ranges", 0): True, ("Rules", 2, "Port"): False, ("share",): False,
    }  # fmt: skip
    assert list(found) == [leaf.path for leaf in leaves(predicted)]
    counts = field_counts(predicted, task(reference, unordered=("Rules",)))
    assert counts == Counts(3, 3, 2)
    assert (counts.precision, counts.recall) == (0.5, 0.6)
    assert counts.f1 == pytest.approx(2 * 0.5 * 0.6 / 1.1)
    assert field_counts(None, task(reference)) == Counts(0, 0, 5)


@pytest.mark.parametrize(
    ("predicted", "reference", "expected"),
    [
        ({}, {}, Counts(1, 0, 0)),
        ({}, {"a": 1}, Counts(0, 1, 1)),
        ({"a": 1}, {}, Counts(0, 1, 1)),
        ({"a": {}}, {"a": {}}, Counts(1, 0, 0)),
        ({"a": {}}, {"a": {"b": 1, "c": 2}}, Counts(0, 1, 2)),
        ({"a": "x"}, {"a": ["x"]}, Counts(0, 1, 1)),
        ({"a": {"0": 1}}, {"a": [1]}, Counts(0, 1, 1)),
        ({"a": [1, 2, 3]}, {"a": [1, 2]}, Counts(2, 1, 0)),
        ({"a": [2, 1]}, {"a": [1, 2]}, Counts(0, 2, 2)),
    ],
)
def test_what_has_no_counterpart_is_wrong_and_missed(predicted, reference, expected):
    assert field_counts(predicted, task(reference)) == expected


def test_accepted_values_count_as_the_reference():
    accepted = {"unit": ("km", "kilometres", OMITTED), "days": ([1, 2], [2, 1])}
    asked = task({"days": [1, 2]}, accepted)
    for right in ({"days": [1, 2]}, {"days": [2, 1], "unit": "km"}, {"days": [2, 1], "unit": ""}):
        assert exact(right, asked)
        assert field_counts(right, asked).f1 == 1
    for wrong in ({}, {"unit": "km"}, {"days": [1, 2], "unit": "miles"}, {"days": [1, 2], "more": 1}):
        assert not exact(wrong, asked)
    assert field_counts({"days": [2, 3], "unit": "miles"}, asked) == Counts(1, 2, 1)
    assert field_counts(None, asked) == Counts(0, 0, 2)
    free = task({}, {"unit": ("km", OMITTED)})
    assert exact({}, free)
    assert field_counts({}, free) == Counts(1, 0, 0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 6), min_size=5, max_size=5), min_size=1, max_size=9), st.booleans())
def test_assignment_is_optimal(gains, turn):
    matrix = np.array(gains).T if turn else np.array(gains)
    pairs = assign(matrix.tolist())
    rows, columns = linear_sum_assignment(-matrix)
    assert sum(matrix[i, j] for i, j in pairs) == matrix[rows, columns].sum()
    assert len(pairs) == min(matrix.shape) == len({i for i, _ in pairs}) == len({j for _, j in pairs})
    assert pairs == sorted(assign(matrix.tolist()))


def test_ties_keep_their_order_and_large_arrays_end():
    assert assign([[1] * 4] * 4) == [(i, i) for i in range(4)]
    assert assign([[0] * 6] * 3) == [(i, i) for i in range(3)]
    assert assign([]) == []
    assert len(assign([[1] * (LARGEST + 5)] * 3)) == 3


LEAF = st.sampled_from(["a", "b", 1, 1.0, True, None])
ITEM = st.fixed_dictionaries({"p": LEAF, "q": LEAF})


@settings(max_examples=40, deadline=None)
@given(st.lists(ITEM, max_size=4), st.lists(ITEM, max_size=4))
def test_an_unordered_array_is_as_right_as_its_best_order(predicted, reference):
    free, fixed = Comparison({}, ("x",)), Comparison({})
    size = max(len(predicted), len(reference))
    best = max(
        sum(fixed.align(p, r).counts.tp for p, r in zip(order, reference + [0] * size, strict=False) if p != 0 != r)
        for order in itertools.permutations(predicted + [0] * (size - len(predicted)))
    )
    ours = free.align({"x": predicted}, {"x": reference})
    if predicted and reference:
        assert ours.counts.tp == best
    assert ours.is_exact == free.same({"x": predicted}, {"x": reference})
    assert ours.is_exact == any(fixed.same(list(o), reference) for o in itertools.permutations(predicted))
    assert [leaf.path for leaf in leaves({"x": predicted})] == list(ours.right)


def test_huge_and_deep_predictions_end():
    rng = random.Random(0)
    many = [{"Port": rng.random()} for _ in range(3_000)]
    asked = task({"Rules": [{"Port": 1}, {"Port": 2}] * 10}, unordered=("Rules",))
    assert field_counts({"Rules": [*many, {"Port": 2}]}, asked).tp == 1
    deep: dict = {}
    for _ in range(400):
        deep = {"a": deep}
    assert not exact(deep, task({"a": 1}))
    assert not exact({"a": 1}, task(deep))
