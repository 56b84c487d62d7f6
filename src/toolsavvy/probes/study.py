"""Probes of every label on every cell under every split, from one pass over the hidden states.

Order of the work: items are divided; C is chosen for every layer on training items of a few positions; every cell is
read once and all its probes, shuffles and halves are fitted together, of which counts alone are kept; validation
chooses a cell in every rotation; the chosen cells are read again for scores, controls and intervals.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from toolsavvy.classification import Comparison, compare, quality
from toolsavvy.errors import UserError
from toolsavvy.hidden.cells import Cells
from toolsavvy.metrics import Interval
from toolsavvy.probes.controls import (
    SURFACE_STRENGTHS,
    family_scores,
    hold_out,
    indicators,
    predictions,
    rival,
    shuffled,
    tuned_scores,
    validated_threshold,
)
from toolsavvy.probes.directions import METHODS, SPACES, alignment
from toolsavvy.probes.heldout import out_of_fold
from toolsavvy.probes.measuring import REAL, TEST, VALIDATION, half_samples, measure, tune
from toolsavvy.probes.plan import Batch, Plan, Skipped, StudySettings, finite_rows
from toolsavvy.probes.results import CellAlignment, Chosen, Controls, CosineMap, HeldOut, Probe, Rival, Study
from toolsavvy.probes.selection import best_cell, best_strength, spread_positions
from toolsavvy.probes.splits import SplitName
from toolsavvy.probes.store import CellStore
from toolsavvy.probes.tallies import Tallies

log = logging.getLogger("toolsavvy")
Heard = Callable[[int, int], None]
"""Told how many cells are done, and of how many."""


def study(
    cells: Cells,
    labels: Mapping[str, np.ndarray],
    families: Sequence[str],
    surface: np.ndarray | None = None,
    *,
    settings: StudySettings | None = None,
    heard: Heard | None = None,
    store: Path | None = None,
    key: str = "",
) -> Study:
    """Train, choose, test and control the probes of all labels.

    Args:
        cells: hidden states of the items.
        labels: name -> bool [item], for example necessity and action.
        families: [item], groups of the family split.
        surface: float [item, f], what can be seen of an item without a model; None leaves that control out.
        settings: how.
        heard: told of progress.
        store: file of finished cells, so that a run that was cut off goes on where it was.
        key: identifies the hidden states, so that a store of other states is refused.

    Returns:
        A label with one class is skipped with its reason; the others go on.

    Raises:
        UserError: arrays that don't fit, settings out of range, a store of something else, or states of which none is
            finite.
    """
    plan = Plan.of(labels, families, settings or StudySettings())
    for lost in plan.skipped:
        log.warning("%s split, %s: %s", lost.split, lost.label, lost.reason)
    run = _Run(plan, cells, surface, CellStore(store, plan.digest(cells.cells, key)), heard)
    if plan.usable.any():
        run.tune()
        run.measure()
    return run.study()


class _Run:
    """One study under way.

    Args:
        plan: what is done.
        cells: hidden states.
        surface: float [item, f] or None.
        store: finished cells.
        heard: told of progress.
    """

    def __init__(
        self, plan: Plan, cells: Cells, surface: np.ndarray | None, store: CellStore, heard: Heard | None
    ) -> None:
        self.plan, self.cells, self.store, self.heard = plan, cells, store, heard
        self.places = tuple(cells.cells)
        self.surface = None if surface is None else _surface(surface, plan.labels.shape[1])
        self.fitter = plan.settings.fitter()
        self.strengths = np.full((len(self.places), *plan.usable.shape), plan.settings.choices[0])
        self._read: tuple[int, np.ndarray] | None = None

    def read(self, index: int) -> np.ndarray:
        """States of a cell; the last one is kept, since choices often fall on one."""
        if self._read is None or self._read[0] != index:
            states = self.cells.read(index)
            if len(states) != (count := self.plan.labels.shape[1]):
                what = f"{len(states)} hidden states but {count} labels"
                raise UserError(what, where=str(self.places[index]), expected="one an item")
            self._read = index, states
        return self._read[1]

    def tune(self) -> None:
        """Choose C for every label, division and layer; all cells of the layer use it."""
        choices = self.plan.settings.choices
        if len(choices) == 1:
            return
        chosen = spread_positions(self.places, self.plan.settings.tuned)
        for index in chosen:
            if ("tune", index) not in self.store:
                self.store.add("tune", index, tune(self.plan, self.read(index), self.fitter))
        for layer in {cell.layer for cell in self.places}:
            members = [i for i, cell in enumerate(self.places) if cell.layer == layer]
            losses = np.array([self.store["tune", i]["losses"] for i in members if i in chosen])
            for i, j in np.argwhere(self.plan.usable):
                if np.isfinite(losses[:, i, j]).all(-1).any():
                    self.strengths[members, i, j] = choices[best_strength(losses[:, i, j], choices)]

    def measure(self) -> None:
        """Fit everything on every cell that is not done."""
        for index in range(len(self.places)):
            if ("measure", index) not in self.store:
                arrays = measure(self.plan, self.read(index), self.strengths[index], self.fitter)
                self.store.add("measure", index, arrays)
            if self.heard is not None:
                self.heard(index + 1, len(self.places))

    def study(self) -> Study:
        """Choose, test, control."""
        plan, skipped = self.plan, list(self.plan.skipped)
        missing = np.zeros((len(self.places), 2), dtype=np.int64)
        probes: list[Probe] = []
        if plan.usable.any():
            self.counts = self._stacked("tallies")
            missing = self._stacked("missing").astype(np.int64)
            absent = missing.sum(1) / plan.labels.shape[1]
            if (absent == 1).all():
                raise UserError(
                    "no hidden state is finite", where="hidden states", expected="numbers",
                    fix="capture them in float32 or bfloat16: float16 overflows in some models",
                )  # fmt: skip
            self.eligible = absent <= 1 - plan.settings.coverage + 1e-9
            for split in dict.fromkeys(plan.settings.splits):
                for label in range(len(plan.names)):
                    probes += self._probe(split, label, skipped)
        return Study(
            plan.settings, self.places, plan.splits, tuple(probes), tuple(skipped), self._maps(),
            self._alignments(probes), missing[:, 0], missing[:, 1], self.strengths, self._out_of_fold(probes),
        )  # fmt: skip

    def _stacked(self, name: str) -> np.ndarray:
        """One array of all cells."""
        return np.stack([self.store["measure", i][name] for i in range(len(self.places))])

    def _probe(self, split: SplitName, label: int, skipped: list[Skipped]) -> list[Probe]:
        """Choose a cell in every rotation and test it there; [] where nothing can be chosen."""
        plan = self.plan
        picked: list[tuple[int, int, float]] = []
        for division in plan.divisions(split, label):
            counts = Tallies(self.counts[:, label, division, REAL, VALIDATION])
            values = counts.metric(plan.settings.select_by)
            cell = best_cell(values, self.places, self.eligible)
            if cell is None:
                reason = f"no cell has a {plan.settings.select_by} on validation items"
                skipped.append(Skipped(plan.names[label], split, plan.splits[division].rotation, reason))
            else:
                picked.append((division, cell, float(values[cell])))
        return [self._tested(split, label, picked)] if picked else []

    def _tested(self, split: SplitName, label: int, picked: Sequence[tuple[int, int, float]]) -> Probe:
        """Refit the chosen cells and look at their test items."""
        plan, grouped, divisions = self.plan, split == "family", [d for d, _, _ in picked]
        chosen, scores = zip(*(self._chosen(label, *p) for p in picked), strict=True)
        held = hold_out(plan, label, divisions, scores)
        n, seed = plan.settings.resamples, plan.settings.seed
        half, tuned = (
            quality(predictions(plan, label, held, tuned=t, grouped=grouped), n, seed) for t in (False, True)
        )
        own = self.counts[:, label, divisions, REAL]
        return Probe(
            plan.names[label], split, float(plan.labels[label].mean()), Tallies(own[:, :, VALIDATION]).pooled(1),
            Tallies(own[:, :, TEST]).pooled(1), chosen, held, half, tuned,
            self._controls(label, picked, held, grouped, half.auc),
        )  # fmt: skip

    def _chosen(self, label: int, division: int, cell: int, value: float) -> tuple[Chosen, np.ndarray]:
        """The probe of one chosen cell, and its log-odds of all items."""
        states, strength = self.read(cell), float(self.strengths[cell, label, division])
        batch = Batch(finite_rows(states))
        batch.add(self.plan.labels[label], self.plan.splits[division].train, strength)
        fits = batch.fit(self.fitter, states)
        assert fits is not None, "a cell with a validation value has been fitted before"
        scores = np.where(batch.valid, fits.scores(states)[0], np.nan).astype(np.float64)
        threshold = validated_threshold(self.plan, label, division, scores)
        rotation = self.plan.splits[division].rotation
        found = Chosen(
            rotation, cell, self.places[cell], strength, threshold, value,
            fits.weights[0], float(fits.bias[0]), fits.mean[0], fits.scale[0],
        )  # fmt: skip
        return found, scores

    def _controls(
        self, label: int, picked: Sequence[tuple[int, int, float]], held: HeldOut, grouped: bool, auc: Interval
    ) -> Controls:
        """Everything that the probe is set beside."""
        plan, divisions = self.plan, [d for d, _, _ in picked]
        train = [plan.splits[d].train for d in divisions]
        families = [family_scores(plan.labels[label], plan.families, rows) for rows in train]
        rivals: dict[str, Rival] = {}
        kept: dict[str, HeldOut] = {}

        def add(name: str, scores: Sequence[np.ndarray]) -> None:
            kept[name] = hold_out(plan, label, divisions, scores)
            rivals[name] = rival(plan, label, name, held, kept[name], grouped=grouped)

        add("family", families)
        if self.surface is not None:
            both = np.concatenate([self.surface, indicators(plan.families)], axis=1)
            for name, features in (("surface", self.surface), ("surface_family", both)):
                add(name, [self._tuned(label, d, features, SURFACE_STRENGTHS) for d in divisions])
            add("combined", [self._combined(label, d, cell) for d, cell, _ in picked])
        null = shuffled(plan, label, divisions, self.counts, self.eligible, self.places, auc.value)
        increment = self._increment(label, held, kept, grouped) if self.surface is not None else None
        surface, joint, more = (rivals.get(name) for name in ("surface", "surface_family", "combined"))
        return Controls(surface, rivals["family"], joint, more, increment, null)

    def _tuned(self, label: int, division: int, features: np.ndarray, strengths: Sequence[float]) -> np.ndarray:
        """Scores of a probe on other features, always by logistic regression."""
        from toolsavvy.probes.logistic import fit

        return tuned_scores(self.plan, label, division, features, strengths, fit)

    def _combined(self, label: int, division: int, cell: int) -> np.ndarray:
        """Scores of a probe that sees surface features beside the chosen cell."""
        assert self.surface is not None
        features = np.concatenate([self.surface, self.read(cell)], axis=1)
        return self._tuned(label, division, features, self.plan.settings.strengths)

    def _increment(self, label: int, held: HeldOut, kept: Mapping[str, HeldOut], grouped: bool) -> Comparison:
        """Combined minus surface, on the items of the probe."""
        more, less = (
            predictions(self.plan, label, kept[name].at(held.rows), tuned=True, grouped=grouped)
            for name in ("combined", "surface")
        )
        return compare(more, less, self.plan.settings.resamples, self.plan.settings.seed)

    def _maps(self) -> tuple[CosineMap, ...]:
        """Cosines of every pair of labels in every cell."""
        if not self.plan.pairs:
            return ()
        relations, d = self._stacked("relations"), self.read(0).shape[1]
        return tuple(
            CosineMap(self.plan.names[a], self.plan.names[b], method, space, relations[:, p, m, s], d)
            for p, (a, b) in enumerate(self.plan.pairs)
            for m, method in enumerate(METHODS)
            for s, space in enumerate(SPACES)
        )

    def _alignments(self, probes: Sequence[Probe]) -> tuple[CellAlignment, ...]:
        """Cosines with intervals, in the cells that the first division's probes chose."""
        plan = self.plan
        if not plan.pairs:
            return ()
        relations, found = self._stacked("relations"), []
        first = {p.label: p.chosen[0] for p in probes if p.split == plan.splits[0].name and p.chosen[0].rotation == 0}
        for label, chosen in first.items():
            states = self.read(chosen.index)
            drawn = half_samples(plan, states, self.strengths[chosen.index, :, 0], self.fitter)
            n = int((plan.splits[0].train & finite_rows(states)).sum())
            for p, (a, b) in enumerate(plan.pairs):
                parts = tuple(
                    alignment(method, space, relations[chosen.index, p, m, s], drawn[:, p, m, s], n, states.shape[1])
                    for m, method in enumerate(METHODS)
                    for s, space in enumerate(SPACES)
                )
                found.append(CellAlignment(plan.names[a], plan.names[b], chosen.cell, label, parts))
        return tuple(found)

    def _out_of_fold(self, probes: Sequence[Probe]) -> dict[str, dict[str, np.ndarray]]:
        """Scores of every item by probes that have not seen it."""
        plan, count = self.plan, self.plan.labels.shape[1]
        found: dict[str, dict[str, np.ndarray]] = {}
        alone = {p.label: p.chosen[0] for p in probes if p.split == "random"}
        if alone:
            found["random"] = out_of_fold(
                {name: self.read(c.index) for name, c in alone.items()},
                {name: plan.labels[plan.names.index(name)] for name in alone},
                {name: c.strength for name, c in alone.items()},
                self.fitter, folds=plan.settings.fold_out, seed=plan.settings.seed,
            )  # fmt: skip
        for probe in probes:
            if probe.split == "family":
                found.setdefault("family", {})[probe.label] = probe.held_out.spread(count)
        return found


def _surface(surface: np.ndarray, count: int) -> np.ndarray:
    """Surface features as float32 [item, f].

    Raises:
        UserError: another number of items, or a feature that is not finite.
    """
    table = np.asarray(surface, dtype=np.float32)
    if table.ndim != 2 or len(table) != count or not np.isfinite(table).all():
        raise UserError(
            f"surface features {table.shape}", where="probes", expected=f"finite numbers [{count} items, features]"
        )
    return table
