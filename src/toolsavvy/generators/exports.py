"""A set in the layouts that others read: our own JSONL, BEIR, MTEB, TREC and ToolRet."""

from __future__ import annotations

import csv
import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolsavvy.catalog import Catalog, Query, RetrievalSet, split_words
from toolsavvy.catalogs.jsonl import save
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.retrieval.trec import query_keys, write_qrels

FORMATS = ("jsonl", "beir", "mteb", "trec", "toolret")


def export(data: RetrievalSet, folder: Path, formats: Sequence[str] = FORMATS, category: str = "customized") -> None:
    """Write a set in several layouts, each in a folder of its own; `folder` appears whole or not at all.

    Args:
        data: the set; its query ids are unique over the splits.
        folder: replaced if it is there.
        formats: some of `FORMATS`.
        category: ToolRet's category of all queries and tools.

    Raises:
        UserError: an unknown format, or none; a split or subset whose name would lead out of the folder.
    """
    _check_names([*data.splits, category, *(q.subset or "" for _, q in _queries(data))])
    writers: dict[str, Callable[[RetrievalSet, Path], None]] = {
        "jsonl": save,
        "beir": write_beir,
        "mteb": write_mteb,
        "trec": write_trec,
        "toolret": lambda data, place: write_toolret(data, place, category),
    }
    check_formats(formats)
    draft = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        for name in formats:
            writers[name](data, draft / name)
        if folder.exists():
            shutil.rmtree(folder)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check_formats(formats: Sequence[str]) -> None:
    """Check the layouts that are asked for, before anything is made that they cannot hold.

    Raises:
        UserError: there is none, or an unknown one.
    """
    for name in formats:
        if name not in FORMATS:
            fix = did_you_mean(name, FORMATS)
            expected = ", ".join(FORMATS)
            raise UserError(f"unknown format {name!r}", where="generator.exports", expected=expected, fix=fix)
    if not formats:
        expected = f"some of {', '.join(FORMATS)}"
        raise UserError("no format is named", where="generator.exports", expected=expected, fix="name one")


def titled(catalog: Catalog) -> list[tuple[str, str]]:
    """Title and text of every tool, so that 'title. text' is its document wherever that starts with the name."""
    rows = []
    for tool, document in zip(catalog.tools, catalog.documents, strict=True):
        rest = document.removeprefix(f"{split_words(tool.name)}. ") if tool.name.strip() else document
        rows.append((tool.name, rest) if rest != document else ("", document))
    return rows


def write_beir(data: RetrievalSet, folder: Path) -> None:
    """`corpus.jsonl`, `queries.jsonl` and `qrels/<split>.tsv`; instructions go into the queries' metadata.

    Our own `beir` loader reads the same ids, documents, queries and golds back.
    """
    titles = titled(data.catalog)
    corpus = [
        {"_id": tool.id, "title": title, "text": text, "metadata": {"group": tool.group, "category": tool.category}}
        for tool, (title, text) in zip(data.catalog.tools, titles, strict=True)
    ]
    queries = [
        {"_id": q.id, "text": q.text, "metadata": {"instruction": q.instruction, "subset": q.subset}}
        for _, q in _queries(data)
    ]
    _jsonl(folder / "corpus.jsonl", corpus)
    _jsonl(folder / "queries.jsonl", queries)
    for split, rows in data.splits.items():
        judged = ((q.id, tool, grade) for q in rows for tool, grade in q.relevant.items())
        _tsv(folder / "qrels" / f"{split}.tsv", [("query-id", "corpus-id", "score"), *judged])


def write_mteb(data: RetrievalSet, folder: Path) -> None:
    """Parquet in the layout of MTEB's instruction retrieval: corpus, queries, qrels and instruction, and a card.

    `load_dataset(folder, "queries", split="test")` reads it: the card names every config's files.
    """
    corpus = [
        {"_id": tool.id, "title": title, "text": text}
        for tool, (title, text) in zip(data.catalog.tools, titled(data.catalog), strict=True)
    ]
    _parquet(folder / "corpus" / "corpus.parquet", corpus, ("_id", "title", "text"))
    for split, rows in data.splits.items():
        queries = [{"_id": q.id, "text": q.text} for q in rows]
        told = [{"query-id": q.id, "instruction": q.instruction or ""} for q in rows]
        judged = [{"query-id": q.id, "corpus-id": t, "score": g} for q in rows for t, g in q.relevant.items()]
        _parquet(folder / "queries" / f"{split}.parquet", queries, ("_id", "text"))
        _parquet(folder / "instruction" / f"{split}.parquet", told, ("query-id", "instruction"))
        _parquet(folder / "qrels" / f"{split}.parquet", judged, ("query-id", "corpus-id"), whole=("score",))
    (folder / "README.md").write_text(_card(data), encoding="utf-8")


