from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toolsavvy.catalog import Catalog, Query, Tool
from toolsavvy.checksums import save_array
from toolsavvy.config.compose import build, compose, typed
from toolsavvy.errors import UserError
from toolsavvy.retrieval.bm25 import BM25
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking, Reporting, Retriever
from toolsavvy.retrieval.rerank import PairReranker, Rerank
from toolsavvy.retrieval.scorers import CrossEncoderScorer, Reading, WordScorer, load_scorer
from world import toy_set, toy_tokenizer

DOCUMENTS = [
    "lists the open tickets",
    "sends a message to a person",
    "books a flight",
    "lists",
    "lists the open tickets",
]
QUERIES = [Query("1", "which tickets are open", {"a": 1}), Query("2", "write to Ann", {"b": 1})]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


# --- the retriever --------------------------------------------------------------------------------------------------


class Fixed:
    """A first stage that says what it was given, cut or padded to the depth that is asked."""

    def __init__(self, indices: Sequence[Sequence[int]], scores: Sequence[Sequence[float]]) -> None:
        self.indices, self.scores = np.array(indices, dtype=np.int64), np.array(scores, dtype=np.float64)
        self.asked: list[int] = []

    def fit(self, catalog: Catalog, train: Sequence[Query] = ()) -> Fixed:
        return self

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        self.asked.append(k)
        wide = max(0, k - self.indices.shape[1])
        self.indices, self.scores = self.indices[: len(queries)], self.scores[: len(queries)]
        indices = np.pad(self.indices, ((0, 0), (0, wide)), constant_values=NO_TOOL)
        scores = np.pad(self.scores, ((0, 0), (0, wide)), constant_values=-np.inf)
        return Ranking(indices[:, :k], scores[:, :k])


class ByText:
    """A reranker that looks its scores up."""

    def __init__(self, scores: dict[str, float], window: int | None = None) -> None:
        self.scores, self.window = scores, window
        self.seen: list[list[str]] = []

    def rerank(self, queries: Sequence[Query], documents: Sequence[Sequence[str]]) -> list[np.ndarray]:
        self.seen += [list(d) for d in documents]
        return [np.array([self.scores[d] for d in row]) for row in documents]

    def facts(self) -> dict[str, float]:
        return {"pairs": 3.0}


def letters(count: int) -> Catalog:
    return Catalog("letters", tuple(Tool("abcdefgh"[i], f"{i}") for i in range(count)), document="{name}")


def test_the_pool_is_reordered_and_the_rest_follows_below_it() -> None:
    first = Fixed([[3, 0, 4, 1, 2, 5]], [[9.0, 8.0, 7.0, 3.0, 3.0, 1.0]])
    ranker = Rerank(first, ByText({"3": -4.0, "0": 2.5, "4": -1.0}), depth=3).fit(letters(8))
    found = ranker.search([Query("q", "x", {})], 6)
    assert first.asked == [6]
    assert found.indices.tolist() == [[0, 4, 3, 1, 2, 5]]
    assert found.scores.tolist() == [[2.5, -1.0, -4.0, -5.0, -5.0, -7.0]]


def test_ties_of_the_reranker_follow_the_common_rule() -> None:
    first = Fixed([[0, 1, 2]], [[3.0, 2.0, 1.0]])
    ranker = Rerank(first, ByText({"0": 1.0, "1": 1.0, "2": 1.0}), depth=3).fit(letters(3))
    assert ranker.search([Query("q", "x", {})], 3).indices.tolist() == [[2, 1, 0]]


def test_a_shallow_first_stage_and_empty_ranks_are_padded_at_the_end() -> None:
    first = Fixed([[NO_TOOL, 1, NO_TOOL, 0], [NO_TOOL] * 4], [[4.0, 3.0, 2.0, 1.0], [-np.inf] * 4])
    reranker = ByText({"0": 1.0, "1": 0.0})
    found = Rerank(first, reranker, depth=100).fit(letters(6)).search([Query("q", "x", {}), Query("r", "y", {})], 5)
    assert first.asked == [6]
    assert reranker.seen == [["1", "0"], []]
    assert found.indices.tolist() == [[0, 1, NO_TOOL, NO_TOOL, NO_TOOL], [NO_TOOL] * 5]
    assert np.isneginf(found.scores[found.indices == NO_TOOL]).all()


