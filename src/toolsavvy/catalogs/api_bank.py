"""API-Bank (2304.08244), levels 1 and 2: dialogues whose API calls really ran.

A task is one call: its instruction is the dialogue so far, its context the calls before it with their results.
Arguments are written as text throughout ("2" for a whole number); what the API took may differ, see `arguments`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from toolsavvy.catalog import DEFAULT_DOCUMENT, RetrievalSet, Tool
from toolsavvy.catalogs.building import ToolTable, retrieval_set
from toolsavvy.catalogs.calling import Step, Story, query_of, tasks_of
from toolsavvy.catalogs.offering import python_schema
from toolsavvy.catalogs.reading import Record, as_list, as_record, existing, member, read_json, read_jsonl
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.tasks import TaskSet

ARGUMENTS = ("written", "taken")
SPEAKERS = ("User", "AI")


def load(
    path: str | Path | None = None,
    *,
    arguments: str = "written",
    name: str = "api_bank",
    document: str = DEFAULT_DOCUMENT,
) -> RetrievalSet:
    """Load API-Bank: a query a dialogue (what the user says), a parameter task a call; the source divides nothing.

    Args:
        path: folder with `dialogues.jsonl` and `apis.json`.
        arguments: written: as the dialogue has them, all text; taken: as the API says that it took them, with numbers
            and lists where it converted them.
        name: shown in tables.
        document: template of every tool's text.

    Raises:
        UserError: a file is missing or malformed, or an option unknown.
    """
    if arguments not in ARGUMENTS:
        expected = " or ".join(ARGUMENTS)
        fix = did_you_mean(str(arguments), ARGUMENTS)
        raise UserError(f"{arguments!r} is no valid value", where="catalog.arguments", expected=expected, fix=fix)
    folder = existing(path, "the folder of API-Bank (dialogues.jsonl, apis.json)")
    tools, counts, odd = ToolTable(), Counter[str](), Counter[str]()
    apis = member(folder, "apis.json")
    for number, value in enumerate(as_list(read_json(apis), str(apis)), start=1):
        _add(tools, as_record(value, f"{apis}, record {number}"), counts)
    queries, calls = [], []
    for record in read_jsonl(member(folder, "dialogues.jsonl")):
        story, asked = _story(record, arguments, odd)
        queries += [query] if (query := query_of(story, tools.tools, asked)) else []
        calls += tasks_of(story, tools.tools, "api_bank", odd)
    data = retrieval_set(name, tools, {"test": queries}, document=document, headline=("test",), source=counts)
    return replace(data, tasks=TaskSet(name, tuple(calls), audit={key: n for key, n in odd.items() if n}))


def _add(tools: ToolTable, record: Record, counts: Counter[str]) -> None:
    """Add an API; where a name is there already (level 3 has some again), the first one counts."""
    name = record.text("api_name", None)
    if name in tools:
        counts["apis_described_again"] += 1
        return
    # The descriptions say of no parameter whether it must be there.
    tool = Tool(
        id=name, name=name, description=record.text("description"), group=record.text("database_name"),
        category=record.text("level"), parameters=python_schema(record, "input_parameters", counts, ()),
        returns=python_schema(record, "output_parameters", Counter(), ()),
    )  # fmt: skip
    tools.add(tool, record, "api_name")


def _story(record: Record, arguments: str, odd: Counter[str]) -> tuple[Story, str]:
    """A dialogue, and what the user says in it."""
    key, said, steps = record.text("file", None), [], []
    turns = record.get("turns", list)
    odd["dialogues_without_a_turn"] += not turns
    for position, value in enumerate(turns):
        turn = as_record(value, record.where(f"turns[{position}]"))
        role = turn.text("role", None)
        if role in SPEAKERS:
            said.append((role, turn.text("text").strip()))
        elif role == "API":
            dialogue = "\n".join(f"{who}: {text}" for who, text in said)
            steps.append(replace(_step(turn, arguments, odd), instruction=dialogue))
        else:
            fix = did_you_mean(role, (*SPEAKERS, "API"))
            raise turn.wrong("role", f"{role!r} is no valid value", "User, AI or API", fix)
    odd["calls_before_any_word"] += sum(not step.instruction for step in steps)
    asked = "\n".join(text for who, text in said if who == "User")
    folder, _, file = key.rpartition("/")
    return Story(
        file.removesuffix(".jsonl") if not folder else f"{folder}/{file.removesuffix('.jsonl')}", asked, steps, folder
    ), asked


def _step(turn: Record, arguments: str, odd: Counter[str]) -> Step:
    """A call; one that failed has its exception as result."""
    result = turn.get("result", dict, {})
    written = turn.get("param_dict", dict, {})
    taken = result.get("input")
    odd["arguments_taken_otherwise_than_written"] += isinstance(taken, Mapping) and taken != written
    chosen = taken if arguments == "taken" and isinstance(taken, Mapping) else written
    output: Any = result.get("output")
    if result.get("exception") is not None:
        odd["calls_that_failed"] += 1
        output = {"exception": result["exception"]}
    return Step(turn.text("api_name", None), chosen, output=output)
