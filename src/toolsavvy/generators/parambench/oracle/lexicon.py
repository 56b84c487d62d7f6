"""What the oracle knows of the language of requests: things by name, ranges, ports, protocols, numbers, times.

Nothing here knows a story: patterns of English and a walk over the results of earlier calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolsavvy.generators.parambench.scenarios.words import SERVICES, number_of
from toolsavvy.tasks import Upstream

NAME = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+"
"""A Name tag in a request."""
CIDR = r"\b\d{1,3}(?:\.\d{1,3}){3}/\d{1,2}\b"
CIDR6 = r"\b[0-9a-f]{1,4}(?::[0-9a-f]{0,4}){2,8}/\d{1,3}|(?<![\w:])::/0"
ADDRESS = r"\b\d{1,3}(?:\.\d{1,3}){3}\b(?!/)"
NUMBER_WORD = (
    r"(?:(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)(?:-(?:one|two|three|four|five|six|seven|eight|nine))?"
    r"|zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen"
    r"|eighteen|nineteen)"
)
NUMBER = rf"(?:\d+|{NUMBER_WORD})"
PREFIXES = {
    "vpc": "vpc",
    "subnet": "subnet",
    "route table": "rtb",
    "internet gateway": "igw",
    "egress-only internet gateway": "eigw",
    "NAT gateway": "nat",
    "security group": "sg",
    "security group rule": "sgr",
    "network ACL": "acl",
    "network ACL association": "aclassoc",
    "route table association": "rtbassoc",
    "cidr association": "vpc-cidr-assoc",
    "peering connection": "pcx",
    "DHCP options": "dopt",
    "prefix list": "pl",
    "instance": "i",
    "network interface": "eni",
    "transit gateway": "tgw",
    "transit gateway attachment": "tgw-attach",
    "transit gateway route table": "tgw-rtb",
    "address": "eipalloc",
    "volume": "vol",
    "image": "ami",
    "virtual private gateway": "vgw",
    "customer gateway": "cgw",
    "VPN connection": "vpn",
    "endpoint": "vpce",
    "flow log": "fl",
    "launch template": "lt",
}
"""Kind of thing -> prefix of its ids."""
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}


@dataclass(frozen=True)
class Thing:
    """A resource of the context.

    Args:
        id: as the cloud gave it.
        name: its Name tag (or group name), "" without.
        body: every object that describes it, merged; the latest result wins.
    """

    id: str
    name: str
    body: Mapping[str, Any]


def objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """Every object inside a JSON value, outermost first."""
    if isinstance(value, Mapping):
        yield value
        for inner in value.values():
            yield from objects(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from objects(inner)


def is_id(value: Any, kind: str) -> bool:
    """Is a value the id of a thing of this kind?"""
    return isinstance(value, str) and re.fullmatch(rf"{PREFIXES[kind]}-[0-9a-z]+", value) is not None


def things(context: Sequence[Upstream], kind: str) -> list[Thing]:
    """Everything of a kind that the earlier calls show, in the order of first appearance."""
    bodies: dict[str, dict[str, Any]] = {}
    names: dict[str, str] = {}
    for call in context:
        for found in (*objects(call.arguments), *objects(call.output)):
            for value in found.values():
                for one in value if isinstance(value, list | tuple) else (value,):
                    if is_id(one, kind):
                        bodies.setdefault(one, {})
            own = next((v for k, v in found.items() if is_id(v, kind) and _describes(found, k)), None)
            if own is not None:
                bodies[own].update(found)
                names |= {own: label} if (label := _label(found)) else {}
        if call.name.endswith("CreateTags"):
            label = _label(call.arguments)
            names |= {i: label for i in call.arguments.get("Resources", ()) if label}
    return [Thing(i, names.get(i, ""), body) for i, body in bodies.items()]


def _describes(found: Mapping[str, Any], field: str) -> bool:
    """Is the id in this field the object's own? The first id of an object with tags or a state is not always."""
    own = {
        "VpcId": "SubnetId RouteTableId GroupId NetworkAclId InternetGatewayId EndpointId NatGatewayId InstanceId "
        "AssociationId VpcEndpointId SecurityGroupRuleId State NetworkInterfaceId TargetGroupArn LoadBalancerArn",
        "SubnetId": "NatGatewayId InstanceId NetworkInterfaceId NetworkAclAssociationId RouteTableAssociationId",
        "GroupId": "SecurityGroupRuleId UserId",
        "RouteTableId": "RouteTableAssociationId",
        "NetworkAclId": "NetworkAclAssociationId",
        "NetworkInterfaceId": "InstanceId NatGatewayId",
    }.get(field, "")
    return not any(other in found and found[other] for other in own.split() if other != "State")


