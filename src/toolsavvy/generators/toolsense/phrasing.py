"""How people put a need into words: verbs, nouns and sentences, in two halves that share none of them.

Requests of the benchmark are made from one half and requests for training from the other, so that a model that learnt
from the latter has met no phrase of the former. All phrases are our own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from toolsavvy.generators.toolsense.phrases import EASY, GOALS, MASS, NOUNS, PAIR, STEPS, THEMES, TRIPLE, VERBS, Half

_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_SLOT = re.compile(r"\{\w+\}")


@dataclass(frozen=True)
class Frames:
    """One half of the phrase bank.

    Args:
        half: "benchmark" or "training".
        verbs: action -> phrases with the slot {o}.
        nouns: lower-case term -> what it is called instead.
        easy: sentences with the slot {do}.
        pair: sentences with the slots {a} {b}; () in training, which asks for one tool at a time.
        triple: sentences with the slots {a} {b} {c}.
        goals: kind of project -> sentences with the slot {theme}.
        steps: sentences with the slots {a} {b}, each for several needs.
        themes: what a goal speaks of where the needs share no noun.
    """

    half: Half
    verbs: Mapping[str, tuple[str, ...]]
    nouns: Mapping[str, str]
    easy: tuple[str, ...]
    pair: tuple[str, ...] = ()
    triple: tuple[str, ...] = ()
    goals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    steps: tuple[str, ...] = ()
    themes: tuple[str, ...] = ()

    @cached_property
    def phrases(self) -> tuple[str, ...]:
        """Every verb phrase, noun and sentence of this half, slots included."""
        verbs = [phrase for phrases in self.verbs.values() for phrase in phrases]
        goals = [goal for some in self.goals.values() for goal in some]
        return (*verbs, *self.nouns.values(), *self.easy, *self.pair, *self.triple, *goals, *self.steps)

    @cached_property
    def _by_word(self) -> Mapping[str, tuple[re.Pattern[str], ...]]:
        """First word of a phrase -> patterns of the phrases that start with it, over `plain` text."""
        found: dict[str, list[re.Pattern[str]]] = {}
        for phrase in self.phrases:
            finder = _finder(phrase)
            found.setdefault(finder.split()[0], []).append(re.compile(finder))
        return {word: tuple(patterns) for word, patterns in found.items()}

    @cached_property
    def terms(self) -> re.Pattern[str]:
        """Finds any noun that has another name, the longest first."""
        longest_first = sorted(self.nouns, key=lambda term: (-len(term), term))
        return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest_first))})\b", re.IGNORECASE)

    def occurs(self, text: str) -> bool:
        """Whether a text holds any phrase of this half, whatever fills the slots."""
        words = plain(text)
        return any(pattern.search(words) for word in words.split() for pattern in self._by_word.get(word, ()))


def frames(half: Half) -> Frames:
    """One half of the phrase bank; no phrase is in both."""
    if half == "training":
        return _TRAINING
    return _BENCHMARK


@lru_cache(maxsize=1 << 16)
def action_of(verb: str) -> str | None:
    """The action that a verb names in any of its forms ("lists", "copied", "getting"); None for other words."""
    word = verb.lower()
    return next((_LEMMAS[form] for form in _forms(word) if form in _LEMMAS), None)


def is_base_form(verb: str) -> bool:
    """Whether a word is a verb of the table as it stands, without an ending."""
    return verb.lower() in _LEMMAS


def plural(noun: str) -> str:
    """An English plural by its ending; of "place to stay", the place's."""
    head, link, tail = noun.partition(next((word for word in (" to ", " of ", " in", " under ") if word in noun), "\0"))
    if link:
        return f"{plural(head)}{link}{tail}"
    if noun in MASS:
        return noun
    if noun.endswith(("ss", "x", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("s"):
        return noun
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def plain(text: str) -> str:
    """Lower-case words with one space around each: what phrases are looked up in."""
    return f" {' '.join(_WORD.findall(text.lower().replace('-', ' ')))} "


def _finder(phrase: str) -> str:
    """The fixed parts of a phrase, in order, as a regular expression over `plain` text."""
    parts = [plain(part).strip() for part in _SLOT.split(phrase)]
    return ".*".join(f" {part} " for part in parts if part).replace(" .* ", " (?:.* )?")


def _forms(word: str) -> list[str]:
    """A word and what it may be an inflection of."""
    forms = [word]
    for ending, others in (
        ("ies", ("y",)),
        ("es", ("", "e")),
        ("s", ("",)),
        ("ied", ("y",)),
        ("ed", ("", "e")),
        ("ing", ("", "e")),
    ):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            stem = word[: -len(ending)]
            forms += [stem + other for other in others]
            if ending in ("ed", "ing") and stem[-1:] == stem[-2:-1]:  # getting, planned
                forms.append(stem[:-1])
    return forms


_LEMMAS = {lemma: action for action, (lemmas, _, _) in VERBS.items() for lemma in lemmas.split()}
_ALL_NOUNS = NOUNS | {
    plural(term): (plural(ours), plural(theirs)) for term, (ours, theirs) in NOUNS.items() if term not in MASS
}
_BENCHMARK = Frames(
    "benchmark",
    {action: ours for action, (_, ours, _) in VERBS.items()},
    {term: ours for term, (ours, _) in _ALL_NOUNS.items()},
    EASY["benchmark"],
    PAIR,
    TRIPLE,
    GOALS,
    STEPS,
    THEMES,
)
_TRAINING = Frames(
    "training",
    {action: theirs for action, (_, _, theirs) in VERBS.items()},
    {term: theirs for term, (_, theirs) in _ALL_NOUNS.items()},
    EASY["training"],
)
