"""Tags put on things and taken off."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios import builders, nets
from toolsavvy.generators.parambench.scenarios.addresses import address, interface, network
from toolsavvy.generators.parambench.scenarios.asking import MORE, refer_all
from toolsavvy.generators.parambench.scenarios.endpoints import route_table
from toolsavvy.generators.parambench.scenarios.words import chance, listed, name, names, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program

Things = list[tuple[str, str]]


def _things(scene: Scene) -> tuple[str, Things]:
    """Things of one kind: the noun, and their names and ids."""
    kind = scene.rng.choice(["VPC", "subnet", "route table", "network interface", "Elastic IP", "security group"])
    number = scene.rng.choice([1, 2, 3])
    if kind == "VPC":
        cidrs = nets.several(scene.rng, number)
        return kind, [(n, builders.vpc(scene, n, c)) for n, c in zip(names(scene, number), cidrs, strict=True)]
    if kind == "Elastic IP":
        return kind, [(n, address(scene, n)["AllocationId"]) for n in names(scene, number, "ip")]
    if kind == "subnet":
        net = network(scene, number)
        return kind, list(zip(net.subnet_names, net.subnets, strict=True))
    if kind == "network interface":
        net = network(scene)
        marks = names(scene, number, "nic")
        return kind, [(n, interface(scene, net.subnets[0], n)["NetworkInterfaceId"]) for n in marks]
    vpc = builders.vpc(scene, name(scene), nets.private(scene.rng))
    if kind == "route table":
        return kind, [(n, route_table(scene, vpc, n)) for n in names(scene, number, "rt")]
    return kind, [(n, builders.security_group(scene, vpc, n)) for n in names(scene, number, "sg")]


def _chosen(scene: Scene) -> tuple[str, list[str]]:
    """Things of one or two kinds that are meant: words and ids."""
    said, ids = [], []
    for _ in range(scene.rng.choice([1, 1, 2])):
        kind, held = _things(scene)
        some = scene.rng.sample(held, scene.rng.randint(1, len(held)))
        said.append(refer_all(scene, kind, [label for label, _ in some]))
        ids += [identifier for _, identifier in some]
    return " as well as ".join(said), ids


def _pairs(scene: Scene) -> list[tuple[str, str]]:
    keys = scene.rng.sample(sorted(MORE), scene.rng.choice([1, 2, 3]))
    return [(key, scene.rng.choice(MORE[key])) for key in keys]


@program("ec2:CreateTags")
def create(scene: Scene) -> Goal:
    """Tags for things of the context."""
    what, ids = _chosen(scene)
    pairs = _pairs(scene)
    words = listed([f"{k}={v}" for k, v in pairs])
    first = say(
        scene, f"Tag {what} with {words}", f"Put the tags {words} on {what}", f"{what} should carry {words} as tags"
    )
    arguments = {"Resources": ids, "Tags": [{"Key": k, "Value": v} for k, v in pairs]}
    return Goal(arguments, (sentence(first),), unordered=("Resources", "Tags"))


@program("ec2:DeleteTags")
def delete(scene: Scene) -> Goal:
    """Tags are taken off: whatever their values are, or with those values only."""
    what, ids = _chosen(scene)
    pairs = _pairs(scene)
    scene.do("ec2:CreateTags", Resources=ids, Tags=[{"Key": k, "Value": v} for k, v in pairs])
    gone = scene.rng.sample(pairs, scene.rng.randint(1, len(pairs)))
    tags: list[dict[str, Any]]
    if chance(scene, 0.5):
        tags = [{"Key": k} for k, _ in gone]
        keys = listed([k for k, _ in gone])
        noun = "tag" if len(gone) == 1 else "tags"
        first = say(
            scene,
            f"Take the {noun} {keys} off {what}, whatever the value",
            f"Remove the {noun} {keys} from {what}, with any value",
        )
    else:
        tags = [{"Key": k, "Value": v} for k, v in gone]
        words = listed([f"{k}={v}" for k, v in gone])
        first = say(scene, f"Take {words} off {what}", f"Remove {words} from {what}")
    return Goal({"Resources": ids, "Tags": tags}, (sentence(first),), unordered=("Resources", "Tags"))


@program("ec2:DescribeTags")
def show(scene: Scene) -> Goal:
    """Tags are looked up, of a kind of things or with a key."""
    what, ids = _chosen(scene)
    filters = [{"Name": "resource-id", "Values": ids}]
    first = say(scene, f"Show the tags of {what}", f"Which tags do {what} have?", f"List how {what} are tagged")
    sentences = [sentence(first)]
    if chance(scene, 0.6):
        keys = scene.rng.sample(sorted(MORE), scene.rng.choice([1, 2]))
        filters.append({"Name": "key", "Values": keys})
        sentences.append(
            say(scene, f"We only care for the keys {listed(keys)}.", f"Only the keys {listed(keys)} matter.")
        )
    arguments: dict[str, Any] = {"Filters": filters}
    if chance(scene, 0.3):
        arguments["MaxResults"] = scene.rng.randrange(5, 200)
        sentences.append(f"No more than {arguments['MaxResults']} results, please.")
    return Goal(arguments, tuple(sentences), unordered=("Filters", "Filters.*.Values"))
