"""The encoders of the menu: right ids and templates, and on tiny random models of the same architecture right vectors.

Weights can't be had here, so the models are random: BERT, T5, Mistral and Qwen2 of two layers. GTE v1.5 and NV-Embed
are architectures of their own; BERT and Mistral stand in for them, which proves pooling, template and end of sequence.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from toolsavvy.catalog import Query
from toolsavvy.config.compose import compose, typed
from toolsavvy.config.places import conf_dir, groups
from toolsavvy.errors import UserError
from toolsavvy.retrieval.encoder_models import append_eos
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.multivector import MultiVector

TEXT, TOLD = "resize an image", "Given a request, find the tool"
ASKED = Query("q", TEXT, {"t": 1}, instruction=TOLD)
DOCUMENTS = ["crop", "rotate an image by degrees", "x" * 60, "a tool that does a great many things to pictures"]
FAMILY = {
    "bge_base": "bert", "bge_large": "bert", "e5_small": "bert", "e5_base": "bert", "e5_large": "bert",
    "gte_base": "bert", "gte_large": "bert", "contriever": "bert", "colt": "bert", "gtr_base": "t5", "gtr_large": "t5",
    "gte_qwen2_1_5b": "qwen2", "e5_mistral_7b": "mistral", "nv_embed_v1": "mistral", "gritlm_7b": "mistral",
}  # fmt: skip
POOLING = {"bge": "cls", "gte_base": "cls", "gte_large": "cls", "gte_qwen2": "last", "e5_mistral": "last"}
IDS = {
    "bge_base": "BAAI/bge-base-en-v1.5", "bge_large": "BAAI/bge-large-en-v1.5", "e5_small": "intfloat/e5-small-v2",
    "e5_base": "intfloat/e5-base-v2", "e5_large": "intfloat/e5-large-v2", "gte_base": "Alibaba-NLP/gte-base-en-v1.5",
    "gte_large": "Alibaba-NLP/gte-large-en-v1.5", "gtr_base": "sentence-transformers/gtr-t5-base",
    "gtr_large": "sentence-transformers/gtr-t5-large", "contriever": "facebook/contriever-msmarco",
    "colt": "Tool-COLT/contriever-base-msmarco-v1-ToolBenchG3", "gritlm_7b": "GritLM/GritLM-7B",
    "gte_qwen2_1_5b": "Alibaba-NLP/gte-Qwen2-1.5B-instruct", "e5_mistral_7b": "intfloat/e5-mistral-7b-instruct",
    "nv_embed_v1": "nvidia/NV-Embed-v1", "colbertv2": "colbert-ir/colbertv2.0",
}  # fmt: skip


def options(name: str) -> dict[str, Any]:
    return yaml.safe_load((conf_dir() / "encoder" / f"{name}.yaml").read_text(encoding="utf-8"))


def built(name: str, **changes: Any) -> Encoder:
    node = options(name)
    module, _, kind = node.pop("_target_").rpartition(".")
    return getattr(importlib.import_module(module), kind)(**{**node, **changes})


def expected_queries(name: str) -> tuple[str, str]:
    """Without and with an instruction, as the TOOLRET study writes them; without one, the query alone."""
    if name == "gritlm_7b":  # the marker is the model's switch between its modes, not an instruction
        return f"<|embed|>\n{TEXT}", f"<|user|>\n{TOLD}\n<|embed|>\n{TEXT}"
    if name == "colbertv2":
        return TEXT, f"{TOLD} {TEXT}"
    is_e5 = name in ("e5_small", "e5_base", "e5_large")
    return TEXT, f"Instruct: {TOLD}\n{'query' if is_e5 else 'Query'}: {TEXT}"


@pytest.mark.parametrize("name", groups()["encoder"])
def test_templates_render_as_the_study_writes_them(name: str) -> None:
    without, told = expected_queries(name)
    off, on = built(name), built(name, use_instruction=True)
    assert off.query_text(ASKED) == without == on.query_text(Query("q", TEXT, {"t": 1}, instruction=""))
    assert on.query_text(ASKED) == told
    document = off.document_template.format(document="doc {0}")
    assert document == ("<|embed|>\ndoc {0}" if name == "gritlm_7b" else "doc {0}")
    assert not options(name)["use_instruction"] and not options(name).get("trust_remote_code", False)


@pytest.mark.parametrize("name", sorted(IDS))
def test_ids_lengths_and_normalisation(name: str) -> None:
    node = options(name)
    assert node["id"] == IDS[name] and node["revision"] is None
    if name != "colbertv2":
        assert node["normalize"] == (not name.startswith(("gtr", "contriever")))
    assert node["max_length"] in (None, 512, 2048)
    head = [line for line in (conf_dir() / "encoder" / f"{name}.yaml").read_text().splitlines() if line[0] == "#"]
    said = " ".join(head)
    assert (
        "hub" in said
        and any(word in said for word in ("MIT", "Apache-2.0", "CC-BY-NC", "licence"))
        and re.search(r"\d[MB]\b", said)
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def get(family: str) -> Path:
        if family not in made:
            made[family] = tmp_path_factory.mktemp(family)
            random_model(family, made[family])
        return made[family]

    return get


def random_model(family: str, folder: Path) -> None:
    """A plain transformers repository, as the hub has it: no modules of sentence-transformers."""
    import transformers as tf

    torch.manual_seed(0)
    tokenizer = byte_tokenizer(family)
    shape = {"vocab_size": len(tokenizer), "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    wide = {"intermediate_size": 48, "initializer_range": 0.4, "max_position_embeddings": 96}
    decoder = {**shape, **wide, "max_position_embeddings": 4096, "num_key_value_heads": 2}
    if family == "bert":
        model: Any = tf.BertModel(tf.BertConfig(**shape, **wide))
    elif family == "t5":
        size = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
        model = tf.T5Model(tf.T5Config(vocab_size=len(tokenizer), **size, decoder_start_token_id=0, pad_token_id=0))
    elif family == "qwen2":  # its config says what its code never looked at
        model = tf.Qwen2Model(tf.Qwen2Config(**decoder, is_causal=False))
    else:
        model = tf.MistralModel(tf.MistralConfig(**decoder))
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def byte_tokenizer(family: str) -> Any:
    """Bytes as tokens, with the special tokens around a text that the family has; chat template and all."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = {
        "bert": {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"},
        "t5": {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"},
        "mistral": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
        "qwen2": {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "unk_token": "<|unk|>"},
    }[family]
    around = {"bert": "[CLS] $A [SEP]", "t5": "$A </s>", "mistral": "<s> $A", "qwen2": "$A"}[family]
    words = [*dict.fromkeys(special.values()), *sorted(pre_tokenizers.ByteLevel.alphabet())]
    core = Tokenizer(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    known = [(word, i) for i, word in enumerate(words) if word in around.split()]
    core.post_processor = processors.TemplateProcessing(single=around, special_tokens=known)
    chat = "{% for m in messages %}<|user|>{{ m.content }}{% endfor %}" if family in ("mistral", "qwen2") else None
    return PreTrainedTokenizerFast(tokenizer_object=core, chat_template=chat, **special)


def tiny(name: str, folder: Callable[[str], Path], **changes: Any) -> Encoder:
    local = {"source": "path", "path": str(folder(FAMILY[name])), "dtype": "float32", "cache": False, "device": "cpu"}
    return built(name, **{**local, **changes})


@torch.inference_mode()
def naive(name: str, path: Path, texts: Sequence[str], left_out: Sequence[str], limit: int = 4096) -> np.ndarray:
    """Each text by itself, without padding, pooled by hand."""
    import transformers as tf

    family, tokenizer = FAMILY[name], tf.AutoTokenizer.from_pretrained(path)
    model: Any = tf.T5EncoderModel.from_pretrained(path) if family == "t5" else tf.AutoModel.from_pretrained(path)
    model.eval()
    if family == "qwen2":
        model.config.is_causal = True
    vectors = []
    for text, start in zip(texts, left_out, strict=True):
        ends = family in ("mistral", "qwen2") and name != "gritlm_7b"
        ids = tokenizer(text)["input_ids"][: limit - ends] + [tokenizer.eos_token_id] * ends
        inputs = {"input_ids": torch.tensor([ids])}
        if name == "gritlm_7b":  # nothing is masked, so that everything sees everything
            inputs["attention_mask"] = torch.zeros(1, 1, len(ids), len(ids))
        states = model(**inputs).last_hidden_state[0]
        how = next((how for start_of, how in POOLING.items() if name.startswith(start_of)), "mean")
        skipped = len(tokenizer(start)["input_ids"]) if start else 0
        vector = {"cls": states[0], "last": states[-1], "mean": states[skipped:].mean(0)}[how]
        is_scaled = not name.startswith(("gtr", "contriever"))
        vectors.append((vector / vector.norm() if is_scaled else vector).numpy())
    return np.array(vectors)


def prompts(name: str) -> tuple[str, str, str]:
    """What is left out of the mean: of a plain query, a query with an instruction, a document."""
    if name == "gritlm_7b":
        return "<|embed|>\n", f"<|user|>\n{TOLD}\n<|embed|>\n", "<|embed|>\n"
    return ("", f"Instruct: {TOLD}\nQuery: ", "") if name == "nv_embed_v1" else ("", "", "")


@pytest.mark.parametrize("name", sorted(FAMILY))
def test_vectors_equal_a_naive_computation_alone_and_in_a_batch(name: str, folder: Callable[[str], Path]) -> None:
    path, (plain, told), starts = folder(FAMILY[name]), expected_queries(name), prompts(name)
    encoder = tiny(name, folder, use_instruction=True)
    both = [Query("a", TEXT, {"t": 1}), ASKED]
    vectors = encoder.encode_queries(both)
    np.testing.assert_allclose(vectors, naive(name, path, [plain, told], starts[:2]), atol=2e-5)
    assert not np.allclose(vectors[0], vectors[1], atol=1e-3)
    texts = [encoder.document_template.format(document=d) for d in DOCUMENTS]
    together = encoder.encode_documents(DOCUMENTS)
    np.testing.assert_allclose(together, naive(name, path, texts, [starts[2]] * len(texts)), atol=2e-5)
    alone = np.concatenate([encoder.encode_documents([d]) for d in DOCUMENTS])
    np.testing.assert_allclose(alone, together, atol=2e-5)


@pytest.mark.parametrize("name", ["e5_mistral_7b", "gte_qwen2_1_5b", "nv_embed_v1"])
def test_a_cut_text_still_ends_with_the_end_of_sequence(name: str, folder: Callable[[str], Path]) -> None:
    encoder = tiny(name, folder, max_length=9)
    tokenizer: Any = encoder.model.tokenizer
    ids = tokenizer(DOCUMENTS[-1], truncation=True, max_length=9)["input_ids"]
    assert len(ids) == 9 and ids[-1] == tokenizer.eos_token_id and ids.count(tokenizer.eos_token_id) == 1
    cut = naive(name, folder(FAMILY[name]), [DOCUMENTS[-1]], [""], limit=9)
    np.testing.assert_allclose(encoder.encode_documents([DOCUMENTS[-1], "x"])[:1], cut, atol=2e-5)
    append_eos(tokenizer)  # a second time changes nothing
    assert tokenizer("ab")["input_ids"].count(tokenizer.eos_token_id) == 1


def test_sight_both_ways_is_not_the_same_as_causal(folder: Callable[[str], Path]) -> None:
    both, causal = tiny("gritlm_7b", folder), tiny("gritlm_7b", folder, bidirectional=False)
    assert not np.allclose(both.encode_documents(DOCUMENTS), causal.encode_documents(DOCUMENTS), atol=1e-3)


def test_what_a_shape_cannot_be_is_told() -> None:
    with pytest.raises(UserError) as wrong:
        Encoder(pooling="last")
    assert wrong.value.where == "encoder.pooling" and "lasttoken" in f"{wrong.value.expected}{wrong.value.fix}"
    with pytest.raises(UserError) as missing:
        Encoder(append_eos=True, seed=77).encode(["a"])
    assert missing.value.where == "encoder.append_eos" and "end-of-sequence" in missing.value.what


def test_a_model_that_needs_its_own_code_says_so(folder: Callable[[str], Path], tmp_path: Path) -> None:
    config = {"model_type": "new", "architectures": ["NewModel"], "auto_map": {"AutoConfig": "configuration.NewConfig"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError) as caught:
        built("gte_base", source="path", path=str(tmp_path), cache=False).encode(["a"])
    assert "encoder.trust_remote_code=true" in caught.value.fix


def test_late_interaction_has_a_class_of_its_own() -> None:
    assert isinstance(built("colbertv2"), MultiVector)


@pytest.mark.parametrize(("name", "pooled"), [("minilm", True), ("gritlm_7b", False)])
def test_a_tuned_copy_pools_as_its_encoder_does(name: str, pooled: bool) -> None:
    asked = ["method=evaluate", "catalog=toy", f"encoder={name}", "retriever=tuned", "retriever.tuned.encoder.path=x"]
    assert typed(compose(asked).config).retriever["tuned"]["encoder"]["pool_prompt"] is pooled
