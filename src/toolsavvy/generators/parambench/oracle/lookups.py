"""Rules for tags, and for questions narrowed down by conditions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from toolsavvy.generators.parambench.oracle.finding import key_values, known, meant, spoken
from toolsavvy.generators.parambench.oracle.lexicon import ADDRESS, NUMBER, cidrs, says
from toolsavvy.generators.parambench.oracle.sight import ID, Sight
from toolsavvy.generators.parambench.scenarios.asking import MORE
from toolsavvy.generators.parambench.scenarios.lookups import STATES
from toolsavvy.generators.parambench.scenarios.words import number_of

_KINDS = {"VPC": "vpc", "subnet": "subnet", "route table": "rtb", "network interface": "eni", "Elastic IP": "eipalloc",
          "security group": "sg"}  # fmt: skip
_GATEWAY_STATES = ("pending", "failed", "available", "deleting", "deleted")
_TYPE = r"\b[a-z]\d[a-z]?\.\w+\b"


def _resources(sight: Sight) -> list[str]:
    """Everything that a request speaks of, of any kind."""
    text = sight.instruction
    found = {}
    for label, ids in known(sight).items():
        if m := re.search(rf"(?<![\w-]){re.escape(label)}(?![\w-])", text):
            ahead = text[: m.start()]
            noun = max(_KINDS, key=ahead.rfind)  # the last one said before the name
            own = [i for i in ids if i.startswith(f"{_KINDS[noun]}-")] or list(ids)
            found[m.start()] = own[-1]
    return [found[i] for i in sorted(found)] or [m[0] for m in ID.finditer(text)]


def _tags(sight: Sight) -> list[dict[str, str]]:
    pairs = [{"Key": k, "Value": v} for k, v in key_values(sight.instruction)]
    head = re.search(r"the tags? ([^.]*?) (?:off|from) ", sight.instruction)
    return pairs or [{"Key": k} for k in MORE if head and re.search(rf"(?<![\w-]){k}\b", head[1])]


def _write(sight: Sight) -> dict[str, Any]:
    return {"Resources": _resources(sight), "Tags": _tags(sight)}


def _page(text: str) -> dict[str, Any]:
    found = re.search(rf"(?:Up to|At most|No more than) ({NUMBER}) results", text)
    return {"MaxResults": number_of(found[1])} if found else {}


def _show_tags(sight: Sight) -> dict[str, Any]:
    filters = [{"Name": "resource-id", "Values": _resources(sight)}]
    if keys := re.search(r"the keys ([^.]*?)(?: matter)?\.", sight.instruction):
        filters.append({"Name": "key", "Values": re.split(r", | and ", keys[1])})
    return {"Filters": filters} | _page(sight.instruction)


def _asked(sight: Sight, *further: Callable[[Sight], dict[str, list[str]]]) -> dict[str, Any]:
    """A question with its conditions: those that all kinds share, and others."""
    text = sight.instruction
    found: dict[str, list[str]] = {}
    if says(text, r"(?:They are in|only look at) (?:the VPC|VPC|that VPC)"):
        found["vpc-id"] = [meant(sight, "vpc")]
    if zones := re.findall(r"\bus-east-1[a-f]\b", text):
        found["availability-zone"] = zones
    for key, value in key_values(text):
        found.setdefault(f"tag:{key}", []).append(value)
    for part in further:
        found |= part(sight)
    key = "Filters" if "Filters" in sight.fields else "Filter"
    return {key: [{"Name": k, "Values": v} for k, v in found.items()]} | _page(text)


def _ranges(sight: Sight) -> dict[str, list[str]]:
    found = {"cidr-block": said} if (said := cidrs(sight.instruction)) else {}
    if says(sight.instruction, "default of their zone"):
        found["default-for-az"] = ["false" if says(sight.instruction, "not the default") else "true"]
    return found


def _states(field: str, states: tuple[str, ...]) -> Callable[[Sight], dict[str, list[str]]]:
    def read(sight: Sight) -> dict[str, list[str]]:
        said = re.search(r"(?:state is|machines that are) ([^.]*?)(?: count)?\.", sight.instruction)
        words = re.split(r", | or ", said[1].replace(" down", "-down")) if said else []
        own = [w for w in words if w in states]
        return {field: own} if own else {}

    return read


def _types(sight: Sight) -> dict[str, list[str]]:
    found = re.findall(_TYPE, sight.instruction)
    return {"instance-type": found} if found else {}


def _places(sight: Sight) -> dict[str, list[str]]:
    found = {"subnet-id": said} if (said := spoken(sight, "subnet")) else {}
    if addresses := re.findall(ADDRESS, sight.instruction):
        found["private-ip-address"] = addresses
    return found


RULES = {
    "ec2:CreateTags": _write,
    "ec2:DeleteTags": _write,
    "ec2:DescribeTags": _show_tags,
    "ec2:DescribeSubnets": lambda sight: _asked(sight, _ranges),
    "ec2:DescribeInstances": lambda sight: _asked(sight, _states("instance-state-name", STATES), _types),
    "ec2:DescribeNetworkInterfaces": lambda sight: _asked(sight, _places),
    "ec2:DescribeNatGateways": lambda sight: _asked(sight, _states("state", _GATEWAY_STATES)),
}
