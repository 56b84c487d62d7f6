"""A server under load: never more requests than asked for, one pause for all, bounded memory, and what faults leave."""

from __future__ import annotations

import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from chat_server import Answer, chat_server, closed_port
from toolsavvy.errors import UserError
from toolsavvy.models.chat import Message, Reply
from toolsavvy.models.pacing import Pace, each
from toolsavvy.models.server import Ask, ServerChat

QUICK: dict[str, Any] = {"backoff": 0.02, "timeout": 5.0, "retries": 4}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def asks(count: int) -> list[list[Message]]:
    return [[Message("user", str(i))] for i in range(count)]


def number(body: dict[str, Any]) -> int:
    return int(body["messages"][-1]["content"])


@pytest.mark.parametrize("concurrency", [1, 8])
def test_as_many_under_way_as_asked_for_and_never_more(concurrency: int) -> None:
    together = threading.Barrier(concurrency)

    def answer(body: dict[str, Any], _: Any) -> Answer:
        if number(body) < concurrency:  # the first ones wait for one another
            together.wait(30)
        return Answer(f"re: {number(body)}", delay=0.1)

    with chat_server(answer) as server:
        replies = ServerChat("m", server.url, concurrency=concurrency, **QUICK).answer(
            asks(2 * concurrency + 2), max_tokens=5
        )
        assert server.most_at_once == concurrency
    assert [r.text for r in replies] == [f"re: {i}" for i in range(2 * concurrency + 2)]


def test_one_and_thirty_two_at_once_give_the_same_and_the_latter_sooner() -> None:
    def slow(body: dict[str, Any], _: int) -> Answer:
        return Answer(f"re: {number(body)}", delay=0.2 + number(body) % 3 / 50)

    seconds, told = {}, {}
    with chat_server(slow) as server:
        for concurrency, count in ((1, 6), (32, 64)):
            chat = ServerChat("m", server.url, concurrency=concurrency, cache=False, **QUICK)
            start = time.monotonic()
            told[concurrency] = chat.answer(asks(count), max_tokens=5)
            seconds[concurrency] = (time.monotonic() - start) / count
    assert told[32][:6] == told[1]
    assert seconds[1] / seconds[32] > 5, "32 times at best; a busy machine leaves less"


def test_429_holds_everybody_once_and_then_goes_on_with_fewer() -> None:
    began = time.monotonic()
    refused: list[float] = []

    def limited(body: dict[str, Any], before: int) -> Answer:
        if number(body) == 9 and before == 0:
            refused.append(time.monotonic() - began)
            return Answer("slow down", status=429, headers={"retry-after": "1"})
        return Answer("fine", delay=0.05)

    with chat_server(limited) as server:
        chat = ServerChat("m", server.url, concurrency=4, **QUICK)
        replies = chat.answer(asks(40), max_tokens=5)
        times = sorted(at - began for at, _, _ in server.requests)
    assert all(reply.text == "fine" for reply in replies)
    (at,) = refused
    assert len(times) == 41, "only what was refused is asked again"
    pause = [t for t in times if at + 0.15 < t < at + 0.95]
    assert not pause, "nobody asks while the server wants none of it"
    assert chat.pace.allowed == 4, "and in the end as many as before"


def test_a_pace_halves_and_recovers() -> None:
    pace = Pace(8)
    pace.hold(0.0)
    assert pace.allowed == 4
    pace.hold(5.0)
    assert pace.allowed == 2
    pace.hold(5.0)
    assert pace.allowed == 2, "one pause slows down once, however many workers report it"
    for _ in range(40):
        pace.went_well()
    assert pace.allowed == 8
    stop = threading.Event()
    stop.set()
    with pace.turn(stop) as mine:
        assert not mine, "a stop ends the waiting"


def test_nothing_is_read_ahead_and_slow_listeners_hold_the_workers() -> None:
    read = told = most = 0

    def keys():
        nonlocal read
        for key in range(100_000):
            read += 1
            yield key

    def tell(key: int, result: int) -> None:
        nonlocal told, most
        assert result == -key
        told += 1
        most = max(most, read - told)

    each(keys(), lambda key: -key, tell, workers=4, stop=threading.Event())
    assert told == 100_000
    assert most <= 2 * 4


def test_many_prompts_take_little_more_than_their_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ServerChat, "_ask", lambda *_: Reply("fine"))
    conversations = [[Message("system", "a" * 4000), Message("user", str(i))] for i in range(3_000)]
    chat = ServerChat("m", "http://127.0.0.1:1/v1", cache=False)
    tracemalloc.start()
    try:
        assert len(chat.answer(conversations, max_tokens=5)) == 3_000
        assert tracemalloc.get_traced_memory()[1] / 3_000 < 1_000, "bytes a prompt: no request and no future waits"
    finally:
        tracemalloc.stop()


