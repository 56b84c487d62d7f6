"""Probes solved one from the other: the same solutions as without a neighbour, whatever the neighbour said."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from test_logistic import labels, states

from toolsavvy.probes import hessian, newton
from toolsavvy.probes.hessian import Sketch, Whole, products, sums
from toolsavvy.probes.logistic import fit_cells
from toolsavvy.probes.problems import Problems


def odds_of(features: np.ndarray, targets: np.ndarray, strength: float) -> np.ndarray:
    z = StandardScaler().fit_transform(features.astype(np.float64))
    return LogisticRegression(C=strength, tol=1e-9, max_iter=20000).fit(z, targets).decision_function(z)


@pytest.mark.parametrize("strength", [0.01, 1.0])
def test_a_neighbour_costs_no_steps_and_changes_nothing(strength: float) -> None:
    rng = np.random.default_rng(0)
    first = states(rng, 300, 60)
    second = (first @ np.linalg.qr(rng.normal(size=(60, 60)))[0]).astype(np.float32)  # another basis
    targets = labels(rng, first)
    room = newton.Room()
    start = newton.solve(first, targets, strength, 1e-4, 1000, None, room).start
    alone = newton.solve(second, targets, strength, 1e-4, 1000, None, room)
    after = newton.solve(second, targets, strength, 1e-4, 1000, start, room)
    assert max(alone.gradient, after.gradient) <= 1e-4 and after.steps <= alone.steps
    expected = odds_of(second, targets, strength)
    for solution in (alone, after):
        assert np.abs(solution.start.odds - expected).max() < 0.03 * (1 + np.abs(expected).max())


@pytest.mark.parametrize("scale", [0.0, 50.0, -50.0])
def test_a_misleading_neighbour_does_no_harm(scale: float) -> None:
    rng = np.random.default_rng(1)
    features, targets = states(rng, 200, 30), rng.random(200) < 0.2
    start = newton.Start((scale * rng.normal(size=200)).astype(np.float32), 1)
    found = newton.solve(features, targets, 1.0, 1e-4, 1000, start, newton.Room())
    expected = odds_of(features, targets, 1.0)
    assert found.gradient <= 1e-4 and np.abs(found.start.odds - expected).max() < 0.05 * (1 + np.abs(expected).max())


@pytest.mark.parametrize("strength", [1e-6, 1e-2, 1e4])
@pytest.mark.parametrize(("items", "d"), [(80, 300), (700, 40)])
def test_separable_and_wide_cells_in_a_chain(items: int, d: int, strength: float) -> None:
    rng = np.random.default_rng(2)
    cells = [states(rng, items, d) for _ in range(3)]
    targets = labels(rng, cells[0], 0.05)
    problems = Problems(targets[None], np.ones((1, items), bool), np.array([strength]))
    for cell, fits in zip(cells, fit_cells(cells, problems), strict=True):
        assert fits.gradient[0] <= 1e-4
        agreement = (fits.scores(cell)[0] > 0) == (odds_of(cell, targets, strength) > 0)
        assert agreement.mean() >= 0.98


def test_metrics_are_the_inverse_hessian() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(200, 40)).astype(np.float32)
    vector = rng.normal(size=40).astype(np.float32)
    exact = np.linalg.solve(rows.T @ rows + 3 * np.eye(40), vector)
    few = np.linalg.solve(rows[:20].T @ rows[:20] + 3 * np.eye(40), vector)
    np.testing.assert_allclose(Sketch(rows[:20].copy(), 3)(vector), few, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(Whole(rows.copy(), 3)(vector), exact, rtol=0.05, atol=2e-3)


def test_products_are_the_same_without_8_bit_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    rows = states(rng, 300, 20)
    exact = np.tril(rows.astype(np.float64).T @ rows)
    tolerance = 0.02 * np.sqrt(np.diag(exact))[:, None] * np.sqrt(np.diag(exact))
    assert (np.abs(np.tril(products(rows.copy())) - exact) <= tolerance).all()
    monkeypatch.delattr(hessian.torch, "_int_mm")
    assert (np.abs(np.tril(products(rows.copy())) - exact) <= 1e-4 * tolerance / 0.02 + 1e-6).all()


def test_sums_keep_every_item_once() -> None:
    rows = np.arange(14, dtype=np.float32).reshape(7, 2)
    whole = rows.sum(0)
    np.testing.assert_array_equal(sums(rows, 3).sum(0), whole)


def test_constant_features_leave_the_intercept_alone() -> None:
    """The state before a value is the same for every item at the embeddings: nothing but the base rate is known."""
    targets = np.arange(80) % 4 == 0
    found = newton.solve(np.full((80, 5), 3.0, dtype=np.float32), targets, 1.0, 1e-4, 1000, None, newton.Room())
    assert np.isfinite(found.gradient)
    (fits,) = fit_cells(
        [np.full((80, 5), 3.0, dtype=np.float32)], Problems(targets[None], np.ones((1, 80), bool), np.ones(1))
    )
    assert not fits.weights.any()
    assert fits.bias[0] == pytest.approx(np.log(20 / 60), abs=1e-2)
