"""What can be counted about a benchmark of tool knowledge: attacks, duplicates, leaks, rivals, positions, services."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb
from typing import Any

import numpy as np

from toolsavvy.attacks import choice_attacks, groups_of, option_words, question_only, question_prior, tokens
from toolsavvy.benchmark import OPTIONS, TIERS, ChoiceItem, ItemSet, RetrievalItem, ToolText, YesNoItem
from toolsavvy.catalog import split_words
from toolsavvy.catalogs.splits import plain
from toolsavvy.catalogs.toolsense_items import is_blank
from toolsavvy.generators.overlap import near_duplicates
from toolsavvy.metrics import Interval, bootstrap

OFTEN = 10
"""Items that a question pattern needs before the balance of its answers is looked at."""


@dataclass(frozen=True)
class Settings:
    """How an audit looks.

    Args:
        folds: parts of the cross-fitted attacks.
        seed: of folds and resampling.
        near_duplicate: ROUGE-L F1 from which two requests are near-duplicates.
        resamples: bootstrap replicates behind an interval.
    """

    folds: int = 10
    seed: int = 0
    near_duplicate: float = 0.8
    resamples: int = 2000


@dataclass(frozen=True)
class Findings:
    """What was found in one benchmark.

    Args:
        n: items.
        counts: name -> how many.
        shares: name -> share of items, with its interval over services (tools where there are none).
        numbers: name -> other quantities; None where undefined.
        chance: for shares that a sound benchmark leaves at chance: name -> that level.
    """

    n: int
    counts: Mapping[str, int]
    shares: Mapping[str, Interval]
    numbers: Mapping[str, float | None] = field(default_factory=dict)
    chance: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Flat: every name with its value, shares also as `<name>_interval: [low, high]`."""
        out: dict[str, Any] = {"n": self.n, **self.counts}
        for name, share in self.shares.items():
            out[name] = _rounded(share.value)
            out[f"{name}_interval"] = [_rounded(share.low), _rounded(share.high)]
        return out | {name: _rounded(value) for name, value in self.numbers.items()}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def measure_mcq(found: ItemSet[ChoiceItem], how: Settings) -> Findings:
    """Blind attacks, repetitions, leaks and concentration of multiple-choice questions."""
    items, texts = found.items, found.tools
    share = _shares([item.tool for item in items], texts, how)
    attacks = choice_attacks(items, texts, learn=False)
    groups = groups_of(items, texts)
    learnt = option_words(items, groups, how.folds, how.seed) if len(set(groups)) > 1 else np.full(len(items), np.nan)
    attacks["option_words"] = learnt
    counts = {
        "distinct_questions": len({plain(item.question) for item in items}),
        "distinct_questions_with_answer": len({(plain(i.question), plain(i.correct)) for i in items}),
        "distinct_items": len({_whole(item) for item in items}),
        "duplicate_items": _again(_whole(item) for item in items),
        "contradicting_items": _disputed(items),
        **_leaks([(item.question, (item.tool,)) for item in items], texts),
        **_tools([item.tool for item in items], texts),
        **found.counts,
    }
    chance = dict.fromkeys(attacks, 1 / OPTIONS)
    shares = {name: share(values) for name, values in attacks.items()}
    return Findings(len(items), counts, shares, _services([item.tool for item in items], texts), chance)


def _whole(item: ChoiceItem) -> Hashable:
    """All that a blind reader sees of a question, with its answer."""
    return plain(item.question), plain(item.correct), frozenset(map(plain, item.wrong))


