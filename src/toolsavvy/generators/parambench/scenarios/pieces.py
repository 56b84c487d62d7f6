"""Pieces of stories about a VPC's core: how things are spoken of, named, and made upstream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolsavvy.generators.parambench.scenarios import builders, nets
from toolsavvy.generators.parambench.scenarios.words import (
    STAGES,
    TEAMS,
    ZONES,
    chance,
    listed,
    name,
    named,
    names,
    say,
)
from toolsavvy.generators.parambench.scene import Scene


def refer(scene: Scene, kind: str, identifier: str, label: str) -> str:
    """A noun phrase for a thing that was made before: mostly by its name, now and then by its id."""
    if not label or chance(scene, 0.12):
        return say(scene, f"the {kind} {identifier}", f"{kind} {identifier}")
    return named(scene, kind, label)


@dataclass(frozen=True)
class Naming:
    """The name and tags of what is to be created.

    Args:
        arguments: "TagSpecifications" or nothing.
        sentences: that say so.
        label: the name, "" without.
    """

    arguments: dict[str, Any]
    sentences: tuple[str, ...]
    label: str = ""


def naming(scene: Scene, kind: str, ending: str = "", share: float = 0.7, more: float = 0.3) -> Naming:
    """Draw a name (in a share of the stories) and further tags for a new thing.

    Args:
        scene: the story.
        kind: as the API calls it in tags ("vpc", "route-table").
        ending: of the name.
        share: of stories that give a name.
        more: share of those that also give tags.
    """
    if not chance(scene, share):
        return Naming({}, ())
    label = name(scene, ending)
    said = say(scene, f"Call it {label}.", f"Its name is {label}.", f"Name it {label}.", f"It should be named {label}.")
    tags = {"Name": label}
    if chance(scene, more):
        drawn = {
            "team": scene.rng.choice(TEAMS),
            "stage": scene.rng.choice(STAGES),
            "cost-center": str(scene.rng.randrange(1000, 9999)),
        }
        keys = sorted(scene.rng.sample(sorted(drawn), scene.rng.choice((1, 1, 2))))
        tags |= {key: drawn[key] for key in keys}
        pairs = listed([f"{key}={drawn[key]}" for key in keys])
        said += " " + say(scene, f"Also tag it {pairs}.", f"Add the tags {pairs}.", f"It also gets {pairs} as tags.")
    return Naming({"TagSpecifications": builders.tagged(kind, tags.pop("Name"), **tags)}, (said,), label)


@dataclass(frozen=True)
class Vpc:
    """A VPC of the context.

    Args:
        id: of the VPC.
        label: its Name tag.
        cidr: its range.
        cidr6: its IPv6 range, "" without.
    """

    id: str
    label: str
    cidr: str
    cidr6: str = ""


def vpcs(scene: Scene, count: int = 1, prefix: int = 16, six: bool = False, listing: float = 0.3) -> list[Vpc]:
    """Named VPCs whose ranges do not overlap; the model sees how each is made, or a list of them.

    Args:
        scene: the story.
        count: how many.
        prefix: size of their ranges.
        six: they get an IPv6 range of Amazon's too.
        listing: share of the stories where the model sees a list.
    """
    found, shown = [], not chance(scene, listing)
    for label, cidr in zip(names(scene, count), nets.several(scene.rng, count, prefix), strict=True):
        more = {"AmazonProvidedIpv6CidrBlock": True} if six else {}
        tags = builders.tagged("vpc", label)
        vpc = builders.call(scene, "ec2:CreateVpc", shown, CidrBlock=cidr, TagSpecifications=tags, **more)["Vpc"]
        blocks = vpc.get("Ipv6CidrBlockAssociationSet") or [{}]
        found.append(Vpc(vpc["VpcId"], label, cidr, blocks[0].get("Ipv6CidrBlock", "")))
    if not shown:
        scene.do("ec2:DescribeVpcs", VpcIds=[v.id for v in found])
    return found


def extra(scene: Scene) -> int:
    """How many other things of the kind stand beside the one that is meant: mostly none."""
    return scene.rng.choice((0, 0, 1, 1, 2))


def pick(scene: Scene, items: list[Any]) -> Any:
    """One of several."""
    return scene.rng.choice(items)


def made(scene: Scene, kind: str, label: str, shown: bool = True, **arguments: Any) -> dict[str, Any]:
    """Create a thing with a name, in sight of the model or not; the result.

    Args:
        scene: the story.
        kind: as tags call it: route-table, internet-gateway, network-acl, ...
        label: its Name tag.
        shown: the model sees the call.
        arguments: of the call.
    """
    operation = "ec2:Create" + "".join(part.capitalize() for part in kind.split("-"))
    tags = builders.tagged(kind, label)
    return builders.call(scene, operation, shown, TagSpecifications=tags, **arguments)


def route_table(scene: Scene, vpc: str, label: str, shown: bool = True) -> str:
    """A route table with a name; its id."""
    return made(scene, "route-table", label, shown, VpcId=vpc)["RouteTable"]["RouteTableId"]


def gateway(scene: Scene, label: str, vpc: str = "", shown: bool = True) -> str:
    """An internet gateway with a name, attached to a VPC if one is given; its id."""
    found = made(scene, "internet-gateway", label, shown)["InternetGateway"]["InternetGatewayId"]
    if vpc:
        builders.call(scene, "ec2:AttachInternetGateway", shown, InternetGatewayId=found, VpcId=vpc)
    return found


def acl(scene: Scene, vpc: str, label: str, shown: bool = True) -> str:
    """A network ACL with a name; its id."""
    return made(scene, "network-acl", label, shown, VpcId=vpc)["NetworkAcl"]["NetworkAclId"]


def subnets(scene: Scene, vpc: Vpc, count: int, prefix: int = 24, shown: bool = True) -> list[tuple[str, str, str]]:
    """Subnets of a VPC with names of their own: (id, name, range) each."""
    total = 2 ** (prefix - int(vpc.cidr.partition("/")[2]))
    found = []
    for place, label in zip(
        scene.rng.sample(range(total), count), names(scene, count, scene.rng.choice("abcdxyz")), strict=True
    ):
        cidr = nets.block(vpc.cidr, prefix, place)
        zone = scene.rng.choice(ZONES)
        found.append((builders.subnet(scene, vpc.id, label, cidr, zone, shown), label, cidr))
    return found
