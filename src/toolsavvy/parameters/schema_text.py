"""A tool's schema as few tokens as will do: a line a field, the likelier ones where there is no room for all."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolsavvy.catalog import Tool, split_words
from toolsavvy.decoding.json_schema import normalised

Count = Callable[[Sequence[str]], list[int]]
"""Tokens of each text."""
ENUM_SHOWN = 6
"""Allowed values that are shown; which, the words of the instruction decide."""
DESCRIPTION_WORDS = 12
TITLE_WORDS = 24
_BARE_SHARE = 0.85
"""Where names alone don't fit, so much of the room is theirs, the rest is for descriptions."""
_KEY_HINT = 0.5
"""What it is worth that earlier results have a key of a field's name, beside overlaps between 0 and 1."""
_STOP = frozenset(
    ("a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "could", "for", "from", "has", "have", "id", "if",
     "in", "into", "is", "it", "its", "of", "on", "or", "our", "please", "should", "so", "that", "the", "their", "then",
     "there", "these", "this", "those", "to", "up", "us", "use", "used", "want", "was", "we", "which", "will", "with",
     "you", "your")
)  # fmt: skip
_WORD = re.compile(r"[A-Za-z0-9]+")
_SENTENCE = re.compile(r"(?<=[.!?])\s")


def words(text: str) -> frozenset[str]:
    """Content words of a text or of a name in camel or snake case, singular."""
    found = (w for part in _WORD.findall(text) for w in split_words(part).split())
    return frozenset(stem(w) for w in found if w not in _STOP)


