"""Rules for network ACLs and their entries."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from toolsavvy.generators.parambench.oracle.lexicon import says, tag_specifications, the
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.oracle.subnets import subnet_of
from toolsavvy.generators.parambench.oracle.traffic import Said, ends, kinds
from toolsavvy.generators.parambench.oracle.vpcs import vpc_of

_NUMBERS = {"tcp": "6", "udp": "17", "icmp": "1", "-1": "-1"}
_DEFAULT = 32767
"""Number of the rule that every ACL ends with."""


def create(sight: Sight) -> Mapping[str, Any]:
    """CreateNetworkAcl."""
    return {"VpcId": vpc_of(sight)} | tag_specifications(sight, "network-acl")


def entries(sight: Sight, acl: str) -> list[dict[str, Any]]:
    """Entries of an ACL, from the calls that made them and from listings."""
    found = [dict(c.arguments) for c in sight.calls("CreateNetworkAclEntry") if c.arguments["NetworkAclId"] == acl]
    listed = [i for _, _, i in sight.objects if i.get("NetworkAclId") == acl and "Entries" in i]
    rows = found + [dict(entry) for item in listed for entry in item["Entries"]]
    return [row for row in rows if row["RuleNumber"] < _DEFAULT]


def _fields(said: Said) -> dict[str, Any]:
    found: dict[str, Any] = {"Protocol": _NUMBERS[said.protocol]}
    if said.protocol == "icmp":
        return found | {"IcmpTypeCode": {"Type": -1, "Code": -1}}
    return found if said.first is None else found | {"PortRange": {"From": said.first, "To": said.last}}


def _block(sight: Sight, text: str) -> dict[str, str]:
    """The range in a text; names of ACLs are none."""
    for into, item in ends(sight, text):
        if into in ("IpRanges", "Ipv6Ranges"):
            return {"Ipv6CidrBlock" if into == "Ipv6Ranges" else "CidrBlock": next(iter(item.values()))}
    return {}


def _action(text: str) -> dict[str, str]:
    if says(text, r"\b(?:deny|block|drop)\b"):
        return {"RuleAction": "deny"}
    return {"RuleAction": "allow"} if says(text, r"\b(?:allow|permit|let through)\b") else {}


def _number(sight: Sight, acl: str, egress: bool) -> int:
    text = sight.instruction
    if m := re.search(r"\b[Rr]ule (\d+)\b", text):
        return int(m[1])
    m = re.search(r"\b(\d+) (?:above the highest|more than that of the last)", text)
    return max(e["RuleNumber"] for e in entries(sight, acl) if e["Egress"] == egress) + int(m[1] if m else 0)


def enter(sight: Sight) -> Mapping[str, Any]:
    """CreateNetworkAclEntry."""
    acl, text = the(sight, "acl"), sight.instruction
    egress = says(text, r"\boutbound\b")
    found = {"NetworkAclId": acl, "RuleNumber": _number(sight, acl, egress), "Egress": egress}
    return found | _action(text) | _fields(kinds(text)[0]) | _block(sight, text)


def replace(sight: Sight) -> Mapping[str, Any]:
    """ReplaceNetworkAclEntry: in full, or what is said changes and all else stays."""
    acl, text = the(sight, "acl"), sight.instruction
    egress = says(text, r"\boutbound\b")
    number = _number(sight, acl, egress)
    new = _action(text) | _block(sight, text) | (_fields(kinds(text)[0]) if kinds(text) else {})
    same: dict[str, Any] = {}
    if says(text, r"Keep everything else|All else about it|Nothing else changes"):
        rows = entries(sight, acl)
        same = next(e for e in rows if e["RuleNumber"] == number and e["Egress"] == egress)
        gone = {
            "Protocol": ("PortRange", "IcmpTypeCode"),
            "CidrBlock": ("Ipv6CidrBlock",),
            "Ipv6CidrBlock": ("CidrBlock",),
        }
        dropped = {old for key in new for old in gone.get(key, ())}
        same = {k: v for k, v in same.items() if k not in dropped}
    return same | {"NetworkAclId": acl, "RuleNumber": number, "Egress": egress} | new


def remove(sight: Sight) -> Mapping[str, Any]:
    """DeleteNetworkAclEntry: by number, or by what the entry matches."""
    acl, text = the(sight, "acl"), sight.instruction
    egress = says(text, r"\boutbound\b")
    if m := re.search(r"\b[Rr]ule (\d+)\b", text):
        return {"NetworkAclId": acl, "RuleNumber": int(m[1]), "Egress": egress}
    wanted = _fields(kinds(text)[0]).items()
    found = [e for e in entries(sight, acl) if e["Egress"] == egress and wanted <= e.items()]
    return {"NetworkAclId": acl, "RuleNumber": found[0]["RuleNumber"], "Egress": egress}


def move(sight: Sight) -> Mapping[str, Any]:
    """ReplaceNetworkAclAssociation: the subnet's present association."""
    subnet = subnet_of(sight)
    association = next(
        i["NetworkAclAssociationId"]
        for _, _, i in sight.objects
        if i.get("SubnetId") == subnet and "NetworkAclAssociationId" in i
    )
    return {"AssociationId": association, "NetworkAclId": the(sight, "acl")}


def delete(sight: Sight) -> Mapping[str, Any]:
    """DeleteNetworkAcl."""
    return {"NetworkAclId": the(sight, "acl")}


RULES: dict[str, Callable[[Sight], Mapping[str, Any]]] = {
    "ec2:CreateNetworkAcl": create,
    "ec2:CreateNetworkAclEntry": enter,
    "ec2:ReplaceNetworkAclEntry": replace,
    "ec2:DeleteNetworkAclEntry": remove,
    "ec2:ReplaceNetworkAclAssociation": move,
    "ec2:DeleteNetworkAcl": delete,
}
