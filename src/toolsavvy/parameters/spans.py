"""Where values stand in the text of a JSON object, character by character and token by token."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 100
"""Values nested deeper are not looked for."""
_SPACE = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', re.DOTALL)
_SCALAR = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|true|false|null|True|False|None|-?Infinity|NaN")
_NAME = re.compile(r"[A-Za-z_$][\w$.-]*")
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class ValueSpan:
    """One leaf value in a text.

    Args:
        path: keys and indices that lead to it, as `calls.flattening.leaves` names them.
        start: its first character (of a string: the quote).
        end: after its last character.
        value: what it says; {} and [] are leaves of their own.
    """

    path: Path
    start: int
    end: int
    value: Any

    @property
    def inner(self) -> int:
        """Where what it says begins: after the quote of a string that is not empty."""
        return self.start + 1 if isinstance(self.value, str) and self.value else self.start


@dataclass(frozen=True)
class ValueTokens:
    """The tokens of one value.

    Args:
        first: index of the first token that says some of the value; the state that decides on it is one token before.
        end: index after the last token of the value, a closing quote included.
    """

    first: int
    end: int


def values(text: str) -> tuple[ValueSpan, ...]:
    """Every leaf value of the first JSON object of a text, in the text's order.

    A text that breaks off or is no JSON gives the whole values up to there; comments, single quotes, Python's words,
    bare keys and trailing commas are read over. Of a key that occurs twice the last one counts, as in `json.loads`.

    Args:
        text: an answer; what stands before the first brace is passed over.
    """
    reader = _Reader(text)
    start = text.find("{")
    if start >= 0:
        with suppress(_EndError):
            reader.value(start, ())
    return tuple(reader.found)


class _EndError(Exception):
    """The text can't be read on."""


class _Reader:
    """Walks through a text once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.found: list[ValueSpan] = []

    def value(self, at: int, path: Path) -> int:
        """Read a value that begins at a character; the place after it."""
        first = self.text[at : at + 1]
        if first in ("{", "["):
            return self._container(at, path, first)
        if first in ('"', "'"):
            return self._add(path, at, *self._string(at))
        if match := _SCALAR.match(self.text, at):
            word = match[0]
            return self._add(path, at, match.end(), _scalar(word))
        raise _EndError

    def _container(self, at: int, path: Path, opened: str) -> int:
        if len(path) > MAX_DEPTH:
            raise _EndError
        closing, at_inside = ("}", "]")[opened == "["], self._skip(at + 1)
        if self._is(at_inside, closing):
            return self._add(path, at, at_inside + 1, {} if opened == "{" else [])
        index = 0
        while True:
            if opened == "{":
                at_value, key = self._key(at_inside)
                self._forget((*path, key))
            else:
                at_value, key = at_inside, index
            at_inside = self._skip(self.value(at_value, (*path, key)))
            index += 1
            if self._is(at_inside, ","):
                at_inside = self._skip(at_inside + 1)
                if not self._is(at_inside, closing):
                    continue
            if self._is(at_inside, closing):
                return at_inside + 1
            raise _EndError

    def _key(self, at: int) -> tuple[int, str]:
        """A key and its colon; the place of the value."""
        if self.text[at : at + 1] in ('"', "'"):
            end, key = self._string(at)
        elif match := _NAME.match(self.text, at):
            end, key = match.end(), match[0]
        else:
            raise _EndError
        at = self._skip(end)
        if not self._is(at, ":"):
            raise _EndError
        return self._skip(at + 1), key

    def _string(self, at: int) -> tuple[int, str]:
        match = _STRING.match(self.text, at)
        if match is None:
            raise _EndError
        return match.end(), _unquoted(match[0])

    def _add(self, path: Path, start: int, end: int, value: Any) -> int:
        self.found.append(ValueSpan(path, start, end, value))
        return end

    def _forget(self, path: Path) -> None:
        """A key comes again: what it said before no longer counts."""
        self.found = [span for span in self.found if span.path[: len(path)] != path]

    def _skip(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        return match.end() if match else at

    def _is(self, at: int, character: str) -> bool:
        return self.text[at : at + 1] == character


def _scalar(word: str) -> Any:
    """What a number or a constant says; what is not finite, or has too many digits, stays text."""
    if word in _WORDS:
        return _WORDS[word]
    try:
        value = float(word) if re.search(r"[.eE]|Inf|NaN", word) else int(word)
    except ValueError:
        return word
    return value if math.isfinite(value) else word


def _unquoted(quoted: str) -> str:
    inner = quoted[1:-1]
    if quoted[0] == "'":
        inner = re.sub(r'(?<!\\)"', r"\\\"", inner.replace("\\'", "'"))
    try:
        return str(json.loads(f'"{inner}"', strict=False))
    except ValueError:  # an escape that JSON does not know
        return inner


def value_tokens(spans: Sequence[ValueSpan], offsets: Sequence[tuple[int, int]]) -> tuple[ValueTokens, ...]:
    """Which tokens say which value.

    A token that holds the end of a key and a value's first character too counts as the value's: the state before it
    has seen nothing of the value.

    Args:
        spans: of a text.
        offsets: first and last character + 1 of each of the text's tokens, in order.
    """
    found = []
    for span in spans:
        first = next((i for i, (_, end) in enumerate(offsets) if end > span.inner), len(offsets) - 1)
        last = next((i for i in range(first, len(offsets)) if offsets[i][1] >= span.end), len(offsets) - 1)
        found.append(ValueTokens(first, last + 1))
    return tuple(found)
