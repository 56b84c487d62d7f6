"""Stories that end in a subnet: cut out of a VPC, changed, reserved in part, taken down."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

from toolsavvy.generators.parambench.scenarios import nets
from toolsavvy.generators.parambench.scenarios.pieces import Vpc, extra, naming, pick, refer, subnets, vpcs
from toolsavvy.generators.parambench.scenarios.words import ZONES, chance, ordinal, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program

TAGS = ("TagSpecifications.*.Tags",)


def _zone(scene: Scene, arguments: dict[str, Any], said: list[str]) -> None:
    if chance(scene, 0.6):
        zone = arguments["AvailabilityZone"] = scene.rng.choice(ZONES)
        said.append(
            say(
                scene,
                f"It belongs in zone {zone}.",
                f"Put it into {zone}.",
                f"Use availability zone {zone[-1]} of us-east-1.",
            )
        )


@program("ec2:CreateSubnet")
def subnet_cut_out(scene: Scene) -> Goal:
    """A range that is stated, or a part of the VPC's."""
    vpc = pick(scene, vpcs(scene, 1 + extra(scene)))
    it = refer(scene, "VPC", vpc.id, vpc.label)
    if chance(scene, 0.3):
        cidr = nets.inside(scene.rng, vpc.cidr, scene.rng.choice((20, 22, 24, 26)))
        said = [say(scene, f"Create a subnet {cidr} in {it}.", f"Cut the subnet {cidr} out of {it}.")]
    else:
        part = nets.part(scene.rng, vpc.cidr)
        cidr = part.cidr
        said = [
            say(
                scene,
                f"Create a subnet from {part.words} of {it}.",
                f"We need a subnet in {it}; it takes {part.words} of the range.",
                f"Reserve {part.words} of {it} for a new subnet.",
            )
        ]
    arguments = {"VpcId": vpc.id, "CidrBlock": cidr}
    _zone(scene, arguments, said)
    tags = naming(scene, "subnet", scene.rng.choice("abcd"))
    return Goal(arguments | tags.arguments, (*said, *tags.sentences), unordered=TAGS)


@program("ec2:CreateSubnet")
def subnet_beside_another(scene: Scene) -> Goal:
    """The block after that of an earlier subnet, in the same zone."""
    vpc = vpcs(scene)[0]
    found = subnets(scene, vpc, 1 + extra(scene), 22)
    old, label, cidr = pick(scene, found)
    zone = next(c.output["Subnet"] for c in scene.calls if _made(c.output) == old)["AvailabilityZone"]
    it = refer(scene, "subnet", old, label)
    arguments = {"VpcId": vpc.id, "CidrBlock": nets.next_block(cidr), "AvailabilityZone": zone}
    if any(nets.overlaps(arguments["CidrBlock"], c) for _, _, c in found) or not _inside(arguments["CidrBlock"], vpc):
        lower, upper = nets.halves(cidr)
        arguments["CidrBlock"], old_vpc = upper, vpc
        return _replanned(scene, old_vpc, it, lower, upper, zone, old)
    said = say(
        scene,
        f"Create a sister of {it}: same VPC, same zone, and the block of equal size right after it.",
        f"{it} is full. Add another of the same size in the same VPC and zone, on the block that directly follows.",
    )
    tags = naming(scene, "subnet", "b")
    return Goal(arguments | tags.arguments, (sentence(said), *tags.sentences), unordered=TAGS)


def _made(output: dict[str, Any]) -> str:
    return output.get("Subnet", {}).get("SubnetId", "")


def _inside(cidr: str, vpc: Vpc) -> bool:
    return ip_network(cidr).subnet_of(ip_network(vpc.cidr))  # pyright: ignore[reportArgumentType]


def _replanned(scene: Scene, vpc: Vpc, it: str, lower: str, upper: str, zone: str, old: str) -> Goal:
    """No room after it: the subnet was given up, its upper half is used again."""
    scene.do("ec2:DeleteSubnet", SubnetId=old)
    said = say(
        scene,
        f"We gave up {it}. Create a new one in the same VPC and zone, on the upper half of its range.",
        f"Now that {it} is gone, take the upper half of its range for a new subnet; VPC and zone stay the same.",
    )
    tags = naming(scene, "subnet", "b")
    arguments = {"VpcId": vpc.id, "CidrBlock": upper, "AvailabilityZone": zone} | tags.arguments
    return Goal(arguments, (said, *tags.sentences), unordered=TAGS)


@program("ec2:CreateSubnet")
def dual_stack_subnet(scene: Scene) -> Goal:
    """IPv4 and IPv6 parts of the VPC's ranges."""
    vpc = vpcs(scene, six=True)[0]
    part = nets.part(scene.rng, vpc.cidr, 24)
    place = scene.rng.randrange(1, 10)
    cidr6 = nets.block(vpc.cidr6, 64, place - 1)
    it = refer(scene, "VPC", vpc.id, vpc.label)
    said = [
        say(
            scene,
            f"Create a dual-stack subnet in {it} from {part.words} of its IPv4 range and the {ordinal(place)} /64 "
            "of its IPv6 range.",
            f"{it} needs a dual-stack subnet: {part.words} of the IPv4 range, the {ordinal(place)} /64 of the IPv6 "
            "range.",
        )
    ]
    arguments = {"VpcId": vpc.id, "CidrBlock": part.cidr, "Ipv6CidrBlock": cidr6}
    _zone(scene, arguments, said)
    tags = naming(scene, "subnet", "dual")
    return Goal(arguments | tags.arguments, (sentence(said[0]), *said[1:], *tags.sentences), 1, TAGS)


