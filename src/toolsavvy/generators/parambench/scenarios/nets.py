"""Ranges of addresses: drawn, cut up, and said in words that take arithmetic to follow."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

ORDINALS = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
)
"""Words for the place of a block, counted from one."""


def private(rng: random.Random, prefix: int = 16) -> str:
    """A network of a given size in the private ranges (RFC 1918), aligned to its size.

    Args:
        rng: draws it.
        prefix: from 12 to 28.
    """
    pool = rng.choice(["10.0.0.0/8"] * 3 + ["172.16.0.0/12"] + (["192.168.0.0/16"] if prefix >= 16 else []))
    return inside(rng, pool, prefix)


def inside(rng: random.Random, network: str, prefix: int) -> str:
    """Any block of a given size in a network."""
    outer = IPv4Network(network)
    if prefix < outer.prefixlen:
        raise ValueError(f"no /{prefix} fits into {network}")
    return block(network, prefix, rng.randrange(2 ** (prefix - outer.prefixlen)))


def several(rng: random.Random, count: int, prefix: int = 16) -> list[str]:
    """Private networks of one size that do not overlap."""
    found: list[str] = []
    while len(found) < count:
        if (drawn := private(rng, prefix)) not in found:
            found.append(drawn)
    return found


def block(network: str, prefix: int, index: int) -> str:
    """A block by size and place, counted from zero: `block("10.0.0.0/16", 24, 1)` is the second /24.

    Raises:
        ValueError: the network has no such block.
    """
    outer = ip_network(network)
    count = 2 ** (prefix - outer.prefixlen) if prefix >= outer.prefixlen else 0
    index = index + count if index < 0 else index
    if not 0 <= index < count:
        raise ValueError(f"{network} has no /{prefix} at {index}")
    width = 2 ** (outer.max_prefixlen - prefix)
    kind = IPv4Network if outer.version == 4 else IPv6Network
    return str(kind((int(outer.network_address) + index * width, prefix)))


def halves(network: str) -> tuple[str, str]:
    """Lower and upper half of a network."""
    lower, upper = ip_network(network).subnets()
    return str(lower), str(upper)


def next_block(network: str) -> str:
    """The block of the same size that comes right after."""
    net = IPv4Network(network)
    return str(IPv4Network((int(net.network_address) + net.num_addresses, net.prefixlen)))


def host(network: str, number: int) -> str:
    """An address by its place in a network: 10 is the tenth after the network's own, -1 the broadcast address."""
    net = ip_network(network)
    return str(net[number])


def any_host(rng: random.Random, network: str) -> str:
    """A usable address: AWS keeps the first four and the last of a subnet."""
    return host(network, rng.randrange(4, IPv4Network(network).num_addresses - 1))


def public(rng: random.Random) -> str:
    """A public address that is nobody's service of note."""
    first = rng.choice([23, 37, 45, 62, 78, 81, 85, 91, 93, 109, 145, 151, 176, 185, 193, 195, 212, 213])
    return f"{first}.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"


def public_network(rng: random.Random, prefix: int = 24) -> str:
    """A public range, for example of an office."""
    return str(IPv4Network((public(rng), prefix), strict=False))


def overlaps(one: str, other: str) -> bool:
    """Do two networks share addresses?"""
    return IPv4Network(one).overlaps(IPv4Network(other))


@dataclass(frozen=True)
class Part:
    """A part of a network and how an engineer may call it without saying its address.

    Args:
        cidr: the part.
        words: "the second /24", to be followed by "of" or "in" and what it is a part of.
    """

    cidr: str
    words: str


def part(rng: random.Random, network: str, prefix: int | None = None) -> Part:
    """Draw a part of a network that takes arithmetic to find.

    Args:
        rng: draws it.
        network: the whole.
        prefix: size of the part; drawn without.

    Returns:
        A half or a quarter (only without `prefix`), the n-th block of a size, the last or the last but one.
    """
    outer = IPv4Network(network)
    if prefix is None and rng.random() < 0.3:
        return _fraction(rng, network)
    prefix = prefix or rng.choice([p for p in (18, 20, 22, 24, 26) if p > outer.prefixlen] or [28])
    count = 2 ** (prefix - outer.prefixlen)
    if rng.random() < 0.25:
        return Part(block(network, prefix, -1), f"the last /{prefix}")
    if count > 2 and rng.random() < 0.15:
        return Part(block(network, prefix, -2), f"the last but one /{prefix}")
    index = rng.randrange(min(count, len(ORDINALS)))
    return Part(block(network, prefix, index), f"the {ORDINALS[index]} /{prefix}")


def _fraction(rng: random.Random, network: str) -> Part:
    lower, upper = halves(network)
    quarters = [*halves(lower), *halves(upper)]
    index = rng.randrange(4)
    return rng.choice(
        [
            Part(lower, "the lower half"),
            Part(upper, "the upper half"),
            Part(quarters[index], f"the {ORDINALS[index]} quarter"),
        ]
    )


def find_part(words: str, network: str) -> str | None:
    """Follow the words of `part`: the part of a network that a text speaks of, None if it speaks of none.

    Args:
        words: any text; its first such words count.
        network: the whole.
    """
    places = "|".join(ORDINALS)
    found = re.search(
        rf"\b(?:(?P<half>lower|upper|first|second) half|(?P<quarter>{places}) quarter"
        rf"|(?P<last>last but one|last|{places}) /(?P<prefix>\d+))\b",
        words,
    )
    if found is None:
        return None
    if found["half"]:
        return halves(network)[found["half"] in ("upper", "second")]
    if found["quarter"]:
        return block(network, IPv4Network(network).prefixlen + 2, ORDINALS.index(found["quarter"]))
    place = {"last": -1, "last but one": -2}.get(found["last"])
    return block(network, int(found["prefix"]), ORDINALS.index(found["last"]) if place is None else place)
