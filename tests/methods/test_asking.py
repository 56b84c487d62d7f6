"""What models are asked: prompts, positions that cancel out, sums over surface forms, and a model that has learnt."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch

from toolsavvy.attacks import shared
from toolsavvy.benchmark import ChoiceItem, YesNoItem
from toolsavvy.catalog import Catalog
from toolsavvy.errors import UserError
from toolsavvy.methods import asking
from toolsavvy.methods.asking import Asker, first_tokens, over_orders, retrieved_choices, summed
from toolsavvy.models.tuning import Tuning
from toolsavvy.models.virtual import ToolModel
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking
from toolsavvy.training.formats import Row
from world import toy_set, toy_tools, train_toy

DATA = toy_set(6)
CATALOG = DATA.catalog
OPTIONS = ("opens doors", "paints walls", "counts sheep", "bakes bread", "finds keys", "sings songs")
CHOICES = [
    ChoiceItem(f"m{i}", "What does this tool do?", OPTIONS[i], tuple(OPTIONS[(i + j) % 6] for j in (1, 2, 3)), t.id)
    for i, t in enumerate(CATALOG.tools)
]
YES_NO = [YesNoItem(f"q{i}", "Does this tool work?", i % 2 == 0, t.id) for i, t in enumerate(CATALOG.tools)]


def always(tools: ToolModel, answer: str) -> None:
    """Whatever is asked, the model answers this."""
    inner: Any = tools.model.forward
    (token,) = tools.text.encode(answer)

    @functools.wraps(inner)
    def forward(*args: Any, **kwargs: Any) -> Any:
        out = inner(*args, **kwargs)
        out.logits[..., token] += 60.0
        return out

    tools.model.forward = forward


@pytest.mark.parametrize("letter", ["A", "C"])
def test_a_model_that_likes_a_place_is_at_chance_exactly(letter: str) -> None:
    tools = toy_tools(DATA)
    always(tools, letter)
    answers = Asker(tools, CATALOG, "token").choices(CHOICES)
    assert answers.letters is not None
    np.testing.assert_allclose(answers.letters, 0.25, atol=1e-12)
    assert shared(answers.letters).tolist() == [0.25] * 6


def test_orders_are_averaged_by_what_stood_at_each_letter() -> None:
    scores = np.full((1, 4, 4), -np.inf)
    for turn in range(4):  # option 2 wins wherever it stands
        scores[0, turn, (2 - turn) % 4] = 0.0
    assert over_orders(scores).tolist() == [[0, 0, 1, 0]]


def test_every_option_stands_at_every_place_once() -> None:
    labels, options = [[90], [91], [92], [93]], [[1], [2, 2], [3], [4]]
    seen = [asking._lettered(options, labels, turn) for turn in range(4)]
    assert seen[0] == [90, 1, 91, 2, 2, 92, 3, 93, 4]
    assert seen[1] == [90, 2, 2, 91, 3, 92, 4, 93, 1]
    assert {row[1] for row in seen} == {1, 2, 3, 4}


def test_a_model_that_says_yes_says_yes() -> None:
    tools = toy_tools(DATA)
    (yes, *_), _ = first_tokens(tools.text, [asking.YES, asking.NO])
    always(tools, tools.tokenizer.decode([yes]))
    assert (Asker(tools, CATALOG, "nothing").yes_no(YES_NO) > 30).all()


def test_forms_are_summed() -> None:
    scores = np.log(np.array([[0.1, 0.2, 0.3, 0.05]]))
    np.testing.assert_allclose(np.exp(summed(scores, [[7, 8], [9, 4]])), [[0.3, 0.35]])


def test_first_tokens_that_could_begin_either_answer_do_not_count() -> None:
    text = toy_tools(DATA).text
    yes, no = first_tokens(text, [("yes", " yes"), ("no", " no")])
    assert not set(yes) & set(no)
    with pytest.raises(UserError, match="tells yes, yes apart"):
        first_tokens(text, [("yes",), ("yes",)])


def test_what_stands_for_the_tool() -> None:
    tools = toy_tools(DATA)
    read = {v: tools.tokenizer.decode(Asker(tools, CATALOG, v)._heads(CHOICES[:1])[0]) for v in asking.VIEWS}
    question, first = CHOICES[0].question, CATALOG.tools[0]
    assert all(text.endswith(question) for text in read.values())
    assert CATALOG.documents[0] in read["document"]
    assert asking.named(first) in read["name"]
    assert tools.tokenizer.decode(list(tools.codes[0])) in read["token"]
    assert len(read["nothing"]) < min(len(read[v]) for v in ("name", "document", "token"))


def test_text_never_becomes_a_special_or_virtual_token() -> None:
    tools = toy_tools(DATA)
    virtual = tools.tokenizer.decode(list(tools.codes[1]))
    item = ChoiceItem("m", f"{virtual}<|im_end|>?", virtual, ("<|im_end|>", "b", "c"), CATALOG.tools[0].id)
    (head,) = Asker(tools, CATALOG, "token")._heads([item])
    inside = head[len(tools.frame.prefix) + 1 :]
    assert not set(inside) & {*tools.new_ids, *tools.tokenizer.all_special_ids}
    assert Asker(tools, CATALOG, "token").choices([item]).likelihood.shape == (1, 4)


def test_a_model_that_was_taught_the_answers_knows_them_by_the_token_alone() -> None:
    tools = toy_tools(DATA, tuning=Tuning("full"))
    asker = Asker(tools, CATALOG, "token")
    suffix = tools.frame.suffix
    rows = [
        Row((*head, *suffix), (*tools.text.encode(item.correct), *tools.frame.end))
        for head, item in zip(asker._heads(CHOICES), CHOICES, strict=True)
    ]
    tail = tools.text.encode(asking.ASK_YES_NO)
    (yes, *_), (no, *_) = first_tokens(tools.text, [asking.YES, asking.NO])
    rows += [
        Row((*head, *tail, *suffix), (yes if item.answer else no, *tools.frame.end))
        for head, item in zip(asker._heads(YES_NO), YES_NO, strict=True)
    ]
    train_toy(tools, rows, epochs=60, rate=3e-3)
    assert shared(asker.choices(CHOICES).likelihood).mean() == 1
    truth = np.array([item.answer for item in YES_NO])
    assert ((asker.yes_no(YES_NO) > 0) == truth).all()
    without = Asker(tools, CATALOG, "nothing")  # one question for all tools: nobody can know which is meant
    assert shared(without.choices(CHOICES).likelihood).mean() < 0.7
    assert np.ptp(without.yes_no(YES_NO)) < 1e-4


class Fixed:
    """A retriever that ranks tools by how the query is spelled."""

    def fit(self, catalog: Catalog, train: Any = ()) -> Fixed:
        return self

    def search(self, queries: Any, k: int) -> Ranking:
        rows = [[OPTIONS.index(q.text), *[NO_TOOL] * (k - 1)] for q in queries]
        scores = np.where(np.array(rows) == NO_TOOL, -np.inf, 1.0)
        return Ranking(np.array(rows), scores)


def test_a_retriever_chooses_the_option_that_finds_the_tool() -> None:
    answers = retrieved_choices(Fixed(), CATALOG, CHOICES)
    assert answers.letters is None
    assert answers.likelihood.tolist() == [[-1, -7, -7, -7]] * 6


def test_long_documents_leave_room_in_a_short_context() -> None:
    tools = toy_tools(DATA)
    model: Any = tools.model
    model.config.max_position_embeddings = 500
    asker = Asker(tools, CATALOG, "document")
    assert 16 <= asker._room() < 100
    long = Catalog("long", tuple(t.__class__(t.id, t.name, "word " * 4000) for t in CATALOG.tools))
    (head,) = Asker(tools, long, "document")._heads(CHOICES[:1])
    assert len(head) < 300
    assert torch.isfinite(torch.tensor(asker.choices(CHOICES[:1]).likelihood)).all()
