"""TOOLRET-train (2503.01763, section 5): rows of a query, the documents that answer it and documents that do not."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from toolsavvy.catalog import RAW_DOCUMENT, Query, RetrievalSet, Tool
from toolsavvy.catalogs.building import ToolTable, retrieval_set
from toolsavvy.catalogs.hub import dataset_folder
from toolsavvy.catalogs.reading import Record, existing, read_jsonl, read_parquet
from toolsavvy.catalogs.splits import hold_out
from toolsavvy.catalogs.toolret import stated_name
from toolsavvy.errors import UserError


def load(
    path: str | Path | None = None,
    *,
    name: str = "toolret_train",
    document: str = RAW_DOCUMENT,
    rows: int | None = None,
    validation_share: float = 0.005,
    test_share: float = 0.005,
    seed: int = 0,
    hub: str = "mangopy",
    revision: str | None = None,
) -> RetrievalSet:
    """Load TOOLRET-train from the hub or from files; its tools are the distinct documents of its rows.

    A row is {query, pos: [document], neg: [document], prompt}: the prompt is the query's instruction, and the negatives
    are `Query.negatives`, for `method.mining.given=true`. The set has no test of its own: a share of the rows is held
    out as `test_seen` (their tools have training rows too); the benchmark is `catalog=toolret`.

    Args:
        path: a Parquet or JSONL file, or a folder of them; None asks the hub.
        name: shown in tables.
        document: template of every tool's text; "{raw}" is the documentation verbatim.
        rows: only the first so many; None reads all.
        validation_share: of the rows, held out to choose the epoch.
        test_share: of the rows, held out as `test_seen`.
        seed: of both draws.
        hub: owner of the data set ToolRet-Training-20w.
        revision: commit on the hub; None is the newest.

    Raises:
        UserError: no such file, or a row that is malformed or has no document that answers it.
    """
    if rows is not None and rows < 1:
        raise UserError(
            f"{rows} is out of range", where="catalog.rows", expected="null or at least 1", fix="leave it out"
        )
    if path is None:
        at = dataset_folder(f"{hub}/ToolRet-Training-20w", revision, ["*.parquet", "*.jsonl"], key="catalog.hub")
    else:
        at = existing(path, "a file or folder of TOOLRET-train: .parquet or .jsonl of query, pos, neg, prompt")
    table, counts, queries = ToolTable(), Counter[str](), list[Query]()
    for number, record in enumerate(islice(_records(at), rows)):
        queries.append(_query(str(number), record, table, counts))
    kept, test = hold_out(queries, test_share, seed, "test_share")
    train, validation = hold_out(kept, validation_share, seed)
    splits = {"train": train, "validation": validation, "test_seen": test}
    return retrieval_set(name, table, splits, document=document, headline=("test_seen",), source=counts)


def _records(at: Path) -> Iterator[Record]:
    """Rows of all files, in the order of their names.

    Raises:
        UserError: there is no file.
    """
    files = [at] if at.is_file() else sorted(p for p in at.rglob("*") if p.suffix in (".parquet", ".jsonl"))
    if not files:
        expected = ".parquet or .jsonl files of query, pos, neg, prompt"
        raise UserError(f"{at} holds no rows", where="catalog.path", expected=expected, fix="set catalog.path=…")
    for file in files:
        yield from read_parquet(file) if file.suffix == ".parquet" else read_jsonl(file)


def _query(key: str, record: Record, table: ToolTable, counts: Counter[str]) -> Query:
    """One row; a negative that also answers the query is none."""
    golds = _tools(record, "pos", table)
    if not golds:
        raise record.wrong("pos", "no document answers the query", "at least one document")
    wrong = _tools(record, "neg", table)
    counts["negatives_that_are_golds"] += sum(tool in golds for tool in wrong)
    counts["rows_without_negatives"] += not wrong
    negatives = tuple(tool for tool in wrong if tool not in golds)
    return Query(
        key, record.text("query", None), dict.fromkeys(golds, 1), record.text("prompt") or None, negatives=negatives
    )


def _tools(record: Record, field: str, table: ToolTable) -> Sequence[str]:
    """Ids of a field's documents, each added once."""
    found: dict[str, None] = {}
    for text in record.get(field, list, []) if field == "neg" else record.get(field, list):
        if not isinstance(text, str) or not text.strip():
            raise record.wrong(field, f"{text!r} is no document", "a list of texts")
        stated = stated_name(text)
        key = f"{stated or 'tool'}:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
        if key not in table:
            table.add(Tool(id=key, name=stated or key, description=text), record, field)
        found[key] = None
    return list(found)
