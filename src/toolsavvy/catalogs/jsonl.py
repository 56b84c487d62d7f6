"""A user's own catalog: `tools.jsonl` and `queries*.jsonl`, or the same as Parquet; also what `save` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from toolsavvy.catalog import DEFAULT_DOCUMENT, Query, RetrievalSet, Tool
from toolsavvy.catalogs.building import ToolTable, as_grade, no_gold, retrieval_set
from toolsavvy.catalogs.reading import Record, existing, files, parse, read_jsonl, read_parquet, shorten
from toolsavvy.catalogs.splits import hold_out, share, taught_split
from toolsavvy.errors import UserError

_FILE_SPLIT = re.compile(r"queries[._-](?P<split>.+)")
_DEFAULT_SPLIT = "test"


def load(
    path: str | Path | None = None,
    *,
    queries: str | Path | Sequence[str | Path] | None = None,
    name: str = "jsonl",
    document: str = DEFAULT_DOCUMENT,
    taught_share: float = 1.0,
    train_share: float = 0.0,
    validation_share: float = 0.0,
    seed: int = 0,
) -> RetrievalSet:
    """Load a folder with `tools.jsonl` and `queries*.jsonl`, or one tools file and `queries`.

    A tool: `id`, and at least one of `name` and `description`; optional `group`, `category`, `parameters`, `returns`
    (JSON Schemas). A query: `id`, `text`, `relevant` ([tool ids] or {tool id: grade}); optional `split`, `instruction`,
    `subset`, `tier`, `negatives` ([tool ids]), `absent` (golds that no tool here is: {id: grade}). A query without
    `split` belongs to the split in its file's name (`queries_train.jsonl`), else to "test".

    Args:
        path: the folder or the tools file (.jsonl or .parquet).
        queries: query files or folders, if they are elsewhere.
        name: shown in tables.
        document: template of every tool's text.
        taught_share: used with train_share: share of the tools that get training rows.
        train_share: where no query is marked as train: share of each taught tool's queries to train on.
        validation_share: share of the training queries for validation, where none is marked so.
        seed: of all draws.

    Raises:
        UserError: a file is missing or malformed.
    """
    place = existing(path, "a folder with tools.jsonl, or a tools file")
    source = place if place.is_file() else _tools_file(place)
    tools = ToolTable()
    for record in _records(source):
        tools.add(_tool(record), record)
    if queries is not None:
        splits = read_queries(queries, tools)
    else:
        found = (
            sorted(p for p in place.glob("queries*") if p.suffix in (".jsonl", ".parquet")) if place.is_dir() else []
        )
        splits = read_queries(found, tools)
    splits = complete_splits(splits, taught_share, train_share, validation_share, seed)
    return retrieval_set(name, tools, splits, document=document, headline=headline(splits))


def read_queries(paths: str | Path | Sequence[str | Path] | None, tools: ToolTable) -> dict[str, list[Query]]:
    """Queries by split, from files or folders of our format; nothing without paths.

    Raises:
        UserError: a file is missing or malformed, a gold is unknown, a query has none, or an id repeats in its split.
    """
    listed = [] if paths is None else [paths] if isinstance(paths, str | Path) else list(paths)
    splits: dict[str, list[Query]] = {}
    places: dict[tuple[str, str], str] = {}
    for entry in listed:
        found = existing(entry, "a file of queries", "catalog.queries")
        for file in files(found, "queries*.jsonl", "queries*.parquet", key="catalog.queries"):
            for record in _records(file):
                split, query = _query(record, tools, file)
                first = places.setdefault((split, query.id), record.place)
                if first != record.place:
                    what = f"query id {shorten(query.id)} occurs twice in {split} (first: {first})"
                    raise record.wrong("id", what, "ids unique within a split")
                splits.setdefault(split, []).append(query)
    return splits


def complete_splits(
    splits: Mapping[str, list[Query]], taught_share: float, train_share: float, validation_share: float, seed: int
) -> dict[str, list[Query]]:
    """Draw the splits that the source lacks: all of them if it has but "test" and train_share asks, or validation."""
    shares = {"taught_share": taught_share, "train_share": train_share, "validation_share": validation_share}
    for key, value in shares.items():
        share(value, key)
    if train_share and list(splits) == [_DEFAULT_SPLIT]:
        return taught_split(splits[_DEFAULT_SPLIT], **shares, seed=seed)
    out = dict(splits)
    if "train" in out and "validation" not in out:
        out["train"], out["validation"] = hold_out(out["train"], validation_share, seed)
    return out


def headline(splits: Mapping[str, Sequence[Query]]) -> list[str]:
    """All test splits but drawn queries of taught and untaught tools at once."""
    return [s for s in splits if s not in ("train", "validation", "test_mixed")]


def save(data: RetrievalSet, folder: Path, *, kind: Literal["jsonl", "parquet"] = "jsonl") -> None:
    """Write a set so that `load(folder)` gives the same tools and queries back; each file appears whole or not at all.

    Raises:
        UserError: the folder can't be written.
    """
    tools = [dict(tool.__dict__) for tool in data.catalog.tools]
    queries = [{**q.__dict__, "split": split} for split, rows in data.splits.items() for q in rows]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for stem, rows in (("tools", tools), ("queries", queries)):
            target = folder / f"{stem}.{kind}"
            draft = target.with_name(target.name + ".part")
            try:
                (_write_parquet if kind == "parquet" else _write_jsonl)(rows, draft)
                draft.replace(target)
            finally:
                draft.unlink(missing_ok=True)
    except OSError as fault:
        raise UserError(
            f"can't be written ({fault.strerror})",
            where=str(folder),
            expected="room and the right to write",
            fix="free space or choose another",
        ) from fault


def _write_jsonl(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """One object a line."""
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(json.dumps(row, ensure_ascii=False, default=dict) + "\n" for row in rows)


def _write_parquet(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Columns of text; nested values as JSON, so that every catalog has one schema."""
    import polars

    flat = [{k: _json_or_text(v) for k, v in row.items()} for row in rows]
    names = list(flat[0]) if flat else ["id"]
    polars.DataFrame(flat, schema=dict.fromkeys(names, polars.String)).write_parquet(path)