def _card(data: RetrievalSet) -> str:
    """The front matter that tells which file is which split of which config."""
    lines = ["---", "configs:", "- config_name: corpus", "  data_files:"]
    lines += ["  - split: corpus", "    path: corpus/corpus.parquet"]
    for config in ("queries", "qrels", "instruction"):
        lines += [f"- config_name: {config}", "  data_files:"]
        for split in data.splits:
            lines += [f"  - split: {split}", f"    path: {config}/{split}.parquet"]
    sizes = ", ".join(f"{len(rows)} {split}" for split, rows in data.splits.items())
    return "\n".join([*lines, "---", f"# {data.catalog.name}", "", f"{len(data.catalog)} tools; queries: {sizes}.", ""])


def write_trec(data: RetrievalSet, folder: Path) -> None:
    """`<split>.qrels`, `<split>.topics.tsv` (id, query) and `<split>.instructions.tsv`; ids are percent-encoded.

    White space within a topic becomes single blanks: a topic is one line.
    """
    keys = query_keys(data.splits)
    for split, rows in data.splits.items():
        write_qrels(folder / f"{split}.qrels", {split: rows})
        topics = [(key, " ".join(q.text.split())) for key, q in zip(keys[split], rows, strict=True)]
        told = [(key, " ".join((q.instruction or "").split())) for key, q in zip(keys[split], rows, strict=True)]
        for name, lines in (("topics", topics), ("instructions", told)):
            text = "".join(f"{key}\t{text}\n" for key, text in lines)
            (folder / f"{split}.{name}.tsv").write_text(text, encoding="utf-8", newline="\n")


def write_toolret(data: RetrievalSet, folder: Path, category: str = "customized") -> None:
    """ToolRet's schema as Parquet: `queries/<task>` of the test splits, `tools/<category>`; training rows beside.

    A query: id, query, instruction, labels (a JSON string: [{id, doc, relevance}]), category. A tool: id,
    documentation (a JSON string). A task is a source; our own `toolret` loader reads those that bear one of its names.
    Training rows are {query, pos, neg, prompt} as in TOOLRET-train.
    """
    documentation = {tool.id: _documentation(data.catalog, i) for i, tool in enumerate(data.catalog.tools)}
    tasks: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for split in data.test_splits:
        for q in data.splits[split]:
            tasks[q.subset or data.catalog.name].append(_toolret_query(q, documentation, category))
    columns = ("id", "query", "instruction", "labels", "category")
    for task, rows in tasks.items():
        _parquet(folder / "queries" / f"{task}.parquet", rows, columns)
    tools = [{"id": key, "documentation": text} for key, text in documentation.items()]
    _parquet(folder / "tools" / f"{category}.parquet", tools, ("id", "documentation"))
    train = [
        {
            "query": q.text,
            "pos": [documentation[t] for t in q.relevant],
            "neg": [documentation[t] for t in q.negatives],
            "prompt": q.instruction or "",
        }
        for q in data.train
    ]
    if train:
        _jsonl(folder / "train" / "train.jsonl", train)


def _toolret_query(query: Query, documentation: Mapping[str, str], category: str) -> dict[str, Any]:
    """One row of a task."""
    labels = [{"id": t, "doc": documentation[t], "relevance": g} for t, g in query.relevant.items()]
    return {
        "id": query.id,
        "query": query.text,
        "instruction": query.instruction or "",
        "labels": json.dumps(labels, ensure_ascii=False),
        "category": category,
    }


def _documentation(catalog: Catalog, place: int) -> str:
    """A tool as ToolRet writes tools: one JSON string."""
    tool = catalog.tools[place]
    parts = {
        "name": tool.name,
        "description": tool.description,
        "group": tool.group,
        "category": tool.category,
        "parameters": tool.parameters,
        "returns": tool.returns,
    }
    return json.dumps({k: v for k, v in parts.items() if v}, ensure_ascii=False, default=dict)


def _check_names(names: Iterable[str]) -> None:
    """Names of splits and subsets become names of files, and a data set chose them."""
    for name in dict.fromkeys(names):
        if name in (".", "..") or set(name) & set("/\\\0\n\r"):
            what, expected = f"{name[:200]!r} can't be the name of a file", "a name without slashes and line ends"
            raise UserError(what, where="a split, subset or category", expected=expected, fix="rename it in the data")


def _queries(data: RetrievalSet) -> Iterable[tuple[str, Query]]:
    """Every query with its split."""
    return ((split, q) for split, rows in data.splits.items() for q in rows)


def _jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """One object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(json.dumps(row, ensure_ascii=False, default=dict) + "\n" for row in rows)


def _tsv(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """Tab-separated; a value with a tab, a quote or a line end is quoted, as BEIR's reader expects."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, delimiter="\t", lineterminator="\n").writerows(rows)


def _parquet(path: Path, rows: Sequence[Mapping[str, Any]], text: Sequence[str], *, whole: Sequence[str] = ()) -> None:
    """Columns of text and of whole numbers."""
    import polars

    path.parent.mkdir(parents=True, exist_ok=True)
    schema = {**dict.fromkeys(text, polars.String), **dict.fromkeys(whole, polars.Int32)}
    polars.DataFrame(list(rows), schema=schema).write_parquet(path)
