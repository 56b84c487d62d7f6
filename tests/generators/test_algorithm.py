from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from set_world import items, query, source, tool

from chat_server import Answer, ChatServer, chat_server
from toolsavvy.catalog import Catalog
from toolsavvy.errors import UserError
from toolsavvy.generators.algorithm import Recipe, Writer
from toolsavvy.generators.instructions import Rules, names_tool
from toolsavvy.generators.seeds import SEEDS
from toolsavvy.models.server import ServerChat

THINGS = (
    "rain", "bread", "trains", "chess", "taxes", "birds", "radio", "wine", "maps", "shoes", "poems", "bees", "steel",
)  # fmt: skip
TOOLS = [tool(f"t{i}", f"{thing}_helper", f"All about {thing}.", "g") for i, thing in enumerate(THINGS)]
DATA = source("s", TOOLS, {"test": [query(f"q{i}", f"tell me about {t}", f"t{i}") for i, t in enumerate(THINGS)]})
ITEMS, CATALOG = items(DATA), DATA.catalog
Says = Callable[[str, int], Answer | str]


def asked_for(body: dict[str, Any]) -> str:
    """The request that a prompt ends with."""
    return re.findall(r"Request: (.*)", body["messages"][-1]["content"])[-1]


def good(request: str) -> str:
    """An instruction that shares hardly a word with the others'."""
    thing = request.removeprefix("tell me about ")
    return " ".join(f"{thing}{word}" for word in ("seek", "those", "which", "know", "many", "facts", "of", "it"))


def behave(says: Says) -> Callable[[dict[str, Any], int], Answer]:
    def answer(body: dict[str, Any], before: int) -> Answer:
        said = says(asked_for(body), before)
        return said if isinstance(said, Answer) else Answer(said)

    return answer


def writer(server: ChatServer, path: Path, recipe: Recipe | None = None, catalog: Catalog = CATALOG) -> Writer:
    chat = ServerChat("writer", base_url=server.url, cache=False, retries=0, backoff=0.01, concurrency=4)
    return Writer(chat, catalog, recipe or Recipe(batch_size=4), Rules(), path)


def test_every_query_gets_an_instruction_with_its_gold_tools_in_view(tmp_path: Path) -> None:
    with chat_server(behave(lambda request, _: good(request))) as server:
        written = writer(server, tmp_path / "a.jsonl").write(ITEMS)
    assert [i.query.instruction for i in written.items] == [good(i.query.text) for i in ITEMS]
    assert written.counts == {"accepted_at_attempt_1": 13, "answers_asked": 13}
    prompts = {asked_for(body): body["messages"] for _, body, _ in server.requests}
    for item, thing in zip(ITEMS, THINGS, strict=True):
        assert f"All about {thing}." in prompts[item.query.text][-1]["content"]


