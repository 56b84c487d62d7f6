"""Tunnels to other places: customer gateways, VPN gateways, VPN connections; carrier gateways."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios import builders, nets
from toolsavvy.generators.parambench.scenarios.asking import TAGS, directory, labels, refer
from toolsavvy.generators.parambench.scenarios.transit import hub
from toolsavvy.generators.parambench.scenarios.words import (
    ZONES,
    chance,
    duration,
    listed,
    names,
    ordinal,
    say,
    sentence,
    tags,
)
from toolsavvy.generators.parambench.scene import Goal, Scene, program

_PLACES = (
    "the Berlin office",
    "the Madrid plant",
    "the Oslo branch",
    "our data centre",
    "the Lyon depot",
    "the Porto lab",
)
ACTIONS = {"start": "our side starts it", "add": "the other side starts it"}
"""Who begins a tunnel, as the API has it -> as people say it."""
TIMEOUTS = {
    "clear": "the session is closed",
    "none": "nothing happens",
    "restart": "the session is started again",
}
"""What follows when a peer is dead."""
_KEYS = "abcdefghkmnpqrstuvwxyz23456789"


@program("ec2:CreateCustomerGateway")
def create_customer(scene: Scene) -> Goal:
    """The far end of a tunnel."""
    place = scene.rng.choice(_PLACES)
    arguments: dict[str, Any] = {"Type": "ipsec.1", "IpAddress": nets.public(scene.rng)}
    sentences = [
        say(
            scene,
            f"Register the IPsec router of {place}: it answers at {arguments['IpAddress']}.",
            f"The IPsec device of {place} has the address {arguments['IpAddress']}; make it known to us.",
            f"We need a customer gateway for {place}, IPsec, reachable at {arguments['IpAddress']}.",
        )
    ]
    if chance(scene, 0.7):
        arguments["BgpAsn"] = scene.rng.choice(
            [65000, scene.rng.randrange(64512, 65535), scene.rng.randrange(1000, 60000)]
        )
        sentences.append(
            say(
                scene,
                f"Its BGP AS number is {arguments['BgpAsn']}.",
                f"It announces itself as AS {arguments['BgpAsn']}.",
            )
        )
    if chance(scene, 0.3):
        arguments["DeviceName"] = scene.rng.choice(["edge-1", "edge-2", "core-7", "fw-3", "rtr-11", "vpn-4"])
        sentences.append(
            say(scene, f"The device is {arguments['DeviceName']}.", f"It is our device {arguments['DeviceName']}.")
        )
    label = labels(scene, "customer-gateway", 0.5)
    return Goal(arguments | label.arguments, (*sentences, *label.sentences), unordered=TAGS)


@program("ec2:CreateVpnGateway")
def create_gateway(scene: Scene) -> Goal:
    """The near end of tunnels into one VPC."""
    arguments: dict[str, Any] = {"Type": "ipsec.1"}
    sentences = [
        say(
            scene,
            "We need a virtual private gateway for IPsec tunnels.",
            "Create a VPN gateway of the IPsec kind.",
            "Set up an IPsec gateway on Amazon's side of our tunnels.",
        )
    ]
    if chance(scene, 0.6):
        arguments["AmazonSideAsn"] = scene.rng.randrange(64512, 65535)
        asn = arguments["AmazonSideAsn"]
        sentences.append(say(scene, f"Its AS number is {asn}.", f"It speaks BGP as AS {asn}."))
    if chance(scene, 0.3):
        arguments["AvailabilityZone"] = scene.rng.choice(ZONES)
        sentences.append(
            say(scene, f"Put it into {arguments['AvailabilityZone']}.", f"It lives in {arguments['AvailabilityZone']}.")
        )
    label = labels(scene, "vpn-gateway", 0.6)
    return Goal(arguments | label.arguments, (*sentences, *label.sentences), unordered=TAGS)


def _gateways(scene: Scene, number: int) -> list[tuple[str, str]]:
    """VPN gateways: names and ids."""
    found = []
    for mark in names(scene, number, "vgw"):
        output = scene.do("ec2:CreateVpnGateway", Type="ipsec.1", TagSpecifications=tags("vpn-gateway", Name=mark))
        found.append((mark, output["VpnGateway"]["VpnGatewayId"]))
    return found


def _vpcs(scene: Scene, number: int) -> list[tuple[str, str]]:
    """VPCs: names and ids."""
    cidrs = nets.several(scene.rng, number)
    return [(mark, builders.vpc(scene, mark, c)) for mark, c in zip(names(scene, number), cidrs, strict=True)]


@program("ec2:AttachVpnGateway")
def attach(scene: Scene) -> Goal:
    """A VPN gateway for a VPC."""
    gateways, vpcs = _gateways(scene, scene.rng.choice([1, 2])), _vpcs(scene, scene.rng.choice([1, 2]))
    (mark, identifier), (other, vpc) = scene.rng.choice(gateways), scene.rng.choice(vpcs)
    what = refer(scene, "VPN gateway", mark, identifier, alone=len(gateways) == 1)
    where = refer(scene, "VPC", other, vpc, alone=len(vpcs) == 1)
    first = say(scene, f"Attach {what} to {where}", f"{where} should use {what}", f"Connect {what} with {where}")
    return Goal({"VpnGatewayId": identifier, "VpcId": vpc}, (sentence(first),))


@program("ec2:DetachVpnGateway")
def detach(scene: Scene) -> Goal:
    """A VPC loses its VPN gateway."""
    number = scene.rng.choice([1, 2])
    gateways, vpcs = _gateways(scene, number), _vpcs(scene, number)
    for (_, gateway), (_, vpc) in zip(gateways, vpcs, strict=True):
        scene.do("ec2:AttachVpnGateway", VpnGatewayId=gateway, VpcId=vpc)
    i = scene.rng.randrange(number)
    what = refer(scene, "VPN gateway", *gateways[i], alone=number == 1)
    where = refer(scene, "VPC", *vpcs[i], alone=number == 1)
    first = scene.rng.choice(
        [
            f"Take the VPN gateway off {where}",
            f"Detach {what} from its VPC",
            f"Separate {what} and {where}",
        ]
    )
    return Goal({"VpnGatewayId": gateways[i][1], "VpcId": vpcs[i][1]}, (sentence(first),))


def _customer(scene: Scene, number: int) -> list[tuple[str, str, str]]:
    """Customer gateways: names, ids and addresses."""
    found = []
    for mark in names(scene, number, "cgw"):
        address = nets.public(scene.rng)
        output = scene.do(
            "ec2:CreateCustomerGateway",
            Type="ipsec.1",
            IpAddress=address,
            BgpAsn=scene.rng.randrange(64512, 65535),
            TagSpecifications=tags("customer-gateway", Name=mark),
        )
        found.append((mark, output["CustomerGateway"]["CustomerGatewayId"], address))
    return found


def _ends(scene: Scene, arguments: dict[str, Any]) -> str:
    """Draw both ends of a tunnel; words for them."""
    customers = _customer(scene, scene.rng.choice([1, 1, 2]))
    mark, arguments["CustomerGatewayId"], address = scene.rng.choice(customers)
    far = refer(scene, "customer gateway", mark, arguments["CustomerGatewayId"], alone=len(customers) == 1)
    if chance(scene, 0.25):
        far = f"the customer gateway at {address}"
    if chance(scene, 0.5):
        centre = hub(scene)
        arguments["TransitGatewayId"] = centre.id
        return f"{refer(scene, 'transit gateway', centre.name, centre.id, alone=True)} and {far}"
    gateways = _gateways(scene, scene.rng.choice([1, 2]))
    near, arguments["VpnGatewayId"] = scene.rng.choice(gateways)
    return f"{refer(scene, 'VPN gateway', near, arguments['VpnGatewayId'], alone=len(gateways) == 1)} and {far}"


@program("ec2:CreateVpnConnection")
def connect(scene: Scene) -> Goal:
    """A connection, with its tunnels' settings."""
    arguments: dict[str, Any] = {"Type": "ipsec.1"}
    ends = _ends(scene, arguments)
    sentences = [
        say(
            scene,
            f"Set up an IPsec VPN connection between {ends}.",
            f"Build an IPsec tunnel pair between {ends}.",
            f"Connect {ends} by IPsec VPN.",
        )
    ]
    options: dict[str, Any] = {}
    if chance(scene, 0.5):
        options["StaticRoutesOnly"] = chance(scene, 0.5)
        sentences.append(
            say(scene, "It uses static routes only.", "There is no BGP, only static routes.")
            if options["StaticRoutesOnly"]
            else say(scene, "Routes are exchanged by BGP.", "It uses BGP, not static routes.")
        )
    if chance(scene, 0.3):
        local, remote = nets.private(scene.rng, 16), nets.private(scene.rng, 20)
        options |= {"LocalIpv4NetworkCidr": local, "RemoteIpv4NetworkCidr": remote}
        sentences.append(
            say(
                scene,
                f"On the customer's side is {local}, on Amazon's {remote}.",
                f"The customer's network is {local}, Amazon's is {remote}.",
            )
        )
    number = scene.rng.choice([0, 1, 2])
    if number:
        drawn = [_tunnel(scene, i) for i in range(number)]
        options["TunnelOptions"] = [own for own, _ in drawn]
        sentences += [sentence(f"the {ordinal(i + 1)} tunnel {listed(said)}") for i, (_, said) in enumerate(drawn)]
    if options:
        arguments["Options"] = options
    label = labels(scene, "vpn-connection", 0.35)
    return Goal(arguments | label.arguments, (*sentences, *label.sentences), unordered=TAGS)


