from __future__ import annotations

from pathlib import Path
from typing import Any

from catalog_files import fault, shared, write_json, write_jsonl

from toolsavvy.catalogs import api_bank

APIS = [
    {
        "api_name": "Token",
        "description": "Get a token",
        "input_parameters": {"user": {"type": "str"}},
        "level": "lv1-2",
    },
    {
        "api_name": "Book",
        "description": "Book rooms",
        "input_parameters": {"token": {"type": "str"}, "rooms": {"type": "int"}, "guests": {"type": "list(str)"}},
        "output_parameters": {"status": {"type": "str"}},
    },
]


def api(name: str, output: Any, *, taken: Any = None, exception: Any = None, **written: str) -> dict[str, Any]:
    result = {"input": taken or written, "output": output, "exception": exception}
    return {"role": "API", "api_name": name, "param_dict": written, "result": result}


def say(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "text": text}


def make(path: Path, *turns: dict[str, Any]) -> Path:
    write_json(path / "apis.json", [*APIS, {**APIS[0], "description": "again"}])
    write_jsonl(
        path / "dialogues.jsonl", [{"file": "a/one.jsonl", "turns": list(turns)}, {"file": "a/two.jsonl", "turns": []}]
    )
    return path


TALK = (
    say("User", "Book two rooms."),
    say("AI", "Who are you?"),
    say("User", "JaneSmith"),
    api("Token", {"token": "o8i7u6"}, user="JaneSmith"),
    say("AI", "I have your token."),
    api("Book", "success", taken={"token": "o8i7u6", "rooms": 2}, token="o8i7u6", rooms="2"),
)


def test_a_task_sees_the_dialogue_so_far_and_real_results(tmp_path: Path) -> None:
    data = api_bank.load(make(tmp_path, *TALK))
    first, second = data.tasks.calls
    assert first.instruction == "User: Book two rooms.\nAI: Who are you?\nUser: JaneSmith"
    assert second.instruction == f"{first.instruction}\nAI: I have your token."
    assert [(u.name, u.output) for u in second.upstream] == [("Token", {"token": "o8i7u6"})]
    assert (first.cluster, second.cluster, second.id) == ("a/one", "a/one", "a/one/1")
    assert second.reference.arguments == {"token": "o8i7u6", "rooms": "2"}
    assert (first.flags, second.flags) == ((), ("reference_violates_schema",))
    assert dict(data.tasks.audit) == {
        "dialogues_without_a_turn": 1,
        "arguments_taken_otherwise_than_written": 1,
        "numbers_and_truth_values_as_text": 1,
        "references_that_violate_their_schema": 1,
    }
    assert data.splits["test"][0].text == "Book two rooms.\nJaneSmith"
    assert data.catalog.tools[1].parameters["properties"]["guests"] == {"type": "array", "items": {"type": "string"}}
    assert data.audit["source"]["apis_described_again"] == 1


def test_arguments_may_be_those_that_the_api_took(tmp_path: Path) -> None:
    task = api_bank.load(make(tmp_path, *TALK), arguments="taken").tasks.calls[1]
    assert task.reference.arguments == {"token": "o8i7u6", "rooms": 2}
    assert task.flags == ()


def test_failed_unknown_and_unasked_calls(tmp_path: Path) -> None:
    path = make(tmp_path, api("Token", None, exception="no such user", user="x", extra="1"), api("Gone", 1), TALK[-1])
    data = api_bank.load(path)
    assert [t.tool.name for t in data.tasks.calls] == ["Token", "Book"]
    assert data.tasks.calls[1].upstream[0].output == {"exception": "no such user"}
    for key in ("calls_that_failed", "calls_of_unknown_tools", "arguments_outside_the_schema"):
        assert data.tasks.audit[key] == 1
    assert data.tasks.audit["calls_before_any_word"] == 3


def test_faults_are_told(tmp_path: Path) -> None:
    fault(lambda: api_bank.load(None), what="not set", where="catalog.path")
    fault(lambda: api_bank.load(tmp_path, arguments="took"), what="'took'", where="catalog.arguments", expected="taken")
    fault(lambda: api_bank.load(tmp_path), what="apis.json", where="catalog.path")
    make(tmp_path, say("Robot", "hi"))
    fault(
        lambda: api_bank.load(tmp_path), what="'Robot'", where="line 1, field 'turns[0]', field 'role'", expected="AI"
    )
    make(tmp_path, {**TALK[3], "param_dict": "user"})
    fault(lambda: api_bank.load(tmp_path), what="text", where="field 'param_dict'", expected="an object")


def test_the_real_set() -> None:
    data = api_bank.load(shared("api_bank"))
    assert (len(data.tasks.calls), len(data.catalog)) == (508, 71)
    assert data.tasks.audit["dialogues_without_a_turn"] == 1
    assert data.tasks.audit["arguments_outside_the_schema"] == 8
    assert all(isinstance(v, str) for t in data.tasks.calls for v in t.reference.arguments.values())
    taken = api_bank.load(shared("api_bank"), arguments="taken")
    assert (
        taken.tasks.audit["references_that_violate_their_schema"]
        < data.tasks.audit["references_that_violate_their_schema"]
    )
