"""Cosines of planted directions: attenuated by noise, recovered within their interval once the ceiling is known."""

from __future__ import annotations

import numpy as np
import pytest

from toolsavvy.probes.directions import (
    METHODS,
    PARTS,
    SPACES,
    Alignment,
    Directions,
    alignment,
    ceiling,
    cosine,
    disattenuated,
    halves,
    mean_differences,
    random_cosine,
    relate,
)
from toolsavvy.probes.logistic import fit
from toolsavvy.probes.measuring import half_samples, measure
from toolsavvy.probes.plan import Plan, StudySettings
from toolsavvy.probes.problems import Problems


def planted(rho: float, strength: float, *, n: int = 600, d: int = 40, seed: int = 0, together: float = 0.0):
    """Two latents along directions with cosine rho in white noise; what either method would find in endless data."""
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(d, 2)))
    u, v = basis.T[0], rho * basis.T[0] + np.sqrt(1 - rho**2) * basis.T[1]
    a, b = rng.normal(size=(2, n))
    b = together * a + np.sqrt(1 - together**2) * b
    states = rng.normal(size=(n, d)) + strength * (np.outer(a, u) + np.outer(b, v))
    shared = strength**2 * (np.outer(u, u) + np.outer(v, v)) + np.eye(d)
    truth = {
        "mean_difference": rho,
        "logistic": float(cosine(np.linalg.solve(shared, u), np.linalg.solve(shared, v))),
    }
    return states.astype(np.float32), {"necessity": a > 0, "action": b > 0}, truth


def aligned(states: np.ndarray, labels: dict[str, np.ndarray], strength: float = 0.05) -> dict[str, Alignment]:
    settings = StudySettings(splits=("random",), shuffles=0, half_samples=30)
    plan = Plan.of(labels, [""] * len(states), settings)
    strengths = np.full(plan.usable.shape, strength)
    relations = measure(plan, states, strengths, settings.fitter())["relations"]
    drawn = half_samples(plan, states, strengths[:, 0], settings.fitter())
    n = int(plan.splits[0].train.sum())
    return {
        method: alignment(method, "raw", relations[0, m, 1], drawn[:, 0, m, 1], n, states.shape[1])
        for m, method in enumerate(METHODS)
    }


@pytest.mark.parametrize(("rho", "strength"), [(0.8, 0.7), (0.0, 0.7), (-0.5, 1.0)])
def test_the_cosine_of_planted_directions_is_recovered_within_its_interval(rho: float, strength: float) -> None:
    states, labels, truth = planted(rho, strength, n=1500, seed=round(10 * rho) % 7)
    for method, found in aligned(states, labels).items():
        corrected = found.disattenuated
        assert corrected.low <= truth[method] <= corrected.high, method
        assert found.ceiling.value < 0.9, "there is noise to correct"
        assert found.random == 1 / np.sqrt(40)
        if rho == 0.8 and method == "mean_difference":
            assert found.cross.high < rho, "the raw cosine hides that the directions are alike"
            assert corrected.low > 0.5


def test_labels_that_agree_do_not_make_noise_look_aligned() -> None:
    """Pure noise with labels that mostly agree: cosines of the same items are high, across halves there is nothing."""
    states, labels, _ = planted(0.0, 0.0, together=0.95)
    found = aligned(states, labels)["mean_difference"]
    assert found.cosine.value > 0.5
    assert abs(found.cross.value) < 0.3
    assert found.disattenuated.value is None, "noise over noise says nothing"


def test_the_same_label_twice_has_a_corrected_cosine_of_one() -> None:
    states, labels, _ = planted(0.0, 1.0)
    twice = aligned(states, {"a": labels["necessity"], "b": labels["necessity"]})
    for found in twice.values():
        assert found.cosine.value == pytest.approx(1.0)
        assert found.disattenuated.value == pytest.approx(1.0)


def test_parts_by_hand_and_no_ceiling_without_reliability() -> None:
    x, y = np.eye(2)
    half = np.array([[[x, x], [x + y, y]]])  # one halving: a is x, then x + y; b is x, then y
    parts = relate(np.stack([x, y]), half)
    assert parts == pytest.approx([0.0, (0.0 + np.sqrt(0.5)) / 2, np.sqrt(0.5), 0.0])
    assert np.isnan(ceiling(parts)) and np.isnan(disattenuated(parts))
    steady = np.array([0.1, 0.2, 0.25, 0.64])
    assert ceiling(steady) == pytest.approx(0.4) and disattenuated(steady) == pytest.approx(0.5)
    above = np.array([0.9, 0.9, 0.25, 0.64])
    assert disattenuated(above) > 1, "never clipped"
    nothing = alignment("logistic", "raw", parts, np.full((5, len(PARTS)), np.nan), 10, 4)
    assert nothing.disattenuated.value is None and nothing.disattenuated.low is None


def test_halves_are_disjoint_even_and_different_each_time() -> None:
    rows, strata = np.arange(101) < 90, np.arange(101) % 3
    cut = halves(rows, strata, 4, seed=2)
    assert not (cut[:, 0] & cut[:, 1]).any() and (cut.any(1) == rows).all()
    assert (np.abs(cut[:, 0].sum(1) - 45) <= 1).all()
    for stratum in range(3):
        assert (np.abs(cut[:, 0, strata == stratum].sum(1) - 15) <= 1).all()
    assert len(np.unique(cut[:, 0], axis=0)) == 4
    assert (cut == halves(rows, strata, 4, seed=2)).all()


def test_spaces_probes_divide_by_deviations_and_displacements_multiply() -> None:
    """Scaling a feature changes raw directions and no standardised one."""
    rng = np.random.default_rng(0)
    labels, rows = rng.random((1, 300)) < 0.5, np.ones((1, 300), dtype=bool)
    plain = (rng.normal(size=(300, 5)) + labels.T * np.arange(5)).astype(np.float32)
    stretch = np.array([1, 10, 0.1, 100, 1], dtype=np.float32)
    problems = Problems(labels, rows, np.array([0.1]))
    found = {}
    for name, states in (("plain", plain), ("stretched", plain * stretch)):
        scale = states.std(0)
        fits, means = fit(states, problems, tolerance=1e-7), Directions.of_means(states, problems, scale)
        found[name] = Directions.of_fits(fits, scale), means
    for method in (0, 1):
        before, after = found["plain"][method], found["stretched"][method]
        assert cosine(before.standardised[0], after.standardised[0]) == pytest.approx(1, abs=1e-4)
        back = after.raw[0] * (stretch if method == 0 else 1 / stretch)
        np.testing.assert_allclose(back, before.raw[0], rtol=2e-2, atol=1e-3)
    assert SPACES == ("standardised", "raw")


def test_mean_differences_are_differences_of_means() -> None:
    rng = np.random.default_rng(1)
    states, labels = rng.normal(size=(50, 3)).astype(np.float32), rng.random((2, 50)) < 0.5
    rows = np.stack([np.arange(50) < 30, np.arange(50) >= 20])
    found = mean_differences(states, labels, rows)
    for target, part, values in zip(labels, rows, found, strict=True):
        np.testing.assert_allclose(values, states[target & part].mean(0) - states[~target & part].mean(0), atol=1e-5)
    assert np.isnan(mean_differences(states, labels[:1] | True, rows[:1])).all()


def test_random_directions_have_the_cosine_that_is_stated() -> None:
    draws = np.random.default_rng(2).normal(size=(2, 4000, 64))
    assert cosine(*draws).std() == pytest.approx(random_cosine(64), rel=0.05)
    assert np.isnan(cosine(np.zeros(3), np.ones(3)))
