"""What a tool's own record says of it, as short texts that do not spell its name, and when such a text is another's.

A fact comes from one tool's record alone. `contradicts` and the sets of `ToolFacts` decide whether a fact of one tool
is false of another; both are made so that a doubtful case counts as true, and is then not used as a wrong answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from toolsavvy.attacks import tokens
from toolsavvy.catalog import Catalog, Tool, split_words
from toolsavvy.generators.toolsense.stems import (
    ACTION_STEMS,
    actions,
    alike,
    all_stems,
    plain,
    sentences,
    spells,
    stem,
    stems,
)
from toolsavvy.generators.toolsense.tools import services

WITHIN = 60
"""Words of a document that count as its beginning: what a model that read truncated documents has seen."""
SHORTEST, LONGEST = 4, 30
"""Words of a sentence that may be an option."""
LEAST_STEMS, LEAST_DETAIL_STEMS = 2, 4
"""Content words of a purpose, and of a further statement: with fewer it could be anyone's."""
PARAMETER_WORDS = 6
_UNFIT = re.compile(
    r"https?:|www\.|[<>{}|\[\]`#*=\\]|[a-z]\.[A-Z]|:\s*$|^\W|"
    r"\b(?:following|below|above|for (?:more )?information|see also|see the)\b|"
    r"^(?:see|please|note|important|warning|example|usage|default|required|optional|brought|powered)\b|"
    r"\b(?:null|deprecated|api[ -]?key|free|pric(?:e|es|ing) (?:plan|tier)|contact us|visit|documentation)\b|\bsubscri|"
    r"\b(?:on|by|with|of|to|for|from|in|the|an?|and|or|as|is|are|like|including)\W*$",
    re.IGNORECASE,
)
"""Markup, headings, advertising, and what points at other text or breaks off."""
_NEEDS_CONTEXT = re.compile(
    r"^(?:it|its|they|their|these|those|that|such|he|she|otherwise|however|also|instead|then|therefore|thus|besides|"
    r"alternatively|for example|for instance|in this case|in addition|additionally|furthermore|after that|if so|if not|"
    r"to do (?:so|this)|and|or|but|so|only|"
    r"this(?! (?:operation|action|api|method|endpoint|tool|request|call|function|command|service)\b))\b",
    re.IGNORECASE,
)
_NO_PURPOSE = re.compile(
    r"^(?:when|if|before|after|once|while|you|we|by default|to|note|because|since|unless|until|each|there|"
    r"this \w+ (?:applies|works|is (?:only|not)|requires|must|can only|can't|cannot))\b",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(r"\b\w*[a-z0-9][A-Z]\w*|\b\w+_\w+")


@dataclass(frozen=True)
class Input:
    """A top-level parameter.

    Args:
        name: as the schema spells it.
        words: in words.
        is_required: it must be given.
        kind: JSON type; "" where the schema names none or several.
    """

    name: str
    words: str
    is_required: bool
    kind: str


@dataclass(frozen=True)
class ToolFacts:
    """What one tool's record says.

    Args:
        tool: the record.
        within: words of the description that are read for sentences; None reads all.
    """

    tool: Tool
    within: int | None = WITHIN

    @cached_property
    def name_words(self) -> frozenset[str]:
        """Words of service and name, and their stems: what gives a tool away."""
        words = tokens(split_words(self.tool.name)) + tokens(split_words(self.tool.group))
        return frozenset(stem(w) for w in words)

    @cached_property
    def _said(self) -> tuple[tuple[int, str], ...]:
        """Sentences fit to stand alone, each with its place among all of them."""
        found, read = [], 0
        for place, sentence in enumerate(sentences(self.tool.description)):
            read += len(sentence.split())
            if self.within is not None and read > self.within:
                break
            if self._fits(sentence):
                found.append((place, _finished(sentence)))
        return tuple(found)

    def _fits(self, sentence: str) -> bool:
        """Of a fit length, without markup, without the tool's name, and clear without what stands before it."""
        if not SHORTEST <= len(sentence.split()) <= LONGEST or _UNFIT.search(sentence):
            return False
        return not _NEEDS_CONTEXT.match(sentence) and not self.spells_name(sentence)

    def spells_service(self, text: str) -> bool:
        """Whether the text names the tool's service."""
        return spells(text, self.tool.group)

    def spells_name(self, text: str) -> bool:
        """Whether the text holds the tool's whole name, however its words are joined."""
        name = "".join(tokens(self.tool.name))
        words = tokens(text)
        joined = "".join(words)
        if len(name) >= 6 or " " in split_words(self.tool.name):
            return name in joined
        return name in words or stem(name) in map(stem, words)

    @cached_property
    def purpose(self) -> str | None:
        """The sentence that says what the tool does: the description's first."""
        place, text = self._said[0] if self._said else (1, "")
        return None if place > 0 or _NO_PURPOSE.match(text) or len(stems(text)) < LEAST_STEMS else text

    @cached_property
    def details(self) -> tuple[str, ...]:
        """Further sentences; those that name functions by their identifiers are left out."""
        return tuple(
            text
            for place, text in self._said
            if place > 0 and not _IDENTIFIER.search(text) and len(stems(text)) >= LEAST_DETAIL_STEMS
        )

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """Top-level parameters whose names are words."""
        return tuple(_inputs(self.tool.parameters))

    @cached_property
    def results(self) -> tuple[str, ...]:
        """Top-level fields of the result, in words."""
        return tuple(i.words for i in _inputs(self.tool.returns))

    @property
    def has_closed_inputs(self) -> bool:
        """The schema lists parameters, and says nowhere at its top that others may be given too."""
        return bool(self.inputs) and _is_closed(self.tool.parameters)

    @cached_property
    def names(self) -> tuple[frozenset[str], ...]:
        """Stems of every name in the parameters' schema, at any depth."""
        return tuple({all_stems(name) for name in _names(self.tool.parameters)})

    @cached_property
    def result_names(self) -> tuple[frozenset[str], ...]:
        """Stems of every name in the result's schema, at any depth."""
        return tuple({all_stems(name) for name in _names(self.tool.returns)})

    @cached_property
    def text(self) -> str:
        """The whole record as it is compared."""
        return plain(f"{split_words(self.tool.name)}. {self.tool.description}")

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Stems of all that the record says, names of parameters and results among it."""
        schema = " ".join(split_words(n) for part in (self.tool.parameters, self.tool.returns) for n in _names(part))
        return stems(f"{self.text} {schema}")

    @cached_property
    def actions(self) -> frozenset[str]:
        """Kinds of actions that name and description speak of."""
        return actions(self.text)

    @cached_property
    def sentence_stems(self) -> tuple[frozenset[str], ...]:
        """Stems of each sentence of the whole description."""
        return tuple(stems(sentence) for sentence in sentences(self.tool.description))

    @cached_property
    def _subject(self) -> frozenset[str]:
        """What the tool is about: its name's and first sentence's words, without those that tell what is done to it."""
        first = next(sentences(self.tool.description), "")
        verbs = {stem(w) for text in (split_words(self.tool.name), first) for w in tokens(text)[:1]} & ACTION_STEMS
        return stems(f"{split_words(self.tool.name)} {first}") - verbs

    def states(self, text: str, similarity: float = 0.6) -> bool:
        """Whether the description holds a text, or a sentence that is much like it."""
        own = stems(text)
        return plain(text) in self.text or any(alike(own, other) >= similarity for other in self.sentence_stems)

    def lacks_input(self, words: str) -> bool:
        """Whether a parameter is surely none of this tool's: no name at any depth holds its words or stands in it."""
        return self.has_closed_inputs and not _related(all_stems(words), self.names)

    def lacks_result(self, words: str) -> bool:
        """Whether a field is surely none of the result's, by the same rule."""
        is_known = bool(self.results) and _is_closed(self.tool.returns)
        return is_known and not _related(all_stems(words), self.result_names)

    def contradicts(self, purpose: str, *, is_own_service: bool) -> bool:
        """Whether what another tool does is surely not what this one does.

        Within a service, tools do different things: either the action is of a kind that this record speaks of nowhere
        ("deletes" where it "creates"), or at least a quarter of what it acts on are words that stand nowhere in this
        record. Tools of other services may do the very same in other words: what they act on may share one word with
        the record at most, and none with the tool's own name and first sentence.
        A sentence that the record holds, or nearly, is no contradiction.
        """
        objects = stems(purpose) - ACTION_STEMS
        if not self.tool.description.strip() or not objects or plain(purpose) in self.text:
            return False
        common = objects & self.vocabulary
        if not is_own_service:
            return len(common) <= 1 and len(common) * 2 <= len(objects) and not stems(purpose) & self._subject
        acts = actions(purpose.split()[0])
        if acts and self.actions and not acts & self.actions:
            return True
        return (len(objects) - len(common)) * 4 >= len(objects) and not self.states(purpose)


class Facts:
    """The facts of a catalog's tools, read when they are asked for.

    Args:
        catalog: the tools.
        within: see `ToolFacts`.
    """

    def __init__(self, catalog: Catalog, within: int | None = WITHIN) -> None:
        """Read nothing yet."""
        self._catalog, self._within = catalog, within
        self._services = services(catalog)
        self._read: dict[int, ToolFacts] = {}

    def are_one_service(self, tool: int, other: int) -> bool:
        """Whether two tools are known to be of one service."""
        label = self._services
        return label is not None and bool(label[tool]) and label[tool] == label[other]

    def __getitem__(self, tool: int) -> ToolFacts:
        """Of the tool at a position."""
        if tool not in self._read:
            self._read[tool] = ToolFacts(self._catalog.tools[tool], self._within)
        return self._read[tool]


def _finished(sentence: str) -> str:
    """With a capital at its start and a full stop at its end, so that marks give nothing away."""
    return sentence[:1].upper() + sentence[1:].rstrip(".!;,: ") + ("" if sentence.endswith("?") else ".")


def _inputs(schema: Mapping[str, Any]) -> Iterator[Input]:
    """Properties of a schema whose names are one to `PARAMETER_WORDS` words; what is malformed counts as not given."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return
    required = schema.get("required")
    needed = set(map(str, required)) if isinstance(required, list) else set()
    for name, node in properties.items():
        words = split_words(str(name))
        if re.search("[a-z]{2}", words) and len(words.split()) <= PARAMETER_WORDS:
            kind = node.get("type") if isinstance(node, Mapping) else None
            yield Input(str(name), words, str(name) in needed, kind if isinstance(kind, str) else "")


def _is_closed(schema: Mapping[str, Any]) -> bool:
    """Whether a schema says nowhere at its top that it may hold more than it lists."""
    return not schema.get("additionalProperties") and not schema.get("patternProperties")


def _names(schema: Any) -> Iterator[str]:
    """Every property's name in a schema, at any depth."""
    if isinstance(schema, Mapping):
        for key, node in schema.items():
            if key == "properties" and isinstance(node, Mapping):
                yield from map(str, node)
                for inner in node.values():
                    yield from _names(inner)
            elif key not in ("enum", "required", "description"):
                yield from _names(node)
    elif isinstance(schema, list):
        for node in schema:
            yield from _names(node)


def _related(words: frozenset[str], names: tuple[frozenset[str], ...]) -> bool:
    """Whether one of the names holds all of the words, or the other way round."""
    return any(words <= name or name <= words for name in names)