def _json_or_text(value: Any) -> str | None:
    """Text and null as they are, everything else as JSON."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=dict)


def _records(path: Path) -> Iterator[Record]:
    """Records of a JSONL or Parquet file; JSON in Parquet text columns is read back."""
    if path.suffix != ".parquet":
        yield from read_jsonl(path)
        return
    nested = ("parameters", "returns", "relevant", "negatives", "absent")
    for record in read_parquet(path):
        texts = {key: text for key in nested if isinstance(text := record.value.get(key), str)}
        yield replace(record, value={**record.value, **{k: parse(t, record.where(k)) for k, t in texts.items()}})


def _tools_file(folder: Path) -> Path:
    """The tools file of a folder."""
    for file in ("tools.jsonl", "tools.parquet"):
        if (folder / file).is_file():
            return folder / file
    raise UserError(
        f"{folder} has no tools.jsonl", where="catalog.path", expected="a folder with tools.jsonl", fix="add it"
    )


def _tool(record: Record) -> Tool:
    """A tool of our own format."""
    texts = {key: record.text(key) for key in ("name", "description", "group", "category", "profile")}
    schemas = {key: record.get(key, dict, {}) for key in ("parameters", "returns")}
    return Tool(id=record.text("id", None), **texts, **schemas)


def _query(record: Record, tools: ToolTable, path: Path) -> tuple[str, Query]:
    """A query of our own format and its split."""
    named = _FILE_SPLIT.fullmatch(path.stem)
    split = record.text("split") or (named["split"] if named else _DEFAULT_SPLIT)
    given = record.get("relevant", (list, dict))
    grades = given if isinstance(given, dict) else dict.fromkeys(_ids(given, record), 1)
    relevant = _positive({tools.gold(key, record, "relevant"): grade for key, grade in grades.items()}, record)
    instruction = record.get("instruction", str, None)
    extra = {key: record.text(key) for key in ("subset", "tier")}
    listed = _ids(record.get("negatives", list, []), record, "negatives")
    wrong = tuple(tools.gold(tool_id, record, "negatives") for tool_id in listed)
    absent = _positive(record.get("absent", dict, {}), record, "absent")
    if here := next((tool_id for tool_id in absent if tool_id in tools), None):
        expected = "gold tools that the catalog lacks"
        raise record.wrong("absent", f"{shorten(here)} is in the catalog", expected, "move it to 'relevant'")
    if not relevant and not absent:
        raise no_gold(record, "relevant")
    key, text = record.text("id", None), record.text("text", None)
    return split, Query(key, text, relevant, instruction, **extra, negatives=wrong, absent=absent)


def _positive(grades: Mapping[str, Any], record: Record, field: str = "relevant") -> dict[str, int]:
    """Tool id -> grade, without those of grade 0.

    Raises:
        UserError: a grade is none.
    """
    for tool_id, given in grades.items():
        if isinstance(given, float) or as_grade(given) is None:
            what = f"grade {shorten(given)} of {shorten(tool_id)}"
            raise record.wrong(field, what, "a whole number from 0 to 2147483647")
    return {tool_id: given for tool_id, given in grades.items() if given > 0}


def _ids(given: Sequence[Any], record: Record, field: str = "relevant") -> list[str]:
    """Tool ids of a list, all text."""
    for value in given:
        if not isinstance(value, str):
            raise record.wrong(field, f"{shorten(value)} is no tool id", "a list of texts", "put ids in quotes")
    return list(given)
