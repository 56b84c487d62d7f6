"""Elastic addresses: reserved, put on machines and interfaces, taken off, given back; NAT gateways."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios import builders, nets
from toolsavvy.generators.parambench.scenarios.asking import TAGS, count, directory, labels, refer, shuffled
from toolsavvy.generators.parambench.scenarios.words import chance, name, names, say, sentence, tags
from toolsavvy.generators.parambench.scene import Goal, Scene, program

_NOUN = "Elastic IP"


def network(scene: Scene, subnets: int = 1) -> builders.Network:
    """A VPC and its subnets: the model sees how they were made, or a list of the subnets."""
    listing, mark = chance(scene, 0.4), name(scene)
    taken = [c.arguments["CidrBlock"] for c in scene.calls if c.name == "ec2:CreateVpc"]
    cidr = nets.private(scene.rng, 16)
    while any(nets.overlaps(cidr, other) for other in taken):
        cidr = nets.private(scene.rng, 16)
    vpc = builders.vpc(scene, mark, cidr)
    zones = sorted(scene.rng.sample(builders.ZONES, subnets))
    marks = tuple(f"{mark}-{zone[-1]}" for zone in zones)
    ids = tuple(
        builders.subnet(scene, vpc, own, nets.block(cidr, 24, place), zone, not listing)
        for own, place, zone in zip(marks, scene.rng.sample(range(256), subnets), zones, strict=True)
    )
    if listing:
        scene.do("ec2:DescribeSubnets", Filters=[{"Name": "vpc-id", "Values": [vpc]}])
    return builders.Network(mark, vpc, cidr, ids, marks, tuple(zones))


def address(scene: Scene, label: str = "") -> dict[str, Any]:
    """A reserved address, with a name or without."""
    more = {"TagSpecifications": tags("elastic-ip", Name=label)} if label else {}
    return scene.do("ec2:AllocateAddress", Domain="vpc", **more)


def machine(scene: Scene, subnet: str, *labels_: str) -> list[str]:
    """Instances that the model knows from a list of names only."""
    found = [builders.instances(scene, subnet, label, shown=False)[0] for label in labels_]
    directory(scene, "instance")
    return found


def interface(scene: Scene, subnet: str, label: str, **more: Any) -> dict[str, Any]:
    """A network interface with a name."""
    output = scene.do(
        "ec2:CreateNetworkInterface", SubnetId=subnet, TagSpecifications=tags("network-interface", Name=label), **more
    )
    return output["NetworkInterface"]


def _said(scene: Scene, held: dict[str, Any], label: str, alone: bool) -> str:
    """An address by its name, by itself, or by role."""
    if not label or chance(scene, 0.35):
        return f"{say(scene, 'the address', 'the Elastic IP', 'the public address')} {held['PublicIp']}"
    return refer(scene, _NOUN, label, held["AllocationId"], alone=alone)


@program("ec2:AllocateAddress")
def allocate(scene: Scene) -> Goal:
    """A new address; or one that was given back by mistake."""
    arguments: dict[str, Any] = {}
    if chance(scene, 0.35):
        lost = [address(scene) for _ in range(scene.rng.choice([1, 2, 3]))]
        chosen = scene.rng.randrange(len(lost))
        scene.do("ec2:ReleaseAddress", AllocationId=lost[chosen]["AllocationId"])
        arguments["Address"] = lost[chosen]["PublicIp"]
        first = say(
            scene,
            "The address that was just given back was released by mistake: get us that very one again",
            "Please recover the public address that we released a moment ago",
            "We need the address back that has just been released; try to reserve it again",
        )
    else:
        first = say(
            scene,
            "Reserve a new static public address",
            "Please get us another Elastic IP",
            "We need one more fixed public IPv4 address",
            "Set aside a fixed public address",
        )
        if chance(scene, 0.4):
            arguments["NetworkBorderGroup"] = scene.rng.choice(
                ["us-east-1", "us-east-1-bos-1", "us-east-1-mia-1", "us-east-1-wl1-nyc-wlz-1", "us-east-1-chi-2"]
            )
            where = arguments["NetworkBorderGroup"]
            first += say(scene, f", advertised from {where}", f", to be announced by border group {where}")
    if not arguments or chance(scene, 0.6):
        arguments["Domain"] = "vpc"
        first += say(scene, ", for use in a VPC", ", to be used inside a VPC", ", meant for VPC use")
    label = labels(scene, "elastic-ip")
    return Goal(arguments | label.arguments, (sentence(first), *label.sentences), unordered=TAGS)


@program("ec2:AssociateAddress")
def associate(scene: Scene) -> Goal:
    """An address for a machine, or for one private address of an interface."""
    net = network(scene)
    label = name(scene, "ip") if chance(scene, 0.6) else ""
    others = scene.rng.choice([0, 0, 1])
    held = address(scene, label)
    for other in names(scene, others, "ip"):
        address(scene, other)
    what = _said(scene, held, label, not others)
    arguments: dict[str, Any] = {"AllocationId": held["AllocationId"]}
    conditions = 0
    if chance(scene, 0.5):
        two = names(scene, 2)
        machines = machine(scene, net.subnets[0], *two)
        target, arguments["InstanceId"] = refer(scene, "instance", two[0], machines[0]), machines[0]
    else:
        label = name(scene, "nic")
        addresses = _row(scene, net.subnets[0], 2)
        made = interface(scene, net.subnets[0], label, PrivateIpAddresses=addresses)
        target, arguments["NetworkInterfaceId"] = refer(scene, "network interface", label), made["NetworkInterfaceId"]
        if chance(scene, 0.6):
            chosen = scene.rng.choice([0, 1])
            arguments["PrivateIpAddress"] = addresses[chosen]["PrivateIpAddress"]
            which = ["primary", "secondary"][chosen]
            target = f"the {which} private address of {target}"
            conditions = 1
    first = say(scene, f"Attach {what} to {target}", f"Put {what} on {target}", f"Map {what} to {target}")
    sentences = [sentence(first)]
    if chance(scene, 0.5):
        arguments["AllowReassociation"] = chance(scene, 0.5)
        if arguments["AllowReassociation"]:
            sentences.append(
                say(scene, "It may be moved if it is in use elsewhere.", "Take it over even if it is mapped already.")
            )
        else:
            sentences.append(
                say(scene, "Fail if it is in use elsewhere.", "Do not take it away from where it is already mapped.")
            )
    return Goal(arguments, tuple(sentences), conditions)


def _row(scene: Scene, subnet: str, number: int) -> list[dict[str, Any]]:
    """Private addresses in a row, the first of them primary."""
    cidr = cidr_of(scene, subnet)
    start = scene.rng.randrange(10, 200)
    return [{"PrivateIpAddress": nets.host(cidr, start + i), "Primary": i == 0} for i in range(number)]


@program("ec2:DisassociateAddress")
def disassociate(scene: Scene) -> Goal:
    """An address is taken off what it is on."""
    net = network(scene)
    number = scene.rng.choice([1, 2, 3])
    held = [address(scene) for _ in range(number)]
    two = names(scene, number)
    machines = machine(scene, net.subnets[0], *two)
    made = [
        scene.do("ec2:AssociateAddress", AllocationId=a["AllocationId"], InstanceId=i)["AssociationId"]
        for a, i in zip(held, machines, strict=True)
    ]
    if chance(scene, 0.4):
        scene.do("ec2:DescribeAddresses", AllocationIds=[a["AllocationId"] for a in shuffled(scene, held)])
    chosen = scene.rng.randrange(number)
    what = say(scene, f"the public address {held[chosen]['PublicIp']}", f"{held[chosen]['PublicIp']}")
    target = refer(scene, "instance", two[chosen], machines[chosen], alone=number == 1)
    first = say(
        scene,
        f"Take the Elastic IP off {target}",
        f"Unmap {what} from its instance",
        f"{target} is no longer to be reached by its fixed public address; detach that address",
        f"Detach {what} from the machine that has it, but keep it reserved",
    )
    return Goal({"AssociationId": made[chosen]}, (sentence(first),))


@program("ec2:ReleaseAddress")
def release(scene: Scene) -> Goal:
    """An address is given back."""
    number = scene.rng.choice([1, 2, 3, 4])
    two = [n if chance(scene, 0.7) else "" for n in names(scene, number, "ip")]
    held = [address(scene, n) for n in two]
    chosen = scene.rng.randrange(number)
    if number > 1 and chance(scene, 0.3):
        net = network(scene)
        for other in (i for i in range(number) if i != chosen):
            made = interface(scene, net.subnets[0], name(scene, "nic"))["NetworkInterfaceId"]
            scene.do("ec2:AssociateAddress", AllocationId=held[other]["AllocationId"], NetworkInterfaceId=made)
        scene.do("ec2:DescribeAddresses", AllocationIds=[a["AllocationId"] for a in held])
        what = say(scene, "the one Elastic IP that is attached to nothing", "the only address that is not in use")
    else:
        what = _said(scene, held[chosen], two[chosen], number == 1)
    first = say(scene, f"Give back {what}", f"We do not need {what} anymore; release it", f"Return {what} to the pool")
    return Goal({"AllocationId": held[chosen]["AllocationId"]}, (sentence(first),))


@program("ec2:CreateNatGateway")
def create_nat(scene: Scene) -> Goal:
    """A way out for private subnets: with a public address, or private with addresses of the subnet."""
    net = network(scene, scene.rng.choice([1, 2, 3]))
    place = scene.rng.randrange(len(net.subnets))
    arguments: dict[str, Any] = {"SubnetId": net.subnets[place]}
    where = refer(scene, "subnet", net.subnet_names[place], net.subnets[place], alone=len(net.subnets) == 1)
    if len(net.subnets) > 1 and chance(scene, 0.3):
        where = f"the subnet in {net.zones[place]}"
    label = labels(scene, "natgateway")
    sentences: list[str] = []
    if chance(scene, 0.6):
        mark = name(scene, "ip") if chance(scene, 0.5) else ""
        held = address(scene, mark)
        arguments["AllocationId"] = held["AllocationId"]
        what = _said(scene, held, mark, True)
        public = ""
        if chance(scene, 0.5):
            arguments["ConnectivityType"] = "public"
            public = "public "
        sentences.append(
            say(
                scene,
                f"Put a {public}NAT gateway into {where} and let it use {what}.",
                f"We need a {public}NAT gateway in {where}, going out through {what}.",
                f"Set up a {public}NAT gateway with {what} in {where}.",
            )
        )
        return Goal(arguments | label.arguments, (*sentences, *label.sentences), 1, TAGS)
    arguments["ConnectivityType"] = "private"
    sentences.append(
        say(
            scene,
            f"Put a private NAT gateway into {where}.",
            f"We need a private NAT gateway in {where}, without any public address.",
            f"Set up a NAT gateway for private traffic only in {where}.",
        )
    )
    conditions = 0
    if chance(scene, 0.6):
        cidr = cidr_of(scene, net.subnets[place])
        arguments["PrivateIpAddress"] = nets.any_host(scene.rng, cidr)
        last = arguments["PrivateIpAddress"].rpartition(".")[2]
        sentences.append(
            say(
                scene,
                f"It is to use the private address {arguments['PrivateIpAddress']}.",
                f"Its private address should be the one of the subnet that ends in .{last}.",
            )
        )
        conditions += 1
    if chance(scene, 0.5):
        arguments["SecondaryPrivateIpAddressCount"] = scene.rng.randrange(2, 8)
        number = count(scene, arguments["SecondaryPrivateIpAddressCount"])
        sentences.append(
            say(
                scene,
                f"Have {number} secondary private addresses picked for it.",
                f"It gets {number} further private addresses, whichever are free.",
            )
        )
        conditions += 1
    return Goal(arguments | label.arguments, (*sentences, *label.sentences), conditions, TAGS)


def cidr_of(scene: Scene, subnet: str) -> str:
    """Range of a subnet that the context shows."""
    shown = [o for c in scene.calls for o in (c.output.get("Subnet"), *c.output.get("Subnets", ())) if o]
    return next(str(o["CidrBlock"]) for o in shown if o["SubnetId"] == subnet)


@program("ec2:DeleteNatGateway")
def delete_nat(scene: Scene) -> Goal:
    """A way out is closed."""
    number = scene.rng.choice([1, 2, 3])
    net = network(scene, number)
    marks = names(scene, number, "nat")
    made = [
        scene.do(
            "ec2:CreateNatGateway",
            SubnetId=subnet,
            ConnectivityType="private",
            TagSpecifications=tags("natgateway", Name=mark),
        )["NatGateway"]["NatGatewayId"]
        for subnet, mark in zip(net.subnets, marks, strict=True)
    ]
    if chance(scene, 0.3):
        scene.do("ec2:DescribeNatGateways", NatGatewayIds=made)
    chosen = scene.rng.randrange(number)
    what = refer(scene, "NAT gateway", marks[chosen], made[chosen], alone=number == 1)
    if chance(scene, 0.4):
        what = say(
            scene,
            f"the NAT gateway in the subnet {net.subnet_names[chosen]}",
            f"the NAT gateway that sits in {net.subnet_names[chosen]}",
        )
    first = say(scene, f"Tear down {what}", f"Remove {what}", f"{what} is not needed anymore; get rid of it")
    return Goal({"NatGatewayId": made[chosen]}, (sentence(first),))
