from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from planted_answers import LAYERS, OTHER, PLANTED, World, world
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from toolsavvy.classification import ece, sigmoid
from toolsavvy.errors import UserError
from toolsavvy.parameters import probe as value_probe
from toolsavvy.parameters.fields import Origin
from toolsavvy.parameters.linear import FLATTEST, fit_calibrated, platt
from toolsavvy.parameters.signals import Control

TRAIN, TEST = world(100, 3, seed=1), world(80, 1, seed=2, prefix="held")


def auc(world: World, scores: np.ndarray) -> float:
    return float(roc_auc_score(world.table.right, scores))


def test_the_probe_finds_the_planted_direction_and_the_control_does_not() -> None:
    found = value_probe.fit(TRAIN.table, layer=PLANTED)
    best = auc(TEST, TEST.truth)  # nobody can know more than the chance that was drawn from
    assert auc(TEST, found.score_fields(TEST.table)) > best - 0.03
    assert found.card.auc == pytest.approx(best, abs=0.05)
    control = Control.fit(TRAIN.table)
    assert auc(TEST, control.score(TEST.table).fields) < best - 0.15


def test_probabilities_are_calibrated_on_held_out_folds() -> None:
    found = value_probe.fit(TRAIN.table, layer=PLANTED)
    assert "folds" in found.card.calibrated_on
    assert ece(TEST.table.right, found.score_fields(TEST.table)) < 0.06


def test_calibration_on_validation_tasks_is_of_those() -> None:
    other = world(60, 1, seed=5, prefix="validation")
    found = value_probe.fit(TRAIN.table, layer=PLANTED, validation=other.table)
    log_odds = found.linear.log_odds(other.table.layer(PLANTED))
    assert (found.linear.slope, found.linear.offset) == pytest.approx(platt(log_odds, other.table.right))
    assert found.card.calibrated_on == "validation tasks"


def test_shuffled_labels_are_at_chance() -> None:
    found = value_probe.fit(TRAIN.table, layer=PLANTED)
    areas = value_probe.shuffled(TRAIN.table, TEST.table, found, shuffles=20)
    assert areas.shape == (20,)
    assert abs(areas.mean() - 0.5) < 0.1
    assert auc(TEST, found.score_fields(TEST.table)) > areas.max()


def test_a_layer_without_the_direction_is_at_chance_and_its_probabilities_stay_near_the_base_rate() -> None:
    found = value_probe.fit(world(100, 3, told=0, spurious=0).table, layer=PLANTED)
    scores = found.score_fields(world(80, 1, seed=2, told=0, spurious=0, prefix="held").table)
    assert np.ptp(scores) < 0.35
    assert found.linear.slope > 0


def test_the_layer_curve_points_at_the_planted_layer() -> None:
    curve = value_probe.layer_curve(TRAIN.table, TEST.table, shuffles=2, resamples=50)
    assert [point.layer for point in curve] == list(LAYERS)
    assert value_probe.best_layer(curve) == PLANTED
    planted = curve[PLANTED].held_out
    assert planted.low > max(curve[0].held_out.high, curve[2].held_out.high)
    assert all(point.shuffled.shape == (2,) for point in curve)
    single = value_probe.fit(TRAIN.table, layer=PLANTED)
    assert planted.value == pytest.approx(auc(TEST, single.score_fields(TEST.table)))


def test_the_fit_is_scikit_learns() -> None:
    found = value_probe.fit(TRAIN.table, layer=PLANTED, strengths=[0.01])
    theirs = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, tol=1e-8, max_iter=2000))
    theirs.fit(TRAIN.table.layer(PLANTED).astype(np.float64), TRAIN.table.right)
    states = TEST.table.layer(PLANTED).astype(np.float64)
    np.testing.assert_allclose(found.linear.log_odds(states), theirs.decision_function(states), atol=0.02)


