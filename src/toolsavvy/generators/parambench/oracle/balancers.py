"""Rules for calls on load balancers."""

from __future__ import annotations

import re
from typing import Any

from toolsavvy.generators.parambench.oracle import balancing as k
from toolsavvy.generators.parambench.oracle.lexicon import says, seconds
from toolsavvy.generators.parambench.oracle.sight import Sight

_ON_OFF = {
    "deletion_protection.enabled": (r"protect it against deletion", r"lift its protection"),
    "load_balancing.cross_zone.enabled": (r"spread traffic across zones", r"keep traffic in the zone"),
    "routing.http2.enabled": (r"\boffer HTTP/2", r"stop offering HTTP/2"),
    "routing.http.drop_invalid_header_fields.enabled": (r"drop invalid header", r"let invalid header"),
    "routing.http.preserve_host_header.enabled": (r"Host header on unchanged", r"no longer preserve the Host"),
    "waf.fail_open.enabled": (r"let requests pass when the web firewall", r"block requests when the web firewall"),
}
_SPANS = {
    "idle_timeout.timeout_seconds": r"idle connections after ([^,.]*?)(?:,| and |\.|$)",
    "client_keep_alive.seconds": r"connections alive for ([^,.]*?)(?:,| and |\.|$)",
}


def attributes(text: str) -> list[dict[str, str]]:
    """Attributes of a load balancer that a text wishes for, in the order of the text."""
    found: list[tuple[int, str, str]] = []
    for key, ways in _ON_OFF.items():
        for value, pattern in zip(("true", "false"), ways, strict=True):
            found += [(m.start(), key, value) for m in re.finditer(pattern, text, re.IGNORECASE)][:1]
    for key, pattern in _SPANS.items():
        if m := re.search(pattern, text, re.IGNORECASE):
            found.append((m.start(), key, str(seconds(m[1]))))
    if m := re.search(r"desync attacks to (\w+)|only (monitor) desync", text, re.IGNORECASE):
        found.append((m.start(), "routing.http.desync_mitigation_mode", m[1] or m[2]))
    return k.pairs([(key, value) for _, key, value in sorted(found)])


def create(sight: Sight) -> dict[str, Any]:
    """A new load balancer."""
    text = sight.instruction
    arguments: dict[str, Any] = {"Name": k.first(text, rf"(?:balancer (?:called|named)|with the name) ({k.LABEL})")}
    arguments["Scheme"] = (
        "internal" if says(text, r"\b(?:internal|internal-only|private) (?:\w+ )load") else "internet-facing"
    )
    arguments["Type"] = k.first(text, r"(application|network) load balancer")
    ids = subnets(sight)
    if mappings := _mappings(sight, ids):
        arguments["SubnetMappings"] = mappings
    else:
        arguments["Subnets"] = ids
    if groups := k.mentioned(text, k.security_groups(sight)):
        arguments["SecurityGroups"] = groups
    if says(text, "IPv6", "dual-stack"):
        arguments["IpAddressType"] = "dualstack"
    if tags := k.tags(text):
        arguments["Tags"] = tags
    return arguments


def subnets(sight: Sight) -> list[str]:
    """Ids of the subnets that a request means: by id, by name, by zone, or all."""
    text, known = sight.instruction, k.subnets(sight)
    if found := sight.stated("subnet") or k.mentioned(text, known):
        return found
    zones = {str(sight.object(own).get("AvailabilityZone")): own for own in known.values()}
    return k.mentioned(text, zones) or list(known.values())


def _mappings(sight: Sight, ids: list[str]) -> list[dict[str, str]]:
    text = sight.instruction
    if number := k.first(text, r"ends? in \.(\d+)", r"ending in \.(\d+)"):
        fronts = [str(sight.object(own)["CidrBlock"]).rsplit(".", 1)[0] for own in ids]
        return [
            {"SubnetId": own, "PrivateIPv4Address": f"{front}.{number}"} for own, front in zip(ids, fronts, strict=True)
        ]
    known = k.table(sight, "PublicIp", "AllocationId")
    names = k.subnets(sight)
    spots = re.findall(rf"(\d+\.\d+\.\d+\.\d+) in ({k.LABEL})", text)
    return [{"SubnetId": names[name], "AllocationId": known[address]} for address, name in spots]


def set_subnets(sight: Sight) -> dict[str, Any]:
    """Other subnets, or more of them."""
    own = k.balancer(sight)
    wanted = k.mentioned(sight.instruction, k.subnets(sight))
    if says(sight.instruction, r"\b(?:extend|add)\b"):
        zones = k.described(sight, "LoadBalancerArn", own)["AvailabilityZones"]
        wanted = [zone["SubnetId"] for zone in zones] + wanted
    return {"LoadBalancerArn": own, "Subnets": wanted}


def set_security_groups(sight: Sight) -> dict[str, Any]:
    """Other security groups, or more of them."""
    own = k.balancer(sight)
    wanted = k.mentioned(sight.instruction, k.security_groups(sight))
    if says(sight.instruction, r"\bkeep the\b", r"\bbeside\b"):
        wanted = [*k.described(sight, "LoadBalancerArn", own)["SecurityGroups"], *wanted]
    return {"LoadBalancerArn": own, "SecurityGroups": wanted}


def set_ip_address_type(sight: Sight) -> dict[str, Any]:
    """IPv6 or not."""
    kind = "dualstack" if says(sight.instruction, "IPv6", "dual-stack") else "ipv4"
    return {"LoadBalancerArn": k.balancer(sight), "IpAddressType": kind}


def describe(sight: Sight) -> dict[str, Any]:
    """By name, by arn, or a page of all."""
    if size := k.first(sight.instruction, r"at most (\d+) at a time", r"pages of (\d+)"):
        return {"PageSize": int(size)}
    arns = k.mentioned(sight.instruction, k.balancers(sight))
    if says(sight.instruction, r"\bARNs?\b"):
        return {"LoadBalancerArns": arns}
    names = {arn: name for name, arn in k.balancers(sight).items()}
    return {"Names": [names[arn] for arn in arns]}


def own(sight: Sight) -> dict[str, Any]:
    """The load balancer alone."""
    return {"LoadBalancerArn": k.balancer(sight)}


RULES = {
    "elbv2:CreateLoadBalancer": create,
    "elbv2:SetSubnets": set_subnets,
    "elbv2:SetSecurityGroups": set_security_groups,
    "elbv2:SetIpAddressType": set_ip_address_type,
    "elbv2:ModifyLoadBalancerAttributes": lambda s: own(s) | {"Attributes": attributes(s.instruction)},
    "elbv2:DeleteLoadBalancer": own,
    "elbv2:DescribeLoadBalancers": describe,
    "elbv2:DescribeLoadBalancerAttributes": own,
}
