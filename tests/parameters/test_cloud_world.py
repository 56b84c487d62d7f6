"""The account in memory: the same bytes by seed, refusals as errors, one world at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from toolsavvy.parameters.cloud.world import CallError, World

SCRIPT = """
import json
from toolsavvy.parameters.cloud.world import World
with World(7) as world:
    vpc = world.call("ec2:CreateVpc", {"CidrBlock": "10.0.0.0/16"})
    zone = world.call("route53:CreateHostedZone", {"Name": "example.org", "CallerReference": "x"})
    lists = [world.call(f"ec2:Describe{kind}", {}) for kind in ("Images", "Snapshots", "PrefixLists", "SecurityGroups")]
    subnet = world.call("ec2:CreateSubnet", {"VpcId": vpc["Vpc"]["VpcId"], "CidrBlock": "10.0.1.0/24"})
    nat = world.call("ec2:CreateNatGateway", {"SubnetId": subnet["Subnet"]["SubnetId"], "ConnectivityType": "private"})
    keys = [world.call("ec2:CreateKeyPair", {"KeyName": kind, "KeyType": kind}) for kind in ("rsa", "ed25519")]
print(json.dumps([vpc, zone, lists, subnet, nat, keys], sort_keys=True))
"""


def played(seed: int) -> list[dict[str, Any]]:
    with World(seed) as world:
        vpc = world.call("ec2:CreateVpc", {"CidrBlock": "10.0.0.0/16"})
        return [vpc, world.call("ec2:DescribeVpcs", {})]


def test_the_seed_makes_the_ids() -> None:
    assert played(1) == played(1)
    assert played(1) != played(2)


def test_the_bytes_are_the_same_in_any_process() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(outputs) == 1
    assert "BEGIN" not in next(iter(outputs))  # no set of tasks should hold a key
    assert "vpc-" in outputs.pop()


def test_an_account_starts_without_networks() -> None:
    with World(1) as world:
        for kind in ("Vpcs", "Subnets", "SecurityGroups", "RouteTables", "NetworkAcls", "InternetGateways"):
            assert world.call(f"ec2:Describe{kind}", {}) == {kind: []}
        assert world.call("ec2:DescribeImages", {})["Images"]


def test_a_second_world_starts_empty() -> None:
    assert len(played(1)[1]["Vpcs"]) == 1
    assert len(played(2)[1]["Vpcs"]) == 1


def test_worlds_do_not_overlap() -> None:
    with World(1) as outer:
        with pytest.raises(RuntimeError, match="seed 1 is still open"), World(2):
            pass
        assert outer.call("ec2:DescribeVpcs", {}) == {"Vpcs": []}  # the first one goes on
    with pytest.raises(RuntimeError, match="inside"):
        outer.call("ec2:DescribeVpcs", {})


@pytest.mark.parametrize(
    ("operation", "arguments", "code"),
    [
        ("ec2:CreateVpc", {"CidrBlock": "10.0.0.0/8"}, "InvalidVpc.Range"),
        ("ec2:CreateSubnet", {"VpcId": "vpc-0123456789abcdef0", "CidrBlock": "10.0.0.0/24"}, "InvalidVpcID.NotFound"),
        ("ec2:CreateVpc", {"CidrBlock": 7}, "ParamValidationError"),
        ("ec2:CreateVpc", {"Nonsense": 7}, "ParamValidationError"),
        ("ec2:MakeCoffee", {}, "UnknownOperation"),
        ("s3:CreateBucket", {}, "UnknownOperation"),
        ("ec2:CreateSecurityGroup", {"GroupName": "a", "Description": "b"}, "AttributeError"),  # no default network
    ],
)
def test_refusals_have_a_code(operation: str, arguments: dict[str, Any], code: str) -> None:
    with World(1) as world, pytest.raises(CallError) as refused:
        world.call(operation, arguments)
    assert refused.value.code == code


def test_the_clock_is_the_worlds_only_while_it_is_open() -> None:
    from moto.core import utils

    with World(1) as world:
        world.call("ec2:CreateVpc", {"CidrBlock": "10.0.0.0/16"})
        inside = utils.utcnow()
    assert inside == datetime(2026, 1, 5, 9, 0, 1)
    assert abs(utils.utcnow() - datetime.now(UTC).replace(tzinfo=None)).total_seconds() < 60


def test_results_are_json() -> None:
    assert json.loads(json.dumps(played(3))) == played(3)
