"""What is done on one cell: the penalty's cross-validation; all probes, shuffles and halves in one fit."""

from __future__ import annotations

import numpy as np

from toolsavvy.probes.directions import METHODS, PARTS, SPACES, Directions, Fitter, halves, relate
from toolsavvy.probes.plan import Batch, Plan, finite_rows
from toolsavvy.probes.problems import Fits, Problems
from toolsavvy.probes.tallies import log_loss, no_tallies, tally

REAL = 0
"""Place of the real labels beside the shuffled ones."""
VALIDATION, TEST = 0, 1


def tune(plan: Plan, features: np.ndarray, fitter: Fitter) -> dict[str, np.ndarray]:
    """Mean held-out log loss of every strength on training items: `losses` [label, division, strength]."""
    count, choices = plan.settings.folds, plan.settings.choices
    losses = np.full((*plan.usable.shape, len(choices), count), np.nan)
    batch = Batch(finite_rows(features))
    for i, j in np.argwhere(plan.usable):
        for fold in range(count):
            rows = plan.splits[j].train & (plan.folds[j] != fold)
            for s, strength in enumerate(choices):
                batch.add(plan.labels[i], rows, strength, i, j, s, fold)
    if (fits := batch.fit(fitter, features)) is not None:
        for (i, j, s, fold), scores in zip(batch.slots, fits.scores(features), strict=True):
            held = (plan.folds[j] == fold) & batch.valid
            if held.any():
                losses[i, j, s, fold] = log_loss(plan.labels[i][held], scores[held])
    return {"losses": _mean(losses)}


def _mean(losses: np.ndarray) -> np.ndarray:
    """Mean over the folds that every strength has; NaN where there are none."""
    whole = np.isfinite(losses).all(-2, keepdims=True)
    number = whole.sum(-1)
    total = np.where(whole, losses, 0.0).sum(-1)
    return np.divide(total, number, out=np.full(total.shape, np.nan), where=np.broadcast_to(number > 0, total.shape))


def measure(plan: Plan, features: np.ndarray, strengths: np.ndarray, fitter: Fitter) -> dict[str, np.ndarray]:
    """Train everything on one cell.

    Args:
        plan: what is trained.
        features: float32 [item, d]; rows of NaN where a text is too short, or broken.
        strengths: float64 [label, division], as chosen for the layer.
        fitter: solver.

    Returns:
        `tallies` [label, division, real and shuffles, validation and test, COLUMNS]; `relations` [pair of labels,
        method, space, PARTS]; `missing` [2], rows of NaN and rows that hold a few or an infinity.
    """
    batch = Batch(finite_rows(features))
    for i, j in np.argwhere(plan.usable):
        for k, target in enumerate([plan.labels[i], *(plan.labels[i][order] for order in plan.orders)]):
            batch.add(target, plan.splits[j].train, float(strengths[i, j]), "probe", int(i), int(j), k)
    _add_halves(plan, batch, plan.halves, strengths)
    fits = batch.fit(fitter, features)
    bad = ~batch.valid
    absent = int(np.isnan(features[bad]).all(1).sum())
    return {
        "tallies": _tallies(plan, batch, fits, features),
        "relations": _relations(plan, batch, fits, features),
        "missing": np.array([absent, int(bad.sum()) - absent]),
    }


def _add_halves(plan: Plan, batch: Batch, cut: np.ndarray, strengths: np.ndarray) -> None:
    """Problems on halves of the first division's training items, with the same penalty an item."""
    for i in plan.directed if plan.pairs else ():
        for h, pair in enumerate(cut):
            for side, rows in enumerate(pair):
                share = rows.sum() / plan.splits[0].train.sum()
                batch.add(plan.labels[i], rows, strengths[i, 0] / share, "half", h, side, i)


def _tallies(plan: Plan, batch: Batch, fits: Fits | None, features: np.ndarray) -> np.ndarray:
    """Counts on validation and test items."""
    counts = no_tallies((*plan.usable.shape, 1 + len(plan.orders), 2))
    if fits is None:
        return counts
    for slot, scores in zip(batch.slots, fits.scores(features), strict=True):
        if slot[0] != "probe":
            continue
        _, i, j, k = slot
        labels = plan.labels[i] if k == REAL else plan.labels[i][plan.orders[k - 1]]
        for part, rows in ((VALIDATION, plan.splits[j].validation), (TEST, plan.splits[j].test)):
            rows = rows & batch.valid
            if rows.any():
                counts[i, j, k, part] = tally(labels[rows], scores[rows])
    return counts


