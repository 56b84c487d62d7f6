from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chat_server import Answer, ChatServer, chat_server
from toolsavvy.catalogs.expansion import Profile, Source, sources, template
from toolsavvy.errors import UserError
from toolsavvy.generators.profiles import AGAIN, JUDGE, Written, read_profile, write_profiles
from toolsavvy.models.server import ServerChat
from world import toy_set

GOOD = {
    "function": "makes it", "when_to_use": "when it is missing", "limitations": "one at a time",
    "tags": ["make", "new"], "example": "make me one",
}  # fmt: skip
PROFILE = Profile("makes it", "when it is missing", "one at a time", ("make", "new"), "make me one")
YES, NO = '{"unsupported": [], "faithful": true}', '{"unsupported": ["it is free"], "faithful": false}'
Says = Callable[[list[dict[str, str]]], str | Answer]


def is_judge(turns: list[dict[str, str]]) -> bool:
    return turns[0]["content"] == JUDGE


def serve(write: Says, judge: Says) -> Callable[[dict[str, Any], int], Answer]:
    """Behaviour of a server that is both: each side sees the turns of its conversation."""

    def behave(body: dict[str, Any], before: int) -> Answer:
        said = (judge if is_judge(body["messages"]) else write)(body["messages"])
        return said if isinstance(said, Answer) else Answer(said)

    return behave


def good(turns: list[dict[str, str]]) -> str:
    return json.dumps(GOOD)


def yes(turns: list[dict[str, str]]) -> str:
    return YES


def run(
    server: ChatServer, folder: Path, tools: int = 3, known: Sequence[Source] | None = None, **settings: Any
) -> tuple[Written, Sequence[Source]]:
    known = sources(toy_set(tools), 2) if known is None else known
    quick: dict[str, Any] = {"backoff": 0.01, "retries": 0, "timeout": 5.0, "cache": False} | settings
    writer, judge = (ServerChat(name, server.url, **quick) for name in ("writer", "judge"))
    return write_profiles(known, writer, judge, folder / "store.jsonl"), known


def counts(**changed: int) -> dict[str, int]:
    names = ("written", "refined", "unfaithful", "malformed", "unanswered", "fell_back")
    return {f"profiles_{name}": changed.get(name, 0) for name in names}


def test_profiles_are_written_and_judged_apart(tmp_path):
    with chat_server(serve(good, yes)) as server:
        written, known = run(server, tmp_path)
    assert written.profiles == (PROFILE,) * 3
    assert written.counts == counts(written=3)
    bodies = [body for _, body, _ in server.requests]
    assert sorted(b["model"] for b in bodies) == ["judge"] * 3 + ["writer"] * 3
    for body in bodies:
        assert is_judge(body["messages"]) == (body["model"] == "judge")
    asked = " ".join(server.asked)
    assert all(source.tool.name in asked for source in known)


def test_no_validation_or_test_query_is_shown(tmp_path):
    data = toy_set(4, validation_share=0.3)
    marked = {
        split: tuple(replace(q, text=f"{split}-mark {q.text}") for q in queries)
        for split, queries in data.splits.items()
    }
    assert set(marked) >= {"train", "validation", "test_seen"}
    known = sources(replace(data, splits=marked), 50)
    with chat_server(serve(good, lambda turns: NO)) as server:
        run(server, tmp_path, known=known)
    shown = json.dumps([body for _, body, _ in server.requests])
    assert all(request in shown for source in known for request in source.requests)
    assert set(re.findall(r"\w+-mark", shown)) == {"train-mark"}


def test_malformed_json_is_asked_for_once_more(tmp_path):
    with chat_server(
        serve(lambda turns: good(turns) if turns[-1]["content"] == AGAIN else '{"function"', yes)
    ) as server:
        written, _ = run(server, tmp_path)
    assert written.counts == counts(written=3)
    assert server.asked.count(AGAIN) == 3


def test_malformed_twice_falls_back_to_the_template(tmp_path):
    with chat_server(serve(lambda turns: "I would rather not.", yes)) as server:
        written, known = run(server, tmp_path)
    assert written.profiles == tuple(template(source) for source in known)
    assert written.counts == counts(malformed=3, fell_back=3)
    assert len(server.requests) == 6
    assert not any(is_judge(body["messages"]) for _, body, _ in server.requests)


def test_an_unfaithful_profile_is_refined_once(tmp_path):
    def write(turns: list[dict[str, str]]) -> str:
        return (
            good(turns) if "it is free" in turns[-1]["content"] else json.dumps(GOOD | {"function": "free of charge"})
        )

    def judge(turns: list[dict[str, str]]) -> str:
        return NO if "free of charge" in turns[-1]["content"] else YES

    with chat_server(serve(write, judge)) as server:
        written, _ = run(server, tmp_path)
    assert written.profiles == (PROFILE,) * 3
    assert written.counts == counts(written=3, refined=3)
    assert len(server.requests) == 12


