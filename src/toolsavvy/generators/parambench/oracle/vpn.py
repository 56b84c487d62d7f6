"""Rules for tunnels to other places and for carrier gateways."""

from __future__ import annotations

import re
from typing import Any

from toolsavvy.generators.parambench.oracle.finding import items, meant, spoken, tags
from toolsavvy.generators.parambench.oracle.lexicon import ADDRESS, CIDR, says, seconds
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.scenarios.vpn import ACTIONS, TIMEOUTS
from toolsavvy.generators.parambench.scenarios.words import ordinal


def _asn(text: str) -> int | None:
    found = re.search(r"\bAS (?:number is )?(\d+)", text)
    return int(found[1]) if found else None


def _create_customer(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    found: dict[str, Any] = {"Type": "ipsec.1", "IpAddress": re.findall(ADDRESS, text)[0]}
    if asn := _asn(text):
        found["BgpAsn"] = asn
    if m := re.search(r"device (?:is )?([a-z]+-\d+)", text):
        found["DeviceName"] = m[1]
    return found | tags(sight, "customer-gateway")


def _create_gateway(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    found: dict[str, Any] = {"Type": "ipsec.1"}
    if asn := _asn(text):
        found["AmazonSideAsn"] = asn
    if m := re.search(r"\bus-east-1[a-f]\b", text):
        found["AvailabilityZone"] = m[0]
    return found | tags(sight, "vpn-gateway")


def _attach(sight: Sight) -> dict[str, Any]:
    return {"VpnGatewayId": meant(sight, "vgw"), "VpcId": meant(sight, "vpc")}


def _detach(sight: Sight) -> dict[str, Any]:
    gateways, vpcs = spoken(sight, "vgw"), spoken(sight, "vpc")
    for call in reversed(sight.calls("AttachVpnGateway")):
        pair = dict(call.arguments)
        if pair["VpnGatewayId"] in (gateways or [pair["VpnGatewayId"]]) and pair["VpcId"] in (vpcs or [pair["VpcId"]]):
            return pair
    raise LookupError("no such attachment")


def customer(sight: Sight) -> str:
    """The customer gateway that a request speaks of: by name or id, by its address, else the newest."""
    for address in re.findall(ADDRESS, sight.instruction):
        for item in items(sight, "CustomerGatewayId"):
            if item.get("IpAddress") == address:
                return item["CustomerGatewayId"]
    return meant(sight, "cgw")


def _connect(sight: Sight) -> dict[str, Any]:
    text = sight.instruction
    found: dict[str, Any] = {"Type": "ipsec.1", "CustomerGatewayId": customer(sight)}
    if sight.of_kind("tgw"):
        found["TransitGatewayId"] = meant(sight, "tgw")
    else:
        found["VpnGatewayId"] = meant(sight, "vgw")
    options: dict[str, Any] = {}
    if says(text, "static routes"):
        options["StaticRoutesOnly"] = not says(text, "not static")
    elif says(text, "BGP"):
        options["StaticRoutesOnly"] = False
    if m := re.search(rf"customer's \D*({CIDR})\D*Amazon's \D*({CIDR})", text):
        options |= {"LocalIpv4NetworkCidr": m[1], "RemoteIpv4NetworkCidr": m[2]}
    tunnels = [m[0] for i in (1, 2) if (m := re.search(rf"The {ordinal(i)} tunnel .*?\.(?= |$)", text))]
    if tunnels:
        options["TunnelOptions"] = [_tunnel(t) for t in tunnels]
    return found | ({"Options": options} if options else {}) | tags(sight, "vpn-connection")


def _tunnel(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {"TunnelInsideCidr": re.findall(CIDR, text)[0]}
    if m := re.search(r"pre-shared key (\w+)", text):
        found["PreSharedKey"] = m[1]
    if m := re.search(r"first phase every [^,.]*", text):
        found["Phase1LifetimeSeconds"] = seconds(m[0])
    if versions := re.findall(r"IKE version (\d)", text):
        found["IKEVersions"] = [{"Value": f"ikev{v}"} for v in versions]
    if m := re.search(r"for dead after ([^,.]*), whereupon (.*)", text):
        found["DPDTimeoutSeconds"] = seconds(m[1])
        found["DPDTimeoutAction"] = next(kind for kind, said in TIMEOUTS.items() if m[2].startswith(said))
    for kind, said in ACTIONS.items():
        if said in text:
            found["StartupAction"] = kind
    return found


def _disconnect(sight: Sight) -> dict[str, Any]:
    if says(sight.instruction, "connection (?:to|with)"):
        own = customer(sight)
        return {
            "VpnConnectionId": next(c["VpnConnectionId"] for c in items(sight, "VpnConnectionId") if own in c.values())
        }
    return {"VpnConnectionId": meant(sight, "vpn")}


def _create_carrier(sight: Sight) -> dict[str, Any]:
    return {"VpcId": meant(sight, "vpc")} | tags(sight, "carrier-gateway")


def _delete_carrier(sight: Sight) -> dict[str, Any]:
    vpcs = spoken(sight, "vpc")
    held = [c["CarrierGatewayId"] for c in items(sight, "CarrierGatewayId") if c.get("VpcId") in vpcs]
    return {"CarrierGatewayId": held[0] if held else meant(sight, "cagw")}


RULES = {
    "ec2:CreateCustomerGateway": _create_customer,
    "ec2:CreateVpnGateway": _create_gateway,
    "ec2:AttachVpnGateway": _attach,
    "ec2:DetachVpnGateway": _detach,
    "ec2:CreateVpnConnection": _connect,
    "ec2:DeleteVpnConnection": _disconnect,
    "ec2:DeleteCustomerGateway": lambda sight: {"CustomerGatewayId": customer(sight)},
    "ec2:DeleteVpnGateway": lambda sight: {"VpnGatewayId": meant(sight, "vgw")},
    "ec2:CreateCarrierGateway": _create_carrier,
    "ec2:DeleteCarrierGateway": _delete_carrier,
}
