from __future__ import annotations

from typing import Any

import pytest

from toolsavvy.config.toolsense import Prices, Recipe, Settings, check_pool, checked_tiers
from toolsavvy.errors import UserError
from toolsavvy.generators.toolsense.rrb import apportioned


@pytest.mark.parametrize(
    ("make", "where", "expected"),
    [
        (lambda: Settings(n=0), "generator.n", "from 1"),
        (lambda: Settings(cap=0), "generator.cap", "from 1"),
        (lambda: Recipe(attempts=0), "generator.attempts", "from 1"),
        (lambda: Recipe(max_tokens=0), "generator.max_tokens", "from 1"),
        (lambda: Recipe(temperature=-0.1), "generator.temperature", "0 to 2"),
        (lambda: Recipe(temperature=float("nan")), "generator.temperature", "0 to 2"),
        (lambda: Recipe(drafts=0), "generator.drafts", "from 1"),
        (lambda: Recipe(batch_size=0), "generator.batch_size", "from 1"),
        (lambda: Recipe(neighbours=0), "generator.neighbours", "from 1"),
        (lambda: Recipe(novelty=1.1), "generator.novelty", "0 to 1"),
        (lambda: Settings(backend="lmm"), "generator.backend", "template or llm"),
        (lambda: Prices.of({"input": -1}), "generator.prices.input", "from 0"),
        (lambda: Prices.of({"input": True}), "generator.prices.input", "from 0"),
        (lambda: Prices.of({"output": float("inf")}), "generator.prices.output", "from 0"),
        (lambda: Prices.of({"outputs": 1}), "generator.prices", "input, output"),
        (lambda: checked_tiers({"easy": 0.5, "hard": 0.4}), "generator.tiers", "add up to 1"),
        (lambda: checked_tiers({"easy": 1.5, "hard": -0.5}), "generator.tiers.easy", "0 to 1"),
        (lambda: checked_tiers({"esay": 1.0}), "generator.tiers", "easy, medium, hard"),
        (lambda: checked_tiers({}), "generator.tiers", "add up to 1"),
        (lambda: check_pool(6), "generator.pool", "from 7"),
    ],
)
def test_what_is_out_of_range_is_told_with_its_key(make: Any, where: str, expected: str) -> None:
    with pytest.raises(UserError) as caught:
        make()
    assert caught.value.where == where
    assert expected in caught.value.expected


def test_misspelt_words_are_guessed() -> None:
    for make, near in (
        (lambda: Settings(backend="templte"), "template"),
        (lambda: Prices.of({"inptu": 1}), "input"),
        (lambda: checked_tiers({"esay": 1.0}), "easy"),
    ):
        with pytest.raises(UserError) as caught:
            make()
        assert f"did you mean '{near}'?" in caught.value.fix


def test_tokens_cost_what_a_million_of_them_cost() -> None:
    prices = Prices.of({"input": 2.0, "output": 8, "judge_output": 0})
    assert prices.cost(1_000_000, 500_000) == pytest.approx(2 + 4)
    assert prices.cost(1_000_000, 500_000, is_judge=True) == pytest.approx(2)  # its prompts cost what the writer's do
    assert Prices.of({"input": 2.0}).cost(1, 1) is None  # half a price is no cost
    assert Prices.of(None).cost(1, 1) is None
    assert Prices(0, 0).cost(10, 10) == 0


def test_tiers_without_a_share_are_left_out_and_the_others_ordered() -> None:
    assert checked_tiers({"hard": 1, "easy": 0}) == {"hard": 1.0}
    assert list(checked_tiers({"hard": 0.25, "medium": 0.25, "easy": 0.5})) == ["easy", "medium", "hard"]


@pytest.mark.parametrize("n", [1, 2, 7, 100, 500])
def test_a_number_is_divided_without_rest_and_by_less_than_one_off(n: int) -> None:
    shares = {"easy": 0.34, "medium": 0.33, "hard": 0.33}
    parts = apportioned(n, shares)
    assert sum(parts.values()) == n
    assert all(abs(parts.get(tier, 0) - n * share) < 1 for tier, share in shares.items())
    assert apportioned(n, {"hard": 1.0}) == {"easy": 0, "medium": 0, "hard": n}
