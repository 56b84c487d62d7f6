"""How ToolSense-style benchmarks are made: options, checked before a catalog is loaded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from toolsavvy.benchmark import TIERS
from toolsavvy.errors import UserError, did_you_mean

BACKENDS = ("template", "llm")
LEAST_POOL = 7
"""Six golds and one wrong tool."""
PER = 1_000_000
"""Tokens that a price is given for."""


@dataclass(frozen=True)
class Prices:
    """What models charge for a million tokens; None is unknown.

    Args:
        input: of the writer's prompts.
        output: of its answers.
        judge_input: of the judge's prompts; None: as the writer's.
        judge_output: of its answers; None: as the writer's.
    """

    input: float | None = None
    output: float | None = None
    judge_input: float | None = None
    judge_output: float | None = None

    @staticmethod
    def of(given: Mapping[str, Any] | None) -> Prices:
        """Read `generator.prices`.

        Raises:
            UserError: an unknown key, or a price that is no number from 0.
        """
        known = [f.name for f in fields(Prices)]
        for key, value in (given or {}).items():
            if key not in known:
                raise UserError(
                    f"unknown key {key!r}", where="generator.prices", expected=", ".join(known),
                    fix=did_you_mean(str(key), known),
                )  # fmt: skip
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (is_number and 0 <= value < math.inf):
                raise UserError(
                    f"{value!r} is no price", where=f"generator.prices.{key}",
                    expected="null, or a number from 0: what a million tokens cost",
                )  # fmt: skip
        return Prices(**(given or {}))

    def cost(self, prompt_tokens: int, completion_tokens: int, *, is_judge: bool = False) -> float | None:
        """What so many tokens cost; None where a price that is needed is unknown."""
        taken, given = self.input, self.output
        if is_judge:
            taken = taken if self.judge_input is None else self.judge_input
            given = given if self.judge_output is None else self.judge_output
        if taken is None or given is None:
            return None
        return (prompt_tokens * taken + completion_tokens * given) / PER


@dataclass(frozen=True)
class Recipe:
    """How language models write items.

    Args:
        attempts: answers asked for one item of one tool until a draft passes; then the next tool takes its place.
        drafts: in one answer; the first that passes is taken.
        batch_size: items that are worked on at once.
        temperature: of the writer; the judge is greedy.
        max_tokens: of an answer.
        feedback: most reasons of failed attempts that the writer is told.
        pool: tools that a request's writer chooses from, its target among them.
        neighbours: tools that wrong options and wrong claims come from.
        novelty: ROUGE-L F1 with an accepted item from which one is a near-duplicate.
        patience: tools that may fail before the first item is accepted; then nothing more is asked.

    Raises:
        UserError: a value out of range, with its key.
    """

    attempts: int = 3
    drafts: int = 2
    batch_size: int = 32
    temperature: float = 0.7
    max_tokens: int = 600
    feedback: int = 5
    pool: int = 14
    neighbours: int = 4
    novelty: float = 0.7
    patience: int = 64

    def __post_init__(self) -> None:
        """Check ranges."""
        for key in ("attempts", "drafts", "batch_size", "max_tokens", "neighbours"):
            _check_whole(key, getattr(self, key))
        for key, most in (("temperature", 2), ("novelty", 1)):
            if not 0 <= getattr(self, key) <= most:
                raise UserError(
                    f"{getattr(self, key)} is out of range", where=f"generator.{key}",
                    expected=f"a number from 0 to {most}", fix=f"correct generator.{key}",
                )  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """What all three benchmarks are made with.

    Args:
        n: items.
        backend: one of `BACKENDS`.
        seed: of all draws.
        cap: most items of one service; None: 5 % of n.
        self_judging: the writer may check its own work.
        recipe: of language models.
        prices: for the cost.

    Raises:
        UserError: a value out of range, with its key.
    """

    n: int = 500
    backend: str = "template"
    seed: int = 0
    cap: int | None = None
    self_judging: bool = False
    recipe: Recipe = field(default_factory=Recipe)
    prices: Prices = field(default_factory=Prices)

    def __post_init__(self) -> None:
        """Check words and ranges."""
        if self.backend not in BACKENDS:
            raise UserError(
                f"unknown backend {self.backend!r}", where="generator.backend", expected=" or ".join(BACKENDS),
                fix=did_you_mean(self.backend, BACKENDS),
            )  # fmt: skip
        _check_whole("n", self.n)
        if self.cap is not None:
            _check_whole("cap", self.cap)


def check_values(generator: Mapping[str, Any]) -> None:
    """Refuse what a generator of ours will refuse, before its catalog is loaded.

    Raises:
        UserError: a value out of range, with its key.
    """
    recipe = Recipe(**{f.name: generator[f.name] for f in fields(Recipe) if f.name in generator})
    own = {f.name: generator[f.name] for f in fields(Settings) if f.name in generator}
    Settings(**(own | {"recipe": recipe, "prices": Prices.of(generator.get("prices"))}))
    if "pool" in generator:
        check_pool(generator["pool"])
    if "tiers" in generator:
        checked_tiers(generator["tiers"])


def _check_whole(key: str, value: int) -> None:
    """Whole numbers count from 1."""
    if value < 1:
        raise UserError(
            f"{value} is out of range", where=f"generator.{key}", expected="a whole number from 1",
            fix=f"correct generator.{key}",
        )  # fmt: skip


def checked_tiers(tiers: Mapping[str, float]) -> dict[str, float]:
    """Shares of the tiers that have any, easy ones first.

    Raises:
        UserError: an unknown tier, a share that is none, or shares that do not add up to 1.
    """
    for tier, share in tiers.items():
        if tier not in TIERS:
            raise UserError(
                f"unknown tier {tier!r}", where="generator.tiers", expected=", ".join(TIERS),
                fix=did_you_mean(str(tier), TIERS),
            )  # fmt: skip
        if not (isinstance(share, int | float) and not isinstance(share, bool) and 0 <= share <= 1):
            raise UserError(
                f"{share!r} is no share", where=f"generator.tiers.{tier}", expected="a number from 0 to 1",
                fix="generator.tiers='{easy: 0.34, medium: 0.33, hard: 0.33}'",
            )  # fmt: skip
    total = sum(tiers.values())
    if abs(total - 1) > 1e-6:
        raise UserError(
            f"the shares add up to {total:g}", where="generator.tiers", expected="shares that add up to 1",
            fix="generator.tiers='{easy: 0.34, medium: 0.33, hard: 0.33}'",
        )  # fmt: skip
    return {tier: float(tiers[tier]) for tier in TIERS if tiers.get(tier)}


def check_pool(pool: int) -> None:
    """Refuse a pool that no hard request can be chosen from.

    Raises:
        UserError: too few for a hard request with a wrong choice.
    """
    if pool < LEAST_POOL:
        raise UserError(
            f"{pool} is out of range", where="generator.pool",
            expected=f"a whole number from {LEAST_POOL}: six gold tools and one that is none",
            fix=f"generator.pool={LEAST_POOL} or more",
        )  # fmt: skip
