"""Digests of models: what changes an answer changes the digest, adapters and their scale among it."""

from __future__ import annotations

from typing import Any

import torch
from peft import LoraConfig, get_peft_model

from tiny_models import tiny
from toolsavvy.models.digest import model_digest


def adapted(alpha: int = 8) -> Any:
    model = get_peft_model(tiny(), LoraConfig(r=2, lora_alpha=alpha, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_" in name:
                weight.fill_(0.1)
    return model


def test_adapters_their_scale_and_whether_they_are_on_change_the_digest() -> None:
    model = adapted()
    first = model_digest(model)
    assert first == model_digest(adapted())
    others = [model_digest(tiny()), model_digest(tiny(seed=1)), model_digest(adapted(alpha=16))]
    with model.disable_adapter():
        others.append(model_digest(model))
    with torch.no_grad():
        next(w for n, w in model.named_parameters() if "lora_B" in n)[0, 0] += 1e-3
    others.append(model_digest(model))
    assert len({first, *others}) == 6


def test_where_a_model_runs_and_by_which_kernel_changes_nothing() -> None:
    model = tiny()
    first = model_digest(model)
    model.set_attn_implementation("eager")
    model.config.name_or_path = "elsewhere"
    assert model_digest(model) == first
