"""Argument objects in what models write: strict JSON first, then what can be mended, with every mend named."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

DEPTH = 100
"""Objects and arrays inside one another."""
LONGEST = 200_000
"""Characters of an answer."""
_FENCE = re.compile(r"```[ \t]*[\w+-]*[ \t]*\r?\n?(.*?)(?:```|\Z)", re.DOTALL)
_SPACE = re.compile(r"\s+")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_$][\w$.\-]*")
_PLAIN = re.compile(r"[^\"'\\\x00-\x1f]+")
_STRICT_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_CONSTANTS = {"true": True, "false": False, "null": None}
_PYTHON = {"True": True, "False": False, "None": None, "undefined": None}
_NOT_FINITE = ("NaN", "Infinity", "nan", "inf", "Inf", "INF")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_PYTHON_ESCAPES = {"x": 2, "U": 8}
_DIGITS = 400
"""Digits of a whole number that is kept as one."""


@dataclass(frozen=True)
class Read:
    """What was read.

    Args:
        arguments: the object; None where there is none.
        repairs: what had to be mended, each once: string | fence | text_around | list_of_one | comments |
            trailing_comma | quotes | unquoted | python | not_finite | long_number | control | repeated_key | plus.
        problem: why there is none: empty | too long | too deep | no object | unclosed | broken; "" where there is one.
    """

    arguments: dict[str, Any] | None
    repairs: tuple[str, ...] = ()
    problem: str = ""


class _Fault(ValueError):
    """Why a text is no object."""


def read_arguments(text: str) -> Read:
    """Read the one object of arguments that an answer holds.

    What is strict JSON is taken as it is. Else: an object in a string, in a fence, with text around it (the first one
    counts), with comments, trailing commas, single quotes, bare keys, Python's words. NaN, infinities and numbers that
    overflow become text of their own spelling, which equals no number and stays JSON. An object that is cut off is not
    completed.

    Args:
        text: the answer.

    Returns:
        The object and its mends, or the problem. Time is linear in the text.
    """
    text = text.lstrip("\ufeff").strip()
    if not text:
        return Read(None, problem="empty")
    if len(text) > LONGEST:
        return Read(None, problem="too long")
    repairs: dict[str, None] = {}
    try:
        return Read(_object(text, repairs, 2), tuple(repairs))
    except _Fault as fault:
        return Read(None, tuple(repairs), str(fault))


def _object(text: str, repairs: dict[str, None], strings: int) -> dict[str, Any]:
    """The object of a text; `strings` is how often it may be text inside text."""
    value, end = _strict(text, repairs)
    if end != len(text):
        fence = None if text[:1] in '{["' else _FENCE.search(text)
        body = fence[1].strip() if fence and fence[1].strip()[:1] in ("{", "[", '"', "'", "/", "#") else ""
        if body:
            repairs["fence"] = None
            if fence and (fence.start() > 0 or fence.end() < len(text)):
                repairs["text_around"] = None
            text = body
            value, end = _strict(text, repairs)
    if end != len(text):
        value = _mended(text, repairs)
    if isinstance(value, str) and strings and value.strip():
        repairs["string"] = None
        return _object(value.strip(), repairs, strings - 1)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        repairs["list_of_one"] = None
        value = value[0]
    if not isinstance(value, dict):
        raise _Fault("no object")
    return value


def _strict(text: str, repairs: dict[str, None]) -> tuple[Any, int]:
    """The value and its end if the whole text is strict JSON, else -1; repeated keys and huge numbers are noted."""
    if _too_deep(text):
        raise _Fault("too deep")
    found: dict[str, None] = {}

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(items)
        if len(made) < len(items):
            found["repeated_key"] = None
        return made

    def constant(word: str) -> Any:
        raise ValueError(word)

    try:
        value = json.loads(
            text,
            object_pairs_hook=pairs,
            parse_constant=constant,
            parse_int=lambda digits: _number(digits, found),
            parse_float=lambda digits: _number(digits, found),
        )
        value = _whole(value, text)
    except (ValueError, RecursionError):
        return None, -1
    repairs.update(found)
    return value, len(text)


def _whole(value: Any, text: str) -> Any:
    """The value, unless an escape left half a character in it, which no file could take."""
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()  # UnicodeEncodeError is a ValueError
    return value


def _too_deep(text: str) -> bool:
    """Whether brackets outside double-quoted strings nest past the bound, before any parser recurses."""
    if text.count("{") + text.count("[") <= DEPTH:
        return False
    depth, at, quoted = 0, 0, False
    while at < len(text):
        sign = text[at]
        if quoted:
            at += sign == "\\"
            quoted = sign != '"'
        elif sign == '"':
            quoted = True
        elif sign in "{[":
            depth += 1
            if depth > DEPTH:
                return True
        elif sign in "}]":
            depth -= 1
        at += 1
    return False


def _number(digits: str, repairs: dict[str, None]) -> int | float | str:
    """A number that is finite and of sane length; else its own spelling as text."""
    if not any(sign in digits for sign in ".eE"):
        if len(digits) > _DIGITS:
            repairs["long_number"] = None
            return digits
        return int(digits)
    value = float(digits)
    if not math.isfinite(value):
        repairs["not_finite"] = None
        return digits
    return value


def _mended(text: str, repairs: dict[str, None]) -> Any:
    """The first object (or array, or string that is the whole text) that a tolerant reader finds."""
    start = 0
    if text[0] not in "{[\"'/#":
        start = min((at for at in (text.find("{"), text.find("[{")) if at >= 0), default=-1)
        if start < 0:
            raise _Fault("no object")
        repairs["text_around"] = None
    reader = _Reader(text, start, repairs)
    value = reader.value(0)
    reader.skip()
    if reader.at < len(text):
        repairs["text_around"] = None
    try:
        return _whole(value, text)
    except ValueError:
        raise _Fault("broken") from None


class _Reader:
    """A reader of JSON as models write it."""

    def __init__(self, text: str, at: int, repairs: dict[str, None]) -> None:
        self.text, self.at, self.repairs = text, at, repairs

    def skip(self) -> None:
        """Step over white space and comments."""
        while self.at < len(self.text):
            if space := _SPACE.match(self.text, self.at):
                self.at = space.end()
                continue
            start = self.text[self.at : self.at + 2]
            if start == "/*":
                end = self.text.find("*/", self.at + 2)
                self.at = end + 2 if end >= 0 else len(self.text)
            elif start == "//" or start[:1] == "#":
                end = self.text.find("\n", self.at)
                self.at = end + 1 if end >= 0 else len(self.text)
            else:
                return
            self.repairs["comments"] = None

    def value(self, depth: int) -> Any:
        """The value that begins here."""
        self.skip()
        if depth > DEPTH:
            raise _Fault("too deep")
        if self.at >= len(self.text):
            raise _Fault("unclosed")
        sign = self.text[self.at]
        if sign == "{":
            return self.mapping(depth)
        if sign in "[(":
            return self.sequence(depth)
        if sign in "\"'":
            return self.string()
        return self.word()

    def mapping(self, depth: int) -> dict[str, Any]:
        """An object."""
        made: dict[str, Any] = {}
        self.at += 1
        while not self.closes("}", bool(made)):
            key = self.key()
            self.skip()
            if self.text[self.at : self.at + 1] != ":":
                raise _Fault("broken" if self.at < len(self.text) else "unclosed")
            self.at += 1
            if key in made:
                self.repairs["repeated_key"] = None
            made[key] = self.value(depth + 1)
        return made

    def sequence(self, depth: int) -> list[Any]:
        """An array, or a tuple as Python writes it."""
        close = "]"
        if self.text[self.at] == "(":
            close, self.repairs["python"] = ")", None
        made: list[Any] = []
        self.at += 1
        while not self.closes(close, bool(made)):
            made.append(self.value(depth + 1))
        return made

    def closes(self, close: str, is_more: bool) -> bool:
        """Whether the bracket closes here; steps over the comma before another entry."""
        self.skip()
        if self.at >= len(self.text):
            raise _Fault("unclosed")
        if is_more and self.text[self.at] == ",":
            self.at += 1
            self.skip()
            if self.text[self.at : self.at + 1] == close:
                self.repairs["trailing_comma"] = None
        elif is_more and self.text[self.at] != close:
            raise _Fault("broken")
        if self.text[self.at : self.at + 1] == close:
            self.at += 1
            return True
        return False

    def key(self) -> str:
        """A key, quoted or bare."""
        if self.at >= len(self.text):
            raise _Fault("unclosed")
        if self.text[self.at] in "\"'":
            return self.string()
        if word := _WORD.match(self.text, self.at):
            self.at = word.end()
            self.repairs["unquoted"] = None
            return word[0]
        raise _Fault("broken")

    def string(self) -> str:
        """A string in double or single quotes; raw line breaks in it are kept."""
        quote = self.text[self.at]
        if quote == "'":
            self.repairs["quotes"] = None
        self.at += 1
        parts: list[str] = []
        while self.at < len(self.text):
            if plain := _PLAIN.match(self.text, self.at):
                parts.append(plain[0])
                self.at = plain.end()
                continue
            sign = self.text[self.at]
            self.at += 1
            if sign == quote:
                return "".join(parts)
            if sign == "\\":
                parts.append(self.escape())
            else:
                if sign not in "\"'":
                    self.repairs["control"] = None
                parts.append(sign)
        raise _Fault("unclosed")

    def escape(self) -> str:
        """What follows a backslash."""
        sign = self.text[self.at : self.at + 1]
        self.at += 1
        if sign in _PYTHON_ESCAPES:
            return self.code_point(_PYTHON_ESCAPES[sign])
        if sign != "u":
            return _ESCAPES.get(sign, sign)
        code = self.text[self.at : self.at + 4]
        pair = self.text[self.at + 4 : self.at + 10]
        try:
            number = int(code, 16)
            if 0xD800 <= number < 0xDC00 and pair[:2] == "\\u":
                number = 0x10000 + ((number - 0xD800) << 10) + (int(pair[2:], 16) - 0xDC00)
                self.at += 6
            made = chr(number)
        except (ValueError, OverflowError):
            raise _Fault("broken") from None
        self.at += 4
        return made

    def code_point(self, length: int) -> str:
        """A character by its number, as Python writes it."""
        self.repairs["python"] = None
        code = self.text[self.at : self.at + length]
        self.at += length
        try:
            return chr(int(code, 16)) if len(code) == length else ""
        except (ValueError, OverflowError):
            raise _Fault("broken") from None

    def word(self) -> Any:
        """A number, a constant, or a bare word, which is a fault."""
        if number := _NUMBER.match(self.text, self.at):
            self.at = number.end()
            digits = number[0]
            if not _STRICT_NUMBER.fullmatch(digits):
                self.repairs["plus" if digits[0] == "+" else "python"] = None
            return _number(digits, self.repairs)
        sign = self.text[self.at] if self.text[self.at] in "+-" else ""
        word = _WORD.match(self.text, self.at + len(sign))
        if word is None:
            raise _Fault("broken")
        if word[0] in _NOT_FINITE:
            self.at = word.end()
            self.repairs["not_finite"] = None
            return sign + word[0]
        if not sign and word[0] in _CONSTANTS:
            self.at = word.end()
            return _CONSTANTS[word[0]]
        if not sign and word[0] in _PYTHON:
            self.at = word.end()
            self.repairs["python"] = None
            return _PYTHON[word[0]]
        raise _Fault("broken")
