"""Rules for peering connections."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from toolsavvy.generators.parambench.oracle.lexicon import denies, says, tag_specifications, the
from toolsavvy.generators.parambench.oracle.sight import Sight, at


def create(sight: Sight) -> Mapping[str, Any]:
    """CreateVpcPeeringConnection: who is named first asks."""
    text = sight.instruction
    known = {i: label for label, ids in sight.names.items() for i in ids}
    places = {i: max(text.find(i), text.find(known.get(i, i))) for i in sight.of_kind("vpc")}
    asking, asked = sorted((i for i in places if places[i] >= 0), key=lambda i: places[i])[:2]
    found: dict[str, Any] = {"VpcId": asking, "PeerVpcId": asked}
    if m := re.search(r"\b\d{12}\b", text):
        found["PeerOwnerId"] = m[0]
    if m := re.search(r"\bus-east-1\b", text):
        found["PeerRegion"] = m[0]
    return found | tag_specifications(sight, "vpc-peering-connection")


def connection(sight: Sight) -> str:
    """The connection that is meant: by name or id, or by the VPC that asked for it."""
    named = [*sight.stated("pcx"), *sight.mentioned("pcx")]
    if named or not says(sight.instruction, "asked for"):
        return the(sight, "pcx")
    vpc = the(sight, "vpc")
    return next(
        i["VpcPeeringConnectionId"]
        for _, _, i in sight.objects
        if "VpcPeeringConnectionId" in i and at(i, "RequesterVpcInfo", "VpcId") == vpc
    )


def one(sight: Sight) -> Mapping[str, Any]:
    """AcceptVpcPeeringConnection, Reject- and Delete-."""
    return {"VpcPeeringConnectionId": connection(sight)}


def modify(sight: Sight) -> Mapping[str, Any]:
    """ModifyVpcPeeringConnectionOptions: a sentence a side."""
    found: dict[str, Any] = {"VpcPeeringConnectionId": connection(sight)}
    for sentence in re.split(r"(?<=\.)\s+", sight.instruction):
        if m := re.search(r"the (requester|accepter)'s side", sentence, re.IGNORECASE):
            on = not denies(sentence, "resol")
            found[f"{m[1].capitalize()}PeeringConnectionOptions"] = {"AllowDnsResolutionFromRemoteVpc": on}
    return found


RULES: dict[str, Callable[[Sight], Mapping[str, Any]]] = {
    "ec2:CreateVpcPeeringConnection": create,
    "ec2:AcceptVpcPeeringConnection": one,
    "ec2:RejectVpcPeeringConnection": one,
    "ec2:DeleteVpcPeeringConnection": one,
    "ec2:ModifyVpcPeeringConnectionOptions": modify,
}
