"""ToolRet (2503.01763): 35 retrieval tasks in three categories over one pooled corpus of tool documents."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from toolsavvy.catalog import RAW_DOCUMENT, Query, RetrievalSet, Tool
from toolsavvy.catalogs.building import ToolTable, as_grade, no_gold, retrieval_set
from toolsavvy.catalogs.hub import dataset_folder
from toolsavvy.catalogs.reading import Record, as_list, as_record, existing, parse, read_jsonl, read_parquet, shorten
from toolsavvy.errors import UserError, did_you_mean

log = logging.getLogger(__name__)

CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "web": (
        "apibank", "apigen", "autotools-food", "autotools-music", "autotools-weather", "mnms", "restgpt-spotify",
        "restgpt-tmdb", "reversechain", "rotbench", "t-eval-dialog", "t-eval-step", "taskbench-daily", "toolace",
        "toolbench", "toolemu", "tooleyes", "toollens", "ultratool",
    ),
    "code": (
        "craft-math-algebra", "craft-tabmwp", "craft-vqa", "gorilla-huggingface", "gorilla-pytorch", "gorilla-tensor",
        "toolink",
    ),
    "customized": (
        "appbench", "gpt4tools", "gta", "metatool", "taskbench-huggingface", "taskbench-multimedia", "tool-be-honest",
        "toolalpaca", "toolbench-sam",
    ),
}  # fmt: skip
"""Category -> its tasks."""
TASKS: Mapping[str, str] = {task: category for category, tasks in CATEGORIES.items() for task in tasks}
"""Task -> its category."""
EXPECTED: Mapping[str, int] = {"queries": 7961, "tools": 44453, "qrels": 14106}
"""What the pinned revisions hold, as MTEB counts them."""
QUERIES_REVISION = "b8c76ad3349ff17497b6bdb28bb5b8f61a0f6445"
TOOLS_REVISION = "e06c38c75612b6536bd959e08cdd345894aba6a7"

_SHARD = re.compile(r"-\d+-of-\d+$")
_KINDS = {"queries": "queries", "toolret-queries": "queries", "tools": "tools", "toolret-tools": "tools"}
_LAYOUT = "queries/<task>*.parquet and tools/<category>*.parquet, or <task>/queries*.parquet …; .jsonl likewise"
_NAMES = ("name", "api_name", "tool_name", "title")
Files = Mapping[str, Sequence[Path]]
"""Task or category -> its files."""


def load(
    path: str | Path | None = None,
    *,
    name: str = "toolret",
    document: str = RAW_DOCUMENT,
    tasks: Sequence[str] | None = None,
    category: str = "all",
    corpus: str = "pooled",
    allow_missing_gold: bool = False,
    hub: str = "mangopy",
    queries_revision: str | None = QUERIES_REVISION,
    tools_revision: str | None = TOOLS_REVISION,
) -> RetrievalSet:
    """Load ToolRet from the hub or a folder; all queries are `test`, a query's subset is its task.

    By protocol a system sees a tool's `documentation` as it is, and every query searches all tools. Ids of queries are
    written `task:id`. The whole benchmark is counted against MTEB's counts, and a part of it is called one: both lines
    are in the audit.

    Args:
        path: a folder of Parquet or JSONL files of the hub's schema, as `queries/<task>*`, `<task>/queries*`,
            `tools/<category>*` or `<category>/tools*`, below `ToolRet-Queries/` and `ToolRet-Tools/` or not; None asks
            the hub.
        name: shown in tables.
        document: template of every tool's text; "{raw}" is the documentation verbatim.
        tasks: some of `TASKS`; None is all that are there.
        category: all | web | code | customized: whose tasks.
        corpus: pooled (all tools) | category (those of the chosen tasks' category alone).
        allow_missing_gold: keep gold tools that the corpus lacks as tools that nobody finds; an error otherwise.
        hub: owner of the data sets ToolRet-Queries and ToolRet-Tools.
        queries_revision: commit of ToolRet-Queries.
        tools_revision: commit of ToolRet-Tools.

    Raises:
        UserError: an unknown task or category, a file that is missing or malformed, labels that are no JSON, an id
            with two documents, or a gold tool that is not in the corpus.
    """
    wanted = _wanted_tasks(tasks, category)
    if path is None:
        queries_at = dataset_folder(f"{hub}/ToolRet-Queries", queries_revision, ["*.parquet"], key="catalog.hub")
        tools_at = dataset_folder(f"{hub}/ToolRet-Tools", tools_revision, ["*.parquet"], key="catalog.hub")
    else:
        queries_at = tools_at = existing(path, f"a folder of ToolRet ({_LAYOUT})")
    by_task = _chosen(_files(queries_at, "queries", TASKS), wanted, strict=tasks is not None, at=queries_at)
    by_category = _corpus(_files(tools_at, "tools", CATEGORIES), corpus, by_task, tools_at)
    counts: Counter[str] = Counter()
    table = _read_tools(by_category, counts)
    queries = _read_queries(by_task, table, counts, allow_missing_gold)
    data = retrieval_set(name, table, {"test": queries}, document=document, headline=("test",), source=counts)
    return _compared(data, set(by_task), set(by_category))


def _wanted_tasks(tasks: Sequence[str] | None, category: str) -> tuple[str, ...]:
    """The tasks that the options name.

    Raises:
        UserError: an unknown category or task, a task of another category, or none at all.
    """
    if category != "all" and category not in CATEGORIES:
        raise UserError(
            f"unknown category {category!r}", where="catalog.category", expected="all, web, code or customized",
            fix=did_you_mean(category, ("all", *CATEGORIES)),
        )  # fmt: skip
    ours = tuple(TASKS) if category == "all" else CATEGORIES[category]
    if tasks is None:
        return ours
    for task in tasks:
        if task not in TASKS:
            fix = did_you_mean(task, TASKS)
            raise UserError(f"unknown task {task!r}", where="catalog.tasks", expected="some of the 35 tasks", fix=fix)
        if task not in ours:
            what = f"task {task!r} is of category {TASKS[task]}, not {category}"
            fix = f"leave it out, or set catalog.category={TASKS[task]}"
            raise UserError(what, where="catalog.tasks", expected=f"some of {', '.join(ours)}", fix=fix)
    if not tasks:
        raise UserError("no task is chosen", where="catalog.tasks", expected="null or a list of tasks", fix="name one")
    return tuple(dict.fromkeys(tasks))


def _files(folder: Path, kind: str, known: Mapping[str, object]) -> dict[str, list[Path]]:
    """Source files of one kind by task or category, whatever of the layouts they are in.

    Raises:
        UserError: none is there, or one is of no known task or category.
    """
    found: dict[str, list[Path]] = {}
    for file in sorted(p for p in folder.rglob("*") if p.suffix in (".parquet", ".jsonl") and p.is_file()):
        words = [*file.relative_to(folder).parent.parts, _SHARD.sub("", file.stem)]
        words = [word.lower().replace("_", "-") for word in words]
        kinds = {_KINDS[word] for word in words if word in _KINDS}
        names = [word for word in words if word not in _KINDS and word != "data"]
        if kinds != {kind}:
            continue
        owner = next((word for word in reversed(names) if word in known), None)
        if owner is None:
            what = f"the file is of no known {'task' if kind == 'queries' else 'category'}"
            fix = did_you_mean(names[-1] if names else "", known) + " Rename the file or take it out."
            raise UserError(what, where=str(file), expected=_LAYOUT, fix=fix)
        found.setdefault(owner, []).append(file)
    if not found:
        raise UserError(f"{folder} holds no {kind}", where="catalog.path", expected=_LAYOUT, fix="set catalog.path=…")
    return found


def _chosen(files: Files, wanted: Sequence[str], *, strict: bool, at: Path) -> dict[str, Sequence[Path]]:
    """The files of the wanted tasks; `strict` asks for all of them.

    Raises:
        UserError: one is missing, or all are.
    """
    chosen = {task: files[task] for task in wanted if task in files}
    missing = [task for task in wanted if task not in files]
    if missing and (strict or not chosen):
        what = f"{at} holds no queries of {', '.join(missing[:5])}"
        raise UserError(what, where="catalog.tasks", expected=f"some of {', '.join(files)}", fix="choose among these")
    return chosen


def _corpus(files: Files, corpus: str, tasks: Mapping[str, object], at: Path) -> dict[str, Sequence[Path]]:
    """The files of the corpus.

    Raises:
        UserError: an unknown word, tasks of several categories for one category's corpus, or its files are missing.
    """
    if corpus not in ("pooled", "category"):
        fix = did_you_mean(corpus, ("pooled", "category"))
        raise UserError(f"unknown corpus {corpus!r}", where="catalog.corpus", expected="pooled or category", fix=fix)
    if corpus == "pooled":
        return {category: files[category] for category in CATEGORIES if category in files}
    asked = sorted({TASKS[task] for task in tasks})
    if len(asked) > 1:
        what = f"the tasks are of {len(asked)} categories ({', '.join(asked)}), and each would have another corpus"
        fix = f"choose one: -m catalog.category={','.join(asked)}, or catalog.corpus=pooled"
        raise UserError(what, where="catalog.corpus", expected="tasks of one category", fix=fix)
    if asked[0] not in files:
        what = f"{at} holds no tools of {asked[0]}"
        raise UserError(what, where="catalog.corpus", expected=_LAYOUT, fix="add them, or set catalog.corpus=pooled")
    return {asked[0]: files[asked[0]]}


def _records(files: Sequence[Path]) -> Iterator[Record]:
    """Records of Parquet and JSONL files."""
    for file in files:
        yield from read_parquet(file) if file.suffix == ".parquet" else read_jsonl(file)


def _read_tools(files: Files, counts: Counter[str]) -> ToolTable:
    """The pooled corpus: an id is one tool, wherever it stands; one with two documents is an error."""
    table = ToolTable()
    for category, sources in files.items():
        for record in _records(sources):
            tool = _tool(record, category)
            known = table.tools.get(tool.id)
            if known is not None and known.description == tool.description:
                counts["repeated_tools"] += 1
                continue
            table.add(tool, record, across="an id must have one document; catalog.corpus=category loads one category")
    return table


def _tool(record: Record, category: str) -> Tool:
    """A tool whose description is the documentation verbatim; its name is read from it where that is JSON."""
    field = "documentation" if "documentation" in record.value or "doc" not in record.value else "doc"
    given = record.get(field, (str, dict))
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    key = record.text("id", None)
    return Tool(id=key, name=stated_name(text) or key, description=text, category=category)


def stated_name(documentation: str) -> str:
    """What a JSON document calls its tool; "" where it is no JSON object or has no such field."""
    if not documentation.lstrip().startswith("{"):
        return ""
    try:
        value = json.loads(documentation)
    except (json.JSONDecodeError, RecursionError):
        return ""
    return next((v for k in _NAMES if isinstance(v := value.get(k), str) and v.strip()), "")


def _read_queries(files: Files, table: ToolTable, counts: Counter[str], allow_missing_gold: bool) -> list[Query]:
    """Queries of all tasks in the order of `TASKS`.

    Raises:
        UserError: a gold tool is not in the corpus, unless that is allowed.
    """
    queries: list[Query] = []
    places: dict[str, str] = {}
    lost: list[tuple[Query, Record]] = []
    for task, sources in files.items():
        for record in _records(sources):
            query = _query(record, task, table, counts)
            if query.id in places:
                what = f"query id {shorten(record.value['id'])} occurs twice in {task} (first: {places[query.id]})"
                raise record.wrong("id", what, "ids unique within a task")
            places[query.id] = record.place
            queries.append(query)
            lost += [(query, record)] if query.absent else []
    counts["qrels"] = sum(len(query.gold) for query in queries)
    counts["queries_with_missing_golds"] = len(lost)
    counts["missing_golds"] = sum(len(query.absent) for query, _ in lost)
    if lost and not allow_missing_gold:
        shown = "; ".join(f"{query.id} → {', '.join(query.absent)}" for query, _ in lost[:5])
        more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
        raise lost[0][1].wrong(
            "labels",
            f"gold tools of {len(lost)} queries are not in the corpus: {shown}{more}",
            f"golds among the {len(table)} tools of the corpus",
            "add the tools, or set catalog.allow_missing_gold=true: they then count as missed",
        )
    return queries


def _query(record: Record, task: str, table: ToolTable, counts: Counter[str]) -> Query:
    """One query; an empty text is kept and counted."""
    if "query" not in record.value:
        record.text("query", None)  # says what is missing, and what is there instead
    text, stated = record.text("query"), record.text("category")
    counts["queries_without_text"] += not text.strip()
    counts["queries_whose_category_column_differs"] += bool(stated) and stated.lower() != TASKS[task]
    grades = _labels(record, counts)
    return Query(
        f"{task}:{record.text('id', None)}",
        text,
        {tool: grade for tool, grade in grades.items() if tool in table},
        record.text("instruction") or None,
        subset=task,
        absent={tool: grade for tool, grade in grades.items() if tool not in table},
    )


def _labels(record: Record, counts: Counter[str]) -> dict[str, int]:
    """Tool id -> grade, from a JSON list (mostly written as text) of {id, relevance}; of repeated ids the highest.

    Raises:
        UserError: it is no JSON, no list of objects, or holds no gold.
    """
    place = record.where("labels")
    given = record.get("labels", (str, list))
    grades: dict[str, int] = {}
    entries = as_list(parse(given, place) if isinstance(given, str) else given, place, "a list of {id, relevance}")
    for number, entry in enumerate(entries, start=1):
        label = as_record(entry, f"{place}, entry {number}")
        tool, given = label.text("id", None), label.get("relevance", (int, float), 1)
        if (grade := as_grade(given)) is None:
            raise label.wrong("relevance", f"grade {shorten(given)}", "a whole number from 0")
        counts["repeated_labels"] += tool in grades
        grades[tool] = max(grade, grades.get(tool, 0))
    golds = {tool: grade for tool, grade in grades.items() if grade > 0}
    if not golds:
        raise no_gold(record, "labels")
    return golds


def _compared(data: RetrievalSet, tasks: set[str], categories: set[str]) -> RetrievalSet:
    """The set, whose audit says whether it is the whole benchmark, and whether the counts are MTEB's."""
    queries = data.splits["test"]
    sizes = {"queries": len(queries), "tools": len(data.catalog), "qrels": sum(len(q.gold) for q in queries)}
    told = ", ".join(f"{n:,} {what}" for what, n in sizes.items())
    if tasks != set(TASKS) or categories != set(CATEGORIES):
        part = f"{len(tasks)} of {len(TASKS)} tasks, tools of {', '.join(sorted(categories))}"
        note = {"only_a_part_of_ToolRet": f"{part}: numbers are not the benchmark's"}
    elif sizes == EXPECTED:
        note = {"the_whole_of_ToolRet": f"{told}: as MTEB counts them"}
    else:
        off = ", ".join(f"{n:,} {k} instead of {EXPECTED[k]:,} ({n - EXPECTED[k]:+,})" for k, n in sizes.items())
        note = {"WARNING_counts_differ_from_MTEB": off}
        log.warning("ToolRet: counts differ from MTEB's: %s", off)
        source = {**data.audit.get("source", {}), **{f"expected_{k}": n for k, n in EXPECTED.items()}}
        note = {**note, "source": source}
    return dataclasses.replace(data, audit={**data.audit, **note})