def _tunnel(scene: Scene, index: int) -> tuple[dict[str, Any], list[str]]:
    """Options of one tunnel, and what is said of it."""
    second = scene.rng.randrange(64) * 4
    found: dict[str, Any] = {"TunnelInsideCidr": f"169.254.{scene.rng.randrange(6, 250)}.{second}/30"}
    said = [f"uses {found['TunnelInsideCidr']} inside"]
    if chance(scene, 0.4):
        found["PreSharedKey"] = "".join(scene.rng.choice(_KEYS) for _ in range(12))
        if found["PreSharedKey"][0].isdigit():
            found["PreSharedKey"] = f"k{found['PreSharedKey'][1:]}"
        said.append(f"has the pre-shared key {found['PreSharedKey']}")
    if chance(scene, 0.3):
        hours = scene.rng.choice([1, 2, 3, 4, 5, 6, 7, 8])
        found["Phase1LifetimeSeconds"] = hours * 3600
        said.append(f"renews its first phase every {duration(scene, hours * 3600)}")
    if chance(scene, 0.3):
        versions = scene.rng.choice([["ikev2"], ["ikev1"], ["ikev1", "ikev2"]])
        found["IKEVersions"] = [{"Value": v} for v in versions]
        said.append(f"speaks {' or '.join(v.replace('ikev', 'IKE version ') for v in versions)}")
    if chance(scene, 0.3):
        seconds = scene.rng.choice([30, 40, 60, 90, 120])
        action = scene.rng.choice(sorted(TIMEOUTS))
        found |= {"DPDTimeoutSeconds": seconds, "DPDTimeoutAction": action}
        said.append(f"takes a silent peer for dead after {duration(scene, seconds)}, whereupon {TIMEOUTS[action]}")
    if chance(scene, 0.25):
        found["StartupAction"] = scene.rng.choice(sorted(ACTIONS))
        said.append(f"comes up so that {ACTIONS[found['StartupAction']]}")
    return found, said


