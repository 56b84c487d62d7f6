"""Rules for subnets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from toolsavvy.generators.parambench.oracle.lexicon import cidrs, cidrs6, denies, quoted, says, tag_specifications, the
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.oracle.vpcs import FOLLOWS, range_of, vpc_of
from toolsavvy.generators.parambench.scenarios.nets import ORDINALS, block, find_part, halves, next_block


def subnet_of(sight: Sight) -> str:
    """The subnet that a request means: by name or id, by its range, or the only one."""
    named = [*sight.stated("subnet"), *sight.mentioned("subnet")]
    if named:
        return named[0]
    for cidr in cidrs(sight.instruction):
        for _, _, item in sight.objects:
            if item.get("CidrBlock") == cidr and "SubnetId" in item:
                return item["SubnetId"]
    return the(sight, "subnet")


def _zone(sight: Sight) -> dict[str, str]:
    if m := re.search(r"\bus-east-1([a-f])\b|\bzone ([a-f])\b", sight.instruction):
        return {"AvailabilityZone": f"us-east-1{m[1] or m[2]}"}
    return {}


def _sixty_fourth(sight: Sight, vpc: str) -> str:
    """The n-th /64 of a VPC's IPv6 range."""
    m = re.search(rf"the ({'|'.join(ORDINALS)}) /64", sight.instruction)
    sets = [i["Ipv6CidrBlockAssociationSet"] for _, _, i in sight.objects
            if i.get("VpcId") == vpc and i.get("Ipv6CidrBlockAssociationSet") and "SubnetId" not in i]  # fmt: skip
    if m is None:
        return cidrs6(sight.instruction)[0]
    return block(sets[0][0]["Ipv6CidrBlock"], 64, ORDINALS.index(m[1]))


def create(sight: Sight) -> Mapping[str, Any]:
    """CreateSubnet: in a VPC, or like an earlier one."""
    text = sight.instruction
    tags = tag_specifications(sight, "subnet")
    if says(text, r"same VPC|same zone|same size|zone stay the same"):
        old = sight.object(subnet_of(sight))
        cidr = next_block(old["CidrBlock"]) if says(text, FOLLOWS) else halves(old["CidrBlock"])[1]
        return {"VpcId": old["VpcId"], "CidrBlock": cidr, "AvailabilityZone": old["AvailabilityZone"]} | tags
    vpc = vpc_of(sight)
    found = {"VpcId": vpc, "CidrBlock": (cidrs(text) or [find_part(text, range_of(sight, vpc))])[0]}
    if says(text, "IPv6 range"):
        found["Ipv6CidrBlock"] = _sixty_fourth(sight, vpc)
    return found | _zone(sight) | tags


def modify(sight: Sight) -> Mapping[str, Any]:
    """ModifySubnetAttribute: one attribute a call."""
    six = says(sight.instruction, r"IPv6")
    attribute = "AssignIpv6AddressOnCreation" if six else "MapPublicIpOnLaunch"
    return {"SubnetId": subnet_of(sight), attribute: {"Value": not denies(sight.instruction, "IPv6|public")}}


def delete(sight: Sight) -> Mapping[str, Any]:
    """DeleteSubnet."""
    return {"SubnetId": subnet_of(sight)}


def associate(sight: Sight) -> Mapping[str, Any]:
    """AssociateSubnetCidrBlock."""
    subnet = subnet_of(sight)
    return {"SubnetId": subnet, "Ipv6CidrBlock": _sixty_fourth(sight, sight.object(subnet)["VpcId"])}


def reserve(sight: Sight) -> Mapping[str, Any]:
    """CreateSubnetCidrReservation."""
    text, subnet = sight.instruction, subnet_of(sight)
    whole = sight.object(subnet)["CidrBlock"]
    cidr = next((c for c in cidrs(text) if c != whole), None) or find_part(text, whole)
    kind = "prefix" if says(text, "prefix") else "explicit"
    found = {"SubnetId": subnet, "Cidr": cidr, "ReservationType": kind}
    return found | ({"Description": quoted(text)[0]} if quoted(text) else {})


RULES: dict[str, Callable[[Sight], Mapping[str, Any]]] = {
    "ec2:CreateSubnet": create,
    "ec2:ModifySubnetAttribute": modify,
    "ec2:DeleteSubnet": delete,
    "ec2:AssociateSubnetCidrBlock": associate,
    "ec2:CreateSubnetCidrReservation": reserve,
}
