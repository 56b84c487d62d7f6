from __future__ import annotations

import itertools
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_server import Answer, chat_server
from toolsavvy.catalog import Catalog, Query, Tool
from toolsavvy.config.compose import build, compose, typed
from toolsavvy.config.preflight import preflight
from toolsavvy.errors import UserError
from toolsavvy.models import chat as chat_module
from toolsavvy.models.chat import LoadedModel, LocalChat, Message, Reply
from toolsavvy.models.server import ServerChat
from toolsavvy.models.text import TextEncoder
from toolsavvy.retrieval.bm25 import BM25
from toolsavvy.retrieval.listwise import JUDGE, WRITE, LLMReranker, read_order, windows
from toolsavvy.retrieval.rerank import Rerank
from world import TEMPLATE, toy_lm, toy_tokenizer


@pytest.fixture(autouse=True)
def own_cache(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("slow"):
        return  # real weights come from the common cache
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path / "cache"))


def ask(text: str = "q", instruction: str | None = None) -> Query:
    return Query("1", text, {}, instruction=instruction)


# --- answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "order", "fault"),
    [
        ("[2] > [4] > [1] > [3]", (1, 3, 0, 2), ""),
        ("Sure! Here:\n1. [2]\n2. [4]\n3. [1]\n4. [3]", (1, 3, 0, 2), ""),
        ("<think>[1] > [2]?</think>[3] > [2] > [1] > [4]", (2, 1, 0, 3), ""),
        ("<think>[4] > [2]? Let me see, [1]", (0, 1, 2, 3), "nothing"),
        ("2 > 4 > 1 > 3", (1, 3, 0, 2), ""),
        ("2, 4, 1, 3.", (1, 3, 0, 2), ""),
        ("[2] > [4]", (1, 3, 0, 2), "missing"),
        ("[2] > [2] > [4] > [2] > [1] > [3]", (1, 3, 0, 2), "repeated"),
        ("[9] > [2] > [0] > [4] > [1] > [3]", (1, 3, 0, 2), "out of range"),
        ("[-1] > [3] > [99999999999]", (2, 0, 1, 3), "missing"),
        ("I have 3 tools and none is good.", (0, 1, 2, 3), "nothing"),
        ("[5] > [6]", (0, 1, 2, 3), "nothing"),
        ("3", (2, 0, 1, 3), "missing"),
        ("", (0, 1, 2, 3), "nothing"),
        (None, (0, 1, 2, 3), "nothing"),
    ],
)
def test_an_order_is_read_from_any_answer(text: str | None, order: tuple[int, ...], fault: str) -> None:
    found = read_order(text, 4)
    assert (found.places, found.fault) == (order, fault)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="[]> 0123456789,;\n٣abc", max_size=60), st.integers(1, 12))
def test_whatever_is_answered_the_order_holds_every_tool_once(text: str, count: int) -> None:
    assert sorted(read_order(text, count).places) == list(range(count))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 60), st.integers(2, 25), st.data())
def test_windows_reach_from_the_back_to_the_front_without_a_gap(count: int, window: int, data: Any) -> None:
    step = data.draw(st.integers(1, window))
    found = windows(count, window, step)
    if count < 2:
        assert found == []
        return
    assert (found[0].stop, found[-1].start) == (count, 0)
    assert all(len(w) == min(window, count) for w in found)
    assert all(0 < a.start - b.start <= step and b.stop >= a.start for a, b in itertools.pairwise(found))


# --- windows over a model -------------------------------------------------------------------------------------------


class Oracle:
    """Orders the numbers in the documents, the largest first, and remembers the batches that it was asked."""

    name = "oracle"

    def __init__(self) -> None:
        self.batches: list[int] = []

    def answer(
        self, conversations: Sequence[Sequence[Message]], *, max_tokens: int, temperature: float = 0.0
    ) -> list[Reply]:
        self.batches.append(len(conversations))
        return [Reply(self.order(turns[-1].content)) for turns in conversations]

    @staticmethod
    def order(prompt: str) -> str:
        tools = re.findall(r"^\[(\d+)\] tool (\d+)", prompt, re.M)
        return " > ".join(f"[{i}]" for i, _ in sorted(tools, key=lambda t: -int(t[1])))


def order_of(scores: np.ndarray) -> list[int]:
    return np.argsort(-scores).tolist()


