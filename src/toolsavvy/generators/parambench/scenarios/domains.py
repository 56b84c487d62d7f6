"""Pieces of stories about names: domains, hosted zones, references, health checks that were made upstream."""

from __future__ import annotations

from typing import Any

from toolsavvy.generators.parambench.scenarios import builders as b
from toolsavvy.generators.parambench.scenarios.words import chance, say
from toolsavvy.generators.parambench.scene import Scene

_TOPS = ("example.com", "example.org", "example.net", "acme.test", "globex.test", "initech.test")
_PRIVATE = ("internal", "corp", "lan", "svc", "home.arpa")
REGIONS = ("us-east-1", "us-west-2", "eu-west-1", "eu-central-1", "ap-southeast-2", "ap-northeast-1", "sa-east-1")
HOME = "us-east-1"
"""Region of every VPC in a story."""


def domain(scene: Scene, private: bool = False) -> str:
    """A domain without a dot at its end: "orders.example.com", "orders.internal"."""
    front = b.application(scene).partition("-")[0]
    return f"{front}.{scene.rng.choice(_PRIVATE if private else _TOPS)}"


def domains(scene: Scene, count: int, private: bool = False) -> list[str]:
    """As many different domains, none inside another."""
    found: list[str] = []
    while len(found) < count:
        one = domain(scene, private)
        if all(one.partition(".")[0] != other.partition(".")[0] for other in found):
            found.append(one)
    return found


def reference(scene: Scene) -> str:
    """What makes a request unique, as the person states it: "2026-11-k"."""
    year, month = scene.rng.randrange(2024, 2029), scene.rng.randrange(1, 13)
    return f"{year}-{month:02}-{scene.rng.choice('abcdefghkmnpqrstuvwxyz')}"


def zone(scene: Scene, name: str, comment: str = "", network: b.Network | None = None) -> str:
    """A hosted zone, private where there is a network for it; its id as results have it ("/hostedzone/Z…")."""
    arguments: dict[str, Any] = {"Name": name, "CallerReference": reference(scene)}
    if network is not None:
        arguments["VPC"] = {"VPCRegion": HOME, "VPCId": network.id}
    if network is not None or comment:
        config: dict[str, Any] = {"Comment": comment} if comment else {}
        arguments["HostedZoneConfig"] = config | ({"PrivateZone": True} if network is not None else {})
    return scene.do("route53:CreateHostedZone", **arguments)["HostedZone"]["Id"]


def the(scene: Scene, name: str, alone: bool = False, own: str = "") -> str:
    """A hosted zone as people call it; `alone`: no other could be meant; `own`: its id, which may be stated."""
    if own and chance(scene, b.STATED):
        return f"the zone with the id {own}"
    ways = [f"the zone {name}", f"the hosted zone {name}", f"the hosted zone of {name}"]
    return say(scene, *ways, *(["the zone created above", "that zone"] if alone else []))


def public_address(scene: Scene) -> str:
    """An address of the ranges that are set apart for documentation."""
    return f"{scene.rng.choice(('192.0.2', '198.51.100', '203.0.113'))}.{scene.rng.randrange(1, 255)}"


def check(scene: Scene, **more: Any) -> dict[str, Any]:
    """A health check of an address by HTTP; its description with its id."""
    config: dict[str, Any] = {
        "Type": "HTTP",
        "IPAddress": public_address(scene),
        "Port": 80,
        "ResourcePath": scene.rng.choice(("/health", "/ping", "/status", "/up", "/ready")),
        "RequestInterval": 30,
        "FailureThreshold": scene.rng.randrange(2, 6),
    } | more
    config = {key: value for key, value in config.items() if value is not None}
    output = scene.do("route53:CreateHealthCheck", CallerReference=reference(scene), HealthCheckConfig=config)
    return output["HealthCheck"]
