"""Rules for managed prefix lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from toolsavvy.generators.parambench.oracle.lexicon import CIDR, CIDR6, NUMBER, new_names, says, tag_specifications, the
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.oracle.vpcs import range_of
from toolsavvy.generators.parambench.scenarios.words import number_of


def entries(text: str) -> list[dict[str, str]]:
    """Ranges in a text, with descriptions in brackets."""
    found = []
    for m in re.finditer(rf'({CIDR}|{CIDR6})(?: \("([^"]*)"\))?', text):
        found.append({"Cidr": m[1]} | ({"Description": m[2]} if m[2] else {}))
    return found


def create(sight: Sight) -> Mapping[str, Any]:
    """CreateManagedPrefixList."""
    text = sight.instruction
    m = re.search(rf"(?:room for|at most) ({NUMBER}) entries", text)
    found: dict[str, Any] = {
        "PrefixListName": new_names(sight)[0],
        "MaxEntries": number_of(m[1] if m else ""),
        "AddressFamily": "IPv6" if says(text, r"\bIPv6\b") else "IPv4",
    }
    listed = entries(text)
    if says(text, r"\branges? of\b|\bspans\b"):
        listed = [{"Cidr": range_of(sight, vpc)} for vpc in _vpcs(sight)]
    return found | ({"Entries": listed} if listed else {}) | tag_specifications(sight, "prefix-list", named=False)


def _vpcs(sight: Sight) -> list[str]:
    known = {i: label for label, ids in sight.names.items() for i in ids}
    return [v for v in sight.of_kind("vpc") if v in sight.instruction or known.get(v, v) in sight.instruction]


def version(sight: Sight, target: str) -> int:
    """The version of a list that the latest result shows, or that the changes since then make."""
    shown = [i["Version"] for _, _, i in sight.objects if i.get("PrefixListId") == target and "Version" in i]
    changes = [c for c in sight.calls("ModifyManagedPrefixList") if c.arguments["PrefixListId"] == target]
    return max([*shown, *(c.arguments["CurrentVersion"] + 1 for c in changes)])


def modify(sight: Sight) -> Mapping[str, Any]:
    """ModifyManagedPrefixList: entries that come, entries that go, a name."""
    target = the(sight, "pl")
    found: dict[str, Any] = {"PrefixListId": target, "CurrentVersion": version(sight, target)}
    for sentence in re.split(r"(?<=\.)\s+", sight.instruction):
        if says(sentence, r"\badd\b|has to cover"):
            found["AddEntries"] = entries(sentence)
        elif says(sentence, r"\btake\b|\bremove\b"):
            found["RemoveEntries"] = entries(sentence)
        elif says(sentence, r"\brename\b|should be called"):
            found["PrefixListName"] = new_names(sight)[-1]
    return found


def delete(sight: Sight) -> Mapping[str, Any]:
    """DeleteManagedPrefixList."""
    return {"PrefixListId": the(sight, "pl")}


RULES: dict[str, Callable[[Sight], Mapping[str, Any]]] = {
    "ec2:CreateManagedPrefixList": create,
    "ec2:ModifyManagedPrefixList": modify,
    "ec2:DeleteManagedPrefixList": delete,
}
