"""The files of the knowing-doing paper's release (2605.14038), read: tables of labels, or its own folders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolsavvy.catalogs.reading import Record, as_record, kind_name, read_json, read_jsonl, read_rows
from toolsavvy.errors import UserError, did_you_mean

KEY = "questions.path"
LABELS, QUESTIONS, PROMPTS = "labels.csv", "questions.jsonl", "prompts.jsonl"
COLUMNS = ("domain", "model", "id", "correct_count", "total_samples", "necessary", "called", "has_output")
SPLITS = {
    "necessary_called": (True, True),
    "necessary_Notcalled": (True, False),
    "unnecessary_called": (False, True),
    "unnecessary_Notcalled": (False, False),
}
"""File of the release -> (its label, whether the model called)."""
_BETWEEN = re.compile(r";(?=\s|$)")


@dataclass(frozen=True)
class Item:
    """What the release says of one question and one model.

    Args:
        id: of the question.
        correct: right answers among the samples.
        samples: answers that were sampled without the tool.
        necessary: the released label.
        called: whether the model called when the tool was offered.
        about: the question's own fields; {} where they are not there.
    """

    id: str
    correct: int
    samples: int
    necessary: bool
    called: bool
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Release:
    """One model on one domain.

    Args:
        items: in the order of the files; ids are unique.
        system: the system prompt that tools were offered with; "" where it is not there.
        tools: function schemas that were offered.
        outputs: id -> the greedy answer with tools offered, where it was released.
    """

    items: tuple[Item, ...]
    system: str = ""
    tools: tuple[Mapping[str, Any], ...] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)


def read_release(path: Path, domain: str | None, model: str | None) -> Release:
    """Read one (domain, model) pair of a folder with `labels.csv`, or with the release's own folders.

    Raises:
        UserError: neither is there, an unknown pair (with what is there), or a bad row, with file, line and field.
    """
    if (path / LABELS).is_file():
        return _from_table(path, domain, model)
    root = next((r for r in (path, path / "raw_data", path / "raw") if _pairs(r)), None)
    if root is None:
        raise UserError(
            f"{path} holds neither {LABELS} nor the release's folders", where=KEY,
            expected=f"{LABELS}, or <domain>/<model>/{next(iter(SPLITS))}.json", fix=f"set {KEY}=…",
        )  # fmt: skip
    domain, model = _chosen(_pairs(root), domain, model)
    return _from_folder(root / domain / model, model)


def _pairs(root: Path) -> list[tuple[str, str]]:
    """(domain, model) pairs of which a folder holds at least one split."""
    folders = {p.parent for name in SPLITS for p in root.glob(f"*/*/{name}.json")}
    return sorted((f.parent.name, f.name) for f in folders)


def _chosen(pairs: Sequence[tuple[str, str]], domain: str | None, model: str | None) -> tuple[str, str]:
    """The pair that was asked for.

    Raises:
        UserError: there is no such domain or model; names those that there are.
    """
    domain = _one_of("domain", domain, dict.fromkeys(d for d, _ in pairs))
    return domain, _one_of("model", model, [m for d, m in pairs if d == domain])


def _one_of(key: str, value: str | None, known: Mapping[str, Any] | Sequence[str]) -> str:
    if value in known:
        return str(value)
    near = did_you_mean(str(value), known) if value else ""
    listed = "one of: " + ", ".join(known)
    raise UserError(
        f"no {key} '{value}' here" if value else "not set", where=f"questions.{key}", expected=listed,
        fix=near if near.startswith("did you mean") else f"set questions.{key}=…",
    )  # fmt: skip


def _from_table(path: Path, domain: str | None, model: str | None) -> Release:
    """`labels.csv`, and beside it what there is of `questions.jsonl`, `prompts.jsonl` and `raw/`."""
    records = list(read_rows(path / LABELS, COLUMNS))
    pairs = dict.fromkeys((r.text("domain", None), r.text("model", None)) for r in records)
    domain, model = _chosen(sorted(pairs), domain, model)
    own = [r for r in records if (r.value["domain"], r.value["model"]) == (domain, model)]
    about = _about(path / QUESTIONS, domain)
    items = [_item(r, about.get(str(r.value["id"]), {}), r, ("necessary", "called")) for r in own]
    shown = {r.value["id"] for r in own if _flag(r, "has_output")}
    outputs = _outputs(path / "raw" / domain / model, model)
    system, tools = _prompt(path / PROMPTS, domain, model)
    kept = {id: text for id, text in outputs.items() if id in shown}
    return Release(_unique(items, own), system, tools, kept)


def _about(path: Path, domain: str) -> dict[str, Mapping[str, Any]]:
    """Id -> the fields of a domain's questions; {} without the file."""
    if not path.is_file():
        return {}
    return {r.text("id", None): _checked(r) for r in read_jsonl(path) if r.text("domain", None) == domain}


