"""What a benchmark of tool knowledge holds: requests for tools, multiple-choice and yes/no questions (ToolSense)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from toolsavvy.catalog import Catalog

TIERS = ("easy", "medium", "hard")
"""Of requests, by how many tools they need."""
GOLDS: Mapping[str, tuple[int, int | None]] = {"easy": (1, 1), "medium": (2, 3), "hard": (4, None)}
"""Tier -> fewest and most gold tools."""
OPTIONS = 4
"""Of a multiple-choice question."""


@dataclass(frozen=True)
class RetrievalItem:
    """One request of a realistic retrieval benchmark (RRB).

    Args:
        id: unique in its set.
        query: the request.
        gold: ids of the tools that it needs.
        pool: ids of the tools that its writer chose from, gold ones among them; their order says nothing.
        tier: one of `TIERS`.
        anchor: the tool that it was written for, one of `gold`.
        pattern: which template or prompt made it.
    """

    id: str
    query: str
    gold: tuple[str, ...]
    pool: tuple[str, ...]
    tier: str
    anchor: str
    pattern: str = ""


@dataclass(frozen=True)
class ChoiceItem:
    """One multiple-choice question (MCQ) about "this tool".

    Args:
        id: unique in its set.
        question: without the tool's name.
        correct: the right option.
        wrong: the others, in no meaningful order.
        tool: id of the tool.
        pattern: what kind of question it is.
    """

    id: str
    question: str
    correct: str
    wrong: tuple[str, ...]
    tool: str
    pattern: str = ""

    @property
    def options(self) -> tuple[str, ...]:
        """All options, the right one first: whoever shows them must turn or shuffle them."""
        return (self.correct, *self.wrong)


@dataclass(frozen=True)
class YesNoItem:
    """One yes/no question (QA) about "this tool".

    Args:
        id: unique in its set.
        question: without the tool's name.
        answer: True is yes.
        tool: id of the tool.
        pattern: what kind of question it is; within one, both answers are equally frequent.
    """

    id: str
    question: str
    answer: bool
    tool: str
    pattern: str = ""


@dataclass(frozen=True)
class ToolText:
    """What a benchmark's file says of a tool.

    Args:
        id: the tool's.
        service: provider or API that it belongs to; "" where there is none.
        name: its own name within the service.
        shown: the text that the items' writer saw: our whole document; ToolSense's `tool_description`.
        own: its own description (ToolSense's `api_description`).
    """

    id: str
    service: str
    name: str
    shown: str
    own: str = ""


Item = TypeVar("Item", RetrievalItem, ChoiceItem, YesNoItem)


@dataclass(frozen=True)
class ItemSet(Generic[Item]):
    """Items of one kind and the tools that they speak of.

    Args:
        items: in the file's order.
        tools: tool id -> what is known of it; every tool of every item is there.
        counts: what a reader found odd and how often; no part of what the set is.
    """

    items: tuple[Item, ...]
    tools: Mapping[str, ToolText] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict, compare=False)


def texts_of(catalog: Catalog) -> dict[str, ToolText]:
    """What a catalog says of its tools, as items' files keep it: writers see whole documents."""
    return {
        tool.id: ToolText(tool.id, tool.group, tool.name, document, tool.description)
        for tool, document in zip(catalog.tools, catalog.documents, strict=True)
    }
