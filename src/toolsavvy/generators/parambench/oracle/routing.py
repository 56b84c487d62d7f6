"""Rules for route tables and what is bound to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolsavvy.generators.parambench.oracle.lexicon import says, tag_specifications, the
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.oracle.subnets import subnet_of
from toolsavvy.generators.parambench.oracle.vpcs import vpc_of


def create(sight: Sight) -> Mapping[str, Any]:
    """CreateRouteTable."""
    by_subnet = says(sight.instruction, r"the VPC that .*subnet .*is in")
    vpc = sight.object(subnet_of(sight))["VpcId"] if by_subnet else vpc_of(sight)
    return {"VpcId": vpc} | tag_specifications(sight, "route-table")


def associate(sight: Sight) -> Mapping[str, Any]:
    """AssociateRouteTable."""
    return {"RouteTableId": the(sight, "rtb"), "SubnetId": subnet_of(sight)}


def association_of(sight: Sight, subnet: str) -> str:
    """A subnet's association with its route table, from a listing or from the call that made it."""
    for _, _, item in sight.objects:
        if item.get("SubnetId") == subnet and "RouteTableAssociationId" in item:
            return item["RouteTableAssociationId"]
    made = [c for c in sight.calls("AssociateRouteTable") if c.arguments.get("SubnetId") == subnet]
    return made[-1].output["AssociationId"]


def disassociate(sight: Sight) -> Mapping[str, Any]:
    """DisassociateRouteTable."""
    return {"AssociationId": association_of(sight, subnet_of(sight))}


def replace(sight: Sight) -> Mapping[str, Any]:
    """ReplaceRouteTableAssociation."""
    return {"AssociationId": association_of(sight, subnet_of(sight)), "RouteTableId": the(sight, "rtb")}


def delete(sight: Sight) -> Mapping[str, Any]:
    """DeleteRouteTable."""
    return {"RouteTableId": the(sight, "rtb")}


RULES: dict[str, Callable[[Sight], Mapping[str, Any]]] = {
    "ec2:CreateRouteTable": create,
    "ec2:AssociateRouteTable": associate,
    "ec2:DisassociateRouteTable": disassociate,
    "ec2:ReplaceRouteTableAssociation": replace,
    "ec2:DeleteRouteTable": delete,
}
