"""Items by language models on a real server: asked, refused, repeated, replaced, kept, and never asked for twice."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from set_world import tool

from chat_items import is_judge, items, said, target, tools_in, well, words
from chat_server import Answer, ChatServer, chat_server, closed_port
from toolsavvy.attacks import tokens
from toolsavvy.benchmark import GOLDS, ChoiceItem, RetrievalItem, YesNoItem
from toolsavvy.catalog import Catalog
from toolsavvy.catalogs.toy import load
from toolsavvy.config.toolsense import Recipe
from toolsavvy.errors import UserError
from toolsavvy.generators.answers import AnswerLog
from toolsavvy.generators.overlap import rouge_l
from toolsavvy.generators.toolsense.neighbourhood import LexicalNeighbourhood
from toolsavvy.generators.toolsense.parsing import (
    ChoiceDraft,
    Fault,
    RequestDraft,
    YesNoDraft,
    choice_fault,
    read_choice,
    read_drafts,
    read_request,
    read_yes_no,
    request_fault,
    yes_no_fault,
)
from toolsavvy.generators.toolsense.prompts import ASPECTS
from toolsavvy.generators.toolsense.writing import (
    ChoiceWriter,
    LlmWriter,
    RequestWriter,
    Written,
    YesNoWriter,
    refuse_empty,
)
from toolsavvy.models.chat import Message, Reply
from toolsavvy.models.server import ServerChat

CATALOG = load(40, 0).catalog
NEAR = LexicalNeighbourhood(CATALOG)
WRITERS: dict[str, type[LlmWriter[Any]]] = {"rrb": RequestWriter, "mcq": ChoiceWriter, "qa": YesNoWriter}
KINDS = pytest.mark.parametrize("kind", WRITERS)
Behave = Callable[[dict[str, Any], int], Answer]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def chat(name: str, url: str, **settings: Any) -> ServerChat:
    return ServerChat(name, url, **{"cache": False, "retries": 0, "backoff": 0.01, "timeout": 60.0} | settings)


def write(
    kind: str,
    url: str,
    store: Path,
    *,
    n: int = 6,
    chosen: list[int] | None = None,
    catalog: Catalog = CATALOG,
    recipe: Recipe | None = None,
    seed: int = 0,
    **settings: Any,
) -> Written[Any]:
    near = NEAR if catalog is CATALOG else LexicalNeighbourhood(catalog)
    writer = WRITERS[kind](chat("writer", url, **settings), chat("judge", url, **settings), recipe)
    return writer.write(catalog, chosen or list(range(len(catalog))), near, n, seed=seed, store=store)


def written_by(kind: str, behave: Behave, store: Path, **how: Any) -> tuple[Written[Any], ChatServer]:
    with chat_server(behave) as server:
        return write(kind, server.url, store, **how), server


def good_items(body: dict[str, Any], change: Callable[[dict[str, Any]], dict[str, Any]]) -> Answer:
    """A good answer whose items are changed."""
    return Answer(json.dumps({"items": [change(item) for item in items(body)]}))


# --- a model that answers well --------------------------------------------------------------------------------------


@KINDS
def test_everything_that_is_wanted_is_written_and_judged(kind: str, tmp_path: Path) -> None:
    written, server = written_by(kind, well, tmp_path / "a.jsonl", n=8)
    assert len(written.items) == written.wanted == 8
    assert (written.tools, written.replaced, written.rejected) == (8, 0, {})
    assert len({item.id for item in written.items}) == 8
    assert (written.writer.calls, written.judge.calls, written.writer.failed) == (8, 8, 0)
    assert (written.writer.prompt_tokens, written.judge.completion_tokens) == (56, 24)
    assert [a.fates for a in written.attempts] == [("accepted", "spare")] * 8
    assert {a.written.model for a in written.attempts} == {"writer"}
    assert {a.judged.model for a in written.attempts if a.judged} == {"judge"}
    assert server.most_at_once > 1
    assert {body["model"]: body["temperature"] for _, body, _ in server.requests} == {"writer": 0.7, "judge": 0.0}


@pytest.mark.parametrize("kind", ["mcq", "qa"])
def test_a_set_that_grows_is_the_set_that_was_wanted_at_once(kind: str, tmp_path: Path) -> None:
    with chat_server(well) as server:
        whole = write(kind, server.url, tmp_path / "a.jsonl", n=8)
        writer = WRITERS[kind](chat("writer", server.url), chat("judge", server.url))
        growing = writer.start(CATALOG, range(len(CATALOG)), NEAR, seed=0, store=tmp_path / "b.jsonl")
        told: list[int] = []
        assert growing.until(4).items == whole.items[:4]
        before = len(server.requests)
        assert growing.until(8, told.append).items == whole.items
        assert len(server.requests) - before == 8  # four drafts and their verdicts
        assert growing.until(8).writer.calls == 8
    assert sum(told) == 8


def test_requests_keep_the_rules_of_their_tiers_and_see_whole_documents(tmp_path: Path) -> None:
    written, server = written_by("rrb", well, tmp_path / "a.jsonl", n=9)
    documents = dict(zip([t.id for t in CATALOG.tools], CATALOG.documents, strict=True))
    asked = {target(body): body for _, body, _ in server.requests if not is_judge(body)}
    assert Counter(item.tier for item in written.items) == {"easy": 3, "medium": 3, "hard": 3}
    for item in written.items:
        assert isinstance(item, RetrievalItem)
        least, most = GOLDS[item.tier]
        assert least <= len(item.gold) == len(set(item.gold)) <= (most or 99)
        assert item.anchor in item.gold
        assert set(item.gold) < set(item.pool)
        assert len(item.pool) == 14
        assert tools_in(said(asked[documents[item.anchor]])) == [documents[i] for i in item.pool]
    assert len({item.pool.index(item.anchor) for item in written.items}) > 3, "the anchor stands anywhere"
    for attempt in written.attempts:
        assert attempt.judged
        shown, judged = (tools_in(e.messages[-1].content) for e in (attempt.written, attempt.judged))
        assert sorted(shown) == sorted(judged)
        assert shown != judged


def test_questions_have_their_patterns_and_come_with_neighbours(tmp_path: Path) -> None:
    choices, server = written_by("mcq", well, tmp_path / "mcq.jsonl", n=8)
    assert Counter(item.pattern for item in choices.items) == dict.fromkeys(ASPECTS, 2)
    assert all(isinstance(i, ChoiceItem) and len({i.correct, *i.wrong}) == 4 for i in choices.items)
    for _, body, _ in server.requests:
        near = tools_in(said(body))
        assert len(near) == (0 if is_judge(body) else 4)
        assert target(body) not in near
    places = {v["answer"] for a in choices.attempts if a.judged for v in json.loads(a.judged.text or "")["verdicts"]}
    assert len(places) > 2, "the right option stands anywhere"

    questions, _ = written_by("qa", well, tmp_path / "qa.jsonl", n=16)
    assert all(isinstance(item, YesNoItem) for item in questions.items)
    assert Counter((i.pattern, i.answer) for i in questions.items) == {
        (a, b): 2 for a in ASPECTS for b in (True, False)
    }


@KINDS
def test_the_same_seed_gives_the_same_set_and_another_one_other_orders(kind: str, tmp_path: Path) -> None:
    first, one = written_by(kind, well, tmp_path / "1.jsonl")
    again, two = written_by(kind, well, tmp_path / "2.jsonl")
    _, three = written_by(kind, well, tmp_path / "3.jsonl", seed=1)
    assert first.items == again.items
    assert sorted(one.asked) == sorted(two.asked)
    assert set(one.asked) != set(three.asked)


# --- answers that are no good ---------------------------------------------------------------------------------------

POOL = list(range(10))
ANCHOR = CATALOG.tools[0]
DOCUMENT = CATALOG.documents[0]


def request(text: str = "please do what w1 w2 w3 need", *gold: int) -> RequestDraft:
    return RequestDraft(text, gold or (0,))


@pytest.mark.parametrize(
    ("draft", "tier", "reason"),
    [
        (request(), "easy", ""),
        (request("we need both of these things", 3, 0), "medium", ""),
        (request("One thing. Another! A third?", 1, 2, 3, 0), "hard", ""),
        (request("a b c", 0, 1), "easy", "arity"),
        (request("a b c", 0), "medium", "arity"),
        (request("a b c", 0, 1, 2, 3), "medium", "arity"),
        (request("a b c", 0, 1, 2), "hard", "arity"),
        (request("a b c", 0, 0), "medium", "repeated_tool"),
        (request("a b c", 1), "easy", "no_anchor"),
        (request("a b"), "easy", "short"),
        (request(" ".join(f"w{i}" for i in range(21))), "easy", "long"),
        (request(" ".join(f"w{i}" for i in range(26)), 0, 1), "medium", "long"),
        (request("One thing. Another! A third? A fourth.", 1, 2, 3, 0), "hard", "long"),
        (request(f"could you {ANCHOR.name} for me"), "easy", "names_tool"),
        (request(f"my {' really '.join(reversed(ANCHOR.name.split('_')))} now"), "easy", "names_tool"),
        (request(f"do {CATALOG.tools[2].name.replace('_', ' ')} for me", 0, 2), "medium", "names_tool"),
    ],
)
def test_requests_that_break_a_rule_are_refused(draft: RequestDraft, tier: str, reason: str) -> None:
    fault = request_fault(draft, tier, 0, CATALOG)
    assert (fault.reason if fault else "") == reason
    assert fault is None or fault.told


CHOICE = ChoiceDraft("What does this tool take?", "one thing", ("two things", "three things", "four things"), DOCUMENT)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"wrong": ("two things",)}, "options"),
        ({"wrong": ()}, "options"),
        ({"wrong": ("two things", "three things", "four things", "five things")}, "options"),
        ({"wrong": ("two things", "One  thing.", "four things")}, "same_options"),
        ({"wrong": ("two things", "Two things!", "four things")}, "same_options"),
        ({"wrong": ("two things", "- -", "four things")}, "empty_option"),
        ({"correct": "one"}, "option_length"),
        ({"correct": "a b c d e f g h i"}, "option_length"),
        ({"question": "What does it take?"}, "no_this_tool"),
        ({"question": "this tool?"}, "short"),
        ({"question": f"What does this tool {ANCHOR.name} take?"}, "names_tool"),
        ({"wrong": ("two things", "three things", f"to {ANCHOR.name.replace('_', ' ')}")}, "names_tool"),
        ({"evidence": "never said anywhere"}, "no_evidence"),
        ({"evidence": DOCUMENT.split()[0]}, "no_evidence"),
        ({"evidence": " ".join(DOCUMENT.split()[3:6]).upper()}, ""),
    ],
)
def test_choices_that_break_a_rule_are_refused(change: dict[str, Any], reason: str) -> None:
    fault = choice_fault(replace(CHOICE, **change), 0, CATALOG)
    assert (fault.reason if fault else "") == reason


def test_yes_no_questions_that_break_a_rule_are_refused() -> None:
    good = YesNoDraft("Does this tool take anything?", False, DOCUMENT)
    assert yes_no_fault(good, False, 0, CATALOG) is None
    for draft, target_, reason in (
        (good, True, "other_answer"),
        (replace(good, evidence="It is not mentioned."), False, "no_evidence"),
        (replace(good, question="Does it?"), False, "no_this_tool"),
        (replace(good, question=f"Does this tool {ANCHOR.name.replace('_', ' ')}?"), False, "names_tool"),
    ):
        fault = yes_no_fault(draft, target_, 0, CATALOG)
        assert fault
        assert fault.reason == reason


ENTRY = {"request": "a b c", "tools": [1]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "no_answer"),
        ("I am sorry, but I cannot do that.", "malformed"),
        ('{"items": [{"request": "a"', "malformed"),
        ('[{"request": "a b c", "tools": [1]}]', "malformed"),
        (json.dumps({"items": []}), "wrong_count"),
        (json.dumps({"items": [ENTRY, ENTRY]}), "wrong_count"),
        (json.dumps({"items": "none"}), "malformed"),
        (json.dumps({"items": ["a b c"]}), "malformed"),
        (json.dumps({"items": [{"request": "a b c"}]}), "malformed"),
        (json.dumps({"items": [ENTRY | {"tools": "1"}]}), "malformed"),
        (json.dumps({"items": [ENTRY | {"tools": [True]}]}), "malformed"),
        (json.dumps({"items": [ENTRY | {"tools": [1.0]}]}), "malformed"),
        (json.dumps({"items": [ENTRY | {"tools": ["share_photo"]}]}), "malformed"),
        (json.dumps({"items": [ENTRY | {"tools": [0]}]}), "outside_pool"),
        (json.dumps({"items": [ENTRY | {"tools": [11]}]}), "outside_pool"),
        (json.dumps({"items": [ENTRY | {"request": " "}]}), "malformed"),
    ],
)
def test_answers_that_hold_no_request_are_told_apart(text: str | None, reason: str) -> None:
    (found,) = read_drafts(text, 1, lambda value: read_request(value, POOL))
    assert isinstance(found, Fault)
    assert found.reason == reason


def test_what_no_file_or_terminal_can_hold_is_in_no_draft() -> None:
    draft = read_request({"request": "half \ud83d of\u2028it \u202e \x1b[2J", "tools": [1]}, POOL)
    assert draft == RequestDraft("half ? of it \\u202e \\x1b[2J", (0,))


def test_other_drafts_are_read_as_strictly() -> None:
    choice = {"question": "q", "correct": "c", "wrong": ["a", "b"], "evidence": "e"}
    assert read_choice(choice) == ChoiceDraft("q", "c", ("a", "b"), "e")
    for change in ({"wrong": "a"}, {"wrong": ["a", 1]}, {"wrong": ["a", ""]}, {"correct": None}, {"evidence": ""}):
        assert isinstance(read_choice(choice | change), Fault)
    answer = {"question": "q\n?", "answer": " yes", "evidence": "e"}
    assert read_yes_no(answer) == YesNoDraft("q ?", True, "e")
    for change, reason in (({"answer": "maybe"}, "no_yes_or_no"), ({"answer": True}, "malformed")):
        fault = read_yes_no(answer | change)
        assert isinstance(fault, Fault)
        assert fault.reason == reason


@pytest.mark.parametrize(
    ("kind", "way"),
    [("rrb", "broken JSON"), ("mcq", "too many"), ("qa", "refusal"), ("rrb", "no text"), ("mcq", "no text")],
)
def test_a_bad_answer_is_told_to_the_writer_who_tries_again(kind: str, way: str, tmp_path: Path) -> None:
    bad = {
        "broken JSON": ('{"items": [', "malformed"), "too many": (json.dumps({"items": [{}] * 3}), "wrong_count"),
        "refusal": ("I'm sorry, I can't.", "malformed"), "no text": (None, "no_answer"),
    }  # fmt: skip
    text, reason = bad[way]

    def behave(body: dict[str, Any], before: int) -> Answer:
        is_first = not is_judge(body) and target(body) == CATALOG.documents[2] and "Attempt" not in said(body)
        return Answer(text) if is_first else well(body)

    written, _ = written_by(kind, behave, tmp_path / "a.jsonl", n=4)
    assert len(written.items) == 4
    assert (written.rejected, written.replaced) == ({reason: 1}, 0)
    first, second = (a for a in written.attempts if a.tool == CATALOG.tools[2].id)
    assert (first.fates, first.number, second.number) == ((reason,), 1, 2)
    assert first.judged is None
    assert first.told[0] in second.written.messages[-1].content
    assert written.writer.failed == (1 if way == "no text" else 0)


def test_a_judges_reason_is_told_and_a_tool_that_keeps_failing_gives_way_to_the_next(tmp_path: Path) -> None:
    def behave(body: dict[str, Any], before: int) -> Answer:
        if is_judge(body) and target(body) == CATALOG.documents[1]:
            no = {**json.loads(well(body).text or "")["verdicts"][0], "fair": False, "why": "too easy to guess"}
            return Answer(json.dumps({"verdicts": [no, no]}))
        return well(body)

    recipe = Recipe(attempts=4, feedback=3)
    written, _ = written_by("mcq", behave, tmp_path / "a.jsonl", n=4, recipe=recipe)
    assert [i.tool for i in written.items] == [CATALOG.tools[i].id for i in (0, 4, 2, 3)]
    assert [i.pattern for i in written.items] == list(ASPECTS)
    assert (written.tools, written.replaced, written.rejected) == (5, 1, {"judge_fair": 8})
    last = [a.written.messages[-1].content for a in written.attempts if a.tool == CATALOG.tools[1].id][-1]
    assert last.count("too easy to guess") == 3
    assert len({a.written.messages for a in written.attempts}) == len(written.attempts), "no prompt is repeated"


def test_items_that_say_nearly_the_same_are_refused_also_within_a_round(tmp_path: Path) -> None:
    def behave(body: dict[str, Any], before: int) -> Answer:
        same = {"request": f"please get us the {words('same')} today"}
        return well(body) if is_judge(body) or "Attempt" in said(body) else good_items(body, lambda item: item | same)

    written, _ = written_by("rrb", behave, tmp_path / "a.jsonl", n=6)
    texts = [tokens(item.query) for item in written.items]
    assert len(texts) == 6
    assert all(rouge_l(a, b) < 0.7 for i, a in enumerate(texts) for b in texts[:i])
    assert written.rejected == {"repeated": 10}, "of five others, both drafts"


def test_a_question_may_have_both_answers_but_not_one_of_them_twice(tmp_path: Path) -> None:
    def behave(body: dict[str, Any], before: int) -> Answer:
        if is_judge(body):
            truth = "Yes" if target(body) in (CATALOG.documents[0], CATALOG.documents[2]) else "No"
            found = json.loads(well(body).text or "")["verdicts"]
            return Answer(json.dumps({"verdicts": [v | {"answer": truth} for v in found]}))
        return good_items(body, lambda item: item | {"question": "Does this tool take a thing of any kind?"})

    recipe = Recipe(attempts=1)
    written, _ = written_by("qa", behave, tmp_path / "a.jsonl", n=4, chosen=[0, 1, 2, 3], recipe=recipe)
    assert [item.answer for item in written.items] == [True, False]


@KINDS
def test_a_model_that_never_gets_it_right_is_not_asked_for_ever(kind: str, tmp_path: Path) -> None:
    recipe = Recipe(attempts=2, batch_size=4, patience=8)
    written, server = written_by(
        kind, lambda body, before: Answer("no idea"), tmp_path / "a.jsonl", n=30, recipe=recipe
    )
    assert (written.items, written.rejected["malformed"]) == ((), len(server.requests))
    assert 8 <= written.replaced < 12
    with pytest.raises(UserError, match=r"nothing that writer wrote .* has passed \(malformed") as caught:
        refuse_empty(written, "writer")
    assert caught.value.where == "generator.llm"
    assert caught.value.expected
    assert caught.value.fix


def test_fewer_items_than_wanted_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written, _ = written_by("mcq", well, tmp_path / "a.jsonl", n=5, chosen=[0, 1, 2])
    assert (len(written.items), written.wanted) == (3, 5)
    refuse_empty(written, "writer")
    assert "3 of 5 items" in caplog.text


# --- tools and catalogs ---------------------------------------------------------------------------------------------


def small(*descriptions: str) -> Catalog:
    return Catalog("small", tuple(tool(f"t{i}", "go", d, "g") for i, d in enumerate(descriptions)))


@pytest.mark.parametrize(
    ("descriptions", "kind", "expected"),
    [
        (("one", "two", "three"), "rrb", "at least 4 tools"),
        (("same",) * 6, "rrb", "at least 2 tools"),
        (("same",) * 6, "mcq", "near others with different documents"),
        (("same",) * 6, "qa", "near others with different documents"),
    ],
)
def test_a_catalog_that_is_too_small_for_an_item_says_what_it_needs(
    descriptions: tuple[str, ...], kind: str, expected: str, tmp_path: Path
) -> None:
    with chat_server(well) as server, pytest.raises(UserError) as caught:
        write(kind, server.url, tmp_path / "a.jsonl", catalog=small(*descriptions))
    assert "catalog small" in caught.value.where
    assert expected in caught.value.expected
    assert caught.value.fix
    assert not server.requests


def test_tools_with_the_same_document_get_no_easy_request_and_are_no_rivals(tmp_path: Path) -> None:
    texts = [f"also called thing{i}. It {words(str(i), 3)}." for i in range(6)]
    catalog = small(*texts, texts[0], texts[1])
    written, server = written_by("rrb", well, tmp_path / "a.jsonl", n=6, catalog=catalog)
    easy = [item for item in written.items if item.tier == "easy"]
    assert {item.anchor for item in easy} <= {"t2", "t3", "t4", "t5"}
    assert len(easy) == 2
    for _, body, _ in server.requests:
        shown = tools_in(said(body))
        assert len(set(shown)) == len(shown) == 6
    assert not {"t6", "t7"} & {item.anchor for item in written.items}, "a document is written for once"


def test_inputs_are_not_asked_about_where_there_are_none(tmp_path: Path) -> None:
    catalog = small(*(f"also called thing{i}. It {words(str(i), 3)}." for i in range(6)))
    written, _ = written_by("mcq", well, tmp_path / "a.jsonl", n=6, catalog=catalog)
    assert {item.pattern for item in written.items} == set(ASPECTS) - {"input"}


# --- servers in trouble ---------------------------------------------------------------------------------------------

FAULTS = {
    "500": Answer("broken", status=500),
    "429": Answer("slow down", status=429, headers={"retry-after": "0.1"}),
    "a hang-up": Answer(hang_up=True),
    "half an answer": Answer(half=True),
    "an HTML page": Answer(raw=b"<html>hello</html>", headers={"content-type": "text/html"}),
    "a time-out": Answer(delay=6.0),
}


def patience(fault: str) -> dict[str, Any]:
    """Answers may take long on a busy machine, but where a time-out is wanted."""
    return {"timeout": 3.0 if fault == "a time-out" else 60.0}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_passes_costs_nothing(fault: str, tmp_path: Path) -> None:
    def behave(body: dict[str, Any], before: int) -> Answer:
        is_hit = before == 0 and not is_judge(body) and target(body) == CATALOG.documents[1]
        return FAULTS[fault] if is_hit else well(body)

    written, server = written_by("mcq", behave, tmp_path / "a.jsonl", n=3, retries=2, **patience(fault))
    assert (len(written.items), written.rejected, written.writer.failed) == (3, {}, 0)
    assert len(server.requests) == 7, "one request was sent twice"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_stays_costs_one_tool(fault: str, tmp_path: Path) -> None:
    def behave(body: dict[str, Any], before: int) -> Answer:
        return FAULTS[fault] if target(body) == CATALOG.documents[1] else well(body)

    recipe = Recipe(attempts=1)
    written, _ = written_by("mcq", behave, tmp_path / "a.jsonl", n=3, recipe=recipe, **patience(fault))
    assert [item.tool for item in written.items] == [CATALOG.tools[i].id for i in (0, 3, 2)]
    assert (written.rejected, written.writer.failed, written.replaced) == ({"no_answer": 1}, 1, 1)
    assert all(a.written.error for a in written.attempts if a.fates == ("no_answer",))


@pytest.mark.parametrize(
    ("answer", "told", "where"),
    [
        (None, "can't be reached", "llm.base_url"),
        (Answer("who are you", status=401), "wants a key", "llm.base_url"),
        (Answer("no such model", status=404), "doesn't know 'writer'", "llm.base_url"),
        (FAULTS["an HTML page"], "answered none", "generator.llm"),
        (FAULTS["500"], "answered none", "generator.llm"),
        (FAULTS["a hang-up"], "answered none", "generator.llm"),
    ],
)
def test_a_server_that_is_of_no_use_stops_the_run(answer: Answer | None, told: str, where: str, tmp_path: Path) -> None:
    with chat_server(lambda body, before: answer or Answer()) as server, pytest.raises(UserError) as caught:
        url = server.url if answer else f"http://127.0.0.1:{closed_port()}/v1"
        write("rrb", url, tmp_path / "a.jsonl")
    assert told in caught.value.what
    assert where in caught.value.where
    assert caught.value.fix
    assert not (tmp_path / "a.jsonl").exists()


def test_a_judge_that_is_down_stops_the_run_and_the_writers_answers_are_kept(tmp_path: Path) -> None:
    with chat_server(well) as server:
        judge = chat("judge", f"http://127.0.0.1:{closed_port()}/v1")
        store, writer = tmp_path / "a.jsonl", chat("writer", server.url)
        with pytest.raises(UserError, match="can't be reached"):
            ChoiceWriter(writer, judge).write(CATALOG, [0, 1, 2], NEAR, 3, seed=0, store=store)
        assert len(server.requests) == 3
        written = ChoiceWriter(writer, chat("judge", server.url)).write(
            CATALOG, [0, 1, 2], NEAR, 3, seed=0, store=store
        )
    assert len(written.items) == 3
    assert len(server.requests) == 6, "only the judge was asked again"


# --- runs that are cut off ------------------------------------------------------------------------------------------


@KINDS
def test_what_is_on_file_is_not_asked_again_whatever_line_was_torn(kind: str, tmp_path: Path) -> None:
    def behave(body: dict[str, Any], before: int) -> Answer:
        bad = not is_judge(body) and target(body) == CATALOG.documents[1] and "Attempt" not in said(body)
        return Answer("hm") if bad else well(body)

    whole, server = written_by(kind, behave, tmp_path / "whole.jsonl")
    rows = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    assert len(rows) == len(server.requests)
    for kept in (0, 7, len(rows)) if kind == "rrb" else (3,):
        torn = tmp_path / f"torn{kept}.jsonl"
        torn.write_bytes(b"".join(rows[:kept]) + b'{"key": "torn", "te')
        again, second = written_by(kind, behave, torn)
        known = {json.loads(row)["messages"][-1]["content"] for row in rows[:kept]}
        assert not known & set(second.asked)
        assert len(second.asked) == len(rows) - kept
        assert again == whole
        assert torn.read_bytes().count(b"\n") == len(rows)


@pytest.mark.parametrize(
    "row", ['{"key": "x", "model": "m"}', '{"key": "x", "text": "a", "error": "", "prompt_tokens": "b"}']
)
def test_a_line_that_is_no_answer_is_told(tmp_path: Path, row: str) -> None:
    (tmp_path / "a.jsonl").write_text(row + "\n")
    with pytest.raises(UserError, match="a line is no answer") as caught:
        AnswerLog(ServerChat("m"), tmp_path / "a.jsonl")
    assert caught.value.where == str(tmp_path / "a.jsonl")
    assert "delete that line" in caught.value.fix


class Dies:
    """Answers twice, then the power goes."""

    name = "dies"

    def answer(self, conversations: Any, *, heard: Any, **how: Any) -> list[Reply]:
        for i in range(2):
            heard(i, Reply(f"answer {i}", "", 5, 2))
        raise KeyboardInterrupt


def test_every_answer_is_on_file_the_moment_it_is_there(tmp_path: Path) -> None:
    prompts = [[Message("user", f"{i} \ud800")] for i in range(4)]
    with pytest.raises(KeyboardInterrupt):
        AnswerLog(Dies(), tmp_path / "a.jsonl").answer(prompts, max_tokens=5)
    replies = AnswerLog(Dies(), tmp_path / "a.jsonl").answer(prompts[:2], max_tokens=5)
    assert [(r.text, r.prompt_tokens, r.completion_tokens) for r in replies] == [("answer 0", 5, 2), ("answer 1", 5, 2)]


KILLED = """
import sys
from pathlib import Path
from toolsavvy.catalogs.toy import load
from toolsavvy.config.toolsense import Recipe
from toolsavvy.generators.toolsense.neighbourhood import LexicalNeighbourhood
from toolsavvy.generators.toolsense.writing import YesNoWriter
from toolsavvy.models.server import ServerChat
catalog, (_, url, store) = load(40, 0).catalog, sys.argv
chats = [ServerChat(name, url, cache=False, concurrency=3, retries=0) for name in ("writer", "judge")]
near = LexicalNeighbourhood(catalog)
written = YesNoWriter(*chats, Recipe(batch_size=5)).write(catalog, range(40), near, 12, seed=0, store=Path(store))
print(len(written.items))
"""


def test_a_process_killed_in_the_middle_repeats_no_finished_call(tmp_path: Path) -> None:
    reached, resumed = threading.Event(), threading.Event()
    lock, finished = threading.Lock(), []

    def behave(body: dict[str, Any], before: int) -> Answer:
        with lock:
            last = len(finished) >= 14 and not resumed.is_set()
            finished.append(said(body))
        if last:
            reached.set()
            resumed.wait(60)
        return well(body)

    store = tmp_path / "a.jsonl"
    with chat_server(behave) as server:
        command = [sys.executable, "-c", KILLED, server.url, str(store)]
        process = subprocess.Popen(command, env=os.environ.copy(), stderr=subprocess.PIPE)
        assert reached.wait(60), process.communicate()[1]
        deadline = threading.Event()
        while len(store.read_bytes().splitlines()) < 14 and not deadline.wait(0.05):
            pass
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        done = {json.loads(row)["messages"][-1]["content"] for row in store.read_bytes().splitlines()}
        assert len(done) == 14
        store.write_bytes(store.read_bytes() + b'{"key": "torn')
        resumed.set()
        before = len(server.requests)
        again = subprocess.run(command, env=os.environ.copy(), capture_output=True, text=True, check=True)
        asked = server.asked[before:]
    assert again.stdout.strip() == "12"
    assert not done & set(asked)
    assert len(done) + len(asked) == 24


def test_a_new_run_takes_answers_from_the_cache_and_counts_them_apart(tmp_path: Path) -> None:
    with chat_server(well) as server:
        first = write("mcq", server.url, tmp_path / "1.jsonl", n=3, cache=True)
        second = write("mcq", server.url, tmp_path / "2.jsonl", n=4, cache=True)
        assert len(server.requests) == 8
    assert (first.writer.calls, first.writer.cached) == (3, 0)
    assert asdict(second.writer) == {
        "calls": 1, "cached": 3, "failed": 0, "prompt_tokens": 7, "completion_tokens": 3, "cached_prompt_tokens": 21,
        "cached_completion_tokens": 9,
    }  # fmt: skip
    assert first.items == second.items[:3]


def test_progress_is_told_in_full_and_no_prompt_shows_what_was_refused_by_its_order(tmp_path: Path) -> None:
    told: list[int] = []
    with chat_server(well) as server:
        writer = YesNoWriter(chat("writer", server.url), chat("judge", server.url), Recipe(batch_size=2))
        writer.write(CATALOG, range(10), NEAR, 5, seed=0, store=tmp_path / "a.jsonl", progress=told.append)
    assert sum(told) == 5
    assert len(told) > 2
    assert all(re.search(r"^Answer: (Yes|No)$", text, re.M) for text in server.asked if "Similar tools" in text)
