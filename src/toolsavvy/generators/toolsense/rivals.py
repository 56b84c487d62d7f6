"""Which tools could answer a need as well as the one it was written for: no request may be asked without knowing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from toolsavvy.catalog import Catalog, split_words
from toolsavvy.generators.toolsense.objects import head_of, stem, stems
from toolsavvy.generators.toolsense.requests import Need, actions_of, needs_of, sentences

HEAD_WORDS = 40
"""Of a description that say what a tool does; what follows are conditions and limits."""
CLOSER = 2
"""Words by which a gold tool's own need may be closer defined than the request."""
_FAMILIES: Mapping[str, str] = {
    **dict.fromkeys(("list", "search"), "look through"),
    **dict.fromkeys(("create", "generate", "add", "put", "register", "import", "place"), "make"),
    **dict.fromkeys(("update", "replace", "apply"), "change"),
    **dict.fromkeys(("delete", "deregister", "release", "revoke", "detach"), "end"),
    **dict.fromkeys(("stop", "cancel", "pause"), "stop"),
    **dict.fromkeys(("convert", "transform"), "turn"),
    **dict.fromkeys(("start", "invoke", "perform", "resume", "restart"), "run"),
    **dict.fromkeys(("check", "detect", "analyze", "calculate", "compare", "whether"), "work out"),
}
"""Actions that one word of a request could stand for; the others are families of their own."""


class Rivals:
    """Needs of every tool of a catalog and the tools that meet each of them.

    A tool meets a need if its action may be the same and its name and the head of its description hold every word of
    the need's object. So does every tool with the same first sentence, whatever its name is.

    Args:
        catalog: the tools.
    """

    def __init__(self, catalog: Catalog) -> None:
        """Read every tool once."""
        self.needs = tuple(needs_of(tool) for tool in catalog.tools)
        self._own = [self._families(actions_of(tool)) for tool in catalog.tools]
        self._words: list[frozenset[str]] = []
        self._holding: defaultdict[str, set[int]] = defaultdict(set)
        self._alike: defaultdict[str, set[int]] = defaultdict(set)
        self._first: list[str] = []
        for position, tool in enumerate(catalog.tools):
            head = " ".join(tool.description.split()[:HEAD_WORDS])
            words = stems(f"{split_words(tool.name)} {head}")
            for word in words:
                self._holding[word].add(position)
            self._words.append(words)
            opening = " ".join([*sentences(tool.description, 1), ""]).casefold().strip()
            self._first.append(opening)
            self._alike[opening].add(position)
        self._alike.pop("", None)

    @staticmethod
    def _families(actions: frozenset[str]) -> frozenset[str]:
        return frozenset(_FAMILIES.get(action, action) for action in actions)

    def of(self, tool: int, need: Need) -> set[int]:
        """Other tools that may meet a need of this tool."""
        held = sorted((self._holding.get(word, set()) for word in need.stems), key=len)
        common = set.intersection(*held) if held else set()
        family = _FAMILIES.get(need.action, need.action)
        if need.action == "use":  # nobody says what is done with a machine
            found = common
        else:
            found = {other for other in common if not self._own[other] or family in self._own[other]}
        return (found | self._alike.get(self._first[tool], set())) - {tool}

    def meets(self, other: int, need: Need) -> bool:
        """Whether a tool's own needs say plainly that it does what is asked, only a little more closely defined."""
        family, head = _FAMILIES.get(need.action, need.action), stem(head_of(need.thing).lower())
        return any(
            _FAMILIES.get(own.action, own.action) == family
            and need.stems <= own.stems
            and len(own.stems - need.stems) <= CLOSER
            and stem(head_of(own.thing).lower()) == head
            for own in self.needs[other]
        )

    def supports(self, tool: int, need: Need) -> bool:
        """Whether a tool's texts bear out what an example says of it: same family, at least half of the words."""
        family = _FAMILIES.get(need.action, need.action)
        known = len(need.stems & self._words[tool])
        return family in self._own[tool] and known > 0 and 2 * known >= len(need.stems)

    def sharing(self, need: Need, most: int) -> dict[int, float]:
        """Tools whose needs share words with this one -> how telling those are; common words are left out."""
        scores: defaultdict[int, float] = defaultdict(float)
        for word in sorted(need.stems):
            holding = self._holding.get(word, set())
            if len(holding) <= most:
                for other in holding:
                    scores[other] += 1.0 / (1 + len(holding)) ** 0.5
        return dict(scores)
