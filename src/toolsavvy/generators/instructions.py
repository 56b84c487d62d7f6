"""Target-aware retrieval instructions: what one must be like, and how templates write one without a model."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from toolsavvy.attacks import tokens
from toolsavvy.catalog import Catalog, Query, Tool, split_words
from toolsavvy.catalogs.audit import leaks_name
from toolsavvy.generators.collecting import Item
from toolsavvy.generators.overlap import Tokens, nearest

PURPOSES, PURPOSE_WORDS = 3, 16
"""Golds that a template speaks of, and words of each one's description."""
_SENTENCE = re.compile(r"(?<=[.!?。])\s|\n|(?<=。)")
_BOTH = (
    "Given a request about {topic}, find the tools that do this: {purpose}.",
    "The request concerns {topic}; retrieve every tool that serves this purpose: {purpose}.",
    "Look among the tools for {topic} and select those with this function: {purpose}.",
)
_PURPOSE = (
    "Given the request, find the tools that do this: {purpose}.",
    "Retrieve every tool that serves this purpose: {purpose}.",
    "Select the tools with this function: {purpose}.",
)
_TOPIC = ("Given a request about {topic}, find the tools that can carry it out.",)
_NEITHER = ("Given the request, find every piece of software that can carry it out.",)


@dataclass(frozen=True)
class Rules:
    """What an instruction must be like.

    Args:
        min_words: fewest tokens.
        max_words: most tokens.
        novelty: an instruction whose ROUGE-L F1 with an earlier one reaches this is a duplicate.
    """

    min_words: int = 6
    max_words: int = 80
    novelty: float = 0.7


@dataclass(frozen=True)
class Written:
    """Queries with their instructions, and what was counted on the way.

    Args:
        items: in the given order; those that were dropped are missing.
        counts: how often which thing happened.
    """

    items: tuple[Item, ...]
    counts: Mapping[str, int] = field(default_factory=dict)


def golds(item: Item, catalog: Catalog) -> list[Tool]:
    """The gold tools of a query."""
    return [catalog.tools[catalog.index[tool]] for tool in item.query.relevant]


def names_tool(text: str, query: Query, catalog: Catalog) -> bool:
    """Whether a text spells a gold tool's name: word by word, or run together as one word, or its id."""
    if leaks_name(replace(query, text=text), catalog):
        return True
    words = set(tokens(text))
    for key in query.relevant:
        name = "".join(tokens(split_words(catalog.tools[catalog.index[key]].name)))
        spelled = key.lower() in text.lower()  # cheap, and mostly false
        if name in words or (spelled and re.search(rf"(?<!\w){re.escape(key)}(?!\w)", text, re.IGNORECASE)):
            return True
    return False


def fault(text: str, item: Item, catalog: Catalog, pool: Sequence[Tokens], rules: Rules) -> str:
    """Why an instruction is refused ('' when it is not): short, long, names_tool, copies_query or repeated.

    Args:
        text: the instruction.
        item: its query.
        catalog: all tools.
        pool: tokens of the instructions so far.
        rules: lengths and novelty.
    """
    words = tokens(text)
    if len(words) < rules.min_words:
        return "short"
    if len(words) > rules.max_words:
        return "long"
    if names_tool(text, item.query, catalog):
        return "names_tool"
    if nearest(words, [tokens(item.query.text)], rules.novelty)[0] >= 0:
        return "copies_query"
    return "repeated" if nearest(words, pool, rules.novelty)[0] >= 0 else ""


def from_templates(items: Sequence[Item], catalog: Catalog, seed: int) -> Written:
    """Write every instruction from the gold tools' groups, categories and descriptions, without their names.

    Deterministic: which template a query gets depends on the seed and its id alone. Nothing is judged: templates repeat
    their own words by nature, so equal instructions are counted, not refused.
    """
    counts: Counter[str] = Counter()
    seen: set[str] = set()
    out = []
    for item in items:
        text = template(item, catalog, seed)
        counts["templates"] += 1
        counts["repeated_templates"] += text in seen
        seen.add(text)
        out.append(replace(item, query=replace(item.query, instruction=text)))
    return Written(tuple(out), counts)


def template(item: Item, catalog: Catalog, seed: int) -> str:
    """One instruction; whatever would name a gold tool is left out of it."""

    def safe(text: str) -> bool:
        return bool(text.strip()) and not names_tool(text, item.query, catalog)

    tools = golds(item, catalog)
    topic = _listed([t for tool in tools if safe(t := _topic(tool))])
    purpose = "; ".join(dict.fromkeys(t for tool in tools[:PURPOSES] if safe(t := _purpose(tool))))
    for text in (topic, purpose):
        kinds = _BOTH if topic and purpose else _PURPOSE if purpose else _TOPIC if topic else _NEITHER
        draft = _pick(kinds, item, seed).format(topic=topic, purpose=purpose)
        if not names_tool(draft, item.query, catalog):
            return draft
        # Together with the template's own words it spells a name after all: do without it.
        topic, purpose = ("", purpose) if text is topic else ("", "")
    return _pick(_NEITHER, item, seed)


def _pick(templates: Sequence[str], item: Item, seed: int) -> str:
    """One of several, by a hash."""
    digest = hashlib.sha256(f"{seed} {item.query.id}".encode("utf-8", "surrogatepass")).digest()
    return templates[int.from_bytes(digest[:4], "big") % len(templates)]


def _topic(tool: Tool) -> str:
    """Group and category in words: 'invoices (accounting)'."""
    parts = dict.fromkeys(split_words(part) for part in (tool.group, tool.category) if part.strip())
    first, *rest = [*parts, ""]
    return f"{first} ({rest[0]})" if rest and rest[0] else first


def _purpose(tool: Tool) -> str:
    """The start of the description's first sentence, as a part of another sentence."""
    sentence = next((s for s in _SENTENCE.split(tool.description.strip()) if tokens(s)), "")
    words = sentence.split()
    short = " ".join(words[:PURPOSE_WORDS]).strip(" .,;:!?。")
    return f"{short} …" if len(words) > PURPOSE_WORDS else short


def _listed(texts: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c', each once."""
    *most, last = [*dict.fromkeys(texts)] or [""]
    return f"{', '.join(most)} and {last}" if most else last
