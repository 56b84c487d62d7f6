from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor

from toolsavvy.catalog import Query, relevant_indices
from toolsavvy.indexing import SCHEMES
from toolsavvy.models.tuning import Tuning, snapshot
from toolsavvy.models.virtual import ToolModel
from toolsavvy.retrieval.toolgen import ToolGen
from toolsavvy.training.fitting import Hardware, fit
from toolsavvy.training.formats import FORMATS, MULTI, Row
from toolsavvy.training.rows import memorization_rows, query_rows
from toolsavvy.training.sft import MEGABATCH, CausalSFT, LengthGrouped, Regularization, RowData, collate
from toolsavvy.training.validation import recall_of
from world import toy_set, toy_tools, train_toy

DATA = toy_set(8)


def module_of(tools: ToolModel, **settings: Any) -> CausalSFT:
    tools.model.eval()
    return CausalSFT(tools, learning_rate=1e-3, steps=10, **settings)


@torch.no_grad()
def loss_of(tools: ToolModel, rows: list[Row], **settings: Any) -> Tensor:
    """The loss of one batch, as training computes it."""
    module = module_of(tools, **settings)
    batch = collate(list(enumerate(rows)), tools.eos_id)
    loss = module._nll(module(batch), batch)
    if module.regularization.weight:
        loss = loss + module.regularization.weight * module._divergence(module(batch), batch)
    return loss


@torch.no_grad()
def log_probabilities(tools: ToolModel, row: Row) -> Tensor:
    """By hand: float64 [label, vocabulary] of one row alone, from the model's own forward pass."""
    ids = torch.tensor([[*row.prompt, *row.target]])
    logits = tools.model(ids).logits[0].double()
    start = len(row.prompt) - 1
    return logits[start : start + len(row.target)].log_softmax(-1)


def by_hand(tools: ToolModel, row: Row) -> Tensor:
    """Mean cross-entropy of a row's labels, soft at the first one where it is set-valued."""
    logs = log_probabilities(tools, row)
    losses = [-logs[j, label] for j, label in enumerate(row.target)]
    if row.golds:
        losses[0] = -logs[0, list(row.golds)].mean()
    return torch.stack(losses).mean()


def some_rows(tools: ToolModel) -> list[Row]:
    """Rows of every kind and of many lengths."""
    rows = memorization_rows(tools, DATA.catalog, FORMATS, 40)[::5] + query_rows(
        tools, DATA.catalog, DATA.train[:4], 40
    )
    assert len({r.length for r in rows}) > 5
    return rows


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", [None, "lora"])
def test_the_loss_is_the_cross_entropy_over_the_whole_vocabulary_at_the_labels(scheme: str, kind: str | None) -> None:
    tools = toy_tools(DATA, scheme, tied=scheme != "hierarchical", tuning=Tuning(kind) if kind else None)
    rows = some_rows(tools)
    expected = torch.stack([by_hand(tools, row) for row in rows]).mean()
    assert float(loss_of(tools, rows)) == pytest.approx(float(expected), rel=1e-5)


def test_padding_changes_nothing() -> None:
    tools = toy_tools(DATA)
    rows = sorted(some_rows(tools), key=lambda r: r.length)
    short, long = rows[0], rows[-1]
    module = module_of(tools)
    alone = module(collate([(0, short)], tools.eos_id))
    for pad in (0, tools.eos_id, tools.new_ids[0]):
        padded = module(collate([(0, short), (1, long)], pad))
        torch.testing.assert_close(padded[: len(alone)], alone, rtol=0, atol=1e-5)


def test_rows_weigh_alike_however_long_and_weights_count() -> None:
    tools = toy_tools(DATA)
    rows = memorization_rows(tools, DATA.catalog, ["document", "reverse"], 40)
    short, long = rows[0], rows[len(DATA.catalog)]
    assert len(long.target) > 3 * len(short.target)
    heavy = Row(short.prompt, short.target, weight=3.0)
    expected = (3 * by_hand(tools, short) + by_hand(tools, long)) / 4
    assert float(loss_of(tools, [heavy, long])) == pytest.approx(float(expected), rel=1e-5)


