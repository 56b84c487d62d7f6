"""Benchmarks with one label for all models: should an offered tool be called? BFCL, When2Call, MetaTool Task 1."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolsavvy import assets, unpacking
from toolsavvy.catalogs.reading import Record, as_list, as_record, existing, files, member, parse, read_json, read_jsonl
from toolsavvy.catalogs.reading import read_records as read_array
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.necessity import wordings
from toolsavvy.necessity.question import Question, QuestionSet
from toolsavvy.necessity.questions.subset import subset

BFCL_FILES: Mapping[str, bool] = {
    "irrelevance": False,
    "live_irrelevance": False,
    "live_relevance": True,
    "simple_python": True,
    "live_simple": True,
}
"""BFCL's files with a tool to call or not -> whether one should be called."""
BFCL_DATA = "bfcl_eval/data"
"""Their folder in the wheel."""
WHEN2CALL_LABELS: Mapping[str, bool] = {
    "tool_call": True,
    "direct": False,
    "request_for_info": False,
    "cannot_answer": False,
}
"""What When2Call wants -> whether that is a call."""
_TYPES = {
    "dict": "object",
    "hashmap": "object",
    "float": "number",
    "double": "number",
    "long": "integer",
    "int": "integer",
    "str": "string",
    "char": "string",
    "bool": "boolean",
    "list": "array",
    "tuple": "array",
    "set": "array",
    "arraylist": "array",
}
"""Types that the sources use -> JSON Schema's; "any" is no type at all."""
_JSON_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_LISTS = ("anyOf", "oneOf", "allOf")


class Labelled:
    """Questions whose `needs_tool` a benchmark gives: true where it wants a call of one of the offered tools.

    BFCL: families are its files. A system turn is put before the user's text; dialogues of several turns, and
    questions without any tool, which nobody could call, are left out. When2Call: asking back and declining are no
    calls; families are groups that share their tools. MetaTool Task 1: a positive is offered the tool it names; the
    negatives, which name none, are offered those same tools, shuffled, so that a tool is as often offered with one
    label as with the other and does not give it away. Its families are the tools.

    Schemas become JSON Schema (`dict` is `object`, `float` is `number`), and characters that servers refuse in a
    function's name become "_". Answers are not checked: there is nothing to compare them with.

    Args:
        path: BFCL's folder of `BFCL_v*_<name>.json` (null is its pinned wheel), MetaTool's folder, or When2Call's JSONL
            file.
        source: bfcl | when2call | metatool.
        n: draw so many questions; null is all.
        seed: of that draw, and of the tools of MetaTool's negatives.

    Raises:
        UserError: on loading, a file that is missing or malformed, with line and field.
    """

    def __init__(
        self, path: str | Path | None = None, source: str = "bfcl", n: int | None = None, seed: int = 0
    ) -> None:
        self.path, self.source, self.n, self.seed = path, source, n, seed

    def load(self) -> QuestionSet:
        """Read the questions."""
        readers = {"bfcl": _bfcl, "when2call": _when2call, "metatool": _metatool}
        if self.source not in readers:
            raise UserError(
                f"no source {self.source!r}", where="questions.source", expected=" | ".join(readers),
                fix=did_you_mean(str(self.source), readers),
            )  # fmt: skip
        counts = Counter[str]()
        if self.path is None and self.source == "bfcl":
            path = unpacking.extract(assets.BFCL, BFCL_DATA)
        else:
            path = existing(self.path, f"the files of {self.source}", key="questions.path")
        questions = [question for _, question in _unique(readers[self.source](path, self.seed, counts))]
        chosen = subset(questions, self.n, self.seed)
        counts["needs_tool"] = sum(bool(q.needs_tool) for q in chosen)
        return QuestionSet(
            name=self.source,
            questions=chosen,
            answer_prompt=wordings.ANSWER["labelled"],
            action_prompts=wordings.action("labelled"),
            checker="none",
            audit=dict(counts),
        )


def _unique(pairs: Iterator[tuple[Record, Question]]) -> Iterator[tuple[Record, Question]]:
    """The questions, none of whose ids repeats."""
    seen: dict[str, str] = {}
    for record, question in pairs:
        if question.id in seen:
            raise record.wrong("id", f"{question.id!r} occurs twice", f"another id than {seen[question.id]}'s")
        seen[question.id] = record.place
        yield record, question


def _bfcl(path: Path, seed: int, counts: Counter[str]) -> Iterator[tuple[Record, Question]]:
    """BFCL: what should be called, or not, is told by the file."""
    there = files(path, "BFCL_v*.json", key="questions.path")
    found = {name: [file for file in there if re.fullmatch(rf"BFCL_v\d+_{name}", file.stem)] for name in BFCL_FILES}
    if not any(found.values()):
        raise UserError(
            f"{path} is none of BFCL's files with a label", where="questions.path",
            expected=" or ".join(f"BFCL_v4_{name}.json" for name in BFCL_FILES), fix="name BFCL's data folder",
        )  # fmt: skip
    for name, needs_tool in BFCL_FILES.items():
        for record in (record for file in found[name] for record in read_jsonl(file)):
            text = _turns(record, counts)
            tools = [_schema(as_record(f, record.where("function"))) for f in record.get("function", list)]
            if text is not None and tools:
                ours = _distinct_names(tools, record, "function")
                yield record, Question(record.text("id", None), text, name, tools=ours, needs_tool=needs_tool)
            counts["without_tools"] += not tools


