"""StableToolBench: 2,479 RapidAPI endpoints and the solvable queries G1 to G3, in the `G*_query.json` form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from toolsavvy.catalog import DEFAULT_DOCUMENT, Query, RetrievalSet
from toolsavvy.catalogs.building import ToolTable, retrieval_set
from toolsavvy.catalogs.rapidapi import add_api, api_query
from toolsavvy.catalogs.reading import Record, as_record, existing, files, read_jsonl, read_records
from toolsavvy.catalogs.splits import grouped_split


def load(
    path: str | Path | None = None,
    *,
    name: str = "stabletoolbench",
    document: str = DEFAULT_DOCUMENT,
    train_share: float = 0.0,
    validation_share: float = 0.0,
    seed: int = 0,
) -> RetrievalSet:
    """Load StableToolBench from its folder; the source has no training queries, so all are test unless asked.

    Args:
        path: folder with `G*.json` (or `test_instruction/G*.json`) and, if there is one, `catalog.jsonl`.
        name: shown in tables.
        document: template of every tool's text.
        train_share: share of the queries to train on; no gold tool then crosses the splits.
        validation_share: likewise for validation.
        seed: of the split.

    Raises:
        UserError: a file is missing or malformed.
    """
    folder = existing(path, "the folder of StableToolBench (catalog.jsonl, test_instruction/G*.json)")
    tools, counts = ToolTable(), Counter[str]()
    if (folder / "catalog.jsonl").is_file():
        for record in read_jsonl(folder / "catalog.jsonl"):
            add_api(tools, record, counts)
    found = files(folder, "G*.json", "test_instruction/G*.json")
    queries = read_queries(found, tools, counts)
    splits: dict[str, list[Query]] = {"test": queries}
    if train_share or validation_share:
        splits = grouped_split(queries, train_share=train_share, validation_share=validation_share, seed=seed)
    return retrieval_set(name, tools, splits, document=document, headline=("test",), source=counts)


def read_queries(
    paths: Sequence[Path], tools: ToolTable, counts: Counter[str], *, prefixed: bool = False
) -> list[Query]:
    """Queries of `G*.json` files in order; the subset is the file's name. APIs offered with a query join the catalog.

    `prefixed` ids ("G1_query:12") stay unique where every file has its own numbering, as in ToolBench.
    """
    rows: list[tuple[Record, str]] = []
    for path in paths:
        for record in read_records(path):
            for number, api in enumerate(record.get("api_list", list, []), start=1):
                add_api(tools, as_record(api, f"{record.place}, api {number}"), counts)
            rows.append((record, path.stem))
    return [api_query(r, tools, subset, counts, f"{subset}:" if prefixed else "") for r, subset in rows]