def deviations(features: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Deviation of every feature over some items, float64 [d]; 1 where it is 0: defines the standardised space."""
    scale = features[rows].std(0, dtype=np.float64)
    return np.where(scale > 0, scale, 1.0)


def _relations(plan: Plan, batch: Batch, fits: Fits | None, features: np.ndarray) -> np.ndarray:
    """How the directions of every pair of labels lie to one another."""
    found = np.full((len(plan.pairs), len(METHODS), len(SPACES), len(PARTS)), np.nan)
    rows = plan.splits[0].train & batch.valid
    if fits is None or not plan.pairs or not rows.any():
        return found
    scale = deviations(features, rows)
    clean = np.where(batch.valid[:, None], features, 0)
    cut = halves(rows, plan.strata, plan.settings.mean_halvings, seed=plan.settings.seed)
    sets = (_of_fits(plan, batch, fits, scale), _of_means(plan, clean, rows, cut, scale))
    for m, directions in enumerate(sets):
        if directions is not None:
            for p, pair in enumerate(plan.pairs):
                found[p, m] = _related(plan, *directions, pair)
    return found


def _related(plan: Plan, full: Directions, half: Directions, pair: tuple[int, int]) -> np.ndarray:
    """`relate` in both spaces, float64 [space, PARTS]; full [label, d], half [halving, 2, label, d]."""
    labels = [plan.directed.index(i) for i in pair]
    return np.stack([relate(getattr(full, s)[labels], getattr(half, s)[:, :, labels]) for s in SPACES])


def _of_fits(plan: Plan, batch: Batch, fits: Fits, scale: np.ndarray) -> tuple[Directions, Directions] | None:
    """Weights of the probes and of their halves; None where one could not be trained."""
    place = {slot: index for index, slot in enumerate(batch.slots)}
    labels = plan.directed
    full = [place.get(("probe", i, 0, REAL)) for i in labels]
    half = [[[place.get(("half", h, side, i)) for i in labels] for side in (0, 1)] for h in range(len(plan.halves))]
    if None in full or any(None in row for pair in half for row in pair):
        return None
    directions = Directions.of_fits(fits, scale)
    return directions.take(np.array(full)), directions.take(np.array(half))


def _of_means(
    plan: Plan, features: np.ndarray, rows: np.ndarray, cut: np.ndarray, scale: np.ndarray
) -> tuple[Directions, Directions]:
    """Mean differences on all training items and on their halves."""
    labels, number = plan.labels[list(plan.directed)], len(plan.directed)
    parts = np.concatenate([rows[None], cut.reshape(-1, len(rows))])
    targets = np.tile(labels, (len(parts), 1))
    problems = Problems(targets, np.repeat(parts, number, axis=0), np.ones(len(targets)))
    found = Directions.of_means(features, problems, scale)
    index = np.arange(number, len(targets)).reshape(len(cut), 2, number)
    return found.take(np.arange(number)), found.take(index)


def half_samples(plan: Plan, features: np.ndarray, strengths: np.ndarray, fitter: Fitter) -> np.ndarray:
    """Relations in random halves of the training items, each halved in its turn, for intervals.

    Args:
        plan: as in `measure`.
        features: float32 [item, d].
        strengths: float64 [label], of the first division.
        fitter: solver.

    Returns:
        float64 [replicate, pair, method, space, PARTS].
    """
    valid, settings = finite_rows(features), plan.settings
    train = plan.splits[0].train & valid
    scale, clean = deviations(features, train), np.where(valid[:, None], features, 0)
    samples = halves(train, plan.strata, settings.half_samples, seed=settings.seed + 1)[:, 0]
    cuts = [halves(s, plan.strata, settings.halvings, seed=settings.seed + 2 + b) for b, s in enumerate(samples)]
    found = np.full((len(samples), len(plan.pairs), len(METHODS), len(SPACES), len(PARTS)), np.nan)
    for b, (sample, cut) in enumerate(zip(samples, cuts, strict=True)):
        batch = Batch(valid)
        for i in plan.directed:
            target = plan.labels[i]
            batch.add(target, sample, strengths[i] * train.sum() / sample.sum(), "probe", i, 0, REAL)
            for h, side in np.ndindex(*cut.shape[:2]):
                batch.add(target, cut[h, side], strengths[i] * train.sum() / cut[h, side].sum(), "half", h, side, i)
        fits = batch.fit(fitter, features)
        sets = (
            None if fits is None else _of_fits(plan, batch, fits, scale),
            _of_means(plan, clean, sample, cut, scale),
        )
        for m, directions in enumerate(sets):
            if directions is not None:
                for p, pair in enumerate(plan.pairs):
                    found[b, p, m] = _related(plan, *directions, pair)
    return found
