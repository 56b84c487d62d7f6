"""Traffic in words: what kind it is, where it comes from or goes to, and the permission that this makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolsavvy.generators.parambench.scenarios import nets
from toolsavvy.generators.parambench.scenarios.pieces import refer
from toolsavvy.generators.parambench.scenarios.words import SERVICES, chance, listed, say
from toolsavvy.generators.parambench.scene import Scene

NOTES = (
    "office", "head office", "branch office", "partners", "monitoring", "build agents", "jump host", "VPN clients",
    "warehouse", "call centre", "payment provider", "auditors", "data science", "support desk", "backup site",
    "mobile workers", "lab machines", "contractors", "print servers", "reverse proxy", "nightly jobs",
)  # fmt: skip
"""Descriptions of a source."""


@dataclass(frozen=True)
class Traffic:
    """A kind of traffic.

    Args:
        protocol: tcp | udp | icmp | -1.
        first: port, None where the protocol has none.
        last: port.
        words: that speak of it.
    """

    protocol: str
    first: int | None
    last: int | None
    words: str

    @property
    def fields(self) -> dict[str, Any]:
        """Protocol and ports as a security group's permission has them; ICMP of every type is -1 to -1."""
        if self.protocol == "icmp":
            return {"IpProtocol": "icmp", "FromPort": -1, "ToPort": -1}
        if self.first is None:
            return {"IpProtocol": self.protocol}
        return {"IpProtocol": self.protocol, "FromPort": self.first, "ToPort": self.last}

    @property
    def conditions(self) -> int:
        """Arguments that are there because of the protocol."""
        return 0 if self.first is None and self.protocol != "icmp" else 2


def traffic(scene: Scene, everything: bool = True, icmp: bool = True) -> Traffic:
    """Draw a kind: mostly a service by name, ports by number, now and then ICMP or everything."""
    drawn = scene.rng.random()
    if drawn < 0.45:
        service = scene.rng.choice(sorted(SERVICES))
        protocol, port = SERVICES[service]
        return Traffic(protocol, port, port, service)
    if drawn < 0.85 or not (icmp or everything):
        return _numbered(scene)
    if icmp and (drawn < 0.92 or not everything):
        return Traffic("icmp", None, None, say(scene, "all ICMP", "ICMP of every type"))
    return Traffic("-1", None, None, say(scene, "all traffic", "all protocols"))


def _numbered(scene: Scene) -> Traffic:
    protocol = scene.rng.choice(("tcp", "tcp", "udp"))
    first = scene.rng.choice((scene.rng.randrange(1024, 9999), scene.rng.randrange(10, 600) * 100))
    if chance(scene, 0.5):
        return Traffic(protocol, first, first, f"{protocol.upper()} port {first}")
    last = first + scene.rng.choice((4, 9, 10, 20, 49, 99))
    joint = say(scene, "-", " to ", " through ")
    return Traffic(protocol, first, last, f"{protocol.upper()} ports {first}{joint}{last}")


@dataclass(frozen=True)
class End:
    """Where traffic comes from or goes to.

    Args:
        kind: IpRanges | Ipv6Ranges | UserIdGroupPairs | PrefixListIds.
        value: a range or an id.
        words: that speak of it.
        note: its description, "" without.
    """

    kind: str
    value: str
    words: str
    note: str = ""

    @property
    def field(self) -> str:
        """Argument inside the list of its kind."""
        return {
            "IpRanges": "CidrIp",
            "Ipv6Ranges": "CidrIpv6",
            "UserIdGroupPairs": "GroupId",
            "PrefixListIds": "PrefixListId",
        }[self.kind]

    @property
    def item(self) -> dict[str, str]:
        """As a permission lists it."""
        return {self.field: self.value} | ({"Description": self.note} if self.note else {})

    @property
    def said(self) -> str:
        """Words and note."""
        return f'{self.words} ("{self.note}")' if self.note else self.words


def noted(scene: Scene, end: End) -> End:
    """The same with a description."""
    return replace(end, note=scene.rng.choice(NOTES))


def ranged(scene: Scene) -> End:
    """A range by its address: of a company, private, IPv6, or everybody."""
    drawn = scene.rng.random()
    if drawn < 0.1:
        return End("IpRanges", "0.0.0.0/0", say(scene, "anywhere on IPv4", "any IPv4 address"))
    if drawn < 0.18:
        return End("Ipv6Ranges", "::/0", say(scene, "anywhere on IPv6", "any IPv6 address"))
    if drawn < 0.3:
        cidr = f"2001:db8:{scene.rng.randrange(16**3, 16**4):x}::/48"
        return End("Ipv6Ranges", cidr, cidr)
    cidr = (
        nets.public_network(scene.rng, 24) if drawn < 0.55 else nets.private(scene.rng, scene.rng.choice((16, 20, 24)))
    )
    return End("IpRanges", cidr, cidr)


def of_group(scene: Scene, identifier: str, label: str) -> End:
    """The members of a security group."""
    return End("UserIdGroupPairs", identifier, refer(scene, "security group", identifier, label))


def of_network(scene: Scene, kind: str, identifier: str, label: str, cidr: str) -> End:
    """The range of a VPC or subnet that the context shows."""
    it = refer(scene, kind, identifier, label)
    return End("IpRanges", cidr, say(scene, f"all addresses of {it}", f"the whole of {it}"))


def of_list(scene: Scene, identifier: str, label: str) -> End:
    """The ranges of a prefix list."""
    return End("PrefixListIds", identifier, refer(scene, "prefix list", identifier, label))


@dataclass(frozen=True)
class Permission:
    """Traffic and its ends.

    Args:
        traffic: its kind.
        ends: sources, or destinations of outbound traffic.
    """

    traffic: Traffic
    ends: tuple[End, ...]

    @property
    def fields(self) -> dict[str, Any]:
        """As the API takes it."""
        found = self.traffic.fields
        for end in self.ends:
            found.setdefault(end.kind, []).append(end.item)
        return found

    def said(self, way: str) -> str:
        """In words, with "from" or "to"."""
        return f"{self.traffic.words} {way} {listed([end.said for end in self.ends])}"


UNORDERED = (
    "IpPermissions",
    "IpPermissions.*.IpRanges",
    "IpPermissions.*.Ipv6Ranges",
    "IpPermissions.*.UserIdGroupPairs",
    "IpPermissions.*.PrefixListIds",
)


def conditions(permissions: Sequence[Permission]) -> int:
    """Arguments that are there because of a protocol, over all permissions."""
    return sum(p.traffic.conditions for p in permissions)
