"""Seeded splits without leaks: one text, or one gold tool, never ends up on two sides unless it is meant to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np

from toolsavvy.catalog import Query
from toolsavvy.errors import UserError

Unit = list[Query]
"""Queries that share their text and so must share their side."""


def share(value: float, key: str) -> float:
    """A share between 0 and 1.

    Raises:
        UserError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise UserError(
            f"{value!r} is no share", where=f"catalog.{key}", expected="a number from 0 to 1", fix="for example 0.5"
        )
    return float(value)


def hold_out(
    queries: Sequence[Query], part: float, seed: int, key: str = "validation_share"
) -> tuple[list[Query], list[Query]]:
    """Split off about `part` of the queries: (kept, held out), each in the given order.

    Queries of one text stay together, and no more than `part` of all is held out.

    Args:
        queries: all queries.
        part: share to hold out.
        seed: of the draw.
        key: of the catalog's settings that `part` comes from, for the message.

    Raises:
        UserError: `part` is no share.
    """
    units = _units(queries)
    target, held = round(share(part, key) * len(queries)), set()
    for i in _shuffled(len(units), seed):
        if len(held) + len(units[i]) <= target:
            held.update(id(q) for q in units[i])
    return [q for q in queries if id(q) not in held], [q for q in queries if id(q) in held]


def grouped_split(
    queries: Sequence[Query], *, train_share: float, validation_share: float, seed: int
) -> dict[str, list[Query]]:
    """Train, validation and test such that no gold tool and no text crosses from one to another.

    Queries linked by a common gold tool (or text) stay together, so every test tool is unseen in training.
    """
    want = {
        "train": share(train_share, "train_share") * len(queries),
        "validation": share(validation_share, "validation_share") * len(queries),
    }
    if sum(want.values()) > len(queries):
        raise UserError(
            "the shares add up to more than 1",
            where="catalog.train_share",
            expected="train + validation <= 1",
            fix="lower one of them",
        )
    components = _components(queries)
    sides: dict[str, list[int]] = {"train": [], "validation": [], "test": []}
    for i in _shuffled(len(components), seed):
        fitting = (s for s in want if len(sides[s]) + len(components[i]) <= round(want[s]))
        sides[next(fitting, "test")].extend(components[i])
    return {side: [queries[i] for i in sorted(rows)] for side, rows in sides.items()}


def taught_split(
    queries: Sequence[Query], *, taught_share: float, train_share: float, validation_share: float, seed: int
) -> dict[str, list[Query]]:
    """Train, validation, `test_seen` and `test_unseen` by taught tools, as for the AWS catalog.

    A share of the tools is taught. Queries whose golds are all taught go to train, validation and `test_seen`, which
    therefore hold further queries of tools with a training row; queries whose golds are all untaught are `test_unseen`;
    queries with golds of both kinds are `test_mixed`.

    Args:
        queries: all queries.
        taught_share: share of the tools with queries that are taught (at least one).
        train_share: share of a taught tool's queries to train on (at least one).
        validation_share: share of the taught tools' queries for validation, taken from what train leaves.
        seed: of all draws.
    """
    taught = taught_tools(queries, share(taught_share, "taught_share"), seed)
    teachable: list[Unit] = []
    out: dict[str, list[Query]] = {s: [] for s in ("train", "validation", "test_seen", "test_unseen", "test_mixed")}
    for unit in _units(queries):
        golds = {tool for q in unit for tool in q.relevant}
        if golds <= taught:
            teachable.append(unit)
        else:
            out["test_mixed" if golds & taught else "test_unseen"].extend(unit)
    train, rest = _teach(teachable, share(train_share, "train_share"), seed)
    target = share(validation_share, "validation_share") * sum(map(len, teachable))
    for unit in rest:
        side = "validation" if len(out["validation"]) + len(unit) <= round(target) else "test_seen"
        out[side].extend(unit)
    out["train"] = [q for unit in train for q in unit]
    order = {id(q): i for i, q in enumerate(queries)}
    return {side: sorted(rows, key=lambda q: order[id(q)]) for side, rows in out.items()}


def taught_tools(queries: Iterable[Query], taught_share: float, seed: int) -> set[str]:
    """The tools that may have training rows: a seeded share of all tools with queries, at least one."""
    tools = sorted({tool for q in queries for tool in q.relevant})
    count = max(1, round(taught_share * len(tools)))
    return {tools[i] for i in _shuffled(len(tools), seed)[:count]}


def cap_per_tool(queries: Sequence[Query], cap: int | None, seed: int) -> list[Query]:
    """At most `cap` queries for each gold tool, drawn by seed; the order is kept."""
    if cap is None:
        return list(queries)
    if isinstance(cap, bool) or not isinstance(cap, int) or cap < 1:
        raise UserError(
            f"{cap!r} is no cap", where="catalog.cap", expected="a whole number from 1, or null", fix="for example 50"
        )
    counts: Counter[str] = Counter()
    kept = set()
    for i in _shuffled(len(queries), seed):
        if all(counts[tool] < cap for tool in queries[i].relevant):
            counts.update(queries[i].relevant)
            kept.add(i)
    return [q for i, q in enumerate(queries) if i in kept]


def plain(text: str) -> str:
    """Text as it is compared within and across splits: lower case, single blanks."""
    return " ".join(text.lower().split())


def _units(queries: Sequence[Query]) -> list[Unit]:
    """Queries grouped by text."""
    units: dict[str, Unit] = defaultdict(list)
    for query in queries:
        units[plain(query.text)].append(query)
    return list(units.values())


def _teach(units: Sequence[Unit], train_share: float, seed: int) -> tuple[list[Unit], list[Unit]]:
    """Training units and the rest, in seeded order; every gold of the rest has a training row."""
    by_tool: dict[str, list[Unit]] = defaultdict(list)
    frequency = Counter(tool for unit in units for q in unit for tool in q.relevant)
    for i in _shuffled(len(units), seed + 1):
        golds = {tool for q in units[i] for tool in q.relevant}
        by_tool[min(golds, key=lambda t: (frequency[t], t))].append(units[i])
    train: list[Unit] = []
    pool: list[Unit] = []
    for tool in sorted(by_tool):
        count = max(1, round(train_share * len(by_tool[tool])))
        train += by_tool[tool][:count]
        pool += by_tool[tool][count:]
    known = {tool for unit in train for q in unit for tool in q.relevant}
    rest: list[Unit] = []
    for i in _shuffled(len(pool), seed + 2):
        golds = {tool for q in pool[i] for tool in q.relevant}
        (rest if golds <= known else train).append(pool[i])
        known |= golds
    return train, rest


def _components(queries: Sequence[Query]) -> list[list[int]]:
    """Positions of queries linked by a gold tool or a text (union-find), in order of first appearance."""
    parent = list(range(len(queries)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    first: dict[Hashable, int] = {}
    for i, query in enumerate(queries):
        for key in (("text", plain(query.text)), *(("tool", tool) for tool in query.relevant)):
            j = first.setdefault(key, i)
            parent[root(i)] = root(j)
    groups: Mapping[int, list[int]] = defaultdict(list)
    for i in range(len(queries)):
        groups[root(i)].append(i)
    return list(groups.values())


def _shuffled(n: int, seed: int) -> list[int]:
    """A seeded permutation."""
    return np.random.default_rng(seed).permutation(n).tolist()
