"""The published probe beside a plain torch loop, and mean-difference directions beside their definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from toolsavvy.errors import UserError
from toolsavvy.probes.mean import mean_difference, mean_difference_cells
from toolsavvy.probes.problems import Problems
from toolsavvy.probes.published import published_recipe


def planted(cells: int = 3, items: int = 90, d: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    features = (rng.normal(size=(cells, items, d)) * 3 + 1).astype(np.float32)
    targets = np.stack([features[0, :, 0] + rng.normal(size=items) > 1, features[1, :, 1] > 3])
    return features, targets, rng.random(targets.shape) < 0.7


def plain_loop(x: np.ndarray, y: np.ndarray, weighted: bool, start: torch.nn.Linear) -> torch.nn.Linear:
    """The recipe as anyone would write it."""
    probe = torch.nn.Linear(x.shape[1], 1)
    probe.load_state_dict(start.state_dict())
    weight = torch.tensor((~y).sum() / y.sum(), dtype=torch.float32) if weighted else None
    loss = torch.nn.BCEWithLogitsLoss(pos_weight=weight)
    optimizer = torch.optim.Adam(probe.parameters(), lr=0.01, weight_decay=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        loss(probe(torch.from_numpy(x))[:, 0], torch.from_numpy(y).float()).backward()
        optimizer.step()
    return probe


@pytest.mark.parametrize("weighted", [False, True])
def test_every_cell_and_label_is_the_plain_loop_s(weighted: bool) -> None:
    features, targets, rows = planted()
    fits = published_recipe(features, targets, rows, pos_weight=weighted, seed=4)
    first = torch.nn.Linear(features.shape[2], 1)
    generator = torch.Generator().manual_seed(4)
    drawn = (2 * torch.rand(features.shape[2] + 1, generator=generator) - 1) / features.shape[2] ** 0.5
    first.weight.data[0], first.bias.data[0] = drawn[:-1], drawn[-1]
    for cell, fit in zip(features, fits, strict=True):
        for index, (label, train) in enumerate(zip(targets, rows, strict=True)):
            probe = plain_loop(cell[train], label[train], weighted, first)
            np.testing.assert_allclose(fit.weights[index], probe.weight.detach().numpy()[0], atol=2e-5)
            np.testing.assert_allclose(fit.bias[index], probe.bias.item(), atol=2e-5)
            plain = probe(torch.from_numpy(cell)).detach().numpy()[:, 0]
            np.testing.assert_allclose(fit.scores(cell)[index], plain, atol=2e-4)


def test_the_start_is_the_seed_s_alone() -> None:
    features, targets, rows = planted()
    whole, again, other = (published_recipe(features, targets, rows, seed=seed) for seed in (0, 0, 1))
    alone = published_recipe(features[1:2], targets[1], rows[1], seed=0)
    assert np.array_equal(whole[0].weights, again[0].weights)
    assert not np.allclose(whole[0].weights, other[0].weights, atol=1e-3)
    np.testing.assert_allclose(alone[0].weights[0], whole[1].weights[1], atol=1e-5)


def test_the_recipe_refuses_one_class() -> None:
    features, targets, rows = planted()
    with pytest.raises(UserError, match=r"probe problem 1: all .* same label"):
        published_recipe(features, targets & np.array([[True], [False]]), rows)


def test_mean_differences_put_the_threshold_halfway() -> None:
    features, targets, rows = planted()
    features[:, 0, :] = np.nan
    rows[:, 0] = False
    features[:, 1:, 5] = 7.0
    fits = mean_difference_cells(features, Problems(targets, rows, np.ones(2)))
    for cell, fit in zip(features, fits, strict=True):
        for index, (label, train) in enumerate(zip(targets, rows, strict=True)):
            x = cell[train].astype(np.float64)
            deviation = x.std(0)
            z = (x - x.mean(0)) / np.where(deviation > 0, deviation, 1)
            upper, lower = z[label[train]].mean(0), z[~label[train]].mean(0)
            np.testing.assert_allclose(fit.weights[index], upper - lower, atol=1e-5)
            middle = (cell[train & label].mean(0) + cell[train & ~label].mean(0)) / 2
            assert abs(fit.scores(middle[None])[index, 0]) < 1e-4


def test_a_mean_difference_beside_another_problem_is_the_same() -> None:
    features, targets, rows = planted()
    both = mean_difference(features[0], Problems(targets, rows, np.ones(2)))
    alone = mean_difference(features[0], Problems(targets[1:], rows[1:], np.ones(1)))
    np.testing.assert_allclose(both.weights[1], alone.weights[0], atol=1e-6)
