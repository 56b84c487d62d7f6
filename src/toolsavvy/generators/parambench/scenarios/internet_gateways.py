"""Stories that end in an internet gateway or an egress-only one."""

from __future__ import annotations

from toolsavvy.generators.parambench.scenarios.pieces import extra, gateway, made, naming, pick, refer, vpcs
from toolsavvy.generators.parambench.scenarios.words import chance, names, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program

TAGS = ("TagSpecifications.*.Tags",)


@program("ec2:CreateInternetGateway")
def created(scene: Scene) -> Goal:
    """A name and tags, perhaps those of a VPC."""
    if chance(scene, 0.4):
        vpc = pick(scene, vpcs(scene, 1 + extra(scene)))
        it = refer(scene, "VPC", vpc.id, "")
        said = say(
            scene,
            f"Create an internet gateway and give it the same name as {it}.",
            f"We need an internet gateway that bears the name of {it}.",
        )
        tags = [{"ResourceType": "internet-gateway", "Tags": [{"Key": "Name", "Value": vpc.label}]}]
        return Goal({"TagSpecifications": tags}, (said,), unordered=TAGS)
    tags = naming(scene, "internet-gateway", "igw", 1, 0.7)
    said = say(
        scene,
        "Create an internet gateway.",
        "We need a new internet gateway.",
        "Set up an internet gateway, to be attached later.",
        "An internet gateway is wanted.",
    )
    return Goal(tags.arguments, (said, *tags.sentences), unordered=TAGS)


@program("ec2:AttachInternetGateway")
def attached(scene: Scene) -> Goal:
    """A gateway and a VPC that were made before."""
    vpc = pick(scene, vpcs(scene, 1 + extra(scene)))
    labels = names(scene, 1 + extra(scene), "igw")
    found = [(gateway(scene, label), label) for label in labels]
    igw, label = pick(scene, found)
    a = refer(scene, "internet gateway", igw, label)
    b = say(scene, refer(scene, "VPC", vpc.id, vpc.label), f"the VPC with the range {vpc.cidr}")
    said = say(
        scene,
        f"Attach {a} to {b}.",
        f"Connect {b} to the internet through {a}.",
        f"{b} should reach the internet: hook up {a}.",
        f"Plug {a} into {b}.",
    )
    return Goal({"InternetGatewayId": igw, "VpcId": vpc.id}, (sentence(said),))


@program("ec2:DetachInternetGateway")
def detached(scene: Scene) -> Goal:
    """A gateway is taken off its VPC; one of the two is named."""
    found = vpcs(scene, scene.rng.choice((1, 1, 2)), listing=0)
    listing = chance(scene, 0.5)
    pairs = [
        (vpc, gateway(scene, label, vpc.id, shown=not listing), label)
        for vpc, label in zip(found, names(scene, len(found), "igw"), strict=True)
    ]
    if listing:
        scene.do("ec2:DescribeInternetGateways", InternetGatewayIds=[p[1] for p in pairs])
    vpc, igw, label = pick(scene, pairs)
    a, b = refer(scene, "internet gateway", igw, label), refer(scene, "VPC", vpc.id, vpc.label)
    said = say(
        scene,
        f"Take {a} off the VPC it is attached to.",
        f"Cut {b} off from the internet by detaching its internet gateway.",
        f"{b} must not reach the internet any more: unplug its internet gateway.",
        f"Detach {a} from its VPC.",
    )
    return Goal({"InternetGatewayId": igw, "VpcId": vpc.id}, (sentence(said),))


@program("ec2:DeleteInternetGateway")
def deleted(scene: Scene) -> Goal:
    """By name or id, or the one that is attached to nothing."""
    vpc = vpcs(scene, listing=0)[0]
    a, b = names(scene, 2, "igw")
    shown = chance(scene, 0.6)
    used, unused = gateway(scene, a, vpc.id, shown), gateway(scene, b, shown=shown)
    if not shown:
        scene.do("ec2:DescribeInternetGateways", InternetGatewayIds=[used, unused])
    it = say(
        scene,
        refer(scene, "internet gateway", unused, b),
        refer(scene, "internet gateway", unused, b),
        "the internet gateway that is attached to no VPC",
    )
    said = say(scene, f"Delete {it}.", f"Please remove {it}.", f"{it} was a mistake, get rid of it.", f"Drop {it}.")
    return Goal({"InternetGatewayId": unused}, (sentence(said),))


@program("ec2:CreateEgressOnlyInternetGateway")
def egress_only(scene: Scene) -> Goal:
    """IPv6 out of a VPC, but not in."""
    vpc = pick(scene, vpcs(scene, 1 + extra(scene), six=True))
    it = refer(scene, "VPC", vpc.id, vpc.label)
    said = say(
        scene,
        f"Create an egress-only internet gateway for {it}.",
        f"Instances in {it} may open IPv6 connections to the internet, but nobody may reach them from there: set up "
        "the gateway for that.",
        f"Give {it} an outbound-only gateway for IPv6.",
    )
    tags = naming(scene, "egress-only-internet-gateway", "eigw", 0.6)
    return Goal({"VpcId": vpc.id} | tags.arguments, (said, *tags.sentences), unordered=TAGS)


@program("ec2:DeleteEgressOnlyInternetGateway")
def egress_only_deleted(scene: Scene) -> Goal:
    """By name, id, or its VPC."""
    found = vpcs(scene, 1 + extra(scene), six=True, listing=0)
    pairs = []
    for vpc, label in zip(found, names(scene, len(found), "eigw"), strict=True):
        output = made(scene, "egress-only-internet-gateway", label, VpcId=vpc.id)
        pairs.append((vpc, output["EgressOnlyInternetGateway"]["EgressOnlyInternetGatewayId"], label))
    vpc, gateway_id, label = pick(scene, pairs)
    it = say(
        scene,
        refer(scene, "egress-only internet gateway", gateway_id, label),
        f"the egress-only internet gateway of {refer(scene, 'VPC', vpc.id, vpc.label)}",
    )
    said = say(scene, f"Delete {it}.", f"Please remove {it}.", f"We don't need {it} any longer, drop it.")
    return Goal({"EgressOnlyInternetGatewayId": gateway_id}, (sentence(said),))
