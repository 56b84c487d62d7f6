"""Batched logistic regression beside scikit-learn's, one problem at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from toolsavvy.errors import UserError
from toolsavvy.hidden.cells import Cell
from toolsavvy.probes import lbfgs
from toolsavvy.probes.logistic import fit, fit_cells
from toolsavvy.probes.problems import Fits, Problems


def states(rng: np.random.Generator, items: int, d: int) -> np.ndarray:
    """Features like hidden states: a falling spectrum, means far from 0, two dimensions much wider than the others."""
    wide = rng.normal(size=(items, d)) * np.arange(1, d + 1) ** -0.8 @ rng.normal(size=(d, d))
    wide = wide * np.exp(rng.normal(size=d)) + 3 * rng.normal(size=d)
    wide[:, :2] = wide[:, :2] * 60 + 200
    return wide.astype(np.float32)


def labels(rng: np.random.Generator, features: np.ndarray, share: float = 0.5, noise: float = 1.0) -> np.ndarray:
    """Labels with a direction in the features and some noise; at least two of each class among the first items."""
    z = (features - features.mean(0)) / (features.std(0) + 1e-9)
    score = z @ rng.normal(size=z.shape[1]) / z.shape[1] ** 0.5 + noise * rng.normal(size=len(z))
    found = score > np.quantile(score, 1 - share)
    found[:4] = [True, False, True, False]
    return found


def masks(rng: np.random.Generator, problems: int, items: int) -> np.ndarray:
    rows = rng.random((problems, items)) < 0.7
    rows[:, :4] = True
    return rows


def loss(weights: np.ndarray, bias: float, z: np.ndarray, y: np.ndarray, strength: float) -> float:
    """The objective in float64."""
    odds = z @ weights.astype(np.float64) + bias
    return float(np.logaddexp(0, np.where(y, -odds, odds)).mean() + weights @ weights / (2 * strength * len(y)))


def gradient(weights: np.ndarray, bias: float, z: np.ndarray, y: np.ndarray, strength: float) -> np.ndarray:
    residual = 1 / (1 + np.exp(-(z @ weights.astype(np.float64) + bias))) - y
    return np.append(residual @ z / len(y) + weights / (strength * len(y)), residual.mean())


def reference(
    features: np.ndarray, problems: Problems, index: int, tolerance: float
) -> tuple[StandardScaler, LogisticRegression]:
    """scikit-learn's solution in float64."""
    rows = problems.rows[index]
    scaler = StandardScaler().fit(features[rows].astype(np.float64))
    model = LogisticRegression(C=problems.strengths[index], tol=tolerance, max_iter=20000)
    return scaler, model.fit(scaler.transform(features[rows].astype(np.float64)), problems.targets[index, rows])


def agrees(features: np.ndarray, problems: Problems, fits: Fits, tolerance: float = 1e-4) -> None:
    """Gradient as small as claimed, loss and predictions those of scikit-learn at a much smaller tolerance."""
    scores = fits.scores(features)
    for index in range(len(problems)):
        rows, strength = problems.rows[index], float(problems.strengths[index])
        scaler, model = reference(features, problems, index, 1e-9)
        z, y = scaler.transform(features[rows].astype(np.float64)), problems.targets[index, rows]
        weights, bias = fits.weights[index], float(fits.bias[index])
        slope = gradient(weights, bias, z, y, strength)
        assert fits.gradient[index] <= tolerance and np.abs(slope).max() <= 1.2 * tolerance + 2e-6
        best = loss(model.coef_[0], model.intercept_[0], z, y, strength)
        # convexity: the loss lies above the best by at most the gradient times the distance
        gap = np.abs(slope) @ np.abs(np.append(weights - model.coef_[0], bias - model.intercept_[0]))
        assert loss(weights, bias, z, y, strength) <= best + gap + 1e-6
        # strong convexity: the weights lie within |gradient| / (1 / (C n)) of the best
        assert np.linalg.norm(weights - model.coef_[0]) <= strength * len(y) * np.linalg.norm(slope) * 1.05 + 1e-4
        odds = model.decision_function(scaler.transform(features.astype(np.float64)))
        clear = np.abs(odds) > 0.05 * (1 + np.abs(odds).max())
        assert ((scores[index] > 0) == (odds > 0))[clear].all()


