"""Transit gateways: made and changed, with VPCs attached and peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolsavvy.generators.parambench.scenarios import nets
from toolsavvy.generators.parambench.scenarios.addresses import network
from toolsavvy.generators.parambench.scenarios.asking import TAGS, labels, refer, refer_all
from toolsavvy.generators.parambench.scenarios.words import chance, name, say, sentence, tags
from toolsavvy.generators.parambench.scene import Goal, Scene, program

SWITCHES = {
    "AutoAcceptSharedAttachments": "attachments from other accounts are accepted by themselves",
    "DefaultRouteTableAssociation": "new attachments are associated with its default route table",
    "DefaultRouteTablePropagation": "new attachments propagate to its default route table",
    "VpnEcmpSupport": "several VPN tunnels share the load",
    "DnsSupport": "DNS names resolve across it",
    "SecurityGroupReferencingSupport": "security groups may be referenced across it",
    "MulticastSupport": "multicast works on it",
}
"""Options that are on or off -> what is the case where they are on."""
ATTACHED = {
    "DnsSupport": "DNS support",
    "SecurityGroupReferencingSupport": "referencing of security groups",
    "Ipv6Support": "IPv6 support",
    "ApplianceModeSupport": "appliance mode",
}
"""Options of an attachment, as people say them."""
PURPOSES = (
    "hub of the east",
    "shared services hub",
    "core backbone",
    "partner exchange",
    "branch aggregation",
    "lab hub",
)
REGIONS = {
    "Ireland": "eu-west-1",
    "Frankfurt": "eu-central-1",
    "London": "eu-west-2",
    "Oregon": "us-west-2",
    "Ohio": "us-east-2",
    "Tokyo": "ap-northeast-1",
    "Sydney": "ap-southeast-2",
    "Singapore": "ap-southeast-1",
}
"""Regions by their place."""


def switches(scene: Scene, number: int) -> tuple[dict[str, str], list[str]]:
    """Options on or off, and sentences about them."""
    chosen = sorted(scene.rng.sample(sorted(SWITCHES), number), key=list(SWITCHES).index)
    found = {key: scene.rng.choice(["enable", "disable"]) for key in chosen}
    return found, [
        say(scene, f"See to it that {SWITCHES[key]}.", f"We want that {SWITCHES[key]}.")
        if value == "enable"
        else say(scene, f"It must not be that {SWITCHES[key]}.", f"We do not want that {SWITCHES[key]}.")
        for key, value in found.items()
    ]


@program("ec2:CreateTransitGateway")
def create(scene: Scene) -> Goal:
    """A hub, with options."""
    arguments: dict[str, Any] = {}
    sentences = [
        say(
            scene,
            "We need a new transit gateway.",
            "Set up a transit gateway.",
            "Create one more transit gateway in our region.",
        )
    ]
    if chance(scene, 0.5):
        arguments["Description"] = scene.rng.choice(PURPOSES)
        sentences.append(
            say(
                scene,
                f'Describe it as "{arguments["Description"]}".',
                f'Its description reads "{arguments["Description"]}".',
            )
        )
    options: dict[str, Any] = {}
    if chance(scene, 0.5):
        options["AmazonSideAsn"] = scene.rng.randrange(64512, 65535)
        asn = options["AmazonSideAsn"]
        sentences.append(say(scene, f"Its BGP AS number is {asn}.", f"On Amazon's side, the ASN should be {asn}."))
    if chance(scene, 0.3):
        outer = nets.private(scene.rng, 16)
        piece = nets.part(scene.rng, outer, 24)
        options["TransitGatewayCidrBlocks"] = [piece.cidr]
        sentences.append(
            say(
                scene,
                f"Its own range is {piece.words} of {outer}.",
                f"It may use {piece.words} of {outer} for itself.",
            )
        )
    found, said = switches(scene, scene.rng.choice([0, 1, 2]) if arguments or options else 2)
    options |= found
    if options:
        arguments["Options"] = options
    label = labels(scene, "transit-gateway", 0.5)
    return Goal(arguments | label.arguments, (*sentences, *said, *label.sentences), unordered=TAGS)


@dataclass(frozen=True)
class Hub:
    """A transit gateway of the context.

    Args:
        id: of the gateway.
        name: its Name tag.
        table: id of its default route table.
    """

    id: str
    name: str
    table: str


def hub(scene: Scene) -> Hub:
    """A transit gateway with a name."""
    mark = name(scene, "tgw")
    made = scene.do("ec2:CreateTransitGateway", TagSpecifications=tags("transit-gateway", Name=mark))["TransitGateway"]
    return Hub(made["TransitGatewayId"], mark, made["Options"]["AssociationDefaultRouteTableId"])


@dataclass(frozen=True)
class Spoke:
    """A VPC that is attached.

    Args:
        id: of the attachment.
        name: Name tag of the VPC.
        cidr: range of the VPC.
        vpc: its id.
        subnets: names and ids of the subnets.
        held: how many of them the attachment uses.
    """

    id: str
    name: str
    cidr: str
    vpc: str
    subnets: tuple[tuple[str, str], ...]
    held: int


def spoke(scene: Scene, centre: Hub, subnets: int = 1, held: int = 1, shown: bool = True) -> Spoke:
    """A VPC attached to a hub by some of its subnets."""
    net = network(scene, subnets)
    attach = scene.do if shown else scene.hidden
    output = attach(
        "ec2:CreateTransitGatewayVpcAttachment",
        TransitGatewayId=centre.id,
        VpcId=net.id,
        SubnetIds=list(net.subnets[:held]),
    )
    made = output["TransitGatewayVpcAttachment"]["TransitGatewayAttachmentId"]
    pairs = tuple(zip(net.subnet_names, net.subnets, strict=True))
    return Spoke(made, net.name, net.cidr, net.id, pairs, held)


def spokes(scene: Scene, centre: Hub, number: int) -> list[Spoke]:
    """VPCs attached to a hub: the model sees how each was attached, or a list of the attachments."""
    listing = chance(scene, 0.4)
    found = [spoke(scene, centre, shown=not listing) for _ in range(number)]
    if listing:
        scene.do(
            "ec2:DescribeTransitGatewayAttachments", Filters=[{"Name": "transit-gateway-id", "Values": [centre.id]}]
        )
    return found


def attachment(scene: Scene, own: Spoke, alone: bool = False) -> str:
    """Speak of an attachment: by its VPC, or its id."""
    draw = scene.rng.random()
    if draw < 0.2:
        return f"attachment {own.id}"
    if alone and draw < 0.4:
        return say(scene, "that attachment", "the attachment from above")
    if draw < 0.55:
        return f"the attachment of {own.vpc}"
    return say(scene, f"the attachment of the VPC {own.name}", f"the VPC attachment of {own.name}")


@program("ec2:ModifyTransitGateway")
def modify(scene: Scene) -> Goal:
    """Options of a hub change."""
    hubs = [hub(scene) for _ in range(scene.rng.choice([1, 2]))]
    own = scene.rng.choice(hubs)
    what = refer(scene, "transit gateway", own.name, own.id, alone=len(hubs) == 1)
    arguments: dict[str, Any] = {"TransitGatewayId": own.id}
    switched, said = switches(scene, scene.rng.choice([1, 1, 2]))
    options: dict[str, Any] = {k: v for k, v in switched.items() if k != "MulticastSupport"}
    said = [s for s in said if "multicast" not in s]
    if chance(scene, 0.35):
        outer = nets.private(scene.rng, 16)
        piece = nets.part(scene.rng, outer, 24)
        options["AddTransitGatewayCidrBlocks"] = [piece.cidr]
        said.append(f"It gets {piece.words} of {outer} as a range of its own.")
    sentences = [say(scene, f"Change {what}.", f"{sentence(what)[:-1]} needs other settings.", f"Reconfigure {what}.")]
    if not options or chance(scene, 0.3):
        arguments["Description"] = scene.rng.choice(PURPOSES)
        said.append(f'Its description should read "{arguments["Description"]}".')
    if options:
        arguments["Options"] = options
    if options.keys() & {"DefaultRouteTableAssociation", "DefaultRouteTablePropagation"} and chance(scene, 0.5):
        table = scene.do(
            "ec2:CreateTransitGatewayRouteTable",
            TransitGatewayId=own.id,
            TagSpecifications=tags("transit-gateway-route-table", Name=(mark := name(scene, "rt"))),
        )["TransitGatewayRouteTable"]["TransitGatewayRouteTableId"]
        for key, field, verb in (
            ("DefaultRouteTableAssociation", "AssociationDefaultRouteTableId", "associations"),
            ("DefaultRouteTablePropagation", "PropagationDefaultRouteTableId", "propagations"),
        ):
            if options.get(key) == "enable":
                options[field] = table
                said.append(f"The default route table for {verb} is {mark}.")
    depends = sum(k in options for k in ("AssociationDefaultRouteTableId", "PropagationDefaultRouteTableId"))
    return Goal(arguments, (*sentences, *said), depends)


@program("ec2:CreateTransitGatewayVpcAttachment")
def attach(scene: Scene) -> Goal:
    """A VPC is attached by some subnets."""
    hubs = [hub(scene) for _ in range(scene.rng.choice([1, 1, 2]))]
    own = scene.rng.choice(hubs)
    net = network(scene, scene.rng.choice([1, 2, 3]))
    chosen = scene.rng.sample(range(len(net.subnets)), scene.rng.randint(1, len(net.subnets)))
    arguments: dict[str, Any] = {
        "TransitGatewayId": own.id,
        "VpcId": net.id,
        "SubnetIds": [net.subnets[i] for i in chosen],
    }
    where = refer(scene, "VPC", net.name, net.id, alone=True)
    what = refer(scene, "transit gateway", own.name, own.id, alone=len(hubs) == 1)
    by = refer_all(scene, "subnet", [net.subnet_names[i] for i in chosen])
    if len(chosen) == len(net.subnets) and chance(scene, 0.5):
        by = "all of its subnets"
    sentences = [say(scene, f"Attach {where} to {what} through {by}.", f"Connect {where} with {what}, by way of {by}.")]
    options, said = _attached(scene, scene.rng.choice([0, 1, 2]))
    if options:
        arguments["Options"] = options
    label = labels(scene, "transit-gateway-attachment", 0.4)
    return Goal(arguments | label.arguments, (*sentences, *said, *label.sentences), unordered=(*TAGS, "SubnetIds"))


def _attached(scene: Scene, number: int) -> tuple[dict[str, str], list[str]]:
    """Options of an attachment, and sentences about them."""
    chosen = scene.rng.sample(sorted(ATTACHED), number)
    found = {key: scene.rng.choice(["enable", "disable"]) for key in chosen}
    return found, [
        say(scene, f"Switch {'on' if v == 'enable' else 'off'} {ATTACHED[k]}.", f"We want {ATTACHED[k]}.")
        if v == "enable"
        else say(scene, f"Switch off {ATTACHED[k]}.", f"No {ATTACHED[k]}, please.")
        for k, v in found.items()
    ]


@program("ec2:ModifyTransitGatewayVpcAttachment")
def reattach(scene: Scene) -> Goal:
    """Subnets or options of an attachment change."""
    centre = hub(scene)
    attached = [spoke(scene, centre, 2, 1)] + ([spoke(scene, centre, 1)] if chance(scene, 0.3) else [])
    own = attached[0]
    what = attachment(scene, own, alone=len(attached) == 1)
    arguments: dict[str, Any] = {"TransitGatewayAttachmentId": own.id}
    sentences: list[str] = []
    kinds = scene.rng.sample(["add", "swap", "options"], scene.rng.choice([1, 2]))
    if "add" in kinds or "swap" in kinds:
        mark, identifier = own.subnets[1]
        arguments["AddSubnetIds"] = [identifier]
        sentences.append(
            say(scene, f"Extend {what} to the subnet {mark}.", f"{what} should also go through the subnet {mark}.")
        )
    if "swap" in kinds:
        mark, identifier = own.subnets[0]
        arguments["RemoveSubnetIds"] = [identifier]
        sentences.append(say(scene, f"Take {mark} out of it.", f"It no longer goes through {mark}."))
    if "options" in kinds:
        arguments["Options"], said = _attached(scene, scene.rng.choice([1, 2, 3]))
        sentences += [said[0].rstrip(".").replace(", please", "") + f" for {what}.", *said[1:]]
    return Goal(arguments, tuple(sentence(s) for s in sentences))


@program("ec2:DeleteTransitGatewayVpcAttachment")
def detach(scene: Scene) -> Goal:
    """A VPC comes off the hub."""
    centre = hub(scene)
    number = scene.rng.choice([1, 2, 3])
    attached = spokes(scene, centre, number)
    own = scene.rng.choice(attached)
    what = attachment(scene, own, alone=number == 1)
    first = scene.rng.choice(
        [
            f"Remove {what}",
            f"Delete {what}",
            f"Disconnect the VPC {own.name} from the transit gateway {centre.name}",
            f"Take the network {own.cidr} off the transit gateway",
        ]
    )
    return Goal({"TransitGatewayAttachmentId": own.id}, (sentence(first),))


@program("ec2:CreateTransitGatewayPeeringAttachment")
def peer(scene: Scene) -> Goal:
    """A hub is peered with one elsewhere."""
    hubs = [hub(scene) for _ in range(scene.rng.choice([1, 2]))]
    own = scene.rng.choice(hubs)
    account = "".join(str(scene.rng.randrange(10)) for _ in range(12))
    other = f"tgw-{scene.rng.getrandbits(68):017x}"
    place = scene.rng.choice(sorted(REGIONS))
    arguments: dict[str, Any] = {
        "TransitGatewayId": own.id,
        "PeerTransitGatewayId": other,
        "PeerAccountId": account,
        "PeerRegion": REGIONS[place],
    }
    what = refer(scene, "transit gateway", own.name, alone=len(hubs) == 1)
    region = say(scene, place, REGIONS[place])
    sentences = [
        say(
            scene,
            f"Peer {what} with {other}, which account {account} runs in {region}.",
            f"Ask account {account} for a peering between {what} and its gateway {other} in {region}.",
        )
    ]
    if chance(scene, 0.5):
        value = scene.rng.choice(["enable", "disable"])
        arguments["Options"] = {"DynamicRouting": value}
        sentences.append(
            say(scene, "Routes should be exchanged dynamically.", "Use dynamic routing between the two.")
            if value == "enable"
            else say(scene, "There is no dynamic routing between the two.", "Routes must not be exchanged dynamically.")
        )
    label = labels(scene, "transit-gateway-attachment", 0.4)
    return Goal(arguments | label.arguments, (*sentences, *label.sentences), unordered=TAGS)
