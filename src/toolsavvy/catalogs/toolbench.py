"""ToolBench as ToolGen publishes it: conversations, tool JSON, G1 to G3 as TSV, and the `G*_query.json` form."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from toolsavvy.archives import unpack_tar
from toolsavvy.assets import cache_dir
from toolsavvy.catalog import DEFAULT_DOCUMENT, Query, RetrievalSet, Tool
from toolsavvy.catalogs.building import ToolTable, no_gold, retrieval_set
from toolsavvy.catalogs.rapidapi import add_api
from toolsavvy.catalogs.reading import Record, as_record, existing, read_json, read_records, read_rows, shorten
from toolsavvy.catalogs.splits import grouped_split, hold_out, plain
from toolsavvy.catalogs.stabletoolbench import read_queries
from toolsavvy.errors import UserError

STAGES = ("G1", "G2", "G3")
_TOKEN = re.compile(r"\s*<<(?P<id>.+)>>\s*", re.DOTALL)
_FINISH = "Finish"
_DOCUMENT = re.compile(
    r"Tool Name: (?P<tool>.*?) Tool Description: (?P<about>.*?) Api Name: (?P<api>.*?) Api Description: (?P<text>.*)",
    re.DOTALL,
)
_LAYOUT = "the folder of ToolGen-Datasets (toolgen_atomic_memorization.json, data/toolenv/tools, data/retrieval/G1 …)"


def load(
    path: str | Path | None = None,
    *,
    hub: str | None = None,
    revision: str | None = None,
    name: str = "toolbench",
    document: str = DEFAULT_DOCUMENT,
    stages: Sequence[str] = STAGES,
    candidates: str = "all",
    train_share: float = 0.0,
    validation_share: float = 0.0,
    seed: int = 0,
) -> RetrievalSet:
    """Load ToolBench from a folder or the Hugging Face hub; whatever parts of the layout are there are used.

    Tools: `toolenv/tools/<category>/<tool>.json`, then `*memorization*.json`, `corpus.tsv` and the `api_list`s; ids
    are "tool&&api", verbatim, as inside ToolGen's virtual tokens. Queries: `retrieval/G*/` TSV files,
    `*retrieval*.json` conversations (train; the rows of one query become one set of golds), else `G*_query.json`.

    Args:
        path: the folder; null with `hub`.
        hub: a dataset on the hub instead ("reasonwang/ToolGen-Datasets").
        revision: its commit; null for the newest.
        name: shown in tables.
        document: template of every tool's text.
        stages: which of G1, G2, G3 give queries.
        candidates: "all" tools (multi-domain), or "stages": the tools of the chosen stages' corpora (in-domain).
        train_share: where the source has no train split: share of the queries to train on.
        validation_share: share of train (or, with train_share, of all queries) for validation.
        seed: of all draws.

    Raises:
        UserError: a file is missing or malformed, or no tool or query is found.
    """
    wrong = sorted(set(stages) - set(STAGES))
    if wrong or not stages or isinstance(stages, str):
        raise UserError(
            f"unknown stages {shorten(wrong or stages)}",
            where="catalog.stages",
            expected="G1, G2, G3",
            fix="catalog.stages=[G1,G3]",
        )
    if candidates not in ("all", "stages"):
        raise UserError(
            f"unknown candidates {candidates!r}", where="catalog.candidates", expected="all or stages", fix="choose one"
        )
    root = _download(hub, revision) if hub else existing(path, _LAYOUT)
    if not root.is_dir():
        raise UserError(f"{root} is a file", where="catalog.path", expected=_LAYOUT, fix="name the folder")
    root = _unpacked(root)
    tools, counts = ToolTable(), Counter[str]()
    if candidates == "all":
        _all_tools(root, tools, counts)
    splits = _tsv_splits(root, stages, tools, counts)
    _conversations(root, splits, tools, counts, strict=candidates == "all")
    splits = splits or _instructions(root, stages, tools, counts)
    if not any(splits.values()):
        raise UserError(
            f"{root} holds no queries",
            where="catalog.path",
            expected=_LAYOUT + ", or G*_query.json",
            fix="set catalog.path=…",
        )
    if "train" in splits:
        splits["train"], splits["validation"] = hold_out(splits["train"], validation_share, seed)
    elif train_share or validation_share:
        rows = [q for queries in splits.values() for q in queries]
        splits = grouped_split(rows, train_share=train_share, validation_share=validation_share, seed=seed)
    headline = [s for s in splits if s not in ("train", "validation")]
    return retrieval_set(name, tools, splits, document=document, headline=headline, source=counts)


def _all_tools(root: Path, tools: ToolTable, counts: Counter[str]) -> None:
    """The tools of the memorization rows, with schemas from the tool JSON; all of the latter where there are no rows.

    ToolGen strips names when it makes tokens, so taking both lists whole would double tools.
    """
    details = ToolTable()
    for file in sorted(root.rglob("toolenv/tools/*/*.json")):
        for record in _tool_file(as_record(read_json(file), str(file)), file.parent.name):
            add_api(details, record, counts)
    rows = [record for file in sorted(root.rglob("*memorization*.json")) for record in read_records(file)]
    for record in rows:
        user, answer = _turns(record)
        key = _token(answer, record)
        counts["repeated_memorization_rows"] += key in tools
        if key not in tools and key != _FINISH:
            counts["memorized_without_tool_file"] += bool(details.tools) and key not in details
            tools.add(details.tools.get(key) or _memorized(key, user), record, "conversations")
    if rows:
        counts["tool_files_without_memorization"] = len(details.tools.keys() - tools.tools.keys())
        return
    tools.tools.update(details.tools)
    tools.places.update(details.places)


def _tool_file(record: Record, category: str) -> Iterator[Record]:
    """The APIs of one `toolenv/tools/<category>/<tool>.json`, in the form of an `api_list`."""
    tool_name = record.text("tool_name") or record.text("title") or record.text("name", None)
    for number, value in enumerate(record.get("api_list", list, []), start=1):
        api = as_record(value, f"{record.place}, api {number}")
        texts = (api.text("description"), record.text("tool_description"))
        row = {
            **api.value,
            "category_name": category,
            "tool_name": tool_name,
            "api_name": api.text("name", None),
            "api_description": "\n".join(t for t in texts if t.strip()),
            "template_response": api.value.get("schema"),
        }
        yield Record(row, api.place)


def _memorized(key: str, text: str) -> Tool:
    """A tool of a memorization row; "None." stands for a missing text."""
    tool, _, api = key.partition("&&")
    found = _DOCUMENT.fullmatch(text.strip())
    if found is None:
        return Tool(id=key, name=api or key, description=text, group=tool)
    parts = [re.sub(r"^None\.?$", "", found[k].strip()) for k in ("text", "about")]
    return Tool(id=key, name=api or key, description="\n".join(filter(None, parts)), group=tool)


def _turns(record: Record) -> tuple[str, str]:
    """The first user and assistant texts; roles by `role`/`content` or `from`/`value`."""
    texts: dict[str, str] = {}
    for value in record.get("conversations", list):
        turn = as_record(value, record.where("conversations"))
        role = turn.text("role") or turn.text("from")
        said = turn.text("content" if "content" in turn.value else "value")
        texts.setdefault({"human": "user", "gpt": "assistant"}.get(role, role), said)
    for role in ("user", "assistant"):
        if not texts.get(role, "").strip():
            raise record.wrong("conversations", f"no {role} turn with text", "a user and an assistant turn")
    return texts["user"], texts["assistant"]


def _token(answer: str, record: Record) -> str:
    """The tool id inside a virtual token."""
    found = _TOKEN.fullmatch(answer)
    if found is None:
        raise record.wrong("conversations", f"{shorten(answer)} is no virtual token", "<<tool&&api>>")
    return found["id"]


def _conversations(
    root: Path, splits: dict[str, list[Query]], tools: ToolTable, counts: Counter[str], *, strict: bool
) -> None:
    """Add the retrieval conversations to train, golds of one query text together.

    Not strict: golds outside the chosen stages are dropped and counted, since the file mixes all stages.
    """
    golds: dict[str, dict[str, int]] = {}
    texts: dict[str, str] = {}
    for file in sorted(root.rglob("*_retrieval_*.json")):
        for record in read_records(file):
            user, answer = _turns(record)
            key = _token(answer, record)
            counts["retrieval_rows"] += 1
            if strict or key in tools:
                texts.setdefault(plain(user), user)
                golds.setdefault(plain(user), {})[tools.gold(key, record, "conversations")] = 1
            else:
                counts["retrieval_rows_outside_the_stages"] += 1
    known = {plain(q.text) for q in splits.get("train", [])}
    rows = [Query(f"chat{i}", texts[t], golds[t], subset="chat") for i, t in enumerate(texts) if t not in known]
    if rows:
        splits["train"] = splits.get("train", []) + rows


def _tsv_splits(root: Path, stages: Sequence[str], tools: ToolTable, counts: Counter[str]) -> dict[str, list[Query]]:
    """Splits of `retrieval/G*/`: "train", and one test split a query file ("test", "test_G1_instruction", …)."""
    splits: dict[str, list[Query]] = {}
    for stage in stages:
        for corpus in sorted(root.rglob(f"{stage}/corpus.tsv")):
            ids = _corpus(corpus, tools, counts)
            for file in sorted(corpus.parent.glob("*.query.txt")):
                part = file.name.removesuffix(".query.txt")
                queries = _tsv_queries(file, corpus.parent / f"qrels.{part}.tsv", stage, ids, tools)
                splits.setdefault(part, []).extend(queries)
    return splits


def _corpus(path: Path, tools: ToolTable, counts: Counter[str]) -> dict[str, str]:
    """Document id -> tool id; new tools join the catalog."""
    ids: dict[str, str] = {}
    for row in read_rows(path, ("docid", "document_content"), delimiter="\t"):
        try:
            content = json.loads(row.text("document_content", None))
        except json.JSONDecodeError as fault:
            raise row.wrong("document_content", f"broken JSON: {fault.msg}", "JSON of one API") from fault
        ids[row.text("docid", None)] = add_api(tools, as_record(content, row.where("document_content")), counts)
    return ids


def _tsv_queries(path: Path, qrels: Path, stage: str, ids: dict[str, str], tools: ToolTable) -> list[Query]:
    """Queries of one file with the golds of its qrels; both without header."""
    existing(qrels, f"the qrels of {path.name}")
    golds: dict[str, dict[str, int]] = {}
    for row in read_rows(qrels, ("qid", "useless", "docid", "label"), delimiter="\t", header=False):
        doc = row.text("docid", None)
        if doc not in ids:
            raise row.wrong("docid", f"unknown document {shorten(doc)}", f"a docid of {stage}/corpus.tsv")
        if row.text("label").strip() != "0":
            golds.setdefault(row.text("qid", None), {})[tools.gold(ids[doc], row, "docid")] = 1
    queries = []
    part = path.name.removesuffix(".query.txt")
    subset = part.removeprefix("test_") if part.startswith("test_") else stage
    for row in read_rows(path, ("qid", "query"), delimiter="\t", header=False):
        qid = row.text("qid", None)
        if qid not in golds:
            raise no_gold(row, "qid")
        queries.append(Query(f"{stage}:{qid}", row.text("query", None), golds[qid], subset=subset))
    return queries


def _instructions(root: Path, stages: Sequence[str], tools: ToolTable, counts: Counter[str]) -> dict[str, list[Query]]:
    """Queries of `G*_query.json` and `test_instruction/G*.json`; `test_query_ids/` says which of the former are test.

    Without either, nothing tells training from test queries: all are test.
    """
    files = [p for stage in stages for p in sorted(root.rglob(f"{stage}_query.json"))]
    tests = [p for stage in stages for p in sorted(root.rglob(f"test_instruction/{stage}_*.json"))]
    queries = read_queries(files, tools, counts, prefixed=True)
    held = {f"{stage}_query:{i}" for stage in stages for i in _test_ids(root, stage)}
    test = read_queries(tests, tools, counts, prefixed=True) + [q for q in queries if q.id in held]
    if not test:
        return {"test": queries}
    known = {plain(q.text) for q in test}
    train = [q for q in queries if q.id not in held and plain(q.text) not in known]
    return {"train": train, "test": test} if train else {"test": test}


def _test_ids(root: Path, stage: str) -> list[str]:
    """Ids of the test queries of a stage: JSON lists, or objects with the ids as keys."""
    ids: list[str] = []
    for file in sorted(root.rglob(f"test_query_ids/{stage}_*.json")):
        value = read_json(file)
        if not isinstance(value, list | dict):
            raise UserError(shorten(value), where=str(file), expected="a list of query ids", fix="fetch it again")
        ids += [str(i) for i in value]
    return ids


def _download(hub: str, revision: str | None) -> Path:
    """The dataset's folder in the hub's cache, downloaded where it is not there yet.

    Raises:
        UserError: it can't be had.
    """
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(hub, repo_type="dataset", revision=revision))
    except (OSError, ValueError) as fault:  # the hub's own errors are OSErrors or ValueErrors
        raise UserError(
            f"can't be fetched ({shorten(str(fault), 160)})",
            where=f"catalog.hub={hub}",
            expected="a dataset on the Hugging Face hub, or one in the local cache",
            fix="check name, revision and network, or set catalog.path to a local copy",
        ) from fault
    return folder


def _unpacked(root: Path) -> Path:
    """The folder, or the cache's copy of its `data.tar.gz` beside links to its other files, made once.

    Raises:
        UserError: the archive is broken, or holds paths that lead out of it.
    """
    archive = root / "data.tar.gz"
    if not archive.is_file() or (root / "data").is_dir():
        return root
    stat = archive.resolve().stat()
    key = hashlib.sha256(f"{archive.resolve()} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:16]
    target = cache_dir("assets") / f"toolbench-{key}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as made:
        draft = Path(made) / "whole"
        draft.mkdir()
        unpack_tar(archive, draft)
        for file in root.glob("*.json"):
            (draft / file.name).symlink_to(file.resolve())
        with contextlib.suppress(OSError):  # another run was faster: its copy is as good
            draft.rename(target)
    return target
