"""How the oracle reads traffic: kinds, ends, and the permissions that they make."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from toolsavvy.generators.parambench.oracle.lexicon import CIDR, CIDR6, services
from toolsavvy.generators.parambench.oracle.sight import Sight

_PORTS = r"(?P<kind>TCP|UDP) (?:port (?P<only>\d+)|ports (?P<first>\d+)(?:-| to | through )(?P<last>\d+))"
_SERVICES = "|".join(re.escape(service) for service, _ in services())
TRAFFIC = re.compile(
    rf"(?<![\w-])(?:{_PORTS}|(?P<icmp>all ICMP|ICMP of every type)|(?P<all>all traffic|all protocols)"
    rf"|(?P<service>{_SERVICES}))(?![\w-])"
)
_ENDS = re.compile(
    rf"(?P<cidr>{CIDR})|(?P<six>{CIDR6})|(?P<any>(?:anywhere on|any) IPv4(?: address)?)"
    r"|(?P<any6>(?:anywhere on|any) IPv6(?: address)?)|(?P<word>[a-z0-9]+(?:-[a-z0-9]+)+)"
)
_NAMED = {"sg": ("UserIdGroupPairs", "GroupId"), "pl": ("PrefixListIds", "PrefixListId")}


@dataclass(frozen=True)
class Said:
    """A kind of traffic in a text.

    Args:
        protocol: tcp | udp | icmp | -1.
        first: port, None without.
        last: port.
        start: where it is spoken of.
        end: where its words end.
    """

    protocol: str
    first: int | None
    last: int | None
    start: int
    end: int

    @property
    def fields(self) -> dict[str, Any]:
        """As a permission has it."""
        if self.protocol == "icmp":
            return {"IpProtocol": "icmp", "FromPort": -1, "ToPort": -1}
        ports = {} if self.first is None else {"FromPort": self.first, "ToPort": self.last}
        return {"IpProtocol": self.protocol} | ports


def kinds(text: str) -> list[Said]:
    """Every kind of traffic that a text speaks of, in order; what stands in quotes is no traffic."""
    plain = re.sub(r'"[^"]*"', lambda m: "\0" * len(m[0]), text)
    found = []
    for m in TRAFFIC.finditer(plain):
        if m["service"]:
            protocol, port = dict(services())[m["service"]]
            found.append(Said(protocol, port, port, m.start(), m.end()))
        elif m["kind"]:
            first, last = int(m["only"] or m["first"]), int(m["only"] or m["last"])
            found.append(Said(m["kind"].lower(), first, last, m.start(), m.end()))
        else:
            found.append(Said("icmp" if m["icmp"] else "-1", None, None, m.start(), m.end()))
    return found


def ends(sight: Sight, text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Sources or destinations in a text: the list that each belongs in, and its item with description."""
    for m in _ENDS.finditer(re.sub(r'"[^"]*"', lambda m: "\0" * len(m[0]), text)):
        found = _end(sight, m)
        if found is None:
            continue
        note = re.match(r'\s*\("([^"]*)"\)', text[m.end() :])
        yield found[0], {found[1]: found[2]} | ({"Description": note[1]} if note else {})


def _end(sight: Sight, m: re.Match[str]) -> tuple[str, str, str] | None:
    if m["cidr"] or m["any"]:
        return "IpRanges", "CidrIp", m["cidr"] or "0.0.0.0/0"
    if m["six"] or m["any6"]:
        return "Ipv6Ranges", "CidrIpv6", m["six"] or "::/0"
    word = m["word"]
    for kind, (into, field) in _NAMED.items():
        if word in sight.of_kind(kind) or sight.called(word, kind):
            return into, field, word if word in sight.of_kind(kind) else str(sight.called(word, kind))
    for kind in ("subnet", "vpc"):
        own = word if word in sight.of_kind(kind) else sight.called(word, kind)
        if own:
            return "IpRanges", "CidrIp", str(sight.object(own)["CidrBlock"])
    return None


def permissions(sight: Sight, text: str) -> list[dict[str, Any]]:
    """Every permission that a text speaks of: a kind of traffic and the ends up to the next kind."""
    spoken = kinds(text)
    found = []
    for one, following in zip(spoken, [*(s.start for s in spoken[1:]), len(text)], strict=True):
        fields = one.fields
        for into, item in ends(sight, text[one.end : following]):
            fields.setdefault(into, []).append(item)
        found.append(fields)
    return found
