"""Penalty, cell and threshold: the right one, reproducibly, with ties as documented."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss as oracle_loss
from sklearn.metrics import matthews_corrcoef, roc_auc_score

from toolsavvy.classification import mcc, sigmoid
from toolsavvy.hidden.cells import Cell
from toolsavvy.probes.selection import best_cell, best_strength, best_threshold, spread_positions
from toolsavvy.probes.tallies import Tallies, log_loss, no_tallies, tally


def test_the_threshold_has_the_highest_mcc_of_all() -> None:
    rng = np.random.default_rng(0)
    for seed in range(5):
        labels = rng.random(80) < 0.2
        scores = np.round(rng.normal(size=80) + labels - 2, 1)
        found = best_threshold(labels, scores)
        everything = mcc(labels, scores[:, None] > np.linspace(-6, 6, 2000))
        assert mcc(labels, scores > found) == pytest.approx(np.nanmax(everything)), seed


def test_ties_of_thresholds_go_to_the_one_nearest_to_even_odds() -> None:
    labels = np.array([0, 0, 1, 1], dtype=bool)
    assert best_threshold(labels, np.array([-2.0, -1.0, 1.0, 2.0])) == 0.0
    assert best_threshold(labels, np.array([1.0, 2.0, 4.0, 5.0])) == 3.0
    assert best_threshold(np.ones(4, dtype=bool), np.arange(4.0)) == 0.0, "MCC is undefined"
    assert best_threshold(labels, np.zeros(4)) == 0.0


def test_ties_of_cells_go_to_the_earlier_layer_then_nearer_the_end() -> None:
    cells = [Cell(2, -1), Cell(1, -3), Cell(1, -1, "question"), Cell(1, -1), Cell(0, -1)]
    assert best_cell(np.array([0.9, 0.9, 0.9, 0.9, 0.1]), cells) == 3
    assert best_cell(np.array([0.9, 0.9, 0.9 + 1e-13, np.nan, np.nan]), cells) == 2
    assert best_cell(np.array([0.9, np.nan, 0.8, 0.7, 0.6]), cells, np.array([0, 1, 1, 1, 1], dtype=bool)) == 2
    assert best_cell(np.full(5, np.nan), cells) is None
    assert best_cell(np.ones(5), cells, np.zeros(5, dtype=bool)) is None


def test_ties_of_strengths_go_to_the_stronger_penalty() -> None:
    assert best_strength(np.array([[0.6, 0.5, 0.5], [0.6, 0.5, 0.5]]), (1.0, 0.1, 0.01)) == 2
    assert best_strength(np.array([[0.2, np.nan, 0.1], [0.6, 0.5, 0.7]]), (0.01, 0.1, 1.0)) == 1, (
        "rows with NaN are out"
    )
    with pytest.raises(ValueError, match="no strength"):
        best_strength(np.full((2, 3), np.nan), (1.0, 2.0, 3.0))


def test_penalties_are_tried_at_every_layer_from_the_end_on() -> None:
    cells = [Cell(layer, p, of) for layer in (0, 1) for of in ("prompt", "question") for p in range(-10, 0)]
    chosen = [cells[i] for i in spread_positions(cells, 2)]
    assert {(c.layer, c.of, c.position) for c in chosen} == {
        (layer, of, p) for layer in (0, 1) for of in ("prompt", "question") for p in (-1, -6)
    }
    assert len(spread_positions(cells[:1], 3)) == 1


def test_tallies_hold_every_metric_and_add_up_over_rotations() -> None:
    rng = np.random.default_rng(1)
    parts = [(rng.random(50) < 0.4, rng.normal(size=50) + shift) for shift in (0.0, 1.5)]
    counts = np.stack([tally(y, s) for y, s in parts])
    each = Tallies(counts)
    np.testing.assert_allclose(each.metric("auc"), [roc_auc_score(y, s) for y, s in parts])
    np.testing.assert_allclose(each.metric("mcc"), [matthews_corrcoef(y, s > 0) for y, s in parts])
    together, said = np.concatenate([y for y, _ in parts]), np.concatenate([s > 0 for _, s in parts])
    pooled = Tallies(np.concatenate([counts, no_tallies((1,))])).pooled(0)
    assert pooled.metric("mcc") == pytest.approx(matthews_corrcoef(together, said))
    pairs = [y.sum() * (~y).sum() for y, _ in parts]
    assert pooled.metric("auc") == pytest.approx(np.average(each.metric("auc"), weights=pairs)), "within rotations"
    assert np.isnan(Tallies(no_tallies((3, 2))).pooled(1).metric("accuracy")).all()


def test_log_loss_is_scikit_learns() -> None:
    rng = np.random.default_rng(2)
    labels, scores = rng.random(40) < 0.5, rng.normal(size=(2, 40)) * 5
    np.testing.assert_allclose(log_loss(labels, scores), [oracle_loss(labels, sigmoid(s)) for s in scores])
    assert log_loss(np.ones(1, dtype=bool), np.array([-1e4])) == 1e4
