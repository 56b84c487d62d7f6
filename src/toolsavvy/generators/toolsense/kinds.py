"""The three benchmarks as makers: their templates, their writers, and the attacks that each must withstand."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from toolsavvy.attacks import choice_attacks, groups_of, question_only
from toolsavvy.benchmark import OPTIONS, TIERS, ChoiceItem, RetrievalItem, YesNoItem
from toolsavvy.catalog import RetrievalSet
from toolsavvy.config.toolsense import Recipe, Settings
from toolsavvy.generators.toolsense.making import Maker
from toolsavvy.generators.toolsense.mcq import template_mcq
from toolsavvy.generators.toolsense.neighbourhood import Neighbourhood
from toolsavvy.generators.toolsense.qa import template_qa
from toolsavvy.generators.toolsense.rrb import apportioned, make_rrb
from toolsavvy.generators.toolsense.writing import ChoiceWriter, LlmWriter, RequestWriter, YesNoWriter
from toolsavvy.models.chat import Chat
from toolsavvy.retrieval.ranking import Retriever


class RequestMaker(Maker[RetrievalItem]):
    """Makes requests (RRB).

    Args:
        data: as `Maker`.
        how: as `Maker`.
        llm: as `Maker`.
        judge: as `Maker`.
        near: as `Maker`.
        tiers: share of each tier.
    """

    kind = "rrb"

    def __init__(
        self,
        data: RetrievalSet,
        how: Settings,
        llm: Chat | None,
        judge: Chat | None,
        near: Retriever | None,
        tiers: Mapping[str, float],
    ) -> None:
        super().__init__(data, how, llm, judge, near)
        self.tiers = tiers

    def from_template(self, n: int, near: Neighbourhood) -> tuple[Sequence[RetrievalItem], Mapping[str, int]]:
        """As `make_rrb`."""
        made = make_rrb(
            self.data, n, cap=self.how.cap, near=near, seed=self.how.seed, pool=self.how.recipe.pool,
            tiers=self.tiers,
        )  # fmt: skip
        return made.items, made.counts

    def writer(self, llm: Chat, judge: Chat, recipe: Recipe) -> LlmWriter[RetrievalItem]:
        """As `RequestWriter`."""
        return RequestWriter(llm, judge, recipe)

    def wanted(self, n: int) -> Mapping[str, int]:
        """Requests by tier."""
        return apportioned(n, self.tiers)

    def settled(self, items: Sequence[RetrievalItem]) -> Sequence[RetrievalItem]:
        """With first places of pools as chance would have them."""
        return with_even_first_places(items, self.how.seed)


class ChoiceMaker(Maker[ChoiceItem]):
    """Makes multiple-choice questions (MCQ)."""

    kind = "mcq"
    chance = 1 / OPTIONS

    def from_template(self, n: int, near: Neighbourhood) -> tuple[Sequence[ChoiceItem], Mapping[str, int]]:
        """As `template_mcq`."""
        return template_mcq(self.catalog, n, cap=self.how.cap, near=near, seed=self.how.seed), {}

    def writer(self, llm: Chat, judge: Chat, recipe: Recipe) -> LlmWriter[ChoiceItem]:
        """As `ChoiceWriter`."""
        return ChoiceWriter(llm, judge, recipe)

    def attacks(self, items: Sequence[ChoiceItem]) -> Mapping[str, np.ndarray]:
        """All that look at options: how often they occur, their words and lengths, the tool's name."""
        return choice_attacks(items, self.texts)


class YesNoMaker(Maker[YesNoItem]):
    """Makes yes/no questions (QA)."""

    kind = "qa"
    chance = 0.5

    def from_template(self, n: int, near: Neighbourhood) -> tuple[Sequence[YesNoItem], Mapping[str, int]]:
        """As `template_qa`."""
        return template_qa(self.catalog, n, cap=self.how.cap, near=near, seed=self.how.seed), {}

    def writer(self, llm: Chat, judge: Chat, recipe: Recipe) -> LlmWriter[YesNoItem]:
        """As `YesNoWriter`."""
        return YesNoWriter(llm, judge, recipe)

    def attacks(self, items: Sequence[YesNoItem]) -> Mapping[str, np.ndarray]:
        """The question's words, learnt from other services."""
        return {"question_only": question_only(items, groups_of(items, self.texts))}

    def units(self, items: Sequence[YesNoItem]) -> list[tuple[YesNoItem, ...]]:
        """A yes and a no of one pattern: both stay equally frequent."""
        sides: defaultdict[str, tuple[list[YesNoItem], list[YesNoItem]]] = defaultdict(lambda: ([], []))
        for item in items:
            sides[item.pattern][item.answer].append(item)
        return [pair for no, yes in sides.values() for pair in zip(no, yes, strict=False)]


def with_even_first_places(items: Sequence[RetrievalItem], seed: int) -> list[RetrievalItem]:
    """The same pools with a gold tool, and the anchor, in the first place as often as chance expects in every tier.

    Systematic sampling: each pool's chances stay what a shuffle gives (golds / pool, 1 / pool), but their sums over a
    tier are off by less than one item, so that choosing the first tool scores chance in every set and not on average.
    """
    rng = random.Random(f"{seed}/first places")
    due = {tier: [rng.random(), rng.random()] for tier in TIERS}  # anchors, other golds
    out = []
    for item in items:
        others = [tool for tool in item.gold if tool != item.anchor]
        wrong = [tool for tool in item.pool if tool not in item.gold]
        place = due[item.tier]
        place[0] += 1 / len(item.pool)
        place[1] += len(others) / len(item.pool)
        if place[0] >= 1:
            place[0] -= 1
            first = item.anchor
        elif place[1] >= 1:
            place[1] -= 1
            first = rng.choice(others)
        else:
            first = rng.choice(wrong or item.gold)
        out.append(replace(item, pool=_swapped(item.pool, first)))
    return out


def _swapped(pool: Sequence[str], first: str) -> tuple[str, ...]:
    """The pool with one tool in the first place, and the one that was there in its."""
    return tuple(first if tool == pool[0] else pool[0] if tool == first else tool for tool in pool)