def test_set_valued_rows_are_soft_targets() -> None:
    tools = toy_tools(DATA)
    golds = tuple(tools.codes[i][0] for i in (1, 4, 6))
    row = Row(tuple(tools.frame.wrap(tools.text.encode("do it all"))), (golds[0], tools.eos_id), golds)
    logits = tools.model(torch.tensor([[*row.prompt, *row.target]])).logits[0, len(row.prompt) - 1 :].float()
    soft = torch.zeros(2, logits.shape[1])
    soft[0, list(golds)] = 1 / 3
    soft[1, tools.eos_id] = 1
    expected = torch.nn.functional.cross_entropy(logits[:2], soft).detach()
    assert float(loss_of(tools, [row])) == pytest.approx(float(expected), rel=1e-5)


def without(tools: ToolModel, count: int) -> Regularization:
    """The first `count` tools are taught; tokens that only others use are left out at query rows."""
    taught = {t for code in tools.codes[:count] for t in code}
    return Regularization(absent=torch.tensor([i for i in tools.new_ids if i not in taught]))


@pytest.mark.parametrize("scheme", ["atomic", "hierarchical"])
def test_absent_tools_are_left_out_of_the_softmax_of_query_rows_alone(scheme: str) -> None:
    tools = toy_tools(DATA, scheme)
    some = without(tools, 4)
    assert some.absent is not None
    assert len(some.absent)
    kept = [i for i in range(tools.model.config.vocab_size) if i not in some.absent.tolist()]
    queries = [q for q in DATA.train if DATA.catalog.index[next(iter(q.relevant))] < 4][:5]
    rows = query_rows(tools, DATA.catalog, queries, 40)
    replayed = memorization_rows(tools, DATA.catalog, ["document"], 40)[2:6]
    losses = [by_hand(tools, row) for row in replayed]  # replayed rows keep the whole softmax
    for row in rows:
        logs = log_probabilities(tools, row)
        parts = [logs[j, kept].logsumexp(0) - logs[j, label] for j, label in enumerate(row.target[:-1])]
        losses.append(torch.stack([*parts, -logs[-1, tools.eos_id]]).mean())
    found = loss_of(tools, replayed + rows, regularization=some)
    assert float(found) == pytest.approx(float(torch.stack(losses).mean()), rel=1e-5)
    assert float(found) != pytest.approx(float(loss_of(tools, replayed + rows)), rel=5e-5)


def test_queries_say_nothing_about_absent_tools() -> None:
    tools = toy_tools(DATA)
    some = without(tools, 4)
    (row,) = query_rows(tools, DATA.catalog, [q for q in DATA.train if DATA.catalog.tools[0].id in q.relevant][:1], 40)
    batch = collate([(0, row)], tools.eos_id)
    untaught = [code[0] for code in tools.codes[4:]]
    gradients = {}
    for name, regularization in (("taught", some), ("all", Regularization())):
        module = module_of(tools, regularization=regularization)
        logits = module(batch).detach().clone().requires_grad_()
        module._nll(logits, batch).backward()
        assert logits.grad is not None
        gradients[name] = logits.grad[0]
    assert (gradients["all"][untaught] > 0).all()  # a descent step would lower them
    assert (gradients["taught"][untaught] == 0).all()
    assert gradients["taught"][row.target[0]] < 0
    others = [i for i in range(len(tools.tokenizer)) if i not in untaught and i != row.target[0]]
    assert (gradients["taught"][others] > 0).all()


def teacher_of(tools: ToolModel, rows: list[Row]) -> tuple[Tensor, Tensor]:
    ids = torch.tensor([code[0] for code in tools.codes])
    scores = torch.full((len(rows), len(ids)), torch.nan)
    with torch.no_grad():
        for i, row in enumerate(rows):
            if row.kind != "query":
                scores[i] = log_probabilities(tools, row)[0, ids].float().log_softmax(-1)
    return scores, ids


