"""Rules for calls on listeners."""

from __future__ import annotations

import re
from typing import Any

from toolsavvy.generators.parambench.oracle import balancing as k
from toolsavvy.generators.parambench.oracle.actions import action, listener
from toolsavvy.generators.parambench.oracle.lexicon import says, seconds
from toolsavvy.generators.parambench.oracle.sight import Sight

_USUAL = {"HTTPS": 443, "HTTP": 80}
_CERTIFICATE = r"arn:aws:iam::\d+:server-certificate/[\w-]+"
_ANSWERS = (
    (r"forbid framing", "x_frame_options.header_value", "DENY"),
    (r"framing by the same origin", "x_frame_options.header_value", "SAMEORIGIN"),
    (r"show the server header", "server.enabled", "true"),
    (r"hide the server header", "server.enabled", "false"),
)


def create(sight: Sight) -> dict[str, Any]:
    """A new listener."""
    text = sight.instruction
    both = says(text, "TCP and UDP")
    protocol = "TCP_UDP" if both else k.first(text, r"(?:by|for) (HTTPS?|TCP|UDP)\b") or ""
    port = k.first(text, r"(?:HTTPS?|TCP|UDP|alike) on port (\d+)")
    arguments: dict[str, Any] = {
        "LoadBalancerArn": k.balancer(sight),
        "Protocol": protocol,
        "Port": int(port) if port else _USUAL[protocol],
        "DefaultActions": [action(sight, text)],
    }
    if protocol == "HTTPS":
        arguments["Certificates"] = [{"CertificateArn": certificate(sight)}]
    if policy := k.first(text, r"(ELBSecurityPolicy(?:-\w+)+)"):
        arguments["SslPolicy"] = policy
    return arguments


def certificate(sight: Sight) -> str:
    """The certificate that a request states, or that of another load balancer."""
    if stated := k.first(sight.instruction, _CERTIFICATE):
        return stated
    name = k.first(sight.instruction, rf"certificate of ({k.LABEL})") or ""
    arn = k.balancers(sight)[name]
    found = [o for _, _, o in sight.objects if o.get("LoadBalancerArn") == arn and o.get("Certificates")]
    return str(found[-1]["Certificates"][0]["CertificateArn"])


def own(sight: Sight) -> dict[str, Any]:
    """The listener alone."""
    return {"ListenerArn": listener(sight)["ListenerArn"]}


def modify(sight: Sight) -> dict[str, Any]:
    """Another port, another action, or both."""
    text = sight.instruction
    arguments = own(sight)
    if port := k.first(text, r"port number (\d+)"):
        arguments["Port"] = int(port)
    if m := re.search(r"(?:By default|and no rule), (.*)", text):
        arguments["DefaultActions"] = [action(sight, m[1])]
    return arguments


def describe(sight: Sight) -> dict[str, Any]:
    """All of a load balancer, or some by port."""
    text = sight.instruction
    m = re.search(r"listeners? on ports? ([\d, and]+\d)", text)
    if m is None:
        return {"LoadBalancerArn": k.balancer(sight)}
    return {"ListenerArns": [listener(sight, f"listener on port {p}")["ListenerArn"] for p in re.findall(r"\d+", m[1])]}


def certificates(sight: Sight) -> dict[str, Any]:
    """Certificates that are stated by arn, or by the name that they end in."""
    found = re.findall(_CERTIFICATE, sight.instruction)
    if not found:
        known = {arn.rpartition("/")[2]: arn for arn in k.arns(sight, "server-certificate/")}
        found = k.mentioned(sight.instruction, known)
    return own(sight) | {"Certificates": [{"CertificateArn": arn} for arn in found]}


def modify_attributes(sight: Sight) -> dict[str, Any]:
    """How it answers and how long it waits."""
    text = sight.instruction
    found = []
    if span := k.first(text, r"(?:idle connections|should end) after (\S+ \w+)"):
        found.append(("tcp.idle_timeout.seconds", str(seconds(span))))
    for pattern, key, value in _ANSWERS:
        if says(text, pattern):
            found.append((f"routing.http.response.{key}", value))
    if span := k.first(text, r"strict transport security for (\S+ \w+)"):
        found.append(("routing.http.response.strict_transport_security.header_value", f"max-age={seconds(span)}"))
    return own(sight) | {"Attributes": k.pairs(found)}


RULES = {
    "elbv2:CreateListener": create,
    "elbv2:ModifyListener": modify,
    "elbv2:DeleteListener": own,
    "elbv2:DescribeListeners": describe,
    "elbv2:AddListenerCertificates": certificates,
    "elbv2:RemoveListenerCertificates": certificates,
    "elbv2:ModifyListenerAttributes": modify_attributes,
}
