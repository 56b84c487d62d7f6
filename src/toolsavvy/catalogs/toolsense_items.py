"""Files of ToolSense's three benchmarks (RRB, MCQ, QA): the released ones and ours go through the same readers."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolsavvy.assets import atomic_write
from toolsavvy.benchmark import GOLDS, OPTIONS, TIERS, ChoiceItem, Item, ItemSet, RetrievalItem, ToolText, YesNoItem
from toolsavvy.catalogs.reading import Record, as_list, as_record, existing, read_jsonl, shorten
from toolsavvy.catalogs.splits import plain
from toolsavvy.errors import UserError, did_you_mean

KINDS = ("rrb", "mcq", "qa")
ANSWERS: Mapping[str, bool] = {"Yes": True, "No": False}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MARKS = {"rrb": "analyzed_tools", "mcq": "wrong_answers", "qa": "answer"}
"""Kind -> field that its records alone have."""


def read_rrb(path: str | Path | None, *, key: str = "generator.rrb") -> ItemSet[RetrievalItem]:
    """Requests for tools; a file without `anchor` has it at the pool's first place, where ToolSense puts its seed tool.

    An anchor that is no gold is kept: the audit counts those. The set's `counts` say how many anchors were assumed, and
    how often a tool's texts differed from those of its first record, which are kept.

    Args:
        path: JSONL of {sample_id, query, tool, analyzed_tools, complexity}, and `anchor` and `pattern` where known;
            `tool` is one object or a list of them.
        key: what the path was given as, for errors.

    Raises:
        UserError: a record breaks the layout or its tier's rule, with file, line and field.
    """
    return _read(path, key, "rrb", _retrieval_item)


def read_mcq(path: str | Path | None, *, key: str = "generator.mcq") -> ItemSet[ChoiceItem]:
    """Multiple-choice questions: {id, question, correct_answer, wrong_answers, tool}, and `pattern` where known.

    Raises:
        UserError: a record breaks the layout, has not four different options, or its right answer is a wrong one too.
    """
    return _read(path, key, "mcq", _choice_item)


def read_qa(path: str | Path | None, *, key: str = "generator.qa") -> ItemSet[YesNoItem]:
    """Yes/no questions: {id, question, answer, tool}, and `pattern` where known; answers are "Yes" or "No" verbatim.

    Raises:
        UserError: a record breaks the layout, or its answer is another word.
    """
    return _read(path, key, "qa", _yes_no_item)


_READERS: Mapping[str, Callable[..., ItemSet[Any]]] = {"rrb": read_rrb, "mcq": read_mcq, "qa": read_qa}


def read_items(kind: str, path: str | Path | None, *, key: str | None = None) -> ItemSet[Any]:
    """Read a file of a kind that is known by its name, one of `KINDS`.

    Raises:
        UserError: there is no such kind, or the file is malformed.
    """
    if kind not in _READERS:
        raise UserError(
            f"unknown kind of benchmark {kind!r}", where=key or "kind", expected=", ".join(KINDS),
            fix=did_you_mean(kind, KINDS),
        )  # fmt: skip
    return _READERS[kind](path, key=key or f"generator.{kind}")


def write_items(path: Path, items: Sequence[Item], texts: Mapping[str, ToolText]) -> None:
    """Write items of any kind in ToolSense's layout, whole or not at all; reading them back gives the same items.

    Args:
        path: JSONL.
        items: in this order; the pool of a request is written in its own order.
        texts: of every tool that they name.

    Raises:
        KeyError: a tool has no text.
    """
    lines = [json.dumps(_layout(item, texts), ensure_ascii=False) + "\n" for item in items]
    with atomic_write(path, text=True) as file:
        file.writelines(lines)


def _layout(item: RetrievalItem | ChoiceItem | YesNoItem, texts: Mapping[str, ToolText]) -> dict[str, Any]:
    """One record."""
    tail = {"pattern": item.pattern} if item.pattern else {}
    if isinstance(item, RetrievalItem):
        gold = [_tool(texts[tool]) for tool in item.gold]
        head = {"sample_id": item.id, "query": item.query, "tool": gold[0] if len(gold) == 1 else gold}
        pool = [_tool(texts[tool]) for tool in item.pool]
        return {**head, "analyzed_tools": pool, "complexity": item.tier, "anchor": item.anchor, **tail}
    if isinstance(item, ChoiceItem):
        answers = {"correct_answer": item.correct, "wrong_answers": list(item.wrong)}
        return {"id": item.id, "question": item.question, **answers, "tool": _tool(texts[item.tool]), **tail}
    answer = "Yes" if item.answer else "No"
    return {"id": item.id, "question": item.question, "answer": answer, "tool": _tool(texts[item.tool]), **tail}


def _tool(text: ToolText) -> dict[str, str]:
    """A tool as ToolSense spells it."""
    return {
        "tool_name": text.id,
        "tool_title": text.service,
        "tool_description": text.shown,
        "api_title": text.name,
        "api_description": text.own,
    }


def tool_text(record: Record) -> ToolText:
    """What a tool's object says, verbatim ("None" too, see `is_blank`).

    Raises:
        UserError: it has no `tool_name`, or a field is no text.
    """
    key = record.text("tool_name", None)
    service, shown, own = (record.text(field) for field in ("tool_title", "tool_description", "api_description"))
    return ToolText(key, service, record.text("api_title", key), shown, own)


def is_blank(text: str) -> bool:
    """Whether a description says nothing; the source also writes "None" as text."""
    return text.strip() in ("", "None")


def gold_records(record: Record) -> list[Record]:
    """A request's gold tools: `tool` is one object in the released easy tier and a list in the others, here in any."""
    golds = record.get("tool", (dict, list))
    return [as_record(gold, record.where("tool")) for gold in (golds if isinstance(golds, list) else [golds])]


