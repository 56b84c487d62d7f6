"""What a request asks to be called how, and which things of the context it speaks of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from toolsavvy.generators.parambench.oracle.lexicon import NAME
from toolsavvy.generators.parambench.oracle.sight import Sight, kind_of, name_of

_NAMING = rf"\b(?:[Nn]ame (?:it|them)|[Cc]all (?:it|them)|name is to be|the name) ({NAME})"


def tags(sight: Sight, kind: str) -> dict[str, Any]:
    """Tags that a request asks for: its name and every key=value; {} where it asks for none."""
    found = re.search(_NAMING, sight.instruction)
    pairs = ([("Name", found[1])] if found else []) + key_values(sight.instruction)
    if not pairs:
        return {}
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": [{"Key": k, "Value": v} for k, v in pairs]}]}


def key_values(text: str) -> list[tuple[str, str]]:
    """Every key=value of a text."""
    return re.findall(r"(?<![\w-])([a-z][a-z-]*)=([\w.-]*\w)", text)


def new_name(sight: Sight) -> str:
    """The name that a request gives a new thing.

    Raises:
        LookupError: it gives none.
    """
    if not (found := re.search(_NAMING, sight.instruction)):
        raise LookupError("no name is asked for")
    return found[1]


def known(sight: Sight) -> dict[str, dict[str, None]]:
    """Name -> ids of the context that bear it, also from lists of tags."""
    found = {label: dict.fromkeys(ids) for label, ids in sight.names.items()}
    for entry in (item for _, _, item in sight.objects):
        if entry.get("Key") == "Name" and isinstance(entry.get("ResourceId"), str):
            found.setdefault(str(entry.get("Value")), {})[entry["ResourceId"]] = None
    for call in sight.calls("CreateFlowLogs"):  # a list of ids comes back, no object
        for label in (name_of(s) for s in call.arguments.get("TagSpecifications", ())):
            found.setdefault(label, {}).update(dict.fromkeys(call.output["FlowLogIds"]))
    return found


def spoken(sight: Sight, kind: str, text: str | None = None) -> list[str]:
    """Ids of the things of a kind that a text speaks of by name or id, in its order.

    Args:
        sight: the task.
        kind: as `kind_of` has it ("subnet").
        text: a part of the instruction; the whole without.
    """
    text = sight.instruction if text is None else text
    found: list[tuple[int, str]] = []
    for label, ids in known(sight).items():
        own = [i for i in ids if kind_of(i) == kind]
        if own:
            found += [(m.start(), own[-1]) for m in re.finditer(rf"(?<![\w-]){re.escape(label)}(?![\w-])", text)]
    found += [(m.start(), m[0]) for m in re.finditer(rf"(?<![\w-]){kind}-[0-9a-f]{{8,17}}\b", text)]
    return list(dict.fromkeys(own for _, own in sorted(found)))


def meant(sight: Sight, kind: str, text: str | None = None) -> str:
    """The one thing of a kind that a text means: the first it speaks of, else the newest of the context.

    Raises:
        LookupError: the context has none.
    """
    if found := spoken(sight, kind, text):
        return found[0]
    if (newest := sight.newest(kind)) is None:
        raise LookupError(f"no {kind} in the context")
    return newest


def items(sight: Sight, key: str) -> list[Mapping[str, Any]]:
    """Every object of the context's results that has a value under a key, in order."""
    return [item for _, _, item in sight.objects if item.get(key)]


def owner(sight: Sight, key: str, value: Any) -> Mapping[str, Any]:
    """The latest object of the context's results with a value under a key.

    Raises:
        LookupError: there is none.
    """
    found = [item for _, _, item in sight.objects if item.get(key) == value]
    if not found:
        raise LookupError(f"nothing with {key} {value!r}")
    return found[-1]


def after(text: str, pattern: str) -> str:
    """What stands after the first match of a pattern; "" without a match."""
    found = re.search(pattern, text, re.IGNORECASE)
    return text[found.end() :] if found else ""


def before(text: str, pattern: str) -> str:
    """What stands before the first match of a pattern; the whole text without a match."""
    found = re.search(pattern, text, re.IGNORECASE)
    return text[: found.start()] if found else text
