"""Yes/no questions about the tools of any catalog, from their records alone: no model, no download.

Deviation from ToolSense (2606.12451), whose "no" is what a description does not mention: here a no contradicts the
record (a parameter that a closed schema lacks, an optional one called mandatory, another type, another tool's purpose).
Every question fits two tools of one service with opposite answers, and a fair draw says which of the two it is put to,
so the question alone tells nothing. Putting it to both would: who has seen the one answer would know the other.
"""

from __future__ import annotations

import logging
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from toolsavvy.attacks import groups_of, question_only
from toolsavvy.benchmark import ToolText, YesNoItem, texts_of
from toolsavvy.catalog import Catalog
from toolsavvy.errors import UserError
from toolsavvy.generators.toolsense.facts import WITHIN, Facts
from toolsavvy.generators.toolsense.mcq import NEAR, check_patterns
from toolsavvy.generators.toolsense.neighbourhood import Neighbourhood, neighbourhood
from toolsavvy.generators.toolsense.statements import STATEMENTS, Statement
from toolsavvy.generators.toolsense.stems import all_stems, plain
from toolsavvy.generators.toolsense.tools import CAP_SHARE, Turns

log = logging.getLogger("toolsavvy")

WORDINGS: Mapping[str, tuple[str, ...]] = {
    "purpose": ('Does this sentence describe this tool: "{}"', 'Is this the purpose of this tool: "{}"'),
    "input": ('Does this tool have a parameter named "{}"?', 'Is "{}" among the inputs of this tool?'),
    "required": ('Must "{}" be given whenever this tool is called?', 'Is "{}" a mandatory parameter of this tool?'),
    "type": ("Does this tool take {}?", "Does this tool expect {}?"),
    "result": (
        'Does the response of this tool have "{}" at its top level?',
        'Is "{}" a top-level field of what this tool returns?',
    ),
}
"""Pattern -> its questions, with room for a fact."""
WEIGHTS: Mapping[str, float] = {"purpose": 3, "input": 3, "required": 1.5, "type": 0.5, "result": 1}
"""How often each pattern is tried for."""
DRAWS = 40
"""Draws of the answers from which the one is taken whose questions tell least."""
ENOUGH = 0.02
"""Distance from chance of a question-only classifier with which a draw is taken at once."""
PARTNERS = 8
"""Near tools that a question may be put to beside the tool that it was made for."""


def template_qa(
    catalog: Catalog,
    n: int,
    *,
    cap: int | None = None,
    near: Neighbourhood | None = None,
    seed: int = 0,
    weights: Mapping[str, float] = WEIGHTS,
    within: int | None = WITHIN,
) -> list[YesNoItem]:
    """Up to n yes/no questions, yes and no equally often in every pattern (an odd number leaves one over).

    Args:
        catalog: the tools; two whose records contradict one another are needed at least.
        n: how many; fewer where the records have no more facts.
        cap: most items of one service; None: 5 % of n; raised where services are too few.
        near: where partners and wrong facts come from; None: near by words.
        seed: of all draws.
        weights: pattern -> how often it is wanted; a pattern that is left out is not asked.
        within: words of a description that are read for facts; None reads all.

    Raises:
        UserError: n below 1, an unknown pattern, or a catalog without any item.
    """
    check_patterns(weights, WORDINGS)
    most = math.ceil(n * CAP_SHARE) if cap is None else cap
    turns = Turns(catalog, 2 * n, cap=2 * most, seed=seed)  # two candidates an item
    rng = random.Random(f"{seed}/qa")
    maker = _Maker(catalog, neighbourhood(catalog, near), Facts(catalog, within), weights, turns, rng)
    for tool in turns.upcoming(2 * n, of=maker.complete):
        maker.make(tool)
    items = drawn(maker.pairs[:n], texts_of(catalog), rng)
    if not items:
        raise UserError(
            "no yes/no question can be made", where=f"catalog {catalog.name}",
            expected="at least 2 tools whose descriptions or parameters contradict one another",
            fix="add tools, or descriptions of at least four words to those without",
        )  # fmt: skip
    if len(items) < n:
        log.warning("catalog %s gives %d yes/no questions, not %d", catalog.name, len(items), n)
    rng.shuffle(items)
    return [replace(item, id=f"qa-{i + 1:05d}") for i, item in enumerate(items)]


def drawn(
    pairs: Sequence[tuple[YesNoItem, YesNoItem]], texts: Mapping[str, ToolText], rng: random.Random
) -> list[YesNoItem]:
    """One item of each (yes, no) pair: in every pattern half of them yes, drawn so that the questions tell nothing.

    Args:
        pairs: two candidates each, of one pattern.
        texts: the tools, for their services.
        rng: of the draws.
    """
    best: tuple[float, list[YesNoItem]] = (math.inf, [])
    for _ in range(DRAWS if pairs else 0):
        items = [pair[0 if yes else 1] for pair, yes in zip(pairs, _sides(pairs, rng), strict=True)]
        told = max(
            abs(float(question_only(items, groups).mean()) - 0.5)
            for groups in (groups_of(items, texts), [item.tool for item in items])
        )
        best = min(best, (told, items), key=lambda draw: draw[0])
        if told <= ENOUGH:
            break
    return best[1]


def _sides(pairs: Sequence[tuple[YesNoItem, YesNoItem]], rng: random.Random) -> list[bool]:
    """Whether each pair gives its yes: half of every pattern, the odd ones over all patterns by turns."""
    places: dict[str, list[int]] = {}
    for place, (item, _) in enumerate(pairs):
        places.setdefault(item.pattern, []).append(place)
    sides, more = [False] * len(pairs), rng.random() < 0.5
    for own in places.values():
        wanted = len(own) // 2 + (len(own) % 2 and more)
        more = more if len(own) % 2 == 0 else not more
        for place in rng.sample(own, wanted):
            sides[place] = True
    return sides


