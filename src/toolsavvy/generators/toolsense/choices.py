"""Right options of multiple-choice questions and what is false beside them, by pattern."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from toolsavvy.generators.toolsense.facts import Facts
from toolsavvy.generators.toolsense.stems import plain

COMMON = 0.25
"""A parameter or field that more of the near tools have tells nothing of this one."""
Source = Callable[[Facts, int, Sequence[int]], Iterable[tuple[str, Iterable[str]]]]


def _purposes(facts: Facts, tool: int, near: Sequence[int]) -> Iterable[tuple[str, Iterable[str]]]:
    """What it does, against what near tools do."""
    own = facts[tool]
    if own.purpose is None:
        return
    others = [(other, purpose) for other in near if (purpose := facts[other].purpose)]
    if not any(plain(own.purpose) == plain(text) for _, text in others):
        yield (
            own.purpose,
            (
                text
                for other, text in others
                if own.contradicts(text, is_own_service=facts.are_one_service(tool, other))
            ),
        )


def _details(facts: Facts, tool: int, near: Sequence[int]) -> Iterable[tuple[str, Iterable[str]]]:
    """Further statements, against those of near tools that this one's description doesn't hold.

    Those of another service must also speak of other things: they could be true of this tool all the same.
    """
    own = facts[tool]
    counts = Counter(text for other in near for text in set(facts[other].details))

    def is_false(other: int, text: str) -> bool:
        if facts.are_one_service(tool, other):
            return not own.states(text, 0.5)
        return own.contradicts(text, is_own_service=False)

    for right in own.details:
        if not counts[right]:
            others = ((other, text) for other in near for text in facts[other].details)
            yield right, (text for other, text in others if counts[text] == 1 and is_false(other, text))


def _inputs(facts: Facts, tool: int, near: Sequence[int]) -> Iterable[tuple[str, Iterable[str]]]:
    """Names of parameters, against those that this tool's schema lacks at any depth."""
    own = facts[tool]
    names = {other: [i.words for i in facts[other].inputs] for other in near}
    yield from _fields([i.words for i in own.inputs], names, own.lacks_input)


def _results(facts: Facts, tool: int, near: Sequence[int]) -> Iterable[tuple[str, Iterable[str]]]:
    """Fields of the result, against those that it lacks, and that are no parameters either."""
    own = facts[tool]
    names = {other: list(facts[other].results) for other in near}
    yield from _fields(own.results, names, own.lacks_result)


def _fields(
    own: Sequence[str], names: Mapping[int, Sequence[str]], lacks: Callable[[str], bool]
) -> Iterable[tuple[str, Iterable[str]]]:
    """Names that few near tools share; wrong ones in the order of the tools that they come from."""
    counts = Counter(word for words in names.values() for word in set(words))
    most = COMMON * len(names)
    wrong = [word for words in names.values() for word in words if counts[word] <= most and lacks(word)]
    for right in dict.fromkeys(own):
        if counts[right] <= most and own.count(right) == 1:
            yield right, wrong


def _required(facts: Facts, tool: int, near: Sequence[int]) -> Iterable[tuple[str, Iterable[str]]]:
    """A required parameter against optional ones of the same tool."""
    own = facts[tool].inputs
    optional = [i.words for i in own if not i.is_required]
    for right in own:
        if right.is_required:
            yield right.words, optional


SOURCES: Mapping[str, Source] = {
    "purpose": _purposes,
    "detail": _details,
    "input": _inputs,
    "required": _required,
    "result": _results,
}
