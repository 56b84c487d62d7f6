"""What a study of probes gives: heat maps, the chosen cells with their tests, controls, cosines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from toolsavvy.classification import Comparison, Quality
from toolsavvy.hidden.cells import Cell
from toolsavvy.probes.directions import Alignment, Method, Space, ceiling, chance, disattenuated
from toolsavvy.probes.plan import Skipped, StudySettings
from toolsavvy.probes.splits import Split, SplitName
from toolsavvy.probes.tallies import Tallies

Verdict = Literal["beyond_surface", "surface", "noise"]


@dataclass(frozen=True)
class Grid:
    """Values of cells as a heat map.

    Args:
        layers: ascending.
        positions: ascending, so that the last token is the last column.
        values: float64 [layer, position]; NaN where there is no cell or no value.
    """

    layers: tuple[int, ...]
    positions: tuple[int, ...]
    values: np.ndarray


def grid(cells: Sequence[Cell], values: np.ndarray, of: str = "prompt") -> Grid:
    """Lay one value a cell out by layer and position, for the cells of one kind (prompt | question)."""
    chosen = [(c, v) for c, v in zip(cells, values, strict=True) if c.of == of]
    layers = tuple(sorted({c.layer for c, _ in chosen}))
    positions = tuple(sorted({c.position for c, _ in chosen}))
    table = np.full((len(layers), len(positions)), np.nan)
    for cell, value in chosen:
        table[layers.index(cell.layer), positions.index(cell.position)] = value
    return Grid(layers, positions, table)


@dataclass(frozen=True)
class Chosen:
    """The cell that validation chose in one rotation, and the probe there.

    Args:
        rotation: of the split.
        index: of the cell, in the order in which cells are read.
        cell: layer and position.
        strength: C, chosen on training items.
        threshold: on log-odds, chosen on validation items by MCC.
        validation: value that the cell was chosen by.
        weights: float32 [d], on standardised features.
        bias: log-odds are weights @ (x - mean) / scale + bias.
        mean: float32 [d].
        scale: float32 [d].
    """

    rotation: int
    index: int
    cell: Cell
    strength: float
    threshold: float
    validation: float
    weights: np.ndarray
    bias: float
    mean: np.ndarray
    scale: np.ndarray

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Log-odds of raw states of this cell, float64 [item], from [item, d]."""
        return (np.asarray(features, dtype=np.float64) - self.mean) / self.scale @ self.weights + self.bias

    @property
    def raw(self) -> np.ndarray:
        """Weights on raw features, float64 [d]: what steering adds, up to its length."""
        return self.weights.astype(np.float64) / self.scale


@dataclass(frozen=True)
class HeldOut:
    """Scores of test items, each by the fit of the rotation that tests it.

    Args:
        rows: int64 [k], test items, ascending.
        scores: float64 [k], log-odds.
        thresholds: float64 [k], chosen on the validation items of the item's rotation.
        rotation: int64 [k].
    """

    rows: np.ndarray
    scores: np.ndarray
    thresholds: np.ndarray
    rotation: np.ndarray

    def at(self, rows: np.ndarray) -> HeldOut:
        """Some of the items, int64 [k] ascending.

        Raises:
            ValueError: one of them was not tested.
        """
        places = np.searchsorted(self.rows, rows)
        if len(rows) and (places.max() >= len(self.rows) or not np.array_equal(self.rows[places], rows)):
            raise ValueError("an item was not tested")
        return HeldOut(rows, self.scores[places], self.thresholds[places], self.rotation[places])

    def spread(self, count: int) -> np.ndarray:
        """Scores of all items, float64 [count]; NaN where an item was not tested."""
        found = np.full(count, np.nan)
        found[self.rows] = self.scores
        return found


@dataclass(frozen=True)
class Rival:
    """What something simpler, or something with more to see, makes of the same test items.

    Args:
        name: surface | family | surface_family | combined (surface and hidden states).
        half: its quality at a probability of 0.5.
        tuned: at the threshold that validation chose by MCC.
        difference: the probe minus it, both at their tuned thresholds.
    """

    name: str
    half: Quality
    tuned: Quality
    difference: Comparison


@dataclass(frozen=True)
class Shuffled:
    """The whole procedure on shuffled labels, [repeat] each; the penalty is the one chosen for the real labels.

    Args:
        auc: on test items, of the cell that validation chose.
        mcc: the same, at a probability of 0.5; NaN where it is undefined.
        best_auc: the best of all cells on test items: what choosing on the test set makes of nothing.
        best_mcc: likewise.
        p: share of repeats, the observed one counted in, with at least the observed AUC; None without repeats.
    """

    auc: np.ndarray
    mcc: np.ndarray
    best_auc: np.ndarray
    best_mcc: np.ndarray
    p: float | None


@dataclass(frozen=True)
class Controls:
    """What a probe has to be better than.

    Args:
        surface: a probe on surface features alone; None where none were given.
        family: the majority label of the item's family among training items, of all training items for new families.
        surface_family: surface features with the family as an indicator; None where none were given.
        combined: surface features and hidden states together; None where none were given.
        increment: combined minus surface, at tuned thresholds: what hidden states add.
        shuffled: the null.
    """

    surface: Rival | None
    family: Rival
    surface_family: Rival | None
    combined: Rival | None
    increment: Comparison | None
    shuffled: Shuffled

    def rivals(self) -> tuple[Rival, ...]:
        """Those there are, in the order of tables."""
        all_of_them = (self.surface, self.family, self.surface_family, self.combined)
        return tuple(r for r in all_of_them if r is not None)


