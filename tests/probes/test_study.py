"""Planted contents: the study itself tells a direction from a surface confound and from noise."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from planted_states import PLACES, World, cells, world

from toolsavvy.errors import UserError
from toolsavvy.hidden.cells import Cell
from toolsavvy.probes.plan import StudySettings
from toolsavvy.probes.results import Study, grid
from toolsavvy.probes.study import study

QUICK = StudySettings(half_samples=4, mean_halvings=2, halvings=2, resamples=200, tolerance=1e-3)


@cache
def planted() -> World:
    return world(n=800, strength=3.0)


def labels_of(w: World) -> dict[str, np.ndarray]:
    """One label a case: planted in a cell, a surface feature, the family, nothing, a rare one, one class only."""
    rng, n = np.random.default_rng(1), len(w.families)
    even = np.array([int(f.split()[1]) % 2 == 0 for f in w.families])
    latent = w.latent + 0.3 * rng.normal(size=n)
    return {
        "direction": latent > 0,
        "surface": w.surface[:, 0] + 0.3 * rng.normal(size=n) > 0,
        "family": rng.random(n) < np.where(even, 0.9, 0.1),
        "noise": rng.random(n) < 0.5,
        "rare": latent > 1.2,
        "constant": np.ones(n, dtype=bool),
    }


@cache
def done() -> Study:
    w = planted()
    return study(cells(w.states), labels_of(w), w.families, w.surface, settings=QUICK)


def test_a_direction_is_found_where_it_was_planted_and_beats_every_control() -> None:
    for split in ("random", "family"):
        probe = done().probe("direction", split)
        assert {c.cell for c in probe.chosen} == {Cell(1, -2)}
        assert probe.verdict == "beyond_surface"
        assert probe.half.auc.value > 0.8 and probe.tuned.mcc.low > 0
        assert probe.controls.increment.auc.interval.low > 0, "it adds to surface features"
        assert probe.half.auc.value > probe.controls.shuffled.best_auc.max()
    assert done().probe("direction", "random").half.auc.n == pytest.approx(160, abs=4)
    assert done().probe("direction", "family").half.auc.n == 800, "every family is tested once"


def test_a_surface_confound_looks_good_but_not_beside_its_control() -> None:
    probe = done().probe("surface", "random")
    assert probe.half.auc.value > 0.75 and probe.above_shuffled
    assert probe.verdict == "surface"
    assert probe.controls.surface.difference.auc.interval.low <= 0
    assert probe.controls.increment.auc.interval.low <= 0


def test_a_label_of_families_looks_good_at_random_and_fails_on_new_families() -> None:
    at_random, held_out = (done().probe("family", split) for split in ("random", "family"))
    assert at_random.half.auc.value > 0.75 and at_random.above_shuffled
    assert at_random.verdict == "surface", "the family's majority does as well"
    assert at_random.controls.family.half.auc.value > 0.75
    assert held_out.verdict == "noise"
    assert held_out.controls.family.half.auc.value == 0.5
    assert held_out.controls.family.half.mcc.value is None, "the same answer for all: undefined, not 0"


def test_noise_is_within_its_shuffled_null() -> None:
    for split in ("random", "family"):
        probe = done().probe("noise", split)
        assert probe.verdict == "noise"
        assert probe.half.auc.low < 0.5 < probe.half.auc.high
        null = probe.controls.shuffled
        assert (null.best_auc >= null.auc).all() and null.p > 0.05
    assert done().probe("noise", "random").test.metric("auc").max() > 0.52, "the best cell on test is above chance"


def test_a_rare_class_needs_the_tuned_threshold() -> None:
    probe = done().probe("rare", "random")
    assert probe.positive < 0.2
    assert probe.half.accuracy.value > 0.8, "which says nothing here"
    assert probe.tuned.mcc.value > 0.25
    assert all(c.threshold < 0 for c in probe.chosen), "below even odds"
    assert probe.half.auc.value == probe.tuned.auc.value


def test_one_class_is_skipped_with_its_reason_and_the_rest_goes_on() -> None:
    lost = [s for s in done().skipped if s.label == "constant"]
    assert [(s.split, s.rotation) for s in lost] == [("random", None), ("family", None)]
    assert "800 positive and 0 negative" in lost[0].reason
    assert done().probe("constant", "random") is None
    assert len(done().probes) == 10
    alone = study(cells(planted().states), {"x": np.ones(800, dtype=bool)}, planted().families, settings=QUICK)
    assert not alone.probes and alone.skipped and not alone.cosines


def test_heat_maps_lie_by_layer_and_position() -> None:
    found = done().heat_map(done().probe("direction", "random"), "auc", "validation")
    assert (found.layers, found.positions) == ((0, 1, 2), (-3, -2, -1))
    assert np.unravel_index(found.values.argmax(), (3, 3)) == (1, 1)
    others = np.delete(found.values.ravel(), 4)
    assert found.values[1, 1] > others.max() + 0.15
    assert np.isnan(grid([Cell(0, -1), Cell(1, -2)], np.ones(2)).values).sum() == 2


def test_the_chosen_probe_reproduces_its_scores_from_raw_states() -> None:
    probe = done().probe("direction", "random")
    (chosen,) = probe.chosen
    again = chosen.scores(planted().states[chosen.index])
    np.testing.assert_allclose(again[probe.held_out.rows], probe.held_out.scores, atol=1e-4)
    assert np.allclose(chosen.raw, chosen.weights / chosen.scale)
    assert (probe.held_out.rows == np.flatnonzero(done().splits[0].test)).all()


def test_labels_share_one_split_and_out_of_fold_scores_cover_all_items() -> None:
    tested = {p.label: p.held_out.rows.tolist() for p in done().probes if p.split == "random"}
    assert len({tuple(rows) for rows in tested.values()}) == 1
    scores = done().out_of_fold
    assert set(scores["random"]) == set(tested) and set(scores["family"]) == set(tested)
    for values in (*scores["random"].values(), *scores["family"].values()):
        assert np.isfinite(values).all()
    y = labels_of(planted())["direction"]
    assert ((scores["random"]["direction"] > 0) == y).mean() > 0.75


def test_cosines_are_there_for_every_pair_and_the_same_directions_are_alike() -> None:
    assert done().cosine_map("direction", "rare", "logistic").cosine[4] > 0.5, "cell of layer 1, position -2"
    assert done().cosine_map("direction", "constant") is None
    at = [a for a in done().alignments if (a.first, a.second, a.chosen_for) == ("direction", "rare", "direction")]
    assert len(at) == 1 and at[0].cell == Cell(1, -2) and len(at[0].alignments) == 4


def two_labels() -> dict[str, np.ndarray]:
    return {name: labels_of(planted())[name] for name in ("direction", "noise")}


def same(a: Study, b: Study) -> None:
    for one, other in zip(a.probes, b.probes, strict=True):
        assert (one.label, one.split, one.half, one.tuned) == (other.label, other.split, other.half, other.tuned)
        np.testing.assert_array_equal(one.test.counts, other.test.counts)
        np.testing.assert_array_equal(one.held_out.scores, other.held_out.scores)
        np.testing.assert_array_equal(one.controls.shuffled.auc, other.controls.shuffled.auc)
    assert a.alignments == b.alignments
    np.testing.assert_array_equal(a.strengths, b.strengths)


def test_a_killed_study_goes_on_where_it_was_and_ends_the_same(tmp_path: Path) -> None:
    w, store = planted(), tmp_path / "cells.jsonl"
    whole = study(cells(w.states), two_labels(), w.families, w.surface, settings=QUICK)
    for stop in (3, 11):
        with pytest.raises(KeyboardInterrupt):
            study(cells(w.states, stop), two_labels(), w.families, w.surface, settings=QUICK, store=store)
    store.write_bytes(store.read_bytes()[:-20])
    heard: list[tuple[int, int]] = []
    rest = cells(w.states)
    resumed = study(
        rest, two_labels(), w.families, w.surface, settings=QUICK, store=store,
        heard=lambda *x: heard.append(x),
    )  # fmt: skip
    same(whole, resumed)
    assert heard[-1] == (9, 9)
    again = cells(w.states)
    same(whole, study(again, two_labels(), w.families, w.surface, settings=QUICK, store=store))
    assert len(rest.reads) > len(again.reads), "finished cells are read for their scores alone"
    with pytest.raises(UserError, match="other items"):
        study(again, two_labels(), w.families, settings=replace(QUICK, seed=1), store=store)
    with pytest.raises(UserError, match="other items"):
        study(again, two_labels(), w.families, settings=QUICK, store=store, key="another model")


def test_missing_positions_are_left_out_counted_and_not_chosen() -> None:
    """The planted cell is missing for a tenth of the items: another is chosen, unless coverage allows it."""
    w = planted()
    states = w.states.copy()
    states[4, ::10] = np.nan
    states[2, 5, 3] = np.inf
    labels = {"direction": labels_of(w)["direction"]}
    settings = replace(QUICK, splits=("random",), shuffles=1)
    strict = study(cells(states), labels, w.families, w.surface, settings=settings)
    assert strict.missing.tolist() == [0, 0, 0, 0, 80, 0, 0, 0, 0]
    assert strict.broken.tolist() == [0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert strict.probes[0].chosen[0].cell != Cell(1, -2)
    loose = study(cells(states), labels, w.families, w.surface, settings=replace(settings, coverage=0.9))
    probe = loose.probes[0]
    assert probe.chosen[0].cell == Cell(1, -2)
    assert not set(probe.held_out.rows) & set(range(0, 800, 10))
    assert probe.half.auc.n == len(probe.held_out.rows) == probe.controls.surface.half.auc.n
    assert np.isnan(loose.out_of_fold["random"]["direction"][::10]).all()


def test_states_that_are_all_broken_are_an_error_with_its_fix() -> None:
    w = planted()
    with pytest.raises(UserError) as error:
        study(cells(np.full_like(w.states, np.nan)), two_labels(), w.families, settings=QUICK)
    assert "no hidden state is finite" in error.value.what and "float32" in error.value.fix


def test_the_published_recipe_runs_under_the_same_splits_and_controls() -> None:
    w = planted()
    settings = replace(QUICK, recipe="paper", splits=("random",), shuffles=1)
    probe = study(cells(w.states), two_labels(), w.families, w.surface, settings=settings).probes[0]
    assert probe.half.auc.value > 0.8
    assert (probe.chosen[0].scale == 1).all() and (probe.chosen[0].mean == 0).all(), "features as they come"


def test_arrays_and_settings_that_do_not_fit_are_named() -> None:
    w, labels = planted(), two_labels()
    with pytest.raises(UserError, match="one entry an item"):
        study(cells(w.states), labels, w.families[:-1], settings=QUICK)
    with pytest.raises(UserError, match="surface features"):
        study(cells(w.states), labels, w.families, w.surface[:-1], settings=QUICK)
    with pytest.raises(UserError, match="799 hidden states"):
        study(cells(w.states[:, 1:]), labels, w.families, settings=QUICK)
    with pytest.raises(UserError, match=r"probe\.folds"):
        study(cells(w.states), labels, w.families, settings=replace(QUICK, folds=1))
    with pytest.raises(UserError, match=r"probe\.strengths"):
        study(cells(w.states), labels, w.families, settings=replace(QUICK, strengths=(0.0,)))
    assert len(PLACES) == 9
