"""Rules for calls on hosted zones, their networks, name server sets and tags."""

from __future__ import annotations

import re
from typing import Any

from toolsavvy.generators.parambench.oracle import balancing as k
from toolsavvy.generators.parambench.oracle.lexicon import NUMBER_WORD, says
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.scenarios.words import number_of

_DOMAIN = r"[a-z0-9-]+(?:\.[a-z0-9-]+)+"
_REFERENCE = r"\b\d{4}-\d\d-[a-z]\b"


def zones(sight: Sight) -> dict[str, str]:
    """Name of every hosted zone, without the dot at its end -> its id as results have it."""
    calls = sight.calls("route53:CreateHostedZone")
    found = [call.output["HostedZone"] for call in calls]
    return {str(one["Name"]).rstrip("."): str(one["Id"]) for one in found}


def zone(sight: Sight) -> str:
    """Id of the zone that a request is about: the longest name in it, else the latest."""
    return k.chosen(sight.instruction, zones(sight))


def networks(sight: Sight) -> dict[str, str]:
    """Name of every VPC -> its id."""
    return {name: i for name, ids in sight.names.items() for i in ids if i.startswith("vpc-")}


def network(sight: Sight) -> dict[str, str]:
    """The VPC of a request and its region."""
    text = sight.instruction
    return {
        "VPCRegion": k.first(text, r"\b([a-z]{2}-[a-z]+-\d)\b") or "",
        "VPCId": k.chosen(text, networks(sight)),
    }


def remark(text: str) -> str | None:
    """What a text says in quotes."""
    return k.first(text, r"'([^']+)'")


def create(sight: Sight) -> dict[str, Any]:
    """A new zone."""
    text = sight.instruction
    arguments: dict[str, Any] = {
        "Name": k.first(text, rf"(?:zone|zone for|under) ({_DOMAIN})"),
        "CallerReference": k.first(text, _REFERENCE),
    }
    config: dict[str, Any] = {}
    if says(text, "private hosted zone"):
        arguments["VPC"] = network(sight)
        config["PrivateZone"] = True
    if says(text, "name servers"):
        arguments["DelegationSetId"] = sight.output("CreateReusableDelegationSet", "DelegationSet", "Id")
    if note := remark(text):
        config["Comment"] = note
    return arguments | ({"HostedZoneConfig": config} if config else {})


def linked(sight: Sight) -> dict[str, Any]:
    """A zone and a network."""
    arguments: dict[str, Any] = {"HostedZoneId": zone(sight), "VPC": network(sight)}
    if note := remark(sight.instruction):
        arguments["Comment"] = note
    return arguments


def _size(text: str) -> dict[str, str]:
    """How many at most, as text; {} where nothing is said."""
    if m := re.search(rf"(?:at most|up to) (\d+)|({NUMBER_WORD}) are enough", text, re.IGNORECASE):
        return {"MaxItems": m[1] or str(number_of(m[2]))}
    return {}


def listing(sight: Sight) -> dict[str, Any]:
    """Zones: so many, of one sort, with one set of name servers."""
    text = sight.instruction
    arguments = reusable(sight) if says(text, "reusable set") else {}
    arguments = {"DelegationSetId": arguments["Id"]} if arguments else {}
    if says(text, "private"):
        arguments["HostedZoneType"] = "PrivateHostedZone"
    return arguments | _size(text)


def by_network(sight: Sight) -> dict[str, Any]:
    """Zones of a network."""
    return network(sight) | _size(sight.instruction)


def create_set(sight: Sight) -> dict[str, Any]:
    """New name servers, or those of a zone."""
    arguments: dict[str, Any] = {"CallerReference": k.first(sight.instruction, _REFERENCE)}
    return arguments | ({"HostedZoneId": zone(sight)} if zones(sight) else {})


def reusable(sight: Sight) -> dict[str, Any]:
    """One of the reusable sets, by its reference."""
    return {"Id": k.chosen(sight.instruction, k.table(sight, "CallerReference", "Id"))}


def tagged(sight: Sight) -> tuple[str, list[str]]:
    """Type and bare ids of the zones or health checks that a request names."""
    text = sight.instruction
    if says(text, "health check"):
        calls = sight.calls("route53:CreateHealthCheck")
        found = [call.output["HealthCheck"] for call in calls]
        return "healthcheck", k.mentioned(text, {one["HealthCheckConfig"]["IPAddress"]: one["Id"] for one in found})
    return "hostedzone", [one.rpartition("/")[2] for one in k.mentioned(text, zones(sight))]


def resource(sight: Sight) -> dict[str, Any]:
    """The one zone or health check of a request."""
    kind, ids = tagged(sight)
    return {"ResourceType": kind, "ResourceId": ids[0]}


def resources(sight: Sight) -> dict[str, Any]:
    """All zones or health checks of a request."""
    kind, ids = tagged(sight)
    return {"ResourceType": kind, "ResourceIds": ids}


def tags(sight: Sight) -> dict[str, Any]:
    """Tags that come and go."""
    text = sight.instruction
    arguments = resource(sight)
    if new := k.tags(text):
        arguments["AddTags"] = new
    if m := re.search(r"(?:Take|Remove) the tags? ([\w-]+(?:(?:, | and )[\w-]+)*?) (?:off|from)", text):
        arguments["RemoveTagKeys"] = re.split(r", | and ", m[1])
    return arguments


RULES = {
    "route53:CreateHostedZone": create,
    "route53:DeleteHostedZone": lambda s: {"Id": zone(s)},
    "route53:GetHostedZone": lambda s: {"Id": zone(s)},
    "route53:GetDNSSEC": lambda s: {"HostedZoneId": zone(s)},
    "route53:UpdateHostedZoneComment": lambda s: {"Id": zone(s), "Comment": remark(s.instruction)},
    "route53:AssociateVPCWithHostedZone": linked,
    "route53:DisassociateVPCFromHostedZone": linked,
    "route53:ListHostedZones": listing,
    "route53:ListHostedZonesByName": lambda s: {"DNSName": k.first(s.instruction, _DOMAIN)} | _size(s.instruction),
    "route53:ListHostedZonesByVPC": by_network,
    "route53:CreateReusableDelegationSet": create_set,
    "route53:DeleteReusableDelegationSet": reusable,
    "route53:GetReusableDelegationSet": reusable,
    "route53:ChangeTagsForResource": tags,
    "route53:ListTagsForResource": resource,
    "route53:ListTagsForResources": resources,
}