def _label(found: Mapping[str, Any]) -> str:
    tags = found.get("Tags") or [t for s in found.get("TagSpecifications", ()) for t in s.get("Tags", ())]
    tag = next((t.get("Value", "") for t in tags if isinstance(t, Mapping) and t.get("Key") == "Name"), "")
    return str(tag or found.get("GroupName") or found.get("PrefixListName") or "")


@dataclass(frozen=True)
class Mention:
    """Where a request speaks of a thing of the context.

    Args:
        start: character where its name or id begins.
        thing: the thing.
    """

    start: int
    thing: Thing


def mentions(instruction: str, context: Sequence[Upstream], kind: str) -> list[Mention]:
    """Things of a kind that a request names, by Name tag or id, in the order of the text."""
    found: list[Mention] = []
    for thing in things(context, kind):
        for label in filter(None, (thing.id, thing.name)):
            pattern = rf"(?<![\w-]){re.escape(label)}(?![\w-]*\w)"
            found += [Mention(m.start(), thing) for m in re.finditer(pattern, instruction)]
    return sorted(found, key=lambda m: m.start)


def the(instruction: str, context: Sequence[Upstream], kind: str) -> Thing:
    """The thing of a kind that a request means: the first it names, else the only one there is, else the latest.

    Raises:
        LookupError: the context has none.
    """
    named = mentions(instruction, context, kind)
    if named:
        return named[0].thing
    if not (known := things(context, kind)):
        raise LookupError(f"no {kind} in the context")
    return known[-1]


def new_names(instruction: str, context: Sequence[Upstream]) -> list[str]:
    """Names in a request that nothing of the context bears: what is to be created."""
    known = str([(c.arguments, c.output) for c in context])
    found = re.findall(rf"(?<![\w.-]){NAME}(?![\w.-]*\w)", instruction)
    return [n for n in dict.fromkeys(found) if n not in known]


def cidrs(text: str) -> list[str]:
    """IPv4 ranges, in the order of the text."""
    return re.findall(CIDR, text)


def cidrs6(text: str) -> list[str]:
    """IPv6 ranges, in the order of the text."""
    return re.findall(CIDR6, text)


def ports(text: str) -> tuple[int, int] | None:
    """First and last port that a text says: by number, as a range, or by the service's name."""
    if m := re.search(r"ports? (?:range )?(\d+)(?: ?- ?| to | through | up to )(\d+)", text):
        return int(m[1]), int(m[2])
    if m := re.search(r"port (\d+)|(\d+)/(?:tcp|udp)", text, re.IGNORECASE):
        number = int(m[1] or m[2])
        return number, number
    for service, (_, port) in services():
        if re.search(rf"\b{service}\b", text):
            return port, port
    return None


def services() -> list[tuple[str, tuple[str, int]]]:
    """Known services, longest name first ("HTTPS" before "HTTP")."""
    return sorted(SERVICES.items(), key=lambda item: -len(item[0]))


def protocol(text: str) -> str | None:
    """Protocol that a text says, by its name or by the service's: tcp, udp, icmp, icmpv6, or "-1" for everything."""
    lower = text.lower()
    if re.search(r"\b(?:all|any) (?:kinds? of )?(?:traffic|protocols?)|every protocol|any protocol|everything", lower):
        return "-1"
    for word, meaning in (("icmpv6", "icmpv6"), ("icmp", "icmp"), ("udp", "udp"), ("tcp", "tcp")):
        if re.search(rf"\b{word}\b", lower):
            return meaning
    return next((kind for service, (kind, _) in services() if re.search(rf"\b{service}\b", text)), None)


def number(text: str) -> int:
    """The first number of a text, in digits or words.

    Raises:
        LookupError: there is none.
    """
    if not (m := re.search(rf"\b{NUMBER}\b", text, re.IGNORECASE)):
        raise LookupError(f"no number in {text!r}")
    return number_of(m[0])


def seconds(text: str) -> int | None:
    """The first time span of a text in seconds: "ten minutes" -> 600."""
    m = re.search(rf"\b({NUMBER}|an?) (second|minute|hour|day|week)s?\b", text, re.IGNORECASE)
    if not m:
        return None
    return (1 if m[1].lower() in ("a", "an") else number_of(m[1])) * _SECONDS[m[2].lower()]


def says(text: str, *patterns: str) -> bool:
    """Does a text match one of the patterns (case does not matter)?"""
    return any(re.search(p, text, re.IGNORECASE) for p in patterns)


def denies(text: str, pattern: str) -> bool:
    """Does a text speak of a thing and negate it ("no", "not", "without", "off", "disable", ...)?"""
    m = re.search(pattern, text, re.IGNORECASE)
    clause = re.split(r"(?<=[.;])\s", text[m.start() :])[0] if m else ""
    before = re.split(r"[.;]\s", text[: m.start()])[-1] if m else ""
    return says(f"{before}{clause}", r"\b(?:not|no|never|without|off|disabled?|stop|don't|switch off|turn off)\b")
