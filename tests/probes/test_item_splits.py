"""One split for all labels: stratified, disjoint, whole families; one class is named with its label and part."""

from __future__ import annotations

import numpy as np
import pytest

from toolsavvy.errors import UserError
from toolsavvy.probes.splits import OneClass, Split, family_splits, fold_codes, quadrants, random_splits


@pytest.fixture
def labels() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"necessity": rng.random(500) < 0.3, "action": rng.random(500) < 0.1}


def whole(split: Split) -> bool:
    return ((split.train * 1 + split.validation + split.test) == 1).all()


def test_quadrants_number_the_combinations() -> None:
    necessity, action = np.array([0, 1, 0, 1], dtype=bool), np.array([0, 0, 1, 1], dtype=bool)
    assert quadrants({"necessity": necessity, "action": action}).tolist() == [0, 1, 2, 3]


def test_random_splits_keep_shares_in_every_quadrant(labels: dict[str, np.ndarray]) -> None:
    strata = quadrants(labels)
    (split,) = random_splits(strata, seed=3)
    assert whole(split)
    for stratum in np.unique(strata):
        rows = strata == stratum
        for part, share in ((split.train, 0.6), (split.validation, 0.2), (split.test, 0.2)):
            assert abs((part & rows).sum() - share * rows.sum()) <= 2
    again, other = random_splits(strata, seed=3)[0], random_splits(strata, seed=4)[0]
    assert (again.test == split.test).all() and (other.test != split.test).any()


def test_random_splits_do_not_follow_the_order_of_items() -> None:
    """A file sorted by difficulty must not leave the hard items to the test."""
    (split,) = random_splits(np.zeros(3000, dtype=np.int64), seed=0)
    assert abs(np.flatnonzero(split.test).mean() / 3000 - 0.5) < 0.05
    pairs = split.test[1:] & split.test[:-1]
    assert abs(pairs.mean() - 0.04) < 0.015, "neighbours are drawn independently"


def test_every_family_is_tested_once_and_never_trained_on_then(labels: dict[str, np.ndarray]) -> None:
    families = [f"f{i % 13}" for i in range(500)]
    splits = family_splits(families, labels, rotations=4)
    assert len(splits) == 4 and all(whole(s) for s in splits)
    assert (sum(s.test.astype(int) for s in splits) == 1).all()
    assert (sum(s.validation.astype(int) for s in splits) == 1).all()
    for split in splits:
        sets = [{families[i] for i in np.flatnonzero(part)} for part in (split.train, split.validation, split.test)]
        assert not (sets[0] & sets[1] or sets[0] & sets[2] or sets[1] & sets[2])
        assert all(sets)


def test_families_are_assigned_so_that_folds_have_both_classes() -> None:
    """Six of nine families are pure; three mixed ones go into three folds."""
    families = np.repeat(np.arange(9), 20)
    label = np.where(families < 3, np.arange(180) % 2 == 0, families % 2 == 0)
    for split in family_splits([str(f) for f in families], {"necessity": label}, rotations=3, seed=5):
        split.check("necessity", label)


def test_fewer_families_make_fewer_rotations_and_two_are_too_few() -> None:
    three = family_splits(["a", "b", "c"] * 10, {"x": np.arange(30) % 2 == 0}, rotations=5)
    assert len(three) == 3
    with pytest.raises(UserError) as error:
        family_splits(["a", "b"] * 10, {"x": np.arange(20) % 2 == 0})
    assert "2 families" in error.value.what and "at least 3" in error.value.expected and error.value.fix


def test_one_class_names_label_and_part(labels: dict[str, np.ndarray]) -> None:
    (split,) = random_splits(quadrants(labels))
    split.check("action", labels["action"])
    only_train = labels["action"] & split.train
    with pytest.raises(OneClass) as error:
        split.check("action", only_train)
    assert "action has 0 positive" in error.value.what and "validation" in error.value.what
    assert "random" in error.value.where and error.value.fix
    split.check("action", only_train, ["train"])


def test_shares_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(UserError, match=r"probe\.shares"):
        random_splits(np.zeros(30, dtype=np.int64), shares=(0.6, 0.2, 0.1))
    with pytest.raises(UserError, match="too few"):
        random_splits(np.zeros(1, dtype=np.int64))


def test_folds_cover_the_rows_evenly_and_keep_families_whole(labels: dict[str, np.ndarray]) -> None:
    strata, rows = quadrants(labels), np.arange(500) < 400
    codes = fold_codes(rows, strata, 5, seed=1)
    assert (codes[~rows] == -1).all() and (np.abs(np.bincount(codes[rows]) - 80) <= 2).all()
    for stratum in np.unique(strata):
        assert np.ptp(np.bincount(codes[rows & (strata == stratum)], minlength=5)) <= 3
    families = np.array([f"f{i % 7}" for i in range(500)])
    grouped = fold_codes(rows, strata, 5, seed=1, families=families.tolist())
    assert all(len(set(grouped[rows & (families == f)])) == 1 for f in np.unique(families))
    assert len(set(grouped[rows])) == 5
