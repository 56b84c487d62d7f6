"""Does what a model knows of a tool predict whether it finds it? Over tools, within a configuration.

Five configurations are too few for a correlation over them, and one would mistake what differs between them for
knowledge. So tools are what is compared, resampled and permuted; several configurations are averaged, and a tool stays
one tool in all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from toolsavvy.correlation import LEAST, coefficients
from toolsavvy.metrics import Interval, Resamples, interval

KNOWN = 0.5
"""Share of a tool's questions that must be right for the tool to count as known."""
DIFFERENCE, PEARSON, SPEARMAN = "difference", "pearson", "spearman"
STATISTICS = (DIFFERENCE, PEARSON, SPEARMAN)
"""Retrieval of known minus unknown tools; Pearson's r (point-biserial with one question a tool); Spearman's rho."""


@dataclass(frozen=True)
class Associated:
    """One statistic of how knowledge and retrieval go together.

    Args:
        statistic: one of `STATISTICS`.
        found: with its 95 % bootstrap interval over tools; n is the number of tools. No value where it is undefined.
        p: two-sided, of permuting what is known over tools; None where there is no value.
        known: tools that count as known, the mean over configurations.
        verdict: what may be said; why there is no value.
    """

    statistic: str
    found: Interval
    p: float | None
    known: float
    verdict: str


def associate(knows: np.ndarray, finds: np.ndarray, resamples: int = 2000, seed: int = 0) -> tuple[Associated, ...]:
    """Compare what is known of tools with how well they are found.

    Args:
        knows: float64 [configuration, tool], share of a tool's questions that are answered rightly.
        finds: float64 [configuration, tool], how well queries for the tool find it.
        resamples: of the bootstrap, and permutations of the test.
        seed: of both.

    Returns:
        One record a statistic: the mean over the configurations in which it is defined.

    Raises:
        ValueError: the shapes differ.
    """
    if knows.shape != finds.shape or knows.ndim != 2:
        raise ValueError(f"[configuration, tool] expected twice, not {knows.shape} and {finds.shape}")
    n, known = knows.shape[1], float((knows >= KNOWN).sum(axis=1).mean()) if len(knows) else 0.0
    if reason := _undefined(knows, finds):
        return tuple(Associated(s, Interval(None, None, None, n), None, known, reason) for s in STATISTICS)
    values = _statistics(knows, finds, np.ones((1, n)))[0]
    parts = Resamples(np.arange(n), resamples, seed).weights(cells=400_000)
    drawn = np.concatenate([_statistics(knows, finds, weights) for weights in parts])
    p_values = _permuted(knows, finds, values, resamples, seed)
    found = [interval(float(v), drawn[:, i], n, n) for i, v in enumerate(values)]
    return tuple(
        Associated(s, i, None if i.value is None else float(p), known, _verdict(i))
        for s, i, p in zip(STATISTICS, found, p_values, strict=True)
    )


def _undefined(knows: np.ndarray, finds: np.ndarray) -> str:
    """Why nothing can be said; '' where something can."""
    if not knows.size or knows.shape[1] < LEAST:
        return f"undefined: {knows.shape[-1]} tools with questions and queries"
    varied = (np.ptp(knows, axis=1) > 0) & (np.ptp(finds, axis=1) > 0)
    if varied.any():
        return ""
    same = "what is known" if not (np.ptp(knows, axis=1) > 0).any() else "how well it is found"
    return f"undefined: {same} is the same for all {knows.shape[1]} tools"


def _verdict(found: Interval) -> str:
    """What an interval allows to say."""
    if found.value is None:
        return f"undefined: no tool is on the other side of {KNOWN:.0%} right"
    if found.low is None or found.high is None:
        return "no interval: every resample gives the same"
    sign = "known tools are found better" if found.value > 0 else "known tools are found worse"
    return sign if found.low > 0 or found.high < 0 else "no difference shown"


def _statistics(knows: np.ndarray, finds: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """All statistics, float64 [resample, statistic], of tools drawn [resample, tool] times; NaN where undefined."""
    known = (knows >= KNOWN).astype(np.float64)
    difference = _mean(weights, known, finds) - _mean(weights, 1 - known, finds)
    pairs = [coefficients(x, y, weights)[:, :2] for x, y in zip(knows, finds, strict=True)]
    columns = [difference, *(np.stack([pair[:, i] for pair in pairs], axis=1) for i in range(2))]
    return np.stack([_defined_mean(column) for column in columns], axis=1)


def _mean(weights: np.ndarray, mask: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Weighted mean of the marked values, float64 [resample, configuration]; NaN where none is drawn."""
    total, number = weights @ (mask * values).T, weights @ mask.T
    return np.divide(total, number, out=np.full(total.shape, np.nan), where=number > 0)


def _defined_mean(values: np.ndarray) -> np.ndarray:
    """Mean over the configurations with a value: float64 [resample] of [resample, configuration]."""
    number = np.isfinite(values).sum(axis=1)
    return np.divide(np.nansum(values, axis=1), number, out=np.full(len(values), np.nan), where=number > 0)


def _permuted(knows: np.ndarray, finds: np.ndarray, values: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Two-sided p-values, float64 [statistic]: what is known is dealt anew to tools, alike in every configuration."""
    known = (knows >= KNOWN).astype(np.float64)
    split = (known.any(axis=1)) & (known < 1).any(axis=1)
    varied = (np.ptp(knows, axis=1) > 0) & (np.ptp(finds, axis=1) > 0)  # where correlations are defined
    pairs = [(knows[varied], finds[varied]), (_ranks(knows[varied]), _ranks(finds[varied]))]
    sides = [(_contrast(known[split]), finds[split]), *((_unit(x), _unit(y)) for x, y in pairs)]
    extreme = np.zeros(len(sides))
    for order in _orders(knows.shape[1], n, seed):
        for i, (x, y) in enumerate(sides):
            told = np.einsum("cpt,ct->pc", x[:, order], y)
            dealt = told.mean(axis=1) if len(x) else np.zeros(len(order))
            extreme[i] += (np.abs(dealt) >= abs(values[i]) - 1e-9).sum()
    return (1 + extreme) / (1 + n)


def _orders(tools: int, n: int, seed: int, cells: int = 200_000) -> Iterator[np.ndarray]:
    """Blocks of random orders of tools, int64 [permutation, tool]."""
    rng = np.random.default_rng([seed, 2])
    step = max(1, cells // tools)
    for start in range(0, n, step):
        rows = min(step, n - start)
        yield rng.permuted(np.broadcast_to(np.arange(tools), (rows, tools)), axis=1)


def _contrast(known: np.ndarray) -> np.ndarray:
    """Weights whose product with values is the mean of the known minus that of the others."""
    return known / known.sum(axis=1, keepdims=True) - (1 - known) / (1 - known).sum(axis=1, keepdims=True)


def _unit(values: np.ndarray) -> np.ndarray:
    """Centred and of length 1 in each row, so that products are correlations; 0 where a row does not vary."""
    centred = np.where(np.ptp(values, axis=1, keepdims=True) > 0, values - values.mean(axis=1, keepdims=True), 0.0)
    length = np.sqrt((centred**2).sum(axis=1, keepdims=True))
    return np.divide(centred, length, out=np.zeros(values.shape), where=length > 0)


def _ranks(values: np.ndarray) -> np.ndarray:
    """Average ranks in each row, up to a constant."""
    return np.sign(values[:, :, None] - values[:, None, :]).sum(axis=2) / 2
