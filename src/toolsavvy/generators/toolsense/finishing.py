"""What a finished benchmark leaves in its run's folder: items, audit, data card, sheet for people, prompts, costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from toolsavvy.assets import atomic_write
from toolsavvy.benchmark import ItemSet, RetrievalItem, ToolText
from toolsavvy.catalogs.toolsense_items import write_items
from toolsavvy.config.toolsense import Prices
from toolsavvy.generators.audit import audit
from toolsavvy.generators.cards import AuditReport, data_card, markdown
from toolsavvy.generators.product import Summary
from toolsavvy.generators.sheet import write_sheet
from toolsavvy.generators.toolsense.writing import Written
from toolsavvy.models.chat import Usage
from toolsavvy.tracking.records import to_lines, write_json

CHECKED = 100
"""Items on the sheet for people."""


def item_set(items: Sequence[Any], texts: Mapping[str, ToolText]) -> ItemSet[Any]:
    """Items with the tools that they name: the same as reading their file gives."""
    named = {tool: texts[tool] for item in items for tool in _tools(item)}
    return ItemSet(tuple(items), named)


def _tools(item: Any) -> Iterable[str]:
    """Ids of the tools that an item names."""
    return (*item.pool, *item.gold) if isinstance(item, RetrievalItem) else (item.tool,)


def examine(kind: str, made: ItemSet[Any], seed: int) -> AuditReport:
    """The audit of one benchmark."""
    sets: dict[str, Any] = {kind: made}
    return audit(**sets, seed=seed)


def save(
    folder: Path, kind: str, made: ItemSet[Any], report: AuditReport, written: Written[Any] | None, seed: int
) -> tuple[str, ...]:
    """Write everything, each file whole or not at all.

    Returns:
        Names of the files.
    """
    if written is not None:
        with atomic_write(folder / "generation.jsonl", text=True) as file:
            file.write(to_lines([asdict(attempt) for attempt in written.attempts]))
    write_json(folder / "audit.json", {"name": kind, **report.as_json()})
    with atomic_write(folder / "data_card.md", text=True) as file:
        file.write(markdown(data_card({kind: report})))
    write_sheet(folder / "sheet.csv", {kind: made}, n=CHECKED, seed=seed)
    write_items(folder / f"{kind}.jsonl", made.items, made.tools)
    names = (f"{kind}.jsonl", "audit.json", "data_card.md", "sheet.csv", "sheet_key.csv")
    return (*names, "generation.jsonl") if written is not None else names


def costs(written: Written[Any], prices: Prices) -> dict[str, Any]:
    """For run.json: what writer and judge were asked, and what that cost; null where a price is unknown."""
    spent = [_cost(written.writer, prices, is_judge=False), _cost(written.judge, prices, is_judge=True)]
    total = None if None in spent else sum(part for part in spent if part is not None)
    return {"writer": asdict(written.writer), "judge": asdict(written.judge), "cost": total}


def _cost(usage: Usage, prices: Prices, *, is_judge: bool) -> float | None:
    return prices.cost(usage.prompt_tokens, usage.completion_tokens, is_judge=is_judge)


def counts_table(title: str, counts: Mapping[str, int]) -> Summary:
    """How the items came about."""
    rows = tuple((name.replace("_", " "), f"{count:,}") for name, count in counts.items())
    return Summary(title, ("how it was made", "count"), rows)


def costs_table(kind: str, spent: Mapping[str, Any]) -> Summary:
    """What language models were asked for."""
    names = ("calls", "cached", "failed", "prompt_tokens", "completion_tokens")
    rows = [(side, *(f"{spent[side][name]:,}" for name in names)) for side in ("writer", "judge")]
    cost = "unknown (generator.prices)" if spent["cost"] is None else f"{spent['cost']:.4f}"
    columns = ("model", *(name.replace("_", " ") for name in names))
    return Summary(f"{kind} language models: cost {cost}", columns, tuple(rows))
