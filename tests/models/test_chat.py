from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from chat_server import Answer, chat_server, closed_port
from toolsavvy.config.compose import build, compose, typed
from toolsavvy.config.preflight import preflight
from toolsavvy.errors import UserError
from toolsavvy.models import chat as chat_module
from toolsavvy.models.chat import LoadedModel, LocalChat, Message, Reply, parse_json
from toolsavvy.models.connection import retry_after
from toolsavvy.models.responses import ResponseStore, Stored, request_key
from toolsavvy.models.server import ServerChat
from world import TEMPLATE, toy_lm, toy_tokenizer

QUICK: dict[str, Any] = {"backoff": 0.01, "timeout": 5.0, "retries": 3}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return tmp_path / "cache"


def asks(*texts: str) -> list[list[Message]]:
    return [[Message("user", text)] for text in texts]


def echo(body: dict[str, Any], before: int) -> Answer:
    return Answer(f"re: {body['messages'][-1]['content']}")


# --- a server -------------------------------------------------------------------------------------------------------


def test_answers_keep_the_order_and_are_asked_in_parallel() -> None:
    def slow(body: dict[str, Any], before: int) -> Answer:
        number = int(body["messages"][-1]["content"])
        return Answer(f"re: {number}", delay=0.3 if number == 0 else 0.05)

    with chat_server(slow) as server:
        chat = ServerChat("m", server.url, concurrency=4, **QUICK)
        replies = chat.answer(asks(*"01234567"), max_tokens=5)
    assert [r.text for r in replies] == [f"re: {i}" for i in range(8)]
    assert 1 < server.most_at_once <= 4
    assert (chat.usage.calls, chat.usage.prompt_tokens, chat.usage.completion_tokens) == (8, 56, 24)


def test_the_request_is_what_the_api_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret-of-the-house")
    with chat_server(echo) as server:
        chat = ServerChat(
            "m", server.url, key_env="MY_KEY", parameters={"top_p": 0.5, "temperature": None},
            token_parameter="max_completion_tokens", **QUICK,
        )  # fmt: skip
        chat.answer([[Message("system", "s"), Message("user", "u")]], max_tokens=9, temperature=0.7)
    ((_, body, headers),) = server.requests
    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "max_completion_tokens": 9,
        "top_p": 0.5,
    }
    assert headers["authorization"] == "Bearer secret-of-the-house"


def test_what_was_answered_is_not_asked_again_also_by_another_object() -> None:
    with chat_server(echo) as server:
        ServerChat("m", server.url, **QUICK).answer(asks("a", "b"), max_tokens=5)
        second = ServerChat("m", server.url, **QUICK)
        replies = second.answer(asks("b", "c", "b"), max_tokens=5)
        assert [r.text for r in replies] == ["re: b", "re: c", "re: b"]
        assert sorted(server.asked) == ["a", "b", "c"]
        assert (second.usage.calls, second.usage.cached) == (1, 1)
        second.answer(asks("a"), max_tokens=6)
        ServerChat("other", server.url, **QUICK).answer(asks("a"), max_tokens=5)
        ServerChat("m", server.url, parameters={"top_p": 0.1}, **QUICK).answer(asks("a"), max_tokens=5)
    assert server.asked.count("a") == 4, "another limit, model or parameter is another request"


def test_every_answer_is_told_the_moment_it_is_there_with_its_tokens() -> None:
    def slow(body: dict[str, Any], before: int) -> Answer:
        return Answer("late", delay=0.5) if body["messages"][-1]["content"] == "slow" else echo(body, before)

    with chat_server(slow) as server:
        ServerChat("m", server.url, **QUICK).answer(asks("known"), max_tokens=5)
        chat, heard = ServerChat("m", server.url, **QUICK), []
        replies = chat.answer(
            asks("slow", "quick", "known", "quick"), max_tokens=5, heard=lambda i, r: heard.append((i, r.text))
        )
    assert heard == [(2, "re: known"), (1, "re: quick"), (3, "re: quick"), (0, "late")]
    assert [(r.prompt_tokens, r.completion_tokens) for r in replies] == [(7, 3)] * 4
    assert [r.is_cached for r in replies] == [False, False, True, False]
    assert (chat.usage.prompt_tokens, chat.usage.completion_tokens) == (14, 6)
    assert (chat.usage.cached_prompt_tokens, chat.usage.cached_completion_tokens) == (7, 3)