@dataclass(frozen=True)
class Probe:
    """One label under one split.

    Args:
        label: its name.
        split: random | family.
        positive: share of positive items, over all.
        validation: counts of every cell on validation items, pooled over rotations, [cell].
        test: the same on test items: for heat maps, never for choosing.
        chosen: one a rotation.
        held_out: test scores, each from the cell that its rotation chose.
        half: quality on test items at a probability of 0.5.
        tuned: at the thresholds that validation chose by MCC.
        controls: what it has to be better than.
    """

    label: str
    split: SplitName
    positive: float
    validation: Tallies
    test: Tallies
    chosen: tuple[Chosen, ...]
    held_out: HeldOut
    half: Quality
    tuned: Quality
    controls: Controls

    @property
    def above_shuffled(self) -> bool:
        """AUC beats one half and every shuffled repeat."""
        low, null = self.half.auc.low, self.controls.shuffled.auc
        value = self.half.auc.value
        beaten = value is not None and not (null >= value).any()
        return beaten and low is not None and low > 0.5

    @property
    def above_surface(self) -> bool:
        """AUC beats whatever sees surface features or families alone, with the interval of the difference."""
        lows = [r.difference.auc.interval.low for r in self.controls.rivals() if r.name != "combined"]
        return all(low is not None and low > 0 for low in lows)

    @property
    def verdict(self) -> Verdict:
        """In short: noise, surface (above shuffled labels), or beyond surface (above every simple rival too).

        What is not shown to be above a control counts as no better: few items or a rare class give the lower word.
        """
        if not self.above_shuffled:
            return "noise"
        return "beyond_surface" if self.above_surface else "surface"


@dataclass(frozen=True)
class CosineMap:
    """Directions of two labels in every cell.

    Args:
        first: name of a label.
        second: of another.
        method: logistic | mean_difference.
        space: standardised | raw.
        parts: float64 [cell, 4]: cosine of the directions from all training items, cosine across halves, reliability of
            the first and of the second label's direction.
        d: width of the states.
    """

    first: str
    second: str
    method: Method
    space: Space
    parts: np.ndarray
    d: int

    @property
    def cosine(self) -> np.ndarray:
        """Of the directions from all training items, float64 [cell]."""
        return self.parts[:, 0]

    @property
    def ceiling(self) -> np.ndarray:
        """Highest cosine across halves that noise allows, float64 [cell]; NaN where a direction is noise."""
        return ceiling(self.parts, chance(self.d))

    @property
    def disattenuated(self) -> np.ndarray:
        """Cosine across halves over its ceiling, float64 [cell]."""
        return disattenuated(self.parts, chance(self.d))


@dataclass(frozen=True)
class CellAlignment:
    """Cosines with intervals, in a cell that was chosen.

    Args:
        first: name of a label.
        second: of another.
        cell: layer and position.
        chosen_for: the label whose probe chose it.
        alignments: every method in every space.
    """

    first: str
    second: str
    cell: Cell
    chosen_for: str
    alignments: tuple[Alignment, ...]


@dataclass(frozen=True)
class Study:
    """Everything about the probes of one run.

    Args:
        settings: as given.
        cells: in the order in which they are read.
        splits: the divisions of items that all labels shared.
        probes: every label under every split that could be trained.
        skipped: those that could not, and rotations that are missing.
        cosines: maps of every pair of labels, method and space, from the first division's training items.
        alignments: cosines with intervals in chosen cells.
        missing: int64 [cell], items without the cell.
        broken: int64 [cell], items whose state is not finite though it is there; they are left out too.
        strengths: float64 [cell, label, division], C of every cell.
        out_of_fold: split -> label -> float64 [item], log-odds by probes that have not seen the item, NaN where there
            are none. random: folds over all items, the same for all labels, in each label's cell of the random split;
            family: test scores of the rotations.
    """

    settings: StudySettings
    cells: tuple[Cell, ...]
    splits: tuple[Split, ...]
    probes: tuple[Probe, ...]
    skipped: tuple[Skipped, ...]
    cosines: tuple[CosineMap, ...]
    alignments: tuple[CellAlignment, ...]
    missing: np.ndarray
    broken: np.ndarray
    strengths: np.ndarray
    out_of_fold: Mapping[str, Mapping[str, np.ndarray]]

    def probe(self, label: str, split: str) -> Probe | None:
        """One of the probes; None where it was skipped."""
        return next((p for p in self.probes if (p.label, p.split) == (label, split)), None)

    def cosine_map(
        self, first: str, second: str, method: Method = "logistic", space: Space = "raw"
    ) -> CosineMap | None:
        """One of the cosine maps; None where there is none."""
        wanted = (first, second, method, space)
        return next((m for m in self.cosines if (m.first, m.second, m.method, m.space) == wanted), None)

    def heat_map(self, probe: Probe, metric: str = "mcc", part: str = "test", of: str = "prompt") -> Grid:
        """A metric (mcc, auc, accuracy, f1) of every cell on validation or test items."""
        return grid(self.cells, getattr(probe, part).metric(metric), of)
