"""Digests of models, so that what one model has written is never taken for another's."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch

from toolsavvy.models.tuning import plain

_ADAPTERS = ("lora_", "trainable_tokens_")
"""Parts of parameters' names that are nothing before training."""


def model_digest(model: Any) -> str:
    """Hex digest of a model's config, of the type of its weights, and of every weight, adapters and their scale too.

    Where the model was loaded from, on which device and with which attention kernel does not matter.

    Args:
        model: a causal LM, with or without PEFT's wrapper; about a second for each gigabyte of weights.
    """
    settings = plain(model).config.to_dict()
    settings = {name: value for name, value in settings.items() if not name.startswith("_") and "version" not in name}
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    for name, weight in model.named_parameters():
        digest.update(f"{name} {weight.dtype} {list(weight.shape)}".encode())
        digest.update(weight.detach().contiguous().flatten().view(torch.uint8).cpu().numpy())
    for name, module in model.named_modules():
        if isinstance(active := getattr(module, "active_adapters", None), list | tuple):
            facts = (name, active, getattr(module, "disable_adapters", None), getattr(module, "scaling", None))
            digest.update(repr(facts).encode())
    return digest.hexdigest()


def weights_digest(model: Any) -> str:
    """Hex digest of a model's weights alone, each once, whatever they are called.

    Adapters change nothing before they are trained and are left out: for what a model is before its training.
    """
    parts = []
    for name, tensor in model.state_dict().items():
        if not any(part in name for part in _ADAPTERS):
            raw = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
            parts.append(hashlib.sha256(repr(tuple(tensor.shape)).encode() + raw.tobytes()).hexdigest())
    return hashlib.sha256("".join(sorted(set(parts))).encode()).hexdigest()