def test_the_best_rise_through_overlapping_windows() -> None:
    oracle = Oracle()
    reranker = LLMReranker(oracle, window=4, step=2)
    values = [3, 1, 4, 5, 9, 2, 6, 8, 7, 0]
    (scores,) = reranker.rerank([ask()], [[f"tool {v}" for v in values]])
    assert [values[i] for i in order_of(scores)[:2]] == [9, 8], "what overlaps rises to the top"
    assert sorted(scores) == list(range(1, 11))
    assert oracle.batches == [1] * 4
    assert dict(reranker.facts()) == {"answers": 4, "malformed": 0, "failed": 0}
    (whole,) = LLMReranker(Oracle(), window=10, step=5).rerank([ask()], [[f"tool {v}" for v in values]])
    assert [values[i] for i in order_of(whole)] == sorted(values, reverse=True)


def test_equal_documents_are_shown_once_and_tie() -> None:
    oracle = Oracle()
    (scores,) = LLMReranker(oracle, window=4, step=2).rerank([ask()], [[f"tool {v}" for v in (3, 7, 3, 7, 1)]])
    assert scores.tolist() == [2, 3, 2, 3, 1]
    assert oracle.batches == [1]


def test_queries_are_asked_together_and_their_windows_one_after_another() -> None:
    oracle = Oracle()
    pools = [[f"tool {v}" for v in range(n)] for n in (10, 4, 1, 0)]
    scores = LLMReranker(oracle, window=4, step=2).rerank([ask()] * 4, pools)
    assert oracle.batches == [2, 1, 1, 1]
    assert [len(s) for s in scores] == [10, 4, 1, 0]
    assert order_of(scores[1]) == [3, 2, 1, 0]


def test_the_prompt_holds_request_instruction_and_cut_documents() -> None:
    reranker = LLMReranker(Oracle(), use_instruction=True, max_characters=12)
    text = reranker._query_text(ask("find it", "take care"))
    prompt = reranker.messages(text, ["tool 1", "tool 2"])[-1].content
    assert "Request: take care\nfind it\n" in prompt
    assert "[2] tool 2\n" in prompt
    seen: list[str] = []

    class Looks(Oracle):
        def answer(self, conversations: Any, **kwargs: Any) -> list[Reply]:
            seen.append(conversations[0][-1].content)
            return super().answer(conversations, **kwargs)

    LLMReranker(Looks(), window=2, step=1, max_characters=12).rerank([ask()], [["tool 1 {x}\n[2] and", "tool 2"]])
    assert "[1] tool 1 {x} [\n[2] tool 2\n" in seen[0], "a document stays on its line"


def test_a_server_that_fails_in_all_ways_costs_only_its_windows() -> None:
    ways = {
        "good": lambda text: Answer(Oracle.order(text)),
        "repeats": lambda text: Answer("[2] > [2] > [1]"),
        "nonsense": lambda text: Answer("As a language model, I like all tools."),
        "outside": lambda text: Answer("[7] > [3] > [1] > [2]"),
        "timeout": lambda text: Answer("[3] > [2] > [1]", delay=1.5),
        "broken": lambda text: Answer(raw=b"{"),
        "refuses": lambda text: Answer(None),
    }

    def behave(body: dict[str, Any], before: int) -> Answer:
        text = body["messages"][-1]["content"]
        return ways[re.search(r"Request: (\w+)", text)[1]](text)  # type: ignore[index]

    with chat_server(behave) as server:
        chat = ServerChat("m", server.url, timeout=0.4, retries=1, backoff=0.01)
        reranker = LLMReranker(chat, window=3, step=1)
        documents = ["tool 1", "tool 2", "tool 3"]
        scores = reranker.rerank([ask(way) for way in ways], [documents] * len(ways))
        assert server.most_at_once > 1
        again = LLMReranker(chat, window=3, step=1)
        asked = len(server.requests)
        again.rerank([ask("good")], [documents])
        assert len(server.requests) == asked, "what was answered is kept"
    kept = [0, 1, 2]
    assert [order_of(s) for s in scores] == [[2, 1, 0], [1, 0, 2], kept, [2, 0, 1], kept, kept, kept]
    assert dict(reranker.facts()) == {"answers": 4, "malformed": 3, "failed": 3}


