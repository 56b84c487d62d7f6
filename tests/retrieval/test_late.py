"""Late interaction over a bi-encoder's token states and over a tiny random ColBERT, whose scores mean nothing."""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toolsavvy.catalog import Catalog, Query, Tool
from toolsavvy.errors import UserError
from toolsavvy.retrieval.bm25 import BM25
from toolsavvy.retrieval.dense import Dense
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.late import Late
from toolsavvy.retrieval.multivector import MultiVector
from toolsavvy.retrieval.ranking import NO_TOOL, Retriever
from toolsavvy.retrieval.tokens import TokenEncoder

CATALOG = Catalog(
    "c", tuple(Tool(f"t{i:02}", f"makeThing{i}", f"{chr(97 + i) * (1 + i % 5)} does {i}") for i in range(20))
)
QUERIES = [Query(f"q{i}", f"please {chr(97 + i) * 4}", {f"t{i:02}": 1}) for i in range(20)]


@pytest.fixture(scope="module")
def toy() -> Encoder:
    return Encoder()


def naive(queries: Sequence[np.ndarray], documents: Sequence[np.ndarray]) -> np.ndarray:
    return np.array([[(q @ d.T).max(axis=1).sum() for d in documents] for q in queries])


def ragged(encoder: TokenEncoder, texts: Sequence[str]) -> list[np.ndarray]:
    tokens = encoder.documents(texts)
    return np.split(tokens.vectors, np.cumsum(tokens.lengths)[:-1])


def states(encoder: Encoder, text: str, *, special: bool) -> np.ndarray:
    """The oracle: one text at a time through the bare transformer."""
    import torch

    model: Any = encoder.model
    found = model.tokenizer(text, return_tensors="pt", truncation=True, max_length=model.max_seq_length)
    with torch.no_grad():
        hidden = model[0].auto_model(**found).last_hidden_state[0].numpy()
    hidden = hidden if special else hidden[1:-1]
    return hidden / np.linalg.norm(hidden, axis=1, keepdims=True)


@pytest.mark.parametrize("special", [False, True])
def test_token_states_are_the_last_hidden_states_of_real_tokens(special: bool, toy: Encoder) -> None:
    documents = ["abc", "a much longer text than the other one", "mm \u4e16 unknown"]
    found = ragged(TokenEncoder(toy, special), documents)
    for vectors, text in zip(found, documents, strict=True):
        assert np.allclose(vectors, states(toy, text, special=special), atol=1e-5)


def test_a_text_without_words_keeps_its_special_tokens(toy: Encoder) -> None:
    (vectors,) = ragged(TokenEncoder(toy), [""])
    assert len(vectors) == 2 and np.isfinite(vectors).all()


def test_a_limit_cuts_texts_and_leaves_the_model_as_it_was(toy: Encoder) -> None:
    limit = toy.model.max_seq_length
    (vectors,) = ragged(TokenEncoder(Encoder.from_model(toy.model, max_length=8)), ["abcdefghijkl"])
    assert len(vectors) == 6
    assert toy.model.max_seq_length == limit


@pytest.mark.parametrize("storage", ["float32", "float16"])
def test_rankings_equal_the_naive_loop(storage: str, toy: Encoder) -> None:
    retriever = Late(toy, storage=storage).fit(CATALOG)
    assert isinstance(retriever, Retriever)
    found = retriever.search(QUERIES, 20)
    queries = [states(toy, query.text, special=False) for query in QUERIES]
    expected = naive(queries, [states(toy, document, special=False) for document in CATALOG.documents])
    scores = np.take_along_axis(expected, found.indices, axis=1)
    tolerance = 1e-4 if storage == "float32" else 0.02
    assert np.allclose(found.scores, scores, atol=tolerance)
    assert (np.diff(scores, axis=1) <= tolerance).all()
    assert all(sorted(row) == list(range(20)) for row in found.indices.tolist())


