"""Words of documentation as they are compared: sentences, stems without stop words, kinds of actions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from toolsavvy.attacks import tokens
from toolsavvy.catalog import split_words

_PRECISE = re.compile(r"(?<=[.!?])\s+(?=[^\sa-z])|\s*\n\s*")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|approx|incl|no|U\.S|St)\.$", re.IGNORECASE)
_SUFFIX = re.compile(r"(?:ations?|ions?|ings?|ers?|ies|ied|ed|es|s|e|y)$")
_STOP = frozenset(
    word
    for line in (
        "a an the of to for in on at by with from as and or not is are was be been being can may will that which who",
        "whose this these those it its your you their our my one more any all each every some such other another than",
        "then into about after before when where if whether also only both using use used uses via per specified",
        "specific given associated existing new current currently provided available certain particular single",
        "multiple several various information detail details data amazon aws web services service account resource",
        "resources api endpoint operation action request call tool returns return based within without between through",
        "over under up out so has have had do does there no s t",
    )
    for word in line.split()
)
_ACTIONS = {
    "read": (
        "list describe get retrieve return show view fetch search find query lookup provide display enumerate obtain"
    ),
    "build": (
        "create make generate build provision add attach associate assign register insert join link tag modify update "
        "change edit set configure replace adjust alter put start run launch begin invoke execute resume initiate "
        "enable activate allow accept approve confirm import upload restore"
    ),
    "undo": (
        "delete remove detach disassociate unassign deregister drop erase destroy purge untag unlink revoke unregister "
        "release stop cancel terminate end abort pause suspend halt disable deactivate disallow reject deny decline"
    ),
}
"""Three kinds of actions that no one takes for one another; within a kind, verbs may mean the same."""


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """A word without its common endings: crude, alike for both sides of a comparison, and never under three letters.

    A plural's s goes from any word: "ids" are "id".
    """
    if len(word) == 3 and word.endswith("s"):
        return word[:-1]
    for _ in range(2):
        shorter = _SUFFIX.sub("", word)
        if len(shorter) < 3 or shorter == word:
            return word
        word = shorter
    return word


@lru_cache(maxsize=1 << 16)
def stems(text: str) -> frozenset[str]:
    """Stems of the content words of a text, identifiers taken apart."""
    return frozenset(stem(w) for w in tokens(split_words(text)) if w not in _STOP)


_ACTION_OF = {stem(verb): kind for kind, verbs in _ACTIONS.items() for verb in verbs.split()}
ACTION_STEMS = frozenset(_ACTION_OF)


def actions(text: str) -> frozenset[str]:
    """Kinds of actions ("read", "remove") that a text's words may stand for."""
    return frozenset(_ACTION_OF[s] for s in all_stems(text) if s in _ACTION_OF)


@lru_cache(maxsize=1 << 16)
def all_stems(text: str) -> frozenset[str]:
    """Stems of all words of a text."""
    return frozenset(stem(w) for w in tokens(split_words(text)))


def alike(a: frozenset[str], b: frozenset[str]) -> float:
    """Jaccard similarity of two sets of stems; two empty ones are alike."""
    return len(a & b) / len(a | b) if a | b else 1.0


def plain(text: str) -> str:
    """Text as it is compared: lower case, single blanks, no mark at its end."""
    return " ".join(text.lower().split()).rstrip(".!?;: ")


def sentences(text: str) -> Iterator[str]:
    """Sentences on one line each; a line break ends one, an abbreviation does not."""
    held = ""
    for part in _PRECISE.split(text):
        held = f"{held} {part}".strip()
        if held and not _ABBREVIATION.search(held):
            yield " ".join(held.split())
            held = ""
    if held:
        yield " ".join(held.split())


def spells(text: str, name: str) -> bool:
    """Whether a text holds the words of a name one after the other, or spelled in one ("CodeBuild" is "codebuild")."""
    words = " ".join(tokens(split_words(name)))
    return bool(words) and any(f" {words} " in f" {' '.join(tokens(part))} " for part in (split_words(text), text))
