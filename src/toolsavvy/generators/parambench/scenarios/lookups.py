"""Questions about what there is, narrowed down by several conditions."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios.addresses import network
from toolsavvy.generators.parambench.scenarios.asking import MORE, count, refer
from toolsavvy.generators.parambench.scenarios.words import chance, listed, say
from toolsavvy.generators.parambench.scene import Goal, Scene, program

ANY = ("Filters", "Filters.*.Values", "Filter", "Filter.*.Values")
Filters = list[dict[str, Any]]
STATES = ("pending", "running", "stopping", "stopped", "shutting-down")
"""Of machines."""


def _vpc(scene: Scene, filters: Filters, sentences: list[str]) -> None:
    """Draw VPCs, and what is to be in one of them."""
    held = [network(scene) for _ in range(scene.rng.choice([1, 2]))]
    net = scene.rng.choice(held)
    filters.append({"Name": "vpc-id", "Values": [net.id]})
    where = refer(scene, "VPC", net.name, net.id, alone=len(held) == 1)
    sentences.append(say(scene, f"They are in {where}.", f"We only look at {where}."))


def _zones(scene: Scene, filters: Filters, sentences: list[str]) -> None:
    zones = sorted(scene.rng.sample([f"us-east-1{letter}" for letter in "abcdf"], scene.rng.choice([1, 2, 3])))
    filters.append({"Name": "availability-zone", "Values": zones})
    sentences.append(
        say(scene, f"They sit in {listed(zones, 'or')}.", f"Leave out what is not in {listed(zones, 'or')}.")
    )


def _tag(scene: Scene, filters: Filters, sentences: list[str]) -> None:
    key = scene.rng.choice(sorted(MORE))
    values = scene.rng.sample(list(MORE[key]), scene.rng.choice([1, 2]))
    filters.append({"Name": f"tag:{key}", "Values": values})
    said = listed([f"{key}={v}" for v in values], "or")
    sentences.append(say(scene, f"They are tagged {said}.", f"Only those with {said} matter."))


def _page(scene: Scene, arguments: dict[str, Any], sentences: list[str]) -> None:
    """Bound the number of results in some stories."""
    if chance(scene, 0.35):
        arguments["MaxResults"] = scene.rng.randrange(5, 95)
        sentences.append(
            say(
                scene,
                f"Up to {count(scene, arguments['MaxResults'])} results will do.",
                f"At most {arguments['MaxResults']} results.",
            )
        )


def _draw(scene: Scene, parts: list[Any], sentences: list[str], key: str = "Filters") -> Goal:
    """Narrow a question down by some of its conditions, in a drawn order; `key` is what the API calls them."""
    filters: Filters = []
    for part in scene.rng.sample(parts, scene.rng.randint(1, min(3, len(parts)))):
        part(scene, filters, sentences)
    arguments: dict[str, Any] = {key: filters}
    _page(scene, arguments, sentences)
    return Goal(arguments, tuple(sentences), unordered=ANY)


@program("ec2:DescribeSubnets")
def subnets(scene: Scene) -> Goal:
    """Which subnets are there?"""

    def ranges(scene: Scene, filters: Filters, sentences: list[str]) -> None:
        cidr = f"10.{scene.rng.randrange(256)}.{scene.rng.randrange(256)}.0/24"
        filters.append({"Name": "cidr-block", "Values": [cidr]})
        sentences.append(say(scene, f"Their range is {cidr}.", f"It is about the range {cidr}."))

    def first(scene: Scene, filters: Filters, sentences: list[str]) -> None:
        value = scene.rng.choice(["true", "false"])
        filters.append({"Name": "default-for-az", "Values": [value]})
        sentences.append(
            "They are the default of their zone." if value == "true" else "They are not the default of their zone."
        )

    start = [say(scene, "Which subnets do we have?", "List subnets.", "Show me subnets.")]
    return _draw(scene, [_vpc, _zones, _tag, ranges, first], start)


@program("ec2:DescribeInstances")
def instances(scene: Scene) -> Goal:
    """Which machines are there?"""

    def states(scene: Scene, filters: Filters, sentences: list[str]) -> None:
        chosen = scene.rng.sample(STATES, scene.rng.choice([1, 2]))
        filters.append({"Name": "instance-state-name", "Values": chosen})
        said = listed([s.replace("-", " ") for s in chosen], "or")
        sentences.append(say(scene, f"Their state is {said}.", f"Only machines that are {said} count."))

    def kinds(scene: Scene, filters: Filters, sentences: list[str]) -> None:
        chosen = scene.rng.sample(
            ["t3.micro", "t3.large", "m5.large", "c5.xlarge", "r5.2xlarge"], scene.rng.choice([1, 2])
        )
        filters.append({"Name": "instance-type", "Values": chosen})
        sentences.append(f"They are of type {listed(chosen, 'or')}.")

    start = [say(scene, "Which machines do we have?", "List instances.", "Show me machines.")]
    return _draw(scene, [_vpc, _zones, _tag, states, kinds], start)


@program("ec2:DescribeNetworkInterfaces")
def interfaces(scene: Scene) -> Goal:
    """Which network interfaces are there?"""

    def places(scene: Scene, filters: Filters, sentences: list[str]) -> None:
        net = network(scene, scene.rng.choice([2, 3]))
        chosen = scene.rng.sample(range(len(net.subnets)), scene.rng.choice([1, 2]))
        filters.append({"Name": "subnet-id", "Values": [net.subnets[i] for i in chosen]})
        said = listed([net.subnet_names[i] for i in chosen], "or")
        sentences.append(say(scene, f"They are in the subnet {said}.", f"It is about those in {said}."))

    def addresses(scene: Scene, filters: Filters, sentences: list[str]) -> None:
        found = [
            f"10.{scene.rng.randrange(256)}.{scene.rng.randrange(256)}.{scene.rng.randrange(4, 255)}" for _ in range(2)
        ]
        found = found[: scene.rng.choice([1, 2])]
        filters.append({"Name": "private-ip-address", "Values": found})
        sentences.append(
            say(scene, f"Their private address is {listed(found, 'or')}.", f"We look for {listed(found, 'or')}.")
        )

    start = [say(scene, "Which network interfaces do we have?", "List network interfaces.")]
    return _draw(scene, [places, addresses, _tag], start)


@program("ec2:DescribeNatGateways")
def gateways(scene: Scene) -> Goal:
    """Which NAT gateways are there?"""

    def states(scene: Scene, filters: Filters, sentences: list[str]) -> None:
        chosen = scene.rng.sample(["pending", "failed", "available", "deleting", "deleted"], scene.rng.choice([1, 2]))
        filters.append({"Name": "state", "Values": chosen})
        sentences.append(f"Their state is {listed(chosen, 'or')}.")

    start = [say(scene, "Which NAT gateways do we have?", "List NAT gateways.")]
    return _draw(scene, [_vpc, states, _tag], start, "Filter")
