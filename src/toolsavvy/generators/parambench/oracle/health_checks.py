"""Rules for calls on health checks."""

from __future__ import annotations

import re
from typing import Any

from toolsavvy.generators.parambench.oracle import balancing as k
from toolsavvy.generators.parambench.oracle.lexicon import NUMBER_WORD, says, seconds
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.scenarios.words import number_of

_DOMAIN = r"[a-z0-9-]+(?:\.[a-z0-9-]+)+"
_ADDRESS = r"\d+\.\d+\.\d+\.\d+"
_REGION = r"\b[a-z]{2}-[a-z]+-\d\b"
_USUAL = {"HTTP": 80, "HTTPS": 443}


def checks(sight: Sight) -> dict[str, str]:
    """Address of every health check -> its id, in order."""
    found = [call.output["HealthCheck"] for call in sight.calls("route53:CreateHealthCheck")]
    return {str(one["HealthCheckConfig"].get("IPAddress", one["Id"])): str(one["Id"]) for one in found}


def own(sight: Sight) -> dict[str, Any]:
    """The check that a request is about."""
    return {"HealthCheckId": k.chosen(sight.instruction, checks(sight))}


def create(sight: Sight) -> dict[str, Any]:
    """A new check."""
    text = sight.instruction
    config = _calculated(sight) if says(text, "sum up", "combines") else _watching(text)
    return {"CallerReference": k.first(text, r"\b\d{4}-\d\d-[a-z]\b"), "HealthCheckConfig": config}


def _calculated(sight: Sight) -> dict[str, Any]:
    text, known = sight.instruction, checks(sight)
    least = k.first(text, rf"at least ({NUMBER_WORD}) of them") or ""
    children = k.mentioned(text, known) or list(known.values())
    return {"Type": "CALCULATED", "ChildHealthChecks": children, "HealthThreshold": number_of(least)}


def _watching(text: str) -> dict[str, Any]:
    m = re.search(rf"(?:Watch|check of) ({_ADDRESS}|{_DOMAIN}) by (HTTPS?|TCP) on (?:port (\d+))?", text)
    if m is None:
        raise LookupError("nothing to watch")
    config: dict[str, Any] = {"Type": m[2], "Port": int(m[3]) if m[3] else _USUAL[m[2]]}
    config["IPAddress" if re.fullmatch(_ADDRESS, m[1]) else "FullyQualifiedDomainName"] = m[1]
    if path := k.first(text, r"asking for (/[\w/]+)"):
        config["ResourcePath"] = path
    if wanted := k.first(text, r"must contain '([^']+)'"):
        config |= {"Type": f"{m[2]}_STR_MATCH", "SearchString": wanted}
    if span := k.first(text, r"(?:Ask every|Leave) (\S+ \w+)"):
        config["RequestInterval"] = seconds(span)
    if says(text, "latency", "how long answers take"):
        config["MeasureLatency"] = True
    return config | shared(text)


def shared(text: str) -> dict[str, Any]:
    """Settings that new and changed checks have alike."""
    config: dict[str, Any] = {}
    if count := k.first(text, rf"((?i:{NUMBER_WORD})) failures in a row"):
        config["FailureThreshold"] = number_of(count)
    if says(text, "verdict around", "and the reverse"):
        config["Inverted"] = True
    if found := re.findall(_REGION, k.first(text, r"(?:Check|Ask) from ([^.]+)") or ""):
        config["Regions"] = found
    return config


def update(sight: Sight) -> dict[str, Any]:
    """What changes."""
    text = sight.instruction
    arguments = own(sight)
    if port := k.first(text, r"Use port (\d+)"):
        arguments["Port"] = int(port)
    if path := k.first(text, r"(?:Ask for|the path) (/[\w/]+)"):
        arguments["ResourcePath"] = path
    if host := k.first(text, rf"host name ({_DOMAIN})"):
        arguments["FullyQualifiedDomainName"] = host
    if says(text, "switch it off", "stop checking"):
        arguments["Disabled"] = True
    return arguments | shared(text)


RULES = {
    "route53:CreateHealthCheck": create,
    "route53:UpdateHealthCheck": update,
    "route53:DeleteHealthCheck": own,
    "route53:GetHealthCheck": own,
    "route53:GetHealthCheckStatus": own,
}
