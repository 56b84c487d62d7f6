"""Rules for security groups and what they let through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolsavvy.generators.parambench.oracle.lexicon import new_names, quoted, tag_specifications, the
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.oracle.traffic import permissions
from toolsavvy.generators.parambench.oracle.vpcs import vpc_of


def create(sight: Sight) -> Mapping[str, Any]:
    """CreateSecurityGroup."""
    found = {"GroupName": new_names(sight)[0], "Description": quoted(sight.instruction)[0], "VpcId": vpc_of(sight)}
    return found | tag_specifications(sight, "security-group", named=False)


def delete(sight: Sight) -> Mapping[str, Any]:
    """DeleteSecurityGroup."""
    return {"GroupId": the(sight, "sg")}


def authorize(sight: Sight) -> Mapping[str, Any]:
    """AuthorizeSecurityGroupIngress and -Egress: the group that is named first, then traffic."""
    return {"GroupId": group_of(sight), "IpPermissions": permissions(sight, sight.instruction)}


def group_of(sight: Sight) -> str:
    """The group that a request is about: the one it names first, by name or id."""
    text = sight.instruction
    known = {identifier: label for label, ids in sight.names.items() for identifier in ids}
    places = {i: min(p for p in (text.find(i), _find(text, known.get(i, ""))) if p >= 0)
              for i in sight.of_kind("sg") if i in text or _find(text, known.get(i, "")) >= 0}  # fmt: skip
    return min(places, key=lambda i: places[i]) if places else the(sight, "sg")


def _find(text: str, label: str) -> int:
    return text.find(label) if label else -1


RULES: dict[str, Callable[[Sight], Mapping[str, Any]]] = {
    "ec2:CreateSecurityGroup": create,
    "ec2:DeleteSecurityGroup": delete,
    "ec2:AuthorizeSecurityGroupIngress": authorize,
    "ec2:AuthorizeSecurityGroupEgress": authorize,
}