class _Maker:
    """Makes candidates two at a time: one text for two tools, or two texts for a tool that is on its own."""

    def __init__(
        self,
        catalog: Catalog,
        near: Neighbourhood,
        facts: Facts,
        weights: Mapping[str, float],
        turns: Turns,
        rng: random.Random,
    ) -> None:
        self._catalog, self._near, self._facts, self._turns, self._rng = catalog, near, facts, turns, rng
        self._weights = {name: weight for name, weight in weights.items() if weight > 0}
        self.pairs: list[tuple[YesNoItem, YesNoItem]] = []
        self._used: set[tuple[str, str]] = set()
        self._stated: dict[tuple[str, int], list[Statement]] = {}
        self._made: Counter[str] = Counter()
        self._asked: Counter[int] = Counter()
        self._groups = [tool.group.strip() for tool in catalog.tools]
        self._has_groups = len({group for group in self._groups if group}) > 1

    def complete(self) -> int:
        """Candidates so far."""
        return 2 * len(self.pairs)

    def make(self, tool: int) -> None:
        """Ask about a tool, in the pattern that is furthest behind, with a partner if it has one."""
        if self._asked[tool] >= self._turns.rounds:
            return
        self._stated.clear()  # which facts tell a tool from its neighbours hangs on whose neighbours they are
        order = sorted(self._weights, key=lambda pattern: (self._made[pattern] + 1) / self._weights[pattern])
        for pattern in order:
            if self._turns.room(tool) >= 2 and self._pair(tool, pattern):
                return
        for pattern in order:
            if self._turns.room(tool) >= 2 and not self._partners(tool) and self._alone(tool, pattern):
                return

    def _are_together(self, tool: int, other: int) -> bool:
        """Whether a classifier that holds services apart would never learn one's answer from the other's."""
        return not self._has_groups or (bool(self._groups[tool]) and self._groups[tool] == self._groups[other])

    def _partners(self, tool: int) -> list[int]:
        """Near tools of its service."""
        return [other for other in self._near.of(tool, NEAR) if self._are_together(tool, other)]

    def _pair(self, tool: int, pattern: str) -> bool:
        """One question that fits this tool and a near one of its service with opposite answers."""
        near = self._partners(tool)
        partners = [other for other in near if self._asked[other] < self._turns.rounds]
        own = [(tool, other) for other in partners]
        ways = [own, [(other, tool) for other in partners]]  # (yes, no)
        self._rng.shuffle(ways)
        for way in ways:
            found = self._best(pattern, way, near)
            if found:
                statement, yes, no = found
                self._add(pattern, (statement, yes), (statement, no))
                return True
        return False

    def _best(
        self, pattern: str, way: Sequence[tuple[int, int]], near: Sequence[int]
    ) -> tuple[Statement, int, int] | None:
        """Of the first fits, the one whose words are as much in the one tool's name as in the other's."""
        fits: list[tuple[int, int, Statement, int, int]] = []
        for yes, no in way:
            for statement in self._unused(pattern, [yes], near):
                if self._spells(statement, yes, no):
                    continue
                if statement.fails(self._facts[no], self._facts.are_one_service(yes, no)):
                    words = all_stems(statement.text)
                    gap = len(words & self._facts[yes].name_words) - len(words & self._facts[no].name_words)
                    fits.append((abs(gap), len(fits), statement, yes, no))
                    break
            if len(fits) == PARTNERS:
                break
        return min(fits, key=lambda fit: fit[:2])[2:] if fits else None

    def _alone(self, tool: int, pattern: str) -> bool:
        """Two questions to a tool that is alone in its service: a fact of its own, and one of a near tool."""
        near = self._near.of(tool, NEAR)
        own = next((s for s in self._unused(pattern, [tool], near) if not self._spells(s, tool)), None)
        others = (s for s in self._unused(pattern, near, near) if not self._spells(s, tool))
        wrong = next((s for s in others if s.fails(self._facts[tool], False)), None)
        if own is None or wrong is None:
            return False
        self._add(pattern, (own, tool), (wrong, tool))
        return True

    def _unused(self, pattern: str, sources: Iterable[int], near: Sequence[int]) -> Iterator[Statement]:
        """Statements about some tools that no question holds yet."""
        for source in sources:
            if (pattern, source) not in self._stated:
                around = [self._facts[other] for other in near]
                self._stated[pattern, source] = list(STATEMENTS[pattern](self._facts[source], around))
            for statement in self._stated[pattern, source]:
                if (pattern, plain(statement.text)) not in self._used:
                    yield statement

    def _spells(self, statement: Statement, *tools: int) -> bool:
        """Whether a statement names the service of a tool that it may be put to."""
        return any(self._facts[tool].spells_service(statement.text) for tool in tools)

    def _add(self, pattern: str, yes: tuple[Statement, int], no: tuple[Statement, int]) -> None:
        """Write down two candidates of one wording, yes first: (what is asked, of which tool)."""
        wordings = WORDINGS[pattern]
        wording = wordings[self._made[pattern] % len(wordings)]
        self._made[pattern] += 1
        items = []
        for answer, (statement, tool) in ((True, yes), (False, no)):
            self._used.add((pattern, plain(statement.text)))
            self._asked[tool] += 1
            self._turns.took(tool)
            question = wording.format(statement.text)
            items.append(YesNoItem("", question, answer, self._catalog.tools[tool].id, pattern))
        self.pairs.append((items[0], items[1]))