def test_equal_documents_tie_exactly_and_rank_by_descending_id(toy: Encoder) -> None:
    mixed = Catalog("mixed", tuple(Tool(f"t{i:02}", "same" if i % 2 else f"other {i}") for i in range(30)))
    for k in (3, 30):
        found = Late(toy).fit(mixed).search([Query("q", "same", {"t01": 1})], k)
        twins = [i for i in found.indices[0].tolist() if i % 2]
        assert twins == sorted(twins, reverse=True)
        assert len({s for i, s in zip(found.indices[0].tolist(), found.scores[0].tolist(), strict=True) if i % 2}) == 1


def test_equal_queries_score_alike_wherever_they_stand(toy: Encoder) -> None:
    retriever = Late(toy).fit(CATALOG)
    found = retriever.search([QUERIES[0], *QUERIES[3:9], QUERIES[0]], 20)
    assert np.array_equal(found.scores[0], found.scores[-1])
    assert retriever.search([], 5).indices.shape == (0, 5)


def test_a_first_stage_is_off_by_default_and_otherwise_decides_what_is_scored(toy: Encoder) -> None:
    exact = Late(toy).fit(CATALOG).search(QUERIES, 5)
    whole = Late(toy, first_stage=Dense(toy), depth=20).fit(CATALOG).search(QUERIES, 5)
    assert np.array_equal(exact.indices, whole.indices) and np.allclose(exact.scores, whole.scores, atol=1e-5)
    pruned = Late(toy, first_stage=Dense(toy), depth=6).fit(CATALOG).search(QUERIES, 5)
    pools = Dense(toy).fit(CATALOG).search(QUERIES, 6).indices
    assert all(set(row) <= set(pool) for row, pool in zip(pruned.indices.tolist(), pools.tolist(), strict=True))
    words = Late(toy, first_stage=BM25(), depth=6).fit(CATALOG).search([Query("q", "nothing shared", {})], 5)
    assert (words.indices == NO_TOOL).all()


def test_document_tokens_are_cached_by_what_they_depend_on(
    toy: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path))
    cached = Encoder.from_model(toy.model, cache=True)
    first = TokenEncoder(cached).documents(["one", "two words"])
    ran: list[str] = []
    run = TokenEncoder._run
    monkeypatch.setattr(TokenEncoder, "_run", lambda self, texts, side: ran.extend(texts) or run(self, texts, side))
    again = TokenEncoder(cached).documents(["one", "two words"])
    assert not ran and np.array_equal(first.vectors, again.vectors) and np.array_equal(first.lengths, again.lengths)
    for other in (TokenEncoder(cached, special_tokens=True), TokenEncoder(cached, storage="float16")):
        ran.clear()
        other.documents(["one", "two words"])
        assert ran
    shaped = Encoder.from_model(toy.model, cache=True, append_eos=True)
    ran.clear()
    TokenEncoder(shaped).documents(["one", "two words"])
    assert ran, "an end of sequence shows in no weight, and changes every state"
    for damage in (b"", b"\x93NUMPY torn", None):
        for path in tmp_path.rglob("*.tokens.npy"):
            path.unlink() if damage is None else path.write_bytes(damage)
        ran.clear()
        mended = TokenEncoder(cached).documents(["one", "two words"])
        assert ran and np.array_equal(first.vectors, mended.vectors)


def test_vectors_that_are_not_finite_are_refused() -> None:
    import torch

    broken = Encoder(seed=7)
    model: Any = broken.model
    with torch.no_grad():
        next(iter(model[0].auto_model.encoder.layer[-1].output.dense.parameters())).fill_(float("nan"))
    with pytest.raises(UserError, match="NaN or infinity") as caught:
        Late(broken).fit(CATALOG)
    assert "toy encoder" in caught.value.where and "float32" in caught.value.fix


@pytest.mark.parametrize(
    ("settings", "where"), [({"storage": "float8"}, "retriever.late.storage"), ({"depth": 0}, "retriever.late.depth")]
)
def test_settings_out_of_range_are_the_users(settings: dict[str, Any], where: str, toy: Encoder) -> None:
    with pytest.raises(UserError) as caught:
        Late(toy, **settings)
    assert caught.value.where == where and caught.value.expected


