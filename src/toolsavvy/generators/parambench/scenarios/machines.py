"""Machines: started, from templates or from scratch, stopped, changed, ended."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios import builders, hardware
from toolsavvy.generators.parambench.scenarios.addresses import machine, network
from toolsavvy.generators.parambench.scenarios.asking import TAGS, count, labels, refer, refer_all
from toolsavvy.generators.parambench.scenarios.hardware import Machine
from toolsavvy.generators.parambench.scenarios.templates import template
from toolsavvy.generators.parambench.scenarios.words import chance, name, names, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program

_DISKS = ("gp3", "gp2", "st1", "sc1")
"""Moto loses the operations a second of a launch, without which it refuses the other kinds."""
ANY = ("SecurityGroupIds", "NetworkInterfaces.*.Groups", "BlockDeviceMappings", "NetworkInterfaces")


def _number(scene: Scene, arguments: dict[str, Any]) -> tuple[str, str]:
    """How many machines: words, and "machine" in the right number."""
    if chance(scene, 0.25):
        low = scene.rng.randrange(1, 5)
        high = low + scene.rng.randrange(1, 6)
        arguments |= {"MinCount": low, "MaxCount": high}
        return say(scene, f"at least {low} and at most {high}", f"between {low} and {high}"), "machines"
    number = scene.rng.choice([1, 1, 2, 3, 4, 5, 6])
    arguments |= {"MinCount": number, "MaxCount": number}
    return count(scene, number), "machine" if number == 1 else "machines"


@program("ec2:RunInstances")
def run(scene: Scene) -> Goal:
    """Machines from an image."""
    made = Machine()
    arguments = made.arguments
    many, noun = _number(scene, arguments)
    arguments["ImageId"], arguments["InstanceType"] = hardware.image(scene), hardware.size(scene)
    first = say(
        scene,
        f"Start {many} {arguments['InstanceType']} {noun} from the image {arguments['ImageId']}.",
        f"We need {many} {noun} of type {arguments['InstanceType']}, image {arguments['ImageId']}.",
    )
    made.sentences.append(first)
    if chance(scene, 0.4):
        hardware.placement(scene, made)
    else:
        hardware.interfaces(scene, made, scene.rng.choice([1, 1, 2]))
    hardware.disks(scene, made, made.room(scene.rng.choice([0, 0, 1, 2])), _DISKS)
    hardware.switches(scene, made, made.room(scene.rng.choice([0, 1, 2])))
    if made.room(3) == 3 and chance(scene, 0.5):
        hardware.metadata(scene, made)
    label = labels(scene, "instance", 0.5)
    return Goal(arguments | dict(label.arguments), _spoken(made, label.sentences), made.conditions, (*TAGS, *ANY))


def _spoken(made: Machine, further: tuple[str, ...]) -> tuple[str, ...]:
    """The request, about one machine or several."""
    first, *rest = (*made.sentences, *further)
    return (first, *(rest if made.arguments["MaxCount"] == 1 else hardware.plural(rest)))


@program("ec2:RunInstances")
def run_template(scene: Scene) -> Goal:
    """Machines from a version of a launch template."""
    mark, identifier, latest = template(scene, scene.rng.choice([1, 2, 3]))
    arguments: dict[str, Any] = {}
    many, noun = _number(scene, arguments)
    by_id = chance(scene, 0.2)
    own: dict[str, Any] = {"LaunchTemplateId": identifier} if by_id else {"LaunchTemplateName": mark}
    what = f"the launch template {identifier if by_id else mark}"
    draw = scene.rng.random()
    if draw < 0.35:
        version = scene.rng.randint(1, latest)
        own["Version"] = str(version)
        what = f"version {version} of {what}"
    elif draw < 0.55:
        own["Version"] = "$Latest"
        what = say(scene, f"whatever version of {what} is the latest", f"{what}, always its latest version")
    elif draw < 0.75:
        own["Version"] = "$Default"
        what = say(scene, f"whatever version of {what} is the default", f"{what}, always its default version")
    arguments["LaunchTemplate"] = own
    made = Machine(arguments, [say(scene, f"Start {many} {noun} from {what}.", f"Launch {many} {noun}, using {what}.")])
    hardware.placement(scene, made)
    if chance(scene, 0.4):
        arguments["InstanceType"] = hardware.size(scene)
        made.sentences.append(f"Unlike the template says, the type is {arguments['InstanceType']}.")
    label = labels(scene, "instance", 0.4)
    return Goal(arguments | dict(label.arguments), _spoken(made, label.sentences), 0, (*TAGS, *ANY))


def _several(scene: Scene) -> tuple[list[str], list[str], list[int]]:
    """Machines of which some are meant: names, ids, positions."""
    net = network(scene)
    marks = names(scene, scene.rng.choice([1, 2, 3, 4]))
    made = machine(scene, net.subnets[0], *marks)
    return marks, made, scene.rng.sample(range(len(made)), scene.rng.randint(1, min(3, len(made))))


def _said(scene: Scene, marks: list[str], made: list[str], chosen: list[int]) -> str:
    """Speak of machines, all but one in some stories."""
    if len(chosen) == 1:
        return refer(scene, "instance", marks[chosen[0]], made[chosen[0]], alone=len(made) == 1)
    if len(chosen) == len(made) - 1 and chance(scene, 0.5):
        left = next(i for i in range(len(made)) if i not in chosen)
        return f"all instances except {marks[left]}"
    return refer_all(scene, "instance", [marks[i] for i in chosen])


@program("ec2:TerminateInstances")
def terminate(scene: Scene) -> Goal:
    """Machines end."""
    marks, made, chosen = _several(scene)
    what = _said(scene, marks, made, chosen)
    first = say(scene, f"Terminate {what}", f"Get rid of {what} for good", f"Shut down and delete {what}")
    return Goal({"InstanceIds": [made[i] for i in chosen]}, (sentence(first),), unordered=("InstanceIds",))


@program("ec2:RebootInstances")
def reboot(scene: Scene) -> Goal:
    """Machines start anew."""
    marks, made, chosen = _several(scene)
    what = _said(scene, marks, made, chosen)
    first = say(scene, f"Reboot {what}", f"Restart {what}", f"{what} must be rebooted")
    return Goal({"InstanceIds": [made[i] for i in chosen]}, (sentence(first),), unordered=("InstanceIds",))


@program("ec2:StopInstances")
def stop(scene: Scene) -> Goal:
    """Machines stop."""
    marks, made, chosen = _several(scene)
    what = _said(scene, marks, made, chosen)
    arguments: dict[str, Any] = {"InstanceIds": [made[i] for i in chosen]}
    sentences = [sentence(say(scene, f"Stop {what}", f"Shut down {what}, but keep what is on disk"))]
    if chance(scene, 0.5):
        arguments["Hibernate"] = chance(scene, 0.5)
        sentences.append(
            say(
                scene,
                "They are to hibernate." if len(chosen) > 1 else "It is to hibernate.",
                "Save the memory to disk.",
            )
            if arguments["Hibernate"]
            else say(scene, "No hibernation.", "The memory need not be saved to disk.")
        )
    if chance(scene, 0.5):
        arguments["Force"] = chance(scene, 0.5)
        sentences.append(
            say(scene, "Force it.", "Do it by force, without flushing anything.")
            if arguments["Force"]
            else say(scene, "Do not force it.", "No force, please.")
        )
    return Goal(arguments, tuple(sentences), unordered=("InstanceIds",))


@program("ec2:StartInstances")
def start(scene: Scene) -> Goal:
    """Machines that were stopped run again."""
    net = network(scene)
    marks = names(scene, scene.rng.choice([2, 3, 4]))
    made = machine(scene, net.subnets[0], *marks)
    stopped = scene.rng.sample(range(len(made)), scene.rng.randint(1, len(made) - 1))
    scene.do("ec2:StopInstances", InstanceIds=[made[i] for i in stopped])
    if chance(scene, 0.4):
        what = say(scene, "what has just been stopped", "everything that was stopped before")
        chosen = stopped
    else:
        chosen = scene.rng.sample(stopped, scene.rng.randint(1, len(stopped)))
        what = refer_all(scene, "instance", [marks[i] for i in chosen])
    first = say(scene, f"Start {what} again", f"Bring {what} back up")
    return Goal({"InstanceIds": [made[i] for i in chosen]}, (sentence(first),), unordered=("InstanceIds",))


@program("ec2:ModifyInstanceAttribute")
def modify(scene: Scene) -> Goal:
    """One thing about a machine is changed."""
    net = network(scene)
    marks = names(scene, scene.rng.choice([1, 2, 3]))
    made = machine(scene, net.subnets[0], *marks)
    i = scene.rng.randrange(len(made))
    what = refer(scene, "instance", marks[i], made[i], alone=len(made) == 1)
    arguments: dict[str, Any] = {"InstanceId": made[i]}
    kind = scene.rng.choice(["check", "type", "protection", "groups", "disk", "ebs"])
    on = chance(scene, 0.5)
    if kind == "check":
        arguments["SourceDestCheck"] = {"Value": on}
        first = (
            say(scene, f"{what} no longer routes for others; check its traffic's source and destination again")
            if on
            else say(
                scene,
                f"{what} will be our NAT instance, so stop checking source and destination of its traffic",
                f"Let {what} forward traffic that is not its own",
            )
        )
    elif kind == "type":
        size = hardware.size(scene)
        arguments["InstanceType"] = {"Value": size}
        first = say(scene, f"Make {what} a {size}", f"Resize {what} to {size}", f"{what} should become a {size}")
    elif kind == "protection":
        arguments["DisableApiTermination"] = {"Value": on}
        first = (
            say(scene, f"Protect {what} against termination", f"Nobody should be able to terminate {what}")
            if on
            else say(scene, f"Lift the termination protection of {what}", f"Allow {what} to be terminated again")
        )
    elif kind == "groups":
        groups = names(scene, scene.rng.choice([1, 2, 3]), "sg")
        ids = [builders.security_group(scene, net.id, g) for g in groups]
        chosen = scene.rng.sample(range(len(ids)), scene.rng.randint(1, len(ids)))
        arguments["Groups"] = [ids[g] for g in chosen]
        said = refer_all(scene, "security group", [groups[g] for g in chosen])
        first = say(scene, f"From now on, {what} is protected by {said} only", f"Put {what} under {said} and no other")
    elif kind == "disk":
        arguments["BlockDeviceMappings"] = [{"DeviceName": "/dev/sda1", "Ebs": {"DeleteOnTermination": on}}]
        first = (
            f"The disk at /dev/sda1 of {what} should be deleted together with it"
            if on
            else f"Keep the disk at /dev/sda1 of {what} when that is terminated"
        )
    else:
        arguments["EbsOptimized"] = {"Value": on}
        first = f"{what} {'gets' if on else 'loses its'} dedicated bandwidth to its disks"
    return Goal(arguments, (sentence(first),), 0, ("Groups",))


@program("ec2:ModifyInstanceMetadataOptions")
def options(scene: Scene) -> Goal:
    """The metadata service of a machine is changed."""
    net = network(scene)
    marks = names(scene, scene.rng.choice([1, 2, 3]))
    made = machine(scene, net.subnets[0], *marks)
    i = scene.rng.randrange(len(made))
    what = refer(scene, "instance", marks[i], made[i], alone=len(made) == 1)
    found, said = hardware.metadata(scene)
    first = say(scene, f"Change the metadata service of {what}.", f"{what} needs other settings for its metadata.")
    return Goal({"InstanceId": made[i], **found}, (sentence(first), *said))


@program("ec2:CreateKeyPair")
def key(scene: Scene) -> Goal:
    """A pair of keys to log in with."""
    mark = name(scene, "key")
    arguments: dict[str, Any] = {"KeyName": mark}
    first = say(
        scene, f"Make a key pair {mark}", f"We need a new key pair called {mark}", f"Create the key pair {mark}"
    )
    sentences = [sentence(first)]
    if chance(scene, 0.7):
        arguments["KeyType"] = scene.rng.choice(["rsa", "ed25519"])
        kind = {"rsa": "RSA", "ed25519": "Ed25519"}[arguments["KeyType"]]
        sentences.append(say(scene, f"It should be an {kind} key.", f"Use {kind} for it."))
    if chance(scene, 0.6):
        arguments["KeyFormat"] = scene.rng.choice(["pem", "ppk"])
        sentences.append(
            say(scene, "We use it with PuTTY, so the private part comes in its format.", "Give us the PuTTY format.")
            if arguments["KeyFormat"] == "ppk"
            else say(scene, "The private part comes as PEM.", "OpenSSH has to read it, so give us PEM.")
        )
    pairs = [
        (k, scene.rng.choice(v))
        for k, v in (
            ("team", ("netops", "data", "web")),
            ("env", ("prod", "dev", "test")),
            ("owner", ("kim", "lee", "ana")),
        )
        if chance(scene, 0.3)
    ]
    if pairs:
        arguments["TagSpecifications"] = [
            {"ResourceType": "key-pair", "Tags": [{"Key": k, "Value": v} for k, v in pairs]}
        ]
        sentences.append(f"Tag it {' and '.join(f'{k}={v}' for k, v in pairs)}.")
    return Goal(arguments, tuple(sentences), unordered=TAGS)
