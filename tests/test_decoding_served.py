"""Samples of a server on loopback: calls, seeds, faults, and going on where it died."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chat_server import Answer, ChatServer, chat_server
from toolsavvy.decoding.samples import Sample
from toolsavvy.decoding.served import ServerSampler
from toolsavvy.errors import UserError
from toolsavvy.models.chat import Message
from toolsavvy.models.prompts import Prompt
from toolsavvy.models.server import ServerChat
from toolsavvy.necessity.asking import ask
from toolsavvy.necessity.store import SampleStore

TOOL = {"name": "calculator", "description": "computes", "parameters": {"type": "object", "properties": {}}}
PROMPTS = [Prompt((Message("system", "be brief"), Message("user", f"{k} + {k}?"))) for k in range(4)]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def sampler(server: ChatServer, **settings: Any) -> ServerSampler:
    quick = {"backoff": 0.01, "timeout": 5.0, "retries": 1, "concurrency": 2} | settings
    return ServerSampler(ServerChat("served", server.url, **quick), seed=3)


def completion(message: dict[str, Any], finish: str = "stop", tokens: int = 5) -> Answer:
    body = {"choices": [{"message": {"role": "assistant", **message}, "finish_reason": finish}]}
    return Answer(raw=json.dumps({**body, "usage": {"completion_tokens": tokens}}).encode())


def draw(own: ServerSampler, prompts: list[Prompt], count: int, **how: Any) -> dict[tuple[int, int], Sample]:
    found: dict[tuple[int, int], Sample] = {}
    stop: Callable[[int, Sample], bool] = how.pop("stop", lambda _, __: False)

    def heard(place: int, sample: Sample) -> bool:
        found[place, sample.index] = sample
        return stop(place, sample)

    settings = {"temperature": 0.7, "max_tokens": 32} | how
    own.draw(prompts, [range(count)] * len(prompts), heard=heard, **settings)
    return found


def test_every_sample_is_a_request_with_its_own_lasting_seed() -> None:
    with chat_server(lambda body, _: Answer(f"seed {body['seed']}")) as server:
        first = draw(sampler(server), PROMPTS, 3)
        again = draw(sampler(server), PROMPTS, 3)
        bodies = [body for _, body, _ in server.requests]
    assert first == again, "seeds follow from the sample alone; the answers themselves were asked for again"
    assert len(bodies) == 24
    assert len({s.text for s in first.values()}) == 12
    assert all(0 <= body["seed"] < 2**31 for body in bodies)
    assert {(body["temperature"], body["max_tokens"], body["model"]) for body in bodies} == {(0.7, 32, "served")}
    assert all("tools" not in body for body in bodies)
    assert first[0, 0].tokens == 3


@pytest.mark.parametrize("tool", [TOOL, {"type": "function", "function": TOOL}])
def test_parsed_calls_become_text_again(tool: dict[str, Any]) -> None:
    calls = [
        {
            "id": "a",
            "type": "function",
            "function": {"name": "calculator", "arguments": '{"expression": "2 \u00b7 3"}'},
        },
        {"id": "b", "type": "function", "function": {"name": "calculator", "arguments": '{"expression": '}},
        {"id": "c", "type": "function", "function": {"name": "search", "arguments": ""}},
    ]
    message = {"content": None, "tool_calls": calls}
    prompts = [Prompt(PROMPTS[0].messages, (tool,))]
    with chat_server(lambda *_: completion(message, "tool_calls")) as server:
        (sample,) = draw(sampler(server), prompts, 1, temperature=0).values()
        assert server.requests[0][1]["tools"] == [{"type": "function", "function": TOOL}]
    first, second, third = sample.text.split("</tool_call>")[:3]
    marked = [json.loads(part.replace("<tool_call>", "")) for part in (first, second, third)]
    assert marked[0] == {"name": "calculator", "arguments": {"expression": "2 \u00b7 3"}}
    assert marked[1] == {"name": "calculator", "arguments": '{"expression": '}
    assert marked[2] == {"name": "search", "arguments": {}}
    assert sample.finished
    with chat_server(lambda *_: completion({**message, "content": "Let me see."})) as server:
        (sample,) = draw(sampler(server), prompts, 1, temperature=0).values()
    assert sample.text.startswith("Let me see.\n<tool_call>")


@pytest.mark.parametrize(
    ("message", "finish", "text", "finished"),
    [
        ({"content": "4 and"}, "length", "4 and", False),
        ({"content": None, "reasoning_content": "hm"}, "length", "", False),
        ({"content": None, "refusal": "I can't help with that."}, "stop", "I can't help with that.", True),
        ({"content": ""}, "stop", "", True),
    ],
)
def test_what_the_model_said_is_an_answer(message: dict[str, Any], finish: str, text: str, finished: bool) -> None:
    with chat_server(lambda *_: completion(message, finish)) as server:
        (sample,) = draw(sampler(server), PROMPTS[:1], 1).values()
    assert sample == Sample(0, text, 5, finished)


def test_a_prefill_is_the_last_turn_and_part_of_the_text() -> None:
    with chat_server(lambda *_: Answer(" 4.")) as server:
        (sample,) = draw(sampler(server), [Prompt(PROMPTS[0].messages, prefill="It is")], 1).values()
        body = server.requests[0][1]
    assert sample.text == "It is 4."
    assert body["messages"][-1] == {"role": "assistant", "content": "It is"}
    assert (body["add_generation_prompt"], body["continue_final_message"]) == (False, True)


def test_a_prompt_that_needs_no_more_is_asked_no_more() -> None:
    with chat_server(lambda *_: Answer("no")) as server:
        found = draw(sampler(server), PROMPTS, 8, stop=lambda place, _: place < 3)
        assert len(server.requests) == 3 + 8
    assert len([at for at in found if at[0] == 3]) == 8


def test_samples_without_an_answer_are_counted_and_the_others_kept(tmp_path: Path) -> None:
    def behave(body: dict[str, Any], _: int) -> Answer:
        return Answer("busy", status=503) if body["messages"][-1]["content"] == "2 + 2?" else Answer("fine")

    with chat_server(behave) as server:
        own = sampler(server)
        store = SampleStore(tmp_path, own.key, 0.7, 32)
        with pytest.raises(UserError) as caught:
            ask(own, store, PROMPTS, 3, temperature=0.7, max_tokens=32)
        assert "3 of 12 samples have no answer" in caught.value.what
        assert "503" in caught.value.what
        assert caught.value.where == "prompt 3"
        assert "not drawn again" in caught.value.fix
    assert len(store.path.read_text().splitlines()) == 1 + 9


def test_a_server_that_dies_is_resumed_without_asking_twice(tmp_path: Path) -> None:
    answered: list[tuple[str, int]] = []

    def behave(body: dict[str, Any], _: int) -> Answer:
        if len(answered) >= 7 and not revived:
            return Answer(hang_up=True)
        answered.append((body["messages"][-1]["content"], body["seed"]))
        return Answer("fine")

    revived = False
    with chat_server(behave) as server:
        own = sampler(server, concurrency=1)
        store = SampleStore(tmp_path, own.key, 0.7, 32)
        with pytest.raises(UserError, match="5 of 12 samples"):
            ask(own, store, PROMPTS, 3, temperature=0.7, max_tokens=32)
        revived = True
        again = SampleStore(tmp_path, own.key, 0.7, 32)
        found = ask(own, again, PROMPTS, 3, temperature=0.7, max_tokens=32)
    assert [len(samples) for samples in found] == [3] * 4
    assert len(answered) == len(set(answered)) == 12


def test_a_server_that_is_gone_is_told_at_once(tmp_path: Path) -> None:
    with chat_server(lambda *_: Answer("fine")) as server:
        own = sampler(server)
    with pytest.raises(UserError, match="can't be reached"):
        draw(own, PROMPTS, 2)


def test_keys_tell_servers_and_settings_apart() -> None:
    def key(name: str = "served", url: str = "http://127.0.0.1:1/v1", seed: int = 0, **settings: Any) -> str:
        return ServerSampler(ServerChat(name, url, **settings), seed=seed).key

    others = {key("other"), key(url="http://127.0.0.1:2/v1"), key(seed=1), key(parameters={"top_p": 0.9})}
    assert len(others | {key()}) == 5
    assert key(retries=1, concurrency=3) == key()
