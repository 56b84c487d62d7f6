"""Rules for VPCs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolsavvy.generators.parambench.oracle.lexicon import cidrs, denies, says, tag_specifications, the
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.scenarios.nets import next_block

FOLLOWS = r"(?:right|directly|immediately) (?:after|follow)|directly follows|comes right after"


def vpc_of(sight: Sight) -> str:
    """The VPC that a request means: by name or id, by its range, or the only one."""
    named = [*sight.stated("vpc"), *sight.mentioned("vpc")]
    if named:
        return named[0]
    for cidr in cidrs(sight.instruction):
        for _, _, item in sight.objects:
            if item.get("CidrBlock") == cidr and "VpcId" in item and "SubnetId" not in item:
                return item["VpcId"]
    return the(sight, "vpc")


def range_of(sight: Sight, vpc: str) -> str:
    """A VPC's first IPv4 range."""
    return next(i["CidrBlock"] for _, _, i in sight.objects if i.get("VpcId") == vpc and "CidrBlock" in i)


def create(sight: Sight) -> Mapping[str, Any]:
    """CreateVpc."""
    text = sight.instruction
    follows = says(text, FOLLOWS)
    found: dict[str, Any] = {"CidrBlock": next_block(range_of(sight, vpc_of(sight))) if follows else cidrs(text)[0]}
    if says(text, r"dedicated"):
        found["InstanceTenancy"] = "dedicated"
    if says(text, r"IPv6"):
        found["AmazonProvidedIpv6CidrBlock"] = True
    return found | tag_specifications(sight, "vpc")


_ATTRIBUTES = {
    r"host ?names": "EnableDnsHostnames",
    r"metrics": "EnableNetworkAddressUsageMetrics",
    r"DNS|resolve": "EnableDnsSupport",
}


def modify(sight: Sight) -> Mapping[str, Any]:
    """ModifyVpcAttribute: one attribute a call."""
    pattern, attribute = next((p, a) for p, a in _ATTRIBUTES.items() if says(sight.instruction, p))
    on = says(sight.instruction, r"switch(?: them| it)? on|turn .* on\b") or not denies(sight.instruction, pattern)
    return {"VpcId": vpc_of(sight), attribute: {"Value": on}}


def delete(sight: Sight) -> Mapping[str, Any]:
    """DeleteVpc."""
    return {"VpcId": vpc_of(sight)}


def tenancy(sight: Sight) -> Mapping[str, Any]:
    """ModifyVpcTenancy: there is one way only."""
    return {"VpcId": vpc_of(sight), "InstanceTenancy": sight.fields["InstanceTenancy"]["enum"][0]}


def associate(sight: Sight) -> Mapping[str, Any]:
    """AssociateVpcCidrBlock."""
    vpc = vpc_of(sight)
    if says(sight.instruction, r"IPv6"):
        return {"VpcId": vpc, "AmazonProvidedIpv6CidrBlock": True}
    follows = says(sight.instruction, FOLLOWS)
    return {"VpcId": vpc, "CidrBlock": next_block(range_of(sight, vpc)) if follows else cidrs(sight.instruction)[0]}


def disassociate(sight: Sight) -> Mapping[str, Any]:
    """DisassociateVpcCidrBlock: the association of the range that is said."""
    cidr = cidrs(sight.instruction)[0]
    found = [i for _, _, i in sight.objects if i.get("CidrBlock") == cidr and "AssociationId" in i]
    return {"AssociationId": found[-1]["AssociationId"]}


RULES: dict[str, Callable[[Sight], Mapping[str, Any]]] = {
    "ec2:CreateVpc": create,
    "ec2:ModifyVpcAttribute": modify,
    "ec2:DeleteVpc": delete,
    "ec2:ModifyVpcTenancy": tenancy,
    "ec2:AssociateVpcCidrBlock": associate,
    "ec2:DisassociateVpcCidrBlock": disassociate,
}