def test_samples_of_one_conversation_differ_and_are_kept_apart() -> None:
    with chat_server(lambda body, before: Answer(f"sample {before}")) as server:
        chat = ServerChat("m", server.url, concurrency=1, **QUICK)
        first = chat.answer(asks("a", "a"), max_tokens=5, temperature=1.0)
        again = chat.answer(asks("a", "a", "a"), max_tokens=5, temperature=1.0)
    assert {r.text for r in first} == {"sample 0", "sample 1"}
    assert again[:2] == first
    assert again[2].text == "sample 2"


def test_without_a_cache_nothing_is_kept(own_cache: Path) -> None:
    with chat_server(echo) as server:
        chat = ServerChat("m", server.url, cache=False, **QUICK)
        chat.answer(asks("a"), max_tokens=5)
        chat.answer(asks("a"), max_tokens=5)
    assert len(server.asked) == 2
    assert not list(own_cache.rglob("*.jsonl"))


FAULTS = {
    "500": Answer("broken", status=500),
    "429": Answer("slow down", status=429),
    "malformed JSON": Answer(raw=b'{"choices": [{"mess'),
    "no choices": Answer(raw=b'{"object": "nothing"}'),
    "a list": Answer(raw=b"[1, 2]"),
    "a broken line": Answer(hang_up=True),
    "a time-out": Answer(delay=1.5),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_passing_fault_is_tried_again(fault: str) -> None:
    with chat_server(lambda body, before: FAULTS[fault] if before == 0 else Answer("at last")) as server:
        (reply,) = ServerChat("m", server.url, **QUICK | {"timeout": 0.4}).answer(asks("a"), max_tokens=5)
    assert reply == Reply("at last")
    assert len(server.requests) == 2


@pytest.mark.parametrize("fault", [*FAULTS, "400", "refused"])
def test_one_item_that_fails_for_good_leaves_the_others(fault: str, own_cache: Path) -> None:
    bad = FAULTS | {"400": Answer("too long", status=400), "refused": Answer(None)}

    def behave(body: dict[str, Any], before: int) -> Answer:
        return bad[fault] if body["messages"][-1]["content"] == "bad" else Answer("good")

    with chat_server(behave) as server:
        chat = ServerChat("m", server.url, **QUICK | {"timeout": 0.4, "retries": 1})
        replies = chat.answer(asks("a", "bad", "c"), max_tokens=5)
    assert [r.text for r in replies] == ["good", None, "good"]
    assert replies[1].error
    assert server.asked.count("bad") == (1 if fault in ("400", "refused") else 2)
    assert chat.usage.failed == 1
    (kept,) = own_cache.rglob("*.jsonl")
    assert len(kept.read_text().splitlines()) == 2, "failures are not kept"


def test_retry_after_is_respected_and_too_long_a_wait_is_none() -> None:
    def behave(body: dict[str, Any], before: int) -> Answer:
        wait = "0.6" if body["messages"][-1]["content"] == "short" else "900"
        return Answer("later", status=429, headers={"retry-after": wait}) if before == 0 else Answer("now")

    with chat_server(behave) as server:
        chat = ServerChat("m", server.url, **QUICK)
        began = time.monotonic()
        short, long = chat.answer(asks("short", "long"), max_tokens=5)
        assert time.monotonic() - began < 5
    first, second = (at for at, body, _ in server.requests if body["messages"][-1]["content"] == "short")
    assert second - first >= 0.6
    assert short.text == "now"
    assert long.text is None
    assert "429" in long.error


def test_retry_after_in_all_its_forms() -> None:
    assert retry_after({}) is None
    assert retry_after({"retry-after": "3"}) == 3
    assert retry_after({"retry-after-ms": "250", "retry-after": "3"}) == 0.25
    assert retry_after({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, now=lambda: 40.0) == 60
    assert retry_after({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, now=lambda: 400.0) == 0
    assert retry_after({"retry-after": "soon"}) is None


def test_a_server_that_is_down_is_told_once_with_its_address() -> None:
    url = f"http://127.0.0.1:{closed_port()}/v1"
    chat = ServerChat("m", url, **QUICK | {"retries": 1})
    began = time.monotonic()
    with pytest.raises(UserError, match="can't be reached") as caught:
        chat.answer(asks(*map(str, range(1000))), max_tokens=5)
    assert url in caught.value.where
    assert "start the server" in caught.value.fix
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(("status", "told"), [(401, "MY_KEY"), (403, "MY_KEY"), (404, "llm.model")])
def test_a_refused_key_and_an_unknown_model_stop_the_run(
    status: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", "secret-of-the-house")
    fault = Answer("key secret-of-the-house is wrong", status=status)
    with chat_server(lambda body, before: fault) as server:
        chat = ServerChat("m", server.url, key_env="MY_KEY", concurrency=2, **QUICK)
        with pytest.raises(UserError) as caught:
            chat.answer(asks(*map(str, range(50))), max_tokens=5)
    assert server.url in caught.value.where
    assert told in caught.value.fix
    assert "secret-of-the-house" not in str(caught.value)
    assert len(server.requests) <= 4


def test_the_key_is_in_no_error(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-the-house")
    with chat_server(lambda body, before: Answer("secret-of-the-house can't do that", status=400)) as server:
        (reply,) = ServerChat("m", server.url, **QUICK).answer(asks("a"), max_tokens=5)
    assert "***" in reply.error
    assert "secret-of-the-house" not in reply.error + caplog.text


@pytest.mark.parametrize(
    ("settings", "where"),
    [({"base_url": "nowhere"}, "base_url"), ({"timeout": 0.0}, "timeout"), ({"concurrency": 0}, "concurrency")],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], where: str) -> None:
    with pytest.raises(UserError) as caught:
        ServerChat("m", **settings)
    assert where in caught.value.where
    assert caught.value.expected


KILLED = """
import sys
from toolsavvy.models.chat import Message
from toolsavvy.models.server import ServerChat
chat = ServerChat("m", sys.argv[1], concurrency=2, timeout=30.0)
chat.answer([[Message("user", str(i))] for i in range(int(sys.argv[2]))], max_tokens=5)
"""


def test_a_run_killed_in_the_middle_asks_nothing_twice(own_cache: Path) -> None:
    answered = 0

    def behave(body: dict[str, Any], before: int) -> Answer:
        nonlocal answered
        if answered >= 6 and before == 0:
            return Answer(delay=20.0)  # hangs until the process is dead
        answered += 1
        return echo(body, before)

    with chat_server(behave) as server:
        process = subprocess.Popen([sys.executable, "-c", KILLED, server.url, "12"], env=os.environ.copy())
        deadline = time.monotonic() + 60
        kept = lambda: [n for f in own_cache.rglob("*.jsonl") for n in f.read_text().splitlines()]  # noqa: E731
        while len(kept()) < 6 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = set(server.asked)
        (file,) = own_cache.rglob("*.jsonl")
        file.write_bytes(file.read_bytes() + b'{"key": "torn')
        done = {json.loads(line)["text"].removeprefix("re: ") for line in kept()[:6]}
        server.requests.clear()
        answered = -100
        replies = ServerChat("m", server.url, **QUICK).answer(asks(*map(str, range(12))), max_tokens=5)
    assert [r.text for r in replies] == [f"re: {i}" for i in range(12)]
    assert len(done) == 6
    assert done <= before
    assert not done & set(server.asked)
    assert len(server.asked) == 6


def test_a_store_survives_torn_lines_and_many_writers(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    code = """
import sys
from pathlib import Path
from toolsavvy.models.responses import ResponseStore, Stored
store = ResponseStore(Path(sys.argv[1]))
for i in range(100):
    store.put(f"{sys.argv[2]}-{i}", Stored("x" * 5000, 1, 2))
"""
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), str(n)]) for n in range(2)]
    assert [w.wait() for w in writers] == [0, 0]
    path.write_bytes(path.read_bytes() + b'{"key": "half", "text": "\xff')
    store = ResponseStore(path)
    store.refresh()
    assert all(store.get(f"{n}-{i}") == Stored("x" * 5000, 1, 2) for n in range(2) for i in range(100))
    store.put("next", Stored("after a torn line"))
    other = ResponseStore(path)
    other.refresh()
    assert other.get("next") == Stored("after a torn line")
    assert other.get("half") is None
    store.put("later", Stored("ü\u2028\n"))
    other.refresh()
    assert other.get("later") == Stored("ü\u2028\n")


@pytest.mark.parametrize("line", [b"[]", b"{}", b'{"key": 1, "text": "a"}', b'{"key": "a", "text": null}', b"\xff"])
def test_lines_that_are_no_records_are_dropped(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes(line + b"\n" + b'{"key": "k", "text": "t"}\n')
    store = ResponseStore(path)
    store.refresh()
    assert store.get("k") == Stored("t")
    assert store.get("a") is None


def test_keys_depend_on_everything_but_the_order_of_fields() -> None:
    assert request_key({"a": 1, "b": 2}) == request_key({"b": 2, "a": 1})
    assert len({request_key({"a": 1}), request_key({"a": 2}), request_key({"a": 1}, 1)}) == 3


# --- a local model --------------------------------------------------------------------------------------------------


def local(template: str | None = TEMPLATE, monkeypatch: pytest.MonkeyPatch | None = None, **settings: Any) -> Any:
    """A chat around a toy whose tokenizer has the template that is wanted."""
    tokenizer = toy_tokenizer(["what is the answer to this question"] * 3, template=template)
    from toolsavvy.models.text import TextEncoder

    loaded = LoadedModel(toy_lm(tokenizer), tokenizer, TextEncoder(tokenizer))
    assert monkeypatch is not None
    monkeypatch.setattr(chat_module, "_load", lambda *args: loaded)
    return LocalChat({"source": "toy"}, **settings)


def test_local_answers_equal_generation_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    chat = local(monkeypatch=monkeypatch, batch_size=3)
    texts = ["what", "a much longer question than the others", "is", "", "the answer to this question is what"]
    replies = chat.answer(asks(*texts), max_tokens=6)
    tokenizer, model = chat.loaded.tokenizer, chat.loaded.model
    heard: dict[int, Reply] = {}
    chat.answer(asks(*texts), max_tokens=6, heard=heard.__setitem__)
    assert [heard[i] for i in range(len(texts))] == replies
    for text, reply in zip(texts, replies, strict=True):
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        with torch.no_grad():
            output = model.generate(**ids, max_new_tokens=6, do_sample=False)
        new = output[0, ids.input_ids.shape[1] :]
        assert reply == Reply(tokenizer.decode(new, skip_special_tokens=True))
        ended = int(new[-1] == tokenizer.eos_token_id)
        assert (reply.prompt_tokens, reply.completion_tokens) == (ids.input_ids.shape[1], len(new) - ended)
    assert len({r.text for r in replies}) > 1


def test_a_text_never_becomes_a_special_token(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = local(monkeypatch=monkeypatch)
    end = chat.loaded.tokenizer.convert_tokens_to_ids("<|im_end|>")
    plain, sly = (chat.prompt([Message("user", text)]) for text in ("hello", "<|im_end|>hello<|im_start|>"))
    assert sly.count(end) == plain.count(end)
    assert chat.loaded.tokenizer.decode(sly).count("<|im_end|>hello") == 1


def test_several_turns_follow_the_template(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = local(monkeypatch=monkeypatch)
    turns = [Message("system", "be"), Message("user", "a"), Message("assistant", "b"), Message("user", "c")]
    text = chat.loaded.tokenizer.decode(chat.prompt(turns))
    assert text == "".join(f"<|im_start|>{m.role}\n{m.content}<|im_end|>\n" for m in turns) + "<|im_start|>assistant\n"


def test_models_without_a_template_or_without_system_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = [Message("system", "be"), Message("user", "a")]
    chat = local(None, monkeypatch)
    assert chat.loaded.tokenizer.decode(chat.prompt(turns)) == "<|im_start|>system: be\nuser: a\nassistant:"
    refuses = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}" + TEMPLATE
    chat = local(refuses, monkeypatch)
    assert "user\nbe\n\na<|im_end|>" in chat.loaded.tokenizer.decode(chat.prompt(turns))
    chat = local("{{ 'nothing' }}", monkeypatch)
    with pytest.raises(UserError, match="does not show"):
        chat.prompt(turns)


def test_a_prompt_that_is_too_long_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = local(monkeypatch=monkeypatch, max_input=60)
    long, short = chat.answer(asks("question " * 50, "question"), max_tokens=5)
    assert long.text is None
    assert "tokens" in long.error
    assert short.text is not None


def test_a_call_that_goes_on_after_some_batches_samples_what_it_would_have(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = local(monkeypatch=monkeypatch, batch_size=2)
    texts = ["what is the answer to this question", "what is the answer", "the answer to", "this question", "what", "a"]
    heard: list[int] = []
    whole = chat.answer(asks(*texts), max_tokens=8, temperature=1.5, heard=lambda i, reply: heard.append(i))
    rest = sorted(set(range(6)) - set(heard[:2]))
    assert chat.answer(asks(*(texts[i] for i in rest)), max_tokens=8, temperature=1.5) == [whole[i] for i in rest]


def test_samples_are_seeded_and_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = local(monkeypatch=monkeypatch, batch_size=2)
    first, again = (chat.answer(asks("what", "what", "what", "what"), max_tokens=8, temperature=1.5) for _ in range(2))
    assert first == again
    assert len({r.text for r in first}) == 4


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('Sure!\n```json\n{"a": [1, {"b": 2}]}\n```\nDone {"c": 3}', {"a": [1, {"b": 2}]}),
        ('<think>{"no": 1}</think> so {"a": "}"} it is', {"a": "}"}),
        ('<think>maybe {"no": 1}, or', None),
        ('{broken {"a": 1}', {"a": 1}),
        ("[1, 2]", None),
        ('{"a": NaN}', None),
        ('{"a": 1', None),
        ("", None),
        (None, None),
        ("{" * 5000, None),
        ('{"a":' * 5000, None),
    ],
)
def test_parse_json(text: str | None, value: dict[str, Any] | None) -> None:
    assert parse_json(text) == value


# --- the command ----------------------------------------------------------------------------------------------------


def test_the_groups_options_build_what_they_say() -> None:
    chat = build(typed(compose(["method=doctor", "model=toy", "llm.batch_size=2"]).config).llm)
    assert isinstance(chat, LocalChat)
    assert (chat.spec.source, chat.batch_size) == ("toy", 2)
    (reply,) = chat.answer(asks("hi"), max_tokens=3)
    assert isinstance(reply.text, str)
    server = build(typed(compose(["method=doctor", "llm=server", "llm.model=gpt"]).config).llm)
    assert isinstance(server, ServerChat)
    assert server.name == "gpt"


def test_a_server_is_looked_for_before_the_start_only_when_used(tmp_path: Path, own_cache: Path) -> None:
    url = f"http://127.0.0.1:{closed_port()}/v1"
    overrides = ["catalog=toy", "method=evaluate", "llm=server", "llm.model=m", f"llm.base_url={url}"]
    overrides.append(f"paths.outputs={tmp_path}")
    preflight(compose(overrides))
    from toolsavvy.config.sources import check_chat

    node = typed(compose(overrides).config).llm
    with pytest.raises(UserError, match="takes no connection") as caught:
        check_chat(node, "llm")
    assert url in caught.value.where
    fixes = {"llm": "llm.base_url, or use llm=local", "generator.judge": "correct generator.judge.base_url"}
    for key, named in fixes.items():
        with pytest.raises(UserError) as caught:
            check_chat(node, key)
        assert str(caught.value.fix).endswith(named)
    with pytest.raises(UserError, match="is no address"):
        check_chat(node | {"base_url": "http://host:port/v1"}, "llm")
    with chat_server(echo) as server:
        check_chat(node | {"base_url": server.url}, "llm")
        ServerChat("m", server.url, **QUICK).answer(asks("a"), max_tokens=5)
    check_chat(node, "llm")  # its answers are kept
