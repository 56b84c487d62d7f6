"""Stories that change the rules of a security group: take them back, describe them, alter them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from toolsavvy.generators.parambench.scenarios import nets
from toolsavvy.generators.parambench.scenarios.pieces import pick, refer
from toolsavvy.generators.parambench.scenarios.security_groups import drawn, groups
from toolsavvy.generators.parambench.scenarios.traffic import (
    NOTES,
    UNORDERED,
    End,
    Permission,
    conditions,
    of_group,
    ranged,
    traffic,
)
from toolsavvy.generators.parambench.scenarios.words import chance, say, sentence
from toolsavvy.generators.parambench.scene import Goal, Program, Scene, program

_WAYS = {"Ingress": ("from", "inbound"), "Egress": ("to", "outbound")}


def opened(scene: Scene, direction: str, count: int, share: float) -> tuple[tuple[str, str], list[Permission]]:
    """A group with rules, each made in sight of the model: the group (id, name) and its permissions."""
    found = groups(scene, scene.rng.choice((1, 1, 2)), listing=0.15)
    pool = [of_group(scene, *one) for one in found[1:]]
    permissions = drawn(scene, pool, count, share, everything=direction == "Ingress")
    for permission in permissions:
        scene.do(f"ec2:AuthorizeSecurityGroup{direction}", GroupId=found[0][0], IpPermissions=[permission.fields])
    return found[0], permissions


def _bare(permission: Permission) -> Permission:
    return replace(permission, ends=tuple(replace(end, note="") for end in permission.ends))


def _revoke(direction: str) -> Program:
    way, side = _WAYS[direction]

    def revoked(scene: Scene) -> Goal:
        """Traffic that is let through no longer is: said in full, or by the name of the rule's traffic."""
        (target, label), permissions = opened(scene, direction, scene.rng.choice((1, 2, 2)), 0)
        gone = _bare(pick(scene, permissions))
        it = refer(scene, "security group", target, label)
        if chance(scene, 0.5):
            what = gone.said(way)
            said = say(
                scene,
                f"On {it}, take back the {side} permission for {what}.",
                f"{it} must no longer allow {what} ({side}).",
                f"Close {it} for {side} {what}.",
            )
        else:
            what = gone.traffic.words
            said = say(
                scene,
                f"On {it}, take back the {side} permission for {what}, whatever it is open {way}.",
                f"{it} allows {what} ({side}), which was a mistake: revoke that with all that it lists.",
                f"Undo the {side} permission for {what} on {it} completely.",
            )
        arguments = {"GroupId": target, "IpPermissions": [gone.fields]}
        return Goal(arguments, (sentence(said),), conditions([gone]), UNORDERED)

    return revoked


def _revoke_by_rule(direction: str) -> Program:
    way, _ = _WAYS[direction]

    def revoked_by_rule(scene: Scene) -> Goal:
        """A rule that was listed goes, named by its id."""
        target, label, rules = listed_rules(scene, direction)
        rule, kind, end, note = pick(scene, rules)
        it = refer(scene, "security group", target, label)
        what = say(scene, f"{kind} {way} {end}", f'the one described as "{note}"')
        said = say(
            scene,
            f"Of the rules listed for {it}, remove {what}. Go by the id of the rule.",
            f"Look up the rule in {it} and revoke {what} by its rule id.",
        )
        return Goal({"GroupId": target, "SecurityGroupRuleIds": [rule]}, (said,))

    return revoked_by_rule


def listed_rules(scene: Scene, direction: str, count: int = 0) -> tuple[str, str, list[tuple[str, str, str, str]]]:
    """A group whose rules the model sees in a list: (rule id, traffic, range, description) each."""
    target, label = groups(scene, 1, listing=0)[0]
    notes = scene.rng.sample(NOTES, 3)
    chosen: dict[tuple[str, int | None], Permission] = {}
    while len(chosen) < (count or scene.rng.choice((1, 2, 3))):
        kind = traffic(scene, everything=False, icmp=False)
        cidr = nets.private(scene.rng, scene.rng.choice((16, 20, 24)))
        end = End("IpRanges", cidr, cidr, notes[len(chosen)])
        chosen.setdefault((kind.protocol, kind.first), Permission(kind, (end,)))
    if len(chosen) == 1 and chance(scene, 0.5):
        permission = next(iter(chosen.values()))
        output = scene.do(f"ec2:AuthorizeSecurityGroup{direction}", GroupId=target, IpPermissions=[permission.fields])
        rules = output["SecurityGroupRules"]
    else:
        for permission in chosen.values():
            scene.hidden(f"ec2:AuthorizeSecurityGroup{direction}", GroupId=target, IpPermissions=[permission.fields])
        output = scene.do("ec2:DescribeSecurityGroupRules", Filters=[{"Name": "group-id", "Values": [target]}])
        rules = output["SecurityGroupRules"]
    found = []
    for permission in chosen.values():
        end = permission.ends[0]
        rule = next(r for r in rules if r.get("Description") == end.note)
        found.append((rule["SecurityGroupRuleId"], permission.traffic.words, end.value, end.note))
    return target, label, found


