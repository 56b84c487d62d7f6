"""What a tool, a query and a catalog are, and the one text that every system sees of a tool."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from string import Formatter
from typing import TYPE_CHECKING, Any

from toolsavvy.errors import UserError

if TYPE_CHECKING:
    from toolsavvy.tasks import TaskSet

# "VPCs" and "IPv4" stay whole: a lone s or v after capitals starts no new word.
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?![sv](?![a-z]))[a-z])")
_SEPARATORS = re.compile(r"[\s_\-./&:]+")
_SORTED = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=dict)
DEFAULT_DOCUMENT = "{name}. {group}. {description} Parameters: {parameters}"
RAW_DOCUMENT = "{raw}"
"""The description as it is, white space included: for sources whose protocol ranks their own text."""


@dataclass(frozen=True)
class Tool:
    """One callable tool; `id` is kept verbatim and is the only key.

    Args:
        id: unique key as the source spells it.
        name: what a person would call it (split only when a document is rendered).
        description: what it does.
        group: service or provider.
        category: a coarser label than group.
        parameters: JSON Schema of the arguments.
        returns: JSON Schema of the result.
        profile: what `catalog.expand` wrote about it, "" without.
    """

    id: str
    name: str
    description: str = ""
    group: str = ""
    category: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    returns: Mapping[str, Any] = field(default_factory=dict)
    profile: str = ""


@dataclass(frozen=True)
class Query:
    """One request and the tools that answer it.

    Args:
        id: unique within its split.
        text: the request.
        relevant: tool id -> grade (> 0).
        instruction: TOOLRET's target-aware retrieval instruction, None where the source has none.
        subset: where it comes from ("short", "verbose", "G1_category", a ToolRet task, ...).
        tier: "easy", "medium", "hard" (ToolSense), or "".
        negatives: ids of tools that the source calls wrong for it (TOOLRET-train), for training alone.
        absent: gold tools that the catalog lacks: nobody can find them, and metrics count them as missed.
    """

    id: str
    text: str
    relevant: Mapping[str, int]
    instruction: str | None = None
    subset: str = ""
    tier: str = ""
    negatives: tuple[str, ...] = ()
    absent: Mapping[str, int] = field(default_factory=dict)

    @property
    def gold(self) -> dict[str, int]:
        """Every gold tool, in the catalog or not: tool id -> grade."""
        return {**self.relevant, **self.absent}


@dataclass(frozen=True)
class Catalog:
    """An ordered set of tools with unique ids.

    Args:
        name: shown in tables and W&B.
        tools: in a fixed order; positions are the indices of every `Ranking`.
        document: template of the one text that all systems see (fields: name group category description parameters
            profile).

    Raises:
        UserError: two tools share an id.
    """

    name: str
    tools: tuple[Tool, ...]
    document: str = DEFAULT_DOCUMENT

    def __post_init__(self) -> None:
        """Refuse duplicate ids: they would make golds ambiguous."""
        if len(self.index) != len(self.tools):
            seen: set[str] = set()
            double = next(t.id for t in self.tools if t.id in seen or seen.add(t.id))
            what, fix = f"tool id {double!r} occurs twice", "give one of the two another id in the catalog's file"
            raise UserError(what, where=f"catalog {self.name}", expected="unique ids", fix=fix)

    def __len__(self) -> int:
        """Number of tools."""
        return len(self.tools)

    @cached_property
    def index(self) -> dict[str, int]:
        """Tool id -> position."""
        return {tool.id: i for i, tool in enumerate(self.tools)}

    @cached_property
    def documents(self) -> tuple[str, ...]:
        """The text of every tool, in order."""
        return tuple(render(tool, self.document) for tool in self.tools)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over every tool and the template: two runs compare only if it is equal."""
        digest = hashlib.sha256(self.document.encode())
        for tool in self.tools:
            record = {k: v for k, v in tool.__dict__.items() if v or k != "profile"}  # none written: as ever
            digest.update(_SORTED.encode(record).encode())
        return digest.hexdigest()


@dataclass(frozen=True)
class RetrievalSet:
    """A catalog with its queries by split.

    Args:
        catalog: the tools.
        splits: split name -> queries. "train" and "validation" are for training; every other split is a test split.
        headline: the test splits of the main table; others are reported as slices of their own.
        audit: counts of oddities found while loading (collisions, duplicates, empty documents, name leaks).
        tasks: parameter tasks (`tasks.TaskSet`) of sources that have them, else None.
    """

    catalog: Catalog
    splits: Mapping[str, tuple[Query, ...]]
    headline: tuple[str, ...] = ()
    audit: Mapping[str, Any] = field(default_factory=dict)
    tasks: TaskSet | None = None

    @property
    def train(self) -> tuple[Query, ...]:
        """Queries that systems may learn from (none where the source has none)."""
        return tuple(self.splits.get("train", ()))

    @property
    def validation(self) -> tuple[Query, ...]:
        """Queries for choosing checkpoints and thresholds."""
        return tuple(self.splits.get("validation", ()))

    @property
    def test_splits(self) -> tuple[str, ...]:
        """Names of the splits that are reported, headline first."""
        others = [s for s in self.splits if s not in ("train", "validation") and s not in self.headline]
        return (*self.headline, *others)


def split_words(name: str) -> str:
    """Spell a snake_case, camelCase or dotted name as lower-case words; applied alike for every system."""
    spaced = _CAMEL.sub(" ", _SEPARATORS.sub(" ", name))
    return " ".join(spaced.split()).lower()


@lru_cache(maxsize=2**16)
def split_name(name: str) -> str:
    """`split_words` of a tool or parameter, which catalogs repeat; of texts nothing is kept."""
    return split_words(name)


def parameter_names(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Top-level parameter names of a JSON Schema, in order."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return tuple(properties) if isinstance(properties, Mapping) else ()


def render(tool: Tool, template: str = DEFAULT_DOCUMENT) -> str:
    """Render a tool's document; an empty field takes the label before it along, `{raw}` alone is taken verbatim."""
    if template == RAW_DOCUMENT:
        return tool.description
    names = ", ".join(map(split_name, parameter_names(tool.parameters)))
    fields = {
        "name": split_name(tool.name),
        "group": tool.group,
        "category": tool.category,
        "description": " ".join(tool.description.split()),
        "raw": tool.description,
        "parameters": names,
        "profile": tool.profile,
    }
    parts = []
    for label, name in _places(template):
        value = fields[name] if name is not None else ""
        if value or name is None:
            parts += [label, value]
    return " ".join("".join(parts).split()).lstrip(" .:,;")


@lru_cache(maxsize=32)
def _places(template: str) -> tuple[tuple[str, str | None], ...]:
    """Each literal text of a template and the field after it."""
    return tuple((label, name) for label, name, _, _ in Formatter().parse(template))


def relevant_indices(catalog: Catalog, queries: Sequence[Query]) -> list[list[int]]:
    """Gold positions of each query, ascending; ids were checked when the set was loaded."""
    return [sorted(catalog.index[t] for t in q.relevant) for q in queries]
