"""What a machine is like: disks, network interfaces, and the switches of a launch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from toolsavvy.generators.parambench.scenarios import builders
from toolsavvy.generators.parambench.scenarios.addresses import network
from toolsavvy.generators.parambench.scenarios.asking import count, refer, refer_all
from toolsavvy.generators.parambench.scenarios.words import chance, names, ordinal, say
from toolsavvy.generators.parambench.scene import Scene

_BURSTABLE = ("t3", "t3a", "t4g")
_FAMILIES = ("m5", "m6i", "m7g", "c5", "c6i", "r5", "r6i")
KINDS = ("gp3", "gp2", "io1", "io2", "st1", "sc1")
"""Kinds of disks."""
_PROVISIONED = {"gp3": (3000, 16000), "io1": (1000, 32000), "io2": (1000, 64000)}
"""Kinds whose operations a second are bought."""
_SHAPES = ("an encrypted disk", "an unencrypted disk", "a disk")


@dataclass
class Machine:
    """A machine being described.

    Args:
        arguments: as a launch takes them.
        sentences: that ask for them.
        conditions: arguments that are there because of another.
    """

    arguments: dict[str, Any] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)
    conditions: int = 0

    def room(self, number: int) -> int:
        """As many of a number of further sentences as a request still takes."""
        return max(0, min(number, 4 - len(self.sentences)))


def image(scene: Scene) -> str:
    """The id of an image."""
    return f"ami-{scene.rng.getrandbits(68):017x}"


def size(scene: Scene) -> str:
    """A type of instance."""
    if chance(scene, 0.4):
        return f"{scene.rng.choice(_BURSTABLE)}.{scene.rng.choice(['micro', 'small', 'medium', 'large', 'xlarge'])}"
    return f"{scene.rng.choice(_FAMILIES)}.{scene.rng.choice(['large', 'xlarge', '2xlarge', '4xlarge'])}"


def disks(scene: Scene, machine: Machine, number: int, kinds: Sequence[str] = KINDS) -> None:
    """Add disks of some kinds, one sentence each."""
    devices = ["/dev/sda1", *(f"/dev/sd{letter}" for letter in "fghijk")]
    rows = [_disk(scene, machine, device, kinds) for device in scene.rng.sample(devices, number)]
    if rows:
        machine.arguments["BlockDeviceMappings"] = rows


def _disk(scene: Scene, machine: Machine, device: str, kinds: Sequence[str]) -> dict[str, Any]:
    kind = scene.rng.choice(kinds)
    tebibytes = scene.rng.choice([1, 2, 4]) if chance(scene, 0.2) or kind in ("st1", "sc1") else 0
    gibibytes = tebibytes * 1024 or scene.rng.choice([8, 16, 20, 30, 40, 50, 80, 100, 120, 150, 200, 250, 400, 500])
    disk: dict[str, Any] = {"VolumeSize": gibibytes, "VolumeType": kind}
    shape = scene.rng.choice(_SHAPES)
    if shape != _SHAPES[2]:
        disk["Encrypted"] = shape == _SHAPES[0]
    words = f"{shape} of {tebibytes} TiB" if tebibytes else f"{shape} of {gibibytes} GiB"
    words += f", type {kind}"
    if kind in _PROVISIONED:
        low, high = _PROVISIONED[kind]
        disk["Iops"] = scene.rng.randrange(low, high, 500)
        words += f", with {disk['Iops']} IOPS"
        machine.conditions += 1
    if chance(scene, 0.4):
        disk["DeleteOnTermination"] = chance(scene, 0.5)
        words += (
            ", deleted along with the machine" if disk["DeleteOnTermination"] else ", kept when the machine is gone"
        )
    machine.sentences.append(say(scene, f"At {device}, it gets {words}.", f"Add {words}, at {device}."))
    return {"DeviceName": device, "Ebs": disk}


def interfaces(scene: Scene, machine: Machine, number: int) -> None:
    """Add network interfaces, one sentence each, in subnets and under groups of the context."""
    net = network(scene, number)
    marks = names(scene, scene.rng.choice([1, 2]), "sg")
    groups = [builders.security_group(scene, net.id, n) for n in marks]
    rows = []
    for index in range(number):
        row: dict[str, Any] = {"DeviceIndex": index, "SubnetId": net.subnets[index]}
        words = f"the {ordinal(index + 1)} network interface is in the subnet {net.subnet_names[index]}"
        chosen = scene.rng.sample(range(len(groups)), scene.rng.randint(1, len(groups)))
        row["Groups"] = [groups[i] for i in chosen]
        words += f", under {refer_all(scene, 'security group', [marks[i] for i in chosen])}"
        if index == 0 and number == 1 and chance(scene, 0.6):
            row["AssociatePublicIpAddress"] = chance(scene, 0.5)
            words += f", {'with' if row['AssociatePublicIpAddress'] else 'without'} a public address"
        if chance(scene, 0.4):
            row["DeleteOnTermination"] = chance(scene, 0.5)
            words += ", deleted with the machine" if row["DeleteOnTermination"] else ", kept after the machine"
        rows.append(row)
        machine.sentences.append(f"{words[0].upper()}{words[1:]}.")
    machine.arguments["NetworkInterfaces"] = rows


def placement(scene: Scene, machine: Machine) -> None:
    """Put the machine into a subnet, under security groups."""
    net = network(scene, scene.rng.choice([1, 2]))
    i = scene.rng.randrange(len(net.subnets))
    machine.arguments["SubnetId"] = net.subnets[i]
    where = refer(scene, "subnet", net.subnet_names[i], net.subnets[i], alone=len(net.subnets) == 1)
    machine.sentences.append(say(scene, f"It belongs into {where}.", f"Put it into {where}."))
    if chance(scene, 0.5):
        marks = names(scene, scene.rng.choice([1, 2]), "sg")
        machine.arguments["SecurityGroupIds"] = [builders.security_group(scene, net.id, n) for n in marks]
        said = refer_all(scene, "security group", marks)
        machine.sentences.append(say(scene, f"Protect it with {said}.", f"It is protected by {said}."))


def metadata(scene: Scene, machine: Machine | None = None) -> tuple[dict[str, Any], list[str]]:
    """Options of the metadata service, and sentences about them."""
    found: dict[str, Any] = {}
    said: list[str] = []
    kinds = scene.rng.sample(["tokens", "hops", "tags", "ipv6"], scene.rng.choice([1, 2, 3]))
    if "tokens" in kinds:
        found["HttpTokens"] = scene.rng.choice(["required", "optional"])
        said.append(
            say(scene, "Its metadata service demands session tokens.", "Metadata is only for requests with a token.")
            if found["HttpTokens"] == "required"
            else say(scene, "Its metadata service also answers without a token.", "Metadata needs no token.")
        )
    if "hops" in kinds:
        found["HttpPutResponseHopLimit"] = scene.rng.randrange(1, 9)
        hops = count(scene, found["HttpPutResponseHopLimit"])
        plural = "" if found["HttpPutResponseHopLimit"] == 1 else "s"
        said.append(
            say(
                scene,
                f"Answers of metadata may travel {hops} hop{plural}.",
                f"Metadata reaches {hops} hop{plural} far.",
            )
        )
    if "tags" in kinds:
        found["InstanceMetadataTags"] = scene.rng.choice(["enabled", "disabled"])
        may = "may" if found["InstanceMetadataTags"] == "enabled" else "must not"
        said.append(f"Tags {may} be read from metadata.")
    if "ipv6" in kinds:
        found["HttpProtocolIpv6"] = scene.rng.choice(["enabled", "disabled"])
        does = "answers" if found["HttpProtocolIpv6"] == "enabled" else "does not answer"
        said.append(f"Metadata {does} over IPv6.")
    if machine is not None:
        machine.arguments["MetadataOptions"] = found
        machine.sentences += said
    return found, said


def switches(scene: Scene, machine: Machine, number: int) -> None:
    """Add further settings of a launch."""
    for kind in scene.rng.sample(["monitoring", "protection", "shutdown", "ebs", "key"], number):
        on = chance(scene, 0.6)
        if kind == "monitoring":
            machine.arguments["Monitoring"] = {"Enabled": on}
            machine.sentences.append(f"Detailed monitoring is {'on' if on else 'off'}.")
        elif kind == "protection":
            machine.arguments["DisableApiTermination"] = on
            machine.sentences.append(
                say(scene, "Protect it against termination.", "Nobody should be able to terminate it by accident.")
                if on
                else say(scene, "It needs no protection against termination.", "Termination is not blocked.")
            )
        elif kind == "shutdown":
            machine.arguments["InstanceInitiatedShutdownBehavior"] = "stop" if on else "terminate"
            machine.sentences.append(f"A shutdown from within {'stops' if on else 'terminates'} it.")
        elif kind == "ebs":
            machine.arguments["EbsOptimized"] = on
            machine.sentences.append(f"It {'gets' if on else 'does not get'} dedicated bandwidth to its disks.")
        else:
            machine.arguments["KeyName"] = (
                f"{scene.rng.choice(_KEYS)}-{scene.rng.choice(['2025', '2026', 'ops', 'dev'])}"
            )
            machine.sentences.append(
                say(
                    scene,
                    f"Log-in works with the key pair {machine.arguments['KeyName']}.",
                    f"Use key pair {machine.arguments['KeyName']}.",
                )
            )


_KEYS = ("admin", "deploy", "bastion", "build", "oncall", "vendor")


def plural(sentences: Sequence[str]) -> tuple[str, ...]:
    """The same sentences about several machines."""
    rules = ((r"^It\b", "Each"), (r"\bit gets\b", "each gets"), (r"\bit\b", "them"), (r"^Its\b", "Their"))
    found = []
    for text in sentences:
        for pattern, words in rules:
            text = re.sub(pattern, words, text)
        found.append(text)
    return tuple(found)
