"""Statements of yes/no questions, by pattern: what one tool's record says and when that is surely false of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from toolsavvy.generators.toolsense.facts import ToolFacts

KINDS: Mapping[str, str] = {
    "string": "text",
    "integer": "a number",
    "number": "a number",
    "boolean": "a yes/no value",
    "array": "a list",
    "object": "an object with fields",
}
"""JSON type -> how it is asked for."""


@dataclass(frozen=True)
class Statement:
    """A fact as it is asked.

    Args:
        text: what the question holds.
        fails: whether it is surely false of a tool; also told if that one is of the same service.
    """

    text: str
    fails: Callable[[ToolFacts, bool], bool]


def _purposes(own: ToolFacts, near: Sequence[ToolFacts]) -> Iterator[Statement]:
    """What the tool does; no: a tool whose record contradicts it."""
    if text := own.purpose:
        yield Statement(text, lambda other, one: other.contradicts(text, is_own_service=one))


def _inputs(own: ToolFacts, near: Sequence[ToolFacts]) -> Iterator[Statement]:
    """A parameter; no: a closed schema that lacks it at any depth."""
    for words in _telling([i.words for i in own.inputs], [[i.words for i in other.inputs] for other in near]):
        yield Statement(words, lambda other, one, w=words: other.lacks_input(w))


def _results(own: ToolFacts, near: Sequence[ToolFacts]) -> Iterator[Statement]:
    """A field of the result; no: a result that lacks it at any depth."""
    for words in _telling(own.results, [other.results for other in near]):
        yield Statement(words, lambda other, one, w=words: other.lacks_result(w))


def _required(own: ToolFacts, near: Sequence[ToolFacts]) -> Iterator[Statement]:
    """A mandatory parameter; no: a tool that has it as an optional one."""
    for given in own.inputs:
        if given.is_required:
            words = given.words
            yield Statement(
                words,
                lambda other, one, w=words: [i.is_required for i in other.inputs if i.words == w] == [False],
            )


def _types(own: ToolFacts, near: Sequence[ToolFacts]) -> Iterator[Statement]:
    """A parameter's type; no: a tool that has the same parameter with another one."""
    for given in own.inputs:
        kind = KINDS.get(given.kind)
        if kind:
            words = given.words
            yield Statement(
                f'{kind} for "{words}"',
                lambda other, one, w=words, k=kind: _is_other_kind(other, w, k),
            )


def _is_other_kind(other: ToolFacts, words: str, kind: str) -> bool:
    """Whether a tool has one parameter of that name, of a known type that is not this one."""
    kinds = [KINDS.get(i.kind) for i in other.inputs if i.words == words]
    return len(kinds) == 1 and kinds[0] is not None and kinds[0] != kind


def _telling(own: Sequence[str], near: Iterable[Sequence[str]]) -> list[str]:
    """Names that at most half of the near tools have too, each once."""
    others = list(near)
    counts = Counter(word for words in others for word in set(words))
    return [word for word in dict.fromkeys(own) if counts[word] * 2 <= len(others) and own.count(word) == 1]


STATEMENTS: Mapping[str, Callable[[ToolFacts, Sequence[ToolFacts]], Iterator[Statement]]] = {
    "purpose": _purposes,
    "input": _inputs,
    "required": _required,
    "type": _types,
    "result": _results,
}
