"""Profiles that extend every tool's document: function, when to use, limitations, tags, example.

After Tool-DE (2510.22670), where a language model writes them; `template` makes them of the tool's own record alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolsavvy.catalog import Query, RetrievalSet, Tool, parameter_names, split_words
from toolsavvy.catalogs.audit import audit
from toolsavvy.catalogs.splits import plain

PARAMETERS, ABOUT_WORDS = 8, 12
"""At most: parameters that a template profile explains, words about each."""
FIELD_WORDS, FIELD_CHARACTERS = 60, 1000
"""Of any field of a profile; not every script puts spaces between words."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True)
class Profile:
    """What is written about one tool; empty fields are left out of its text.

    Args:
        function: what it does.
        when_to_use: what it gives, or which need it serves.
        limitations: what it needs and cannot do.
        tags: key words.
        example: how people ask for it.
    """

    function: str = ""
    when_to_use: str = ""
    limitations: str = ""
    tags: tuple[str, ...] = ()
    example: str = ""

    @property
    def text(self) -> str:
        """The profile as documents hold it: one line, each field cut to its bounds."""
        parts = (
            ("Function", self.function),
            ("When to use", self.when_to_use),
            ("Limitations", self.limitations),
            ("Tags", ", ".join(self.tags)),
            ("Example", self.example),
        )
        kept = ((label, cut(value, FIELD_WORDS)[:FIELD_CHARACTERS]) for label, value in parts)
        return " ".join(f"{label}: {value.rstrip('.')}." for label, value in kept if value)


@dataclass(frozen=True)
class Source:
    """All that a writer of profiles may know of a tool.

    Args:
        tool: its record.
        requests: training queries that it answers; never one whose text a validation or test query has too.
    """

    tool: Tool
    requests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Argument:
    """One property of a JSON Schema, as far as it is well-formed."""

    name: str
    kind: str
    about: str
    choices: tuple[str, ...]
    is_required: bool

    @property
    def text(self) -> str:
        """Name, type, what it is and what it may be, in words."""
        inner = ", ".join(part for part in (self.kind, self.about) if part)
        one_of = f" one of {', '.join(self.choices)}" if self.choices else ""
        return split_words(self.name) + (f" ({inner})" if inner else "") + one_of


def sources(data: RetrievalSet, examples: int) -> tuple[Source, ...]:
    """What is known of every tool, with up to `examples` of its training queries, those of few golds first."""
    kept_apart = {plain(q.text) for split, queries in data.splits.items() if split != "train" for q in queries}
    asked: dict[str, list[Query]] = defaultdict(list)
    for query in data.train:
        if plain(query.text) not in kept_apart:
            for tool in query.relevant:
                asked[tool].append(query)
    return tuple(Source(tool, _requests(asked[tool.id], examples)) for tool in data.catalog.tools)


def _requests(queries: Sequence[Query], examples: int) -> tuple[str, ...]:
    """The first different texts, single-gold queries before others."""
    ordered = sorted(queries, key=lambda q: len(q.relevant))
    return tuple(dict.fromkeys(" ".join(q.text.split()) for q in ordered))[:examples]


def template(source: Source) -> Profile:
    """A profile made offline: no word in it but those of the record, of training queries and of the frame."""
    tool = source.tool
    needs, takes = interface(tool)
    returned = _listed(arguments(tool.returns)[:PARAMETERS])
    limits = (f"needs {needs}" if needs else "", f"optional {takes}" if takes else "")
    return Profile(
        function=_function(tool),
        when_to_use=f"to get {returned}" if returned else "",
        limitations=". ".join(part for part in limits if part),
        tags=_tags(tool),
        example="; ".join(source.requests),
    )


def interface(tool: Tool) -> tuple[str, str]:
    """Its first `PARAMETERS` parameters in words, required ones before others: (required, optional)."""
    first = sorted(arguments(tool.parameters), key=lambda a: not a.is_required)[:PARAMETERS]
    return _listed([a for a in first if a.is_required]), _listed([a for a in first if not a.is_required])


def _listed(found: Sequence[Argument]) -> str:
    return "; ".join(a.text for a in found)


def _function(tool: Tool) -> str:
    """Name, provider and the description's first sentence."""
    first = _SENTENCE.split(" ".join(tool.description.split()), maxsplit=1)[0]
    head = " of ".join(part for part in (split_words(tool.name), tool.group) if part)
    return ": ".join(part for part in (head, first) if part)


def _tags(tool: Tool) -> tuple[str, ...]:
    """Category, group, and the words of the name, each once."""
    words = [*tool.category.split("/"), *tool.group.split("/"), *split_words(tool.name).split()]
    return tuple(dict.fromkeys(word.strip().lower() for word in words if word.strip()))


def arguments(schema: Mapping[str, Any]) -> list[Argument]:
    """The properties of a schema, in order; what is malformed in it counts as not given."""
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    return [_argument(name, schema["properties"][name], name in needed) for name in parameter_names(schema)]


def _argument(name: str, node: Any, is_required: bool) -> Argument:
    """One property."""
    node = node if isinstance(node, Mapping) else {}
    kind, about, choices = node.get("type"), node.get("description"), node.get("enum")
    return Argument(
        str(name),
        kind if isinstance(kind, str) else "",
        cut(about, ABOUT_WORDS).rstrip(".") if isinstance(about, str) else "",
        tuple(str(c) for c in choices[:PARAMETERS]) if isinstance(choices, list) else (),
        is_required,
    )


def cut(text: str, words: int) -> str:
    """The first words of a text, on one line."""
    return " ".join(text.split()[:words])


def expanded(data: RetrievalSet, profiles: Sequence[Profile], counts: Mapping[str, int]) -> RetrievalSet:
    """The set whose documents end with the profiles; a template without `{profile}` gets it at its end.

    Args:
        data: as loaded.
        profiles: one per tool, in order.
        counts: for the audit, beside the set's own, which are taken anew; what else the loader noted stays.
    """
    catalog = data.catalog
    tools = tuple(replace(t, profile=p.text) for t, p in zip(catalog.tools, profiles, strict=True))
    document = catalog.document if "{profile}" in catalog.document else catalog.document + " {profile}"
    grown = replace(data, catalog=replace(catalog, tools=tools, document=document))
    return replace(grown, audit={**data.audit, **audit(grown), **counts})