@program("ec2:DeleteVpnConnection")
def disconnect(scene: Scene) -> Goal:
    """A connection goes away."""
    number = scene.rng.choice([1, 1, 2])
    gateway = _gateways(scene, 1)[0]
    customers = _customer(scene, number)
    marks = names(scene, number, "vpn")
    by_name = number == 2 or chance(scene, 0.4)  # what comes back for a connection is long
    make = scene.hidden if by_name else scene.do
    made = [
        make(
            "ec2:CreateVpnConnection",
            Type="ipsec.1",
            CustomerGatewayId=customer,
            VpnGatewayId=gateway[1],
            TagSpecifications=tags("vpn-connection", Name=mark),
        )["VpnConnection"]["VpnConnectionId"]
        for (_, customer, _), mark in zip(customers, marks, strict=True)
    ]
    if by_name:
        directory(scene, "vpn-connection")
    i = scene.rng.randrange(number)
    what = refer(scene, "VPN connection", marks[i], made[i], alone=number == 1)
    if not by_name and chance(scene, 0.6):
        what = say(
            scene,
            f"the VPN connection to {customers[i][0]}",
            f"the VPN connection with the router at {customers[i][2]}",
        )
    first = say(scene, f"Tear down {what}", f"Delete {what}", f"{what} is to be given up")
    return Goal({"VpnConnectionId": made[i]}, (sentence(first),))


