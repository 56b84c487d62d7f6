"""Effects of calls: equal up to made-up ids and order, refused alike, read alike, and nothing that differs slips by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from toolsavvy.catalog import Tool
from toolsavvy.errors import UserError
from toolsavvy.generators.parambench.playing import play
from toolsavvy.generators.parambench.scene import Goal, Scene
from toolsavvy.parameters.cloud.effects import Executor, execution_match
from toolsavvy.tasks import ParamTask

SEED = 11
TAGS = [{"Key": "Name", "Value": "core"}, {"Key": "team", "Value": "net"}]


def network(scene: Scene) -> str:
    vpc = scene.do("ec2:CreateVpc", CidrBlock="10.0.0.0/16")
    return str(vpc["Vpc"]["VpcId"])


def told(operation: str, program: Callable[[Scene], Mapping[str, Any]], unordered: tuple[str, ...] = ()) -> ParamTask:
    """A toy story of one operation; its schema allows anything."""

    def story(scene: Scene) -> Goal:
        return Goal(program(scene), ("do it",), unordered=unordered)

    found = play(operation, story, SEED, Tool(operation, operation, parameters={"type": "object"}))
    assert isinstance(found, ParamTask), found
    return found


def group(scene: Scene) -> dict[str, Any]:
    made = scene.do("ec2:CreateSecurityGroup", GroupName="web", Description="web", VpcId=network(scene))
    rule = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}
    other = {"IpProtocol": "tcp", "FromPort": 80, "ToPort": 80, "IpRanges": [{"CidrIp": "10.1.0.0/16"}]}
    return {"GroupId": made["GroupId"], "IpPermissions": [rule, other]}


def subnet(scene: Scene) -> dict[str, Any]:
    return {"VpcId": network(scene), "CidrBlock": "10.0.1.0/24"}


def with_tags(scene: Scene) -> dict[str, Any]:
    return {"Resources": [network(scene)], "Tags": TAGS}


def vpcs(scene: Scene) -> dict[str, Any]:
    first, _ = network(scene), scene.do("ec2:CreateVpc", CidrBlock="10.9.0.0/16")
    return {"VpcIds": [first]}


def test_the_same_arguments_have_the_same_effect() -> None:
    for operation, story in (("ec2:CreateSubnet", subnet), ("ec2:AuthorizeSecurityGroupIngress", group)):
        task, executor = told(operation, story), Executor()
        once, again = (executor.effect(task, task.reference.arguments) for _ in range(2))
        assert once == again
        assert once.changes
        assert executor.match(task, dict(task.reference.arguments))


@pytest.mark.parametrize(
    "changed",
    [
        {"CidrBlock": "10.0.2.0/24"},
        {"AvailabilityZone": "us-east-1d"},
        {"TagSpecifications": [{"ResourceType": "subnet", "Tags": TAGS}]},
        {"CidrBlock": "10.3.0.0/24"},  # refused: not in the VPC's range
        {"VpcId": "vpc-0123456789abcdef0"},  # refused: no such VPC
    ],
)
def test_other_arguments_have_another_effect(changed: dict[str, Any]) -> None:
    task = told("ec2:CreateSubnet", subnet)
    assert not execution_match(task, {**task.reference.arguments, **changed})


def test_order_does_not_tell_and_values_do() -> None:
    task = told("ec2:AuthorizeSecurityGroupIngress", group)
    arguments = task.reference.arguments
    turned = {**arguments, "IpPermissions": arguments["IpPermissions"][::-1]}
    assert execution_match(task, turned)
    half = {**arguments, "IpPermissions": arguments["IpPermissions"][:1]}
    assert not execution_match(task, half)
    tags = told("ec2:CreateTags", with_tags)
    assert execution_match(tags, {**tags.reference.arguments, "Tags": TAGS[::-1]})
    assert not execution_match(tags, {**tags.reference.arguments, "Tags": TAGS[:1]})


def test_defaults_may_be_said_or_left_out() -> None:
    task = told("ec2:CreateVpc", lambda scene: {"CidrBlock": "10.0.0.0/16", "InstanceTenancy": "default"})
    assert execution_match(task, {"CidrBlock": "10.0.0.0/16"})
    assert not execution_match(task, {"CidrBlock": "10.0.0.0/16", "InstanceTenancy": "dedicated"})


def test_reads_are_compared_by_their_results() -> None:
    task = told("ec2:DescribeVpcs", vpcs)
    identifier = task.reference.arguments["VpcIds"][0]
    assert execution_match(task, {"Filters": [{"Name": "vpc-id", "Values": [identifier]}]})
    assert not execution_match(task, {})


def test_no_call_and_what_is_refused_never_match() -> None:
    task, executor = told("ec2:CreateSubnet", subnet), Executor()
    assert not executor.match(task, None)
    assert not executor.match(task, {"Nonsense": 1})
    assert executor.effect(task, {"Nonsense": 1}).refused == "ParamValidationError"
    assert executor.matches(task, [None, {"Nonsense": 1}, task.reference.arguments]) == [False, False, True]


def test_another_operation_may_reach_the_same() -> None:
    task = told("ec2:CreateTags", with_tags)
    executor, vpc = Executor(), task.reference.arguments["Resources"][0]
    assert not executor.match(task, {"VpcId": vpc, "CidrBlock": "10.0.7.0/24"}, "ec2:CreateSubnet")
    assert executor.match(task, {"Resources": [vpc], "Tags": TAGS}, "ec2:CreateTags")


def test_calls_out_of_sight_are_played_again() -> None:
    def story(scene: Scene) -> Mapping[str, Any]:
        scene.hidden("ec2:AllocateAddress", Domain="vpc")
        vpc = network(scene)
        scene.hidden("ec2:CreateInternetGateway")
        return {"VpcId": vpc, "CidrBlock": "10.0.5.0/24"}

    task = told("ec2:CreateSubnet", story)
    assert len(task.upstream) == 1
    assert task.facts["shown"] == [False, True, False]
    assert Executor().reference(task).changes


def test_a_story_is_the_same_by_seed() -> None:
    def story(scene: Scene) -> Mapping[str, Any]:
        return {"VpcId": network(scene), "CidrBlock": f"10.0.{scene.rng.randrange(256)}.0/24"}

    assert told("ec2:CreateSubnet", story) == told("ec2:CreateSubnet", story)


def test_tasks_that_were_not_made_on_moto_are_refused() -> None:
    task = told("ec2:CreateSubnet", subnet)
    with pytest.raises(UserError, match="can't be executed") as refused:
        Executor().reference(replace(task, facts={}))
    assert "parambench_aws" in refused.value.fix
    call = replace(task.upstream[0], output={"Vpc": {}})
    with pytest.raises(UserError, match="no longer gives") as other:
        Executor().reference(replace(task, upstream=(call,)))
    assert "version of moto" in other.value.expected