@settings(max_examples=12, deadline=None)
@given(
    items=st.integers(20, 160), d=st.integers(1, 90), share=st.sampled_from([0.05, 0.3, 0.5]),
    count=st.sampled_from([1, 3, 5]), seed=st.integers(0, 2**31),
)  # fmt: skip
def test_any_problem_is_solved_as_scikit_learn_does(items: int, d: int, share: float, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = states(rng, items, d)
    targets = np.stack([labels(rng, features, share) for _ in range(count)])
    strengths = 10.0 ** rng.uniform(-4, 1, count)
    problems = Problems(targets, masks(rng, count, items), strengths)
    agrees(features, problems, fit(features, problems))


@pytest.mark.parametrize("d", [6, 40])
def test_all_strengths_from_very_weak_to_very_strong(d: int) -> None:
    rng = np.random.default_rng(d)
    features = states(rng, 150, d)
    strengths = np.logspace(-6, 4, 11)
    targets = np.tile(labels(rng, features, 0.4), (11, 1))
    problems = Problems(targets, np.tile(masks(rng, 1, 150), (11, 1)), strengths)
    fits = fit(features, problems)
    assert (fits.gradient <= 1e-4).all() and (np.diff(np.linalg.norm(fits.weights, axis=1)) > 0).all()
    weak = Problems(targets[:7], problems.rows[:7], strengths[:7])
    agrees(features, weak, fit(features, weak))


def test_a_smaller_tolerance_gives_scikit_learn_s_weights() -> None:
    rng = np.random.default_rng(3)
    features = states(rng, 200, 30)
    problems = Problems(labels(rng, features)[None], np.ones((1, 200), bool), np.ones(1))
    fits = fit(features, problems, tolerance=2e-6)
    scaler, model = reference(features, problems, 0, 1e-10)
    np.testing.assert_allclose(fits.weights[0], model.coef_[0], atol=2e-3)
    np.testing.assert_allclose(fits.scores(features)[0], model.decision_function(scaler.transform(features)), atol=5e-3)
    np.testing.assert_allclose(fits.mean[0], scaler.mean_, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(fits.scale[0], scaler.scale_, rtol=1e-4)


def test_a_problem_alone_is_the_problem_among_others() -> None:
    rng = np.random.default_rng(5)
    features = states(rng, 120, 60)
    targets = np.stack([labels(rng, features) for _ in range(9)])
    problems = Problems(targets, masks(rng, 9, 120), np.logspace(-3, 1, 9))
    many = fit(features, problems, tolerance=1e-5)
    for index in (0, 4, 8):
        alone = Problems(targets[[index]], problems.rows[[index]], problems.strengths[[index]])
        single = fit(features, alone, tolerance=1e-5)
        far = np.abs(many.scores(features)[index] - single.scores(features)[0]).max()
        assert far < 0.02 * (1 + np.abs(single.scores(features)).max())


@pytest.mark.parametrize(("threads", "count"), [(1, 1), (2, 1), (2, 5)])
def test_cells_are_fitted_as_each_would_be(threads: int, count: int) -> None:
    rng = np.random.default_rng(6)
    cells = np.stack([states(rng, 90, 20) for _ in range(7)])
    problems = Problems(np.stack([labels(rng, cells[0]) for _ in range(count)]), masks(rng, count, 90), np.ones(count))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        together = fit_cells(cells, problems)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for cell, fits in zip(cells, together, strict=True):
        agrees(cell, problems, fits)


class Stored:
    """Cells that are read one by one."""

    def __init__(self, features: np.ndarray) -> None:
        self.features, self.read_so_far = features, []

    @property
    def cells(self) -> Sequence[Cell]:
        return [Cell(layer, -1) for layer in range(len(self.features))]

    def read(self, index: int) -> np.ndarray:
        self.read_so_far.append(index)
        return self.features[index]


def test_cells_are_read_one_by_one_and_a_bad_one_is_named() -> None:
    rng = np.random.default_rng(7)
    stored = Stored(np.stack([states(rng, 60, 8) for _ in range(4)]))
    problems = Problems(labels(rng, stored.features[0])[None], np.ones((1, 60), bool), np.ones(1))
    assert len(fit_cells(stored, problems)) == 4 and sorted(stored.read_so_far) == [0, 1, 2, 3]
    stored.features[2, 9, 3] = np.nan
    with pytest.raises(UserError, match=r"probe problem 0, layer 2, position -1 of the prompt: .*first: item 9"):
        fit_cells(stored, problems)


def test_items_that_nobody_trains_on_may_be_missing() -> None:
    rng = np.random.default_rng(8)
    features = states(rng, 80, 10)
    rows = masks(rng, 2, 80)
    targets = np.stack([labels(rng, features)] * 2)
    whole = fit(features, Problems(targets, rows, np.ones(2)))
    features[~rows.any(0)] = np.nan
    holed = fit(features, Problems(targets, rows, np.ones(2)))
    np.testing.assert_array_equal(whole.weights, holed.weights)


@pytest.mark.parametrize("noise", [0.0, 1e-7])
@pytest.mark.parametrize("count", [1, 6])
def test_constant_and_doubled_features_do_no_harm(noise: float, count: int) -> None:
    rng = np.random.default_rng(9)
    features = states(rng, 100, 12)
    targets = np.stack([labels(rng, features)] * count)
    constant = (7 * (1 + noise * rng.normal(size=(100, 1)))).astype(np.float32)
    rows = masks(rng, count, 100)
    left_out = constant.copy()
    left_out[~rows[0]] = 9  # constant over the training rows of one fold, not over all items
    more = np.hstack([features, constant, left_out, features[:, :1]])
    problems = Problems(targets, rows, np.ones(count))
    fits = fit(more, problems, tolerance=1e-6)
    assert (fits.weights[0, 12:14] == 0).all() and (fits.scale[0, 12:14] == 1).all()
    np.testing.assert_allclose(fits.weights[:, 0], fits.weights[:, 14], atol=1e-4)
    doubled = np.hstack([features, features[:, :1]])
    agrees(doubled, problems, fit(doubled, problems))
    same = fit(doubled, problems, tolerance=1e-6)  # constant over the first problem's rows alone
    np.testing.assert_allclose(fits.weights[0, :12], same.weights[0, :12], atol=2e-3)


def test_separable_labels_and_two_items_have_a_solution() -> None:
    rng = np.random.default_rng(10)
    features = states(rng, 60, 200)
    problems = Problems(np.tile(rng.random(60) < 0.5, (5, 1)), np.ones((5, 60), bool), np.logspace(0, 4, 5))
    fits = fit(features, problems)
    assert (fits.gradient <= 1e-4).all() and ((fits.scores(features) > 0) == problems.targets).all()
    two = Problems(np.array([[True, False]]), np.ones((1, 2), bool), np.ones(1))
    agrees(features[:2], two, fit(features[:2], two))


def test_wide_features_use_their_widest_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lbfgs, "FULL", 10)
    monkeypatch.setattr(lbfgs, "RANK", 6)
    rng = np.random.default_rng(11)
    features = states(rng, 130, 50)
    problems = Problems(np.stack([labels(rng, features)] * 4), masks(rng, 4, 130), np.logspace(-2, 1, 4))
    agrees(features, problems, fit(features, problems))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": np.zeros((1, 20), bool)}, r"probe problem 0: all 20 training items have the same label"),
        ({"targets": np.ones((1, 20), bool)}, r"expected: both classes"),
        ({"rows": np.zeros((1, 20), bool)}, r"all 0 training items"),
        ({"strengths": np.zeros(1)}, r"probe problem 0: strength C is 0.0"),
        ({"strengths": np.array([np.nan])}, r"expected: a positive number"),
        ({"strengths": np.ones(2)}, r"one strength a problem"),
        ({"rows": np.ones((1, 19), bool)}, r"expected: targets and rows \[problem, item\]"),
        ({"targets": np.arange(20)[None]}, r"targets int64"),
    ],
)
def test_what_has_no_solution_is_refused_by_name(change: dict[str, np.ndarray], message: str) -> None:
    good = {"targets": np.arange(20)[None] % 2 == 0, "rows": np.ones((1, 20), bool), "strengths": np.ones(1)}
    with pytest.raises(UserError, match=message):
        fit(np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32), Problems(**{**good, **change}))


def test_features_of_another_shape_are_refused() -> None:
    problems = Problems(np.arange(20)[None] % 2 == 0, np.ones((1, 20), bool), np.ones(1))
    with pytest.raises(UserError, match=r"cell 0: features \(19, 3\)\n  expected: \[item, d\] with 20 items"):
        fit(np.zeros((19, 3), np.float32), problems)


def test_too_few_steps_are_told_by_the_gradient() -> None:
    rng = np.random.default_rng(12)
    features = states(rng, 100, 40)
    problems = Problems(labels(rng, features)[None], np.ones((1, 100), bool), np.array([100.0]))
    cut = fit(features, problems, max_steps=2)
    assert cut.gradient[0] > 1e-4 and cut.steps[0] == 2
