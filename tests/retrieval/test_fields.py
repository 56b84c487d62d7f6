"""Matching by field: the definition, missing fields, and weights that are learned only where they help."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toolsavvy.catalog import Catalog, Query, Tool
from toolsavvy.errors import UserError
from toolsavvy.retrieval.dense import Dense
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.fields import FieldMatcher, field_text, learn_weights
from toolsavvy.retrieval.ranking import NO_TOOL, Reporting

ALL = ("name", "description", "parameters", "returns")
RICH = Tool(
    "t0", "makeThing", "does  a thing", "shop", "sales", {"properties": {"itemId": {}, "count": {}}},
    {"properties": {"orderId": {"type": "string"}}},
)  # fmt: skip


class Fixed(Encoder):
    """Looks vectors up, so that cosines are known exactly."""

    def __init__(self, vectors: dict[str, Any]) -> None:
        super().__init__()
        self.vectors = vectors

    def _encode(self, texts: list[str], prompt: str = "") -> np.ndarray:
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)


@pytest.fixture(scope="module")
def toy() -> Encoder:
    return Encoder()


def test_texts_of_fields_are_the_words_that_documents_show() -> None:
    told = {field: field_text(RICH, field, "whole") for field in (*ALL, "group", "document")}
    assert told == {
        "name": "make thing", "description": "does a thing", "parameters": "item id, count", "returns": "order id",
        "group": "shop", "document": "whole",
    }  # fmt: skip
    assert field_text(Tool("t", "x"), "description", "") == field_text(Tool("t", "x"), "returns", "") == ""


def test_scores_are_the_weighted_mean_of_cosines_over_the_fields_that_a_tool_has(toy: Encoder) -> None:
    tools = (RICH, Tool("t1", "otherName", "another text"), Tool("t2", "bare"))
    catalog, query = Catalog("c", tools), Query("q", "make a thing", {"t0": 1})
    weights = {"name": 3.0, "description": 1.0, "parameters": 0.5, "returns": 0.0}
    found = Dense(toy, fields=ALL, field_weights=weights).fit(catalog).search([query], 3)
    asked = toy.encode([query.text])[0]
    expected = {}
    for i, tool in enumerate(tools):
        parts = [(weights[f], field_text(tool, f, "")) for f in ALL]
        parts = [(w, float(asked @ toy.encode([text])[0])) for w, text in parts if text]
        expected[i] = sum(w * c for w, c in parts) / sum(w for w, _ in parts)
    assert found.scores[0] == pytest.approx([expected[i] for i in found.indices[0].tolist()], abs=1e-5)
    assert found.indices[0].tolist() == sorted(expected, key=lambda i: -expected[i])


def test_the_document_as_the_only_field_is_dense_itself(toy: Encoder) -> None:
    catalog = Catalog("c", tuple(Tool(f"t{i:02}", f"make{i}", chr(97 + i) * 4) for i in range(20)))
    queries = [Query(f"q{i}", f"please {chr(97 + i) * 4}", {f"t{i:02}": 1}) for i in range(20)]
    whole = Dense(toy).fit(catalog).search(queries, 20)
    field = Dense(toy, fields=["document"]).fit(catalog, queries).search(queries, 20)
    assert np.allclose(whole.scores, field.scores, atol=1e-6)


def test_tools_without_any_of_the_fields_stay_unranked_and_equal_ones_tie_exactly(toy: Encoder) -> None:
    catalog = Catalog("c", (Tool("a", "x", "same"), Tool("b", "y", "same"), Tool("c", "z"), Tool("d", "w", "same")))
    found = Dense(toy, fields=["description", "returns"]).fit(catalog).search([Query("q", "same", {"a": 1})], 4)
    assert found.indices.tolist() == [[3, 1, 0, NO_TOOL]]
    assert len(set(found.scores[0, :3].tolist())) == 1
    assert Dense(toy, fields=["name"]).fit(catalog).search([], 2).indices.shape == (0, 2)


def world(useful: str, tools: int = 60, queries: int = 240) -> tuple[Encoder, Catalog, list[Query]]:
    """One field points to the tool that is asked for, the other to a tool that is not."""
    rng = np.random.default_rng(0)
    own, noise = np.eye(tools), rng.permutation(np.eye(tools))
    catalog = Catalog("c", tuple(Tool(f"t{i:02}", f"n{i}", f"d{i}") for i in range(tools)))
    vectors: dict[str, Any] = {}
    for i in range(tools):
        fields = (own[i], noise[i]) if useful == "name" else (noise[i], own[i])
        if useful == "both":
            fields = (own[i], own[i])
        vectors[field_text(catalog.tools[i], "name", "")], vectors[f"d{i}"] = fields
    asked = []
    for i in range(queries):
        gold, distractor = i % tools, int(rng.integers(tools))
        vectors[f"q{i}"] = own[gold] + rng.uniform(0.5, 1.2) * own[distractor] + 0.1 * rng.normal(size=tools)
        asked.append(Query(f"q{i}", f"q{i}", {f"t{gold:02}": 1}))
    return Fixed(vectors), catalog, asked


@pytest.mark.parametrize(("useful", "useless"), [("name", "description"), ("description", "name")])
def test_the_field_that_tells_tools_apart_gets_the_weight(useful: str, useless: str) -> None:
    encoder, catalog, queries = world(useful)
    retriever = Dense(encoder, fields=["name", "description"]).fit(catalog, queries[:120])
    assert isinstance(retriever, Reporting)
    facts = retriever.facts()
    assert facts[f"weight_{useful}"] > 0.6 > 0.4 > facts[f"weight_{useless}"] > 0
    assert facts["weight_name"] + facts["weight_description"] == pytest.approx(1)
    assert facts["held_out_mrr"] > facts["held_out_mrr_even"] and facts["weights_from_queries"] == 120
    even = Dense(encoder, fields=["name", "description"], field_weights={}).fit(catalog)
    golds = [catalog.index[next(iter(q.relevant))] for q in queries[120:]]
    right, before = ((r.search(queries[120:], 1).indices[:, 0] == golds).mean() for r in (retriever, even))
    assert right > before + 0.1
    again = Dense(encoder, fields=["name", "description"]).fit(catalog, queries[:120])
    assert again.facts() == facts


def test_weights_stay_even_where_learning_does_not_help_or_nothing_can_be_held_out() -> None:
    encoder, catalog, queries = world("both")
    facts = Dense(encoder, fields=["name", "description"]).fit(catalog, queries[:120]).facts()
    assert facts["weight_name"] == facts["weight_description"] == 0.5
    assert facts["held_out_mrr"] == facts["held_out_mrr_even"]
    encoder, catalog, queries = world("name")
    for few in ([], queries[:1]):
        facts = Dense(encoder, fields=["name", "description"]).fit(catalog, few).facts()
        assert facts == {"weight_name": 0.5, "weight_description": 0.5}


def test_validation_queries_stand_in_where_there_are_no_training_queries() -> None:
    encoder, catalog, queries = world("name")
    retriever = Dense(encoder, fields=["name", "description"])
    retriever.validation = queries[:120]
    assert retriever.fit(catalog).facts()["weights_from_queries"] == 120
    assert retriever.fit(catalog, queries[:60]).facts()["weights_from_queries"] == 60


def test_the_loss_is_minimal_at_the_learned_weights() -> None:
    """No other point of the simplex has a smaller loss, which is written out here a second time."""
    rng = np.random.default_rng(1)
    cosines, has = rng.uniform(-0.2, 0.8, size=(50, 8, 3)), rng.uniform(size=(50, 8, 3)) > 0.1
    has[..., 0] = True
    gold = np.zeros((50, 8), dtype=bool)
    gold[:, 0], gold[::3, 1] = True, True
    cosines[gold] += [0.1, 0.03, 0.0]

    def loss(weights: np.ndarray) -> float:
        scores = ((cosines * has) @ weights) / (has @ weights) / 0.05
        total = []
        for row, right in zip(scores, gold, strict=True):
            total += [np.log(np.exp(row[~right] - row[g]).sum() + 1) for g in np.flatnonzero(right)]
        logits = np.log(weights)
        return float(np.mean(total) + 0.1 * np.mean((logits - logits.mean()) ** 2))

    learned = learn_weights(cosines, has, gold, 0.1)
    assert learned.sum() == pytest.approx(1) and (learned > 0).all()
    others = rng.dirichlet(np.ones(3), size=300)
    near = learned * np.exp(rng.normal(scale=0.02, size=(50, 3)))
    assert loss(learned) <= min(loss(w / w.sum()) for w in (*others, *near)) + 1e-9


def test_heavier_penalties_pull_towards_even_weights() -> None:
    rng = np.random.default_rng(2)
    cosines, has = rng.uniform(0, 0.1, size=(40, 6, 2)), np.ones((40, 6, 2), dtype=bool)
    gold = np.zeros((40, 6), dtype=bool)
    gold[:, 0] = True
    cosines[gold] += [0.2, 0.0]
    spread = [np.ptp(learn_weights(cosines, has, gold, penalty)) for penalty in (0.01, 1.0, 100.0)]
    assert spread[0] > spread[1] > spread[2] and spread[2] < 0.02


@pytest.mark.parametrize(
    ("settings", "where", "fix"),
    [
        ({"fields": ["nam"]}, "retriever.dense.fields", "'name'"),
        ({"fields": []}, "retriever.dense.fields", "null"),
        ({"fields": ["name"], "field_weights": {"nme": 1}}, "retriever.dense.field_weights.nme", "'name'"),
        ({"fields": ["name"], "field_weights": {"name": -1}}, "retriever.dense.field_weights.name", ""),
        ({"fields": ["name"], "field_weights": {"name": float("nan")}}, "retriever.dense.field_weights.name", ""),
        ({"fields": ["name"], "field_weights": {"name": 0}}, "retriever.dense.field_weights", ""),
        ({"field_weights": {"name": 1}}, "retriever.dense.field_weights", "fields=[name"),
        ({"fields": ["name"], "index": "HNSW8"}, "retriever.dense.index", "leave out"),
        ({"fields": ["name"], "index_path": "x"}, "retriever.dense.index_path", "leave out"),
    ],
)
def test_impossible_fields_are_the_users(settings: dict[str, Any], where: str, fix: str, toy: Encoder) -> None:
    with pytest.raises(UserError) as caught:
        Dense(toy, **settings)
    assert caught.value.where == where and caught.value.expected and fix in caught.value.fix


def test_weights_that_are_not_named_are_one(toy: Encoder) -> None:
    matcher = FieldMatcher(toy, ["name", "description", "name"], {"name": 3})
    assert matcher.fit(Catalog("c", (RICH,))).facts() == {"weight_name": 0.75, "weight_description": 0.25}