def _some(scene: Scene, six: bool = False) -> tuple[Vpc, tuple[str, str, str]]:
    """A VPC with subnets, one of which is meant; at times only listed."""
    vpc = vpcs(scene, six=six, listing=0)[0]
    listing = chance(scene, 0.35)
    found = subnets(scene, vpc, 1 + extra(scene), shown=not listing)
    if listing:
        scene.do("ec2:DescribeSubnets", Filters=[{"Name": "vpc-id", "Values": [vpc.id]}])
    return vpc, pick(scene, found)


@program("ec2:ModifySubnetAttribute")
def subnet_attribute(scene: Scene) -> Goal:
    """Public IPv4 addresses or IPv6 addresses at launch, on or off."""
    _, (subnet, label, cidr) = _some(scene)
    it = say(scene, refer(scene, "subnet", subnet, label), f"the subnet {cidr}")
    attribute, value, phrases = pick(scene, _ATTRIBUTES)
    return Goal({"SubnetId": subnet, attribute: {"Value": value}}, (sentence(say(scene, *phrases).format(it)),))


_ATTRIBUTES = [
    (
        "MapPublicIpOnLaunch",
        True,
        (
            "What is launched in {} should get a public IPv4 address by itself.",
            "Make {} a public one: hand out public addresses at launch.",
            "{} is to give every new instance a public address.",
        ),
    ),
    (
        "MapPublicIpOnLaunch",
        False,
        (
            "Do not hand out public addresses in {} any more.",
            "Instances launched in {} must not get a public IPv4 address.",
            "{} becomes private: no public addresses at launch.",
        ),
    ),
    (
        "AssignIpv6AddressOnCreation",
        True,
        (
            "New network interfaces in {} should get an IPv6 address automatically.",
            "Let {} assign an IPv6 address to every interface that is created there.",
        ),
    ),
    (
        "AssignIpv6AddressOnCreation",
        False,
        (
            "New network interfaces in {} should not get an IPv6 address any longer.",
            "Stop {} from assigning IPv6 addresses to new interfaces.",
        ),
    ),
]


@program("ec2:DeleteSubnet")
def delete_subnet(scene: Scene) -> Goal:
    """By name, id or range."""
    _, (subnet, label, cidr) = _some(scene)
    it = say(scene, refer(scene, "subnet", subnet, label), f"the subnet {cidr}", f"the subnet with the range {cidr}")
    said = say(
        scene,
        f"Delete {it}.",
        f"{it} is empty now, remove it.",
        f"Please take down {it}.",
        f"Nobody uses {it} any more. Get rid of it.",
    )
    return Goal({"SubnetId": subnet}, (sentence(said),))


@program("ec2:AssociateSubnetCidrBlock")
def ipv6_for_a_subnet(scene: Scene) -> Goal:
    """A /64 out of the VPC's IPv6 range."""
    vpc, (subnet, label, _) = _some(scene, six=True)
    place = scene.rng.randrange(1, 13)
    cidr6 = nets.block(vpc.cidr6, 64, place - 1)
    it = refer(scene, "subnet", subnet, label)
    if chance(scene, 0.25):
        said = say(scene, f"Give {it} the IPv6 range {cidr6}.", f"Add {cidr6} to {it}.")
    else:
        said = say(
            scene,
            f"Give {it} the {ordinal(place)} /64 of the IPv6 range of its VPC.",
            f"{it} has to speak IPv6 too: use the {ordinal(place)} /64 of what the VPC got.",
            f"Make {it} dual-stack with the {ordinal(place)} /64 of the VPC's IPv6 block.",
        )
    return Goal({"SubnetId": subnet, "Ipv6CidrBlock": cidr6}, (sentence(said),))


@program("ec2:CreateSubnetCidrReservation")
def reservation(scene: Scene) -> Goal:
    """A part of a subnet that is kept free, for prefixes or for addresses given by hand."""
    _, (subnet, label, cidr) = _some(scene)
    it = refer(scene, "subnet", subnet, label)
    part = nets.part(scene.rng, cidr, scene.rng.choice((26, 27, 28)))
    where = part.cidr if chance(scene, 0.3) else part.words
    arguments: dict[str, Any] = {"SubnetId": subnet, "Cidr": part.cidr}
    if chance(scene, 0.5):
        arguments["ReservationType"] = "prefix"
        said = say(
            scene,
            f"Keep {where} of {it} free for prefixes that are delegated to interfaces.",
            f"In {it}, set {where} aside for prefix delegation.",
        )
    else:
        arguments["ReservationType"] = "explicit"
        said = say(
            scene,
            f"Keep {where} of {it} free: those addresses are only given out explicitly, by hand.",
            f"In {it}, set {where} aside for addresses that we assign explicitly.",
        )
    more = []
    if chance(scene, 0.5):
        arguments["Description"] = note = pick(scene, _NOTES)
        more = [say(scene, f'Describe it as "{note}".', f'The description is "{note}".', f'Note "{note}" on it.')]
    return Goal(arguments, (sentence(said), *more))


_NOTES = [
    "container hosts",
    "appliances with fixed addresses",
    "kept for the migration",
    "database listeners",
    "printers and scanners",
    "pods of the batch cluster",
    "legacy licence servers",
    "second phase",
]
