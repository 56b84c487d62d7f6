from __future__ import annotations

import dataclasses

import pytest

from toolsavvy.calls.attempts import Call
from toolsavvy.calls.comparing import Comparison, Counts
from toolsavvy.calls.faults import KINDS, faults_of
from toolsavvy.calls.scoring import score
from toolsavvy.catalog import Tool
from toolsavvy.tasks import OMITTED, ParamTask, Reference

OPEN = Tool(
    "open", "open",
    parameters={
        "type": "object",
        "properties": {
            "group": {"type": "string"}, "rule": {"type": "object", "properties": {"port": {"type": "integer"}}},
            "dry": {"type": "boolean"},
        },
        "required": ["group"],
    },
)  # fmt: skip
CLOSE = Tool("close", "close", parameters={"type": "object", "properties": {"group": {"type": "string"}}})
RIGHT = {"group": "sg-1234", "rule": {"port": 443}}
TASK = ParamTask("t", "open it", (OPEN, CLOSE), (Reference("open", RIGHT),))


@pytest.mark.parametrize(
    ("arguments", "faults", "counts", "valid"),
    [
        (RIGHT, (), Counts(2, 0, 0), True),
        ({"group": "sg-1234"}, ("omitted",), Counts(1, 0, 1), True),
        ({**RIGHT, "dry": True}, ("spurious",), Counts(2, 1, 0), True),
        ({**RIGHT, "unheard_of": 1}, ("spurious",), Counts(2, 1, 0), False),
        ({"group": "sg-9", "rule": {"port": 443}}, ("wrong_value",), Counts(1, 1, 1), True),
        ({"group": "sg-1234", "rule": {"port": "443"}}, ("wrong_value",), Counts(1, 1, 1), False),
        ({"group": "sg-1234", "port": 443}, ("wrong_depth",), Counts(1, 1, 1), False),
        ({"rule": {"port": 443, "group": "sg-1234"}}, ("wrong_depth",), Counts(1, 1, 1), False),
        ({"group": "x", "port": 443, "dry": True}, ("spurious", "wrong_value", "wrong_depth"), Counts(0, 3, 2), False),
        ({}, ("omitted",), Counts(0, 1, 2), False),
    ],
)
def test_mistakes_of_a_call(arguments, faults, counts, valid):
    found = score(TASK, [Call("open", arguments)])
    assert (found.faults, found.counts, found.valid, found.exact) == (faults, counts, valid, not faults)
    assert (found.precision, found.recall, found.f1) == (counts.precision, counts.recall, counts.f1)


@pytest.mark.parametrize(
    ("calls", "faults", "counts"),
    [
        (None, ("not_json",), Counts(0, 0, 2)),
        ((), ("no_call",), Counts(0, 0, 2)),
        ([Call("close", RIGHT)], ("wrong_tool",), Counts(0, 2, 2)),
        ([Call("nobody", {})], ("wrong_tool",), Counts(0, 1, 2)),
        ([Call("open", RIGHT), Call("close", {"group": "a"})], ("extra_call",), Counts(2, 1, 0)),
        ([Call("open", {}), Call("open", RIGHT)], ("extra_call",), Counts(2, 1, 0)),
    ],
)
def test_mistakes_above_the_fields(calls, faults, counts):
    found = score(TASK, calls)
    assert (found.faults, found.counts, found.exact) == (faults, counts, False)
    assert set(found.faults) <= set(KINDS)


def test_several_references_come_in_any_order_each_once():
    other = {"group": "sg-77", "rule": {"port": 80}}
    both = dataclasses.replace(TASK, references=(*TASK.references, Reference("open", other)))
    first, second = Call("open", RIGHT), Call("open", other)
    assert score(both, [second, first]).exact
    assert score(both, [second, first]).f1 == 1
    twice = score(both, [first, first])
    assert (twice.exact, twice.counts) == (False, Counts(2, 2, 2))
    assert score(both, [first]).faults == ("no_call",)
    assert score(both, [second]).counts == Counts(2, 0, 2)
    near = Call("open", {"group": "sg-1234", "rule": {"port": 80}})
    assert score(both, [near, first]).counts == Counts(3, 1, 1)
    assert score(both, [first, second, first]).faults == ("extra_call",)


def test_tasks_that_want_no_call_or_any():
    none = dataclasses.replace(TASK, references=())
    assert score(none, ()).exact
    assert score(none, None).exact
    assert score(none, [Call("open", {})]).faults == ("extra_call",)
    assert score(none, [Call("open", {})]).f1 == 0
    some = dataclasses.replace(none, rule="any_call")
    assert score(some, [Call("open", {"group": "a"})]).exact
    assert (score(some, ()).faults, score(some, None).faults) == (("no_call",), ("not_json",))


def test_bfcl_tasks_are_exact_by_its_rules_and_have_fields_all_the_same():
    accepted = {
        "city": ("New York, NY", "NYC"),
        "days": (2,),
        "unit": ("celsius", OMITTED),
        "where": ({"a": ["X", "Y"]},),
    }
    properties = {
        "city": {"type": "string"}, "days": {"type": "number"}, "unit": {"type": "string"}, "where": {"type": "object"},
    }  # fmt: skip
    tool = Tool("w", "w", parameters={"type": "object", "properties": properties, "required": ["city"]})
    task = ParamTask(
        "b", "weather", (tool,), (Reference("w", {"city": "New York, NY", "days": 2, "where": {"a": "X"}}, accepted),),
        rule="bfcl", language="python",
    )  # fmt: skip
    right = score(task, [Call("w", {"city": "new york ny", "days": 2.0, "where": {"a": "y"}})])
    assert (right.exact, right.f1, right.faults) == (True, 1.0, ())
    wrong = score(task, [Call("w", {"city": "Boston", "days": 2, "where": {"a": "Z"}, "unit": "kelvin"})])
    assert (wrong.exact, wrong.counts, wrong.faults) == (False, Counts(1, 3, 2), ("spurious", "wrong_value"))
    assert score(task, ()).counts == Counts(0, 0, 3)
    typed = score(task, [Call("w", {"city": "NYC", "days": "2", "where": {"a": "X"}})])
    assert (typed.exact, typed.faults, typed.valid) == (False, ("wrong_value",), False)


def test_common_values_are_no_moved_ones():
    def kinds(predicted, reference):
        return faults_of(Comparison().align(predicted, reference))

    assert kinds({"a": True}, {"b": True}) == ("omitted", "spurious")
    assert kinds({"a": 1}, {"b": 1}) == ("omitted", "spurious")
    assert kinds({"x": {"port": 1}}, {"port": 1}) == ("wrong_depth",)
    assert kinds({"a": "10.0.0.0/16"}, {"b": "10.0.0.0/16"}) == ("wrong_depth",)
    assert kinds({"a": "vpc-1", "c": "vpc-1"}, {"b": "vpc-1"}) == ("spurious", "wrong_depth")
    assert kinds({"a": "vpc-1"}, {"a": ["vpc-1"]}) == ("wrong_depth",)
    assert kinds({"a": "one", "b": "two"}, {"a": "two", "b": "one"}) == ("wrong_value",)
    assert kinds({}, {}) == ()
