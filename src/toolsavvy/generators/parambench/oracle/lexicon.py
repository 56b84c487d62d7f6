"""What the oracle knows of the language of requests: things by name, ranges, ports, protocols, numbers, times.

Nothing here knows a story: patterns of English, and who is meant where they speak of a thing.
"""

from __future__ import annotations

import re
from typing import Any

from toolsavvy.generators.parambench.oracle.sight import ID, Sight
from toolsavvy.generators.parambench.scenarios.words import SERVICES, number_of

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
_NO_NAME = re.compile(
    rf"us-east-1[a-f]?|dual-stack|egress-only|internet-facing|well-known|last-but-one|so-called|round-trip|{NUMBER_WORD}|"
    r"(?:one|two|three|four|five)-.*|.*-(?:wide|side|level|sized|owned|only|provided|to-end)"
)
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}


def the(sight: Sight, kind: str) -> str:
    """Id of the thing of a kind ("vpc", "rtb") that a request means: the first it names, else the latest there is.

    Raises:
        LookupError: the context has none.
    """
    named = [*sight.stated(kind), *sight.mentioned(kind)]
    if named:
        return named[0]
    if (found := sight.newest(kind)) is None:
        raise LookupError(f"no {kind} in the context")
    return found


def new_names(sight: Sight) -> list[str]:
    """Names in a request that nothing of the context bears: what is to be created or called anew."""
    known = {str(held.value) for held in sight.values}
    found = re.findall(rf"(?<![\w.-]){NAME}(?![\w-]|\.\w)", sight.instruction)
    return [n for n in dict.fromkeys(found) if n not in known and not ID.fullmatch(n) and not _NO_NAME.fullmatch(n)]


def tag_specifications(sight: Sight, kind: str, named: bool = True) -> dict[str, list[dict[str, Any]]]:
    """Name and further tags that a request gives to what is to be created; {} where it gives none.

    Args:
        sight: the task.
        kind: as the API calls it in tags ("vpc").
        named: what it is called is a tag too, not an argument of its own.
    """
    labels = new_names(sight) if named else []
    pairs = re.findall(r"(?<![\w-])([A-Za-z][\w-]*)=([\w-]+)", sight.instruction)
    values = {pair[1] for pair in pairs}
    found = [("Name", n) for n in labels if n not in values and not any(n == k for k, _ in pairs)][:1] + pairs
    tags = [{"Key": key, "Value": value} for key, value in found]
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": tags}]} if tags else {}


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


def quoted(text: str) -> list[str]:
    """What a text says in double quotes, in order."""
    return re.findall(r'"([^"]*)"', text)