def test_an_answer_without_end_takes_no_time() -> None:
    start = time.perf_counter()
    assert read_order("[2] > [1] " + "1" * 10_000_000, 3).places == (1, 0, 2)
    assert read_order("1, " * 3_000_000, 3).places == (0, 1, 2)
    assert time.perf_counter() - start < 2


def test_without_a_single_answer_the_first_stage_is_not_passed_off_as_the_model() -> None:
    with chat_server(lambda body, before: Answer(status=400)) as server:
        reranker = LLMReranker(ServerChat("m", server.url, retries=0), window=3, step=1)
        with pytest.raises(UserError) as caught:
            reranker.rerank([ask("good"), ask("bad")], [["tool 1", "tool 2"]] * 2)
    assert "no answer to any of 2 prompts" in caught.value.what and "400" in caught.value.what
    assert caught.value.where == "reranker.llm" and "llm.timeout" in caught.value.fix


def test_as_a_retriever_it_says_what_was_wrong() -> None:
    catalog = Catalog("numbers", tuple(Tool(str(i), f"tool {i} word") for i in range(6)), document="{name}")
    ranker = Rerank(BM25(), LLMReranker(Oracle(), window=3, step=2), depth=4).fit(catalog)
    found = ranker.search([ask("word")], 6)
    assert found.indices[0, 0] in (2, 3, 4, 5)
    assert (np.diff(found.scores[0]) < 0).any()
    assert ranker.facts()["answers"] == 2
    with pytest.raises(UserError, match="window of 20 is larger than the pool of 4"):
        Rerank(BM25(), LLMReranker(Oracle()), depth=4)


@pytest.mark.parametrize(
    ("wrong", "where"),
    [({"window": 1}, "reranker.window"), ({"step": 0}, "reranker.step"), ({"window": 4, "step": 5}, "reranker.step")],
)
def test_windows_that_cannot_slide_are_refused(wrong: dict[str, Any], where: str) -> None:
    with pytest.raises(UserError) as caught:
        LLMReranker(Oracle(), **wrong)
    assert caught.value.where == where
    assert caught.value.expected


def test_a_server_gives_no_likelihoods() -> None:
    with pytest.raises(UserError, match="gives no logits") as caught:
        LLMReranker(ServerChat("m"), scoring="query")
    assert "scoring=listwise" in caught.value.fix


# --- likelihoods ----------------------------------------------------------------------------------------------------


def local(monkeypatch: pytest.MonkeyPatch, **chosen: Any) -> Any:
    tokenizer = toy_tokenizer(["is this tool what the request wants yes no Yes No"] * 3, template=TEMPLATE)
    loaded = LoadedModel(toy_lm(tokenizer), tokenizer, TextEncoder(tokenizer))
    monkeypatch.setattr(chat_module, "_load", lambda *args: loaded)
    return LocalChat({"source": "toy"}, **chosen)


DOCUMENTS = ["a tool", "another tool that does much more than the first", "no", "a tool"]


