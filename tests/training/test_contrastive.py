from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from toolsavvy.catalog import Query, relevant_indices
from toolsavvy.errors import UserError
from toolsavvy.metrics import per_query
from toolsavvy.retrieval.dense import Dense
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.ranking import Retriever
from toolsavvy.training.contrastive import ContrastiveModule, Examples, Settings, Validation
from toolsavvy.training.finetuned import FineTuned
from toolsavvy.training.fitting import Hardware
from toolsavvy.training.sampling import DistinctTools
from world import toy_set

DATA = toy_set(8)
QUIET = Hardware(precision="fp32", threads=1)


def texts() -> tuple[list[str], list[str], list[list[int]]]:
    queries = [q.text for q in DATA.train]
    return queries, list(DATA.catalog.documents), relevant_indices(DATA.catalog, DATA.train)


def module_of(golds: list[list[int]], documents: list[str] | None = None, **settings: Any) -> Any:
    queries, ours, _ = texts()
    examples = Examples([(q,) for q in queries[: len(golds)]], documents or ours, golds)
    return ContrastiveModule(Encoder().model, examples, Settings(**settings), steps=10)


def zipf_pairs() -> list[tuple[int, int]]:
    """Few tools have most queries, as in real catalogs."""
    return [(q, tool) for tool in range(20) for q in range(max(1, 60 // (tool + 1)))]


@pytest.mark.parametrize("size", [1, 4, 16, 1000])
def test_no_batch_repeats_a_tool_and_every_pair_comes_once(size: int) -> None:
    pairs = zipf_pairs()
    sampler, again, other = (DistinctTools(pairs, size, seed) for seed in (0, 0, 1))
    epochs = [list(sampler) for _ in range(3)]
    assert epochs == [list(again) for _ in range(3)]
    assert epochs[0] != epochs[1]
    assert epochs[0] != list(other)
    for batches in epochs:
        assert sorted(i for b in batches for i in b) == list(range(len(pairs)))
        assert len(batches) == len(sampler)
        for batch in batches:
            tools = [pairs[i][1] for i in batch]
            assert len(set(tools)) == len(tools) <= size
    sizes = [len(b) for b in epochs[0]]
    assert max(sizes) - min(sizes) <= 1  # no left-over batch without negatives


def test_no_pairs_no_batches() -> None:
    assert list(DistinctTools([], 4, 0)) == []


def test_lightning_sees_every_pair_in_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, tuple[int, int]]] = []
    step = ContrastiveModule.training_step

    def watched(self: ContrastiveModule, pairs: list[tuple[int, int]], index: int) -> Tensor:
        assert self.model.training
        seen.extend((self.current_epoch, pair) for pair in pairs)
        return step(self, pairs, index)

    monkeypatch.setattr(ContrastiveModule, "training_step", watched)
    tuned = FineTuned(Encoder(), epochs=3, batch_size=5, max_length=32)
    tuned.hardware = QUIET
    some = [q for i, q in enumerate(DATA.train) if i % 3 or i < 9]
    tuned.fit(DATA.catalog, some)
    golds = relevant_indices(DATA.catalog, some)
    pairs = [(q, t) for q, gold in enumerate(golds) for t in gold]
    assert sorted(seen) == [(epoch, pair) for epoch in range(3) for pair in pairs]


@pytest.mark.parametrize("temperature", [0.02, 0.05, 1.0])
def test_the_loss_is_that_of_sentence_transformers(temperature: float) -> None:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    queries, documents, golds = texts()
    pairs = [(next(q for q, gold in enumerate(golds) if gold == [t]), t) for t in range(6)]
    module = module_of(golds, temperature=temperature)
    ours = module.training_step(pairs, 0)
    oracle = MultipleNegativesRankingLoss(module.model, scale=1 / temperature)
    features = [
        module.model.preprocess([queries[q] for q, _ in pairs]),
        module.model.preprocess([documents[t] for _, t in pairs]),
    ]
    assert float(ours.detach()) == pytest.approx(float(oracle(features, None).detach()), rel=1e-5)


def by_hand(module: Any, pairs: list[tuple[int, int]], allowed: Iterable[Iterable[int]]) -> float:
    """InfoNCE over the columns that are allowed, in float64."""
    with torch.no_grad():
        queries = module.embed([module.examples.queries[q][0] for q, _ in pairs]).double()
        tools = module.embed([module.examples.documents[t] for _, t in pairs]).double()
    logits = queries @ tools.T / module.settings.temperature
    rows = [logits[i, list(columns)].logsumexp(0) - logits[i, i] for i, columns in enumerate(allowed)]
    return float(torch.stack(rows).mean())


def test_golds_of_a_query_are_never_its_negatives() -> None:
    golds = [[0, 1], [1], [2, 3], [3]]
    module = module_of(golds)
    pairs = [(0, 0), (1, 1), (2, 2), (3, 3)]
    loss = float(module.training_step(pairs, 0).detach())
    assert loss == pytest.approx(by_hand(module, pairs, [[0, 2, 3], [0, 1, 2, 3], [0, 1, 2], [0, 1, 2, 3]]), rel=1e-5)
    assert loss != pytest.approx(by_hand(module, pairs, [range(4)] * 4), rel=1e-3)


def test_tools_with_the_golds_own_document_are_no_negatives() -> None:
    documents = list(DATA.catalog.documents)
    documents[1] = documents[0]
    module = module_of([[0], [1], [2]], documents=documents)
    pairs = [(0, 0), (1, 1), (2, 2)]
    loss = float(module.training_step(pairs, 0).detach())
    assert loss == pytest.approx(by_hand(module, pairs, [[0, 2], [1, 2], [0, 1, 2]]), rel=1e-5)


def test_a_loss_that_is_no_number_names_step_and_pairs() -> None:
    module = module_of([[0], [1]], temperature=float("nan"))
    with pytest.raises(FloatingPointError, match=r"step 0, pairs \[\(0, 0\), \(1, 1\)\]"):
        module.training_step([(0, 0), (1, 1)], 0)


def recall(retriever: Retriever, queries: tuple[Query, ...]) -> float:
    golds = [dict.fromkeys(g, 1) for g in relevant_indices(DATA.catalog, queries)]
    return float(np.mean(per_query(retriever.search(queries, 5), golds, 1).recall))


def tuned_on(queries: tuple[Query, ...], encoder: Encoder, epochs: int = 12, **settings: Any) -> FineTuned:
    tuned = FineTuned(encoder, epochs=epochs, learning_rate=3e-3, batch_size=8, max_length=48, **settings)
    tuned.hardware = QUIET
    return tuned.fit(DATA.catalog, queries)


def test_fine_tuning_teaches_the_training_queries_and_leaves_the_base_alone() -> None:
    encoder = Encoder()
    base = Dense(encoder).fit(DATA.catalog)
    before, weights = recall(base, DATA.train), {k: v.clone() for k, v in encoder.model.state_dict().items()}
    limit, vectors = encoder.model.max_seq_length, encoder.encode(["a song"])
    tuned = tuned_on(DATA.train, encoder)
    assert recall(tuned, DATA.train) > max(0.8, before + 0.3)
    assert tuned.history[-1]["loss"] < tuned.history[0]["loss"]
    assert all(torch.equal(v, weights[k]) for k, v in encoder.model.state_dict().items())
    assert encoder.model.max_seq_length == limit
    assert not encoder.model.training
    assert np.array_equal(encoder.encode(["a song"]), vectors)
    assert recall(Dense(encoder).fit(DATA.catalog), DATA.train) == before


def test_one_seed_one_encoder() -> None:
    queries = DATA.train[:16]
    first, again, other = (tuned_on(queries, Encoder(), 1, seed=s).search(DATA.train, 5) for s in (0, 0, 1))
    assert np.array_equal(first.scores, again.scores)
    assert not np.array_equal(first.scores, other.scores)


def test_validation_chooses_the_earliest_best_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    recalls, states = [0.2, 0.7, 0.7, 0.1], []

    def validate(self: ContrastiveModule, *args: Any) -> float:
        assert not self.model.training
        states.append({k: v.clone() for k, v in self.model.state_dict().items()})
        return recalls[len(states) - 1]

    monkeypatch.setattr(ContrastiveModule, "_validate", validate)
    tuned = FineTuned(Encoder(), epochs=4, learning_rate=1e-3, batch_size=8, max_length=32)
    tuned.hardware, tuned.validation = QUIET, DATA.train[:4]
    tuned.fit(DATA.catalog, DATA.train[:16])
    chosen = tuned._dense.encoder.model.state_dict() if tuned._dense else {}
    assert all(torch.equal(chosen[k], v) for k, v in states[1].items())
    assert [h["recall@1"] for h in tuned.history if "recall@1" in h] == recalls


def test_validation_recall_is_the_reported_one() -> None:
    module = module_of(texts()[2])
    module.model.eval()
    golds = relevant_indices(DATA.catalog, DATA.train)
    with torch.no_grad():
        found = module._validate(Validation([q.text for q in DATA.train], golds))
    assert found == pytest.approx(recall(Dense(Encoder()).fit(DATA.catalog), DATA.train), abs=1e-6)


def test_without_training_queries_it_says_so() -> None:
    with pytest.raises(UserError) as error:
        FineTuned(Encoder()).fit(dataclasses.replace(DATA.catalog, name="mine"))
    assert "training queries" in error.value.what
    assert error.value.where == "catalog mine, split 'train'"
    assert "at least one" in error.value.expected
    assert "retriever=finetuned" in error.value.fix
    with pytest.raises(RuntimeError, match="fit before searching"):
        FineTuned(Encoder()).search(DATA.train, 1)
