"""Rules for transit gateways, their attachments, route tables and peers."""

from __future__ import annotations

import re
from typing import Any

from toolsavvy.generators.parambench.oracle.finding import items, meant, spoken, tags
from toolsavvy.generators.parambench.oracle.lexicon import cidrs, says
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.scenarios.nets import find_part
from toolsavvy.generators.parambench.scenarios.transit import ATTACHED, REGIONS, SWITCHES

_SENTENCES = r"(?<=\.) "
_NOT = r"\b(?:not|no|off)\b"


def _options(text: str, words: dict[str, str]) -> dict[str, Any]:
    """Options on or off, sentence by sentence."""
    found = {}
    for sentence in re.split(_SENTENCES, text):
        for key, said in words.items():
            if said in sentence:
                head = sentence[: sentence.find(said)]
                found[key] = "disable" if says(head, _NOT) else "enable"
    return found


def span(text: str) -> str | None:
    """A range that a text says, whole or as a part of one."""
    said = cidrs(text)
    return (find_part(text, said[0]) or said[0]) if said else None


def _create(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    found: dict[str, Any] = {}
    if m := re.search(r'"([^"]+)"', text):
        found["Description"] = m[1]
    options = _options(text, SWITCHES)
    if m := re.search(r"(?:AS number|ASN)\D*(\d+)", text):
        options["AmazonSideAsn"] = int(m[1])
    if block := span(text):
        options["TransitGatewayCidrBlocks"] = [block]
    return found | ({"Options": options} if options else {}) | tags(sight, "transit-gateway")


def _modify(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    found: dict[str, Any] = {"TransitGatewayId": meant(sight, "tgw")}
    if m := re.search(r'"([^"]+)"', text):
        found["Description"] = m[1]
    options = _options(text, SWITCHES)
    if block := span(text):
        options["AddTransitGatewayCidrBlocks"] = [block]
    for field, word in (
        ("AssociationDefaultRouteTableId", "associations"),
        ("PropagationDefaultRouteTableId", "propagations"),
    ):
        if m := re.search(rf"table for {word} is [^.]*", text):
            options[field] = meant(sight, "tgw-rtb", m[0])
    return found | ({"Options": options} if options else {})


def _attach(sight: Sight) -> dict[str, Any]:
    found: dict[str, Any] = {
        "TransitGatewayId": meant(sight, "tgw"),
        "VpcId": meant(sight, "vpc"),
        "SubnetIds": spoken(sight, "subnet") or sight.of_kind("subnet"),
    }
    if options := _options(sight.instruction, ATTACHED):
        found["Options"] = options
    return found | tags(sight, "transit-gateway-attachment")


def attachment(sight: Sight, text: str | None = None) -> str:
    """The attachment that a text speaks of: by id, by its VPC, by the VPC's range, else the newest."""
    text = sight.instruction if text is None else text
    if said := spoken(sight, "tgw-attach", text):
        return said[0]
    vpcs = spoken(sight, "vpc", text)
    if not vpcs and says(text, "network") and (block := cidrs(text)):
        vpcs = [v["VpcId"] for v in items(sight, "VpcId") if v.get("CidrBlock") == block[0]]
    for row in reversed(items(sight, "TransitGatewayAttachmentId")):
        if vpcs and vpcs[0] in (row.get("VpcId"), row.get("ResourceId")):
            return row["TransitGatewayAttachmentId"]
    return meant(sight, "tgw-attach", text)


def _reattach(sight: Sight) -> dict[str, Any]:
    found: dict[str, Any] = {"TransitGatewayAttachmentId": attachment(sight)}
    for sentence in re.split(_SENTENCES, sight.instruction):
        if subnets := spoken(sight, "subnet", sentence):
            found["RemoveSubnetIds" if says(sentence, "out of", "no longer") else "AddSubnetIds"] = subnets
    if options := _options(sight.instruction, ATTACHED):
        found["Options"] = options
    return found


def _peer(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    held = sight.of_kind("tgw")
    own = [i for i in spoken(sight, "tgw") if i in held] or held[-1:]
    other = next(i for i in sight.stated("tgw") if i not in held)
    account = re.search(r"account (\d{12})", text)
    place = next((code for place, code in REGIONS.items() if place in text or code in text), None)
    found: dict[str, Any] = {
        "TransitGatewayId": own[0],
        "PeerTransitGatewayId": other,
        "PeerAccountId": account[1] if account else "",
        "PeerRegion": place,
    }
    if says(text, "dynamic"):
        found["Options"] = {"DynamicRouting": "disable" if says(text, r"\b(?:no|not)\b") else "enable"}
    return found | tags(sight, "transit-gateway-attachment")


def table(sight: Sight) -> str:
    """The route table that a request speaks of: by name or id, or as the default of a gateway."""
    if says(sight.instruction, "default route table of"):
        own = meant(sight, "tgw")
        rows = [row["Options"] for row in items(sight, "Options") if row.get("TransitGatewayId") == own]
        return next(o["AssociationDefaultRouteTableId"] for o in rows if "AssociationDefaultRouteTableId" in o)
    return meant(sight, "tgw-rtb")


def _route(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    found: dict[str, Any] = {"TransitGatewayRouteTableId": table(sight), "DestinationCidrBlock": _target(sight)}
    if says(text, r"no(?:t be a)? black hole"):
        found["Blackhole"] = False
    elif says(text, r"\bdrop\b", "black ?hole"):
        return found | {"Blackhole": True}
    by = re.search(r"(?:that attachment|the (?:VPC )?attachment|attachment tgw)[^,]*", text)
    return found | {"TransitGatewayAttachmentId": attachment(sight, by[0] if by else text)}


def _target(sight: Sight) -> str:
    """The range that a route is for."""
    text = sight.instruction
    if "everything else" in text:
        return "0.0.0.0/0"
    if m := re.search(r"(?:range|half|quarter|/\d+) of the VPC (\S+\w)", text):
        cidr = str(sight.object(meant(sight, "vpc", m[1]))["CidrBlock"])
        return find_part(text, cidr) or cidr
    if (block := span(text)) is None:
        raise LookupError("no range")
    return block


def _delete_route(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    found = {"TransitGatewayRouteTableId": table(sight)}
    rows = [c.arguments for c in sight.calls("CreateTransitGatewayRoute")]
    if block := cidrs(text):
        return found | {"DestinationCidrBlock": block[0]}
    black = says(text, "black hole", "drops traffic")
    return found | {
        "DestinationCidrBlock": next(r["DestinationCidrBlock"] for r in rows if ("Blackhole" in r) is black)
    }


def _pair(sight: Sight) -> dict[str, Any]:
    return {"TransitGatewayAttachmentId": attachment(sight), "TransitGatewayRouteTableId": table(sight)}


def _create_table(sight: Sight) -> dict[str, Any]:
    return {"TransitGatewayId": meant(sight, "tgw")} | tags(sight, "transit-gateway-route-table")


RULES = {
    "ec2:CreateTransitGateway": _create,
    "ec2:ModifyTransitGateway": _modify,
    "ec2:CreateTransitGatewayVpcAttachment": _attach,
    "ec2:ModifyTransitGatewayVpcAttachment": _reattach,
    "ec2:DeleteTransitGatewayVpcAttachment": lambda sight: {"TransitGatewayAttachmentId": attachment(sight)},
    "ec2:CreateTransitGatewayPeeringAttachment": _peer,
    "ec2:CreateTransitGatewayRouteTable": _create_table,
    "ec2:CreateTransitGatewayRoute": _route,
    "ec2:DeleteTransitGatewayRoute": _delete_route,
    "ec2:AssociateTransitGatewayRouteTable": _pair,
    "ec2:EnableTransitGatewayRouteTablePropagation": _pair,
    "ec2:DisableTransitGatewayRouteTablePropagation": _pair,
}