def test_yes_against_no_equals_one_plain_forward_pass_each(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    chat = local(monkeypatch)
    reranker = LLMReranker(chat, scoring="yes_no", batch_size=2, precision="fp32")
    (scores,) = reranker.rerank([ask("the request")], [DOCUMENTS])
    model, tokenizer = chat.loaded.model, chat.loaded.tokenizer
    for document, score in zip(DOCUMENTS, scores, strict=True):
        turn = {"role": "user", "content": JUDGE.format(query="the request", document=document)}
        ids = tokenizer.apply_chat_template(
            [turn], add_generation_prompt=True, return_tensors="pt", return_dict=True
        ).input_ids
        with torch.no_grad():
            odds = model(ids).logits[0, -1].softmax(0)
        yes, no = (sum(odds[tokenizer(w).input_ids[0]] for w in pair) for pair in (("Yes", "yes"), ("No", "no")))
        assert abs(float((yes / no).log()) - score) < 1e-4  # type: ignore[union-attr]
    assert scores[0] == scores[3]
    assert reranker.facts() == {"pairs": 3.0}


def test_query_likelihood_equals_one_plain_forward_pass_each(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    chat = local(monkeypatch)
    asked = [ask("the request wants this"), ask("yes")]
    reranker = LLMReranker(chat, scoring="query", batch_size=3, precision="fp32")
    found = reranker.rerank(asked, [DOCUMENTS] * 2)
    for query, scores in zip(asked, found, strict=True):
        label = chat.loaded.text.encode(query.text)
        for document, score in zip(DOCUMENTS, scores, strict=True):
            prompt = chat.prompt([Message("user", WRITE.format(document=document))])
            with torch.no_grad():
                logits = chat.loaded.model(torch.tensor([[*prompt, *label]])).logits[0].log_softmax(1)
            wanted = np.mean([float(logits[len(prompt) - 1 + i, token]) for i, token in enumerate(label)])
            assert abs(wanted - score) < 1e-4
    assert np.ptp(found[0]) > 1e-4


def test_an_empty_query_and_too_long_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    reranker = LLMReranker(local(monkeypatch, max_input=150), scoring="query", max_characters=1000)
    assert np.isfinite(reranker.rerank([ask("")], [DOCUMENTS[:1]])[0]).all()
    with pytest.raises(UserError, match="tokens") as caught:
        reranker.rerank([ask("yes")], [["zz " * 300]])
    assert "max_characters" in caught.value.fix


def test_a_model_that_cannot_tell_yes_from_no_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = toy_tokenizer(["some other words"] * 3, template=TEMPLATE)
    text = TextEncoder(tokenizer)
    monkeypatch.setattr(text, "encode", lambda *args: [5, 6])  # every word starts with the same piece
    monkeypatch.setattr(chat_module, "_load", lambda *args: LoadedModel(toy_lm(tokenizer), tokenizer, text))
    with pytest.raises(UserError, match="same token") as caught:
        LLMReranker(LocalChat({"source": "toy"}), scoring="yes_no").rerank([ask()], [DOCUMENTS])
    assert caught.value.where == "reranker.scoring" and "scoring=query" in caught.value.fix


# --- the command ----------------------------------------------------------------------------------------------------


def test_the_options_are_wired(tmp_path: Path) -> None:
    both = ["method=evaluate", "catalog=toy", "model=toy", "retriever=[rerank,llm_rerank]", f"paths.outputs={tmp_path}"]
    config = preflight(compose(both))
    rerank, llm_rerank = (build(config.retriever[name]) for name in ("rerank", "llm_rerank"))
    assert (rerank.reranker.scoring, rerank.reranker.llm.spec.source) == ("query", "toy")
    assert (llm_rerank.reranker.scoring, llm_rerank.reranker.window, llm_rerank.depth) == ("listwise", 20, 20)
    with pytest.raises(UserError, match="larger than the pool of 10"):
        build(typed(compose([*both, "retriever.llm_rerank.depth=10"]).config).retriever["llm_rerank"])
    with pytest.raises(UserError, match="takes no connection") as caught:
        preflight(compose([*both, "llm=server", "llm.model=m", "llm.base_url=http://127.0.0.1:9/v1"]))
    assert "base_url" in caught.value.where


@pytest.mark.slow
def test_smollm2_finds_the_tool_by_query_likelihood() -> None:
    """Real weights: of ten tools, the right one is mostly first; the mean reciprocal rank of chance is 0.29."""
    tools = {
        "Will it rain in Paris tomorrow?": "get weather forecast. Returns the weather forecast for a city and a date.",
        "Wake me up at seven in the morning": "set alarm. Sets an alarm that rings at a time of day.",
        "How many dollars are 50 euros?": "convert currency. Converts an amount of money into another currency.",
        "Where can I eat sushi around here?": "search restaurants. Finds restaurants near a place by cuisine.",
        "What does 'bonjour' mean in English?": "translate text. Translates a text from one language into another.",
    }
    others = ["send email. Sends an email to a recipient.", "book flight. Books a flight between two airports."]
    others += ["play song. Plays a song by title or artist.", "get stock price. Returns the price of a share."]
    others += ["create event. Adds an event to a calendar."]
    chat = build(typed(compose(["method=doctor", "model=smollm2_135m"]).config).llm)
    documents = [*tools.values(), *others]
    scores = LLMReranker(chat, scoring="query").rerank([ask(q) for q in tools], [documents] * len(tools))
    ranks = [int((row > row[i]).sum()) + 1 for i, row in enumerate(scores)]
    assert np.mean(1 / np.array(ranks)) > 0.6, ranks
