"""From an encoder to its tuned copy: continued where it was cut off, adapters merged, nothing left to chance."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from toolsavvy.catalog import relevant_indices
from toolsavvy.errors import UserError
from toolsavvy.methods.contrastive import save_whole, saved
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.training.contrastive import ContrastiveModule, Examples, Settings, Validation
from toolsavvy.training.finetuned import FineTuned, LoRA, tune
from toolsavvy.training.fitting import Hardware
from toolsavvy.training.negatives import Pools
from world import toy_set

DATA = toy_set(8)
GOLDS = relevant_indices(DATA.catalog, DATA.train)
QUIET = Hardware(precision="fp32", threads=1)
SETTINGS = Settings(learning_rate=1e-3, epochs=3, batch_size=8, negatives=1, max_length=32)
POOLS = Pools(tuple(tuple(t for t in range(8) if t not in gold) for gold in GOLDS))
EXAMPLES = Examples([(q.text,) for q in DATA.train], list(DATA.catalog.documents), GOLDS, POOLS)
Weights = dict[str, Tensor]


class Cut(Exception):
    """The training was cut off."""


def weights(model: Any) -> Weights:
    return {k: v.clone() for k, v in model.state_dict().items()}


def equal(first: Weights, second: Weights) -> bool:
    return first.keys() == second.keys() and all(torch.equal(v, second[k]) for k, v in first.items())


def tuned(lora: LoRA | None = None, settings: Settings = SETTINGS, **more: Any) -> tuple[Any, list[dict[str, float]]]:
    validation = Validation([q.text for q in DATA.validation], relevant_indices(DATA.catalog, DATA.validation))
    return tune(Encoder(), EXAMPLES, settings, lora=lora, hardware=QUIET, validation=validation, **more)


@pytest.fixture(scope="module", params=["full", "lora"])
def undisturbed(request: pytest.FixtureRequest) -> tuple[LoRA | None, Weights, list[dict[str, float]]]:
    lora = LoRA(4, 8.0, 0.1) if request.param == "lora" else None
    model, history = tuned(lora)
    return lora, weights(model), history


def cut_off(lora: LoRA | None, checkpoint: Path) -> None:
    """Train until the second step after the first epoch."""
    seen: list[dict[str, float]] = []

    def watch(point: dict[str, float]) -> None:
        seen.append(dict(point))
        if len(seen) > next((i for i, p in enumerate(seen) if "epoch" in p), 10**9) + 1:
            raise Cut

    with pytest.raises(Cut):
        tuned(lora, checkpoint=checkpoint, watch=watch)


def test_a_training_that_was_cut_off_goes_on_as_if_it_had_not_been(
    undisturbed: tuple[LoRA | None, Weights, list[dict[str, float]]], tmp_path: Path
) -> None:
    lora, wanted, history = undisturbed
    checkpoint = tmp_path / "mine.ckpt"
    cut_off(lora, checkpoint)
    later: list[dict[str, float]] = []
    torch.manual_seed(99)  # another process has drawn other numbers before
    model, told = tuned(lora, checkpoint=checkpoint, watch=lambda p: later.append(dict(p)))
    assert equal(weights(model), wanted)
    assert told == history
    assert 0 < len(later) < len(history)
    again, told = tuned(lora, checkpoint=checkpoint)  # cut off between the last epoch and the saved model
    assert equal(weights(again), wanted) and told == history


def test_a_torn_checkpoint_is_dropped_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint = tmp_path / "mine.ckpt"
    cut_off(None, checkpoint)
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[: len(whole) // 2])
    with caplog.at_level(logging.WARNING):
        _, told = tuned(None, checkpoint=checkpoint)
    assert "mine.ckpt is damaged: training starts anew" in caplog.text
    assert told[0]["step"] == 0 and len([p for p in told if "epoch" in p]) == SETTINGS.epochs


class Trap:
    """What a checkpoint must never be able to run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_nothing_in_a_checkpoint_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, mark = tmp_path / "mine.ckpt", tmp_path / "mark"
    torch.save({"state_dict": {}, "trap": Trap(mark)}, checkpoint)
    asked: list[Any] = []
    load = torch.load
    monkeypatch.setattr(torch, "load", lambda *a, **k: (asked.append(k.get("weights_only")), load(*a, **k))[1])
    tuned(None, Settings(epochs=1, batch_size=8, max_length=16), checkpoint=checkpoint)
    assert not mark.exists()
    cut_off(None, checkpoint.with_name("other.ckpt"))
    tuned(None, checkpoint=checkpoint.with_name("other.ckpt"))
    assert len(asked) >= 3 and set(asked) == {True}


