"""BFCL, the Berkeley Function Calling Leaderboard: records with accepted values, scored by its own rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from toolsavvy import assets, unpacking
from toolsavvy.catalog import DEFAULT_DOCUMENT, Query, RetrievalSet, Tool
from toolsavvy.catalogs.bfcl_records import (
    LANGUAGES,
    Functions,
    flagged,
    instruction_of,
    references_of,
    turn_messages,
    written_call,
)
from toolsavvy.catalogs.building import ToolTable, retrieval_set
from toolsavvy.catalogs.reading import Record, existing, read_jsonl
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.tasks import ParamTask, Reference, TaskSet, Upstream

GROUPS: Mapping[str, tuple[str, ...]] = {
    "non_live": (
        "simple_python", "simple_java", "simple_javascript", "multiple", "parallel", "parallel_multiple",
    ),
    "live": ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple"),
    "hallucination": ("irrelevance", "live_irrelevance", "live_relevance"),
    "executed": ("exec_simple", "exec_multiple", "exec_parallel", "exec_parallel_multiple"),
    "multi_turn": ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param"),
    "chatable": ("chatable",),
}  # fmt: skip
"""Names for several categories; `all` names every one, `scored` the first three groups."""
SCORED = ("non_live", "live", "hallucination")
_LAYOUTS = ("", "bfcl_eval/data", "data", "unused_datasets/question", "bfcl_eval/data/unused_datasets/question")
_CLASSES = {
    "GorillaFileSystem": "gorilla_file_system", "MathAPI": "math_api", "MessageAPI": "message_api",
    "TwitterAPI": "posting_api", "TicketAPI": "ticket_api", "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking", "VehicleControlAPI": "vehicle_control",
}  # fmt: skip
"""Class of a multi-turn record -> file of its functions."""


@dataclass
class _Loaded:
    """What the files gave so far."""

    counts: Counter[str] = field(default_factory=Counter)
    calls: list[ParamTask] = field(default_factory=list)
    records: list[ParamTask] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.functions = Functions(self.counts)


def load(
    path: str | Path | None = None,
    *,
    name: str = "bfcl",
    categories: str | Sequence[str] = "scored",
    wheel: str = "bfcl-eval==2026.3.23",
    document: str = DEFAULT_DOCUMENT,
) -> RetrievalSet:
    """Load BFCL.

    `tasks.records` are whole records: several references for the parallel categories, none where no call is right
    (irrelevance, chatable), any call for live_relevance. `tasks.calls` are in per-call form: one reference each, its
    tool alone, earlier calls of the record as upstream without results. The executed categories' answers are calls in
    Python, compared as objects since nothing is run; of the multi-turn ones only the calls are had, one task each,
    with the conversation so far. Left out: rest, sql, memory, web_search, multi_turn_long_context and
    multi_turn_composite, format_sensitivity, whose answers are states, responses or texts.

    Args:
        path: folder with `BFCL_v4_<category>.json` and `possible_answer/`, or an unpacked wheel; None: the pinned
            wheel.
        name: shown in tables.
        categories: categories, or names of groups of them (`GROUPS`, `scored`, `all`); of a group, those that are
            there.
        wheel: pinned wheel, used without `path`.
        document: template of every tool's text.

    Raises:
        UserError: a category is unknown or absent, or a record is malformed.
    """
    if path is None:
        folder = unpacking.extract(assets.pinned(wheel, "catalog.wheel"), "bfcl_eval/data")
    else:
        folder = existing(path, "the folder of BFCL (BFCL_v4_<category>.json, possible_answer/)")
    loaded = _Loaded()
    for category, file in _chosen(folder, categories):
        before = len(loaded.records), len(loaded.calls)
        _READERS[category](file, category, loaded)
        loaded.counts[f"records {category}"] += len(loaded.records) - before[0]
        loaded.counts[f"calls {category}"] += len(loaded.calls) - before[1]
    tools = ToolTable()
    for tool in loaded.functions.tools.values():
        tools.add(tool, Record({}, str(folder)))
    counts = dict(loaded.counts)
    data = retrieval_set(name, tools, {"test": _queries(loaded)}, document=document, headline=("test",), source=counts)
    tasks = TaskSet(name, tuple(loaded.calls), tuple(loaded.records), counts)
    return replace(data, tasks=tasks)


def _chosen(folder: Path, categories: str | Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Categories and their files, in the order of `GROUPS`."""
    every = tuple(category for group in GROUPS.values() for category in group)
    groups = {**GROUPS, "all": every, "scored": tuple(c for group in SCORED for c in GROUPS[group])}
    asked = [categories] if isinstance(categories, str) else list(categories)
    wanted: dict[str, bool] = {}
    for word in asked:
        if word not in groups and word not in every:
            options = (*every, *groups)
            raise UserError(
                f"unknown category {word!r}", where="catalog.categories", expected="categories or groups of BFCL",
                fix=did_you_mean(str(word), options),
            )  # fmt: skip
        wanted.update({c: wanted.get(c, False) or word in every for c in groups.get(word, (word,))})
    found = {category: file for category in every if category in wanted and (file := _file(folder, category))}
    missing = next((c for c, is_named in wanted.items() if is_named and c not in found), None)
    if missing or not found:
        what = f"{folder} has no BFCL_v4_{missing or '<category>'}.json"
        expected = "BFCL's files, or an unpacked wheel of bfcl-eval"
        raise UserError(what, where="catalog.path", expected=expected, fix="set catalog.path=… or catalog.categories")
    yield from found.items()