def test_depth_may_be_larger_than_what_is_asked() -> None:
    first = Fixed([[0, 1, 2, 3]], [[4.0, 3.0, 2.0, 1.0]])
    scores = {"0": 0.0, "1": 1.0, "2": 2.0, "3": 3.0}
    found = Rerank(first, ByText(scores), depth=4).fit(letters(4)).search([Query("q", "x", {})], 2)
    assert found.indices.tolist() == [[3, 2]]
    assert Rerank(first, ByText(scores), depth=4).fit(letters(4)).search([], 2).indices.shape == (0, 2)


def test_it_is_a_retriever_that_tells_what_its_parts_tell() -> None:
    ranker = Rerank(BM25(), ByText({}))
    assert isinstance(ranker, Retriever)
    assert isinstance(ranker, Reporting)
    assert ranker.facts()["pairs"] == 3.0


def test_a_window_larger_than_the_pool_is_refused_with_both_numbers() -> None:
    with pytest.raises(UserError, match=r"window of 20 is larger than the pool of 10 .*depth=10") as caught:
        Rerank(BM25(), ByText({}, window=20), depth=10)
    assert "window" in caught.value.where
    assert "window=10" in caught.value.fix
    with pytest.raises(UserError, match=r"window of 20 is larger than the pool of 8 .*catalog has 8 tools"):
        Rerank(BM25(), ByText({}, window=20), depth=100).fit(letters(8))


def test_depth_nan_and_wrong_counts_are_refused() -> None:
    with pytest.raises(UserError, match="out of range"):
        Rerank(BM25(), ByText({}), depth=0)
    first = Fixed([[0, 1]], [[2.0, 1.0]])
    with pytest.raises(UserError, match="query 'q' is NaN") as caught:
        Rerank(first, ByText({"0": float("nan"), "1": 1.0}), depth=2).fit(letters(2)).search([Query("q", "x", {})], 2)
    assert caught.value.fix


# --- models ---------------------------------------------------------------------------------------------------------


def naive_bert(folder: Path, query: str, document: str) -> np.ndarray:
    """Logits of one pair, by transformers alone."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        return model(**AutoTokenizer.from_pretrained(folder)(query, document, return_tensors="pt")).logits[0].numpy()


def bert_folder(folder: Path, labels: int) -> Path:
    """A tiny random BERT classifier as a hub repository would hold it."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    words = sorted({w for text in [*DOCUMENTS, *(q.text for q in QUERIES)] for w in text.lower().split()})
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "instruct", "query", ":", "find", *words]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    BertTokenizer(vocab=str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64, initializer_range=0.3,
    )  # fmt: skip
    config.num_labels = labels
    torch.manual_seed(0)
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("labels", [1, 2])
def test_a_cross_encoder_gives_raw_logits_and_knows_instructions(labels: int, tmp_path: Path) -> None:
    folder = bert_folder(tmp_path / "bert", labels)
    asked = [*QUERIES, Query("3", "write to Ann", {}, instruction="find")]
    reranker = PairReranker(source="path", path=str(folder), batch_size=2, use_instruction=True)
    scores = reranker.rerank(asked, [DOCUMENTS] * 3)
    texts = [QUERIES[0].text, QUERIES[1].text, "Instruct: find\nQuery: write to Ann"]
    for text, row in zip(texts, scores, strict=True):
        wanted = [naive_bert(folder, text, d) for d in DOCUMENTS]
        logits = [w[0] if labels == 1 else w[1] - w[0] for w in wanted]
        np.testing.assert_allclose(row, logits, atol=1e-5)
        assert row[0] == row[4], "tools with one document tie exactly"
    assert not np.allclose(scores[1], scores[2])
    assert reranker.facts() == {"pairs": 12.0}


def test_a_head_with_three_labels_is_no_reranker(tmp_path: Path) -> None:
    reranker = PairReranker(source="path", path=str(bert_folder(tmp_path / "bert", 3)))
    with pytest.raises(UserError, match="3 labels"):
        reranker.rerank(QUERIES, [DOCUMENTS] * 2)


def test_a_pair_is_cut_to_the_length_that_is_asked(tmp_path: Path) -> None:
    folder = str(bert_folder(tmp_path / "bert", 1))
    long = PairReranker(source="path", path=folder, max_length=8)
    short, whole = long.rerank(QUERIES[:1], [[" ".join(DOCUMENTS), DOCUMENTS[0] + " a a a a a a"]])[0]
    assert short == whole, "both start with the same words"
    assert long.scorer.model.max_seq_length == 64, "the model is left as it was"  # type: ignore[attr-defined]