def test_accepted_instructions_become_examples_of_later_prompts_never_of_their_own_batch(tmp_path: Path) -> None:
    with chat_server(behave(lambda request, _: good(request))) as server:
        writer(server, tmp_path / "a.jsonl").write(ITEMS)
    own = {good(i.query.text): n // 4 for n, i in enumerate(ITEMS)}
    seeds = {s.instruction for s in SEEDS}
    shown_from_pool = 0
    for _, body, _ in server.requests:
        batch = next(n for n, i in enumerate(ITEMS) if i.query.text == asked_for(body)) // 4
        shown = re.findall(r"Instruction: (.*)", body["messages"][-1]["content"])
        pool = [text for text in shown if text in own]
        assert len(shown) == 6
        assert len(pool) == (0 if batch == 0 else 2)
        assert all(own[text] < batch for text in pool)
        assert all(text in seeds for text in shown if text not in own)
        shown_from_pool += len(pool)
    assert shown_from_pool == 18


BAD = {
    "malformed": '{"instruction": ["no", "text"',
    "no_answer": Answer("down", status=500),
    "short": "Find it.",
    "long": " ".join(f"w{i}" for i in range(200)),
    "names_tool": "Use the bread helper, which knows all there is about loaves.",
    "copies_query": "Tell me about bread.",
    "repeated": SEEDS[0].instruction,
}


@pytest.mark.parametrize("why", BAD)
def test_bad_answers_are_asked_for_again_and_counted(tmp_path: Path, why: str) -> None:
    def says(request: str, before: int) -> Answer | str:
        told.append(request)
        return BAD[why] if request.endswith("bread") and told.count(request) == 1 else good(request)

    told: list[str] = []
    rules = Rules(min_words=4)
    with chat_server(behave(says)) as server:
        one = writer(server, tmp_path / "a.jsonl")
        one.rules = rules
        written = one.write(ITEMS)
    assert written.counts == {
        "accepted_at_attempt_1": 12, "accepted_at_attempt_2": 1, f"refused_{why}": 1, "answers_asked": 14,
    }  # fmt: skip
    assert [i.query.instruction for i in written.items] == [good(i.query.text) for i in ITEMS]
    twice = [body["messages"] for _, body, _ in server.requests if asked_for(body).endswith("bread")]
    assert len(twice) == 2
    assert twice[0] != twice[1]  # other examples, so that a greedy model has a chance


@pytest.mark.parametrize("failing", ["template", "drop", "none"])
def test_a_query_that_fails_for_good_gets_what_was_asked_for(tmp_path: Path, failing: str) -> None:
    def says(request: str, _: int) -> str:
        return "nonsense\n\nin two parts" if request.endswith("bread") else good(request)

    recipe = Recipe(batch_size=4, attempts=2, failing=failing)
    with chat_server(behave(says)) as server:
        written = writer(server, tmp_path / "a.jsonl", recipe).write(ITEMS)
    assert written.counts["failed_queries"] == 1
    assert written.counts["refused_malformed"] == 2
    found = {i.query.id: i.query.instruction for i in written.items}
    assert len(found) == (12 if failing == "drop" else 13)
    if failing == "template":
        text = found["q1"]
        assert text
        assert not names_tool(text, ITEMS[1].query, CATALOG)
    else:
        assert found.get("q1") is None


def test_the_judge_must_say_yes(tmp_path: Path) -> None:
    def answer(body: dict[str, Any], before: int) -> Answer:
        request = asked_for(body)
        if body["messages"][0]["content"].startswith("You check"):
            assert body["temperature"] == 0
            refused = request.endswith("bread") and "breadseek" in body["messages"][-1]["content"]
            return Answer(
                "No." if refused else "<think>hm</think>Yes, it is." if request != "tell me about wine" else "?"
            )
        writes.append(request)
        return Answer(good(request) if writes.count(request) == 1 else good(request).replace("breadseek", "quest"))

    writes: list[str] = []
    with chat_server(answer) as server:
        recipe = Recipe(batch_size=4, judge=True, attempts=2, failing="none")
        written = writer(server, tmp_path / "a.jsonl", recipe).write(ITEMS)
    found = {i.query.text: i.query.instruction for i in written.items}
    assert found["tell me about bread"] == good("tell me about bread").replace("breadseek", "quest")
    assert found["tell me about wine"] is None
    assert written.counts["refused_judged"] == 3
    assert written.counts["failed_queries"] == 1


def test_a_resumed_run_asks_nothing_twice_and_ends_the_same(tmp_path: Path) -> None:
    def says(request: str, before: int) -> Answer | str:
        told.append(request)
        bad = request.endswith(("bread", "bees")) and told.count(request) < 3
        return (Answer("down", status=500) if request.endswith("bees") else "short") if bad else good(request)

    told: list[str] = []
    with chat_server(behave(says)) as server:
        whole = writer(server, tmp_path / "whole.jsonl").write(ITEMS)
    lines = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) == len(server.requests) == 17
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(b"".join(lines[:9]) + lines[9][:20])
    told = [request for request in told if request.endswith("bread")]  # its bad answers are on file already
    with chat_server(behave(says)) as server:
        again = writer(server, torn).write(ITEMS)
    assert again.items == whole.items
    assert again.counts["answers_asked"] == len(server.requests) == 17 - 9
    assert {k: v for k, v in again.counts.items() if k != "answers_asked"} == {
        k: v for k, v in whole.counts.items() if k != "answers_asked"
    }
    with chat_server(behave(says)) as server:
        assert writer(server, torn).write(ITEMS).items == whole.items
    assert server.requests == []


def test_half_a_character_in_an_answer_harms_nothing(tmp_path: Path) -> None:
    def says(request: str, _: int) -> Answer | str:
        raw = json.dumps({"choices": [{"message": {"role": "assistant", "content": f"{good(request)} \ud83d"}}]})
        return Answer(raw=raw.encode())

    with chat_server(behave(says)) as server:
        written = writer(server, tmp_path / "a.jsonl").write(ITEMS[:2])
    for item in written.items:
        assert item.query.instruction is not None
        item.query.instruction.encode()


def test_a_model_that_never_answers_stops_the_run(tmp_path: Path) -> None:
    with (
        chat_server(lambda *_: Answer("overloaded", status=503)) as server,
        pytest.raises(UserError) as caught,
    ):
        writer(server, tmp_path / "a.jsonl").write(ITEMS)
    error = caught.value
    assert "answered none of the first 4 prompts" in error.what
    assert error.where == "generator.llm"
    assert "generator.backend=template" in error.fix
    assert not (tmp_path / "a.jsonl").exists()