def test_adapters_are_merged_and_the_saved_model_is_the_one_in_memory(tmp_path: Path) -> None:
    from safetensors import safe_open

    encoder, base = Encoder(), weights(Encoder().model)
    model, _ = tune(encoder, EXAMPLES, SETTINGS, lora=LoRA(4, 8.0), hardware=QUIET)
    save_whole(model, tmp_path / "model")
    with safe_open(tmp_path / "model" / "model.safetensors", "pt") as file:
        assert not [k for k in file.keys() if "lora" in k or "base_" in k or "adapter" in k]  # noqa: SIM118
    assert not list((tmp_path / "model").glob("adapter*"))
    texts = [q.text for q in DATA.train[:6]]
    in_memory = encoder.with_model(model).encode(texts)
    assert np.array_equal(saved(encoder, tmp_path / "model").encode(texts), in_memory)
    assert not np.allclose(in_memory, encoder.encode(texts), atol=1e-3)
    assert equal(weights(encoder.model), base)
    assert equal(weights(Encoder().model), base)  # which the loader keeps for everybody


def test_adapters_start_from_the_seed_alone() -> None:
    short = Settings(learning_rate=1e-3, epochs=1, batch_size=16, max_length=16)
    torch.manual_seed(1)
    first, _ = tune(Encoder(), EXAMPLES, short, lora=LoRA(4), hardware=QUIET)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    second, _ = tune(Encoder(), EXAMPLES, short, lora=LoRA(4), hardware=QUIET)
    assert equal(weights(first), weights(second))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("targets", ["q_proj", ["q_proj", "v_proj"]])
def test_targets_that_are_no_modules_are_refused(targets: str | list[str]) -> None:
    with pytest.raises(UserError) as error:
        tune(Encoder(), EXAMPLES, SETTINGS, lora=LoRA(targets=targets), hardware=QUIET)
    assert error.value.where == "tuning.targets"
    assert "q_proj" in error.value.what and "query" in error.value.expected and error.value.fix


@pytest.mark.parametrize(
    ("batch_size", "negatives", "pools", "golds", "is_idle"),
    [
        (1, 0, None, GOLDS, True),
        (1, 1, None, GOLDS, True),
        (1, 1, Pools(((),) * len(GOLDS)), GOLDS, True),
        (1, 1, POOLS, GOLDS, False),
        (2, 0, None, GOLDS, False),
        (8, 0, None, [[3]] * 4, True),
    ],
)
def test_batches_with_nothing_to_tell_apart_are_refused(
    batch_size: int, negatives: int, pools: Pools | None, golds: list[list[int]], is_idle: bool
) -> None:
    from toolsavvy.training.contrastive import refuse_idle

    examples = Examples(EXAMPLES.queries[: len(golds)], EXAMPLES.documents, golds, pools)
    settings = Settings(batch_size=batch_size, negatives=negatives)
    if not is_idle:
        refuse_idle(examples, settings, "method.recipes.mine")
        return
    with pytest.raises(UserError) as error:
        refuse_idle(examples, settings, "method.recipes.mine")
    assert error.value.where == "method.recipes.mine"
    assert "tell apart" in error.value.what and error.value.expected and "batch_size=32" in error.value.fix


def test_a_rival_that_cannot_learn_is_refused() -> None:
    with pytest.raises(UserError) as error:
        FineTuned(Encoder(), batch_size=1).fit(DATA.catalog, DATA.train)
    assert error.value.where == "retriever.finetuned"


def test_twins_of_a_querys_other_golds_are_no_negatives_either() -> None:
    documents = list(DATA.catalog.documents)
    documents[2] = documents[1]
    examples = Examples([("both",), ("other",)], documents, [[0, 1], [2]])
    module = ContrastiveModule(Encoder().model, examples, Settings(), steps=1)
    _, tools, contrast = module.assemble([(0, 0), (1, 2)])
    assert tools == [0, 2]
    assert contrast.excluded.tolist() == [[False, True], [False, False]]


def test_golds_of_another_query_that_says_the_same_are_no_negatives() -> None:
    examples = Examples([("do it",), ("do it",)], DATA.catalog.documents, [[0], [1]], spared=[[0, 1], [0, 1]])
    module = ContrastiveModule(Encoder().model, examples, Settings(), steps=1)
    assert examples.pairs == [(0, 0), (1, 1)]
    assert module.assemble(examples.pairs)[2].excluded.tolist() == [[False, True], [True, False]]


def test_training_reads_no_more_of_a_text_than_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    embed = ContrastiveModule.embed

    def watched(self: ContrastiveModule, texts: Any) -> Tensor:
        read.append(self.model.max_seq_length)
        return embed(self, texts)

    monkeypatch.setattr(ContrastiveModule, "embed", watched)
    short = Settings(epochs=1, batch_size=16, max_length=500)
    for encoder, limit in ((Encoder(max_length=20), 20), (Encoder(), 128)):  # the toy has 128 positions
        model, _ = tune(encoder, EXAMPLES, short, hardware=QUIET)
        assert set(read) == {limit}
        assert model.max_seq_length == 128
        read.clear()


def test_keeping_no_graph_changes_nothing() -> None:
    plain, cached = (
        tune(Encoder(), EXAMPLES, Settings(1e-3, 2, batch_size=8, chunk=5, cached=c, max_length=32), hardware=QUIET)[1]
        for c in (False, True)
    )
    assert [p["loss"] for p in cached] == pytest.approx([p["loss"] for p in plain], rel=1e-4)