def test_scores_are_kept_for_the_same_weights_alone(tmp_path: Path, own_cache: Path) -> None:
    folder = bert_folder(tmp_path / "bert", 1)
    reranker = PairReranker(source="path", path=str(folder), cache=True)
    first = reranker.rerank(QUERIES, [DOCUMENTS] * 2)
    (file,) = own_cache.rglob("*.npy")
    kept = np.load(file)
    save_array(file, kept + 1)  # so that a hit shows
    again = PairReranker(source="path", path=str(folder), cache=True).rerank(QUERIES, [DOCUMENTS] * 2)
    np.testing.assert_allclose(again[0], first[0] + 1, atol=1e-6)
    file.write_bytes(b"\x93NUMPY torn")
    assert np.array_equal(reranker.rerank(QUERIES, [DOCUMENTS] * 2)[0], first[0])
    reranker.rerank(QUERIES, [DOCUMENTS[:3]] * 2)
    other = PairReranker(source="path", path=str(bert_folder(tmp_path / "other", 2)), cache=True)
    other.rerank(QUERIES, [DOCUMENTS] * 2)
    assert len(list(own_cache.rglob("*.npy"))) == 3


def t5(tmp_path: Path) -> Path:
    """A tiny random T5 with a unigram vocabulary, as monoT5 has."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    letters = [chr(c) for c in range(33, 127)]
    words = ["▁Query", "▁Document", "▁Relevant", "▁true", "▁false", "▁lists", "▁the", "▁tickets", "▁open"]
    vocabulary = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -6.0)]
    vocabulary += [(w, -3.0) for w in words] + [(c, -8.0) for c in letters]
    core = Tokenizer(models.Unigram(vocabulary, unk_id=2))
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.add_special_tokens(["<pad>", "</s>", "<unk>"])
    core.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    folder = tmp_path / "t5"
    PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(vocabulary), d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0,
        initializer_factor=3.0,
    )  # fmt: skip
    T5ForConditionalGeneration(config).save_pretrained(folder)
    return folder


def option(name: str) -> dict[str, Any]:
    """Settings of an option, its model replaced by a folder."""
    return dict(typed(compose(["method=doctor", f"reranker={name}"]).config).reranker)


def test_monot5_reads_true_against_false_after_its_prompt(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    folder = t5(tmp_path)
    reranker = build(option("monot5") | {"source": "path", "path": str(folder), "batch_size": 2, "cache": False})
    scores = reranker.rerank(QUERIES, [DOCUMENTS] * 2)
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    true, false = tokenizer.convert_tokens_to_ids(["▁true", "▁false"])
    for query, row in zip(QUERIES, scores, strict=True):
        for document, score in zip(DOCUMENTS, row, strict=True):
            inputs = tokenizer(f"Query: {query.text} Document: {document} Relevant:", return_tensors="pt")
            with torch.no_grad():
                logits = model(**inputs, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
            assert abs(float(logits[true] - logits[false]) - score) < 1e-4
    assert np.ptp(scores[0]) > 1e-3


def test_what_is_too_long_loses_the_end_of_the_document_and_never_the_prompts(tmp_path: Path) -> None:
    folder = t5(tmp_path)
    reading = Reading("Query: {query} Document: {document} Relevant:", "▁true", "▁false")
    weights = PairReranker("seq2seq", "path", path=str(folder), prompt=reading.prompt, positive="▁true").weights
    scorer: Any = load_scorer(weights, reading)
    ids = scorer.prompt(("open " * 3, "lists " * 500), 40)
    text = scorer.model and scorer._text._core.decode(ids, skip_special_tokens=False)
    assert len(ids) == 40
    assert ids[-1] == 1
    assert text.startswith("▁Query : ▁open")
    assert text.removesuffix(" </s>").endswith("▁lists ▁Relevant :")
    huge = scorer.prompt(("open " * 500, "lists " * 500), 40)
    assert len(huge) == 40
    with pytest.raises(UserError, match="leaves none") as caught:
        scorer.prompt(("open", "lists"), 4)
    assert caught.value.where == "reranker.max_length" and "at least" in caught.value.expected
    sly = scorer.prompt(("</s> open", "</s>"), 40)
    assert sly.count(1) == 1


def test_gemma_is_read_at_yes_after_bges_prompt(tmp_path: Path) -> None:
    import torch
    from transformers import GemmaConfig, GemmaForCausalLM

    settings = option("bge_v2_gemma")
    tokenizer = toy_tokenizer([*DOCUMENTS, *["Yes or No"] * 20], 400)
    assert tokenizer("Yes").input_ids == [tokenizer.get_vocab()["Yes"]]
    torch.manual_seed(0)
    config = GemmaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, initializer_range=0.3, bos_token_id=0, eos_token_id=1, pad_token_id=1,
    )  # fmt: skip
    model = GemmaForCausalLM(config).eval()
    model.save_pretrained(tmp_path / "gemma")
    tokenizer.save_pretrained(tmp_path / "gemma")
    changed = {"source": "path", "path": str(tmp_path / "gemma"), "dtype": "float32", "batch_size": 3, "cache": False}
    scores = build(settings | changed).rerank(QUERIES, [DOCUMENTS] * 2)

    def ids(text: str) -> list[int]:
        return tokenizer(text, add_special_tokens=False).input_ids

    asks = settings["prompt"].rpartition("\n")[2]
    assert asks.startswith("Given a query A and a passage B")
    for query, row in zip(QUERIES, scores, strict=True):
        for document, score in zip(DOCUMENTS, row, strict=True):
            line = ids("\n")
            prompt = [0, *ids(f"A: {query.text}"), *line, *ids(f"B: {document}"), *line, *ids(asks)]
            with torch.no_grad():
                logit = model(torch.tensor([prompt])).logits[0, -1, tokenizer.get_vocab()["Yes"]]
            assert abs(float(logit) - score) < 1e-3


CAUSAL = {"kind": "causal", "source": "path", "path": "x"}


def test_a_word_that_the_vocabulary_lacks_is_refused() -> None:
    from world import toy_lm

    tokenizer = toy_tokenizer(DOCUMENTS)
    with pytest.raises(UserError, match="'Absolutely' is not one token"):
        WordScorer(toy_lm(tokenizer), tokenizer, Reading("{query} {document}", "Absolutely"), seq2seq=False)


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"kind": "croos_encoder"}, "reranker.kind"),
        ({"source": "hub"}, "reranker.id"),
        ({"source": "path"}, "reranker.path"),
        ({"dtype": "float8"}, "reranker.dtype"),
        ({"kind": "causal"}, "reranker.kind"),
        ({"kind": "causal", "source": "path", "path": "x", "prompt": "{query}"}, "reranker.prompt"),
        (
            {"kind": "causal", "source": "path", "path": "x", "prompt": "{document} {query}", "positive": "x"},
            "reranker.prompt",
        ),
        ({"batch_size": 0}, "reranker.batch_size"),
        ({"max_length": 0}, "reranker.max_length"),
        ({"plain_template": "{qury}"}, "reranker.plain_template"),
        ({"document_template": "text"}, "reranker.document_template"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_anything_is_loaded(settings: dict[str, Any], where: str) -> None:
    with pytest.raises(UserError) as caught:
        PairReranker(**settings)
    assert caught.value.where == where
    assert caught.value.expected


def test_a_model_that_is_not_there_is_told_with_its_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="holds no model"):
        PairReranker(source="path", path=str(tmp_path)).rerank(QUERIES[:1], [DOCUMENTS])
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("transformers.utils.hub._is_offline_mode", True, raising=False)

    def needs_code(*args: Any, **kwargs: Any) -> Any:
        raise ValueError("The repository contains custom code. Please pass the argument `trust_remote_code=True`.")

    monkeypatch.setattr("sentence_transformers.CrossEncoder", needs_code)
    with pytest.raises(UserError, match="can't be loaded") as caught:
        PairReranker(source="hub", id="someone/model").rerank(QUERIES[:1], [DOCUMENTS])
    assert "reranker.trust_remote_code=true" in caught.value.fix


def test_the_toy_ranks_a_toy_catalog_and_is_seeded() -> None:
    data = toy_set()
    reranker = build(typed(compose(["method=doctor", "reranker=toy"]).config).reranker)
    assert isinstance(reranker.scorer, CrossEncoderScorer)
    found = [Rerank(BM25(), r, depth=5).fit(data.catalog).search(data.train[:4], 5) for r in (reranker, reranker)]
    assert np.array_equal(found[0].scores, found[1].scores)
    assert len(np.unique(found[0].scores)) > 4


def test_the_options_build_a_reranker_over_a_first_stage() -> None:
    config = typed(compose(["method=evaluate", "catalog=toy", "retriever=[rerank]", "reranker=toy"]).config)
    ranker = build(config.retriever["rerank"])
    assert isinstance(ranker.first, BM25)
    assert (ranker.depth, ranker.reranker.weights.source) == (100, "toy")
    other = ["retriever=[dense,rerank]", "retriever.rerank.first=${retriever.dense}", "encoder=toy"]
    config = typed(compose(["method=evaluate", "catalog=toy", *other]).config)
    assert type(build(config.retriever["rerank"]).first).__name__ == "Dense"
