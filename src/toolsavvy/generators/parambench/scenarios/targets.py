"""Stories that end in a call on the targets of a target group: they join, leave, are asked how they are."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios import builders as b
from toolsavvy.generators.parambench.scenarios.target_groups import the
from toolsavvy.generators.parambench.scenarios.words import chance, listed, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program


@program("elbv2:RegisterTargets")
def register(scene: Scene) -> Goal:
    """Addresses or instances join a target group, with or without ports of their own."""
    return _with_instances(scene) if chance(scene, 0.5) else _with_addresses(scene)


def _with_addresses(scene: Scene) -> Goal:
    rng = scene.rng
    net = b.network(scene, subnets=rng.choice((0, 1)))
    name = f"{b.application(scene)}-pool"
    arn = b.target_group(scene, name, net.id, protocol="TCP", port=rng.choice((80, 443, 5432)), kind="ip")
    count = rng.choice((1, 2, 3, 4))
    who = the(scene, name, True, arn)
    if net.subnets and chance(scene, 0.6):
        front = scene.calls[1].output["Subnet"]["CidrBlock"].rsplit(".", 1)[0]
        ends = rng.sample(range(5, 250), count)
        hosts = [f"{front}.{end}" for end in ends]
        said = listed([f".{end}" for end in ends])
        what = (
            f"the hosts of {net.subnet_names[0]} whose addresses end in {said}"
            if count > 1
            else f"the host of {net.subnet_names[0]} whose address ends in {said}"
        )
    else:
        hosts = list(dict.fromkeys(b.host(scene, net.cidr) for _ in range(count)))
        what = listed(hosts)
    targets: list[dict[str, Any]] = [{"Id": host} for host in hosts]
    words = say(scene, f"Register {what} with {who}", f"Put {what} behind {who}")
    conditions = 0
    if chance(scene, 0.6):
        port = rng.randrange(1024, 60000)
        targets = [{**target, "Port": port} for target in targets]
        words += say(scene, f", on port {port} instead of the group's own", f"; they listen on port {port}")
        conditions = 1
    return Goal({"TargetGroupArn": arn, "Targets": targets}, (sentence(words),), conditions, ("Targets",))


def _with_instances(scene: Scene) -> Goal:
    rng = scene.rng
    home = b.backstage(scene, subnets=1)
    name = f"{b.application(scene)}-pool"
    arn = b.target_group(scene, name, home.id, port=rng.choice((80, 8080)))
    label = f"{b.application(scene)}-{rng.choice(('worker', 'node', 'server'))}"
    looked = chance(scene, 0.6)
    ids = b.instances(scene, home.subnets[0], label, 2 if looked else rng.choice((1, 2)), shown=not looked)
    if looked:
        scene.do("ec2:DescribeInstances", Filters=[{"Name": "tag:Name", "Values": [label]}])
    who = the(scene, name, True, arn)
    what = say(scene, f"every instance named {label}", f"all instances called {label}")
    targets: list[dict[str, Any]] = [{"Id": own} for own in ids]
    words = say(scene, f"Register {what} with {who}", f"Put {what} behind {who}")
    conditions = 0
    if chance(scene, 0.5):
        port = rng.randrange(1024, 60000)
        targets = [{**target, "Port": port} for target in targets]
        words += f"; they listen on port {port}"
        conditions = 1
    return Goal({"TargetGroupArn": arn, "Targets": targets}, (sentence(words),), conditions, ("Targets",))


def _joined(scene: Scene, shown: bool = True) -> tuple[str, str, list[dict[str, Any]]]:
    """A target group with addresses in it: name, arn, targets; `shown`: the model sees how they got there."""
    rng = scene.rng
    net = b.backstage(scene, subnets=0)
    name = f"{b.application(scene)}-pool"
    arn = b.target_group(scene, name, net.id, protocol="TCP", port=rng.choice((80, 443, 5432)), kind="ip")
    hosts = list(dict.fromkeys(b.host(scene, net.cidr) for _ in range(rng.choice((3, 4)))))
    targets = [{"Id": host, "Port": rng.randrange(1024, 60000)} for host in hosts]
    b.call(scene, "elbv2:RegisterTargets", shown, TargetGroupArn=arn, Targets=targets)
    return name, arn, targets


@program("elbv2:DeregisterTargets")
def deregister(scene: Scene) -> Goal:
    """Some targets leave: by address, by port, or all."""
    rng = scene.rng
    seen = chance(scene, 0.5)
    name, arn, targets = _joined(scene, shown=not seen)
    if seen:
        scene.do("elbv2:DescribeTargetHealth", TargetGroupArn=arn)
    who = the(scene, name, True, arn)
    way = rng.choice(("addresses", "ports", "all"))
    picks = targets if way == "all" else rng.sample(targets, rng.choice((1, 2)))
    arguments = {"TargetGroupArn": arn, "Targets": picks}
    if way == "all":
        what = say(scene, "everything that was registered", "all of its targets")
    elif way == "addresses":
        what = listed([target["Id"] for target in picks])
    else:
        ports = listed([str(target["Port"]) for target in picks])
        what = f"the targets on ports {ports}" if len(picks) > 1 else f"the target on port {ports}"
    words = say(
        scene,
        f"Take {what} out of {who}, naming address and port of each.",
        f"Deregister {what} from {who}; give address and port of each.",
    )
    return Goal(arguments, (sentence(words),), conditions=len(picks), unordered=("Targets",))


@program("elbv2:DescribeTargetHealth")
def health(scene: Scene) -> Goal:
    """Are the targets well: all of them, or some?"""
    name, arn, targets = _joined(scene)
    who = the(scene, name, True, arn)
    if chance(scene, 0.4):
        words = say(scene, f"Are all targets of {who} healthy?", f"How are the targets in {who} doing?")
        return Goal({"TargetGroupArn": arn}, (words,))
    picks = scene.rng.sample(targets, scene.rng.choice((1, 2)))
    said = listed([target["Id"] for target in picks])
    words = say(
        scene,
        f"Check the health of {said} in {who}, on the ports that they were registered with.",
        f"Within {who}, ask for the health of {said} on the ports from their registration.",
    )
    arguments = {"TargetGroupArn": arn, "Targets": picks}
    return Goal(arguments, (words,), conditions=1, unordered=("Targets",))
