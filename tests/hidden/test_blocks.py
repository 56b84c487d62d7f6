from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tiny_models import tiny
from toolsavvy.errors import UserError
from toolsavvy.hidden.blocks import backbone, blocks, embeddings
from toolsavvy.models.loading import toy_model

SHAPE = {
    "vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
GROUPED = {"num_key_value_heads": 2, "head_dim": 8}


def build(family: str) -> Any:
    """A three-block random model of a family."""
    import transformers as t

    torch.manual_seed(0)
    if family == "gpt2":
        return t.GPT2LMHeadModel(t.GPT2Config(vocab_size=97, n_embd=32, n_layer=3, n_head=4, n_inner=48)).eval()
    if family == "gemma3_images":
        text = t.Gemma3TextConfig(**SHAPE, **GROUPED)
        vision = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
        config = t.Gemma3Config(
            text_config=text.to_dict(), vision_config={**vision, "image_size": 28, "patch_size": 14}
        )
        return t.Gemma3ForConditionalGeneration(config).eval()
    config_name, model_name, more = {
        "gemma": ("GemmaConfig", "GemmaForCausalLM", GROUPED),
        "gemma2": ("Gemma2Config", "Gemma2ForCausalLM", {**GROUPED, "sliding_window": 6}),
        "gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM", {**GROUPED, "sliding_window": 6}),
        "gemma4": ("Gemma4TextConfig", "Gemma4ForCausalLM", {**GROUPED, "vocab_size_per_layer_input": 97}),
        "llama": ("LlamaConfig", "LlamaForCausalLM", GROUPED),
        "mistral": ("MistralConfig", "MistralForCausalLM", {**GROUPED, "sliding_window": 6}),
        "ministral": ("MinistralConfig", "MinistralForCausalLM", {**GROUPED, "sliding_window": 6}),
        "neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", {}),
        "phi": ("PhiConfig", "PhiForCausalLM", {}),
        "phi3": ("Phi3Config", "Phi3ForCausalLM", {"num_key_value_heads": 2}),
        "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", {"num_key_value_heads": 2}),
        "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", GROUPED),
    }[family]
    return getattr(t, model_name)(getattr(t, config_name)(**SHAPE, **more)).eval()


FAMILIES = [
    "gemma", "gemma2", "gemma3", "gemma3_images", "gemma4", "gpt2", "llama", "mistral", "ministral", "neox", "phi",
    "phi3", "qwen2", "qwen3",
]  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_hooks_on_the_blocks_see_every_hidden_state(family: str) -> None:
    model = build(family)
    found: list[torch.Tensor] = []
    hooks = [
        b.register_forward_hook(lambda *a: found.append(a[-1][0] if isinstance(a[-1], tuple) else a[-1]))
        for b in blocks(model)
    ]
    ids = torch.randint(3, 97, (2, 9), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        expected = model(input_ids=ids, output_hidden_states=True).hidden_states
    for hook in hooks:
        hook.remove()
    assert len(found) == 3
    for ours, theirs in zip(found[:-1], expected[1:-1], strict=True):  # the last of theirs is after the final norm
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_backbone_takes_ids_and_has_no_vocabulary_at_its_end(family: str) -> None:
    model = build(family)
    ids = torch.tensor([[5, 6, 7]])
    with torch.inference_mode():
        out = backbone(model)(input_ids=ids).last_hidden_state
        assert embeddings(model)(ids).shape == out.shape == (1, 3, 32)


def test_adapters_are_looked_through() -> None:
    from peft import LoraConfig, get_peft_model

    model = toy_model()[0]
    plain = blocks(model)
    wrapped = get_peft_model(model, LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM"))
    assert blocks(wrapped) == plain
    assert backbone(wrapped) is backbone(model)


def test_a_model_without_blocks_is_refused_with_what_was_found() -> None:
    model = tiny()
    model.model.layers = nn.ModuleList(list(model.model.layers)[:1])
    with pytest.raises(UserError) as caught:
        blocks(model)
    assert "LlamaForCausalLM" in caught.value.what
    assert "model.layers (1)" in caught.value.what
    assert "length 2" in caught.value.what
    assert "num_hidden_layers" in caught.value.expected
    assert caught.value.fix
