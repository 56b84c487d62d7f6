"""Multiple-choice questions about the tools of any catalog, from their records alone: no model, no download.

Deviation from ToolSense (2606.12451), whose generator is a language model: questions and options are templates over
facts, and a wrong option is a fact of a near tool that is false of this one. No text stands in two items, whether
right or wrong, and triples of wrong options are chosen such that length and words of the name say nothing.
"""

from __future__ import annotations

import logging
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from toolsavvy.attacks import choice_attacks, shared, tokens
from toolsavvy.benchmark import OPTIONS, ChoiceItem, texts_of
from toolsavvy.catalog import Catalog, split_words
from toolsavvy.errors import UserError
from toolsavvy.generators.toolsense.balance import Ledger, keep_balanced
from toolsavvy.generators.toolsense.choices import SOURCES
from toolsavvy.generators.toolsense.facts import WITHIN, Facts, ToolFacts
from toolsavvy.generators.toolsense.neighbourhood import Neighbourhood, neighbourhood
from toolsavvy.generators.toolsense.stems import alike, all_stems, plain, stem
from toolsavvy.generators.toolsense.tools import Turns

log = logging.getLogger("toolsavvy")

WORDINGS: Mapping[str, tuple[str, ...]] = {
    "purpose": (
        "What is the purpose of this tool?",
        "Which of these tasks is this tool made for?",
        "Which summary describes this tool?",
    ),
    "detail": (
        "Which of these statements comes from the documentation of this tool?",
        "Which sentence is found in this tool's description?",
    ),
    "input": (
        "Which of these inputs can be passed to this tool?",
        "Which parameter does this tool accept?",
        "Which of these is a parameter of this tool?",
    ),
    "required": (
        "Which of these inputs does this tool require?",
        "Which of these parameters of this tool is mandatory?",
    ),
    "result": (
        "Which of these fields does this tool's response have at its top level?",
        "Which field stands at the top level of what this tool gives back?",
    ),
}
"""Pattern -> its questions."""
WEIGHTS: Mapping[str, float] = {"purpose": 3, "detail": 2, "input": 3, "required": 1, "result": 1}
"""How often each pattern is tried for; "required" and "result" ask what documents rendered by default don't say."""
NEAR, FARTHER = 40, 160
"""Near tools that lend wrong options; more where these are used up."""
TRIPLES, CANDIDATES, NEAREST, NAMED = 96, 60, 16, 10
"""Sets of three that are tried, wrong options that they are of, and how many of these are the nearest or most named."""
DRAFTS = 3
"""Facts of one kind that are tried for an item."""
WITHIN_PATTERN = 0.1
"""Weight of a pattern's own balance beside that of the whole set: purposes speak of names more than inputs do."""
SPARE = 1.15
"""Items made for every one that is wanted."""


@dataclass(frozen=True)
class Draft:
    """A right option and what may stand beside it.

    Args:
        tool: position in the catalog.
        pattern: kind of question.
        right: the right option.
        wrong: false ones, the nearest first.
    """

    tool: int
    pattern: str
    right: str
    wrong: tuple[str, ...]


def template_mcq(
    catalog: Catalog,
    n: int,
    *,
    cap: int | None = None,
    near: Neighbourhood | None = None,
    seed: int = 0,
    weights: Mapping[str, float] = WEIGHTS,
    within: int | None = WITHIN,
) -> list[ChoiceItem]:
    """Up to n multiple-choice questions; fewer where the catalog has no more facts that can stand as options.

    Args:
        catalog: the tools; four with facts of one kind are needed at least.
        n: how many; every text is used once, so a tool with one sentence gives a quarter of an item.
        cap: most items of one service; None: 5 % of n, raised where services are too few.
        near: where wrong options come from; None: near by words.
        seed: of all draws.
        weights: pattern -> how often it is wanted; a pattern that is left out is not asked.
        within: words of a description that are read for facts; None reads all.

    Raises:
        UserError: n below 1, an unknown pattern, or a catalog without any item.
    """
    check_patterns(weights, WORDINGS)
    turns = Turns(catalog, n, cap=cap, seed=seed)
    near = neighbourhood(catalog, near)
    maker = _Maker(catalog, near, Facts(catalog, within), weights, random.Random(f"{seed}/mcq"))
    wanted = math.ceil(n * SPARE)
    for tool in turns.upcoming(wanted, of=lambda: len(maker.items)):
        if maker.make(tool):
            turns.took(tool)
    texts = texts_of(catalog)
    items = keep_balanced(maker.items, lambda i: choice_attacks(i, texts), chance=1 / OPTIONS, most=n, least=n)
    items = keep_balanced(items, lambda i: choice_attacks(i, texts, learn=False), chance=1 / OPTIONS)
    if not items:
        raise UserError(
            "no multiple-choice question can be made", where=f"catalog {catalog.name}",
            expected=f"at least {OPTIONS} tools whose descriptions or parameters differ",
            fix="add tools, or descriptions of at least four words to those without",
        )  # fmt: skip
    if len(items) < n:
        log.warning("catalog %s gives %d multiple-choice questions, not %d", catalog.name, len(items), n)
    return [_numbered(item, i) for i, item in enumerate(items)]


