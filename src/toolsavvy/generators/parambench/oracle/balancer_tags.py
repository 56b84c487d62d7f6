"""Rules for calls on tags of load balancers and target groups, and on security policies."""

from __future__ import annotations

import re
from typing import Any

from toolsavvy.generators.parambench.oracle import balancing as k
from toolsavvy.generators.parambench.oracle.lexicon import says
from toolsavvy.generators.parambench.oracle.sight import Sight


def arns(sight: Sight) -> dict[str, Any]:
    """Everything that a request names."""
    return {"ResourceArns": k.mentioned(sight.instruction, k.balancers(sight) | k.groups(sight))}


def remove(sight: Sight) -> dict[str, Any]:
    """By key, all, or all but one, of the tags that were given before."""
    text = sight.instruction
    call = sight.last("elbv2:AddTags")
    given = [str(tag["Key"]) for tag in call.arguments["Tags"]] if call else []
    named = k.mentioned(text, {key: key for key in given})
    if says(text, "keep only", "except"):
        named = [key for key in given if key not in named]
    return arns(sight) | {"TagKeys": named or given}


def policies(sight: Sight) -> dict[str, Any]:
    """By name or a page, of one sort of load balancer or all."""
    text = sight.instruction
    arguments: dict[str, Any] = {}
    if names := re.findall(r"ELBSecurityPolicy(?:-\w+)+", text):
        arguments["Names"] = names
    if size := k.first(text, r"(\d+) at a time", r"pages of (\d+)"):
        arguments["PageSize"] = int(size)
    if kind := k.first(text, r"(application|network) load balancers"):
        arguments["LoadBalancerType"] = kind
    return arguments


RULES = {
    "elbv2:AddTags": lambda sight: arns(sight) | {"Tags": k.tags(sight.instruction)},
    "elbv2:RemoveTags": remove,
    "elbv2:DescribeTags": arns,
    "elbv2:DescribeSSLPolicies": policies,
}
