"""Earlier calls and their results within a budget of tokens: what the next call may need stays."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
_NAME_KEY = re.compile(r"(?:name|label|title|domain)$", re.IGNORECASE)
_MADE_UP = re.compile(r"/?(?:[a-z]+/)?(?:[a-z][a-z0-9]*-)+[0-9a-f]{8,}$|arn:|[A-Z0-9]{8,}$|/hostedzone/")
"""Ids that a service makes up."""
_LOOK = re.compile(r"(?:^|:)(?:Describe|List|Get|Search)")
_PAIRS = (("Key", "Value"), ("Name", "Values"), ("Name", "Value"), ("key", "value"), ("name", "value"))
_SHORT_END = 4
_DEAR = 60
"""Characters that have to be worth a point."""
_EVERYWHERE = frozenset(("name", "arn", "type", "key", "value", "tag", "state", "status", "description"))
"""Words of fields that say nothing of what a value is of."""
_AGAIN = 2.0
"""What a value is worth less that its call has shown already."""
_TRIED = 40
"""Values after the first that does not fit that are tried."""
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
        """The innermost list entry of the result that holds it; what stands in none belongs to the call as a whole."""
        if self.path[0] == "arguments":
            return ()
        path = self.path[:-1]
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
    is shown once; lists of tags and filters are shown as objects. The reference is never looked at.

    Args:
        upstream: in order.
        instruction: what is asked.
        fields: names of the tool's fields, nested ones too.
        budget: most tokens.
        count: tokens of texts.
    """
    if not upstream:
        return ContextText("")
    upstream = [replace(call, arguments=_paired(call.arguments), output=_paired(call.output)) for call in upstream]
    ranked = _ranked(upstream, instruction, fields)
    worth = [v for v in ranked if v.score >= WORTH][:MOST_LEAVES] or ranked[:MOST_LEAVES]
    if (whole := _render(upstream, worth, None)) and count([whole])[0] <= budget:
        return ContextText(whole, len(worth), len(ranked) - len(worth))
    kept = _fitting(upstream, worth, budget, count)
    return ContextText(_render(upstream, kept, LONG_STRING), len(kept), len(ranked) - len(kept))


def _fitting(upstream: Sequence[Upstream], worth: Sequence[_Value], budget: int, count: Count) -> list[_Value]:
    """As many of the best values as fit, and of the next ones those for which there is room left."""

    def fits(chosen: Sequence[_Value]) -> bool:
        return count([_render(upstream, chosen, LONG_STRING)])[0] <= budget

    low, high = 0, min(len(worth), budget)  # a value takes a token at least
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(worth[:middle]) else (low, middle - 1)
    kept = list(worth[:low])
    for value in worth[low : low + _TRIED]:
        if fits([*kept, value]):
            kept.append(value)
    return kept


def _paired(tree: Any) -> Any:
    """Lists of {"Key": …, "Value": …} (or "Name", "Values") as one object: tags and filters in few tokens."""
    if isinstance(tree, Mapping):
        return {key: _paired(value) for key, value in tree.items()}
    if not isinstance(tree, list | tuple):
        return tree
    names = next((pair for pair in _PAIRS if tree and all(_is_pair(entry, pair) for entry in tree)), None)
    if names and len({entry[names[0]] for entry in tree}) == len(tree):
        return {entry[names[0]]: entry[names[1]] for entry in tree}
    return [_paired(value) for value in tree]


def _is_pair(entry: Any, names: tuple[str, str]) -> bool:
    return isinstance(entry, Mapping) and set(entry) == set(names) and isinstance(entry[names[0]], str)


def _ranked(upstream: Sequence[Upstream], instruction: str, fields: Sequence[str]) -> list[_Value]:
    """Every value, best first."""
    found: list[_Value] = []
    for c, call in enumerate(upstream):
        sent = _values(c, "arguments", call.arguments, len(found))
        said = {(v.key, v.text) for v in sent}
        found += sent
        came = _values(c, "output", call.output, len(found))
        found += [v for v in came if v.record or (v.key, v.text) not in said]
    _Scores(upstream, instruction, fields).give(found)
    found.sort(key=lambda v: (-v.score, -v.call, v.order))
    seen: Counter[tuple[int, str]] = Counter()
    for value in found:  # what is there already has less to say
        value.score -= _AGAIN * min(2, seen[value.call, value.text]) + _elsewhere(value.text) * bool(
            seen[-1, value.text]
        )
        seen.update([(value.call, value.text), (-1, value.text)])
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


