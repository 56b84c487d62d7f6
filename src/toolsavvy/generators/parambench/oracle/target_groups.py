"""Rules for calls on target groups and their targets."""

from __future__ import annotations

import re
from typing import Any

from toolsavvy.generators.parambench.oracle import balancing as k
from toolsavvy.generators.parambench.oracle.lexicon import NUMBER, says, seconds
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.scenarios.words import number_of

_SPAN = r"((?:\S+) (?:second|minute|hour|day)s?)"
_ADDRESS = r"\b\d+\.\d+\.\d+\.\d+\b"


def own(sight: Sight) -> dict[str, Any]:
    """The target group alone."""
    return {"TargetGroupArn": k.group(sight)}


def create(sight: Sight) -> dict[str, Any]:
    """A new target group."""
    text = sight.instruction
    m = re.search(r"(HTTPS?|TCP|TLS|UDP) (?:on )?port (\d+)", text)
    if m is None:
        raise LookupError("no protocol with a port")
    return {
        "Name": k.first(text, rf"target group (?:called )?({k.LABEL})"),
        "Protocol": m[1],
        "Port": int(m[2]),
        "VpcId": k.chosen(text, {name: i for name, ids in sight.names.items() for i in ids if i.startswith("vpc-")}),
        "TargetType": "ip" if says(text, r"IP address") else "instance",
        **check(text),
    }


def check(text: str) -> dict[str, Any]:
    """What a text says of a health check."""
    found: dict[str, Any] = {}
    if path := k.first(text, r"\bat (/[\w/-]+)", r"path (/[\w/-]+)"):
        found["HealthCheckPath"] = path
    if says(text, r"\bby HTTP (?:at|to)\b"):
        found["HealthCheckProtocol"] = "HTTP"
    if port := k.first(text, r"Probe port (\d+)", r"probes use port (\d+)"):
        found["HealthCheckPort"] = port
    if span := k.first(text, rf"[Pp]robe every {_SPAN}", rf"Leave {_SPAN} between"):
        found["HealthCheckIntervalSeconds"] = seconds(span)
    if span := k.first(text, rf"on a probe after {_SPAN}", rf"answer within {_SPAN}"):
        found["HealthCheckTimeoutSeconds"] = seconds(span)
    for quality, field in (("good", "HealthyThresholdCount"), ("failed", "UnhealthyThresholdCount")):
        if m := re.search(rf"({NUMBER}) {quality} probes", text, re.IGNORECASE):
            found[field] = number_of(m[1])
    if codes := _codes(text):
        found["Matcher"] = {"HttpCode": codes}
    return found


def _codes(text: str) -> str | None:
    if m := re.search(r"status from (\d+) to (\d+)", text):
        return f"{m[1]}-{m[2]}"
    if m := re.search(r"statuses (\d+) and (\d+)", text):
        return f"{m[1]},{m[2]}"
    return k.first(text, r"the status (\d+)")


_ATTRIBUTES = (
    (r"wait {span} before a leaving", "deregistration_delay.timeout_seconds", None),
    (r"warm up for {span}", "slow_start.duration_seconds", None),
    (r"by turns", "load_balancing.algorithm.type", "round_robin"),
    (r"fewest open", "load_balancing.algorithm.type", "least_outstanding_requests"),
    (r"at random by weight", "load_balancing.algorithm.type", "weighted_random"),
    (r"(?<!ing )balance across zones", "load_balancing.cross_zone.enabled", "true"),
    (r"stay within a zone", "load_balancing.cross_zone.enabled", "false"),
    (r"load balancer's own setting", "load_balancing.cross_zone.enabled", "use_load_balancer_configuration"),
    (r"load balancer's own cookie", "stickiness.enabled", "true"),
    (r"load balancer's own cookie", "stickiness.type", "lb_cookie"),
    (r"(?:target for {span} by|on its target for {span})", "stickiness.lb_cookie.duration_seconds", None),
)


def attributes(text: str) -> list[dict[str, str]]:
    """Attributes of a target group that a text wishes for."""
    found = []
    for pattern, key, value in _ATTRIBUTES:
        if m := re.search(pattern.replace("{span}", _SPAN), text):
            span = next((part for part in m.groups() if part), "")
            found.append((key, value or str(seconds(span))))
    return k.pairs(found)


def describe(sight: Sight) -> dict[str, Any]:
    """By name, by arn, or all behind a load balancer."""
    text = sight.instruction
    if balancers := k.mentioned(text, k.balancers(sight)):
        return {"LoadBalancerArn": balancers[0]}
    arns = k.mentioned(text, k.groups(sight))
    if says(text, r"\bARNs?\b"):
        return {"TargetGroupArns": arns}
    names = {arn: name for name, arn in k.groups(sight).items()}
    return {"Names": [names[arn] for arn in arns]}


def register(sight: Sight) -> dict[str, Any]:
    """Instances by name, or addresses that are said or end so."""
    text = sight.instruction
    if label := k.first(text, rf"instances? (?:named|called) ({k.LABEL})"):
        ids = [i for i in sight.names[label] if i.startswith("i-")]
    elif found := re.findall(_ADDRESS, text):
        ids = found
    else:
        subnet = k.mentioned(text, k.subnets(sight))[0]
        front = str(sight.object(subnet)["CidrBlock"]).rsplit(".", 1)[0]
        ids = [f"{front}{end}" for end in re.findall(r"\.\d+\b", text)]
    port = k.first(text, r"\bport (\d+)")
    return own(sight) | {"Targets": [{"Id": i, "Port": int(port)} if port else {"Id": i} for i in ids]}


def registered(sight: Sight) -> dict[str, Any]:
    """Targets that joined before and are meant now, with their ports."""
    text = sight.instruction
    call = sight.last("elbv2:RegisterTargets")
    known = list(call.arguments["Targets"]) if call else [o["Target"] for o in sight.listed("TargetHealthDescriptions")]
    if ports := re.findall(r"\b\d{4,5}\b", k.first(text, r"\bports? (\d[^.;]*?)(?: out of| from)") or ""):
        picks = [target for port in ports for target in known if str(target["Port"]) == port]
    else:
        addresses = re.findall(_ADDRESS, text)
        picks = [target for address in addresses for target in known if target["Id"] == address]
    return own(sight) | {"Targets": picks or known}


def health(sight: Sight) -> dict[str, Any]:
    """Of some targets, or of all."""
    return registered(sight) if re.search(_ADDRESS, sight.instruction) else own(sight)


RULES = {
    "elbv2:CreateTargetGroup": create,
    "elbv2:ModifyTargetGroup": lambda s: own(s) | check(s.instruction),
    "elbv2:ModifyTargetGroupAttributes": lambda s: own(s) | {"Attributes": attributes(s.instruction)},
    "elbv2:DeleteTargetGroup": own,
    "elbv2:DescribeTargetGroups": describe,
    "elbv2:DescribeTargetGroupAttributes": own,
    "elbv2:RegisterTargets": register,
    "elbv2:DeregisterTargets": registered,
    "elbv2:DescribeTargetHealth": health,
}
