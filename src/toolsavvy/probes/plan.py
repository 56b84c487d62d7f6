"""What a study of probes will do, before any cell is read: settings, divisions of items, what has to be skipped."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, product
from typing import Any, Literal

import numpy as np

from toolsavvy.errors import UserError
from toolsavvy.hidden.cells import Cell
from toolsavvy.probes.directions import Fitter, halves
from toolsavvy.probes.problems import Fits, Problems
from toolsavvy.probes.splits import OneClass, Split, SplitName, family_splits, fold_codes, quadrants, random_splits

LEAST = 2
"""Items of each class that train and validation must have."""


@dataclass(frozen=True)
class StudySettings:
    """How probes are trained, chosen and controlled.

    Args:
        recipe: ours (L2 logistic regression on standardised features) | paper (the published training, no C to choose).
        splits: random and/or family (whole families held out).
        shares: of train, validation and test in the random split.
        rotations: of the family split, so that each family is tested once.
        strengths: inverse penalties C to choose from, on training items alone.
        folds: of that choice.
        tuned: positions of every layer and kind on which C is chosen; all of the layer's cells then use it.
        shuffles: times that the labels are shuffled.
        halvings: times that the training items are halved, for the ceiling of cosines.
        mean_halvings: the same for mean differences, which cost next to nothing.
        half_samples: random halves of the training items, for the intervals of cosines.
        select_by: auc | mcc (at 0.5), of a cell on validation items.
        coverage: share of items that a cell must have to be chosen; positions that short texts lack can't be compared.
        fold_out: folds of the out-of-fold scores.
        resamples: of the bootstrap.
        tolerance: of the solver.
        seed: of everything that is drawn.
    """

    recipe: Literal["ours", "paper"] = "ours"
    splits: tuple[SplitName, ...] = ("random", "family")
    shares: tuple[float, float, float] = (0.6, 0.2, 0.2)
    rotations: int = 4
    strengths: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1)
    folds: int = 3
    tuned: int = 2
    shuffles: int = 3
    halvings: int = 3
    mean_halvings: int = 10
    half_samples: int = 40
    select_by: Literal["auc", "mcc"] = "auc"
    coverage: float = 0.95
    fold_out: int = 5
    resamples: int = 1000
    tolerance: float = 1e-4
    seed: int = 0

    @property
    def choices(self) -> tuple[float, ...]:
        """Strengths that are tried; the published recipe has none."""
        return self.strengths if self.recipe == "ours" else (1.0,)

    def fitter(self) -> Fitter:
        """What fits the problems of a cell."""
        if self.recipe == "paper":
            from toolsavvy.probes.published import published_recipe

            return lambda x, p: published_recipe(x[None], p.targets, p.rows, seed=self.seed)[0]
        from toolsavvy.probes.logistic import fit

        return lambda x, p: fit(x, p, tolerance=self.tolerance)


@dataclass(frozen=True)
class Skipped:
    """A probe that could not be trained, chosen or tested.

    Args:
        label: its name.
        split: random | family.
        rotation: the one that is missing; None where nothing is left.
        reason: one sentence.
    """

    label: str
    split: SplitName
    rotation: int | None
    reason: str


@dataclass(frozen=True)
class Plan:
    """Everything that is fixed before the first cell.

    Args:
        settings: as given.
        names: of the labels.
        labels: bool [label, item].
        families: [item].
        splits: all divisions of all schemes, in one row.
        usable: bool [label, division].
        skipped: what is not, and why.
        strata: int64 [item], combination of labels.
        folds: int64 [division, item], folds of the training items; -1 elsewhere.
        orders: int64 [shuffle, item], permutations.
        halves: bool [halving, 2, item], of the first division's training items.
    """

    settings: StudySettings
    names: tuple[str, ...]
    labels: np.ndarray
    families: tuple[str, ...]
    splits: tuple[Split, ...]
    usable: np.ndarray
    skipped: tuple[Skipped, ...]
    strata: np.ndarray
    folds: np.ndarray
    orders: np.ndarray
    halves: np.ndarray

    @classmethod
    def of(cls, labels: Mapping[str, np.ndarray], families: Sequence[str], settings: StudySettings) -> Plan:
        """Divide the items, and look which labels have both classes where.

        Raises:
            UserError: no labels, arrays of different lengths, a setting out of range, or items that can't be divided.
        """
        table = {name: np.asarray(values, dtype=bool) for name, values in labels.items()}
        _check(table, families, settings)
        strata = quadrants(table)
        splits = _splits(table, families, strata, settings)
        usable, skipped = _usable(table, splits)
        names, seed = tuple(str(f) for f in families), settings.seed
        groups = [names if s.name == "family" else None for s in splits]
        folds = [
            fold_codes(split.train, strata, settings.folds, seed=seed, families=group)
            for split, group in zip(splits, groups, strict=True)
        ]
        orders = [np.random.default_rng([seed, 17, k]).permutation(len(strata)) for k in range(settings.shuffles)]
        return cls(
            settings, tuple(table), np.stack(list(table.values())), names, splits, usable, skipped, strata,
            np.array(folds), np.array(orders, dtype=np.int64).reshape(-1, len(strata)),
            halves(splits[0].train, strata, settings.halvings, seed=seed),
        )  # fmt: skip

    def divisions(self, split: SplitName, label: int) -> list[int]:
        """Usable rotations of one scheme, as indices of `splits`."""
        return [i for i, s in enumerate(self.splits) if s.name == split and self.usable[label, i]]

    @property
    def directed(self) -> tuple[int, ...]:
        """Labels that have directions: those that the first division can train."""
        return tuple(i for i in range(len(self.names)) if self.usable[i, 0])

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of labels that have directions."""
        return tuple(combinations(self.directed, 2))

    def digest(self, cells: Sequence[Cell], key: str) -> str:
        """Digest of all that results follow from; `key` identifies the hidden states."""
        digest = hashlib.sha256(repr((key, sorted(asdict(self.settings).items()), self.names)).encode())
        digest.update(repr([(c.layer, c.position, c.of) for c in cells]).encode())
        digest.update(np.packbits(self.labels).tobytes() + "\0".join(self.families).encode())
        return digest.hexdigest()[:32]


