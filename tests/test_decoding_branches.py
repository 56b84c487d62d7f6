"""Answers that share a prompt's keys and values: the logits of plain attention, and a way back where they are not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tiny_models import random_prompts, tiny
from toolsavvy.decoding.branches import NAME, Branches, can_branch
from toolsavvy.decoding.prefill import Decoder

VOCABULARY = 97
FAMILIES = {family: tiny(family, VOCABULARY) for family in ("llama", "gpt_neox", "qwen2")}


@settings(max_examples=25, deadline=None)
@given(family=st.sampled_from(sorted(FAMILIES)), data=st.data())
def test_logits_are_those_of_plain_attention_whatever_rows_stay(family: str, data: st.DataObject) -> None:
    prompts = random_prompts(5, VOCABULARY, data.draw(st.integers(0, 99)), longest=12)
    owners = torch.tensor(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=9)))
    with torch.inference_mode():
        decoder = Decoder(FAMILIES[family], prompts)
        before = [layer.keys.clone() for layer in decoder.cache.layers]
        plain, shared = decoder.chosen(owners), Branches(decoder, owners)
        for step in range(data.draw(st.integers(1, 20))):
            torch.testing.assert_close(shared.logits, plain.logits, atol=1e-4, rtol=1e-4)
            tokens = torch.arange(len(plain.logits)) * 7 % VOCABULARY + step % 3
            if step % 4 == 3 and len(tokens) > 1:
                rows = torch.tensor(sorted(data.draw(st.sets(st.integers(0, len(tokens) - 1), min_size=1))))
                plain.keep(rows)
                shared.keep(rows)
                tokens = tokens[rows]
            plain.follow(tokens)
            shared.follow(tokens)
        assert all(torch.equal(a, layer.keys) for a, layer in zip(before, decoder.cache.layers, strict=True))


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_families_with_plain_attention_can_and_keep_their_own_kernel(family: str, kernel: str) -> None:
    model = tiny(family, VOCABULARY)
    model.set_attn_implementation(kernel)
    with torch.inference_mode():
        assert can_branch(Decoder(model, random_prompts(3, VOCABULARY)))
    assert model.config._attn_implementation == kernel
    with torch.inference_mode():
        assert can_branch(Decoder(model.bfloat16(), random_prompts(3, VOCABULARY)))


def test_attention_that_comes_out_otherwise_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Branches.attend
    monkeypatch.setattr(Branches, "attend", lambda *args: 0.9 * real(*args))
    with torch.inference_mode():
        assert not can_branch(Decoder(FAMILIES["llama"], random_prompts(3, VOCABULARY)))


def test_layers_that_ask_for_more_are_left_alone() -> None:
    """Gemma 2 caps its scores and has sliding windows; with full attention alone the cap is what is in the way."""
    from transformers import Gemma2Config, Gemma2ForCausalLM

    torch.manual_seed(0)
    shape: dict[str, Any] = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "head_dim": 8}
    shape |= {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "initializer_range": 0.4}
    config = Gemma2Config(**shape, layer_types=["full_attention"] * 2, attn_logit_softcapping=2.0)
    config._attn_implementation = "eager"
    model = Gemma2ForCausalLM(config).eval()
    with torch.inference_mode():
        decoder = Decoder(model, random_prompts(3, VOCABULARY))
        assert decoder.is_plain
        assert not can_branch(decoder)
    assert model.config._attn_implementation == "eager"


def test_a_cache_of_something_else_than_keys_and_values_is_left_alone() -> None:
    """DeepSeek keeps compressed states, of other shapes than what its attention layers compare."""
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

    torch.manual_seed(0)
    shape: dict[str, Any] = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "v_head_dim": 6}
    shape |= {"num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 48, "first_k_dense_replace": 2}
    ranks = {"q_lora_rank": 16, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8}
    model = DeepseekV3ForCausalLM(DeepseekV3Config(**shape, **ranks)).eval()
    kernel = model.config._attn_implementation
    with torch.inference_mode():
        assert not can_branch(Decoder(model, random_prompts(3, VOCABULARY)))
    assert model.config._attn_implementation == kernel


def test_a_lack_of_memory_is_not_taken_for_a_family_that_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise torch.OutOfMemoryError("out of memory (pretended)")

    with torch.inference_mode():
        decoder = Decoder(FAMILIES["llama"], random_prompts(3, VOCABULARY))
        monkeypatch.setattr(Branches, "attend", full)
        with pytest.raises(torch.OutOfMemoryError):
            can_branch(decoder)
    assert FAMILIES["llama"].config._attn_implementation != NAME, "its own attention is back"
