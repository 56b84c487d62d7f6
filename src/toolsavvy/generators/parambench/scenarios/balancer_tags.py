"""Stories that end in a call on tags of load balancers and target groups, or on what the service offers."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios import builders as b
from toolsavvy.generators.parambench.scenarios.balancers import tag
from toolsavvy.generators.parambench.scenarios.words import listed, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program


def _things(scene: Scene) -> dict[str, str]:
    """Load balancers and target groups in one network, name -> arn, in random order."""
    home = b.backstage(scene, subnets=2)
    balancers = b.standing(scene, scene.rng.choice((1, 2)), home=home)
    found = {one["LoadBalancerName"]: one["LoadBalancerArn"] for one in balancers}
    found |= b.groups(scene, scene.rng.choice((0, 1)), home=home)
    names = list(found)
    scene.rng.shuffle(names)
    return {name: found[name] for name in names}


def _tags(scene: Scene, count: int) -> list[dict[str, str]]:
    """Tags with different keys."""
    found = dict(tag(scene) for _ in range(3 * count))
    return [{"Key": key, "Value": value} for key, value in list(found.items())[:count]]


@program("elbv2:AddTags")
def add(scene: Scene) -> Goal:
    """Tags for one or more things."""
    found = _things(scene)
    names = list(found)[: scene.rng.choice((1, 1, 2))]
    tags = _tags(scene, scene.rng.choice((1, 2, 3)))
    said = listed([f"{one['Key']}={one['Value']}" for one in tags])
    words = say(scene, f"Tag {listed(names)} with {said}.", f"Put the tags {said} on {listed(names)}.")
    arguments = {"ResourceArns": [found[name] for name in names], "Tags": tags}
    return Goal(arguments, (words,), unordered=("ResourceArns", "Tags"))


@program("elbv2:RemoveTags")
def remove(scene: Scene) -> Goal:
    """Some of the tags that were put on things go: by key, or all of them."""
    found = _things(scene)
    names = list(found)[: scene.rng.choice((1, 2))]
    tags = _tags(scene, 3)
    scene.do("elbv2:AddTags", ResourceArns=[found[name] for name in names], Tags=tags)
    keys = [one["Key"] for one in tags]
    way = scene.rng.choice(("keys", "keys", "but", "all"))
    name = scene.rng.choice(names)
    if way == "all":
        words = say(
            scene, f"Clear all the tags that {name} got above.", f"{name} should lose all the tags it was given."
        )
    elif way == "but":
        kept = scene.rng.choice(keys)
        keys = [key for key in keys if key != kept]
        words = say(
            scene,
            f"Of the tags {name} got above, keep only {kept}.",
            f"Strip {name} of the tags it was given, except {kept}.",
        )
    else:
        keys = scene.rng.sample(keys, scene.rng.choice((1, 2)))
        noun = "tag" if len(keys) == 1 else "tags"
        words = say(
            scene,
            f"Take the {noun} {listed(keys)} off {name}.",
            f"{name} does not need the {noun} {listed(keys)} any more.",
        )
    arguments = {"ResourceArns": [found[name]], "TagKeys": keys}
    return Goal(arguments, (sentence(words),), unordered=("ResourceArns", "TagKeys"))


@program("elbv2:DescribeTags")
def describe(scene: Scene) -> Goal:
    """How are some things tagged?"""
    found = _things(scene)
    names = list(found)[: scene.rng.choice((1, 2))]
    words = say(scene, f"Which tags are on {listed(names)}?", f"Show the tags of {listed(names)}.")
    return Goal({"ResourceArns": [found[name] for name in names]}, (words,), unordered=("ResourceArns",))


_POLICIES = (
    "ELBSecurityPolicy-2016-08",
    "ELBSecurityPolicy-TLS-1-2-2017-01",
    "ELBSecurityPolicy-TLS-1-1-2017-01",
    "ELBSecurityPolicy-TLS-1-2-Ext-2018-06",
    "ELBSecurityPolicy-FS-2018-06",
    "ELBSecurityPolicy-FS-1-1-2019-08",
    "ELBSecurityPolicy-FS-1-2-2019-08",
    "ELBSecurityPolicy-TLS13-1-2-2021-06",
    "ELBSecurityPolicy-TLS13-1-3-2021-06",
)


@program("elbv2:DescribeSSLPolicies")
def policies(scene: Scene) -> Goal:
    """Which protocols and ciphers do security policies allow? By name, of one sort of load balancer, or a page."""
    arguments: dict[str, Any] = {}
    kind = scene.rng.choice(("application", "network"))
    if scene.rng.random() < 0.7:
        names = scene.rng.sample(_POLICIES, scene.rng.choice((1, 2, 3)))
        words = say(
            scene, f"Which ciphers do {listed(names)} allow?", f"Compare the security policies {listed(names)}."
        )
        if len(names) == 1:
            words = say(scene, f"Which ciphers does {names[0]} allow?", f"Show the security policy {names[0]}.")
        arguments["Names"] = names
    else:
        size = scene.rng.randrange(2, 60)
        words = say(
            scene, f"List the security policies, {size} at a time.", f"Show security policies in pages of {size}."
        )
        arguments["PageSize"] = size
    sentences = [words]
    if scene.rng.random() < 0.5:
        arguments["LoadBalancerType"] = kind
        sentences.append(
            say(scene, f"Only those for {kind} load balancers matter.", f"This is about {kind} load balancers.")
        )
    return Goal(arguments, tuple(sentences), unordered=("Names",))