def _describe(direction: str) -> Program:
    way, side = _WAYS[direction]

    def described(scene: Scene) -> Goal:
        """A rule that is there gets a description, or another one."""
        (target, label), permissions = opened(scene, direction, scene.rng.choice((1, 2)), 0.3)
        chosen = pick(scene, permissions)
        end = pick(scene, list(chosen.ends))
        note = pick(scene, [n for n in NOTES if n not in [e.note for p in permissions for e in p.ends]])
        it = refer(scene, "security group", target, label)
        told = Permission(chosen.traffic, (replace(end, note=note),))
        what = Permission(chosen.traffic, (replace(end, note=""),)).said(way)
        said = say(
            scene,
            f'In {it}, describe the {side} rule for {what} as "{note}".',
            f'{it} has an {side} rule for {what}; its description should read "{note}".',
            f'Note "{note}" on the {side} rule of {it} for {what}.',
        )
        arguments = {"GroupId": target, "IpPermissions": [told.fields]}
        return Goal(arguments, (sentence(said),), conditions([told]), UNORDERED)

    return described


@program("ec2:ModifySecurityGroupRules")
def altered(scene: Scene) -> Goal:
    """One or two listed rules get another range or other ports; the rest stays as it is."""
    target, label, _ = listed_rules(scene, "Ingress", scene.rng.choice((1, 2, 2)))
    listed = [r for r in scene.calls[-1].output["SecurityGroupRules"] if not r.get("IsEgress")]
    chosen = scene.rng.sample(listed, scene.rng.choice((1, 1, len(listed))))
    it = refer(scene, "security group", target, label)
    changes, said = [], []
    for rule in chosen:
        same = {k: rule[k] for k in ("IpProtocol", "FromPort", "ToPort", "CidrIpv4", "Description")}
        which = say(scene, f'the rule described as "{rule["Description"]}"', f"the rule for {rule['CidrIpv4']}")
        alter: Callable[..., tuple[dict[str, Any], str]] = pick(scene, [_other_range, _other_ports, _other_note])
        change, words = alter(scene, which)
        changes.append({"SecurityGroupRuleId": rule["SecurityGroupRuleId"], "SecurityGroupRule": same | change})
        said.append(sentence(words))
    lead = say(scene, f"Change {it} as follows.", f"{it} needs a correction.", f"Correct the rules of {it}.")
    rest = say(scene, "Leave everything else as it is.", "All the rest stays the same.", "Keep the rest.")
    arguments = {"GroupId": target, "SecurityGroupRules": changes}
    return Goal(arguments, (sentence(lead), *said, rest), 2 * len(changes), ("SecurityGroupRules",))


def _other_range(scene: Scene, which: str) -> tuple[dict[str, Any], str]:
    cidr = next(e for e in iter(lambda: ranged(scene), None) if e.kind == "IpRanges" and e.value != "0.0.0.0/0").value
    return {"CidrIpv4": cidr}, say(scene, f"{which} should admit {cidr} instead", f"give {which} the new range {cidr}")


def _other_ports(scene: Scene, which: str) -> tuple[dict[str, Any], str]:
    kind = traffic(scene, everything=False, icmp=False)
    return kind.fields, say(scene, f"{which} should be for {kind.words} now", f"make {which} one for {kind.words}")


def _other_note(scene: Scene, which: str) -> tuple[dict[str, Any], str]:
    note = f"{scene.rng.choice(NOTES)} (new)"
    return {"Description": note}, say(
        scene, f'{which} is to be described as "{note}" from now on', f'rename {which}: it should read "{note}"'
    )


for _direction in _WAYS:
    program(f"ec2:RevokeSecurityGroup{_direction}")(_revoke(_direction))
    program(f"ec2:RevokeSecurityGroup{_direction}")(_revoke_by_rule(_direction))
    program(f"ec2:UpdateSecurityGroupRuleDescriptions{_direction}")(_describe(_direction))