def test_the_divergence_is_zero_at_the_teacher_and_grows_away_from_it() -> None:
    tools = toy_tools(DATA, tuning=Tuning("full"))
    rows = memorization_rows(tools, DATA.catalog, ["document"], 40)[:3] + query_rows(
        tools, DATA.catalog, DATA.train[:2], 40
    )
    teacher, ids = teacher_of(tools, rows)
    near = Regularization(teacher=teacher, tool_ids=ids, weight=5.0)
    assert float(loss_of(tools, rows, regularization=near)) == pytest.approx(float(loss_of(tools, rows)), abs=1e-5)
    train_toy(tools, rows, epochs=2, rate=3e-3, batch=5)
    now, _ = teacher_of(tools, rows)
    expected = torch.stack([(t.exp() * (t - n)).sum() for t, n in zip(teacher[:3], now[:3], strict=True)]).mean()
    assert float(expected) > 1e-3
    found = (loss_of(tools, rows, regularization=near) - loss_of(tools, rows)) / 5
    assert float(found) == pytest.approx(float(expected), rel=1e-3)
    only_queries = Regularization(teacher=torch.full_like(teacher, torch.nan), tool_ids=ids, weight=5.0)
    assert float(loss_of(tools, rows, regularization=only_queries)) == pytest.approx(
        float(loss_of(tools, rows)), rel=1e-6
    )


@pytest.mark.parametrize(("rows", "size"), [(1, 4), (7, 4), (64, 4), (200, 3), (MEGABATCH * 8 + 1, 8)])
def test_batches_hold_every_row_once_an_epoch_in_a_seeded_order(rows: int, size: int) -> None:
    lengths = [(i * 37) % 50 + 3 for i in range(rows)]
    sampler, again, other = (LengthGrouped(lengths, size, seed) for seed in (0, 0, 1))
    epochs = [list(sampler) for _ in range(3)]
    assert epochs == [list(again) for _ in range(3)]
    for batches in epochs:
        assert sorted(i for b in batches for i in b) == list(range(rows))
        assert len(batches) == len(sampler) == math.ceil(rows / size)
        assert all(0 < len(b) <= size for b in batches)
    if rows > 2 * size:
        assert epochs[0] != epochs[1]
        assert epochs[0] != list(other)


def test_batches_are_of_like_length() -> None:
    lengths = [(i * 7919) % 500 + 1 for i in range(800)]
    padded = sum(max(lengths[i] for i in b) * len(b) for b in LengthGrouped(lengths, 8, 0))
    assert padded < 1.15 * sum(lengths)


class Watched(CausalSFT):
    """Notes which rows came in which epoch, and whether the model was in training mode."""

    seen: list[tuple[int, int]]
    modes: set[bool]

    def training_step(self, batch: Any, index: int) -> Tensor:
        self.seen += [(self.current_epoch, int(i)) for i in batch.rows]
        self.modes.add(self.model.training)
        return super().training_step(batch, index)


def test_lightning_feeds_every_row_once_an_epoch_in_training_mode() -> None:
    tools = toy_tools(DATA, tuning=Tuning(dropout=0.1))
    rows = query_rows(tools, DATA.catalog, DATA.train[:21], 40)
    module = Watched(tools, learning_rate=1e-3, steps=18, validate=lambda: {"recall@1": 0.0})
    module.seen, module.modes = [], set()
    fit(module, RowData(rows, 4, tools.eos_id, 0), epochs=3, seed=0, hardware=Hardware(precision="fp32"))
    assert Counter(module.seen) == {(epoch, i): 1 for epoch in range(3) for i in range(len(rows))}
    assert module.modes == {True}
    assert not tools.model.training
    assert module.tokens == 3 * sum(r.length for r in rows)
    assert module.tokens_per_second > 0


@pytest.mark.parametrize("kind", ["lora", "full"])
def test_one_seed_one_model(kind: str) -> None:
    def train(seed: int) -> dict[str, Tensor]:
        tools = toy_tools(DATA, tuning=Tuning(kind, rank=4, dropout=0.1 if kind == "lora" else 0.0))
        rows = query_rows(tools, DATA.catalog, DATA.train[:12], 40)
        module = CausalSFT(tools, learning_rate=1e-2, steps=6)
        fit(module, RowData(rows, 4, tools.eos_id, seed), epochs=2, seed=seed, hardware=Hardware(precision="fp32"))
        return snapshot(tools.model)

    first, again, other = train(0), train(0), train(1)
    assert all(torch.equal(first[n], again[n]) for n in first)
    assert any(not torch.equal(first[n], other[n]) for n in first)


