"""Stories that end in a route: to the internet, through NAT, a peering, a transit gateway, an instance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from toolsavvy.generators.parambench.scenarios import builders, nets
from toolsavvy.generators.parambench.scenarios.pieces import Vpc, extra, gateway, made, pick, refer, subnets, vpcs
from toolsavvy.generators.parambench.scenarios.routing import tables
from toolsavvy.generators.parambench.scenarios.words import chance, name, names, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program

REST = ("the default route", "everything else", "all remaining traffic", "all other destinations")
"""How people speak of 0.0.0.0/0."""


@dataclass(frozen=True)
class Way:
    """Where a route may lead.

    Args:
        field: argument of the target.
        id: of the target.
        words: that speak of it.
        cidr: a range that it is natural to send there, "" for everything.
        range_words: the range in words that take a look-up, "" without.
        six: it takes IPv6 only.
    """

    field: str
    id: str
    words: str
    cidr: str = ""
    range_words: str = ""
    six: bool = False


def internet(scene: Scene, vpc: Vpc) -> Way:
    """An internet gateway."""
    label = name(scene, "igw")
    found = gateway(scene, label, vpc.id)
    return Way("GatewayId", found, refer(scene, "internet gateway", found, label))


def nat(scene: Scene, vpc: Vpc) -> Way:
    """A NAT gateway."""
    subnet, _, _ = subnets(scene, vpc, 1)[0]
    label = name(scene, "nat")
    tags = builders.tagged("natgateway", label)
    output = scene.do("ec2:CreateNatGateway", SubnetId=subnet, ConnectivityType="private", TagSpecifications=tags)
    found = output["NatGateway"]["NatGatewayId"]
    return Way("NatGatewayId", found, refer(scene, "NAT gateway", found, label))


def egress_only(scene: Scene, vpc: Vpc) -> Way:
    """An egress-only internet gateway, for IPv6."""
    label = name(scene, "eigw")
    output = made(scene, "egress-only-internet-gateway", label, VpcId=vpc.id)
    found = output["EgressOnlyInternetGateway"]["EgressOnlyInternetGatewayId"]
    words = refer(scene, "egress-only internet gateway", found, label)
    return Way("EgressOnlyInternetGatewayId", found, words, six=True)


def peering(scene: Scene, vpc: Vpc) -> Way:
    """A peering connection; what lies behind it is the other VPC."""
    other = vpcs(scene)[0]
    label = name(scene, "peer")
    output = made(scene, "vpc-peering-connection", label, VpcId=vpc.id, PeerVpcId=other.id)
    found = output["VpcPeeringConnection"]["VpcPeeringConnectionId"]
    scene.hidden("ec2:AcceptVpcPeeringConnection", VpcPeeringConnectionId=found)
    return Way(
        "VpcPeeringConnectionId",
        found,
        say(scene, refer(scene, "peering connection", found, label), "the peering connection between the two VPCs"),
        other.cidr,
        say(scene, f"the range of {refer(scene, 'VPC', other.id, other.label)}", f"the whole of VPC {other.label}"),
    )


def transit(scene: Scene, vpc: Vpc) -> Way:
    """A transit gateway; what lies behind it is some private range."""
    label = name(scene, "tgw")
    output = made(scene, "transit-gateway", label)
    found = output["TransitGateway"]["TransitGatewayId"]
    scene.hidden("ec2:DescribeVpcs", VpcIds=[vpc.id])
    return Way("TransitGatewayId", found, refer(scene, "transit gateway", found, label), nets.private(scene.rng, 14))


def instance(scene: Scene, vpc: Vpc) -> Way:
    """An instance that forwards traffic: a firewall."""
    subnet, _, _ = subnets(scene, vpc, 1)[0]
    label = name(scene, "fw")
    found = builders.instances(scene, subnet, label)[0]
    words = say(scene, refer(scene, "instance", found, label), f"the firewall instance {label}")
    return Way("InstanceId", found, words, nets.public_network(scene.rng, 24))


WAYS: tuple[Callable[[Scene, Vpc], Way], ...] = (internet, nat, egress_only, peering, peering, transit, instance)


def destination(scene: Scene, way: Way) -> tuple[dict[str, str], str, int]:
    """Where a route goes: its argument, its words, and how many arguments depend on the target's kind."""
    if way.six:
        return (
            {"DestinationIpv6CidrBlock": "::/0"},
            say(scene, "all IPv6 traffic", "every IPv6 destination", "IPv6 traffic to anywhere"),
            1,
        )
    if not way.cidr:
        return {"DestinationCidrBlock": "0.0.0.0/0"}, say(scene, *REST[1:]), 0
    words = way.range_words if way.range_words and chance(scene, 0.75) else way.cidr
    return {"DestinationCidrBlock": way.cidr}, words, 0


