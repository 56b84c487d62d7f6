"""Rules for network interfaces."""

from __future__ import annotations

import re
from typing import Any

from toolsavvy.generators.parambench.oracle.addresses import subnet
from toolsavvy.generators.parambench.oracle.finding import items, meant, owner, spoken, tags
from toolsavvy.generators.parambench.oracle.lexicon import ADDRESS, NUMBER, says
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.scenarios.words import number_of

_END = rf"(?:{ADDRESS}|(?<!\w)\.\d{{1,3}}\b)"


def addresses(text: str, cidr: str) -> list[str]:
    """Addresses of a /24 that a text says, whole or by how they end."""
    start = cidr.rpartition(".")[0]
    return [a if not a.startswith(".") else start + a for a in re.findall(_END, text)]


def interface(sight: Sight) -> str:
    """The interface that a request speaks of: by name or id, its address, its description, else the newest."""
    text = sight.instruction
    if said := spoken(sight, "eni"):
        return said[0]
    for address in re.findall(rf"interface (?:at|with the address) ({ADDRESS})", text):
        if found := [i for i in items(sight, "NetworkInterfaceId") if i.get("PrivateIpAddress") == address]:
            return found[-1]["NetworkInterfaceId"]
    if quoted := re.search(r'interface described as "([^"]+)"', text):
        return owner(sight, "Description", quoted[1])["NetworkInterfaceId"]
    return meant(sight, "eni")


def _cidr(sight: Sight, identifier: str) -> str:
    return sight.object(sight.object(identifier)["SubnetId"])["CidrBlock"]


def attachment(sight: Sight) -> str:
    """The attachment of the interface, or machine, that a request speaks of."""
    machines, own = spoken(sight, "i"), interface(sight)
    for call in sight.calls("AttachNetworkInterface"):
        if call.arguments["InstanceId"] in machines or (not machines and call.arguments["NetworkInterfaceId"] == own):
            return call.output["AttachmentId"]
    raise LookupError("no such attachment")


def _create(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    found: dict[str, Any] = {"SubnetId": subnet(sight)}
    if m := re.search(r'"([^"]+)"', text):
        found["Description"] = m[1]
    if groups := spoken(sight, "sg"):
        found["Groups"] = groups
    cidr = sight.object(found["SubnetId"])["CidrBlock"]
    said = addresses(text, cidr)
    if says(text, "primary address") and len(said) > 1:
        found["PrivateIpAddresses"] = [{"PrivateIpAddress": a, "Primary": i == 0} for i, a in enumerate(said)]
    elif said:
        found["PrivateIpAddress"] = said[0]
    if m := re.search(rf"\b({NUMBER}) secondary", text):
        found["SecondaryPrivateIpAddressCount"] = number_of(m[1])
    return found | tags(sight, "network-interface")


def _attach(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    device = re.search(rf"\bas (?:eth|device number |device )({NUMBER})", text)
    if device is None:
        raise LookupError("no device")
    found = {
        "NetworkInterfaceId": meant(sight, "eni"),
        "InstanceId": meant(sight, "i"),
        "DeviceIndex": number_of(device[1]),
    }
    if m := re.search(r"network card (\d)", text):
        found["NetworkCardIndex"] = int(m[1])
    return found


def _detach(sight: Sight) -> dict[str, Any]:
    found: dict[str, Any] = {"AttachmentId": attachment(sight)}
    if says(sight.instruction, r"\bforce\b"):
        found["Force"] = not says(sight.instruction, r"not force|no force")
    return found


def _modify(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    found: dict[str, Any] = {"NetworkInterfaceId": meant(sight, "eni")}
    if m := re.search(r'"([^"]+)"', text):
        found["Description"] = {"Value": m[1]}
    elif groups := spoken(sight, "sg"):
        found["Groups"] = groups
    elif says(text, "terminated", "outlive", "together with its instance"):
        gone = not says(text, r"\bkeep\b|outlive")
        found["Attachment"] = {"AttachmentId": attachment(sight), "DeleteOnTermination": gone}
    else:
        found["SourceDestCheck"] = {"Value": says(text, r"\bagain\b")}
    return found


def _assign(sight: Sight) -> dict[str, Any]:
    text = re.sub(rf"interface at {ADDRESS}", "", sight.instruction)
    found: dict[str, Any] = {"NetworkInterfaceId": interface(sight)}
    if m := re.search(rf"\b({NUMBER}) (?:more|automatically)", text):
        found["SecondaryPrivateIpAddressCount"] = number_of(m[1])
    else:
        found["PrivateIpAddresses"] = addresses(text, _cidr(sight, found["NetworkInterfaceId"]))
    if says(text, "other interfaces", "from elsewhere"):
        found["AllowReassignment"] = not says(text, r"\b(?:not|nothing)\b")
    return found


def _unassign(sight: Sight) -> dict[str, Any]:
    own = meant(sight, "eni")
    said = addresses(sight.instruction, _cidr(sight, own))
    held = sight.object(own)["PrivateIpAddresses"]
    every = [a["PrivateIpAddress"] for a in held if not a["Primary"]]
    return {"NetworkInterfaceId": own, "PrivateIpAddresses": said or every}


RULES = {
    "ec2:CreateNetworkInterface": _create,
    "ec2:AttachNetworkInterface": _attach,
    "ec2:DetachNetworkInterface": _detach,
    "ec2:ModifyNetworkInterfaceAttribute": _modify,
    "ec2:AssignPrivateIpAddresses": _assign,
    "ec2:UnassignPrivateIpAddresses": _unassign,
    "ec2:DeleteNetworkInterface": lambda sight: {"NetworkInterfaceId": interface(sight)},
}
