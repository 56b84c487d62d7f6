"""What a finished TOOLRET-style set shows of itself in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolsavvy.catalog import RetrievalSet
from toolsavvy.generators.leakage import Leakage
from toolsavvy.generators.merging import Merged
from toolsavvy.generators.product import Summary
from toolsavvy.generators.statistics import Statistics


@dataclass(frozen=True)
class Built:
    """A finished set and how it came about.

    Args:
        data: the set.
        merged: tools that were merged.
        counts: stage -> what was counted there.
    """

    data: RetrievalSet
    merged: Merged
    counts: Mapping[str, Mapping[str, int]]


def stage_table(built: Built) -> Summary:
    """What every stage did."""
    rows = [
        (stage, key.replace("_", " "), f"{value:,}")
        for stage, values in built.counts.items()
        for key, value in values.items()
        if value
    ]
    splits = [("split", f"{split} queries", f"{len(rows):,}") for split, rows in built.data.splits.items()]
    return Summary(f"{built.data.catalog.name}: how it was made", ("stage", "what", "count"), (*rows, *splits))


def statistics_table(found: Statistics) -> Summary:
    """Lengths, golds and overlap."""
    rows = [
        (name.replace("_", " "), f"{s.n:,}", *(f"{v:.4g}" for v in (s.mean, s.low, s.median, s.high, s.largest)))
        for name, s in found.spreads.items()
    ]
    title = f"statistics: {found.tools:,} tools, {found.gold_tools:,} of them gold"
    return Summary(title, ("quantity", "n", "mean", "5 %", "median", "95 %", "max"), tuple(rows))


def audit_table(leaks: Sequence[Leakage]) -> Summary:
    """What each test split shares with what is learnt from."""
    columns = (
        "test / learnt from", "queries", "exact", "near", "same instruction", "shared gold tools", "all golds known",
        "same golds", "n-gram", "nearest",
    )  # fmt: skip
    rows = [
        (
            f"{r.test} / {r.train}", f"{r.queries:,}", f"{r.exact:,}", f"{r.near:,}", f"{r.instructions:,}",
            f"{r.shared_tools:,} of {r.gold_tools:,}", f"{r.taught_queries:,}", f"{r.same_golds:,}",
            f"{r.ngram_queries:,}", f"{r.nearest:.2f}",
        )
        for r in leaks
    ]  # fmt: skip
    return Summary("leakage audit", columns, tuple(rows))