@program("ec2:DeleteCustomerGateway")
def delete_customer(scene: Scene) -> Goal:
    """The far end of a tunnel is forgotten."""
    held = _customer(scene, scene.rng.choice([1, 2, 3]))
    mark, identifier, address = scene.rng.choice(held)
    what = refer(scene, "customer gateway", mark, identifier, alone=len(held) == 1)
    if chance(scene, 0.35):
        what = say(scene, f"the customer gateway at {address}", f"the customer gateway for the router {address}")
    first = say(scene, f"Remove {what}", f"Delete {what}", f"{what} was taken out of service; delete it here as well")
    return Goal({"CustomerGatewayId": identifier}, (sentence(first),))


@program("ec2:DeleteVpnGateway")
def delete_gateway(scene: Scene) -> Goal:
    """The near end of tunnels goes away."""
    held = _gateways(scene, scene.rng.choice([1, 2, 3]))
    mark, identifier = scene.rng.choice(held)
    what = refer(scene, "VPN gateway", mark, identifier, alone=len(held) == 1)
    first = say(scene, f"Remove {what}", f"Delete {what}", f"{what} serves nobody anymore; delete it")
    return Goal({"VpnGatewayId": identifier}, (sentence(first),))


@program("ec2:CreateCarrierGateway")
def create_carrier(scene: Scene) -> Goal:
    """A way into a carrier's network."""
    vpcs = _vpcs(scene, scene.rng.choice([1, 2, 3]))
    mark, vpc = scene.rng.choice(vpcs)
    where = refer(scene, "VPC", mark, vpc, alone=len(vpcs) == 1)
    first = say(
        scene,
        f"Give {where} a gateway to the carrier's network.",
        f"{where} needs a carrier gateway.",
        f"Add a carrier gateway to {where}.",
    )
    label = labels(scene, "carrier-gateway", 0.6)
    return Goal({"VpcId": vpc} | dict(label.arguments), (sentence(first), *label.sentences), unordered=TAGS)


@program("ec2:DeleteCarrierGateway")
def delete_carrier(scene: Scene) -> Goal:
    """The way into a carrier's network is closed."""
    vpcs = _vpcs(scene, scene.rng.choice([1, 2, 3]))
    marks = names(scene, len(vpcs), "cagw")
    made = [
        scene.do("ec2:CreateCarrierGateway", VpcId=vpc, TagSpecifications=tags("carrier-gateway", Name=mark))
        for (_, vpc), mark in zip(vpcs, marks, strict=True)
    ]
    i = scene.rng.randrange(len(vpcs))
    identifier = made[i]["CarrierGateway"]["CarrierGatewayId"]
    what = refer(scene, "carrier gateway", marks[i], identifier, alone=len(vpcs) == 1)
    if chance(scene, 0.4):
        what = f"the carrier gateway of {refer(scene, 'VPC', *vpcs[i])}"
    first = say(scene, f"Remove {what}", f"Delete {what}", f"Close {what}")
    return Goal({"CarrierGatewayId": identifier}, (sentence(first),))
