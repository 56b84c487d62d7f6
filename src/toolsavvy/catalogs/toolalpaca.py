"""ToolAlpaca (2306.05301), evaluation sets: real and simulated APIs, described by OpenAPI in a string.

Right arguments are JSON in a string, some of it broken: placeholders without quotes (`${id from search}`) and doubled
keys are mended and flagged. No results are released.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolsavvy.calls.lenient import read_arguments
from toolsavvy.catalog import DEFAULT_DOCUMENT, RetrievalSet, Tool
from toolsavvy.catalogs.building import ToolTable, retrieval_set
from toolsavvy.catalogs.calling import Step, Story, query_of, tasks_of
from toolsavvy.catalogs.openapi import operations
from toolsavvy.catalogs.reading import Record, as_record, existing, files, parse, read_records
from toolsavvy.tasks import TaskSet

PLACEHOLDER = "reference_holds_placeholders"
"""Flag: values that the source leaves open, "${start date}"."""
MENDED = "reference_mended"
"""Flag: the reference was no JSON as it stood."""
OPTIONAL = "optional_call"
"""Flag: the source marks the call as one that may be left out."""
_MARK = "[Optional]"
_ASK = "getDetails"
"""An action that asks the user, no function."""
_DEPTH = 8
_BARE = re.compile(r"(?<=[:\[,])(\s*)\$\{([^}\",]*)\}?\"?(?=\s*[,\]}])")
_DOUBLED = re.compile(r"(\"\w+\"\s*:\s*)\1")
_OPEN = re.compile(r"\$?\{[^{}]+\}")


@dataclass(frozen=True)
class _Api:
    """One description.

    Args:
        tools: function name -> tool.
        described: names in its Function_Description.
    """

    tools: Mapping[str, Tool]
    described: frozenset[str]


def load(
    path: str | Path | None = None,
    *,
    name: str = "toolalpaca",
    document: str = DEFAULT_DOCUMENT,
) -> RetrievalSet:
    """Load ToolAlpaca: a query an instruction, a parameter task a call; the source divides nothing.

    A tool is an operation, its id "API/function"; its name is the operationId, else the one that the source makes of
    path and method ("latest_get").

    Args:
        path: folder with `eval_real.json` and `eval_simulated.json`, or one of them.
        name: shown in tables.
        document: template of every tool's text.

    Raises:
        UserError: a file is missing or malformed.
    """
    found = existing(path, "the folder of ToolAlpaca (eval_real.json, eval_simulated.json)")
    tools, counts, odd = ToolTable(), Counter[str](), Counter[str]()
    queries, calls = [], []
    for file in files(found, "eval_*.json"):
        for record in read_records(file):
            api = _api(record, tools, counts)
            for story in _stories(record, api, file.stem.removeprefix("eval_"), odd):
                queries += [query] if (query := query_of(story, api.tools)) else []
                calls += tasks_of(story, api.tools, "toolalpaca", odd)
    data = retrieval_set(name, tools, {"test": queries}, document=document, headline=("test",), source=counts)
    return replace(data, tasks=TaskSet(name, tuple(calls), audit={key: n for key, n in odd.items() if n}))


def _api(record: Record, tools: ToolTable, counts: Counter[str]) -> _Api:
    """The operations of an API."""
    name, place = record.text("Name", None), record.where("Documentation")
    spec = as_record(parse(record.text("Documentation", None), place), place)
    described = frozenset(record.get("Function_Description", dict, {})) - {"components"}
    own: dict[str, Tool] = {}
    for operation, at in operations(spec, _DEPTH, counts):
        function = _function(operation.id)
        tool = replace(
            operation, id=f"{name}/{function}", name=function, group=name, category=record.text("Category"),
            description=operation.description or record.text("Description"),
        )  # fmt: skip
        tools.add(tool, at, "operationId")
        own[function] = tool
    counts["operations_outside_the_function_description"] += len(own.keys() - described)
    counts["functions_without_an_operation"] += len(described - own.keys())
    return _Api(own, described)


def _function(key: str) -> str:
    """The source's name of an operation: "GET /api/facts/{id}" is api_facts_id_get."""
    method, space, path = key.partition(" ")
    return "_".join([*re.findall(r"[\w.-]+", path), method.lower()]) if space and path.startswith("/") else key


def _stories(record: Record, api: _Api, category: str, odd: Counter[str]) -> Iterator[Story]:
    """The instructions of an API with their calls."""
    instructions, answers = record.get("Instructions", list), record.get("Golden_Answers", list)
    if len(instructions) != len(answers):
        what = f"{len(answers)} answers to {len(instructions)} instructions"
        raise record.wrong("Golden_Answers", what, "one list of calls for every instruction")
    for i, (text, calls) in enumerate(zip(instructions, answers, strict=True)):
        if not isinstance(text, str) or not text.strip():
            raise record.wrong(f"Instructions[{i}]", "no text", "what a user asks for")
        if not isinstance(calls, list):
            raise record.wrong(f"Golden_Answers[{i}]", "no list", "a list of {Action, Action_Input}")
        odd["instructions_without_a_call"] += not calls
        place = record.where(f"Golden_Answers[{i}]")
        steps = [_step(as_record(call, f"{place}, element {j}"), api, odd) for j, call in enumerate(calls)]
        yield Story(f"{record.text('Name', None)}/{i}", text.strip(), steps, category)


def _step(call: Record, api: _Api, odd: Counter[str]) -> Step:
    """A call; one whose arguments can't be mended is context alone."""
    action = call.text("Action", None)
    name, flags = action.removeprefix(_MARK).strip(), []
    if name != action:
        odd["optional_calls"] += 1
        flags.append(OPTIONAL)
    odd["actions_outside_the_function_description"] += action not in api.described
    odd["questions_to_the_user"] += name == _ASK
    given: Any = call.get("Action_Input", (str, dict), {})
    arguments, is_mended = (given, False) if isinstance(given, dict) else _arguments(given)
    odd["references_that_are_no_JSON"] += is_mended
    odd["references_that_cannot_be_mended"] += arguments is None
    blanks = tuple(key for key, value in (arguments or {}).items() if _has_blank(value))
    flags += [MENDED] if is_mended else []
    if blanks:
        odd["references_with_placeholders"] += 1
        flags.append(PLACEHOLDER)
    return Step(name, arguments or {}, flags=tuple(flags), blanks=blanks, is_asked=arguments is not None)


def _arguments(text: str) -> tuple[Mapping[str, Any] | None, bool]:
    """The object in a string, None where there is none, and whether the string had to be mended."""
    read = read_arguments(text or "{}")
    if read.arguments is not None and not read.repairs:
        return read.arguments, False
    mended = _BARE.sub(r'\1"${\2}"', _DOUBLED.sub(r"\1", text))
    return read_arguments(mended).arguments, True


def _has_blank(value: Any) -> bool:
    """Is some text in a value left open?"""
    if isinstance(value, str):
        return bool(_OPEN.search(value))
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(_has_blank(part) for part in inner)
