"""Rules for DHCP options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from typing import Any

from toolsavvy.generators.parambench.oracle.lexicon import ADDRESS, says, the
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.oracle.vpcs import range_of, vpc_of

_DOMAIN = r"[a-z]+\.(?:corp|internal|lan|local)\b"
_HOSTS = rf"{ADDRESS}(?:(?:, | and ){ADDRESS})*"
_SERVERS = {"domain-name-servers": "DNS", "ntp-servers": "NTP", "netbios-name-servers": "NetBIOS name"}


def stated(text: str) -> dict[str, list[str]]:
    """Options that a text states."""
    found: dict[str, list[str]] = {}
    if m := re.search(rf"domain name ({_DOMAIN})|({_DOMAIN}) as domain name", text):
        found["domain-name"] = [m[1] or m[2]]
    for key, kind in _SERVERS.items():
        if m := re.search(rf"{kind} servers? ({_HOSTS})|({_HOSTS}) as {kind} servers?", text):
            found[key] = re.findall(ADDRESS, m[1] or m[2])
    if m := re.search(r"node type (\d)", text):
        found["netbios-node-type"] = [m[1]]
    return found


def create(sight: Sight) -> Mapping[str, Any]:
    """CreateDhcpOptions: what is stated, over what an earlier set has, or a VPC's resolver."""
    text = sight.instruction
    options = stated(text)
    if says(text, r"\blike\b|\bcopy\b"):
        options = sets(sight)[the(sight, "dopt")] | options
    if says(text, r"address two above|second address after"):
        base = ip_network(range_of(sight, vpc_of(sight)))
        options["domain-name-servers"] = [str(base[2])]
    return {"DhcpConfigurations": [{"Key": key, "Values": values} for key, values in options.items()]}


def sets(sight: Sight) -> dict[str, dict[str, list[str]]]:
    """Options of every set that the results show."""
    found = {}
    for _, _, item in sight.objects:
        if "DhcpOptionsId" in item and item.get("DhcpConfigurations"):
            found[item["DhcpOptionsId"]] = {
                row["Key"]: [v["Value"] for v in row["Values"]] for row in item["DhcpConfigurations"]
            }
    return found


def set_of(sight: Sight) -> str:
    """The set that is meant: by name or id, or by its domain."""
    named = [*sight.stated("dopt"), *sight.mentioned("dopt")]
    if not named and (m := re.search(_DOMAIN, sight.instruction)):
        return next(own for own, options in sets(sight).items() if options.get("domain-name") == [m[0]])
    return the(sight, "dopt")


def associate(sight: Sight) -> Mapping[str, Any]:
    """AssociateDhcpOptions."""
    default = says(sight.instruction, r"\bdefault\b")
    return {"DhcpOptionsId": "default" if default else set_of(sight), "VpcId": vpc_of(sight)}


def delete(sight: Sight) -> Mapping[str, Any]:
    """DeleteDhcpOptions."""
    return {"DhcpOptionsId": set_of(sight)}


RULES: dict[str, Callable[[Sight], Mapping[str, Any]]] = {
    "ec2:CreateDhcpOptions": create,
    "ec2:AssociateDhcpOptions": associate,
    "ec2:DeleteDhcpOptions": delete,
}
