"""Rules for Elastic addresses and NAT gateways."""

from __future__ import annotations

import re
from typing import Any

from toolsavvy.generators.parambench.oracle.finding import items, meant, owner, spoken, tags
from toolsavvy.generators.parambench.oracle.lexicon import ADDRESS, NUMBER, says
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.scenarios.nets import host
from toolsavvy.generators.parambench.scenarios.words import number_of


def _allocate(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    found: dict[str, Any] = {}
    if says(text, "again|back|recover"):
        freed = sight.calls("ReleaseAddress")[-1].arguments["AllocationId"]
        found["Address"] = owner(sight, "AllocationId", freed)["PublicIp"]
    if m := re.search(r"\b(?:from|border group) (us-[\w-]*\w)", text):
        found["NetworkBorderGroup"] = m[1]
    if says(text, r"\bVPC\b"):
        found["Domain"] = "vpc"
    return found | tags(sight, "elastic-ip")


def allocation(sight: Sight) -> str:
    """The address that a request speaks of: by itself, by name or id, else the newest."""
    for address in re.findall(ADDRESS, sight.instruction):
        for item in items(sight, "AllocationId"):
            if item.get("PublicIp") == address:
                return item["AllocationId"]
    return meant(sight, "eipalloc")


def _associate(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    found: dict[str, Any] = {"AllocationId": allocation(sight)}
    if machines := spoken(sight, "i"):
        found["InstanceId"] = machines[0]
    else:
        found["NetworkInterfaceId"] = meant(sight, "eni")
        if m := re.search(r"\b(primary|secondary) private address", text):
            addresses = sight.object(found["NetworkInterfaceId"])["PrivateIpAddresses"]
            wanted = m[1] == "primary"
            found["PrivateIpAddress"] = next(a["PrivateIpAddress"] for a in addresses if a["Primary"] is wanted)
    if says(text, "in use elsewhere", "already mapped", "mapped already"):
        found["AllowReassociation"] = not says(text, r"\b(?:Fail|not)\b")
    return found


def _disassociate(sight: Sight) -> dict[str, Any]:
    if re.search(ADDRESS, sight.instruction):
        wanted = {"AllocationId": allocation(sight)}
    else:
        wanted = {"InstanceId": meant(sight, "i")}
    for call in sight.calls("AssociateAddress"):
        if wanted.items() <= call.arguments.items():
            return {"AssociationId": call.output["AssociationId"]}
    raise LookupError("no such association")


def _release(sight: Sight) -> dict[str, Any]:
    if says(sight.instruction, "attached to nothing", "not in use"):
        return {
            "AllocationId": next(a["AllocationId"] for a in sight.listed("Addresses") if not a.get("AssociationId"))
        }
    return {"AllocationId": allocation(sight)}


def subnet(sight: Sight, text: str | None = None) -> str:
    """The subnet that a text speaks of: by name or id, by its zone, else the newest."""
    said = spoken(sight, "subnet", text)
    zone = re.search(r"\bus-east-1[a-f]\b", sight.instruction if text is None else text)
    if not said and zone:
        return str(owner(sight, "AvailabilityZone", zone[0])["SubnetId"])
    return said[0] if said else meant(sight, "subnet")


def _nat(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    found: dict[str, Any] = {"SubnetId": subnet(sight)}
    if sight.of_kind("eipalloc"):
        found["AllocationId"] = allocation(sight)
    if m := re.search(r"\b(public|private) (?:NAT|traffic)", text):
        found["ConnectivityType"] = m[1]
    if m := re.search(rf"private address ({ADDRESS})|ends in \.(\d+)", text):
        cidr = sight.object(found["SubnetId"])["CidrBlock"]
        last = m[1].rpartition(".")[2] if m[1] else m[2]
        found["PrivateIpAddress"] = m[1] or next(a for i in range(256) if (a := host(cidr, i)).endswith(f".{last}"))
    if m := re.search(rf"({NUMBER}) (?:secondary|further) private", text):
        found["SecondaryPrivateIpAddressCount"] = number_of(m[1])
    return found | tags(sight, "natgateway")


def _delete_nat(sight: Sight) -> dict[str, Any]:
    if says(sight.instruction, r"gateway (?:in|that sits in)\b"):
        return {"NatGatewayId": owner(sight, "SubnetId", subnet(sight))["NatGatewayId"]}
    return {"NatGatewayId": meant(sight, "nat")}


RULES = {
    "ec2:AllocateAddress": _allocate,
    "ec2:AssociateAddress": _associate,
    "ec2:DisassociateAddress": _disassociate,
    "ec2:ReleaseAddress": _release,
    "ec2:CreateNatGateway": _nat,
    "ec2:DeleteNatGateway": _delete_nat,
}
