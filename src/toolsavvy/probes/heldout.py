"""Scores of every item by probes that have not seen it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from toolsavvy.probes.directions import Fitter
from toolsavvy.probes.plan import Batch, finite_rows
from toolsavvy.probes.splits import fold_codes, quadrants


def out_of_fold(
    features: Mapping[str, np.ndarray],
    labels: Mapping[str, np.ndarray],
    strengths: Mapping[str, float],
    fitter: Fitter,
    *,
    families: Sequence[str] | None = None,
    folds: int = 5,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Log-odds of every item, from the folds that it is not in; all labels share the folds.

    The cell and the penalty are given, so that they may have been chosen with an item's own label in view: for
    attribution, not for the quality of a probe.

    Args:
        features: label -> float32 [item, d], states of the label's cell; rows that are not finite get no score.
        labels: label -> bool [item].
        strengths: label -> C.
        fitter: solver.
        families: [item]; where given, the folds hold whole families.
        folds: number of them.
        seed: of the folds.

    Returns:
        label -> float64 [item]; NaN where there is no state, or a fold's training items have one class.
    """
    count = len(next(iter(labels.values())))
    codes = fold_codes(np.ones(count, dtype=bool), quadrants(labels), folds, seed=seed, families=families)
    found = {}
    for name, label in labels.items():
        states, scores = features[name], np.full(count, np.nan)
        batch = Batch(finite_rows(states))
        for fold in np.unique(codes):
            batch.add(np.asarray(label, dtype=bool), codes != fold, strengths[name], int(fold))
        if (fits := batch.fit(fitter, states)) is not None:
            for (fold,), values in zip(batch.slots, fits.scores(states), strict=True):
                held = (codes == fold) & batch.valid
                scores[held] = values[held]
        found[name] = scores
    return found
