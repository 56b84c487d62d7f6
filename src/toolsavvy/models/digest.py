"""A digest of a model, so that what one model has written is never taken for another's."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch

from toolsavvy.models.tuning import plain


def model_digest(model: Any) -> str:
    """Hex digest of a model's config, of the type of its weights, and of every weight, adapters among them.

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
    return digest.hexdigest()