def _file(folder: Path, category: str, inside: str = "") -> Path | None:
    """A category's file, wherever the layout has it; of several versions the last."""
    for layout in _LAYOUTS:
        place = folder / layout
        place = place / inside if not inside or layout[-8:] != "question" else place.parent / inside
        if found := sorted(place.glob(f"BFCL_v[0-9]*_{category}.json")):
            named = [file for file in found if file.stem.split("_", 2)[2] == category]
            if named:
                return named[-1]
    return None


def _answers(file: Path, category: str) -> dict[str, Record]:
    """Answers by the id of their question."""
    for folder in (file.parent, file.parent.parent):
        if answers := _file(folder, category, "possible_answer"):
            return {record.text("id", None): record for record in read_jsonl(answers)}
    raise UserError(
        f"no answers to {file.name}", where=str(file.parent), expected=f"possible_answer/{file.name}",
        fix="copy the folder possible_answer beside the questions",
    )  # fmt: skip


def _answer(record: Record, answers: Mapping[str, Record]) -> Record:
    """The answer to a record.

    Raises:
        UserError: there is none.
    """
    key = record.text("id", None)
    if key not in answers:
        raise record.wrong("id", f"no answer for {key!r}", "its line in possible_answer/", "add it, or drop the record")
    return answers[key]


def _accepted(file: Path, category: str, loaded: _Loaded) -> None:
    """Categories whose answers are accepted values."""
    answers, language = _answers(file, category), LANGUAGES.get(category, "python")
    for record in read_jsonl(file):
        tools = loaded.functions.read(record, language)
        references = tuple(references_of(record, _answer(record, answers), tools, language))
        if not references:
            raise _answer(record, answers).wrong("ground_truth", "no call", "at least one call")
        _add(record, category, tools, references, loaded, rule="bfcl", language=language)


def _executed(file: Path, category: str, loaded: _Loaded) -> None:
    """Categories whose answers are calls in Python; compared as objects, not run."""
    answers = _answers(file, category)
    for record in read_jsonl(file):
        tools = loaded.functions.read(record, "python")
        by_name = {tool.name: tool for tool in tools}
        calls = [written_call(str(code), by_name) for code in _answer(record, answers).get("ground_truth", list)]
        kept = [Reference(call.name, call.arguments) for call in calls if call and call.arguments is not None]
        if len(kept) < len(calls) or not kept:
            loaded.counts["left out: answers that are no literal calls"] += 1
            continue
        _add(record, category, tools, tuple(kept), loaded, rule="exact", language="json")


