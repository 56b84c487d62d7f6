"""Rules for routes: where they go and what they lead to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolsavvy.generators.parambench.oracle.lexicon import cidrs, cidrs6, says, the
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.oracle.vpcs import range_of

TARGETS = {
    r"egress-only": ("EgressOnlyInternetGatewayId", "eigw"),
    r"internet gateway": ("GatewayId", "igw"),
    r"NAT gateway": ("NatGatewayId", "nat"),
    r"peering": ("VpcPeeringConnectionId", "pcx"),
    r"transit gateway": ("TransitGatewayId", "tgw"),
    r"instance": ("InstanceId", "i"),
}
"""Words of a target -> its argument and the kind of its id."""


def target(sight: Sight) -> dict[str, str]:
    """What a route leads to."""
    field, kind = next(found for words, found in TARGETS.items() if says(sight.instruction, words))
    return {field: the(sight, kind)}


def _destination(sight: Sight) -> dict[str, str]:
    text = sight.instruction
    if says(text, "prefix list"):
        return {"DestinationPrefixListId": the(sight, "pl")}
    if says(text, "IPv6"):
        return {"DestinationIpv6CidrBlock": (cidrs6(text) or ["::/0"])[0]}
    if stated := cidrs(text):
        return {"DestinationCidrBlock": stated[0]}
    if says(text, r"everything else|all remaining traffic|the default route|all other destinations"):
        return {"DestinationCidrBlock": "0.0.0.0/0"}
    if says(text, r"route added above"):
        return {"DestinationCidrBlock": sight.calls("CreateRoute")[-1].arguments["DestinationCidrBlock"]}
    named = [*sight.stated("vpc"), *sight.mentioned("vpc")]
    return {"DestinationCidrBlock": range_of(sight, named[0])}


def create(sight: Sight) -> Mapping[str, Any]:
    """CreateRoute, and ReplaceRoute, which takes the same."""
    return {"RouteTableId": the(sight, "rtb")} | _destination(sight) | target(sight)


def delete(sight: Sight) -> Mapping[str, Any]:
    """DeleteRoute: by destination, or the destination of the route to a target."""
    table, text = the(sight, "rtb"), sight.instruction
    if says(text, r"route that leads to"):
        wanted = target(sight).items()
        made = [c.arguments for c in sight.calls("CreateRoute") if wanted <= c.arguments.items()]
        where = {k: v for k, v in made[-1].items() if k.startswith("Destination")}
    elif six := cidrs6(text):
        where = {"DestinationIpv6CidrBlock": six[0]}
    else:
        where = {"DestinationCidrBlock": cidrs(text)[0]}
    return {"RouteTableId": table} | where


RULES: dict[str, Callable[[Sight], Mapping[str, Any]]] = {
    "ec2:CreateRoute": create,
    "ec2:ReplaceRoute": create,
    "ec2:DeleteRoute": delete,
}
