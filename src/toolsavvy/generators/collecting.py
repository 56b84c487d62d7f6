"""Query-tool pairs of several catalogs under ids that cannot collide, and the filters on queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from toolsavvy.catalog import Catalog, Query, RetrievalSet, Tool
from toolsavvy.catalogs.audit import leaks_name
from toolsavvy.catalogs.splits import plain
from toolsavvy.errors import UserError, did_you_mean

_FIRST = ("train", "validation")
"""Of a text that several splits hold, the one that models may have learnt from counts."""


@dataclass(frozen=True)
class Entry:
    """A tool and where it comes from.

    Args:
        tool: under its new id.
        source: name of the source.
        original: its id there.
    """

    tool: Tool
    source: str
    original: str


@dataclass(frozen=True)
class Item:
    """A query and where it comes from.

    Args:
        query: under its new id, golds under theirs; `subset` is the source.
        source: name of the source.
        split: of the source.
    """

    query: Query
    source: str
    split: str


def tool_id(source: str, original: str, *, alone: bool) -> str:
    """A tool's new id: its own if there is one source, else with the source in front."""
    return original if alone else f"{source}/{original}"


def collect(sources: Mapping[str, RetrievalSet], splits: Sequence[str] = ()) -> tuple[list[Entry], list[Item]]:
    """All tools and queries of all sources, in the sources' order; training queries first.

    Args:
        sources: name -> set.
        splits: splits to take queries from; none named: all.

    Raises:
        UserError: no source has any of the splits, or no queries at all.
    """
    alone = len(sources) == 1
    entries = [
        Entry(replace(tool, id=tool_id(name, tool.id, alone=alone)), name, tool.id)
        for name, data in sources.items()
        for tool in data.catalog.tools
    ]
    items = [item for name, data in sources.items() for item in _items(name, data, splits, alone=alone)]
    if not items:
        known = sorted({split for data in sources.values() for split, queries in data.splits.items() if queries})
        raise UserError(
            f"no source has queries in {', '.join(splits) or 'any split'}", where="generator.splits",
            expected=f"some of {', '.join(known)}" if known else "sources with queries",
            fix=did_you_mean(splits[0], known) if splits and known else "choose a catalog with queries",
        )  # fmt: skip
    return entries, items


def _items(name: str, data: RetrievalSet, splits: Sequence[str], *, alone: bool) -> list[Item]:
    """One source's queries under unique ids: their own where it is unique, else with split and then number."""
    order = [*(s for s in _FIRST if s in data.splits), *(s for s in data.splits if s not in _FIRST)]
    rows = [(split, q) for split in order if not splits or split in splits for q in data.splits[split]]
    bare = Counter(q.id for _, q in rows)
    named = Counter((split, q.id) for split, q in rows)
    seen: Counter[tuple[str, str]] = Counter()
    taken = set(bare)
    items = []
    for split, query in rows:
        key = query.id if bare[query.id] == 1 else f"{split}/{query.id}"
        if named[split, query.id] > 1:
            seen[split, query.id] += 1
            key = f"{key}#{seen[split, query.id]}"
        while key != query.id and key in taken:  # somebody's own id may look like this
            key += "'"
        taken.add(key)
        golds = {tool_id(name, t, alone=alone): grade for t, grade in query.relevant.items()}
        wrong = tuple(tool_id(name, t, alone=alone) for t in query.negatives)
        key = tool_id(name, key, alone=alone)
        items.append(Item(replace(query, id=key, relevant=golds, negatives=wrong, subset=name), name, split))
    return items


def filtered(items: Sequence[Item], catalog: Catalog, counts: Counter[str], *, named: bool) -> list[Item]:
    """Queries without the empty ones, with one query per text, and if asked without those that name a gold tool.

    The first of several queries with the same text (but for case and spaces) is kept and gets the golds of all. Golds
    that no catalog has are left out: nobody could find them.

    Args:
        items: queries, golds already rewritten.
        catalog: the tools, to look golds up.
        counts: gets empty_queries, goldless_queries, naming_queries, repeated_queries, absent_golds.
        named: drop queries that spell out the name of a gold tool.
    """
    kept: dict[str, Item] = {}
    for item in items:
        key = plain(item.query.text)
        relevant = {t: g for t, g in item.query.relevant.items() if t in catalog.index}
        counts["absent_golds"] += len(item.query.gold) - len(relevant)
        if not key or not relevant:
            counts["empty_queries" if not key else "goldless_queries"] += 1
        elif named and leaks_name(item.query, catalog):
            counts["naming_queries"] += 1
        elif key in kept:
            counts["repeated_queries"] += 1
            first = kept[key].query
            both = {t: max(first.relevant.get(t, 0), relevant.get(t, 0)) for t in {**first.relevant, **relevant}}
            wrong = tuple(dict.fromkeys((*first.negatives, *item.query.negatives)))
            kept[key] = replace(kept[key], query=replace(first, relevant=both, negatives=wrong))
        else:
            kept[key] = replace(item, query=replace(item.query, relevant=relevant, absent={}))
    return [_without_golds_among_negatives(item, catalog) for item in kept.values()]


def _without_golds_among_negatives(item: Item, catalog: Catalog) -> Item:
    """Merging can make a gold of what was called wrong."""
    query = item.query
    wrong = tuple(t for t in query.negatives if t in catalog.index and t not in query.relevant)
    return replace(item, query=replace(query, negatives=wrong))
