"""How ToolSense-style benchmarks are made: options, checked when a generator is built."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from toolsavvy.benchmark import TIERS
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.generators.toolsense.rrb import LEAST_POOL

BACKENDS = ("template", "llm")
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
class Settings:
    """What all three benchmarks are made with.

    Args:
        n: items.
        backend: one of `BACKENDS`.
        seed: of all draws.
        cap: most items of one service; None: 5 % of n.
        self_judging: the writer may check its own work.
        attempts: answers asked for one item until one passes.
        temperature: of the writer; the judge is greedy.
        max_tokens: of an answer.
        prices: for the cost.

    Raises:
        UserError: a value out of range, with its key.
    """

    n: int = 500
    backend: str = "template"
    seed: int = 0
    cap: int | None = None
    self_judging: bool = False
    attempts: int = 3
    temperature: float = 0.7
    max_tokens: int = 600
    prices: Prices = field(default_factory=Prices)

    def __post_init__(self) -> None:
        """Check words and ranges."""
        if self.backend not in BACKENDS:
            raise UserError(
                f"unknown backend {self.backend!r}", where="generator.backend", expected=" or ".join(BACKENDS),
                fix=did_you_mean(self.backend, BACKENDS),
            )  # fmt: skip
        whole = {"n": self.n, "attempts": self.attempts, "max_tokens": self.max_tokens}
        whole |= {} if self.cap is None else {"cap": self.cap}
        for key, value in whole.items():
            if value < 1:
                raise UserError(f"{value} is out of range", where=f"generator.{key}", expected="a whole number from 1")
        if not 0 <= self.temperature <= 2:
            raise UserError(
                f"{self.temperature} is out of range", where="generator.temperature", expected="a number from 0 to 2"
            )


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
            raise UserError(f"{share!r} is no share", where=f"generator.tiers.{tier}", expected="a number from 0 to 1")
    total = sum(tiers.values())
    if abs(total - 1) > 1e-6:
        raise UserError(
            f"the shares add up to {total:g}", where="generator.tiers", expected="shares that add up to 1",
            fix="generator.tiers='{easy: 0.34, medium: 0.33, hard: 0.33}'",
        )  # fmt: skip
    return {tier: float(tiers[tier]) for tier in TIERS if tiers.get(tier)}


def checked_pool(pool: int) -> int:
    """Tools that a request's writer chooses from.

    Raises:
        UserError: too few for a hard request with a wrong choice.
    """
    if pool < LEAST_POOL:
        raise UserError(
            f"{pool} is out of range", where="generator.pool",
            expected=f"a whole number from {LEAST_POOL}: six gold tools and one that is none",
        )  # fmt: skip
    return pool
