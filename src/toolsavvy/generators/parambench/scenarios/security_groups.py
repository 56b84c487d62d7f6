"""Stories that end in a security group, or open one for traffic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolsavvy.generators.parambench.scenarios import builders, nets
from toolsavvy.generators.parambench.scenarios.pieces import Vpc, extra, naming, pick, refer, subnets, vpcs
from toolsavvy.generators.parambench.scenarios.traffic import (
    UNORDERED,
    End,
    Permission,
    conditions,
    noted,
    of_group,
    of_list,
    of_network,
    ranged,
    traffic,
)
from toolsavvy.generators.parambench.scenarios.words import chance, name, names, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program

_PURPOSES = (
    "web servers", "application servers", "databases", "caches", "bastion hosts", "load balancers", "batch workers",
    "monitoring agents", "mail relays", "message brokers", "file servers", "build runners", "container hosts",
)  # fmt: skip


@program("ec2:CreateSecurityGroup")
def group(scene: Scene) -> Goal:
    """A name, a description, a VPC."""
    vpc = pick(scene, vpcs(scene, 1 + extra(scene)))
    it = refer(scene, "VPC", vpc.id, vpc.label)
    label = name(scene, scene.rng.choice(("web", "app", "db", "cache", "batch")))
    about = f"{scene.rng.choice(_PURPOSES)} of {label.partition('-')[0]}"
    said = say(
        scene,
        f'Create the security group {label} in {it}, described as "{about}".',
        f'{it} needs a security group {label} with the description "{about}".',
        f'Add a security group to {it}. It is called {label} and described as "{about}".',
    )
    arguments: dict[str, Any] = {"GroupName": label, "Description": about, "VpcId": vpc.id}
    more = ()
    if chance(scene, 0.4):
        tags = naming(scene, "security-group", "x", 1, 1).arguments["TagSpecifications"]
        tags[0]["Tags"] = tags[0]["Tags"][1:]
        arguments["TagSpecifications"] = tags
        pairs = " and ".join(f"{tag['Key']}={tag['Value']}" for tag in tags[0]["Tags"])
        more = (say(scene, f"Tag it {pairs}.", f"It gets the tags {pairs}."),)
    return Goal(arguments, (sentence(said), *more), unordered=("TagSpecifications.*.Tags",))


def groups(scene: Scene, count: int, vpc: str = "", listing: float = 0.3) -> list[tuple[str, str]]:
    """Named security groups of a VPC, (id, name) each; the model sees how each is made, or a list of them."""
    shown = not chance(scene, listing)
    vpc = vpc or scene.hidden("ec2:CreateVpc", CidrBlock=nets.private(scene.rng))["Vpc"]["VpcId"]
    labels = names(scene, count, scene.rng.choice(("web", "app", "db", "cache", "batch")))
    found = [(builders.security_group(scene, vpc, label, shown=shown), label) for label in labels]
    if not shown:
        scene.do("ec2:DescribeSecurityGroups", GroupIds=[i for i, _ in found])
    return found


def prefix_list(scene: Scene) -> tuple[str, str]:
    """A managed prefix list in sight of the model: (id, name)."""
    label = name(scene, "sites")
    entries = [{"Cidr": cidr} for cidr in nets.several(scene.rng, 2, 20)]
    output = scene.do(
        "ec2:CreateManagedPrefixList", PrefixListName=label, Entries=entries, MaxEntries=10, AddressFamily="IPv4"
    )
    return output["PrefixList"]["PrefixListId"], label


@program("ec2:DeleteSecurityGroup")
def group_deleted(scene: Scene) -> Goal:
    """By name or id."""
    found, label = pick(scene, groups(scene, 1 + extra(scene)))
    it = refer(scene, "security group", found, label)
    said = say(
        scene,
        f"Delete {it}.",
        f"Nothing uses {it} any more, so remove it.",
        f"{it} can go.",
        f"Please clean up {it}.",
    )
    return Goal({"GroupId": found}, (sentence(said),))


def drawn(
    scene: Scene, pool: Sequence[End], rules: int, share: float = 0.3, *, everything: bool = True
) -> list[Permission]:
    """Permissions with one to three ends, from a pool of named ends and ranges; kinds of traffic do not repeat.

    Args:
        scene: the story.
        pool: ends that the context shows.
        rules: how many.
        share: of ends that get a description.
        everything: "all traffic" may be among them (outbound, a new group has it already).
    """
    found: list[Permission] = []
    while len(found) < rules:
        kind = traffic(scene, everything)
        if any(p.traffic.protocol == kind.protocol and p.traffic.first == kind.first for p in found):
            continue
        ends: list[End] = []
        for _ in range(scene.rng.choice((1, 1, 1, 2, 2, 3))):
            end = pick(scene, list(pool)) if pool and chance(scene, 0.6) else ranged(scene)
            if end.value not in [e.value for e in ends]:
                ends.append(noted(scene, end) if chance(scene, share) else end)
        found.append(Permission(kind, tuple(ends)))
    return found


def surroundings(scene: Scene) -> tuple[tuple[str, str], list[End]]:
    """The group that is meant and ends that the context shows: other groups, a VPC, a subnet, a prefix list."""
    kind = scene.rng.choice(("none", "groups", "groups", "network", "list"))
    if kind == "network":
        vpc: Vpc = vpcs(scene, listing=0)[0]
        parts = [of_network(scene, "subnet", *found) for found in subnets(scene, vpc, scene.rng.choice((1, 2)))]
        target = groups(scene, 1, vpc.id)[0]
        return target, [of_network(scene, "VPC", vpc.id, vpc.label, vpc.cidr), *parts]
    found = groups(scene, 1 + scene.rng.choice((0, 1)) if kind != "groups" else scene.rng.choice((2, 3)))
    ends = [of_group(scene, *one) for one in found[1:]] if kind == "groups" else []
    if kind == "list":
        ends.append(of_list(scene, *prefix_list(scene)))
    return found[0], ends


def told(scene: Scene, leads: Sequence[str], permissions: Sequence[Permission], way: str) -> str:
    """A lead and permissions in one sentence, which are parted by semicolons where there are several."""
    return f"{say(scene, *leads)} {'; '.join(p.said(way) for p in permissions)}."


@program("ec2:AuthorizeSecurityGroupIngress")
def let_in(scene: Scene) -> Goal:
    """One to three kinds of traffic, each from one to three sources."""
    (target, label), pool = surroundings(scene)
    permissions = drawn(scene, pool, scene.rng.choice((1, 1, 2, 3)))
    it = refer(scene, "security group", target, label)
    leads = (f"Open {it} for", f"{it} should accept", f"Let this into {it}:", f"Allow inbound traffic on {it}:")
    arguments = {"GroupId": target, "IpPermissions": [p.fields for p in permissions]}
    said = sentence(told(scene, leads, permissions, "from"))
    return Goal(arguments, (said,), conditions(permissions), UNORDERED)


@program("ec2:AuthorizeSecurityGroupEgress")
def let_out(scene: Scene) -> Goal:
    """One to three kinds of traffic, each to one to three destinations."""
    (target, label), pool = surroundings(scene)
    permissions = drawn(scene, pool, scene.rng.choice((1, 1, 2, 3)), everything=False)
    it = refer(scene, "security group", target, label)
    leads = (
        f"Members of {it} may talk",
        f"Allow outbound traffic on {it}:",
        f"Let {it} open connections for",
        f"Let this out of {it}:",
    )
    arguments = {"GroupId": target, "IpPermissions": [p.fields for p in permissions]}
    said = sentence(told(scene, leads, permissions, "to"))
    return Goal(arguments, (said,), conditions(permissions), UNORDERED)
