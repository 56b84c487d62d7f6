"""Network interfaces: made with addresses and groups, attached, changed, and taken away."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios import builders, nets
from toolsavvy.generators.parambench.scenarios.addresses import cidr_of, interface, machine, network
from toolsavvy.generators.parambench.scenarios.asking import TAGS, count, labels, refer, refer_all
from toolsavvy.generators.parambench.scenarios.words import chance, listed, name, names, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program

_PURPOSES = (
    "management traffic",
    "backup traffic",
    "storage replication",
    "heartbeat link",
    "monitoring uplink",
    "database sync",
    "firewall inside leg",
    "firewall outside leg",
    "voice gateway",
    "license server",
)


def _groups(scene: Scene, vpc: str, number: int) -> tuple[list[str], list[str]]:
    """Names and ids of security groups."""
    found = names(scene, number, "sg")
    return found, [builders.security_group(scene, vpc, n) for n in found]


def _ending(scene: Scene, addresses: list[str]) -> str:
    """Addresses said whole, or by how they end: their subnet says the rest."""
    if chance(scene, 0.5):
        return listed(addresses)
    return listed([f".{a.rpartition('.')[2]}" for a in addresses])


def _drawn(scene: Scene, cidr: str, number: int) -> list[str]:
    """Different addresses of a /24 subnet that nothing has yet."""
    taken = str([call.output for call in scene.calls])
    free = [a for i in range(10, 250) if f"'{(a := nets.host(cidr, i))}'" not in taken]
    return scene.rng.sample(free, number)


@program("ec2:CreateNetworkInterface")
def create(scene: Scene) -> Goal:
    """An interface in a subnet, with groups and addresses."""
    net = network(scene, scene.rng.choice([1, 1, 2]))
    place = scene.rng.randrange(len(net.subnets))
    where = refer(scene, "subnet", net.subnet_names[place], net.subnets[place], alone=len(net.subnets) == 1)
    arguments: dict[str, Any] = {"SubnetId": net.subnets[place]}
    first = say(
        scene,
        f"Create a network interface in {where}",
        f"We need an extra network interface in {where}",
        f"Add a network interface to {where}",
    )
    sentences = [sentence(first)]
    if chance(scene, 0.35):
        arguments["Description"] = scene.rng.choice(_PURPOSES)
        sentences.append(
            say(
                scene,
                f'Describe it as "{arguments["Description"]}".',
                f'Its description reads "{arguments["Description"]}".',
            )
        )
    if chance(scene, 0.5):
        marks, ids = _groups(scene, net.id, scene.rng.choice([1, 2, 3]))
        chosen = sorted(scene.rng.sample(range(len(ids)), scene.rng.randint(1, len(ids))))
        arguments["Groups"] = [ids[i] for i in chosen]
        said = refer_all(scene, "security group", [marks[i] for i in chosen])
        sentences.append(say(scene, f"Put it under {said}.", f"It should be protected by {said}."))
    conditions = _addresses(scene, net.subnets[place], arguments, sentences)
    label = labels(scene, "network-interface", 0.4)
    return Goal(
        arguments | label.arguments, (*sentences, *label.sentences), conditions, (*TAGS, "Groups", "PrivateIpAddresses")
    )


def _addresses(scene: Scene, subnet: str, arguments: dict[str, Any], sentences: list[str]) -> int:
    """Draw the addresses of a new interface; how many arguments depend on another."""
    cidr = cidr_of(scene, subnet)
    kind = scene.rng.choice(["none", "one", "several", "count"])
    if kind == "one":
        arguments["PrivateIpAddress"] = _drawn(scene, cidr, 1)[0]
        said = _ending(scene, [arguments["PrivateIpAddress"]])
        sentences.append(say(scene, f"Its address is {said}.", f"Give it the address {said}."))
    if kind == "several":
        found = _drawn(scene, cidr, scene.rng.choice([2, 3, 4]))
        arguments["PrivateIpAddresses"] = [{"PrivateIpAddress": a, "Primary": i == 0} for i, a in enumerate(found)]
        main, rest = _ending(scene, found[:1]), _ending(scene, found[1:])
        sentences.append(
            say(
                scene,
                f"Its primary address is {main}, and it also has {rest} as secondary.",
                f"Use {main} as its primary address and {rest} as secondary.",
            )
        )
        return len(found) - 1
    if kind == "count":
        arguments["SecondaryPrivateIpAddressCount"] = scene.rng.randrange(2, 12)
        number = count(scene, arguments["SecondaryPrivateIpAddressCount"])
        sentences.append(
            say(
                scene,
                f"Besides its primary address it gets {number} secondary ones, picked by AWS.",
                f"Let AWS pick {number} secondary addresses for it.",
            )
        )
    return 0


@program("ec2:AttachNetworkInterface")
def attach(scene: Scene) -> Goal:
    """An interface goes to a machine."""
    net = network(scene)
    marks = names(scene, scene.rng.choice([1, 2]), "nic")
    made = [interface(scene, net.subnets[0], n)["NetworkInterfaceId"] for n in marks]
    two = names(scene, scene.rng.choice([1, 2, 3]))
    machines = machine(scene, net.subnets[0], *two)
    i, j = scene.rng.randrange(len(made)), scene.rng.randrange(len(machines))
    index = scene.rng.randrange(1, 8)
    what = refer(scene, "network interface", marks[i], made[i], alone=len(made) == 1)
    target = refer(scene, "instance", two[j], machines[j], alone=len(machines) == 1)
    arguments: dict[str, Any] = {"NetworkInterfaceId": made[i], "InstanceId": machines[j], "DeviceIndex": index}
    device = say(scene, f"eth{index}", f"device number {index}", f"device {count(scene, index)}")
    first = say(
        scene,
        f"Plug {what} into {target} as {device}",
        f"Attach {what} to {target} as {device}",
        f"{target} gets {what} as {device}",
    )
    sentences = [sentence(first)]
    if chance(scene, 0.35):
        arguments["NetworkCardIndex"] = scene.rng.randrange(0, 4)
        sentences.append(
            say(
                scene,
                f"It goes on network card {arguments['NetworkCardIndex']}.",
                f"Use network card {arguments['NetworkCardIndex']} for it.",
            )
        )
    return Goal(arguments, tuple(sentences))


def _attached(scene: Scene, number: int) -> tuple[list[str], list[str], list[str], list[str]]:
    """Interfaces on machines: names and ids of the interfaces, names of the machines, ids of the attachments."""
    net = network(scene)
    marks = names(scene, number, "nic")
    made = [interface(scene, net.subnets[0], n)["NetworkInterfaceId"] for n in marks]
    two = names(scene, number)
    machines = machine(scene, net.subnets[0], *two)
    attachments = [
        scene.do("ec2:AttachNetworkInterface", NetworkInterfaceId=e, InstanceId=m, DeviceIndex=1)["AttachmentId"]
        for e, m in zip(made, machines, strict=True)
    ]
    if chance(scene, 0.35):
        scene.do("ec2:DescribeNetworkInterfaces", NetworkInterfaceIds=made)
    return marks, made, two, attachments


@program("ec2:DetachNetworkInterface")
def detach(scene: Scene) -> Goal:
    """An interface comes off its machine."""
    marks, made, two, attachments = _attached(scene, scene.rng.choice([1, 2]))
    i = scene.rng.randrange(len(made))
    if chance(scene, 0.5):
        what = refer(scene, "network interface", marks[i], made[i], alone=len(made) == 1)
        first = say(scene, f"Unplug {what}", f"Take {what} off its instance", f"Detach {what} from its machine")
    else:
        first = say(
            scene,
            f"Take the extra network interface off the instance {two[i]}",
            f"The second network interface of {two[i]} is to be unplugged",
        )
    arguments: dict[str, Any] = {"AttachmentId": attachments[i]}
    sentences = [sentence(first)]
    if chance(scene, 0.5):
        arguments["Force"] = chance(scene, 0.6)
        sentences.append(
            say(scene, "Force it if need be.", "Do it the hard way, by force.")
            if arguments["Force"]
            else say(scene, "Do not force it.", "No force, please.")
        )
    return Goal(arguments, tuple(sentences))


@program("ec2:ModifyNetworkInterfaceAttribute")
def modify(scene: Scene) -> Goal:
    """One thing about an interface is changed."""
    kind = scene.rng.choice(["check", "description", "groups", "attachment"])
    if kind == "attachment":
        marks, made, _, attachments = _attached(scene, scene.rng.choice([1, 2]))
    else:
        net = network(scene)
        marks = names(scene, scene.rng.choice([1, 2, 2]), "nic")
        made = [interface(scene, net.subnets[0], n)["NetworkInterfaceId"] for n in marks]
    i = scene.rng.randrange(len(made))
    what = refer(scene, "network interface", marks[i], made[i], alone=len(made) == 1)
    arguments: dict[str, Any] = {"NetworkInterfaceId": made[i]}
    if kind == "check":
        arguments["SourceDestCheck"] = {"Value": chance(scene, 0.3)}
        first = (
            say(scene, f"Check again that traffic over {what} is its own", f"Drop foreign traffic at {what} again")
            if arguments["SourceDestCheck"]["Value"]
            else say(
                scene,
                f"{what} has to forward traffic that is not its own, so stop checking source and destination",
                f"Let {what} route packets for others",
                f"Switch off the source and destination check of {what}",
            )
        )
    elif kind == "description":
        arguments["Description"] = {"Value": scene.rng.choice(_PURPOSES)}
        words = arguments["Description"]["Value"]
        first = say(scene, f'Describe {what} as "{words}"', f'The description of {what} should read "{words}"')
    elif kind == "groups":
        groups, ids = _groups(scene, net.id, scene.rng.choice([2, 3]))
        chosen = sorted(scene.rng.sample(range(len(ids)), scene.rng.choice([1, 2])))
        arguments["Groups"] = [ids[g] for g in chosen]
        said = refer_all(scene, "security group", [groups[g] for g in chosen])
        first = say(
            scene, f"From now on only {said} should protect {what}", f"Put {what} under {said} and no other group"
        )
    else:
        keep = chance(scene, 0.4)
        arguments["Attachment"] = {"AttachmentId": attachments[i], "DeleteOnTermination": not keep}
        first = (
            say(scene, f"Keep {what} when its instance is terminated", f"{what} should outlive its instance")
            if keep
            else say(
                scene,
                f"{what} should disappear together with its instance",
                f"Delete {what} along with its instance when that is terminated",
            )
        )
    return Goal(arguments, (sentence(first),), int(kind == "attachment"), ("Groups",))


@program("ec2:AssignPrivateIpAddresses")
def assign(scene: Scene) -> Goal:
    """An interface gets more addresses."""
    net = network(scene)
    marks = names(scene, scene.rng.choice([1, 2]), "nic")
    made = [interface(scene, net.subnets[0], n) for n in marks]
    i = scene.rng.randrange(len(made))
    own = made[i]["PrivateIpAddress"]
    what = refer(scene, "network interface", marks[i], made[i]["NetworkInterfaceId"], alone=len(made) == 1)
    if chance(scene, 0.2):
        what = f"the network interface at {own}"
    arguments: dict[str, Any] = {"NetworkInterfaceId": made[i]["NetworkInterfaceId"]}
    if chance(scene, 0.3):
        arguments["SecondaryPrivateIpAddressCount"] = scene.rng.randrange(2, 13)
        number = count(scene, arguments["SecondaryPrivateIpAddressCount"])
        first = say(
            scene,
            f"Let {what} have {number} more private addresses, any free ones",
            f"Add {number} automatically chosen private addresses to {what}",
        )
    else:
        arguments["PrivateIpAddresses"] = _drawn(scene, cidr_of(scene, net.subnets[0]), scene.rng.choice([1, 2, 3, 4]))
        said = _ending(scene, arguments["PrivateIpAddresses"])
        plural = "es" if len(arguments["PrivateIpAddresses"]) > 1 else ""
        first = say(
            scene,
            f"Give {what} the further private address{plural} {said}",
            f"Add the secondary private address{plural} {said} to {what}",
        )
    sentences = [sentence(first)]
    if chance(scene, 0.5):
        arguments["AllowReassignment"] = chance(scene, 0.5)
        sentences.append(
            say(scene, "Take addresses over from other interfaces if needed.", "They may be moved from elsewhere.")
            if arguments["AllowReassignment"]
            else say(scene, "Do not take anything from other interfaces.", "Nothing may be moved from elsewhere.")
        )
    return Goal(arguments, tuple(sentences), unordered=("PrivateIpAddresses",))


@program("ec2:UnassignPrivateIpAddresses")
def unassign(scene: Scene) -> Goal:
    """An interface loses addresses."""
    net = network(scene)
    found = _drawn(scene, cidr_of(scene, net.subnets[0]), scene.rng.choice([2, 3, 4, 5]))
    mark = name(scene, "nic")
    rows = [{"PrivateIpAddress": a, "Primary": i == 0} for i, a in enumerate(found)]
    made = interface(scene, net.subnets[0], mark, PrivateIpAddresses=rows)
    if chance(scene, 0.4):
        interface(scene, net.subnets[0], name(scene, "nic"))
        what = refer(scene, "network interface", mark, made["NetworkInterfaceId"])
    else:
        what = refer(scene, "network interface", mark, made["NetworkInterfaceId"], alone=True)
    if chance(scene, 0.45):
        gone = found[1:]
        first = say(
            scene,
            f"{what} should keep only its primary address",
            f"Take all secondary addresses away from {what}",
            f"Remove every private address from {what} except its primary one",
        )
    else:
        gone = scene.rng.sample(found[1:], scene.rng.randint(1, len(found) - 1))
        said = _ending(scene, gone)
        first = say(scene, f"Take {said} away from {what}", f"{what} does not need {said} anymore; remove that")
    arguments = {"NetworkInterfaceId": made["NetworkInterfaceId"], "PrivateIpAddresses": gone}
    return Goal(arguments, (sentence(first),), unordered=("PrivateIpAddresses",))


@program("ec2:DeleteNetworkInterface")
def delete(scene: Scene) -> Goal:
    """An interface goes away."""
    number = scene.rng.choice([1, 2, 3])
    net = network(scene)
    marks = names(scene, number, "nic")
    purposes = scene.rng.sample(_PURPOSES, number)
    made = [interface(scene, net.subnets[0], n, Description=p) for n, p in zip(marks, purposes, strict=True)]
    i = scene.rng.randrange(number)
    what = scene.rng.choice(
        [
            refer(scene, "network interface", marks[i], made[i]["NetworkInterfaceId"], alone=number == 1),
            f'the network interface described as "{purposes[i]}"',
            f"the network interface with the address {made[i]['PrivateIpAddress']}",
        ]
    )
    first = say(scene, f"Delete {what}", f"Get rid of {what}", f"{what} is left over; remove it")
    return Goal({"NetworkInterfaceId": made[i]["NetworkInterfaceId"]}, (sentence(first),))