def measure_qa(found: ItemSet[YesNoItem], how: Settings) -> Findings:
    """The question-only attack, balance of answers, repetitions, leaks and concentration of yes/no questions."""
    items, texts = found.items, found.tools
    share = _shares([item.tool for item in items], texts, how)
    truth = np.array([item.answer for item in items], dtype=np.float64)
    groups = groups_of(items, texts)
    blind = question_only(items, groups, how.folds, how.seed) if len(set(groups)) > 1 else np.full(len(items), np.nan)
    questions = Counter(plain(item.question) for item in items)
    sides: dict[str, set[bool]] = defaultdict(set)
    for item in items:
        sides[plain(item.question)].add(item.answer)
    counts = {
        "distinct_questions": len(questions),
        "duplicate_items": _again((plain(item.question), item.tool) for item in items),
        "contradicting_items": _contradictions(items),
        "questions_with_both_answers": sum(len(answers) == 2 for answers in sides.values()),
        "repeated_one_sided": sum(n for q, n in questions.items() if n > 1 and len(sides[q]) == 1),
        **_leaks([(item.question, (item.tool,)) for item in items], texts),
        **_tools([item.tool for item in items], texts),
        **found.counts,
    }
    gap, patterns = _pattern_gap(items)
    shares = {"question_only": share(blind), "yes_share": share(truth)}
    chance = dict.fromkeys(shares, 0.5)
    shares["question_prior"] = share(question_prior(items))  # not checked: any exact balance is far below chance here
    numbers = {"pattern_yes_gap": gap, **_services([item.tool for item in items], texts)}
    return Findings(len(items), counts | {"frequent_patterns": patterns}, shares, numbers, chance)


def _pattern_gap(items: Sequence[YesNoItem]) -> tuple[float | None, int]:
    """How far the share of yes is from a half within frequent patterns, and how many of those there are.

    The mean over their items of the distance, less what fair coins of the same numbers would show; not below 0. A
    pattern is the one that an item's maker names, else the question's text.
    """
    answers: dict[str, list[bool]] = defaultdict(list)
    for item in items:
        answers[item.pattern or plain(item.question)].append(item.answer)
    often = [rows for rows in answers.values() if len(rows) >= OFTEN]
    total = sum(map(len, often))
    gap = sum(abs(sum(rows) - len(rows) / 2) - _coins(len(rows)) for rows in often)
    return (max(0.0, gap / total) if total else None), len(often)