class _Scores:
    """What each value is worth, from what the prompt itself says.

    Args:
        upstream: earlier calls.
        instruction: what is asked.
        fields: names of the tool's fields.
    """

    def __init__(self, upstream: Sequence[Upstream], instruction: str, fields: Sequence[str]) -> None:
        self.instruction, self.asked = instruction, words(instruction)
        self.fields = sorted({_bare(name) for name in fields})
        self._takes_arns = any(name.endswith("arn") for name in self.fields)
        self.calls = [words(call.name) for call in upstream]
        self._looks = [bool(_LOOK.search(call.name)) for call in upstream]
        self._field_words = [words(name) for name in fields]
        self._near: dict[str, float] = {}
        self._keys: dict[str, float] = {}
        self._mentions: dict[tuple[str, bool], float] = {}

    def give(self, found: Sequence[_Value]) -> None:
        """Set the scores."""
        said = {id(v): self._mention(v) for v in found}
        meant = {(v.call, v.record) for v in found if said[id(v)] >= 1}
        lists = {(call, record[:-1]) for call, record in meant if record}
        own = {id(v) for v in found if self._is_own(v)}
        called = {v.text for v in found if id(v) in own and (v.call, v.record) in meant}
        linked = {v.call for v in found if v.path[0] == "arguments" and v.text in called}  # calls about what is meant
        for v in found:
            fit = self._key(v.key) + max((self._nearness(p) for p in v.path[1:-1] if isinstance(p, str)), default=0.0)
            is_own = id(v) in own
            v.score = (2.0 if self._takes_arns and v.text.startswith("arn:") else _base(v)) + fit + said[id(v)]
            v.score += 1.5 * is_own + 0.5 * v.call / max(1, len(self.calls) - 1)
            v.score -= min(1.5, len(v.text) / _DEAR)
            if (v.call, v.record) in meant:
                v.score += 2.5 if is_own else 1.5 if fit or _MADE_UP.match(v.text) else 0.3
            elif v.record and (v.call, v.record[:-1]) in lists:  # another entry of the list is the one that is meant
                v.score -= 1.5
            if v.path[0] == "arguments":  # what a look-up was asked, its result says too
                v.score += (v.call in linked) - 1.5 * self._looks[v.call]

    def _nearness(self, part: str) -> float:
        """Whether what is below a key is what a field is about ("Attributes"; "Tags" for "TagKeys")."""
        if part not in self._near:
            own = words(part)
            is_field = _bare(part) in self.fields and "tag" not in own  # names of things: there for every tool
            self._near[part] = 2.0 * is_field or float(bool(own) and any(own <= name for name in self._field_words))
        return self._near[part]

    def _mention(self, v: _Value) -> float:
        """What it is worth that the instruction says the value: common words may mean something else."""
        is_name = bool(_NAME_KEY.search(v.key))
        known = (v.text, is_name)
        if known not in self._mentions:
            is_common = v.text.isalpha() and v.text.islower() and not is_name
            worth = 0.5 if is_common else 3.0
            self._mentions[known] = worth * _is_mentioned(v.text, self.instruction)
        return self._mentions[known]

    def _key(self, key: str) -> float:
        """What a value's key says: it is a field of the tool, or the instruction has its words."""
        if key not in self._keys:
            own = words(key)
            overlap = len(own & self.asked) / len(own) if own else 0.0
            fit = _fit(_bare(key), self.fields) or 0.8 * any(own & name - _EVERYWHERE for name in self._field_words)
            self._keys[key] = fit + overlap * min(2, len(own & self.asked))
        return self._keys[key]

    def _is_own(self, v: _Value) -> bool:
        """Whether it is what the thing itself is called by: the id of what the call made, or of a list's entry."""
        if v.path[0] == "arguments" or not _MADE_UP.match(v.text):
            return False
        around = self.calls[v.call].union(*(words(part) for part in v.path[1:-1] if isinstance(part, str)))
        return words(v.key) - {"arn"} <= around and (self._takes_arns or not v.text.startswith("arn:"))


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
    if len(v.text) > LONG_STRING or v.text.startswith("arn:"):
        return 0.8
    return 2.0 if _ID_KEY.search(v.key) or _IDENTIFIER.match(v.text) else 1.0


def _elsewhere(text: str) -> float:
    """What a value is worth less that another call has shown: long ones (ARNs) cost most when they come again."""
    return min(2.0, 0.3 + len(text) / 60)


def _fit(key: str, names: Sequence[str]) -> float:
    """How well a key goes with the fields: the same name, or one ends in the other (little if it is short)."""
    if key in names:
        return 2.5
    ends = [min(len(name), len(key)) for name in names if key and (name.endswith(key) or key.endswith(name))]
    return 0.0 if not ends else 1.5 if max(ends) > _SHORT_END else 0.5


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
        if longest is not None and isinstance(value, str) and len(value) > longest and " " in value:
            value = value[:longest] + _GAP
        return json.dumps(value, ensure_ascii=False, default=str)

    return write(tree, ())
