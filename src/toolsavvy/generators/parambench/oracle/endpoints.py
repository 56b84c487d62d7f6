"""Rules for endpoints and for services that are offered to other VPCs."""

from __future__ import annotations

import re
from typing import Any

from toolsavvy.generators.parambench.oracle.finding import items, meant, spoken, tags
from toolsavvy.generators.parambench.oracle.lexicon import says
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.scenarios.endpoints import GATEWAYS, SERVICES

_PRINCIPAL = r"the (?:whole account|(role|user) (\w+) of account) (\d{12})"
_HOST = r"\b(?:[a-z0-9-]+\.)+example\.(?:com|net|org)\b"


def _service(text: str) -> list[str]:
    """Full names of the services that a text says, in its order."""
    region = re.search(r"\b[a-z]{2}-[a-z]+-\d\b", text)
    prefix = f"com.amazonaws.{region[0] if region else 'us-east-1'}."
    found = [
        (m.start(), part) for said, part in (SERVICES | GATEWAYS).items() for m in re.finditer(rf"\b{said}\b", text)
    ]
    return [prefix + part for _, part in sorted(found)]


def _create(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    found: dict[str, Any] = {"VpcId": meant(sight, "vpc"), "ServiceName": _service(text)[0]}
    if says(text, "gateway endpoint"):
        return (
            found | {"VpcEndpointType": "Gateway", "RouteTableIds": spoken(sight, "rtb")} | tags(sight, "vpc-endpoint")
        )
    found |= {"VpcEndpointType": "Interface", "SubnetIds": spoken(sight, "subnet") or sight.of_kind("subnet")}
    if groups := spoken(sight, "sg"):
        found["SecurityGroupIds"] = groups
    if says(text, "private DNS", "usual host name"):
        found["PrivateDnsEnabled"] = not says(text, "DNS off", "public addresses")
    if m := re.search(r"\b(both IPv4 and IPv6|IPv4 only|IPv6 only)", text):
        kind = {"b": "dualstack", "4": "ipv4", "6": "ipv6"}["b" if m[1][0] == "b" else m[1][3]]
        found |= {"IpAddressType": kind, "DnsOptions": {"DnsRecordIpType": kind}}
    return found | tags(sight, "vpc-endpoint")


def _modify(sight: Sight) -> dict[str, Any]:
    found: dict[str, Any] = {"VpcEndpointId": meant(sight, "vpce")}
    for sentence in re.split(r"(?<=\.) ", sight.instruction):
        subnets, groups = spoken(sight, "subnet", sentence), spoken(sight, "sg", sentence)
        if subnets:
            found["RemoveSubnetIds" if says(sentence, "withdraw", "out of") else "AddSubnetIds"] = subnets
        if groups:
            found["AddSecurityGroupIds"] = groups
        if says(sentence, "private DNS", "host name"):
            found["PrivateDnsEnabled"] = not says(sentence, r"\boff\b")
    return found


def _delete(sight: Sight) -> dict[str, Any]:
    if said := spoken(sight, "vpce"):
        return {"VpcEndpointIds": said}
    wanted = _service(sight.instruction)
    held = [i for i in items(sight, "VpcEndpointId") if not wanted or i["ServiceName"] in wanted]
    return {"VpcEndpointIds": [i["VpcEndpointId"] for i in held]}


def balancers(sight: Sight, text: str | None = None) -> list[str]:
    """Load balancers that a text speaks of."""
    return spoken(sight, "loadbalancer", text)


def _offer(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    found: dict[str, Any] = {"NetworkLoadBalancerArns": balancers(sight)}
    if says(text, "approv", "accept"):
        found["AcceptanceRequired"] = not says(text, "no approval", "without asking")
    if m := re.search(_HOST, text):
        found["PrivateDnsName"] = m[0]
    return found | tags(sight, "vpc-endpoint-service")


def service(sight: Sight) -> list[str]:
    """Offered services that a request speaks of: by name or id, by what is behind them, else the newest."""
    if said := spoken(sight, "vpce-svc"):
        return said
    behind = [b for m in re.finditer(r"services? behind ([^.]*)", sight.instruction) for b in balancers(sight, m[1])]
    if not behind:
        return [meant(sight, "vpce-svc")]
    rows = items(sight, "ServiceId")
    held = [(b, r) for b in dict.fromkeys(behind) for r in rows if b in r["NetworkLoadBalancerArns"]]
    return list(dict.fromkeys(r["ServiceId"] for _, r in held))


def _modify_offer(sight: Sight) -> dict[str, Any]:
    text = re.sub(r"services? behind \S+", "", sight.instruction)
    found: dict[str, Any] = {"ServiceId": service(sight)[0]}
    if says(text, "approval", "by hand", "without asking"):
        found["AcceptanceRequired"] = not says(text, "no approval", "without asking")
    if m := re.search(_HOST, text):
        found["PrivateDnsName"] = m[0]
    if more := balancers(sight, text):
        found["AddNetworkLoadBalancerArns"] = more
    return found


def _permit(sight: Sight) -> dict[str, Any]:
    found: dict[str, Any] = {"ServiceId": service(sight)[0]}
    for sentence in re.split(r"(?<=\.) ", sight.instruction):
        arns = [
            f"arn:aws:iam::{account}:{f'{kind}/{who}' if kind else 'root'}"
            for kind, who, account in re.findall(_PRINCIPAL, sentence)
        ]
        if arns:
            found["RemoveAllowedPrincipals" if says(sentence, "shut", "forbid") else "AddAllowedPrincipals"] = arns
    return found


RULES = {
    "ec2:CreateVpcEndpoint": _create,
    "ec2:ModifyVpcEndpoint": _modify,
    "ec2:DeleteVpcEndpoints": _delete,
    "ec2:CreateVpcEndpointServiceConfiguration": _offer,
    "ec2:ModifyVpcEndpointServiceConfiguration": _modify_offer,
    "ec2:ModifyVpcEndpointServicePermissions": _permit,
    "ec2:DeleteVpcEndpointServiceConfigurations": lambda sight: {"ServiceIds": service(sight)},
}