def _check(labels: Mapping[str, np.ndarray], families: Sequence[str], settings: StudySettings) -> None:
    """Refuse settings and arrays that no study follows from."""
    lengths = {len(values) for values in labels.values()} | {len(families)}
    if not labels or len(lengths) != 1:
        raise UserError(f"labels and families of {sorted(lengths)} items", where="probes", expected="one entry an item")
    if not settings.splits:
        raise UserError("no split is named", where="probe.splits", expected="random, family or both")
    for name, least in (("folds", 2), ("tuned", 1), ("shuffles", 0), ("halvings", 1), ("fold_out", 2)):
        if getattr(settings, name) < least:
            raise UserError(f"{name} is {getattr(settings, name)}", where=f"probe.{name}", expected=f"at least {least}")
    if not settings.strengths or min(settings.strengths) <= 0:
        raise UserError(
            f"strengths are {list(settings.strengths)}", where="probe.strengths", expected="positive numbers"
        )


def _splits(
    labels: Mapping[str, np.ndarray], families: Sequence[str], strata: np.ndarray, settings: StudySettings
) -> tuple[Split, ...]:
    """Divisions of every scheme that is asked for."""
    splits: list[Split] = []
    for name in settings.splits:
        if name == "random":
            splits += random_splits(strata, seed=settings.seed, shares=settings.shares)
        else:
            splits += family_splits(families, labels, seed=settings.seed, rotations=settings.rotations)
    return tuple(splits)


def _usable(labels: Mapping[str, np.ndarray], splits: Sequence[Split]) -> tuple[np.ndarray, tuple[Skipped, ...]]:
    """Which label has both classes in the train and validation part of which division, and in the tests together."""
    usable = np.ones((len(labels), len(splits)), dtype=bool)
    skipped: list[Skipped] = []
    names: list[SplitName] = list(dict.fromkeys(s.name for s in splits))
    for (i, (label, values)), name in product(enumerate(labels.items()), names):
        of_scheme = [j for j, split in enumerate(splits) if split.name == name]
        lost = []
        for j in of_scheme:
            try:
                splits[j].check(label, values, ("train", "validation"), least=LEAST)
            except OneClass as error:
                usable[i, j] = False
                lost.append(Skipped(label, name, splits[j].rotation, error.what))
        test = np.any([splits[j].test & usable[i, j] for j in of_scheme], axis=0)
        if len(np.unique(values[test])) < 2:
            usable[i, of_scheme] = False
            yes, no = int(values.sum()), int((~values).sum())
            why = "" if min(yes, no) == 0 else ": no rotation has both in train, validation and test"
            lost = [Skipped(label, name, None, f"{label} has {yes} positive and {no} negative items{why}")]
        skipped += lost
    return usable, tuple(skipped)


def finite_rows(features: np.ndarray) -> np.ndarray:
    """Items that have the cell: bool [item], finite throughout."""
    return np.asarray(np.isfinite(features).all(1))


class Batch:
    """Problems of one cell that are fitted in one call.

    Args:
        valid: bool [item], items that have the cell.
    """

    def __init__(self, valid: np.ndarray) -> None:
        self.valid = valid
        self.slots: list[tuple[Any, ...]] = []
        self._targets: list[np.ndarray] = []
        self._rows: list[np.ndarray] = []
        self._strengths: list[float] = []

    def add(self, target: np.ndarray, rows: np.ndarray, strength: float, *slot: Any) -> None:
        """One more problem, unless a class is missing among the items that have the cell."""
        rows = rows & self.valid
        if min((target & rows).sum(), (~target & rows).sum()) >= LEAST:
            self.slots.append(slot)
            self._targets.append(target)
            self._rows.append(rows)
            self._strengths.append(strength)

    def problems(self) -> Problems:
        """All of them."""
        return Problems(np.array(self._targets), np.array(self._rows), np.array(self._strengths, dtype=np.float64))

    def fit(self, fitter: Fitter, features: np.ndarray) -> Fits | None:
        """Fit them; None without any."""
        return fitter(features, self.problems()) if self.slots else None