def test_a_loss_that_is_no_number_names_step_and_rows() -> None:
    tools = toy_tools(DATA, tuning=Tuning("full"))
    rows = query_rows(tools, DATA.catalog, DATA.train[:12], 40)
    module = CausalSFT(tools, learning_rate=math.inf, steps=3)
    data = RowData(rows, 4, tools.eos_id, 0)
    second = list(LengthGrouped([r.length for r in rows], 4, 0))[1]
    with pytest.raises(FloatingPointError) as error:
        fit(module, data, epochs=1, seed=0, hardware=Hardware(precision="fp32"))
    assert "step 1" in str(error.value)
    assert str(second) in str(error.value)


@pytest.mark.parametrize(("recalls", "chosen"), [([0.1, 0.9, 0.4], 1), ([0.5, 0.5, 0.2], 1), ([0.1, 0.2, 0.3], 2)])
@pytest.mark.parametrize("keep_best", [True, False])
def test_the_best_epoch_is_kept_the_latest_of_equal_ones(recalls: list[float], chosen: int, keep_best: bool) -> None:
    tools = toy_tools(DATA, tuning=Tuning(rank=2))
    states: list[dict[str, Tensor]] = []

    def validate() -> dict[str, float]:
        states.append(snapshot(tools.model))
        return {"recall@1": recalls[len(states) - 1]}

    rows = query_rows(tools, DATA.catalog, DATA.train[:8], 40)
    module = train_toy(tools, rows, epochs=3, rate=1e-2, validate=validate, keep_best=keep_best)
    expected = states[chosen if keep_best else 2]
    assert all(torch.equal(module.chosen()[n], expected[n]) for n in expected)
    assert [h["recall@1"] for h in module.history if "recall@1" in h] == recalls


def test_the_rate_rises_and_falls_to_zero() -> None:
    tools = toy_tools(DATA, tuning=Tuning(rank=2))
    module = CausalSFT(tools, learning_rate=2.0, steps=20, warmup=0.2)
    configured = module.configure_optimizers()
    scheduler, rates = configured["lr_scheduler"]["scheduler"], []
    for _ in range(21):
        rates.append(scheduler.get_last_lr()[0])
        configured["optimizer"].step()
        scheduler.step()
    assert rates[3] == max(rates) == 2.0
    assert rates[:4] == sorted(rates[:4])
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert rates[0] > 0
    assert rates[20] == 0


def recall(tools: ToolModel, free: bool = False) -> float:
    retriever = ToolGen(tools).fit(DATA.catalog)
    ranking = (retriever.search_free if free else retriever.search)(DATA.train, 5)
    return recall_of(ranking, relevant_indices(DATA.catalog, DATA.train))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_toy_model_learns_the_toy_catalog(scheme: str) -> None:
    tools = toy_tools(DATA, scheme, tuning=Tuning("full"))
    before = recall(tools)
    module = train_toy(tools, query_rows(tools, DATA.catalog, DATA.train, 64), epochs=14, rate=1e-2)
    losses = [h["loss"] for h in module.history]
    assert sum(losses[-6:]) < 0.25 * sum(losses[:6])
    assert before < 0.5
    assert recall(tools) > 0.9
    assert recall(tools, free=True) >= 0.9 * recall(tools)


def test_adapters_and_new_rows_alone_learn_it_too() -> None:
    tools = toy_tools(DATA, tuning=Tuning("lora"))
    train_toy(tools, query_rows(tools, DATA.catalog, DATA.train, 64), epochs=15, rate=1e-2)
    assert recall(tools) > 0.9


def test_memorization_alone_finds_tools_by_their_documents() -> None:
    tools = toy_tools(DATA, tuning=Tuning("full"))
    train_toy(tools, memorization_rows(tools, DATA.catalog, MULTI, 64), epochs=10, rate=6e-3)
    described = zip(DATA.catalog.documents, DATA.catalog.tools, strict=True)
    queries = [Query(tool.name, document, {tool.id: 1}) for document, tool in described]
    ranking = ToolGen(tools, max_tokens=64).fit(DATA.catalog).search(queries, 5)
    assert recall_of(ranking, [[i] for i in range(len(queries))]) > 0.9
