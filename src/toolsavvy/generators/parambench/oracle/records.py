"""Rules for changes of and looks at the records of hosted zones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolsavvy.generators.parambench.oracle import balancing as k
from toolsavvy.generators.parambench.oracle.lexicon import says, seconds
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.oracle.zones import remark, zones

_DOMAIN = r"[a-z0-9-]+(?:\.[a-z0-9-]+)+"
_CODES = {
    "Germany": "DE", "France": "FR", "Japan": "JP", "Brazil": "BR", "Canada": "CA", "India": "IN", "Spain": "ES",
    "Italy": "IT", "Poland": "PL", "Kenya": "KE", "Norway": "NO", "Mexico": "MX", "Australia": "AU", "Austria": "AT",
    "everywhere": "*",
}  # fmt: skip
"""Country -> its two letters (ISO 3166)."""


def zone(sight: Sight) -> str:
    """Id of the zone that a request names, or that holds the names in it, else the latest."""
    known = zones(sight)
    if named := k.mentioned(sight.instruction, known):
        return named[0]
    inside = [i for name, i in known.items() if re.search(rf"\w\.{re.escape(name)}(?![\w-]|\.\w)", sight.instruction)]
    return (inside or list(known.values()))[-1]


def change(sight: Sight) -> dict[str, Any]:
    """Records that come, go or change."""
    text = sight.instruction
    batch: dict[str, Any] = {}
    if m := re.search(r"(?:Remark: |Note )'([^']+)'", text):
        batch["Comment"] = m[1]
        text = text[: m.start()]
    earlier = known(sight)
    if says(text, r"^Delete the records?", r"must go"):
        gone = k.mentioned(text, {name: name for name in earlier})
        batch["Changes"] = [{"Action": "DELETE", "ResourceRecordSet": earlier[name]} for name in gone]
    elif named := k.mentioned(text, {name: name for name in earlier}):
        batch["Changes"] = _adjusted(text, earlier[named[0]])
    else:
        starts = r"(?<=\.) (?=Add |Create )"
        parts = [part for part in re.split(starts, text) if re.match(r"Add |Create ", part.strip())]
        batch["Changes"] = [_created(sight, part.strip()) for part in parts]
    return {"HostedZoneId": zone(sight), "ChangeBatch": batch}


def known(sight: Sight) -> dict[str, Mapping[str, Any]]:
    """Record sets that earlier calls created, by name."""
    batches = [call.arguments["ChangeBatch"] for call in sight.calls("route53:ChangeResourceRecordSets")]
    found = [one["ResourceRecordSet"] for batch in batches for one in batch["Changes"]]
    return {str(record["Name"]): record for record in found}


def _adjusted(text: str, record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A record as before but for its lifetime or its name."""
    if says(text, "overwrite"):
        return [{"Action": "UPSERT", "ResourceRecordSet": {**record, "TTL": seconds(text)}}]
    other = next(name for name in re.findall(_DOMAIN, text) if name != record["Name"])
    made = {"Action": "CREATE", "ResourceRecordSet": {**record, "Name": other}}
    return [{"Action": "DELETE", "ResourceRecordSet": record}, made] if says(text, "delete") else [made]


def _created(sight: Sight, text: str) -> dict[str, Any]:
    """One new record from its sentence."""
    action = "UPSERT" if re.match(r"\w+ or (?:overwrite|replace)", text) else "CREATE"
    m = re.search(rf"(A|AAAA|CNAME|MX|TXT) record for ({_DOMAIN})", text)
    if m is None:
        raise LookupError("no record")
    record: dict[str, Any] = {"Name": m[2], "Type": m[1], **_routing(sight, text)}
    rest = text[m.end() :]
    if says(rest, "as an alias of"):
        record["AliasTarget"] = _alias(sight, rest)
    else:
        record["TTL"] = seconds(k.first(rest, r"(?:lifetime of|cached for|keep for) (\S+ \w+)") or "")
        record["ResourceRecords"] = [{"Value": value} for value in _values(m[1], rest)]
    return {"Action": action, "ResourceRecordSet": record}


def _alias(sight: Sight, text: str) -> dict[str, Any]:
    balancer = k.described(sight, "LoadBalancerArn", k.mentioned(text, k.balancers(sight))[0])
    return {
        "HostedZoneId": balancer["CanonicalHostedZoneId"],
        "DNSName": balancer["DNSName"],
        "EvaluateTargetHealth": says(text, "follow its health"),
    }


def _values(kind: str, text: str) -> list[str]:
    """Content of a record by its type."""
    if kind == "TXT":
        return [f'"{remark(text)}"']
    if kind == "MX":
        return [f"{rank} {host}" for host, rank in re.findall(rf"({_DOMAIN}) at preference (\d+)", text)]
    listed = k.first(text, r"pointing to (.*?), (?:with a lifetime|to be cached|that resolvers)") or ""
    return re.split(r", | and ", listed)


def _routing(sight: Sight, text: str) -> dict[str, Any]:
    """When this of several records of one name is the answer."""
    found: dict[str, Any] = {}
    if mark := k.first(text, r"known as ([\w-]+)"):
        found["SetIdentifier"] = mark
    if weight := k.first(text, r"has weight (\d+)"):
        found["Weight"] = int(weight)
    if region := k.first(text, r"closest to ([a-z]+-[a-z]+-\d)"):
        found["Region"] = region
    if country := k.first(text, r"visitors from (\w+)"):
        found["GeoLocation"] = {"CountryCode": _CODES[country]}
    if says(text, "is used first", "steps in"):
        found["Failover"] = "PRIMARY" if says(text, "is used first") else "SECONDARY"
    if address := k.first(text, r"health check of (\d+\.\d+\.\d+\.\d+)"):
        checks = [call.output["HealthCheck"] for call in sight.calls("route53:CreateHealthCheck")]
        found["HealthCheckId"] = next(c["Id"] for c in checks if c["HealthCheckConfig"].get("IPAddress") == address)
    return found


def listing(sight: Sight) -> dict[str, Any]:
    """Records of a zone, from a name and a type on, so many."""
    text = sight.instruction
    arguments: dict[str, Any] = {"HostedZoneId": zone(sight)}
    if m := re.search(rf"at the name ({_DOMAIN})|with the name ({_DOMAIN})", text):
        arguments["StartRecordName"] = m[1] or m[2]
    if kind := k.first(text, r"the type ([A-Z]+)"):
        arguments["StartRecordType"] = kind
    if size := k.first(text, r"(?:At most|up to) (\d+)"):
        arguments["MaxItems"] = size
    return arguments


RULES = {
    "route53:ChangeResourceRecordSets": change,
    "route53:ListResourceRecordSets": listing,
}
