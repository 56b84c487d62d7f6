"""How the oracle finds load balancers, target groups, listeners and rules in the context and in requests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from toolsavvy.generators.parambench.oracle.sight import Sight

LABEL = r"[A-Za-z0-9]+(?:[-.][A-Za-z0-9]+)*"


def pattern_of(name: str) -> str:
    """Where a text says exactly this name, not a longer one."""
    return rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)"


def mentioned(text: str, names: Mapping[str, str]) -> list[str]:
    """Values that a text says, by name or as they are, in the order of first mention."""
    found = [
        (m.start(), value)
        for name, value in names.items()
        if (m := re.search(rf"{pattern_of(name)}|(?<!\w){re.escape(value)}(?!\w)", text))
    ]
    return [value for _, value in sorted(found)]


def table(sight: Sight, label: str, key: str) -> dict[str, str]:
    """Name -> id over every object of the results that has both, in order of first sight."""
    return {str(o[label]): str(o[key]) for _, _, o in sight.objects if o.get(label) and o.get(key)}


def balancers(sight: Sight) -> dict[str, str]:
    """Name of every load balancer -> its arn."""
    return table(sight, "LoadBalancerName", "LoadBalancerArn")


def groups(sight: Sight) -> dict[str, str]:
    """Name of every target group -> its arn."""
    return table(sight, "TargetGroupName", "TargetGroupArn")


def chosen(text: str, names: Mapping[str, str]) -> str:
    """The id that a text means: the first it names, else the latest.

    Raises:
        LookupError: there is none at all.
    """
    if found := mentioned(text, names):
        return found[0]
    return list(names.values())[-1]


def balancer(sight: Sight) -> str:
    """Arn of the load balancer that a request is about."""
    return chosen(sight.instruction, balancers(sight))


def group(sight: Sight) -> str:
    """Arn of the target group that a request is about."""
    return chosen(sight.instruction, groups(sight))


def arns(sight: Sight, part: str) -> list[str]:
    """Every arn of the context, results and arguments, that has `part` in it."""
    found = (held.value for held in sight.values if isinstance(held.value, str))
    return list(dict.fromkeys(value for value in found if value.startswith("arn:") and part in value))


def described(sight: Sight, key: str, value: str) -> Mapping[str, Any]:
    """The latest object of the results that has this value under this key and more beside it; {} without."""
    return next((o for _, _, o in reversed(sight.objects) if o.get(key) == value and len(o) > 1), {})


def subnets(sight: Sight) -> dict[str, str]:
    """Name of every subnet -> its id."""
    return {name: i for name, ids in sight.names.items() for i in ids if i.startswith("subnet-")}


def security_groups(sight: Sight) -> dict[str, str]:
    """Name of every security group -> its id."""
    calls = sight.calls("ec2:CreateSecurityGroup")
    return {call.arguments["GroupName"]: call.output["GroupId"] for call in calls}


def first(text: str, *patterns: str, default: str | None = None) -> str | None:
    """What the first pattern that matches has in its first group (the whole match without groups)."""
    for one in patterns:
        if m := re.search(one, text):
            return m[1] if m.groups() else m[0]
    return default


def pairs(found: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Keys and values as the API lists them."""
    return [{"Key": key, "Value": value} for key, value in found]


def tags(text: str) -> list[dict[str, str]]:
    """Tags that a text writes as key=value, in order."""
    return pairs(re.findall(r"\b([\w-]+)=([\w-]+)", text))