def test_an_encoder_without_a_model_has_no_tokens() -> None:
    class Remote:
        """Vectors from elsewhere."""

    with pytest.raises(UserError, match="Remote has no token vectors") as caught:
        Late(Remote())  # type: ignore[arg-type]
    assert caught.value.where == "retriever.late.encoder" and caught.value.fix


def tiny_colbert(folder: Path, metadata: dict[str, Any] | None = None, architecture: str = "HF_ColBERT") -> Path:
    """A random checkpoint as Stanford's ColBERT lays it out: BERT and projection in one file, settings beside them."""
    import torch
    from safetensors.torch import save_file
    from transformers import BertConfig, BertModel, BertTokenizer

    letters = [chr(code) for code in range(33, 127)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]", *letters]
    vocabulary += [f"##{letter}" for letter in letters]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    BertTokenizer(vocab=str(folder / "vocab.txt"), model_max_length=128).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=128, initializer_range=0.3,
    )  # fmt: skip
    model = BertModel(config)
    model.save_pretrained(folder)
    weights = {f"bert.{name}": tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(weights | {"linear.weight": torch.randn(16, 32)}, folder / "model.safetensors", metadata={"format": "pt"})
    settings = json.loads((folder / "config.json").read_text()) | {"architectures": [architecture]}
    (folder / "config.json").write_text(json.dumps(settings))
    told = {"query_token_id": "[unused0]", "doc_token_id": "[unused1]", "query_maxlen": 24, "doc_maxlen": 40}
    (folder / "artifact.metadata").write_text(json.dumps(told | (metadata or {})))
    return folder


@pytest.fixture(scope="module")
def colbert(tmp_path_factory: pytest.TempPathFactory) -> MultiVector:
    return MultiVector(source="path", path=str(tiny_colbert(tmp_path_factory.mktemp("colbert"))))


def by_hand(encoder: MultiVector, text: str, marker: str, length: int | None) -> tuple[np.ndarray, list[int]]:
    """ColBERT written out: [CLS] marker text [SEP], then [MASK] that is scored but not attended to; projected."""
    import torch

    model: Any = encoder.model
    tokenizer = model.tokenizer
    ids = [tokenizer.cls_token_id, tokenizer.convert_tokens_to_ids(marker)]
    ids += [*tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text)), tokenizer.sep_token_id]
    attended = [1] * len(ids) + [0] * ((length or len(ids)) - len(ids))
    ids += [tokenizer.mask_token_id] * ((length or len(ids)) - len(ids))
    with torch.no_grad():
        hidden = model[0].auto_model(torch.tensor([ids]), attention_mask=torch.tensor([attended])).last_hidden_state[0]
        vectors = torch.nn.functional.normalize(hidden @ model[1].linear.weight.T, dim=-1)
    return vectors.numpy(), ids


def test_a_colbert_checkpoint_reads_its_projection_markers_expansion_and_skiplist(colbert: MultiVector) -> None:
    tokens = TokenEncoder(colbert)
    asked = tokens.queries([Query("q", "find it", {"t": 1})])
    expected, _ = by_hand(colbert, "find it", "[unused0]", 24)
    assert asked.lengths.tolist() == [24]
    assert np.allclose(asked.vectors, expected, atol=1e-5)
    (document,) = ragged(tokens, ["make, it."])
    expected, ids = by_hand(colbert, "make, it.", "[unused1]", None)
    kept = [i for i, id in enumerate(ids) if colbert.model.tokenizer.decode([id]) not in string.punctuation]
    assert len(kept) == len(ids) - 2
    assert np.allclose(document, expected[kept], atol=1e-5)


def test_late_interaction_with_a_colbert_checkpoint_equals_the_naive_loop(colbert: MultiVector) -> None:
    found = Late(colbert).fit(CATALOG).search(QUERIES[:5], 20)
    queries = colbert.model.encode_query([q.text for q in QUERIES[:5]], convert_to_numpy=True)
    documents = colbert.model.encode_document(list(CATALOG.documents), convert_to_numpy=True)
    expected = naive(queries, documents)
    assert np.allclose(found.scores, np.take_along_axis(expected, found.indices, axis=1), atol=1e-4)
    assert np.allclose(found.scores[:, 0], expected.max(axis=1), atol=1e-4)


