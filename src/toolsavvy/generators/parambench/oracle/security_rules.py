"""Rules for taking back, describing and altering the rules of a security group."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from toolsavvy.generators.parambench.oracle.lexicon import cidrs, cidrs6, quoted, says
from toolsavvy.generators.parambench.oracle.security_groups import group_of
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.oracle.traffic import ends, kinds, permissions

_LISTS = ("IpRanges", "Ipv6Ranges", "UserIdGroupPairs", "PrefixListIds")


def authorized(sight: Sight, group: str) -> list[dict[str, Any]]:
    """Permissions that earlier calls gave a group."""
    calls = sight.calls("AuthorizeSecurityGroupIngress", "AuthorizeSecurityGroupEgress")
    return [p for c in calls if c.arguments["GroupId"] == group for p in c.arguments["IpPermissions"]]


def revoke(sight: Sight) -> Mapping[str, Any]:
    """RevokeSecurityGroupIngress and -Egress: by rule id, as it is said, or all that an earlier call gave."""
    group, text = group_of(sight), sight.instruction
    if says(text, r"rule id|id of the rule"):
        return {"GroupId": group, "SecurityGroupRuleIds": [rule_of(sight, group, text)["SecurityGroupRuleId"]]}
    said = permissions(sight, _without(text, group, sight))[0]
    if not any(key in said for key in _LISTS):
        said = next(p for p in authorized(sight, group) if said.items() <= p.items())
    return {"GroupId": group, "IpPermissions": [said]}


def _without(text: str, group: str, sight: Sight) -> str:
    """A text without the mentions of the group itself."""
    names = [label for label, ids in sight.names.items() if group in ids]
    return re.sub("|".join(map(re.escape, [group, *names])), "", text)


def rules_of(sight: Sight, group: str) -> list[Mapping[str, Any]]:
    """Rules of a group that the results show."""
    return [i for _, _, i in sight.objects if "SecurityGroupRuleId" in i and i.get("GroupId") == group]


def rule_of(sight: Sight, group: str, text: str) -> Mapping[str, Any]:
    """The rule of a group that a text means: by its description, range or traffic."""
    rules = rules_of(sight, group)
    for note in quoted(text):
        if found := [r for r in rules if r.get("Description") == note]:
            return found[0]
    stated = {*cidrs(text), *cidrs6(text)}
    fields = kinds(text)[0].fields if kinds(text) else {}
    for rule in rules:
        if rule.get("CidrIpv4") in stated and (fields.items() <= rule.items() or len(stated) > 1 or not fields):
            return rule
    return next(r for r in rules if r.get("CidrIpv4") in stated)


def describe(sight: Sight) -> Mapping[str, Any]:
    """UpdateSecurityGroupRuleDescriptionsIngress and -Egress: traffic, its end, and the new description."""
    group, note = group_of(sight), quoted(sight.instruction)[0]
    text = _without(sight.instruction, group, sight)
    kind = kinds(text)[0]
    into, item = next(iter(ends(sight, text[kind.end :])))
    item.pop("Description", None)
    fields = kind.fields | {into: [item | {"Description": note}]}
    return {"GroupId": group, "IpPermissions": [fields]}


def modify(sight: Sight) -> Mapping[str, Any]:
    """ModifySecurityGroupRules: what is said changes, all else as the list of rules has it."""
    group, changes = group_of(sight), []
    for sentence in re.split(r"(?<=[.!])\s+", sight.instruction):
        if not re.search(r"\bthe rule (?:described|for)\b", sentence, re.IGNORECASE):
            continue
        found = _named(sight, group, sentence)
        same = {k: found[k] for k in ("IpProtocol", "FromPort", "ToPort", "CidrIpv4", "Description")}
        changes.append(
            {
                "SecurityGroupRuleId": found["SecurityGroupRuleId"],
                "SecurityGroupRule": same | _change(sentence, found),
            }
        )
    return {"GroupId": group, "SecurityGroupRules": changes}


def _named(sight: Sight, group: str, sentence: str) -> Mapping[str, Any]:
    m = re.search(r'the rule (?:described as "([^"]*)"|for (\S+/\d+))', sentence, re.IGNORECASE)
    rules = rules_of(sight, group)
    key, value = ("Description", m[1]) if m and m[1] else ("CidrIpv4", m[2] if m else "")
    return next(r for r in rules if r.get(key) == value)


def _change(sentence: str, rule: Mapping[str, Any]) -> dict[str, Any]:
    if says(sentence, r"to be described as|it should read"):
        return {"Description": quoted(sentence)[-1]}
    if said := kinds(sentence):
        return said[0].fields
    return {"CidrIpv4": next(c for c in cidrs(sentence) if c != rule["CidrIpv4"])}


RULES: dict[str, Callable[[Sight], Mapping[str, Any]]] = {
    "ec2:RevokeSecurityGroupIngress": revoke,
    "ec2:RevokeSecurityGroupEgress": revoke,
    "ec2:UpdateSecurityGroupRuleDescriptionsIngress": describe,
    "ec2:UpdateSecurityGroupRuleDescriptionsEgress": describe,
    "ec2:ModifySecurityGroupRules": modify,
}