def tier_of(record: Record) -> str:
    """A request's tier.

    Raises:
        UserError: there is no such tier.
    """
    tier = record.text("complexity", None)
    if tier not in TIERS:
        raise record.wrong("complexity", f"unknown tier {tier!r}", " or ".join(TIERS))
    return tier


class _Tools:
    """The tools of a file; where texts of one tool differ, the first is kept and the others are counted."""

    def __init__(self) -> None:
        """Start empty."""
        self.texts: dict[str, ToolText] = {}
        self.counts = {"differing_texts": 0}

    def add(self, record: Record) -> str:
        """Remember a tool's text and return its id."""
        text = tool_text(record)
        self.counts["differing_texts"] += self.texts.setdefault(text.id, text) != text
        return text.id


def _read(path: str | Path | None, key: str, kind: str, item: Callable[[Record, _Tools], Item]) -> ItemSet[Item]:
    """All items of a file, with unique ids."""
    field = "sample_id" if kind == "rrb" else "id"
    file = existing(path, "a file of questions or requests (JSONL)", key)
    tools, items, places = _Tools(), list[Item](), dict[str, str]()
    for record in read_jsonl(file):
        _refuse_other_kind(record, kind)
        items.append(item(record, tools))
        if _CONTROL.search(items[-1].id):
            what = f"id {shorten(items[-1].id)} holds control characters"
            raise record.wrong(field, what, "an id that sheets and tables can show", "give it a plain id")
        first = places.setdefault(items[-1].id, record.place)
        if first != record.place:
            what = f"id {shorten(items[-1].id)} occurs twice (first: {first})"
            raise record.wrong(field, what, "unique ids", "give each record its own id")
    return ItemSet(tuple(items), tools.texts, tools.counts)


def _refuse_other_kind(record: Record, kind: str) -> None:
    """Files of the three kinds lie side by side: say so where one is taken for another."""
    own = _MARKS[kind]
    other = next((name for name, mark in _MARKS.items() if mark in record.value and own not in record.value), None)
    if other is not None:
        raise UserError(
            f"a record of kind {other}, not {kind}", where=record.place, expected=f"a record with {own!r}",
            fix=f"name a file of {kind} here, and this one where {other} is asked for",
        )  # fmt: skip