@program("ec2:CreateRoute")
def route(scene: Scene) -> Goal:
    """A table of the VPC gets a route to one of the targets."""
    vpc = vpcs(scene, listing=0)[0]
    table, label = pick(scene, tables(scene, vpc, 1 + extra(scene)))
    way = pick(scene, list(WAYS))(scene, vpc)
    where, words, conditions = destination(scene, way)
    it = refer(scene, "route table", table, label)
    said = say(
        scene,
        f"In {it}, send {words} through {way.words}.",
        f"Add a route to {it}: {words} goes to {way.words}.",
        f"{it} should hand {words} over to {way.words}.",
        f"Route {words} via {way.words}; the entry belongs in {it}.",
    )
    return Goal({"RouteTableId": table, **where, way.field: way.id}, (sentence(said),), conditions)


@program("ec2:CreateRoute")
def prefix_list_route(scene: Scene) -> Goal:
    """The destination is a managed prefix list."""
    vpc = vpcs(scene, listing=0)[0]
    table, label = pick(scene, tables(scene, vpc, 1 + extra(scene)))
    own = names(scene, 1, "sites")[0]
    entries = [{"Cidr": cidr} for cidr in nets.several(scene.rng, scene.rng.choice((1, 2)), 20)]
    output = scene.do(
        "ec2:CreateManagedPrefixList",
        PrefixListName=own,
        Entries=entries,
        MaxEntries=scene.rng.choice((5, 10, 20)),
        AddressFamily="IPv4",
    )
    way = pick(scene, [transit, nat, internet])(scene, vpc)
    it, those = refer(scene, "route table", table, label), f"the ranges of prefix list {own}"
    said = say(
        scene,
        f"In {it}, send {those} through {way.words}.",
        f"Route {those} via {way.words}; the entry belongs in {it}.",
    )
    found = output["PrefixList"]["PrefixListId"]
    return Goal({"RouteTableId": table, "DestinationPrefixListId": found, way.field: way.id}, (sentence(said),))


@program("ec2:ReplaceRoute")
def route_replaced(scene: Scene) -> Goal:
    """A route that is there leads to another target from now on."""
    vpc = vpcs(scene, listing=0)[0]
    table, label = pick(scene, tables(scene, vpc, scene.rng.choice((1, 1, 2)), 0))
    old = pick(scene, [internet, nat])(scene, vpc)
    cidr = pick(scene, ["0.0.0.0/0", nets.private(scene.rng, 14), nets.public_network(scene.rng, 24)])
    scene.do("ec2:CreateRoute", RouteTableId=table, DestinationCidrBlock=cidr, **{old.field: old.id})
    new = pick(scene, [w for w in (nat, internet, transit, instance, peering) if w.__name__ != _name(old)])(scene, vpc)
    words = REST[0] if cidr == "0.0.0.0/0" else say(scene, cidr, "the route added above")
    it = refer(scene, "route table", table, label)
    said = say(
        scene,
        f"In {it}, point {words} at {new.words} from now on.",
        f"Change {words} in {it}: it now leads to {new.words}.",
        f"{it} has {words} on the wrong target; switch it over to {new.words}.",
    )
    arguments = {"RouteTableId": table, "DestinationCidrBlock": cidr, new.field: new.id}
    return Goal(arguments, (sentence(said),))


def _name(way: Way) -> str:
    return {"GatewayId": "internet", "NatGatewayId": "nat"}[way.field]


@program("ec2:DeleteRoute")
def route_deleted(scene: Scene) -> Goal:
    """A route that is there goes, named by its destination or by its target."""
    vpc = vpcs(scene, listing=0)[0]
    table, label = tables(scene, vpc, 1, 0)[0]
    ways = [w(scene, vpc) for w in scene.rng.sample([internet, egress_only, transit, instance, nat], 2)]
    routes = []
    for way, cidr in zip(ways, nets.several(scene.rng, 2, 16), strict=True):
        key = "DestinationIpv6CidrBlock" if way.six else "DestinationCidrBlock"
        where = {key: "::/0" if way.six else pick(scene, [cidr, "0.0.0.0/0"])}
        if where in [w for _, w in routes]:
            where = {key: cidr}
        scene.do("ec2:CreateRoute", RouteTableId=table, **where, **{way.field: way.id})
        routes.append((way, where))
    way, where = pick(scene, routes)
    it = refer(scene, "route table", table, label)
    words = say(scene, f"the route to {next(iter(where.values()))}", f"the route that leads to {way.words}")
    said = say(
        scene, f"Remove {words} from {it}.", f"In {it}, drop {words}.", f"{it} no longer needs {words}: delete it."
    )
    return Goal({"RouteTableId": table, **where}, (sentence(said),), int(way.six))
