"""Stories that end in a route table: made, bound to subnets, bound anew, set free, taken down."""

from __future__ import annotations

from toolsavvy.generators.parambench.scenarios.builders import tagged
from toolsavvy.generators.parambench.scenarios.pieces import (
    Vpc,
    extra,
    naming,
    pick,
    refer,
    route_table,
    subnets,
    vpcs,
)
from toolsavvy.generators.parambench.scenarios.words import chance, names, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program


@program("ec2:CreateRouteTable")
def table(scene: Scene) -> Goal:
    """In a VPC that is named, or that of a subnet."""
    vpc = pick(scene, vpcs(scene, 1 + extra(scene)))
    it = refer(scene, "VPC", vpc.id, vpc.label)
    if chance(scene, 0.35):
        subnet, label, _ = subnets(scene, vpc, 1)[0]
        it = f"the VPC that {refer(scene, 'subnet', subnet, label)} is in"
    said = say(
        scene,
        f"Create a route table in {it}.",
        f"{it} needs one more route table.",
        f"Add a route table to {it}.",
        f"Set up a separate route table in {it}.",
    )
    tags = naming(scene, "route-table", "routes", 0.8)
    arguments = {"VpcId": vpc.id} | tags.arguments
    return Goal(arguments, (sentence(said), *tags.sentences), unordered=("TagSpecifications.*.Tags",))


def tables(scene: Scene, vpc: Vpc, count: int, listing: float = 0.3) -> list[tuple[str, str]]:
    """Named route tables of a VPC, (id, name) each; the model sees how each is made, or a list of them."""
    shown = not chance(scene, listing)
    labels = names(scene, count, scene.rng.choice(("public", "private", "routes")))
    found = [(route_table(scene, vpc.id, label, shown), label) for label in labels]
    if not shown:
        scene.do("ec2:DescribeRouteTables", RouteTableIds=[i for i, _ in found])
    return found


@program("ec2:AssociateRouteTable")
def bound(scene: Scene) -> Goal:
    """A subnet gets a route table."""
    vpc = vpcs(scene, listing=0)[0]
    table, label = pick(scene, tables(scene, vpc, 1 + extra(scene)))
    subnet, own, cidr = pick(scene, subnets(scene, vpc, 1 + extra(scene)))
    a = refer(scene, "route table", table, label)
    b = say(scene, refer(scene, "subnet", subnet, own), f"the subnet {cidr}")
    said = say(
        scene,
        f"Let {b} use {a}.",
        f"Traffic of {b} should be routed by {a}.",
        f"Tie {a} to {b}.",
        f"{b} must follow {a}.",
    )
    return Goal({"RouteTableId": table, "SubnetId": subnet}, (sentence(said),))


@program("ec2:DisassociateRouteTable")
def freed(scene: Scene) -> Goal:
    """A subnet goes back to the main route table."""
    association, _, subnet = _association(scene)
    said = say(
        scene,
        f"{subnet} should fall back to the main route table: undo its explicit association.",
        f"Undo the route table association of {subnet}.",
        f"Release {subnet} from its route table, so that the main one counts again.",
    )
    return Goal({"AssociationId": association}, (sentence(said),))


def _association(scene: Scene) -> tuple[str, Vpc, str]:
    """Subnets bound to a table; the association of one, the VPC, and how the subnet is spoken of."""
    vpc = vpcs(scene, listing=0)[0]
    table = route_table(scene, vpc.id, names(scene, 1, "old")[0])
    listing = chance(scene, 0.5)
    found = []
    for subnet, label, cidr in subnets(scene, vpc, 1 + extra(scene)):
        call = scene.hidden if listing else scene.do
        output = call("ec2:AssociateRouteTable", RouteTableId=table, SubnetId=subnet)
        found.append((output["AssociationId"], subnet, label, cidr))
    if listing:
        scene.do("ec2:DescribeRouteTables", RouteTableIds=[table])
    association, subnet, label, cidr = pick(scene, found)
    return association, vpc, say(scene, refer(scene, "subnet", subnet, label), f"the subnet {cidr}")


@program("ec2:ReplaceRouteTableAssociation")
def bound_anew(scene: Scene) -> Goal:
    """A subnet changes its route table."""
    association, vpc, subnet = _association(scene)
    table, label = pick(scene, tables(scene, vpc, scene.rng.choice((1, 1, 2)), 0))
    it = refer(scene, "route table", table, label)
    said = say(
        scene,
        f"Move {subnet} over to {it}.",
        f"From now on {subnet} is to use {it} instead of its present route table.",
        f"Swap the route table of {subnet} for {it}.",
    )
    return Goal({"AssociationId": association, "RouteTableId": table}, (sentence(said),))


@program("ec2:DeleteRouteTable")
def table_deleted(scene: Scene) -> Goal:
    """By name or id; some know it only by a later tag."""
    vpc = vpcs(scene, listing=0)[0]
    found = tables(scene, vpc, 1 + extra(scene), 0.4)
    table, label = pick(scene, found)
    if chance(scene, 0.2):
        label = names(scene, 1, "unused")[0]
        tags = tagged("route-table", label)[0]["Tags"]
        scene.do("ec2:CreateTags", Resources=[table], Tags=tags)
    it = refer(scene, "route table", table, label)
    said = say(
        scene,
        f"Delete {it}.",
        f"No subnet uses {it} any longer, so remove it.",
        f"Please clean up: {it} can go.",
        f"Drop {it}.",
    )
    return Goal({"RouteTableId": table}, (sentence(said),))
