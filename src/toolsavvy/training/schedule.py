"""The one learning-rate schedule: a linear warm-up, then a linear decay to zero."""

from __future__ import annotations

import torch
from torch.optim.lr_scheduler import LambdaLR


def linear(optimizer: torch.optim.Optimizer, steps: int, warmup: float) -> LambdaLR:
    """Scale the optimizer's rates over a training.

    Args:
        optimizer: its rates are the peaks.
        steps: optimizer steps of the whole training.
        warmup: share of `steps` during which the rate rises.
    """
    warm = max(1, round(warmup * steps))
    return LambdaLR(optimizer, lambda s: min((s + 1) / warm, max(0.0, (steps - s) / max(1, steps - warm))))
