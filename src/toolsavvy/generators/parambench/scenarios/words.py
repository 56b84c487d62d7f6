"""The English of stories: pools of names, a choice among paraphrases, numbers, times and sizes in words."""

from __future__ import annotations

from collections.abc import Sequence

from toolsavvy.generators.parambench.scene import Scene

_POOL = (
    "acorn amber apollo atlas aurora basil billing birch cedar checkout cinder cobalt comet condor copper coral delta "
    "dispatch dune ember falcon fern fleet garnet granite harbor hazel heron indigo inventory iris jasper juniper "
    "kestrel lagoon larch ledger lotus lynx maple marble mercury meridian mosaic nectar nimbus oasis onyx opal orchid "
    "orchard orion osprey otter payments pebble pepper photon pine plover polaris prism quartz quill radar raven "
    "reports ridge robin saffron sage scarlet sierra silver sparrow spruce summit tango telemetry thistle tiger topaz "
    "tulip umbra vector velvet violet walnut warehouse willow wren yarrow zenith zephyr"
)
PROJECTS = tuple(_POOL.split())
"""First part of a Name tag."""
STAGES = ("prod", "dev", "test", "staging", "qa", "dr", "lab", "beta", "demo", "uat", "perf", "sandbox")
"""Second part of a Name tag."""
TEAMS = ("platform", "security", "data", "network", "mobile", "finance", "research", "retail", "growth", "core", "ml")
"""Values of a team tag."""
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d", "us-east-1f")
"""Availability zones that every scene may use."""
SERVICES: dict[str, tuple[str, int]] = {
    "HTTPS": ("tcp", 443),
    "HTTP": ("tcp", 80),
    "SSH": ("tcp", 22),
    "RDP": ("tcp", 3389),
    "PostgreSQL": ("tcp", 5432),
    "MySQL": ("tcp", 3306),
    "Redis": ("tcp", 6379),
    "LDAPS": ("tcp", 636),
    "SMTP": ("tcp", 25),
    "NFS": ("tcp", 2049),
    "SQL Server": ("tcp", 1433),
    "MongoDB": ("tcp", 27017),
    "Kafka": ("tcp", 9092),
    "NTP": ("udp", 123),
    "syslog": ("udp", 514),
    "DNS": ("udp", 53),
    "SNMP": ("udp", 161),
}
"""Services by the name that people say -> protocol and port they listen on by default."""
_COUNTING = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_UNITS = tuple(_COUNTING.split())
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ORDER = "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_ORDINALS = tuple(_ORDER.split())


def say(scene: Scene, *phrases: str) -> str:
    """One of several ways to say the same."""
    return scene.rng.choice(phrases)


def chance(scene: Scene, share: float) -> bool:
    """True in a share of the stories."""
    return scene.rng.random() < share


def name(scene: Scene, ending: str = "") -> str:
    """A Name tag that the scene has not used, such as "orion-prod" or "orion-prod-web"."""
    used = str(scene.calls)
    while True:
        found = "-".join(filter(None, (scene.rng.choice(PROJECTS), scene.rng.choice(STAGES), ending)))
        if found not in used:
            return found


def names(scene: Scene, count: int, ending: str = "") -> list[str]:
    """Several Name tags, all different."""
    found: list[str] = []
    while len(found) < count:
        one = name(scene, ending)
        if one not in found:
            found.append(one)
    return found


def named(scene: Scene, kind: str, label: str) -> str:
    """A noun phrase for a thing known by its Name tag (or by its id): "the subnet orion-prod-a"."""
    return say(
        scene, f"the {kind} {label}", f"{kind} {label}", f"the {kind} called {label}", f"the {kind} named {label}"
    )


def tags(kind: str, **values: str) -> list[dict[str, object]]:
    """Tags of a new thing as the API takes them: `tags("subnet", Name="orion-prod-a")`."""
    return [{"ResourceType": kind, "Tags": [{"Key": k, "Value": v} for k, v in values.items()]}]


def number_word(number: int) -> str:
    """A whole number from 0 to 99 in words: "twenty-five"."""
    if number < 20:
        return _UNITS[number]
    tens, rest = divmod(number, 10)
    return _TENS[tens] + (f"-{_UNITS[rest]}" if rest else "")


def ordinal(number: int) -> str:
    """Which one, from 1 to 12 in words: "third"."""
    return _ORDINALS[number]


def number_of(word: str) -> int:
    """The whole number that a word or digits say: "twenty-five" -> 25, "1,024" -> 1024.

    Raises:
        ValueError: no number from 0 to 99 in words, nor digits.
    """
    text = word.lower().replace(",", "")
    if text.isdigit():
        return int(text)
    first, _, rest = text.partition("-")
    if first in _UNITS and not rest:
        return _UNITS.index(first)
    if first in _TENS[2:] and (not rest or rest in _UNITS[1:10]):
        return 10 * _TENS.index(first) + (_UNITS.index(rest) if rest else 0)
    raise ValueError(f"{word!r} is no number in words")


def duration(scene: Scene, seconds: int) -> str:
    """A time as people say it: 600 -> "ten minutes", "10 minutes" or "600 seconds"."""
    ways = [f"{seconds} seconds" if seconds != 1 else "one second"]
    for unit, length in (("minute", 60), ("hour", 3600), ("day", 86400)):
        count, rest = divmod(seconds, length)
        if count and not rest and count < 100:
            plural = unit if count == 1 else f"{unit}s"
            ways += [f"{count} {plural}", f"{number_word(count)} {plural}"]
    return say(scene, *ways)


def size(scene: Scene, mebibytes: int) -> str:
    """A size as people say it: 2048 -> "2 GiB" or "2048 MiB"."""
    whole, rest = divmod(mebibytes, 1024)
    ways = [f"{mebibytes} MiB"] + ([f"{whole} GiB", f"{number_word(whole)} gibibytes"] if whole and not rest else [])
    return say(scene, *ways)


def listed(items: Sequence[str], last: str = "and") -> str:
    """Items in a row: "a, b and c"."""
    return f" {last} ".join(filter(None, (", ".join(items[:-1]), items[-1])))


def sentence(text: str) -> str:
    """A text as a sentence: capital first letter unless a name stands there ("orion-prod"), full stop."""
    text = text.strip()
    name = "-" in text.partition(" ")[0]
    return (text if name else text[:1].upper() + text[1:]) + ("" if text.endswith((".", "?", "!")) else ".")
