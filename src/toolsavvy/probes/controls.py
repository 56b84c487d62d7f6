"""What a probe on hidden states has to be better than: surface features, the family's majority, shuffled labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolsavvy.classification import Predictions, compare, quality
from toolsavvy.probes.directions import Fitter
from toolsavvy.probes.plan import Batch, Plan, finite_rows
from toolsavvy.probes.results import HeldOut, Rival, Shuffled
from toolsavvy.probes.selection import best_cell, best_strength, best_threshold
from toolsavvy.probes.tallies import Tallies, log_loss

SURFACE_STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Strengths that probes on a few surface features choose from: they need little penalty."""


def family_scores(label: np.ndarray, families: Sequence[str], rows: np.ndarray) -> np.ndarray:
    """Log-odds of the share of positive training items of an item's family, float64 [item].

    A new family has the share among all training items.
    """
    _, codes = np.unique(np.asarray(families), return_inverse=True)
    sizes = np.bincount(codes[rows], minlength=codes.max() + 1)
    yes = np.bincount(codes[rows], weights=label[rows], minlength=codes.max() + 1)
    share = np.where(sizes > 0, yes / np.maximum(sizes, 1), label[rows].mean())
    # Never infinite: a family of one kind is as sure as its size allows.
    room = 1 / (2 * np.maximum(sizes, 1))
    share = np.clip(share, room, 1 - room)
    return np.log(share / (1 - share))[codes]


def indicators(families: Sequence[str]) -> np.ndarray:
    """One column a family, float32 [item, family]."""
    _, codes = np.unique(np.asarray(families), return_inverse=True)
    return np.eye(codes.max() + 1, dtype=np.float32)[codes]


def tuned_scores(
    plan: Plan, label: int, division: int, features: np.ndarray, strengths: Sequence[float], fitter: Fitter
) -> np.ndarray:
    """Log-odds of all items by a probe whose penalty was chosen on training items: float64 [item]; NaN where it can't.

    Args:
        plan: labels, divisions and folds.
        label: which label.
        division: which division.
        features: float32 [item, f]; rows that are not finite are left out.
        strengths: to choose from.
        fitter: solver.
    """
    valid, target, folds = finite_rows(features), plan.labels[label], plan.folds[division]
    train = plan.splits[division].train
    batch = Batch(valid)
    for s, strength in enumerate(strengths):
        for fold in range(plan.settings.folds):
            batch.add(target, train & (folds != fold), strength, s, fold)
    losses = np.full((plan.settings.folds, len(strengths)), np.nan)
    if (fits := batch.fit(fitter, features)) is not None:
        for (s, fold), scores in zip(batch.slots, fits.scores(features), strict=True):
            held = (folds == fold) & valid
            losses[fold, s] = log_loss(target[held], scores[held]) if held.any() else np.nan
    final = Batch(valid)
    best = best_strength(losses, strengths) if np.isfinite(losses).all(1).any() else 0
    final.add(target, train, strengths[best])
    fits = final.fit(fitter, features)
    found = np.full(len(target), np.nan) if fits is None else fits.scores(features)[0].astype(np.float64)
    return np.where(valid, found, np.nan)


def validated_threshold(plan: Plan, label: int, division: int, scores: np.ndarray) -> float:
    """Threshold by MCC on the validation items that have a score, of log-odds [item]."""
    rows = plan.splits[division].validation & np.isfinite(scores)
    return best_threshold(plan.labels[label][rows], scores[rows])


def hold_out(plan: Plan, label: int, divisions: Sequence[int], scores: Sequence[np.ndarray]) -> HeldOut:
    """Test scores of all rotations, with each one's threshold by validation.

    Args:
        plan: labels and divisions.
        label: which label.
        divisions: usable rotations; no item is tested twice.
        scores: [rotation] float64 [item], log-odds; NaN where an item has none.
    """
    parts = []
    for division, values in zip(divisions, scores, strict=True):
        split, there = plan.splits[division], np.isfinite(values)
        threshold = validated_threshold(plan, label, division, values)
        rows = np.flatnonzero(split.test & there)
        parts.append((rows, values[rows], np.full(len(rows), threshold), np.full(len(rows), split.rotation)))
    rows, found, thresholds, rotation = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(rows, kind="stable")
    return HeldOut(rows[order], found[order], thresholds[order], rotation[order])


def predictions(plan: Plan, label: int, held: HeldOut, *, tuned: bool, grouped: bool) -> Predictions:
    """Decisions on test items, at 0.5 or at the tuned thresholds; families are the unit where they were held out."""
    clusters: Sequence[object] = [plan.families[i] for i in held.rows] if grouped else list(range(len(held.rows)))
    plain = Predictions.of(plan.labels[label][held.rows], held.scores, clusters=clusters, strata=held.rotation)
    if not tuned:
        return plain
    return Predictions(plain.labels, plain.scores, held.scores > held.thresholds, plain.clusters, plain.strata)


def rival(plan: Plan, label: int, name: str, own: HeldOut, other: HeldOut, *, grouped: bool) -> Rival:
    """Set a rival beside the probe, on the items that the probe was tested on."""
    other = other.at(own.rows)
    n, seed = plan.settings.resamples, plan.settings.seed
    half, tuned = (predictions(plan, label, other, tuned=t, grouped=grouped) for t in (False, True))
    mine = predictions(plan, label, own, tuned=True, grouped=grouped)
    return Rival(name, quality(half, n, seed), quality(tuned, n, seed), compare(mine, tuned, n, seed))


def shuffled(
    plan: Plan, label: int, divisions: Sequence[int], counts: np.ndarray, eligible: np.ndarray, cells: Sequence,
    observed: float | None,
) -> Shuffled:  # fmt: skip
    """Choose a cell for shuffled labels as for the real ones, on validation items, and look at its test items.

    Args:
        plan: settings.
        label: which label.
        divisions: usable rotations.
        counts: float64 [cell, label, division, real and shuffles, validation and test, COLUMNS].
        eligible: bool [cell], may be chosen.
        cells: [cell].
        observed: AUC with the real labels.
    """
    auc, mcc, best_auc, best_mcc = np.full((4, len(plan.orders)), np.nan)
    for k in range(len(plan.orders)):
        table = counts[:, label, divisions, 1 + k]
        values = Tallies(table[:, :, 0]).metric(plan.settings.select_by)
        chosen = [best_cell(column, cells, eligible) for column in values.T]
        picked = [table[c, r, 1] for r, c in enumerate(chosen) if c is not None]
        if picked:
            pooled = Tallies(np.array(picked)).pooled(0)
            auc[k], mcc[k] = pooled.metric("auc"), pooled.metric("mcc")
        everywhere = Tallies(table[eligible, :, 1]).pooled(1)
        best_auc[k], best_mcc[k] = (_highest(everywhere.metric(m)) for m in ("auc", "mcc"))
    p = None
    if len(auc) and observed is not None:
        p = float((1 + (auc >= observed).sum()) / (1 + len(auc)))
    return Shuffled(auc, mcc, best_auc, best_mcc, p)


def _highest(values: np.ndarray) -> float:
    """Highest finite value; NaN without one."""
    finite = values[np.isfinite(values)]
    return float(finite.max()) if len(finite) else np.nan
