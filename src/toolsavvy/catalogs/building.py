"""From records to a checked `RetrievalSet`: unique ids, no textless tools, no gold that does not exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolsavvy.catalog import DEFAULT_DOCUMENT, Catalog, Query, RetrievalSet, Tool, render
from toolsavvy.catalogs.audit import audited
from toolsavvy.catalogs.reading import Record, shorten
from toolsavvy.errors import UserError, did_you_mean


class ToolTable:
    """Tools in the order of their source, each remembered with its place.

    Raises:
        UserError: (from `add`) an id occurs twice, or a tool has neither name nor description.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.tools: dict[str, Tool] = {}
        self.places: dict[str, str] = {}

    def __len__(self) -> int:
        """Number of tools."""
        return len(self.tools)

    def __contains__(self, tool_id: object) -> bool:
        """Whether a tool of this id was added."""
        return tool_id in self.tools

    def add(self, tool: Tool, record: Record, field: str = "id", across: str = "") -> None:
        """Keep a tool; `field` is what the source calls its id, `across` the remedy for one two files share."""
        if not tool.id.strip():
            raise record.wrong(field, "the id is empty", "a unique text", f"fill in {field!r}")
        if tool.id in self.tools:
            first = self.places[tool.id]
            what = f"tool id {shorten(tool.id)} occurs twice (first: {first})"
            elsewhere = first.rsplit(", ", 1)[0] != record.place.rsplit(", ", 1)[0]
            raise record.wrong(
                field, what, "unique ids", across if across and elsewhere else "give each tool its own id"
            )
        if not (tool.name.strip() or tool.description.strip()):
            raise record.wrong("description", f"tool {shorten(tool.id)} has no text", "a name or a description")
        self.tools[tool.id] = tool
        self.places[tool.id] = record.place

    def gold(self, tool_id: str, record: Record, field: str) -> str:
        """The id again, if there is such a tool.

        Raises:
            UserError: there is none.
        """
        if tool_id not in self.tools:
            near = did_you_mean(tool_id, self.tools)
            fix = near if near.startswith("did you mean") else "add the tool to the catalog, or drop this id"
            raise record.wrong(field, f"unknown tool {shorten(tool_id)}", f"one of the {len(self)} tools", fix)
        return tool_id


def as_grade(value: object) -> int | None:
    """A relevance grade: a whole number that every layout can hold (Parquet's and TREC's are of 32 bits), else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**31:  # NaN too
        return None
    return int(value) if value == int(value) else None


def no_gold(record: Record, field: str) -> UserError:
    """The error for a query that no tool answers."""
    return record.wrong(field, "the query has no gold tool", "at least one tool id", "add a tool id or drop the query")


def checked_document(document: str, sample: Tool) -> str:
    """The document template, if it renders.

    Raises:
        UserError: it names an unknown field, or its braces do not match.
    """
    try:
        render(sample, document)
    except (KeyError, IndexError, ValueError, AttributeError) as fault:
        raise UserError(
            f"the template {shorten(document)} does not render ({shorten(fault)})",
            where="catalog.document",
            expected="text with {name} {group} {category} {description} {parameters} {profile}",
            fix=f"for example '{DEFAULT_DOCUMENT}'",
        ) from fault
    return document


def retrieval_set(
    name: str,
    tools: ToolTable,
    splits: Mapping[str, Sequence[Query]],
    *,
    document: str = DEFAULT_DOCUMENT,
    headline: Sequence[str] = (),
    source: Mapping[str, int] | None = None,
) -> RetrievalSet:
    """Put the parts together and audit them; splits without queries are left out.

    Args:
        name: shown in tables.
        tools: the checked tools.
        splits: split name -> queries.
        document: template of every tool's text.
        headline: test splits of the main table, where they hold queries.
        source: what the loader counted on its way.

    Raises:
        UserError: there is no tool, or the template does not render.
    """
    if not len(tools):
        raise UserError(
            "no tool was found", where=f"catalog {name}", expected="at least one tool", fix="check catalog.path"
        )
    rows = tuple(tools.tools.values())
    order = [s for s in ("train", "validation") if s in splits] + [
        s for s in splits if s not in ("train", "validation")
    ]
    kept = {split: tuple(splits[split]) for split in order if splits[split]}
    catalog = Catalog(name, rows, checked_document(document, rows[0]))
    data = RetrievalSet(catalog, kept, tuple(s for s in headline if s in kept))
    return audited(data, **(source or {}))