def stem(word: str) -> str:
    """A word without its plural s."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


@dataclass
class _Field:
    """A line of the schema."""

    name: str
    kind: str
    depth: int
    order: int
    is_required: bool
    score: float
    allowed: str = ""
    about: str = ""
    inner: list[_Field] = field(default_factory=list)

    @property
    def bare(self) -> str:
        kind = "" if self.kind == "string" else f" {self.kind}"
        return f"{'  ' * self.depth}{self.name}{'*' * self.is_required}{kind}{self.allowed}"

    def line(self, described: bool) -> str:
        return f"{self.bare}: {self.about}" if described and self.about else self.bare


@dataclass(frozen=True)
class SchemaText:
    """A schema as a prompt shows it.

    Args:
        text: its lines.
        shown: fields that are there, nested ones too.
        cut: fields that are not.
    """

    text: str
    shown: int
    cut: int


def schema_text(tool: Tool, instruction: str, budget: int, count: Count, keys: Sequence[str] = ()) -> SchemaText:
    """Render a tool's schema within a budget.

    What is required comes first, then what shares most words with the instruction (or has the name of a key of
    earlier results), then the schema's order; nested fields follow below a field that is shown. Names go before
    descriptions. The reference is never looked at.

    Args:
        tool: its name, description and parameters.
        instruction: what is asked.
        budget: most tokens.
        count: tokens of texts.
        keys: of earlier results.
    """
    asked = words(instruction)
    about = _short(tool.description, TITLE_WORDS, frozenset())
    head = f"{tool.name}: {about}" if about else tool.name
    fields = _Fields(asked, asked | words(tool.name), frozenset(k.lower().rstrip("s") for k in keys))
    top = fields.read(normalised(tool.parameters), 0)
    every = list(_walk(top))
    bare = dict(zip(map(id, every), count([f.bare for f in every]), strict=True))
    room = budget - sum(count([head, f"\n... {len(every)} more fields"]))
    cost = {i: n + 1 for i, n in bare.items()}  # the line break
    whole = sum(cost.values())
    kept, used = _choose(top, cost, room if whole <= room else int(room * _BARE_SHARE))
    described = _describe(kept, room - used, count)
    shown = {id(f) for f in kept}
    while True:
        lines = [f.line(id(f) in described) for f in every if id(f) in shown]
        if cut := len(every) - len(shown):
            lines.append(f"... {cut} more field{'s' * (cut > 1)}")
        text = "\n".join([head, *lines])
        if not kept or count([text])[0] <= budget:
            return SchemaText(text, len(shown), cut)
        if last := next((id(f) for f in reversed(kept) if id(f) in described), None):
            described.discard(last)
        else:
            shown.discard(id(kept.pop()))


def _choose(top: list[_Field], cost: Mapping[int, int], room: int) -> tuple[list[_Field], int]:
    """Fields in the order in which they were chosen, and the tokens that they take."""
    waiting = [(_rank(f, True), f) for f in top]
    heapq.heapify(waiting)
    kept: list[_Field] = []
    used = 0
    while waiting:
        rank, best = heapq.heappop(waiting)
        if used + cost[id(best)] > room:
            continue
        kept.append(best)
        used += cost[id(best)]
        for inner in best.inner:
            heapq.heappush(waiting, (_rank(inner, rank[0] == 0), inner))
    return kept, used


def _rank(f: _Field, within: bool) -> tuple[int, float, int, int]:
    return (0 if within and f.is_required else 1, -f.score, f.depth, f.order)


def _describe(kept: Sequence[_Field], room: int, count: Count) -> set[int]:
    """Which of the fields get their description too."""
    told = [f for f in kept if f.about]
    described: set[int] = set()
    for f, cost in zip(told, count([f": {f.about}" for f in told]), strict=True):
        if cost <= room:
            described.add(id(f))
            room -= cost
    return described


class _Fields:
    """Turns schemas into lines.

    Args:
        asked: words of the instruction.
        near: those and the tool's.
        keys: of earlier results, lower case, without plural.
    """

    def __init__(self, asked: frozenset[str], near: frozenset[str], keys: frozenset[str]) -> None:
        self.asked, self.near, self.keys = asked, near, keys
        self.order = 0

    def read(self, schema: Mapping[str, Any], depth: int) -> list[_Field]:
        """The fields of an object, or of the objects in an array."""
        if isinstance(inner := schema.get("items"), Mapping):
            return self.read(inner, depth)
        rest = schema.get("additionalProperties")
        if isinstance(properties := schema.get("properties"), Mapping):
            needed = schema.get("required", ())
            return [self._field(name, value, depth, name in needed) for name, value in properties.items()]
        return self.read(rest, depth) if isinstance(rest, Mapping) else []

    def _field(self, name: str, schema: Mapping[str, Any], depth: int, is_required: bool) -> _Field:
        self.order += 1
        own = words(name)
        text = _first_sentence(str(schema.get("description", "")))
        score = _overlap(own, self.asked) + 0.3 * _overlap(words(text), self.asked)
        score += _KEY_HINT * (name.lower().rstrip("s") in self.keys)
        allowed = _allowed(schema, self.near)
        made = _Field(name, _kind(schema), depth, self.order, is_required, score, allowed, "")
        made.about = _short(text, DESCRIPTION_WORDS, own)
        made.inner = self.read(schema, depth + 1)
        made.score = max([score, *(0.9 * f.score for f in made.inner)])
        return made


def _walk(fields: Sequence[_Field]) -> Iterator[_Field]:
    for f in fields:
        yield f
        yield from _walk(f.inner)


def _overlap(own: frozenset[str], asked: frozenset[str]) -> float:
    return len(own & asked) / len(own) if own else 0.0


def _kind(schema: Mapping[str, Any]) -> str:
    """The type in a word or three."""
    if options := schema.get("anyOf"):
        return " or ".join(dict.fromkeys(_kind(option) for option in options))
    stated = schema.get("type")
    if isinstance(stated, list):
        return " or ".join(stated)
    if stated == "array":
        return f"list of {_kind(schema['items'])}" if schema.get("items") else "list"
    if stated == "object" and isinstance(rest := schema.get("additionalProperties"), Mapping) and "type" in rest:
        return f"map to {_kind(rest)}" if "properties" not in schema else "object"
    return str(stated or ("string" if all(isinstance(v, str) for v in schema.get("enum", [0])) else "any"))


def _allowed(schema: Mapping[str, Any], near: frozenset[str]) -> str:
    """The allowed values, those first that share words with the instruction or the tool's name."""
    allowed = schema.get("enum") or (schema.get("items") or {}).get("enum")
    if not allowed:
        return ""
    best = sorted(range(len(allowed)), key=lambda i: (-_overlap(words(str(allowed[i])), near), i))[:ENUM_SHOWN]
    shown = "|".join(str(allowed[i]) for i in sorted(best))
    return f" ({shown}{'|...' if len(allowed) > ENUM_SHOWN else ''})"


def _first_sentence(text: str) -> str:
    return _SENTENCE.split(" ".join(text.split()), maxsplit=1)[0]


def _short(text: str, most: int, name: frozenset[str]) -> str:
    """The start of a description; nothing where it only says the name again."""
    sentence = _first_sentence(text)
    if words(sentence) <= name:
        return ""
    parts = sentence.split(" ")
    return sentence.rstrip(".") if len(parts) <= most else " ".join(parts[:most]).rstrip(",;:") + "..."