def test_a_server_that_comes_back_within_the_patience_loses_nothing() -> None:
    down = 0.0

    def dying(body: dict[str, Any], _: int) -> Answer:
        nonlocal down
        if number(body) == 12 and not down:
            down = time.monotonic() + 1.0
        return Answer(hang_up=True) if time.monotonic() < down else Answer(f"re: {number(body)}")

    with chat_server(dying) as server:
        chat = ServerChat("m", server.url, concurrency=4, **QUICK | {"retries": 6, "backoff": 0.1})
        replies = chat.answer(asks(30), max_tokens=5)
    assert down
    assert [r.text for r in replies] == [f"re: {i}" for i in range(30)]


def test_a_server_that_dies_for_good_leaves_the_answers_and_a_resume_asks_the_rest() -> None:
    with chat_server(lambda body, _: Answer(f"re: {number(body)}")) as server:
        chat = ServerChat("m", server.url, concurrency=3, **QUICK)
        chat.answer(asks(20), max_tokens=5)
        url = server.url
    heard: list[int] = []
    chat = ServerChat("m", url, concurrency=3, **QUICK | {"retries": 1})
    with pytest.raises(UserError, match="can't be reached") as caught:
        chat.answer(asks(50), max_tokens=5, heard=lambda i, _: heard.append(i))
    assert heard == list(range(20))
    assert "answers so far are kept" in caught.value.fix
    with chat_server(lambda body, _: Answer(f"re: {number(body)}")) as server:
        replies = ServerChat("m", server.url, **QUICK).answer(asks(50), max_tokens=5)
        assert sorted(map(int, server.asked)) == list(range(20, 50))
    assert [r.text for r in replies] == [f"re: {i}" for i in range(50)]


FAULTS = (
    Answer("broken", status=500), Answer("busy", status=503), Answer(hang_up=True), Answer(half=True),
    Answer(raw=b'{"choices": [{"mess'), Answer(delay=0.8), Answer("wait", status=429, headers={"retry-after": "0.1"}),
)  # fmt: skip


@pytest.mark.parametrize("concurrency", [1, 32])
def test_all_faults_mixed_change_no_answer(concurrency: int) -> None:
    def faulty(body: dict[str, Any], before: int) -> Answer:
        which = number(body) % 8
        return FAULTS[which] if which < len(FAULTS) and before == 0 else Answer(f"re: {number(body)}")

    with chat_server(faulty) as server:
        chat = ServerChat("m", server.url, concurrency=concurrency, **QUICK | {"timeout": 0.5})
        replies = chat.answer(asks(16), max_tokens=5)
    assert [r.text for r in replies] == [f"re: {i}" for i in range(16)]
    assert chat.usage.failed == 0 and chat.usage.calls == 16


def test_what_was_under_way_when_the_key_was_refused_is_still_told() -> None:
    def behave(body: dict[str, Any], _: int) -> Answer:
        return Answer("no", status=401) if number(body) == 1 else Answer("fine", delay=0.4)

    told: dict[int, Reply] = {}
    with chat_server(behave) as server:
        chat = ServerChat("m", server.url, concurrency=2, **QUICK)
        requests = [Ask((Message("user", str(i)),), 5, 0.0) for i in range(50)]
        with pytest.raises(UserError, match="wants a key"):
            chat.ask(requests, heard=lambda i, reply: told.update({i: reply}))
    assert [told[i].text for i in told] == ["fine"] * len(told)
    assert 0 in told and len(told) <= 2


def test_a_listener_that_fails_stops_the_asking_and_leaves_no_thread() -> None:
    def full(i: int, _: Reply) -> None:
        raise OSError("disk full")

    with chat_server(lambda *_: Answer("fine", delay=0.02)) as server:
        with pytest.raises(OSError, match="disk full"):
            ServerChat("m", server.url, concurrency=4, **QUICK).answer(asks(200), max_tokens=5, heard=full)
        assert len(server.requests) < 30
    assert not [t for t in threading.enumerate() if t.name.startswith("asking")]


def test_a_port_that_nobody_serves_is_told_once() -> None:
    chat = ServerChat("m", f"http://127.0.0.1:{closed_port()}/v1", concurrency=32, **QUICK | {"retries": 2})
    with pytest.raises(UserError, match="can't be reached"):
        chat.answer(asks(2000), max_tokens=5)
