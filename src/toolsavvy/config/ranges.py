"""Checks of values that several schemas share."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from toolsavvy.errors import UserError, did_you_mean

LARGEST_SEED = 2**32 - 1
"""Of numpy's global generator and of scikit-learn."""


def one_of(value: str, options: tuple[str, ...], where: str) -> None:
    """Refuse a word that is not on the list."""
    if value not in options:
        hint = did_you_mean(value, options) if get_close_matches(value, options, n=1) else ""  # all stand there already
        raise UserError(f"{value!r} is no valid value", where=where, expected=f"one of {', '.join(options)}", fix=hint)


def at_least(value: float, low: float, where: str, *, strict: bool = False) -> None:
    """Refuse a number below `low` (or equal to it, when strict)."""
    if not low <= value < float("inf") or (strict and value == low):  # nan is in no range either
        raise UserError(f"{value} is out of range", where=where, expected=f"{'>' if strict else '>='} {low}")


def between(value: float, low: float, high: float, where: str) -> None:
    """Refuse a number outside [low, high]."""
    if not low <= value <= high:
        raise UserError(f"{value} is out of range", where=where, expected=f"between {low} and {high}")


def check_optimizer(config: Any, where: str) -> None:
    """The ranges that both stages share."""
    if hasattr(config, "keep"):
        one_of(config.keep, ("best", "last"), f"{where}.keep")
    if config.learning_rate is not None:
        at_least(config.learning_rate, 0, f"{where}.learning_rate", strict=True)
    at_least(config.epochs, 0, f"{where}.epochs")
    between(config.warmup, 0, 1, f"{where}.warmup")
    at_least(config.weight_decay, 0, f"{where}.weight_decay")
    at_least(config.batch_size, 1, f"{where}.batch_size")
    at_least(config.accumulate, 1, f"{where}.accumulate")
    at_least(config.max_length, 8, f"{where}.max_length")
