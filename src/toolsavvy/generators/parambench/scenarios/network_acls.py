"""Stories that end in a network ACL, an entry of one, or a subnet that follows another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolsavvy.generators.parambench.scenarios.pieces import Vpc, acl, extra, naming, pick, refer, subnets, vpcs
from toolsavvy.generators.parambench.scenarios.traffic import End, Traffic, of_network, ranged, traffic
from toolsavvy.generators.parambench.scenarios.words import chance, names, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Scene, program

NUMBERS = {"tcp": "6", "udp": "17", "icmp": "1", "-1": "-1"}
"""Protocol -> its number (IANA), as entries of network ACLs have it."""


@dataclass(frozen=True)
class Entry:
    """An entry of a network ACL.

    Args:
        number: its place.
        allow: or deny.
        egress: of outbound traffic.
        traffic: which.
        end: where from or to.
    """

    number: int
    allow: bool
    egress: bool
    traffic: Traffic
    end: End

    @property
    def fields(self) -> dict[str, Any]:
        """As the API takes it, without the ACL."""
        found: dict[str, Any] = {
            "RuleNumber": self.number,
            "Protocol": NUMBERS[self.traffic.protocol],
            "RuleAction": "allow" if self.allow else "deny",
            "Egress": self.egress,
            "Ipv6CidrBlock" if self.end.kind == "Ipv6Ranges" else "CidrBlock": self.end.value,
        }
        if self.traffic.protocol == "icmp":
            return found | {"IcmpTypeCode": {"Type": -1, "Code": -1}}
        if self.traffic.first is None:
            return found
        return found | {"PortRange": {"From": self.traffic.first, "To": self.traffic.last}}

    @property
    def conditions(self) -> int:
        """Arguments that are there because of the protocol."""
        return self.traffic.conditions

    def said(self, scene: Scene) -> str:
        """What happens to which traffic: "deny inbound SSH from 10.0.0.0/8"."""
        does = say(scene, "allow", "permit", "let through") if self.allow else say(scene, "deny", "block", "drop")
        side, way = ("outbound", "to") if self.egress else ("inbound", "from")
        return f"{does} {side} {self.traffic.words} {way} {self.end.words}"


def entry(scene: Scene, number: int, ends: list[End]) -> Entry:
    """Draw an entry, with one of the ends that the context shows or a range of its own."""
    end = pick(scene, ends) if ends and chance(scene, 0.5) else ranged(scene)
    return Entry(number, chance(scene, 0.55), chance(scene, 0.4), traffic(scene), end)


def _set(scene: Scene, entries: int = 0, with_range: bool = False) -> tuple[str, str, list[End], list[Entry]]:
    """An ACL (id, name), ends that the context shows, and entries that are there; at times all only listed."""
    if with_range:
        vpc: Vpc = vpcs(scene, listing=0)[0]
        ends = [of_network(scene, "VPC", vpc.id, vpc.label, vpc.cidr)]
        ends += [of_network(scene, "subnet", *found) for found in subnets(scene, vpc, 1)]
        owner = vpc.id
    else:
        owner, ends = scene.hidden("ec2:CreateVpc", CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"], []
    listing = chance(scene, 0.4)
    labels = names(scene, 1 + (extra(scene) and 1), "acl")
    made = [(acl(scene, owner, label, shown=not listing), label) for label in labels]
    target, label = made[0]
    start, found = scene.rng.randrange(5, 40) * 10, []
    for i in range(entries):
        one = entry(scene, start + 10 * i * scene.rng.choice((1, 2)), [])
        if one.number in [e.number for e in found]:
            continue
        found.append(one)
        (scene.hidden if listing else scene.do)("ec2:CreateNetworkAclEntry", NetworkAclId=target, **one.fields)
    if listing:
        scene.do("ec2:DescribeNetworkAcls", NetworkAclIds=[i for i, _ in made])
    return target, label, ends, found


@program("ec2:CreateNetworkAcl")
def created(scene: Scene) -> Goal:
    """In a VPC, with name and tags."""
    vpc = pick(scene, vpcs(scene, 1 + extra(scene)))
    it = refer(scene, "VPC", vpc.id, vpc.label)
    said = say(
        scene,
        f"Create a network ACL in {it}.",
        f"{it} needs a network ACL of its own.",
        f"Add another network ACL to {it}.",
    )
    tags = naming(scene, "network-acl", "acl", 0.75)
    return Goal(
        {"VpcId": vpc.id} | tags.arguments,
        (sentence(said), *tags.sentences),
        unordered=("TagSpecifications.*.Tags",),
    )


@program("ec2:CreateNetworkAclEntry")
def entered(scene: Scene) -> Goal:
    """An entry with a number that is stated, or that follows from those that are there."""
    known = scene.rng.choice((0, 0, 1, 2, 2))
    target, label, ends, found = _set(scene, known, chance(scene, 0.4))
    it = refer(scene, "network ACL", target, label)
    free = scene.rng.randrange(1, 3000)
    one = entry(scene, free, ends)
    same = [e.number for e in found if e.egress == one.egress]
    side = "outbound" if one.egress else "inbound"
    if same and chance(scene, 0.7):
        step = scene.rng.choice((5, 10, 20, 100))
        one = Entry(max(same) + step, one.allow, one.egress, one.traffic, one.end)
        place = say(
            scene,
            f"Number it {step} above the highest {side} rule there is, not counting the default one.",
            f"Its number is {step} more than that of the last {side} rule before the default one.",
        )
        said = (sentence(f"in {it}, {one.said(scene)}"), place)
    else:
        if free in same:
            one = Entry(free + 3001, one.allow, one.egress, one.traffic, one.end)
        said = (
            sentence(
                say(
                    scene,
                    f"in {it}, {one.said(scene)} by rule {one.number}",
                    f"add rule {one.number} to {it}: {one.said(scene)}",
                    f"rule {one.number} of {it} is to {one.said(scene)}",
                )
            ),
        )
    return Goal({"NetworkAclId": target, **one.fields}, said, one.conditions)


@program("ec2:ReplaceNetworkAclEntry")
def entry_replaced(scene: Scene) -> Goal:
    """An entry is rewritten in full, or in one respect."""
    target, label, ends, found = _set(scene, scene.rng.choice((1, 2, 2)), chance(scene, 0.3))
    old = pick(scene, found)
    it = refer(scene, "network ACL", target, label)
    side = "outbound" if old.egress else "inbound"
    how = scene.rng.choice(("all", "action", "end", "traffic"))
    if old.traffic.protocol == "icmp":  # moto's listing keeps type and code to itself
        how = "all"
    drawn = entry(scene, old.number, ends)
    if how == "all":
        new = Entry(old.number, drawn.allow, old.egress, drawn.traffic, drawn.end)
        said = say(
            scene,
            f"Rewrite rule {old.number} of {it}: it should {new.said(scene)}.",
            f"Replace rule {old.number} in {it}. From now on, {new.said(scene)}.",
        )
        return Goal({"NetworkAclId": target, **new.fields}, (said,), new.conditions)
    if how == "action":
        new = Entry(old.number, not old.allow, old.egress, old.traffic, old.end)
        verb = say(scene, "allow", "permit") if new.allow else say(scene, "deny", "block")
        change = f"{verb} the traffic it matches"
    elif how == "end":
        new = Entry(old.number, old.allow, old.egress, old.traffic, drawn.end)
        change = f"apply to traffic {'to' if old.egress else 'from'} {drawn.end.words}"
    else:
        new = Entry(old.number, old.allow, old.egress, drawn.traffic, old.end)
        change = f"apply to {drawn.traffic.words}"
    said = say(
        scene,
        f"Change the {side} rule {old.number} of {it}: it should now {change}.",
        f"In {it}, the {side} rule {old.number} has to {change} from now on.",
    )
    rest = say(scene, "Keep everything else about it.", "All else about it stays.", "Nothing else changes.")
    return Goal({"NetworkAclId": target, **new.fields}, (said, rest), new.conditions)


@program("ec2:DeleteNetworkAclEntry")
def entry_deleted(scene: Scene) -> Goal:
    """An entry goes, by its number or by what it matches."""
    target, label, _, found = _set(scene, scene.rng.choice((1, 2, 3)))
    old = pick(scene, found)
    it = refer(scene, "network ACL", target, label)
    side = "outbound" if old.egress else "inbound"
    twins = [e for e in found if (e.egress, e.traffic.fields) == (old.egress, old.traffic.fields)]
    if len(twins) > 1 or chance(scene, 0.6):
        what = f"the {side} rule {old.number}"
    else:
        what = f"the {side} rule for {old.traffic.words}"
    said = say(scene, f"Remove {what} from {it}.", f"In {it}, delete {what}.", f"{it} no longer needs {what}; drop it.")
    return Goal({"NetworkAclId": target, "RuleNumber": old.number, "Egress": old.egress}, (sentence(said),))


@program("ec2:ReplaceNetworkAclAssociation")
def subnet_moved(scene: Scene) -> Goal:
    """A subnet follows another ACL; its present association is dug out of a listing."""
    vpc = vpcs(scene, listing=0)[0]
    found = subnets(scene, vpc, 1 + extra(scene), shown=True)
    target, label = pick(scene, [(acl(scene, vpc.id, n), n) for n in names(scene, scene.rng.choice((1, 1, 2)), "acl")])
    subnet, own, cidr = pick(scene, found)
    filters = [
        {"Name": "vpc-id", "Values": [vpc.id]},
        {"Name": "default", "Values": ["true"]},
    ]
    output = scene.do("ec2:DescribeNetworkAcls", Filters=filters)
    association = next(
        a["NetworkAclAssociationId"]
        for found_acl in output["NetworkAcls"]
        for a in found_acl["Associations"]
        if a["SubnetId"] == subnet
    )
    a = say(scene, refer(scene, "subnet", subnet, own), f"the subnet {cidr}")
    b = refer(scene, "network ACL", target, label)
    said = say(
        scene,
        f"Put {a} under {b}.",
        f"{a} should follow {b} instead of the default one.",
        f"Move {a} from its present network ACL to {b}.",
    )
    return Goal({"AssociationId": association, "NetworkAclId": target}, (sentence(said),))


@program("ec2:DeleteNetworkAcl")
def deleted(scene: Scene) -> Goal:
    """By name or id."""
    target, label, _, _ = _set(scene, scene.rng.choice((0, 0, 1)))
    it = refer(scene, "network ACL", target, label)
    said = say(scene, f"Delete {it}.", f"{it} protects nothing any more; remove it.", f"Please drop {it}.")
    return Goal({"NetworkAclId": target}, (sentence(said),))