def test_templates_and_instructions_stand_before_the_models_own_markers(colbert: MultiVector) -> None:
    place = str(colbert.source.path)
    told = MultiVector(source="path", path=place, use_instruction=True, document_template="tool {document}")
    query = Query("q", "find", {"t": 1}, instruction="be exact")
    expected, _ = by_hand(colbert, "be exact find", "[unused0]", 24)
    assert np.allclose(TokenEncoder(told).queries([query]).vectors, expected, atol=1e-5)
    expected, _ = by_hand(colbert, "tool x", "[unused1]", None)
    assert np.allclose(ragged(TokenEncoder(told), ["x"])[0], expected, atol=1e-5)


def test_documents_are_cut_at_the_models_limit_or_a_shorter_one(colbert: MultiVector) -> None:
    text = "abcdefghij" * 9
    assert TokenEncoder(colbert).documents([text]).lengths.tolist() == [40]
    short = MultiVector(source="path", path=str(colbert.source.path), max_length=12)
    assert TokenEncoder(short).documents([text]).lengths.tolist() == [12]
    assert TokenEncoder(short).queries([Query("q", text, {})]).lengths.tolist() == [24]
    endless = MultiVector(source="path", path=str(colbert.source.path), max_length=100_000)
    positions = endless.model[0].model.config.max_position_embeddings
    assert TokenEncoder(endless).documents(["abcdefghij" * 9 * 20]).lengths.max() <= positions
    assert colbert.model[0].document_length == 40


def test_fingerprints_tell_settings_and_weights_apart(colbert: MultiVector, tmp_path: Path) -> None:
    same = MultiVector(source="path", path=str(tiny_colbert(tmp_path / "same")))
    marked = MultiVector(source="path", path=str(tiny_colbert(tmp_path / "marked", {"query_token_id": "[unused1]"})))
    longer = MultiVector(source="path", path=str(tiny_colbert(tmp_path / "longer", {"query_maxlen": 30})))
    assert same.fingerprint() == colbert.fingerprint()
    assert len({encoder.fingerprint() for encoder in (colbert, marked, longer)}) == 3


def test_what_the_library_saves_is_read_back(colbert: MultiVector, tmp_path: Path) -> None:
    colbert.model.save_pretrained(str(tmp_path / "saved"))
    saved = MultiVector(source="path", path=str(tmp_path / "saved"))
    ours, theirs = (TokenEncoder(e).documents(["make, it."]).vectors for e in (saved, colbert))
    assert np.allclose(ours, theirs, atol=1e-6)


def test_one_vector_per_text_is_refused_with_the_right_retriever(colbert: MultiVector) -> None:
    with pytest.raises(UserError, match="one vector per token") as caught:
        Dense(colbert).fit(CATALOG)
    assert "retriever=late" in caught.value.fix


def test_a_checkpoint_without_a_trained_projection_is_refused(toy: Encoder, tmp_path: Path) -> None:
    toy.model.save_pretrained(str(tmp_path / "bi"))
    for folder in (tmp_path / "bi", tiny_colbert(tmp_path / "bert", architecture="BertModel")):
        with pytest.raises(UserError, match="no trained projection") as caught:
            Late(MultiVector(source="path", path=str(folder))).fit(CATALOG)
        assert str(folder) in caught.value.where and "retriever=late" in caught.value.fix


def test_a_folder_that_is_not_there_and_one_that_is_damaged(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        _ = MultiVector(source="path", path=str(tmp_path / "none")).model
    folder = tiny_colbert(tmp_path / "damaged")
    (folder / "config.json").write_text("{")
    with pytest.raises(UserError, match="can't be loaded") as caught:
        _ = MultiVector(source="path", path=str(folder)).model
    assert str(folder) in caught.value.where and caught.value.fix
    with pytest.raises(UserError) as caught:
        MultiVector(source="wheel")
    assert caught.value.where == "encoder.source"