def _coins(n: int) -> float:
    """Mean distance from n / 2 of the heads of n fair coins (de Moivre)."""
    return n * comb(n - 1, n // 2) / 2**n


def measure_rrb(found: ItemSet[RetrievalItem], how: Settings) -> Findings:
    """Tiers, rivals, anchors, positions, repetitions, leaks and concentration of requests."""
    items, texts = found.items, found.tools
    anchors = [item.anchor for item in items]
    share = _shares(anchors, texts, how)
    queries = Counter(plain(item.query) for item in items)
    near = near_duplicates([tokens(item.query) for item in items], how.near_duplicate)
    counts = {f"{tier}_n": sum(item.tier == tier for item in items) for tier in TIERS}
    for name, holds in _CONDITIONS.items():
        counts |= {f"{tier}_{name}": sum(i.tier == tier and holds(i, texts) for i in items) for tier in TIERS}
    counts |= {
        "duplicate_queries": sum(n - 1 for n in queries.values()),
        "near_duplicate_queries": int(near.sum()),
        "gold_tools": len({tool for item in items for tool in item.gold}),
        **_leaks([(item.query, item.gold) for item in items], texts),
        **_tools(anchors, texts),
        **found.counts,
    }
    chance: dict[str, float] = {}
    shares: dict[str, Interval] = {}
    for tier in TIERS:
        own = np.array([item.tier == tier for item in items], dtype=bool)
        first = np.array([item.pool[0] in item.gold for item in items], dtype=np.float64)
        shares[f"{tier}_position_zero"] = share(np.where(own, first, np.nan))
        if own.any():
            chance[f"{tier}_position_zero"] = _mean(len(i.gold) / len(i.pool) for i in items if i.tier == tier)
    if items and not found.counts.get("assumed_anchors"):  # else they were taken from there
        shares["anchor_position_zero"] = share(np.array([float(i.pool[0] == i.anchor) for i in items]))
        chance["anchor_position_zero"] = _mean(1 / len(item.pool) for item in items)
    sizes = {"pool_size": _mean(len(i.pool) for i in items), "gold_size": _mean(len(i.gold) for i in items)}
    words = {"words": _mean(len(tokens(item.query)) for item in items)}
    return Findings(len(items), counts, shares, {**sizes, **words, **_services(anchors, texts)}, chance)


def _rival(item: RetrievalItem, texts: Mapping[str, ToolText]) -> bool:
    """Whether a pool tool that is no gold looks to the writer exactly as a gold does; two empty texts look alike."""
    golds = {texts[tool].shown for tool in item.gold}
    return any(texts[tool].shown in golds for tool in item.pool if tool not in item.gold)


def _own_rival(item: RetrievalItem, texts: Mapping[str, ToolText]) -> bool:
    """Whether a pool tool that is no gold has a gold's own description; one that says nothing is none."""
    golds = {texts[tool].own for tool in item.gold if not is_blank(texts[tool].own)}
    return any(texts[tool].own in golds for tool in item.pool if tool not in item.gold)


_CONDITIONS: Mapping[str, Callable[[RetrievalItem, Mapping[str, ToolText]], bool]] = {
    "identical_rival": _rival,
    "identical_own_document": _own_rival,
    "anchor_missing": lambda item, texts: item.anchor not in item.gold,
    "one_service": lambda item, texts: len({texts[tool].service for tool in item.gold}) == 1,
}
"""What is counted in each tier."""


def _mean(values: Any) -> float:
    """Mean; 0 of nothing."""
    rows = list(values)
    return float(np.mean(rows)) if rows else 0.0


def _again(keys: Any) -> int:
    """How many are there for a second time or more."""
    return sum(n - 1 for n in Counter(keys).values())


def _contradictions(items: Sequence[YesNoItem]) -> int:
    """Items whose question is asked about the same tool with the other answer."""
    answers = Counter((plain(item.question), item.tool, item.answer) for item in items)
    return sum((plain(item.question), item.tool, not item.answer) in answers for item in items)


def _disputed(items: Sequence[ChoiceItem]) -> int:
    """Items whose right answer is a wrong one where the same is asked about the same tool.

    Two right answers alone are no contradiction: a tool has several parameters.
    """
    wrong = {(plain(item.question), item.tool, plain(option)) for item in items for option in item.wrong}
    return sum((plain(item.question), item.tool, plain(item.correct)) in wrong for item in items)


def spells(text: str, name: str) -> bool:
    """Whether a text holds all words of a name one after the other ("getVideo" is "get video")."""
    words = " ".join(tokens(split_words(name)))
    return bool(words) and f" {words} " in f" {' '.join(tokens(split_words(text)))} "


def _leaks(rows: Sequence[tuple[str, tuple[str, ...]]], texts: Mapping[str, ToolText]) -> dict[str, int]:
    """Texts that spell the name of one of their tools, or of its service."""
    return {
        "name_leaks": sum(any(spells(text, texts[t].name) for t in tools) for text, tools in rows),
        "title_leaks": sum(any(spells(text, texts[t].service) for t in tools) for text, tools in rows),
    }


def _tools(tools: Sequence[str], texts: Mapping[str, ToolText]) -> dict[str, int]:
    """How many tools and services the items are about."""
    asked = Counter(tools)
    services = {texts[tool].service for tool in tools if texts[tool].service.strip()}
    return {"tools": len(asked), "tools_asked_again": sum(n > 1 for n in asked.values()), "services": len(services)}


def _services(tools: Sequence[str], texts: Mapping[str, ToolText]) -> dict[str, float | None]:
    """The largest service's share of the items, and the effective number of services (inverse Simpson index)."""
    sizes = np.array(list(Counter(s for t in tools if (s := texts[t].service.strip())).values()), dtype=np.float64)
    if not len(sizes):
        return {"largest_service": None, "effective_services": None}
    parts = sizes / sizes.sum()
    return {"largest_service": float(parts.max()), "effective_services": float(1 / (parts**2).sum())}


def _shares(tools: Sequence[str], texts: Mapping[str, ToolText], how: Settings) -> Callable[[np.ndarray], Interval]:
    """From values [item] to a mean with its interval over services, or over tools where fewer than two are known."""
    services = [texts[tool].service.strip() or tool for tool in tools]
    known = {texts[tool].service.strip() for tool in tools} - {""}
    clusters = services if len(known) > 1 else list(tools)
    return lambda values: bootstrap(values, clusters, how.resamples, how.seed)
