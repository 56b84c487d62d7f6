"""Stories that end in a VPC of its own: made, changed, given a further range, taken down."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios import builders, nets
from toolsavvy.generators.parambench.scenarios.pieces import Vpc, extra, naming, pick, refer, vpcs
from toolsavvy.generators.parambench.scenarios.words import chance, names, say
from toolsavvy.generators.parambench.scene import Goal, Scene, program

TAGS = ("TagSpecifications.*.Tags",)


@program("ec2:CreateVpc")
def vpc_with_a_range(scene: Scene) -> Goal:
    """A range that is stated, perhaps dedicated hardware and IPv6."""
    cidr = nets.private(scene.rng, scene.rng.choice((16, 16, 18, 20, 22)))
    said = [
        say(
            scene,
            f"Create a VPC for {cidr}.",
            f"We need a new VPC with the range {cidr}.",
            f"Set up a VPC that spans {cidr}.",
            f"A fresh VPC is wanted, addresses {cidr}.",
        )
    ]
    arguments: dict[str, Any] = {"CidrBlock": cidr}
    return _finish(scene, arguments, said)


def _finish(scene: Scene, arguments: dict[str, Any], said: list[str]) -> Goal:
    if chance(scene, 0.35):
        arguments["InstanceTenancy"] = "dedicated"
        said.append(
            say(
                scene,
                "Its instances must run on dedicated hardware.",
                "Everything in it has to run on dedicated hardware of its own.",
            )
        )
    if chance(scene, 0.35):
        arguments["AmazonProvidedIpv6CidrBlock"] = True
        said.append(
            say(
                scene,
                "Have Amazon assign it an IPv6 range as well.",
                "It also needs an IPv6 range out of Amazon's own addresses.",
            )
        )
    tags = naming(scene, "vpc")
    return Goal(arguments | tags.arguments, (*said, *tags.sentences), unordered=TAGS)


@program("ec2:CreateVpc")
def vpc_beside_another(scene: Scene) -> Goal:
    """A range that follows from that of an earlier VPC."""
    prefix = scene.rng.choice((16, 18, 20))
    old = pick(scene, vpcs(scene, 1 + extra(scene), prefix))
    cidr = nets.next_block(old.cidr)
    other = refer(scene, "VPC", old.id, old.label)
    said = say(
        scene,
        f"Create a VPC of the same size as {other}, on the block right after its range.",
        f"We need a twin of {other}: a VPC of equal size whose range directly follows.",
        f"Add a VPC whose range comes right after that of {other} and is just as large.",
    )
    return _finish(scene, {"CidrBlock": cidr}, [said])


@program("ec2:ModifyVpcAttribute")
def vpc_attribute(scene: Scene) -> Goal:
    """DNS host names, DNS resolution or usage metrics, on or off."""
    vpc = _described(scene)
    it = refer(scene, "VPC", vpc.id, vpc.label)
    value = chance(scene, 0.5)
    attribute, on, off = pick(scene, _ATTRIBUTES)
    said = say(scene, *(on if value else off)).format(it)
    return Goal({"VpcId": vpc.id, attribute: {"Value": value}}, (said,))


_ATTRIBUTES = [
    (
        "EnableDnsHostnames",
        (
            "Switch on DNS host names for {}.",
            "Instances with public addresses in {} should get DNS host names.",
            "Turn DNS host names on in {}, please.",
        ),
        (
            "Switch off DNS host names for {}.",
            "Instances in {} should not get DNS host names any more.",
            "Turn DNS host names off in {}, please.",
        ),
    ),
    (
        "EnableDnsSupport",
        ("Switch on DNS resolution for {}.", "Let {} resolve names through Amazon's resolver.", "Enable DNS in {}."),
        (
            "Switch off DNS resolution for {}.",
            "{} must not resolve names through Amazon's resolver any longer.",
            "We run our own resolvers: disable DNS resolution in {}.",
        ),
    ),
    (
        "EnableNetworkAddressUsageMetrics",
        (
            "Start recording address usage metrics for {}.",
            "We want metrics on how many addresses are in use in {}: switch them on.",
        ),
        (
            "Stop recording address usage metrics for {}.",
            "Nobody reads the metrics on address usage of {}: switch them off.",
        ),
    ),
]


def _described(scene: Scene, prefix: int = 16) -> Vpc:
    """One of several VPCs."""
    return pick(scene, vpcs(scene, 1 + extra(scene), prefix))


@program("ec2:DeleteVpc")
def delete_vpc(scene: Scene) -> Goal:
    """By name, id or range."""
    vpc = _described(scene)
    it = say(scene, refer(scene, "VPC", vpc.id, vpc.label), f"the VPC with the range {vpc.cidr}")
    said = say(
        scene,
        f"Delete {it}.",
        f"We don't need {it} any more, remove it.",
        f"Please get rid of {it}; it is empty.",
        f"Take down {it}: the project is over.",
    )
    return Goal({"VpcId": vpc.id}, (said,))


@program("ec2:ModifyVpcTenancy")
def tenancy(scene: Scene) -> Goal:
    """Back from dedicated to shared hardware."""
    labels = names(scene, 1 + extra(scene))
    made = []
    for label, cidr in zip(labels, nets.several(scene.rng, len(labels)), strict=True):
        tags = builders.tagged("vpc", label)
        output = scene.do("ec2:CreateVpc", CidrBlock=cidr, InstanceTenancy="dedicated", TagSpecifications=tags)
        made.append((output["Vpc"]["VpcId"], label, cidr))
    vpc, label, cidr = pick(scene, made)
    it = say(scene, refer(scene, "VPC", vpc, label), f"the VPC with the range {cidr}")
    said = say(
        scene,
        f"New instances in {it} need no dedicated hardware any longer: set it back to the default.",
        f"Dedicated hardware got too expensive. Put {it} back on default tenancy.",
        f"Change {it} so that what is launched there from now on uses shared hardware by default.",
    )
    return Goal({"VpcId": vpc, "InstanceTenancy": "default"}, (said,))


@program("ec2:AssociateVpcCidrBlock")
def further_range(scene: Scene) -> Goal:
    """A second range: stated, right after the first, or IPv6 of Amazon's."""
    vpc = _described(scene, scene.rng.choice((16, 18, 20)))
    it = refer(scene, "VPC", vpc.id, vpc.label)
    kind = scene.rng.choice(("stated", "next", "six"))
    if kind == "six":
        said = say(
            scene,
            f"Give {it} an IPv6 range out of Amazon's addresses.",
            f"{it} has to become dual-stack: have Amazon assign an IPv6 range to it.",
        )
        return Goal({"VpcId": vpc.id, "AmazonProvidedIpv6CidrBlock": True}, (_upper(said),))
    if kind == "next":
        said = say(
            scene,
            f"{it} is running out of addresses. Add the block of the same size right after its range.",
            f"Extend {it} by the block that directly follows its present range and is just as large.",
        )
        return Goal({"VpcId": vpc.id, "CidrBlock": nets.next_block(vpc.cidr)}, (_upper(said),))
    cidr = nets.several(scene.rng, 1, 22)[0]
    said = say(
        scene,
        f"{it} is running out of addresses. Add {cidr} to it.",
        f"Give {it} the further range {cidr}.",
        f"Extend {it} with {cidr} as a secondary range.",
    )
    return Goal({"VpcId": vpc.id, "CidrBlock": cidr}, (_upper(said),))


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


@program("ec2:DisassociateVpcCidrBlock")
def range_removed(scene: Scene) -> Goal:
    """A secondary range goes; its association is known from adding it, or from a listing."""
    vpc = vpcs(scene, listing=0)[0]
    ranges = [nets.block(f"100.{64 + scene.rng.randrange(64)}.0.0/16", 20, i) for i in scene.rng.sample(range(16), 2)]
    listing = chance(scene, 0.5)
    ids = {}
    for cidr in ranges[: scene.rng.choice((1, 2, 2))]:
        call = scene.hidden if listing else scene.do
        output = call("ec2:AssociateVpcCidrBlock", VpcId=vpc.id, CidrBlock=cidr)
        ids[cidr] = output["CidrBlockAssociation"]["AssociationId"]
    if listing:
        scene.do("ec2:DescribeVpcs", VpcIds=[vpc.id])
    cidr = pick(scene, list(ids))
    it = refer(scene, "VPC", vpc.id, vpc.label)
    said = say(
        scene,
        f"Remove the range {cidr} from {it}.",
        f"{it} no longer needs {cidr}: take that range away.",
        f"Detach {cidr} from {it}, the addresses are wanted elsewhere.",
    )
    return Goal({"AssociationId": ids[cidr]}, (_upper(said),))
