"""A judge accepts by a clear yes to everything and by nothing else: every other way of answering is tried."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chat_items import is_judge, kind_of, verdicts, well
from chat_server import Answer, chat_server
from toolsavvy.catalogs.toy import load
from toolsavvy.config.toolsense import Recipe
from toolsavvy.errors import UserError
from toolsavvy.generators.toolsense.judging import ask_judge
from toolsavvy.generators.toolsense.judging import verdicts as read_verdicts
from toolsavvy.generators.toolsense.neighbourhood import LexicalNeighbourhood
from toolsavvy.generators.toolsense.writing import ChoiceWriter, LlmWriter, RequestWriter, YesNoWriter
from toolsavvy.models.chat import Message, Reply
from toolsavvy.models.server import ServerChat

CATALOG = load(12, 0).catalog
NEAR = LexicalNeighbourhood(CATALOG)
WRITERS: dict[str, type[LlmWriter[Any]]] = {"rrb": RequestWriter, "mcq": ChoiceWriter, "qa": YesNoWriter}
Verdicts = list[dict[str, Any]]
GOOD = {"a": True, "b": True, "answer": 2, "why": ""}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (json.dumps({"verdicts": [GOOD]}), ""),
        (f"```json\n{json.dumps({'verdicts': [GOOD]})}\n```", ""),
        (f"The document says:\n```json\n{json.dumps({'verdicts': [GOOD]})}\n```", "judge_malformed"),
        (None, "judge_no_answer"),
        ("", "judge_malformed"),
        ("yes", "judge_malformed"),
        ("All checks pass: true, true, true.", "judge_malformed"),
        ('{"verdicts": [{"a": true, "b": true, "answer": 2', "judge_malformed"),
        (json.dumps([GOOD]), "judge_malformed"),
        (json.dumps({"verdicts": GOOD}), "judge_malformed"),
        (json.dumps({"verdict": [GOOD]}), "judge_malformed"),
        (json.dumps({"verdicts": []}), "judge_wrong_count"),
        (json.dumps({"verdicts": [GOOD, GOOD]}), "judge_wrong_count"),
        (json.dumps({"verdicts": [True]}), "judge_missing_check"),
        (json.dumps({"verdicts": [{"a": True, "answer": 2}]}), "judge_missing_check"),
        (json.dumps({"verdicts": [GOOD | {"b": False}]}), "judge_b"),
        (json.dumps({"verdicts": [GOOD | {"b": "true"}]}), "judge_b"),
        (json.dumps({"verdicts": [GOOD | {"b": 1}]}), "judge_b"),
        (json.dumps({"verdicts": [GOOD | {"a": None}]}), "judge_a"),
        (json.dumps({"verdicts": [GOOD | {"answer": 1}]}), "judge_other_answer"),
        (json.dumps({"verdicts": [GOOD | {"answer": "2"}]}), "judge_other_answer"),
        (json.dumps({"verdicts": [GOOD | {"answer": None}]}), "judge_other_answer"),
        (json.dumps({"verdicts": [{k: v for k, v in GOOD.items() if k != "answer"}]}), "judge_other_answer"),
        ("<think>" + json.dumps({"verdicts": [GOOD]}), "judge_malformed"),
    ],
)
def test_one_verdict(text: str | None, reason: str) -> None:
    (fault,) = read_verdicts(Reply(text), ("a", "b"), [2])
    assert (fault.reason if fault else "") == reason
    assert fault is None or fault.told


def test_every_draft_has_its_own_verdict_and_reason() -> None:
    text = json.dumps({"verdicts": [{"a": True}, {"a": False, "why": "not\nthere"}]})
    first, second = read_verdicts(Reply(text), ("a",), [None, None])
    assert first is None
    assert second
    assert second.told == 'A checker said no to "a": not there'
    yes = json.dumps({"verdicts": [{"a": True, "answer": " YES"}, {"a": True, "answer": True}]})
    assert [f is None for f in read_verdicts(Reply(yes), ("a",), ["yes", "yes"])] == [True, False]
    one = json.dumps({"verdicts": [{"a": True, "answer": True}]})
    assert read_verdicts(Reply(one), ("a",), [1])[0] is not None, "true is not the number of an option"


def flip(change: Callable[[Verdicts], Any]) -> Callable[[dict[str, Any]], Answer]:
    return lambda body: Answer(json.dumps({"verdicts": change(verdicts(body))}))


WAYS: dict[str, Callable[[dict[str, Any]], Answer]] = {
    "one no": flip(lambda vs: [v | {next(iter(v)): False} for v in vs]),
    "yes in words": flip(lambda vs: [dict.fromkeys(v, "yes") for v in vs]),
    "a check left out": flip(lambda vs: [{k: v[k] for k in list(v)[1:]} for v in vs]),
    "too few verdicts": flip(lambda vs: vs[:-1]),
    "too many verdicts": flip(lambda vs: [*vs, vs[0]]),
    "no list": flip(lambda vs: vs[0]),
    "broken JSON": lambda body: Answer(json.dumps({"verdicts": verdicts(body)})[:-2]),
    "prose": lambda body: Answer("Everything is fine."),
    "nothing": lambda body: Answer(""),
}


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_accepted_without_a_clear_yes(way: str, tmp_path: Path) -> None:
    def behave(body: dict[str, Any], before: int) -> Answer:
        return WAYS[way](body) if is_judge(body) else well(body)

    with chat_server(behave) as server:
        chats = [ServerChat(name, server.url, cache=False, retries=0) for name in ("writer", "judge")]
        for kind, make in WRITERS.items():
            writer = make(*chats, Recipe(attempts=1, patience=2))
            written = writer.write(CATALOG, [0, 1], NEAR, 2, seed=0, store=tmp_path / f"{kind}.jsonl")
            assert written.items == ()
            assert sum(written.rejected.values()) == 4
            assert all(reason.startswith("judge_") for reason in written.rejected)


@pytest.mark.parametrize("kind", ["mcq", "qa"])
def test_a_judge_that_says_yes_to_all_but_finds_another_answer_accepts_nothing(kind: str, tmp_path: Path) -> None:
    def other(verdict: dict[str, Any]) -> dict[str, Any]:
        answers = {"Yes": "unsaid", "No": "unsaid"}
        return verdict | {"answer": verdict["answer"] % 4 + 1 if kind == "mcq" else answers[verdict["answer"]]}

    def behave(body: dict[str, Any], before: int) -> Answer:
        if not is_judge(body):
            return well(body)
        assert kind_of(body) == kind
        return flip(lambda vs: [other(v) for v in vs])(body)

    with chat_server(behave) as server:
        chats = [ServerChat(name, server.url, cache=False, retries=0) for name in ("writer", "judge")]
        writer = WRITERS[kind](*chats, Recipe(attempts=1))
        written = writer.write(CATALOG, [0, 1], NEAR, 2, seed=0, store=tmp_path / "a.jsonl")
    assert (written.items, written.rejected) == ((), {"judge_other_answer": 4})


@pytest.mark.parametrize(
    "fault", [Answer(None), Answer("x", status=500), Answer(hang_up=True), Answer("x", status=400)]
)
def test_one_judgement_that_fails_refuses_its_drafts_alone(fault: Answer, tmp_path: Path) -> None:
    first = CATALOG.documents[0]

    def behave(body: dict[str, Any], before: int) -> Answer:
        return fault if is_judge(body) and first in body["messages"][-1]["content"] else well(body)

    with chat_server(behave) as server:
        chats = [ServerChat(name, server.url, cache=False, retries=0) for name in ("writer", "judge")]
        writer = ChoiceWriter(*chats, Recipe(attempts=1))
        written = writer.write(CATALOG, [0, 1, 2], NEAR, 3, seed=0, store=tmp_path / "a.jsonl")
    assert [item.tool for item in written.items] == [CATALOG.tools[i].id for i in (1, 2)]
    assert (written.rejected, written.judge.failed) == ({"judge_no_answer": 2}, 1)


class Judge:
    """Does as it is told."""

    name = "judge"

    def __init__(self, does: Callable[[int], list[Reply]]) -> None:
        self.does = does

    def answer(self, conversations: Any, **how: Any) -> list[Reply]:
        return self.does(len(conversations))


def breaks(error: BaseException) -> Callable[[int], list[Reply]]:
    def does(count: int) -> list[Reply]:
        raise error

    return does


@pytest.mark.parametrize(
    "does",
    [breaks(ValueError("odd")), breaks(RuntimeError()), lambda count: [], lambda count: [Reply("x")] * (count + 1)],
)
def test_a_judge_that_breaks_down_has_not_answered(does: Callable[[int], list[Reply]]) -> None:
    prompts = [[Message("user", str(i))] for i in range(3)]
    replies = ask_judge(Judge(does), prompts, 10)
    assert [r.text for r in replies] == [None] * 3
    assert ask_judge(Judge(does), [], 10) == []


@pytest.mark.parametrize("error", [UserError("down"), OSError(28, "full"), KeyboardInterrupt()])
def test_what_ends_a_run_is_no_verdict(error: BaseException) -> None:
    with pytest.raises(type(error)):
        ask_judge(Judge(breaks(error)), [[Message("user", "a")]], 10)
