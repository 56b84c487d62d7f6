"""Which of its own calls a model learns from: thresholds of every signal from validation, equal counts, the ceiling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from toolsavvy.config.parameters import FilterConfig
from toolsavvy.parameters import selection
from toolsavvy.parameters.fields import FieldTable
from toolsavvy.parameters.selection import Kept, PseudoLabels, Threshold
from toolsavvy.parameters.signals import Signal

SYSTEMS = {
    "none": "self_train", "probe": "pbt", "logprob": "logprob_train", "consistency": "consist_train",
    "p_true": "p_true_train", "control": "control_train", "oracle": "oracle_train",
}  # fmt: skip
"""Arm -> what tables call the retrained model."""
EQUAL = "-equal"
"""Ends the name of an arm that keeps as many calls as the probe."""


@dataclass(frozen=True)
class Arm:
    """One set of pseudo-labels.

    Args:
        system: name of the model that is retrained on it.
        rows: bool [call], of the unlabelled tasks' greedy calls.
        quality: against the hidden references; no arm but the oracle looks at them.
        threshold: as chosen on validation; None where none was.
        told: what is odd about it.
    """

    system: str
    rows: np.ndarray
    quality: PseudoLabels
    threshold: Threshold | None = None
    told: str = ""


def arms_of(
    settings: FilterConfig,
    unlabelled: FieldTable,
    signals: Mapping[str, Signal],
    validation: FieldTable,
    validated: Mapping[str, Signal],
    *,
    equal: bool,
    resamples: int,
    seed: int,
) -> list[Arm]:
    """Every arm's pseudo-labels.

    Args:
        settings: which arms, and the probe's thresholds.
        unlabelled: greedy calls of the unlabelled tasks; their labels serve the oracle and the report alone.
        signals: of these calls.
        validation: greedy calls of the validation tasks.
        validated: signals of those.
        equal: also arms that keep as many calls as the probe.
        resamples: of intervals.
        seed: of ties and resamples.
    """
    usable = np.array([c.arguments is not None for c in unlabelled.candidates])
    ids = [c.task_id for c in unlabelled.candidates]
    found: list[Arm] = []
    count = None

    def add(system: str, kept: Kept, threshold: Threshold | None = None) -> None:
        quality = selection.measure(kept.rows, unlabelled.exact, clusters=unlabelled.clusters, n=resamples, seed=seed)
        told = "; ".join(part for part in (threshold.told if threshold else "", kept.told) if part)
        found.append(Arm(system, kept.rows, quality, threshold, told))

    for name in settings.arms:
        threshold = None
        if name == "none":
            kept = selection.unfiltered(usable)
        elif name == "oracle":
            kept = selection.oracle(unlabelled.exact)
        else:
            threshold = threshold_of(name, settings, validation, validated)
            kept = selection.keep(signals[name].calls, threshold=threshold.value, ids=ids, usable=usable, seed=seed)
        count = kept.count if name == "probe" else count
        add(SYSTEMS[name], kept, threshold)
    for name in settings.arms if equal and count else ():
        if name != "probe":
            add(SYSTEMS[name] + EQUAL, _as_many(name, count or 0, unlabelled, signals, ids, usable, seed))
    return found


def threshold_of(
    name: str, settings: FilterConfig, validation: FieldTable, validated: Mapping[str, Signal]
) -> Threshold:
    """A signal's threshold: of the given ones for the probe, of its own quantiles for the others."""
    scores = validated[name].calls
    grid: Sequence[float] = settings.thresholds if name == "probe" else selection.quantile_grid(scores)
    return selection.choose_threshold(scores, validation.exact, grid=grid, clusters=validation.clusters)


def _as_many(
    name: str,
    count: int,
    table: FieldTable,
    signals: Mapping[str, Signal],
    ids: Sequence[str],
    usable: np.ndarray,
    seed: int,
) -> Kept:
    """The signal's best calls; of no signal, any; of the oracle, right ones."""
    if name in signals:
        return selection.keep(signals[name].calls, count=count, ids=ids, usable=usable, seed=seed)
    even = np.ones(len(ids))
    return selection.keep(even, count=count, ids=ids, usable=table.exact if name == "oracle" else usable, seed=seed)
