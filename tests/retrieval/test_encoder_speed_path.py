"""The fast way gives what the library gives, whatever the pooling; models that it does not know are left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import linear

from toolsavvy.retrieval import encoding
from toolsavvy.retrieval.encoder_models import position_limit
from toolsavvy.retrieval.encoders import Encoder

TEXTS = [
    "", " ", "a", "  two words ", "tab\tand\nnewline", "CAPITALS Are Lowered", "ünïcödé 東京",
    *(f"tool {i} " + "does something " * (i % 7) for i in range(40)), "far beyond the limit " * 60,
]  # fmt: skip


def by_library(model: Any, texts: list[str], **settings: Any) -> np.ndarray:
    return model.encode(texts, convert_to_numpy=True, show_progress_bar=False, **settings)


@pytest.fixture(scope="module")
def toy() -> Any:
    return Encoder(seed=5).model


@pytest.mark.parametrize("pooling", ["mean", "cls", "lasttoken"])
@pytest.mark.parametrize("normalize", [True, False])
def test_same_vectors_as_the_library(pooling: str, normalize: bool) -> None:
    encoder = Encoder(pooling=pooling, normalize=normalize)
    assert encoding.is_text_transformer(encoder.model)
    ours, theirs = encoder.encode(TEXTS), by_library(encoder.model, TEXTS, normalize_embeddings=normalize)
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, theirs, atol=2e-6)
    other = Encoder(pooling="mean" if pooling == "cls" else "cls", normalize=normalize).encode(TEXTS)
    assert not np.allclose(ours, other, atol=1e-3)


def test_further_modules_run_as_in_the_library(toy: Any) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling

    torch.manual_seed(0)
    pooled = Pooling(32, pooling_mode=("mean", "max"))
    model = SentenceTransformer(modules=[toy[0], pooled, Dense(64, 8), Normalize()], device="cpu")
    assert encoding.is_text_transformer(model)
    ours = Encoder.from_model(model, normalize=False).encode(TEXTS)
    np.testing.assert_allclose(ours, by_library(model, TEXTS), atol=2e-6)
    assert ours.shape == (len(TEXTS), 8)
    model.truncate_dim = 5
    np.testing.assert_allclose(
        Encoder.from_model(model).encode(TEXTS), by_library(model, TEXTS, normalize_embeddings=True), atol=2e-6
    )


def test_a_model_without_a_transformer_is_left_to_the_library() -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import BoW

    model = SentenceTransformer(modules=[BoW(vocab=["tool", "does", "something"])], device="cpu")
    assert not encoding.is_text_transformer(model)
    texts = ["tool does", "something", "tool tool"]
    np.testing.assert_allclose(
        Encoder.from_model(model).encode(texts), by_library(model, texts, normalize_embeddings=True), atol=1e-6
    )


def test_a_model_that_wraps_texts_into_conversations_is_left_to_the_library(toy: Any) -> None:
    first = toy[0]
    kept = dict(first.modality_config)
    try:
        first.modality_config["message"] = dict(kept["text"])
        assert not encoding.is_text_transformer(toy)
    finally:
        first.modality_config = kept
    assert encoding.is_text_transformer(toy)


@pytest.mark.parametrize("dtype", ["bfloat16"])
def test_half_precision_is_close_to_full(dtype: str) -> None:
    half, full = Encoder(seed=3), Encoder(seed=3)
    model = Encoder(seed=4).model.to(getattr(torch, dtype))
    model.load_state_dict(full.model.state_dict())
    vectors = half.with_model(model).encode(TEXTS)
    assert vectors.dtype == np.float32
    assert np.abs(vectors - full.encode(TEXTS)).max() < 0.05
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_batches_hold_a_number_of_tokens_longest_first() -> None:
    lengths = [3, 200, 50, 50, 10, 7, 1200, 3]
    batches = encoding.plan(lengths, 400)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    assert batches[0] == [6]  # longer than the budget: alone
    assert all(len(b) * max(lengths[i] for i in b) <= 400 for b in batches[1:])
    order = [lengths[i] for batch in batches for i in batch]
    assert order == sorted(lengths, reverse=True)
    assert encoding.plan([], 5) == []


def test_chunks_of_texts_make_no_difference(toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Encoder.from_model(toy).encode(TEXTS)
    monkeypatch.setattr(encoding, "CHUNK", 7)
    monkeypatch.setattr(encoding, "CPU_TOKENS", 30)
    np.testing.assert_allclose(Encoder.from_model(toy).encode(TEXTS), whole, atol=2e-6)


def test_faster_kernels_leave_the_model_and_gradients_alone(toy: Any) -> None:
    inputs, weight, bias = torch.randn(3, 5, 7), torch.randn(4, 7), torch.randn(4)
    expected = inputs.double() @ weight.double().T + bias.double()
    with torch.inference_mode(), encoding.OneDnnLinear():
        torch.testing.assert_close(linear(inputs, weight, bias).double(), expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(linear(inputs, weight).double(), expected - bias.double(), atol=1e-5, rtol=1e-5)
        half = linear(inputs.bfloat16(), weight.bfloat16(), bias.bfloat16())
        assert half.dtype is torch.bfloat16
    Encoder.from_model(toy).encode(["x"])
    features = toy.preprocess(["x"])
    toy(features)["sentence_embedding"].sum().backward()
    assert any(p.grad is not None for p in toy.parameters())
    toy.zero_grad(set_to_none=True)


def test_where_onednn_is_missing_the_librarys_kernels_do(toy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = Encoder.from_model(toy).encode(TEXTS)

    def missing(*_: Any) -> Any:
        raise AttributeError("_linear_pointwise")

    monkeypatch.setattr(encoding, "_onednn", missing)
    np.testing.assert_allclose(Encoder.from_model(toy).encode(TEXTS), vectors, atol=2e-6)


def test_more_tokens_than_positions_are_cut_not_a_crash(toy: Any) -> None:
    assert position_limit(toy) == 128
    long = Encoder.from_model(toy, max_length=2048)
    assert long.max_tokens == 128
    np.testing.assert_allclose(long.encode(TEXTS), Encoder.from_model(toy).encode(TEXTS), atol=1e-6)


def test_a_saved_copy_is_read_with_its_shape(tmp_path: Path) -> None:
    made = Encoder(pooling="cls")
    made.model.save(str(tmp_path / "m"))
    plain = Encoder(source="path", path=str(tmp_path / "m"))
    np.testing.assert_allclose(plain.encode(TEXTS), made.encode(TEXTS), atol=2e-6)