@pytest.mark.parametrize(
    "verdict",
    [
        NO,
        "It seems fine to me.",  # nobody can tell what it means
        '{"faithful": "true", "unsupported": []}',
        '{"faithful": true, "unsupported": ["it is free"]}',  # contradicts itself
        '{"faithful": true}',
        "{}",
    ],
)
def test_without_a_clear_yes_nothing_is_kept(tmp_path, verdict):
    with chat_server(serve(good, lambda turns: verdict)) as server:
        written, known = run(server, tmp_path)
    assert written.profiles == tuple(template(source) for source in known)
    assert written.counts == counts(unfaithful=3, fell_back=3)
    assert len(server.requests) == 12


def test_the_store_answers_in_the_place_of_the_models(tmp_path):
    with chat_server(serve(good, lambda turns: YES if "create" not in turns[-1]["content"] else NO)) as server:
        first, _ = run(server, tmp_path)
        asked = len(server.requests)
        again, _ = run(server, tmp_path)
        assert len(server.requests) == asked
        more, _ = run(server, tmp_path, tools=5)
        assert len(server.requests) > asked
    assert again == first
    assert len(more.profiles) == 5


def test_a_torn_last_line_costs_one_tool(tmp_path):
    with chat_server(serve(good, yes)) as server:
        first, _ = run(server, tmp_path)
        path = tmp_path / "store.jsonl"
        whole = path.read_bytes()
        path.write_bytes(whole[:-20])
        asked = len(server.requests)
        assert run(server, tmp_path)[0] == first
        assert len(server.requests) == asked + 2
        asked = len(server.requests)
        assert run(server, tmp_path)[0] == first
        assert len(server.requests) == asked


@pytest.mark.parametrize("damage", ['{"key": "x", "text": 3}', "[]", "\x00\x00"])
def test_lines_of_others_are_passed_over(tmp_path, damage):
    (tmp_path / "store.jsonl").write_text(damage + "\n")
    with chat_server(serve(good, yes)) as server:
        assert run(server, tmp_path)[0].counts == counts(written=3)


@pytest.mark.parametrize("silent", ["writer", "judge"])
def test_a_missing_answer_falls_back_and_is_asked_for_again_in_the_next_run(tmp_path, silent):
    sick = True

    def behave(body: dict[str, Any], before: int) -> Answer:
        if sick and body["model"] == silent and "toy:" not in body["messages"][-1]["content"]:
            return Answer("late", delay=0.6)
        return serve(good, yes)(body, before)

    with chat_server(behave) as server:
        written, known = run(server, tmp_path, timeout=0.2)
        assert written.profiles == tuple(template(source) for source in known)
        fate = {"unanswered": 3} if silent == "writer" else {"unfaithful": 3}
        assert written.counts == counts(fell_back=3, **fate)
        sick = False
        assert run(server, tmp_path)[0].counts == counts(written=3)


def test_another_writer_judge_or_record_is_another_profile(tmp_path):
    with chat_server(serve(good, yes)) as server:
        models = {name: ServerChat(name, server.url, cache=False) for name in ("a", "b")}
        path = tmp_path / "store.jsonl"
        for writer, judge, examples in (("a", "a", 0), ("b", "a", 0), ("a", "b", 0), ("a", "a", 2)):
            asked = len(server.requests)
            known = sources(toy_set(1), examples)
            write_profiles(known, models[writer], models[judge], path)
            assert len(server.requests) == asked + 2


def test_a_server_that_is_down_stops_the_run(tmp_path):
    with chat_server(serve(good, yes)) as server:
        pass
    with pytest.raises(UserError, match="can't be reached"):
        run(server, tmp_path)


@pytest.mark.parametrize(
    ("text", "profile"),
    [
        (f"Sure!\n```json\n{json.dumps(GOOD)}\n```", PROFILE),
        (json.dumps(GOOD | {"tags": "make, new, make"}), PROFILE),
        (json.dumps({"function": " two\nlines ", "tags": None}), Profile("two lines")),
        ('{"function": "f", "example": {"a": 1}, "limitations": ["x", "y"]}', Profile("f", "", "x; y", (), '{"a": 1}')),
        (json.dumps({"function": "\x1b[31mred"}), Profile("\\x1b[31mred")),
        ('{"function": "half \\ud83d a pair"}', Profile("half ? a pair")),
        ("", None),
        ("[1]", None),
        (json.dumps({"function": ""}), None),
        (json.dumps({"function": ["f"]}), None),
        (json.dumps({"when_to_use": "always"}), None),
        ('{"function": NaN}', None),
    ],
)  # fmt: skip
def test_reading_an_answer(text, profile):
    assert read_profile(text) == profile
