"""How well each signal tells right values and right calls from wrong ones: AUC, calibration, and the probe's lead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolsavvy.classification import auc, ece
from toolsavvy.errors import UserError
from toolsavvy.metrics import Interval, PairedDifference, Resamples, interval
from toolsavvy.parameters.fields import FieldTable
from toolsavvy.parameters.probe import check_rows
from toolsavvy.parameters.signals import Signal

BINS = 10


@dataclass(frozen=True)
class Bin:
    """Items whose score lies in one tenth of [0, 1].

    Args:
        low: from.
        high: to.
        n: items.
        predicted: their mean score; None without items.
        right: share of right ones; None without items.
    """

    low: float
    high: float
    n: int
    predicted: float | None
    right: float | None


@dataclass(frozen=True)
class SignalQuality:
    """One signal on held-out fields or calls; intervals are over clusters of tasks.

    Args:
        name: of the signal.
        auc: None where all are right or all wrong.
        ece: expected calibration error of the score taken for a probability.
        bins: reliability table.
        auc_lead: AUC of the first signal minus this one's, on the same resamples; None for the first itself.
        ece_lead: ECE of the first signal minus this one's; below 0 where the first is better calibrated.
    """

    name: str
    auc: Interval
    ece: Interval
    bins: tuple[Bin, ...]
    auc_lead: PairedDifference | None
    ece_lead: PairedDifference | None


@dataclass(frozen=True)
class Quality:
    """All signals on the same items.

    Args:
        of: fields | calls.
        n: items.
        right: share of right ones.
        signals: name -> quality; the first is the one that leads are of.
    """

    of: str
    n: int
    right: float | None
    signals: Mapping[str, SignalQuality]


def reliability(right: np.ndarray, scores: np.ndarray, bins: int = BINS) -> tuple[Bin, ...]:
    """Mean score and share of right items in bins of equal width."""
    place = np.minimum((np.asarray(scores) * bins).astype(np.int64), bins - 1)
    found = []
    for b in range(bins):
        rows = place == b
        n = int(rows.sum())
        pair = (float(scores[rows].mean()), float(right[rows].mean())) if n else (None, None)
        found.append(Bin(b / bins, (b + 1) / bins, n, *pair))
    return tuple(found)


def compare(
    right: np.ndarray, scores: Mapping[str, np.ndarray], clusters: Sequence[object], *, of: str = "fields",
    n: int = 1000, seed: int = 0,
) -> Quality:  # fmt: skip
    """AUC and calibration of every signal, and the first one's lead over each other, all on the same resamples.

    Args:
        right: bool [item].
        scores: name -> float64 [item] in [0, 1]; the first is compared with the others.
        clusters: [item], what is independent: the cluster of the item's task.
        of: fields | calls, kept in the result.
        n: bootstrap replicates.
        seed: of the resampling.

    Raises:
        ValueError: a score outside of [0, 1], or another number of them.
    """
    right = np.asarray(right, dtype=bool)
    for name, values in scores.items():
        if np.shape(values) != right.shape or not ((np.asarray(values) >= 0) & (np.asarray(values) <= 1)).all():
            raise ValueError(f"scores of '{name}' are not {len(right)} numbers in [0, 1]")
    names = list(scores)
    table = np.stack([np.asarray(scores[name], dtype=np.float64) for name in names], 1) if names else None
    if table is None or not len(right):
        empty = Interval(None, None, None, len(right))
        blank = {name: SignalQuality(name, empty, empty, (), None, None) for name in names}
        return Quality(of, len(right), None, blank)
    resamples = Resamples.of(clusters, n, seed)
    values, drawn = _measure(right, table, None)[:, 0], _replicates(right, table, resamples)
    count, units = len(right), resamples.units
    found = {}
    for i, name in enumerate(names):
        area, error = (interval(values[m, i], drawn[m, :, i], count, units) for m in (0, 1))
        leads = [_lead(values[m], drawn[m], i, count, units) for m in (0, 1)] if i else [None, None]
        found[name] = SignalQuality(name, area, error, reliability(right, table[:, i]), *leads)
    return Quality(of, count, float(right.mean()), found)


def _measure(right: np.ndarray, table: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """AUC and ECE, float64 [2, replicate, signal]; one replicate without weights."""
    found = np.stack([auc(right, table, weights), ece(right, table, weights, BINS)])
    return found[:, None] if weights is None else found


def _replicates(right: np.ndarray, table: np.ndarray, resamples: Resamples) -> np.ndarray:
    """The same in every bootstrap replicate, float64 [2, replicate, signal]; none of a single cluster."""
    if resamples.units < 2:
        return np.zeros((2, 0, table.shape[1]))
    cells = max(1, 4_000_000 * resamples.units // len(right))
    parts = [_measure(right, table, w[:, resamples.clusters]) for w in resamples.weights(cells)]
    return np.concatenate(parts, axis=1)


def _lead(values: np.ndarray, drawn: np.ndarray, i: int, count: int, units: int) -> PairedDifference:
    """First signal minus signal i, with a two-sided bootstrap p."""
    difference = drawn[:, 0] - drawn[:, i]
    found = interval(values[0] - values[i], difference, count, units)
    if found.low is None:
        return PairedDifference(found, None)
    finite = difference[np.isfinite(difference)]
    tail = min((finite <= 0).sum(), (finite >= 0).sum())
    return PairedDifference(found, float(min(1.0, 2 * (1 + tail) / (1 + len(finite)))))


def of_table(
    table: FieldTable, signals: Mapping[str, Signal], *, n: int = 1000, seed: int = 0, greedy: bool = True
) -> tuple[Quality, Quality]:
    """Every signal on held-out fields and on held-out calls.

    Args:
        table: labelled answers to tasks that no signal was trained on.
        signals: of this table; the first is compared with the others.
        n: bootstrap replicates.
        seed: of the resampling.
        greedy: of greedy answers alone, as the filters see them; samples of a task say much the same again.

    Raises:
        UserError: answers without labels or fields, or of models that were trained on the tasks.
    """
    check_rows(table)
    calls = table.index == 0 if greedy else np.ones(len(table.candidates), dtype=bool)
    if not calls.any():
        raise UserError("there is no greedy answer", where="probe", expected="answers with index 0")
    rows = calls[table.candidate]
    fields = compare(
        table.right[rows], {name: s.fields[rows] for name, s in signals.items()},
        [c for c, kept in zip(table.field_clusters, rows, strict=True) if kept], of="fields", n=n, seed=seed,
    )  # fmt: skip
    whole = compare(
        table.exact[calls], {name: s.calls[calls] for name, s in signals.items()},
        [c for c, kept in zip(table.clusters, calls, strict=True) if kept], of="calls", n=n, seed=seed,
    )  # fmt: skip
    return fields, whole
