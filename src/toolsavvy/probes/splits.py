"""One division of items into train, validation and test, shared by the probes of every label.

The published split permutes the items of each label anew, so that an item can train one probe and test the other
(methods: Knowing-doing gap, 2605.14038, released code); here all labels share one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from toolsavvy.errors import UserError

SplitName = Literal["random", "family"]
PARTS = ("train", "validation", "test")
_TRIES = 64
_GOLDEN = 0.6180339887498949


class OneClass(UserError):
    """A part of a split has one class only, so that a probe can't be trained, chosen or tested there."""


@dataclass(frozen=True)
class Split:
    """One division of items; parts are disjoint and cover all items.

    Args:
        name: random | family (whole families to validation and test).
        rotation: which of the scheme's divisions.
        train: bool [item].
        validation: bool [item].
        test: bool [item].
    """

    name: SplitName
    rotation: int
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray

    def check(self, label: str, values: np.ndarray, parts: Sequence[str] = PARTS, *, least: int = 1) -> None:
        """Refuse a part where a label has fewer than `least` items of either class.

        Args:
            label: its name, for the message.
            values: bool [item].
            parts: that are looked at; tests of several rotations are pooled, so that one alone may have one class.
            least: items of each class that a part must have.

        Raises:
            OneClass: names the label and the part.
        """
        for part in parts:
            rows = getattr(self, part)
            yes, no = int(values[rows].sum()), int((~values[rows]).sum())
            if min(yes, no) < least:
                raise OneClass(
                    f"{label} has {yes} positive and {no} negative items in {part}",
                    where=f"{self.name} split, rotation {self.rotation}",
                    expected=f"at least {least} of each class",
                    fix="more questions, or ones that are neither all easy nor all hard for this model",
                )


def quadrants(labels: Mapping[str, np.ndarray]) -> np.ndarray:
    """Which combination of labels an item has, int64 [item]: necessity and action make the four quadrants."""
    table = np.stack([np.asarray(values, dtype=bool) for values in labels.values()])
    return (1 << np.arange(len(table))) @ table


def random_splits(
    strata: np.ndarray, *, seed: int = 0, shares: Sequence[float] = (0.6, 0.2, 0.2), repeats: int = 1
) -> tuple[Split, ...]:
    """Divide items at random, each stratum in (nearly) the same shares.

    Args:
        strata: int [item], as of `quadrants`.
        seed: of the division.
        shares: of train, validation and test; they add up to 1.
        repeats: independent divisions.

    Raises:
        UserError: shares that don't add up, or too few items for three parts.
    """
    if len(shares) != 3 or min(shares) <= 0 or abs(sum(shares) - 1) > 1e-9:
        raise UserError(
            f"shares of train, validation and test are {list(shares)}", where="probe.shares",
            expected="three positive numbers that add up to 1", fix="for example [0.6, 0.2, 0.2]",
        )  # fmt: skip
    splits = []
    for repeat in range(repeats):
        parts = _spread(strata, np.cumsum(shares)[:2], np.random.default_rng([seed, repeat]))
        if len(np.unique(parts)) < 3:
            what, fix = f"{len(strata)} items are too few to divide", "take more questions"
            raise UserError(what, where="probe.splits", expected="items in each of three parts", fix=fix)
        splits.append(Split("random", repeat, parts == 0, parts == 1, parts == 2))
    return tuple(splits)


def _spread(strata: np.ndarray, bounds: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Part of every item, int64 [item]: along the strata a golden-ratio sequence falls into each part evenly."""
    order = np.lexsort((rng.random(len(strata)), strata))
    parts = np.empty(len(strata), dtype=np.int64)
    parts[order] = np.searchsorted(bounds, (rng.random() + _GOLDEN * np.arange(len(strata))) % 1, side="right")
    return parts


def family_splits(
    families: Sequence[str], labels: Mapping[str, np.ndarray], *, seed: int = 0, rotations: int = 4
) -> tuple[Split, ...]:
    """Hold out whole families: every family is tested in one rotation and validated in another.

    Of several random assignments of about equal size the one is taken whose folds hold the most of the rarer class, so
    that as few rotations as possible are lost to folds of one class.

    Args:
        families: [item].
        labels: name -> bool [item].
        seed: of the assignment.
        rotations: folds, at least 3; no more than there are families.

    Raises:
        UserError: fewer than three families or rotations.
    """
    names, codes = np.unique(np.asarray(families, dtype=object).astype(str), return_inverse=True)
    count = min(rotations, len(names))
    if count < 3:
        raise UserError(
            f"{len(names)} families in {rotations} rotations can't be held out", where="probe.rotations",
            expected="at least 3 of both: families for training, validation and test",
            fix="questions of more families, or the random split alone",
        )  # fmt: skip
    rng = np.random.default_rng([seed, 7])
    folds = max((_assign(codes, count, rng) for _ in range(_TRIES)), key=lambda f: _rarest(f, labels, count))
    return tuple(
        Split("family", r, ~np.isin(folds, [r, (r + 1) % count]), folds == (r + 1) % count, folds == r)
        for r in range(count)
    )


def _assign(codes: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Fold of every item, int64 [item]: families, the large ones first, go where the fewest items are."""
    sizes = np.bincount(codes)
    # Noise on the sizes, so that tries differ.
    order = np.argsort(-sizes * rng.uniform(0.5, 1.5, len(sizes)), kind="stable")
    fold, load = np.empty(len(sizes), dtype=np.int64), np.zeros(count)
    for family in order:
        fold[family] = load.argmin()
        load[fold[family]] += sizes[family]
    return fold[codes]


def _rarest(folds: np.ndarray, labels: Mapping[str, np.ndarray], count: int) -> tuple[int, int, float]:
    """How good an assignment is: folds and labels with both classes, items of the rarest class, even sizes."""
    sizes = np.bincount(folds, minlength=count)
    yes = [np.bincount(folds, weights=values, minlength=count) for values in labels.values()]
    rare = np.array([np.minimum(y, sizes - y) for y in yes]) if yes else np.ones((1, count))
    return int((rare > 0).sum()), int(rare.min()), -float(sizes.std())


def fold_codes(
    rows: np.ndarray, strata: np.ndarray, count: int, *, seed: int = 0, families: Sequence[str] | None = None
) -> np.ndarray:
    """Folds for cross-validation among some items.

    Args:
        rows: bool [item], which items are divided.
        strata: int [item], spread evenly over the folds.
        count: folds.
        seed: of the division.
        families: [item]; where given, a family never lies in two folds (fewer folds where there are fewer families).

    Returns:
        Fold of every item, int64 [item]; -1 outside of `rows`.
    """
    rng, codes = np.random.default_rng([seed, 11]), np.full(len(rows), -1, dtype=np.int64)
    if families is None:
        codes[rows] = _spread(strata[rows], np.arange(1, count) / count, rng)
        return codes
    _, inner = np.unique(np.asarray(families, dtype=object).astype(str)[rows], return_inverse=True)
    present = {str(s): strata[rows] == s for s in np.unique(strata[rows])}
    wanted = min(count, len(np.unique(inner)))
    tries = (_assign(inner, wanted, rng) for _ in range(_TRIES))
    codes[rows] = max(tries, key=lambda f: _rarest(f, present, wanted))
    return codes