def _add(
    record: Record, category: str, tools: tuple[Tool, ...], references: tuple[Reference, ...], loaded: _Loaded,
    *, rule: str, language: str,
) -> None:  # fmt: skip
    """A record as it is scored, and call by call."""
    key = record.text("id", None)
    text = instruction_of(record, loaded.counts)
    whole = ParamTask(
        key, text, tools, references, source="bfcl", category=category, cluster=key, rule=rule, language=language,
    )  # fmt: skip
    whole = flagged(whole, loaded.counts)
    loaded.records.append(whole)
    earlier: tuple[Upstream, ...] = ()
    for i, reference in enumerate(references):
        own = tuple(tool for tool in tools if tool.name == reference.name)
        task = replace(
            whole, id=key if len(references) == 1 else f"{key}:{i}", tools=own, references=(reference,),
            upstream=earlier, flags=(),
        )  # fmt: skip
        loaded.calls.append(flagged(task, Counter()))
        earlier = (*earlier, Upstream(reference.name, reference.arguments))


def _without_answers(file: Path, category: str, loaded: _Loaded) -> None:
    """Categories that ask for no call, or for any."""
    rule = "any_call" if category == "live_relevance" else "bfcl"
    for number, record in enumerate(read_jsonl(file)):
        tools = loaded.functions.read(record, "python")
        loaded.counts["records_without_id"] += "id" not in record.value
        key = record.text("id", None) if "id" in record.value else f"{category}_{number}"
        text = instruction_of(record, loaded.counts)
        loaded.records.append(
            ParamTask(key, text, tools, (), source="bfcl", category=category, cluster=key, rule=rule, language="python")
        )


def _multi_turn(file: Path, category: str, loaded: _Loaded) -> None:
    """Conversations, call by call; what they do to the state of their classes is not known here."""
    answers, classes = _answers(file, category), {}
    for record in read_jsonl(file):
        answer = _answer(record, answers)
        tools: dict[str, Tool] = {}
        for one in record.get("involved_classes", list):
            if one not in classes:
                classes[one] = _class(file, str(one), record, loaded.functions)
            tools = {**classes[one], **tools}
        _conversation(record, answer, category, tools, loaded)


def _class(file: Path, name: str, record: Record, functions: Functions) -> dict[str, Tool]:
    """The functions of a class, by name."""
    found = file.parent / "multi_turn_func_doc" / f"{_CLASSES.get(name, name)}.json"
    if not found.is_file():
        what = f"no functions of class {name!r}"
        raise record.wrong("involved_classes", what, f"multi_turn_func_doc/{found.name}", "copy that folder too")
    return {tool.name: tool for tool in (functions.one(function, "python") for function in read_jsonl(found))}


def _conversation(record: Record, answer: Record, category: str, tools: Mapping[str, Tool], loaded: _Loaded) -> None:
    """Every call of a conversation as a task: what was said so far, the calls made so far."""
    key, said = record.text("id", None), []
    earlier: tuple[Upstream, ...] = ()
    turns, truths = record.get("question", list), answer.get("ground_truth", list)
    loaded.counts["empty_turns"] += sum(not turn for turn in turns)
    for at, codes in enumerate(truths):
        said += [message["content"] for message in turn_messages(turns[at] if at < len(turns) else [], record)]
        for i, code in enumerate(codes if isinstance(codes, list) else []):
            call = written_call(str(code), tools)
            if call is None or call.arguments is None:
                loaded.counts["left out: answers that are no literal calls"] += 1
                continue
            task = ParamTask(
                f"{key}:{at}:{i}", "\n".join(said), (tools[call.name],), (Reference(call.name, call.arguments),),
                earlier, source="bfcl", category=category, cluster=key, facts={"turn": at},
            )  # fmt: skip
            loaded.calls.append(flagged(task, loaded.counts))
            earlier = (*earlier, Upstream(call.name, call.arguments))


def _queries(loaded: _Loaded) -> list[Query]:
    """Records as retrieval queries: which functions answer them."""
    found = []
    for task in loaded.records:
        names = {reference.name for reference in task.references}
        relevant = {tool.id: 1 for tool in task.tools if tool.name in names}
        if relevant:
            found.append(Query(task.id, task.instruction, relevant, subset=task.category))
    return found


_Reader = Callable[[Path, str, _Loaded], None]
_READERS: Mapping[str, _Reader] = {
    **dict.fromkeys((*GROUPS["non_live"], *GROUPS["live"]), _accepted),
    **dict.fromkeys((*GROUPS["hallucination"], *GROUPS["chatable"]), _without_answers),
    **dict.fromkeys(GROUPS["executed"], _executed),
    **dict.fromkeys(GROUPS["multi_turn"], _multi_turn),
}