def check_patterns(weights: Mapping[str, float], known: Iterable[str]) -> None:
    """Refuse patterns that don't exist and weights that are none.

    Raises:
        UserError: naming the pattern.
    """
    for name, weight in weights.items():
        if name not in known:
            raise UserError(f"unknown pattern {name!r}", where="generator.patterns", expected=", ".join(known))
        if not weight >= 0:
            raise UserError(f"{weight!r} is no weight", where=f"generator.patterns.{name}", expected="a number from 0")
    if not sum(weights.values()) > 0:
        raise UserError("no pattern has a weight", where="generator.patterns", expected="at least one above 0")


def _numbered(item: ChoiceItem, i: int) -> ChoiceItem:
    return ChoiceItem(f"mcq-{i + 1:05d}", item.question, item.correct, item.wrong, item.tool, item.pattern)


class _Maker:
    """Makes items one by one, so that none repeats a text and blind attacks stay at chance."""

    def __init__(
        self, catalog: Catalog, near: Neighbourhood, facts: Facts, weights: Mapping[str, float], rng: random.Random
    ) -> None:
        self.items: list[ChoiceItem] = []
        self._catalog, self._near, self._facts, self._rng = catalog, near, facts, rng
        self._weights = {name: weight for name, weight in weights.items() if weight > 0}
        self._ledger = Ledger(1 / OPTIONS)
        self._cost = 0.0
        self._said = (Counter[str](), Counter[str]())  # words of right and of wrong options so far
        self._used: set[str] = set()
        self._made: Counter[str] = Counter()
        self._asked: defaultdict[int, set[str]] = defaultdict(set)

    def make(self, tool: int) -> bool:
        """One more item about a tool, in the pattern that is furthest behind; False where none keeps the balance."""
        order = sorted(self._weights, key=lambda p: (p in self._asked[tool], (self._made[p] + 1) / self._weights[p]))
        best: tuple[float, Draft, tuple[str, ...], dict[str, float]] | None = None
        for pattern in order:
            for draft in self._drafts(tool, pattern):
                found = self._choose(draft)
                if found and (best is None or found[0] < best[0]):
                    best = (found[0], draft, *found[1:])
            if best and best[0] <= _limit(len(self.items)):
                break
        if best is None or best[0] > max(_limit(len(self.items)), self._cost):
            return False
        self._cost = best[0]
        self._take(*best[1:])
        return True

    def _drafts(self, tool: int, pattern: str) -> list[Draft]:
        """Up to `DRAFTS` facts of a tool that are still unused, with wrong options from as near as there are any."""
        for depth in (NEAR, FARTHER):
            found = list(islice(self._drafts_within(tool, pattern, self._near.of(tool, depth)), DRAFTS))
            if found:
                return found
        return []

    def _drafts_within(self, tool: int, pattern: str, near: Sequence[int]) -> Iterable[Draft]:
        for right, wrong in SOURCES[pattern](self._facts, tool, near):
            if plain(right) not in self._used:
                fit = self._fit(right, wrong)
                if len(fit) >= OPTIONS - 1:
                    yield Draft(tool, pattern, right, tuple(fit))

    def _fit(self, right: str, wrong: Iterable[str]) -> list[str]:
        """Unused wrong options of like length that are neither much like the right one nor like one another."""
        kept: list[tuple[str, frozenset[str]]] = [(right, all_stems(right))]
        length = len(right)
        for text in wrong:
            if plain(text) in self._used or not length * 0.5 - 6 <= len(text) <= length * 1.8 + 6:
                continue
            own = all_stems(text)
            if all(alike(own, other) < 0.75 for _, other in kept):
                kept.append((text, own))
            if len(kept) > CANDIDATES:
                break
        return [text for text, _ in kept[1:]]

    def _choose(self, draft: Draft) -> tuple[float, tuple[str, ...], dict[str, float]] | None:
        """The three wrong options with which the set's attacks stay nearest to chance; early (near) ones if equal."""
        options = (draft.right, *draft.wrong)
        learnt = self._learnt(options)
        features = {**_features(options, self._facts[draft.tool]), "learnt": learnt, "learnt inverse": -learnt}
        rows = np.array([(0, *triple) for triple in self._triples(features)])
        scores = {name: shared(values[rows]) for name, values in features.items()}
        costs = self._ledger.costs(scores, "") + WITHIN_PATTERN * self._ledger.costs(scores, draft.pattern)
        best = int(np.lexsort((rows.sum(axis=1), costs.round(9)))[0])
        chosen = tuple(options[i] for i in rows[best, 1:])
        return float(costs[best]), chosen, {name: float(values[best]) for name, values in scores.items()}

    def _learnt(self, options: Sequence[str]) -> np.ndarray:
        """What the words of the items so far say for an option's being right (naive Bayes): float64 [option]."""
        right, wrong = self._said
        sizes = sum(right.values()) + len(wrong) + 1, sum(wrong.values()) + len(wrong) + 1
        odds = [
            sum(math.log((right[w] + 1) / sizes[0]) - math.log((wrong[w] + 1) / sizes[1]) for w in tokens(option))
            for option in options
        ]
        return np.array(odds)

    def _triples(self, features: Mapping[str, np.ndarray]) -> list[tuple[int, ...]]:
        """Sets of wrong options to try: of the nearest ones, and of those that share most with the tool's name.

        Without the second kind, the right option would nearly always be the one that speaks of the name.
        """
        count = len(features["words"]) - 1
        shared_words = np.sum([features[name] for name in _NAMED], axis=0)
        named = sorted(range(1, count + 1), key=lambda i: (-shared_words[i], i))[:NAMED]
        pools = (
            [*range(1, min(count, NEAREST) + 1)],
            named,
            sorted({*named[: NAMED // 2], *range(1, min(count, 6) + 1)}),
        )
        tries = TRIPLES // len(pools)
        drawn = [self._rng.sample(pool, OPTIONS - 1) for pool in pools for _ in range(tries)]
        return sorted({tuple(sorted(triple)) for triple in drawn})

    def _take(self, draft: Draft, wrong: tuple[str, ...], scores: dict[str, float]) -> None:
        """Write the item down and mark its texts as used."""
        self._ledger.add(scores, "", draft.pattern)
        self._used |= {plain(text) for text in (draft.right, *wrong)}
        self._said[0].update(tokens(draft.right))
        self._said[1].update(word for text in wrong for word in tokens(text))
        wordings = WORDINGS[draft.pattern]
        question = wordings[self._made[draft.pattern] % len(wordings)]
        self._made[draft.pattern] += 1
        self._asked[draft.tool].add(draft.pattern)
        shuffled = tuple(self._rng.sample(wrong, len(wrong)))
        tool = self._catalog.tools[draft.tool].id
        self.items.append(ChoiceItem("", question, draft.right, shuffled, tool, draft.pattern))


def _limit(made: int) -> float:
    """Squared excess that an item may leave behind: some two points for each of ten attacks, more at the start."""
    return 10 * (1 + 0.015 * made) ** 2


_NAMED = ("spelled", "words", "stems")


def _features(options: Sequence[str], facts: ToolFacts) -> dict[str, np.ndarray]:
    """What blind attacks see of each option, both ways: attack -> float64 [option]."""
    tool = facts.tool
    spelled = set(tokens(f"{tool.group} {tool.name}"))
    words = set(tokens(f"{split_words(tool.group)} {split_words(tool.name)}"))
    seen = [set(tokens(option)) for option in options]
    overlaps = {
        "spelled": [len(own & spelled) for own in seen],
        "words": [len(own & words) for own in seen],
        "stems": [len({stem(w) for w in own} & facts.name_words) for own in seen],
        "length": [len(option) for option in options],
    }
    up = {name: np.array(values, dtype=np.float64) for name, values in overlaps.items()}
    return up | {f"{name} inverse": -values for name, values in up.items()}
