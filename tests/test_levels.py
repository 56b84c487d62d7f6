"""The level rule: its features on hand-made tasks, its cut-offs, and that it spreads real kinds of calls."""

from __future__ import annotations

from typing import Any

import pytest

from toolsavvy.catalog import Tool
from toolsavvy.levels import RULE, LevelFeatures, features_of, level_of, levelled, symbolic
from toolsavvy.tasks import LEVELS, ParamTask, Reference, Upstream


def task(
    arguments: dict[str, Any],
    *upstream: Upstream,
    instruction: str = "do it",
    schema: dict[str, Any] | None = None,
    conditions: int = 0,
) -> ParamTask:
    tool = Tool(id="t", name="t", parameters=schema or {})
    return ParamTask("1", instruction, (tool,), (Reference("t", arguments),), upstream, conditions=conditions)


def features(*args: Any, **kwargs: Any) -> tuple[int, int, int, int]:
    found = features_of(task(*args, **kwargs))
    return (
        found.nesting_depth,
        found.conditional_dependencies,
        found.upstream_transfers,
        found.upstream_extract_depth,
    )


CREATED = Upstream("make", {}, {"Vpc": {"VpcId": "vpc-1234abcd", "IsDefault": False, "Count": 443}})
LISTED = Upstream("list", {}, {"Vpcs": [{"Sets": [{"Id": "sub-77889900"}]}, {"VpcId": "vpc-1234abcd"}]})


def test_flat_values_that_are_stated_cost_nothing() -> None:
    assert features({"CidrBlock": "10.0.0.0/16"}, instruction="a network 10.0.0.0/16") == (1, 0, 0, 0)
    assert levelled(task({"a": 1})).level == "L1"
    assert levelled(task({})).level == "L1"


def test_nesting_counts_objects_not_arrays() -> None:
    assert features({"a": [1, 2], "b": [[3]]})[0] == 1
    assert features({"a": {"b": 1}})[0] == 2
    assert features({"Permissions": [{"Ranges": [{"Cidr": "10.0.0.0/8"}]}]})[0] == 3


def test_transfers_are_values_of_results_that_the_instruction_lacks() -> None:
    assert features({"VpcId": "vpc-1234abcd"}, CREATED) == (1, 0, 1, 2)
    assert features({"VpcId": "vpc-1234abcd"}, CREATED, instruction="in VPC-1234ABCD") == (1, 0, 0, 0)
    assert features({"VpcId": "vpc-0000"}, CREATED) == (1, 0, 0, 0)


def test_depth_is_of_the_shallowest_occurrence_and_of_the_deepest_transfer() -> None:
    assert features({"VpcId": "vpc-1234abcd"}, LISTED) == (1, 0, 1, 3)
    assert features({"VpcId": "vpc-1234abcd"}, LISTED, CREATED) == (1, 0, 1, 2)
    assert features({"VpcId": "vpc-1234abcd", "Subnet": "sub-77889900"}, LISTED, CREATED) == (1, 0, 2, 5)


def test_chance_is_no_transfer() -> None:
    assert features({"Default": False, "Port": 443, "None": None}, CREATED)[2] == 0


def test_words_of_the_schema_are_no_transfers() -> None:
    schema = {"properties": {"State": {"enum": ["available", "gone"]}, "Kinds": {"items": {"default": "available"}}}}
    listed = Upstream("list", {}, {"State": "available"})
    assert features({"State": "available"}, listed)[2] == 1
    assert features({"State": "available"}, listed, schema=schema)[2] == 0
    assert features({"Kinds": ["available"]}, listed, schema=schema)[2] == 0


def test_references_by_label_are_transfers_where_no_result_is_released() -> None:
    earlier = Upstream("find", {}, None, label="var1")
    assert features({"a": "$var1.user.id$", "b": "$var1$"}, earlier) == (1, 0, 2, 2)
    assert features({"a": "var10", "b": "$var2.x$"}, earlier)[2] == 0
    assert features({"a": "5 * $var1.Exchange Rate$", "b": "$var1.artist_id"}, earlier)[2:] == (2, 1)
    assert features({"a": "$100-$200", "b": "$var10.x$"}, earlier)[2] == 0
    assert symbolic("API_call_0", [Upstream("f", {}, None, "API_call_0")]) == ()
    assert symbolic("API_call_0", [Upstream("f", {}, {"r": 1}, "API_call_0")]) is None


def test_conditions_of_the_task_and_of_the_schema_add_up() -> None:
    schema = {
        "dependentRequired": {"kind": ["port", "code"], "absent": ["x"]},
        "allOf": [{"if": {"properties": {"kind": {"const": "tcp"}}}, "then": {"required": ["port"]}}],
        "properties": {"inner": {"dependentRequired": {"a": ["b"]}}},
    }
    assert features({"kind": "tcp", "port": 1}, schema=schema)[1] == 2
    assert features({"inner": {"a": 1, "b": 2}}, schema=schema)[1] == 1
    assert features({"kind": "tcp", "port": 1}, schema=schema, conditions=3)[1] == 5


def test_odd_schemas_and_absurd_depths_survive() -> None:
    value: dict[str, Any] = {"a": 1}
    for _ in range(3000):
        value = {"a": [value]}
    assert features(value)[0] == 3001
    for schema in ({"properties": None}, {"properties": {"a": {"$ref": "#"}}}, {"dependentRequired": 3, "if": True}):
        assert features({"a": {"a": 1}}, schema=schema)[1] == 0


@pytest.mark.parametrize(
    ("numbers", "level"),
    [
        ((1, 0, 0, 0), "L1"),  # a stated range
        ((3, 0, 0, 0), "L2"),  # the same with tags
        ((1, 0, 1, 2), "L2"),  # delete what was just made
        ((3, 0, 1, 2), "L3"),  # make a thing with tags in what was just made
        ((1, 0, 2, 3), "L3"),  # join two things of a listing
        ((3, 1, 1, 2), "L4"),  # open a port in a group
        ((3, 1, 2, 5), "L5"),  # open it to a group that is named inside another group's rules
        ((9, 9, 9, 9), "L5"),
    ],
)
def test_the_rule_on_kinds_of_calls(numbers: tuple[int, int, int, int], level: str) -> None:
    assert level_of(LevelFeatures(*numbers)) == level


def test_every_feature_only_ever_raises_the_level() -> None:
    for place in range(4):
        levels = []
        for value in range(1, 8):
            numbers = [1, 0, 0, 0]
            numbers[place] = value
            levels.append(LEVELS.index(level_of(LevelFeatures(*numbers))))
        assert levels == sorted(levels)


def test_the_printed_rule_says_every_cut_off() -> None:
    assert all(level in RULE for level in LEVELS)
    assert all(len(line) <= 120 for line in RULE.splitlines())
