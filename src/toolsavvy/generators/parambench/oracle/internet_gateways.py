"""Rules for internet gateways and egress-only ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolsavvy.generators.parambench.oracle.lexicon import says, tag_specifications, the
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.oracle.vpcs import vpc_of


def create(sight: Sight) -> Mapping[str, Any]:
    """CreateInternetGateway: a name of its own, or that of a VPC."""
    if says(sight.instruction, r"same name as|bears the name of"):
        label = next(n for n, ids in sight.names.items() if vpc_of(sight) in ids)
        return {"TagSpecifications": [{"ResourceType": "internet-gateway", "Tags": [{"Key": "Name", "Value": label}]}]}
    return tag_specifications(sight, "internet-gateway")


def attach(sight: Sight) -> Mapping[str, Any]:
    """AttachInternetGateway."""
    return {"InternetGatewayId": the(sight, "igw"), "VpcId": vpc_of(sight)}


def attachments(sight: Sight) -> dict[str, str]:
    """Internet gateway -> the VPC that it is attached to."""
    found = {c.arguments["InternetGatewayId"]: c.arguments["VpcId"] for c in sight.calls("AttachInternetGateway")}
    for _, _, item in sight.objects:
        if "InternetGatewayId" in item and item.get("Attachments"):
            found[item["InternetGatewayId"]] = item["Attachments"][0]["VpcId"]
    return found


def detach(sight: Sight) -> Mapping[str, Any]:
    """DetachInternetGateway: gateway or VPC is named, the other follows."""
    attached = attachments(sight)
    named = [*sight.stated("igw"), *sight.mentioned("igw")]
    if named:
        return {"InternetGatewayId": named[0], "VpcId": attached[named[0]]}
    vpc = vpc_of(sight)
    return {"InternetGatewayId": next(g for g, v in attached.items() if v == vpc), "VpcId": vpc}


def delete(sight: Sight) -> Mapping[str, Any]:
    """DeleteInternetGateway: by name, or the one that is attached to nothing."""
    if says(sight.instruction, "attached to no VPC"):
        attached = attachments(sight)
        return {"InternetGatewayId": next(g for g in sight.of_kind("igw") if g not in attached)}
    return {"InternetGatewayId": the(sight, "igw")}


def create_egress_only(sight: Sight) -> Mapping[str, Any]:
    """CreateEgressOnlyInternetGateway."""
    return {"VpcId": vpc_of(sight)} | tag_specifications(sight, "egress-only-internet-gateway")


def delete_egress_only(sight: Sight) -> Mapping[str, Any]:
    """DeleteEgressOnlyInternetGateway: by name, or that of a VPC."""
    named = [*sight.stated("eigw"), *sight.mentioned("eigw")]
    if named:
        return {"EgressOnlyInternetGatewayId": named[0]}
    vpc = vpc_of(sight)
    for _, _, item in sight.objects:
        if "EgressOnlyInternetGatewayId" in item and any(a.get("VpcId") == vpc for a in item.get("Attachments", ())):
            return {"EgressOnlyInternetGatewayId": item["EgressOnlyInternetGatewayId"]}
    raise LookupError(f"no gateway of {vpc}")


RULES: dict[str, Callable[[Sight], Mapping[str, Any]]] = {
    "ec2:CreateInternetGateway": create,
    "ec2:AttachInternetGateway": attach,
    "ec2:DetachInternetGateway": detach,
    "ec2:DeleteInternetGateway": delete,
    "ec2:CreateEgressOnlyInternetGateway": create_egress_only,
    "ec2:DeleteEgressOnlyInternetGateway": delete_egress_only,
}