def _turns(record: Record, counts: Counter[str]) -> str | None:
    """The user's text, a system turn before it; None for a dialogue."""
    place, turns = record.where("question"), record.get("question", list)
    messages = [as_record(message, place) for turn in turns for message in as_list(turn, place, "a list of messages")]
    roles = [message.text("role", None) for message in messages]
    if roles.count("user") != 1 or set(roles) - {"system", "user"}:
        counts["dialogues_left_out"] += 1
        return None
    counts["system_turns"] += len(roles) > 1
    return "\n\n".join(message.text("content", None).strip() for message in messages)


def _when2call(path: Path, seed: int, counts: Counter[str]) -> Iterator[tuple[Record, Question]]:
    """When2Call: only `tool_call` wants a call."""
    for file in files(path, "when2call_test*.jsonl", key="questions.path"):
        for record in read_jsonl(file):
            label = record.text("correct_answer", None)
            if label not in WHEN2CALL_LABELS:
                raise record.wrong("correct_answer", f"{label!r} is no answer", " | ".join(WHEN2CALL_LABELS))
            counts[label] += 1
            parsed = [_listed(tool, record) for tool in record.get("tools", list)]
            counts["without_tools"] += not parsed
            if parsed:
                tools = _distinct_names([_schema(tool) for tool in parsed], record, "tools")
                source = record.text("source_id") or record.text("uuid", None)
                yield (
                    record,
                    Question(
                        id=record.text("uuid", None),
                        text=record.text("question", None),
                        family=re.sub(r"_\d+-(\d+)-\d+$", r"_\1", source),
                        tools=tools,
                        needs_tool=WHEN2CALL_LABELS[label],
                    ),
                )


def _listed(tool: Any, record: Record) -> Record:
    """One of the tools of a record: JSON in a text, or an object."""
    place = record.where("tools")
    return as_record(parse(tool, place) if isinstance(tool, str) else tool, place)


def _metatool(path: Path, seed: int, counts: Counter[str]) -> Iterator[tuple[Record, Question]]:
    """MetaTool's first task; the negatives get the positives' tools, shuffled."""
    descriptions = as_record(
        read_json(member(path, "plugin_des.json", key="questions.path")), str(path / "plugin_des.json")
    )
    records = list(read_array(member(path, "task1_necessity.json", key="questions.path")))
    labels = [_label(record) for record in records]
    named = [record.text("tool", None) for record, label in zip(records, labels, strict=True) if label]
    if not named:
        raise UserError("no positive", where=str(path), expected='records with the label "positive"', fix="check it")
    offered = _shuffled(named, labels.count(False), seed)
    for number, (record, label) in enumerate(zip(records, labels, strict=True)):
        tool = record.text("tool", None) if label else next(offered)
        if tool not in descriptions.value:
            raise record.wrong("tool", f"plugin_des.json has no {tool!r}", "one of its names")
        counts["positive" if label else "negative"] += 1
        schema = _plugin(tool, descriptions.text(tool))
        yield record, Question(f"task1_{number}", record.text("query", None), tool, tools=(schema,), needs_tool=label)


def _label(record: Record) -> bool:
    """Whether MetaTool says that a tool is needed."""
    label = record.text("label", None)
    if label not in ("positive", "negative"):
        raise record.wrong("label", f"{label!r} is no label", "positive | negative")
    return label == "positive"


def _shuffled(named: Sequence[str], count: int, seed: int) -> Iterator[str]:
    """So many of these tools, each as often as it is named there (times one factor), in a random order."""
    rng, pool = random.Random(f"{seed} metatool"), []
    while len(pool) < count:
        pool += rng.sample(named, len(named))
    return iter(pool[:count])


def _plugin(name: str, description: str) -> Mapping[str, Any]:
    """A ChatGPT plug-in as a function that takes a request: the source gives no parameters."""
    request = {"type": "string", "description": "What is wanted of the tool, in words."}
    schema = {"type": "object", "properties": {"request": request}, "required": ["request"]}
    return _wrapped(name, description, schema)


def _schema(record: Record) -> Mapping[str, Any]:
    """A function as OpenAI's API writes it; bare and wrapped ones are read."""
    inner = as_record(record.get("function", dict, record.value), record.where("function"))
    parameters = _json_schema(inner.get("parameters", dict, {}))
    parameters = {"type": "object", "properties": {}, **parameters}
    return _wrapped(inner.text("name", None), inner.text("description"), parameters)


def _wrapped(name: str, description: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """A function schema with a name that servers take."""
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]
    return {"type": "function", "function": {"name": safe, "description": description, "parameters": parameters}}


def _distinct_names(tools: Sequence[Mapping[str, Any]], record: Record, field: str) -> tuple[Mapping[str, Any], ...]:
    """The tools, whose names must differ."""
    names = [tool["function"]["name"] for tool in tools]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise record.wrong(field, f"two tools are called {twice[0]!r}", "tools with different names")
    return tuple(tools)


def _json_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema with JSON Schema's types, all the way down; what is called "type" but is a parameter stays."""
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type" and isinstance(value, str):
            name = _TYPES.get(value.lower(), value.lower())
            found |= {"type": name} if name in _JSON_TYPES else {}
        elif key in _MAPS and isinstance(value, Mapping):
            found[key] = {name: _json_schema(s) if isinstance(s, Mapping) else s for name, s in value.items()}
        elif key in _LISTS and isinstance(value, list):
            found[key] = [_json_schema(s) if isinstance(s, Mapping) else s for s in value]
        elif key in ("items", "additionalProperties", "not") and isinstance(value, Mapping):
            found[key] = _json_schema(value)
        else:
            found[key] = value
    return found
