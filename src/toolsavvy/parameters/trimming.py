"""Earlier calls and their results within a budget of tokens: what the next call may need stays."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolsavvy.calls.flattening import leaves
from toolsavvy.parameters.schema_text import Count, words
from toolsavvy.tasks import Upstream

LONG_STRING = 120
"""Characters to which longer strings are cut, where not all fits."""
MOST_LEAVES = 4000
"""Values that are looked at, best first: more than any budget holds."""
WORTH = 1.0
"""Values that score less are left out even where there is room: times, flags, states that no field asks for."""
_METADATA = frozenset(("responsemetadata", "requestid"))
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")
_IDENTIFIER = re.compile(r"(?:arn:\S+|[a-z][a-z0-9]*-[0-9a-f]{8,}\S*|\S*[0-9]\S*)$")
_ID_KEY = re.compile(r"(?:id|ids|arn|arns|name|key|value|ip|address|cidr\w*)$", re.IGNORECASE)
_STATE_KEY = re.compile(r"(?:state|status|progress)$", re.IGNORECASE)
_GAP = "..."

Path = tuple[str | int, ...]


@dataclass
class _Value:
    """A leaf of a call (path begins with "arguments" or "output")."""

    call: int
    path: Path
    value: Any
    order: int
    score: float = 0.0

    @property
    def key(self) -> str:
        return next((part for part in reversed(self.path) if isinstance(part, str)), "")

    @property
    def text(self) -> str:
        return self.value if isinstance(self.value, str) else json.dumps(self.value)

    @property
    def record(self) -> Path:
        """The innermost list entry that holds it; of lists of name-value pairs, the one around."""
        path = self.path[:-1]
        while path and not isinstance(path[-1], int):
            path = path[:-1]
        if len(path) >= 2 and path[-2] in ("Tags", "TagSet", "tags"):
            path = path[:-2]
            while path and not isinstance(path[-1], int):
                path = path[:-1]
        return path


@dataclass(frozen=True)
class ContextText:
    """Earlier calls as a prompt shows them.

    Args:
        text: a line for each call, a line for its result; "" without calls.
        shown: values that are there.
        cut: values that had no room.
    """

    text: str
    shown: int = 0
    cut: int = 0


def context_text(
    upstream: Sequence[Upstream], instruction: str, fields: Sequence[str], budget: int, count: Count
) -> ContextText:
    """Render earlier calls within a budget.

    Values are ranked: those that the instruction mentions and what stands in one record with them, those whose key
    is a field of the tool to call, ids and names; later calls before earlier ones. The best that fit stay, with the
    keys that lead to them; "..." stands for list entries that were left out. A result that repeats what its call said
    is shown once. The reference is never looked at.

    Args:
        upstream: in order.
        instruction: what is asked.
        fields: names of the tool's fields, nested ones too.
        budget: most tokens.
        count: tokens of texts.
    """
    if not upstream:
        return ContextText("")
    ranked = _ranked(upstream, instruction, fields)
    worth = [v for v in ranked if v.score >= WORTH][:MOST_LEAVES] or ranked[:MOST_LEAVES]
    if (whole := _render(upstream, worth, None)) and count([whole])[0] <= budget:
        return ContextText(whole, len(worth), len(ranked) - len(worth))
    low, high = 0, min(len(worth), budget)  # a value takes a token at least
    while low < high:
        middle = (low + high + 1) // 2
        fits = count([_render(upstream, worth[:middle], LONG_STRING)])[0] <= budget
        low, high = (middle, high) if fits else (low, middle - 1)
    return ContextText(_render(upstream, worth[:low], LONG_STRING), low, len(ranked) - low)


def _ranked(upstream: Sequence[Upstream], instruction: str, fields: Sequence[str]) -> list[_Value]:
    """Every value, best first."""
    found: list[_Value] = []
    for c, call in enumerate(upstream):
        said = {(v.key, v.text) for v in _values(c, "arguments", call.arguments, 0)}
        found += _values(c, "arguments", call.arguments, len(found))
        output = _values(c, "output", call.output, len(found))
        found += [v for v in output if len(v.path) > 3 or (v.key, v.text) not in said]
    _score(found, instruction, fields, len(upstream))
    found.sort(key=lambda v: (-v.score, -v.call, v.order))
    seen: set[str] = set()
    for value in found:  # what is there already has less to say
        if value.text in seen:
            value.score -= 1.0
        seen.add(value.text)
    return sorted(found, key=lambda v: (-v.score, -v.call, v.order))


def _values(call: int, part: str, tree: Any, first: int) -> list[_Value]:
    kept = [
        leaf
        for leaf in leaves(tree)
        if leaf.value is not None
        and leaf.value not in ({}, [], "")
        and not any(isinstance(p, str) and p.lower() in _METADATA for p in leaf.path)
    ]
    return [_Value(call, (part, *leaf.path), leaf.value, first + i) for i, leaf in enumerate(kept)]


def _score(found: Sequence[_Value], instruction: str, fields: Sequence[str], calls: int) -> None:
    """What each value is worth."""
    asked = words(instruction)
    names = sorted({_bare(name) for name in fields})
    fitting: dict[str, float] = {}
    mentioned = {text for text in {v.text for v in found} if _is_mentioned(text, instruction)}
    anchored = {(v.call, v.record) for v in found if v.text in mentioned}
    lists = {(v.call, v.record[:-1]) for v in found if (v.call, v.record) in anchored}
    for v in found:
        key = v.key
        if key not in fitting:
            fitting[key] = _fit(_bare(key), names) + 0.5 * bool(words(key) & asked)
        v.score = _base(v) + fitting[key] + 0.5 * v.call / max(1, calls - 1)
        v.score += 3.0 * (v.text in mentioned)
        if v.record and (v.call, v.record) in anchored:
            v.score += 1.5
        elif v.record and (v.call, v.record[:-1]) in lists:  # another entry of the list is the one that is meant
            v.score -= 1.0


def _base(v: _Value) -> float:
    """What a value is worth by its looks."""
    if isinstance(v.value, bool):
        return 0.3
    if isinstance(v.value, int | float):
        return 1.0
    if _TIME.match(v.text):
        return 0.1
    if _STATE_KEY.search(v.key):
        return 0.5
    if len(v.text) > LONG_STRING:
        return 0.8
    return 2.0 if _ID_KEY.search(v.key) or _IDENTIFIER.match(v.text) else 1.0


def _fit(key: str, names: Sequence[str]) -> float:
    """How well a key goes with the fields: the same name, or one name that ends in the other."""
    if key in names:
        return 2.5
    return 1.5 if key and any(name.endswith(key) or key.endswith(name) for name in names) else 0.0


def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower()).rstrip("s")


def _is_mentioned(text: str, instruction: str) -> bool:
    if len(text) < 2 or text in ("true", "false") or len(text) > 200:
        return False
    at = instruction.lower().find(low := text.lower())
    while at >= 0:
        before, after = instruction[at - 1 : at], instruction[at + len(low) : at + len(low) + 1]
        if not before.isalnum() and not after.isalnum():
            return True
        at = instruction.lower().find(low, at + 1)
    return False


def _render(upstream: Sequence[Upstream], kept: Sequence[_Value], longest: int | None) -> str:
    """Calls and results with these values alone."""
    trees: dict[tuple[int, str], dict[Path, Any]] = {}
    for v in kept:
        trees.setdefault((v.call, str(v.path[0])), {})[v.path[1:]] = v.value
    lines = []
    for c, call in enumerate(upstream):
        sent, came = trees.get((c, "arguments")), trees.get((c, "output"))
        if sent is None and came is None:
            continue
        label = f"{call.label} = " if call.label else ""
        lines.append(f"{label}{call.name} {_pruned(call.arguments, sent or {}, longest)}")
        if came is not None:
            lines.append(f"-> {_pruned(call.output, came, longest)}")
    return "\n".join(lines)


def _pruned(tree: Any, kept: Mapping[Path, Any], longest: int | None) -> str:
    """A JSON text of the kept leaves and what leads to them."""
    ways = {path[:n] for path in kept for n in range(len(path) + 1)}

    def write(value: Any, path: Path) -> str:
        if isinstance(value, Mapping) and value:
            parts = [
                f"{json.dumps(str(k), ensure_ascii=False)}: {write(inner, (*path, k))}"
                for k, inner in value.items()
                if (*path, k) in ways
            ]
            return "{" + ", ".join(parts) + "}"
        if isinstance(value, list | tuple) and value:
            entries: list[str] = []
            for i, inner in enumerate(value):
                if (*path, i) in ways:
                    entries.append(write(inner, (*path, i)))
                elif not entries or entries[-1] != _GAP:
                    entries.append(_GAP)
            return "[" + ", ".join(entries) + "]"
        if longest is not None and isinstance(value, str) and len(value) > longest:
            value = value[:longest] + _GAP
        return json.dumps(value, ensure_ascii=False, default=str)

    return write(tree, ())