def _prompt(path: Path, domain: str, model: str) -> tuple[str, tuple[Mapping[str, Any], ...]]:
    """System prompt and tools of a pair; nothing without the file."""
    for record in read_jsonl(path) if path.is_file() else ():
        if (record.text("domain", None), record.text("model", None)) == (domain, model):
            return record.text("system"), tuple(record.get("function", list, []))
    return "", ()


def _from_folder(folder: Path, model: str) -> Release:
    """The release's own files of one pair."""
    items: list[Item] = []
    records: list[Record] = []
    for name, (necessary, called) in SPLITS.items():
        path = folder / f"{name}.json"
        if not path.is_file():
            raise UserError(
                f"{folder} has no {name}.json", where=KEY, expected=", ".join(f"{n}.json" for n in SPLITS),
                fix="fetch the release again",
            )  # fmt: skip
        for record in _records(path):
            counts = Record(record.get("metadata", dict), f"{record.place}, metadata")
            about = {"question": _asked(record), **_checked(counts)}
            items.append(_item(record, about, counts, (necessary, called)))
            records.append(record)
    first = records[0] if records else None
    system = next((t.get("content", "") for t in _turns(first) if t.get("role") == "system"), "") if first else ""
    tools = tuple(first.get("function", list, [])) if first else ()
    return Release(_unique(items, records), str(system), tools, _outputs(folder, model))


def _records(path: Path) -> Iterator[Record]:
    """The objects of a JSON list, which may be empty: some models never call."""
    values = read_json(path)
    if not isinstance(values, list):
        raise UserError(
            kind_name(type(values)), where=str(path), expected="a list of objects", fix="check which file this is"
        )
    for number, value in enumerate(values, start=1):
        yield as_record(value, f"{path}, record {number}")


def _turns(record: Record) -> list[Mapping[str, Any]]:
    return [turn for turn in record.get("history", list, []) if isinstance(turn, dict)]


def _asked(record: Record) -> str:
    """What the user asked."""
    asked = [turn.get("content") for turn in _turns(record) if turn.get("role") == "user"]
    if not asked or not isinstance(asked[-1], str) or not asked[-1].strip():
        raise record.wrong("history", "no user turn with a text", "turns with role and content")
    return asked[-1].strip()


def _outputs(folder: Path, model: str) -> dict[str, str]:
    """Id -> greedy answer, of the files that are there."""
    found: dict[str, str] = {}
    for label in ("necessary", "unnecessary"):
        path = folder / f"{label}_{model}_outputs.json"
        for record in _records(path) if path.is_file() else ():
            found[record.text("id", None)] = record.get("output", str)
    return found


def _item(record: Record, about: Mapping[str, Any], counts: Record, labels: tuple[bool | str, bool | str]) -> Item:
    """One row; labels are known (by the file), or fields of it.

    Raises:
        UserError: a count that can't be.
    """
    correct, samples = _count(counts, "correct_count"), _count(counts, "total_samples")
    if samples < 1:
        raise counts.wrong("total_samples", "no samples", "at least 1")
    if correct > samples:
        raise counts.wrong("correct_count", f"{correct} of {samples} answers are right", f"0 to {samples}")
    necessary, called = (label if isinstance(label, bool) else _flag(record, label) for label in labels)
    return Item(record.text("id", None), correct, samples, necessary, called, about)


def _count(record: Record, name: str) -> int:
    value = record.get(name, (int, str))
    if isinstance(value, int) and value >= 0:
        return value
    if not isinstance(value, str) or not re.fullmatch(r"\s*\d{1,9}\s*", value, re.ASCII):
        raise record.wrong(name, f"{value!r} is no count", "a whole number from 0")
    return int(value)


def _flag(record: Record, name: str) -> bool:
    value = record.get(name, (int, str))
    if str(value).strip() not in ("0", "1"):
        raise record.wrong(name, f"{value!r} is no label", "0 or 1")
    return str(value).strip() == "1"


def _checked(record: Record) -> Mapping[str, Any]:
    """A question's fields, their types looked at."""
    texts = ("question", "expression", "best_answer", "correct_answers", "incorrect_answers", "category_topic")
    found: dict[str, Any] = {name: record.get(name, str) for name in texts if record.value.get(name) is not None}
    if record.value.get("correct_answer") is not None:
        found["correct_answer"] = record.get("correct_answer", (int, float))
    return found


def answers(about: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Answers that stand in one text with "; " between them."""
    return tuple(dict.fromkeys(part.strip() for part in _BETWEEN.split(about.get(name, "")) if part.strip()))


def _unique(items: Sequence[Item], records: Sequence[Record]) -> tuple[Item, ...]:
    """The items, if no id occurs twice."""
    seen: set[str] = set()
    for item, record in zip(items, records, strict=True):
        if item.id in seen:
            raise record.wrong("id", f"{item.id!r} occurs twice", "each question once", "remove one of them")
        seen.add(item.id)
    return tuple(items)