def test_the_penalty_is_chosen_over_whole_clusters() -> None:
    """Labels of a cluster that its states give away: only folds of whole clusters see that nothing generalises."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 10)
    marks = rng.normal(size=(40, 30))[groups] + 0.01 * rng.normal(size=(400, 30))
    right = (rng.random(40) < 0.5)[groups]
    strengths = [1e-5, 100.0]
    (apart,) = fit_calibrated([marks.astype(np.float32)], right, [str(g) for g in groups], strengths=strengths)
    (mixed,) = fit_calibrated([marks.astype(np.float32)], right, [str(i) for i in range(400)], strengths=strengths)
    assert (apart.model.strength, mixed.model.strength) == (1e-5, 100.0)


def test_held_out_scores_come_from_probes_of_other_clusters() -> None:
    scores = value_probe.held_out_scores(TRAIN.table, PLANTED)
    assert auc(TRAIN, scores) == pytest.approx(value_probe.fit(TRAIN.table, layer=PLANTED).card.auc)
    noise = world(40, 2, told=0, spurious=0, seed=9)
    assert auc(noise, value_probe.held_out_scores(noise.table, 0)) < 0.65


def test_platt_is_a_logistic_regression_on_smoothed_targets() -> None:
    rng = np.random.default_rng(3)
    scores = rng.normal(size=300) * 4
    right = rng.random(300) < sigmoid(0.5 * scores - 1)
    yes, no = right.sum(), (~right).sum()
    target = np.where(right, (yes + 1) / (yes + 2), 1 / (no + 2))
    theirs = LogisticRegression(C=np.inf, tol=1e-10)
    theirs.fit(np.tile(scores, 2)[:, None], np.repeat([1, 0], 300), sample_weight=np.concatenate([target, 1 - target]))
    assert platt(scores, right) == pytest.approx((theirs.coef_[0, 0], theirs.intercept_[0]), rel=1e-3)


def test_platt_never_turns_an_order_around() -> None:
    scores = np.linspace(-3, 3, 200)
    slope, offset = platt(scores, scores < 0)
    assert slope == FLATTEST
    assert sigmoid(offset) == pytest.approx(0.5, abs=0.02)
    assert platt(scores, np.ones(200, dtype=bool)) == (1.0, 0.0)
    assert platt(np.zeros(4), np.array([True, False, True, True]))[0] == FLATTEST


def test_rows_that_must_not_train_a_probe_are_refused() -> None:
    leaked = replace(TRAIN.table, origins=(Origin("seed", frozenset({"task 3"})),))
    with pytest.raises(UserError, match="'task 3'"):
        value_probe.fit(leaked, layer=PLANTED)
    with pytest.raises(UserError, match="no labels"):
        value_probe.fit(replace(TRAIN.table, labelled=False), layer=PLANTED)
    with pytest.raises(UserError, match="0 wrong values"):
        value_probe.fit(replace(TRAIN.table, right=np.ones(len(TRAIN.table), dtype=bool)), layer=PLANTED)
    with pytest.raises(UserError, match="none of 0 answers"):
        value_probe.fit(TRAIN.table.of_tasks([]), layer=PLANTED)
    with pytest.raises(ValueError, match="name one of the layers"):
        value_probe.fit(TRAIN.table)
    with pytest.raises(UserError, match="train the probe and test it"):
        value_probe.layer_curve(TRAIN.table, TRAIN.table)


def test_one_task_is_too_few_for_folds_but_trains() -> None:
    found = value_probe.fit(TRAIN.table.of_tasks(["task 0", "task 2"]), layer=PLANTED)
    assert np.isfinite(found.score_fields(TEST.table)).all()


def test_a_saved_probe_gives_the_same_scores(tmp_path: Path) -> None:
    found = value_probe.fit(TRAIN.table, layer=PLANTED, model="toy")
    value_probe.save(tmp_path / "probe", found)
    again = value_probe.load(tmp_path / "probe")
    np.testing.assert_array_equal(again.score_fields(TEST.table), found.score_fields(TEST.table))
    assert again.card == found.card
    assert again.card.origins == (OTHER.name,)
    assert sorted(p.name for p in (tmp_path / "probe").iterdir()) == [value_probe.CARD, value_probe.WEIGHTS]


def test_a_damaged_probe_is_named_with_its_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"{value_probe.CARD}.*no such file"):
        value_probe.load(tmp_path)
    value_probe.save(tmp_path, value_probe.fit(TRAIN.table, layer=PLANTED))
    card = tmp_path / value_probe.CARD
    good = card.read_text(encoding="utf-8")
    for wrong, said in (
        ({"format": 99}, "'format'"), ({"layer": "one"}, "'layer'"), ({"slope": None}, "'slope'"), (3, "no JSON object")
    ):  # fmt: skip
        card.write_text(json.dumps({**json.loads(good), **wrong} if isinstance(wrong, dict) else wrong))
        with pytest.raises(UserError, match=said):
            value_probe.load(tmp_path)
    card.write_text(good)
    weights = tmp_path / value_probe.WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-5])
    with pytest.raises(UserError, match=value_probe.WEIGHTS):
        value_probe.load(tmp_path)


def test_the_papers_layer() -> None:
    assert [value_probe.default_layer(depth) for depth in (30, 36, 28, 1, 32)] == [20, 24, 19, 1, 21]