def _retrieval_item(record: Record, tools: _Tools) -> RetrievalItem:
    """One request; its golds come from the pool, and their number fits the tier."""
    key, query, tier = record.text("sample_id", None), record.text("query", None), tier_of(record)
    rows = as_list(record.get("analyzed_tools", list), record.where("analyzed_tools"))
    pool = [tools.add(as_record(row, record.where("analyzed_tools"))) for row in rows]
    gold = [tools.add(row) for row in gold_records(record)]
    for field, ids in (("analyzed_tools", pool), ("tool", gold)):
        _check_unique(record, field, ids)
    stray = next((tool for tool in gold if tool not in pool), None)
    if stray is not None:
        what = f"gold tool {shorten(stray)} is not in the pool"
        raise record.wrong("tool", what, f"one of the {len(pool)} tools of 'analyzed_tools'", _near(stray, pool))
    least, most = GOLDS[tier]
    if len(gold) < least or (most is not None and len(gold) > most):
        wanted = f"{least}" if least == most else f"{least}-{most}" if most else f"{least} or more"
        raise record.wrong("tool", f"{len(gold)} gold tools in tier {tier!r}", f"{wanted}, as tier {tier!r} has")
    anchor = record.text("anchor", pool[0])
    tools.counts["assumed_anchors"] = tools.counts.get("assumed_anchors", 0) + (record.value.get("anchor") is None)
    if anchor not in pool:
        what = f"anchor {shorten(anchor)} is not in the pool"
        raise record.wrong("anchor", what, "the id of one of 'analyzed_tools'", _near(anchor, pool))
    return RetrievalItem(key, query, tuple(gold), tuple(pool), tier, anchor, record.text("pattern"))


def _near(tool: str, pool: Iterable[str]) -> str:
    """A likely typing error, or what to do else."""
    hint = did_you_mean(tool, pool)
    return hint if hint.startswith("did you mean") else "add the tool to the pool, or drop the record"


def _check_unique(record: Record, field: str, ids: Sequence[str]) -> None:
    """No tool stands in one list twice."""
    double = next((tool for tool, n in Counter(ids).items() if n > 1), None)
    if double is not None:
        raise record.wrong(field, f"tool {shorten(double)} stands there twice", "each tool once", "remove one of them")


def _choice_item(record: Record, tools: _Tools) -> ChoiceItem:
    """One multiple-choice question with four different options."""
    key, question, right = (record.text(field, None) for field in ("id", "question", "correct_answer"))
    wrong = as_list(record.get("wrong_answers", list), record.where("wrong_answers"), f"{OPTIONS - 1} texts")
    for answer in wrong:
        if not isinstance(answer, str) or not answer.strip():
            raise record.wrong("wrong_answers", f"{shorten(answer)} is no answer", "texts that are not empty")
    if plain(right) in map(plain, wrong):
        what = f"the correct answer {shorten(right)} is among the wrong ones"
        raise record.wrong("wrong_answers", what, "wrong answers alone", "replace it, or drop the record")
    if len({plain(answer) for answer in wrong}) != OPTIONS - 1 or len(wrong) != OPTIONS - 1:
        distinct = len({plain(answer) for answer in wrong})
        what = f"{len(wrong)} wrong answers" + (f", {distinct} of them different" if distinct < len(wrong) else "")
        raise record.wrong("wrong_answers", what, f"{OPTIONS - 1} different ones: questions have {OPTIONS} options")
    return ChoiceItem(key, question, right, tuple(wrong), _subject(record, tools), record.text("pattern"))


def _yes_no_item(record: Record, tools: _Tools) -> YesNoItem:
    """One yes/no question."""
    key, question, answer = (record.text(field, None) for field in ("id", "question", "answer"))
    if answer not in ANSWERS:
        raise record.wrong("answer", f"the answer is {shorten(answer)}", "'Yes' or 'No', spelled so")
    return YesNoItem(key, question, ANSWERS[answer], _subject(record, tools), record.text("pattern"))


def _subject(record: Record, tools: _Tools) -> str:
    """The tool that a question is about."""
    return tools.add(as_record(record.get("tool", dict), record.where("tool")))
