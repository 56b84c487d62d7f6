r"""Numbers in answers: which one is meant, and whether it is right, exactly.

The released labels of 2605.14038 come from a checker that is not public; reading the last number of an answer gets
close to them. This one reads `\boxed{…}` first, then "the answer is …", then the last line that has a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from toolsavvy.errors import UserError
from toolsavvy.models.chat import final_text
from toolsavvy.necessity.question import Question, Verdict

LONGEST = 200_000
"""Characters of an answer that are looked at, from its end."""
DIGITS = 20_000
"""Of a number, decimal exponent included; what is longer is no number."""

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("\u2212\u2013\ufe63\uff0d", "-"),
        **dict.fromkeys("\u00d7\u00b7\u22c5\u2217", "*"),
        **dict.fromkeys("\u00a0\u2007\u2009\u202f\t", " "),
        **{chr(0xFF10 + digit): str(digit) for digit in range(10)},
        "\u00f7": "/",
        "\u2019": "'",
        "\u2192": "=",
        "\u2248": "=",
        "\uff1d": "=",
        "\uff0c": ",",
        "$": None,
        "`": None,
    }
)
_NAMED = {"times": "*", "cdot": "*", "ast": "*", "div": "/", "bmod": "%", "mod": "%", "approx": "=", "to": "="}
_MARKUP: Sequence[tuple[re.Pattern[str], str]] = (
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\!"), ""),
    (re.compile(r"\\[,;: ]|\\[()\[\]]|\\(?:left|right|quad|qquad|displaystyle)(?![a-zA-Z])|~"), " "),
    (re.compile(r"\\(?:text|textbf|textrm|mathrm|mathbf|mbox|operatorname)\s?\{([^{}]{0,200})\}"), r"\1"),
    (re.compile(r"(?<=[0-9])\\([dt]?frac)"), r" \\\1"),
    (re.compile(r"\\[dt]?frac\{\s?(-?[0-9.,]{1,99})\s?\}\{\s?([0-9.,]{1,99})\s?\}"), r"\1/\2"),
    (re.compile(r"\\[dt]?frac([0-9])([0-9])"), r"\1/\2"),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"\\pmod ?\{?[0-9]{1,99}\}?|\(mod [0-9]{1,99}\)"), ""),
    (re.compile(r"(?<![0-9])\*\*|\*\*(?![0-9])"), ""),
)
_NUMBER = re.compile(
    r"""(?<![A-Za-z0-9_.^])(?<!\^[-{])(?<!\^\{-)            # no name, no exponent, no rest of a number
    (?:(?P<mixed>[0-9]{1,9})[ ](?=[0-9]{1,9}/[0-9]))?       # 1 3/4
    (?:(?P<whole>
        [0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3}(?![0-9])
        |[0-9]{1,3}(?:[ ][0-9]{3})+(?![0-9])|[0-9]{1,3}(?:['_][0-9]{3})+(?![0-9])|[0-9]+)
        (?P<part>\.[0-9]+)?|(?P<bare>\.[0-9]+))
    (?!(?:st|nd|rd|th)\b)
    (?:[eE](?P<e>[-+]?[0-9]{1,9})(?![0-9A-Za-z])|[ ]?[*x][ ]?10[ ]?\^[ ]?\{?(?P<power>[-+]?[0-9]{1,9})\}?)?
    (?:[ ]?/[ ]?(?P<below>[0-9]{1,4000})(?![0-9./]))?
    (?P<percent>[ ]?%(?![ ]?[0-9(]))?
    (?:[ ](?P<scale>thousand|million|billion|trillion)\b)?""",
    re.VERBOSE,
)
_SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_SAID = re.compile(
    r"\b(?:(?:the|my|final|correct)[ ]+(?:final[ ]+|correct[ ]+|numeric(?:al)?[ ]+)?(?:answer|result)"
    r"(?:[ ]to[^.\n]{0,200}?)?[ ]+(?:is|=|should[ ]be|would[ ]be)[ ]?:?|(?:^|(?<=final[ ]))answer[ ]?[:=])"
    r"[\s*_(]{0,20}(?=[-+.0-9]|negative|minus)",
    re.IGNORECASE | re.MULTILINE,
)
"""Where an answer says that its answer comes next; what comes next is a number."""
_SPACED = re.compile(r"-?[0-9]{1,3}(?:, [0-9]{3})+")
"""A box that holds one number whose groups are spaced."""
_SENTENCE = re.compile(r"\n|[.;!?](?=\s|$)")
_CONTINUED = re.compile(r"[ ]{0,3}\)?[ ]{0,3}(?:[-+*/^]|%[ ]?(?=[0-9(]))[ ]{0,3}\(?[ ]{0,3}[-+]?[0-9]")
_CONTINUES = re.compile(r"[0-9)][ ]{0,3}\)?[ ]{0,3}[-+*/%^][ ]{0,3}\(?[ ]{0,3}[-+]?$")


@dataclass(frozen=True)
class Reading:
    """A number that an answer gives.

    Args:
        value: exact.
        text: as it was written, but for markup.
        is_percent: "%" follows.
    """

    value: Fraction = field(repr=False)
    text: str
    is_percent: bool = False


class Numbers:
    r"""Whether answers end in the right number.

    Which number counts, the first of these that there is: the last `\boxed{…}` that has digits; what follows the last
    "the answer is", "final answer:" and the like; in the last line with a number, the one after the last "=", else the
    last one. The question's own expression, repeated, does not count, and numbers that are still to be added or
    multiplied are no answer. "50%" is 50 and is 0.5. Reasoning in `<think>` is not read. Time is linear in the
    answer's length.

    Args:
        tolerance: relative error that is forgiven; 0 compares exactly.
    """

    name = "number"

    def __init__(self, tolerance: float = 0.0) -> None:
        if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < 1:
            raise UserError(
                f"{tolerance!r} is no relative error", where="checker.tolerance",
                expected="a number from 0 up to, not including, 1", fix="0 compares exactly",
            )  # fmt: skip
        self.tolerance = Fraction(str(tolerance))

    def check(self, questions: Sequence[Question], texts: Sequence[str]) -> list[Verdict]:
        """One verdict per (question, answer) pair.

        Raises:
            UserError: a question has no number to compare with.
        """
        return [self._verdict(question, text) for question, text in zip(questions, texts, strict=True)]

    def _verdict(self, question: Question, text: str) -> Verdict:
        """Verdict on one answer."""
        if question.gold is None:
            raise UserError(
                "the question has no number as its answer", where=f"question {question.id}",
                expected="a gold number", fix="choose the checker that these questions are made for",
            )  # fmt: skip
        found = read_number(text, question.expression or "")
        if found is None:
            return Verdict(None)
        gold = _exact(question.gold)
        values = (found.value, found.value / 100) if found.is_percent else (found.value,)
        return Verdict(any(abs(value - gold) <= self.tolerance * abs(gold) for value in values), found.text)


def read_number(text: str, expression: str = "") -> Reading | None:
    r"""The number that an answer gives; None where it gives none.

    Args:
        text: the answer, with any reasoning in `<think>`.
        expression: the question's; where it is repeated it does not count.
    """
    answer = final_text(text)[-LONGEST:]
    boxed = next((inner for inner in _boxed(answer) if re.search("[0-9]", inner)), None)
    if boxed is not None:
        inner = _plain(boxed, expression).strip()
        return _result(inner.replace(", ", ",") if _SPACED.fullmatch(inner) else inner, last=False)
    plain = _plain(answer, expression)
    until = len(plain)
    for said in reversed(list(_SAID.finditer(plain))):
        end = _SENTENCE.search(plain, said.end(), until)
        found = _result(plain[said.end() : end.start() if end else until], last=False)
        if found:
            return found
        until = said.start()
    line = next((line for line in reversed(plain.split("\n")) if _NUMBER.search(line)), "")
    return _result(line if line.strip() == plain.strip() else "\n" + line, last=True)


def _boxed(text: str) -> Iterator[str]:
    r"""What stands in `\boxed{…}`, the last first; one that is not closed is left out."""
    opened, closed = [], []
    stack: list[int] = []
    starts = {match.end() - 1 for match in re.finditer(r"\\f?boxed\s?\{", text)}
    for match in re.finditer(r"[{}]", text):
        if match[0] == "{":
            stack.append(match.start())
        elif stack and (start := stack.pop()) in starts:
            opened.append(start)
            closed.append(match.start())
    for start, end in sorted(zip(opened, closed, strict=True), reverse=True):
        yield text[start + 1 : end]


def _plain(text: str, expression: str) -> str:
    """Text without markup, its operators spelled one way and the question's expression blanked out."""
    text = re.sub(r"\\([a-z]+)(?![a-zA-Z])", lambda found: _NAMED.get(found[1], found[0]), text)
    for pattern, by in _MARKUP:
        text = pattern.sub(by, text)
    text = re.sub("[⁻⁰¹²³⁴-⁹]+", lambda found: "^" + found[0].translate(_SUPERSCRIPTS), text)
    text = text.translate(_CHARACTERS)
    if not re.search("[^0-9]", expression):
        return text
    parts = [_spelled(part) for part in re.findall(r"[0-9]+|[^0-9\s]", expression)]
    return re.sub(r"(?<![0-9.,])" + r"[ ]?".join(parts) + r"(?![0-9])(?!,[0-9])(?!\.[0-9])", " ", text)


def _spelled(part: str) -> str:
    """Pattern of a number, with or without separators, or of an operator of an expression."""
    if part.isdigit():
        head = len(part) % 3
        return ",?".join(filter(None, [part[:head], *(part[i : i + 3] for i in range(head, len(part), 3))]))
    return "[*x]" if part == "*" else re.escape(part)


def _result(segment: str, *, last: bool) -> Reading | None:
    """The number that a piece of an answer comes to: after its last "=", else its first or its last."""
    numbers = list(_NUMBER.finditer(segment))
    if not numbers:
        return None
    equals = segment.rfind("=", 0, numbers[-1].start())
    found = numbers[-1] if last and equals < 0 else next(n for n in numbers if n.start() > equals)
    return None if _is_operand(segment, found) else _reading(segment, found)


def _is_operand(text: str, found: re.Match[str]) -> bool:
    """Whether the number is still to be added to or multiplied with another one."""
    before = text[max(0, found.start() - 16) : found.start()]
    return bool(_CONTINUES.search(before) or _CONTINUED.match(text, found.end()))


def _reading(text: str, found: re.Match[str]) -> Reading | None:
    """The value of a match; None where it is out of bounds."""
    digits = re.sub(r"[ ,'_]", "", found["whole"] or "0") + (found["part"] or found["bare"] or "")
    power = int(found["e"] or found["power"] or 0) + _SCALES.get(found["scale"] or "", 0)
    below = Decimal(found["below"] or 1)
    if len(digits) + abs(power) > DIGITS or not below:
        return None
    value = Fraction(Decimal(digits)) * Fraction(10) ** power / Fraction(below) + int(found["mixed"] or 0)
    sign = _sign(text[max(0, found.start() - 40) : found.start()])
    shown = ("-" if sign < 0 else "") + found[0].strip()
    return Reading(sign * value, shown, found["percent"] is not None)


def _sign(before: str) -> int:
    """-1 where what stands before a number makes it negative.

    A minus that touches the number is a sign unless a number or a word touches it; one apart is a sign after "=", ":",
    "is" or where nothing stands before it. Elsewhere it is an operator, a dash, or the bullet of a line.
    """
    line = before.rpartition("\n")[2]
    if re.search(r"\b(?:negative|minus)[ ]$", line, re.IGNORECASE):
        return 1 if re.search(r"[0-9)][ ]minus[ ]$", line, re.IGNORECASE) else -1
    found = re.search(r"-([ ]?)\(?$", line)
    if not found:
        return 1
    head = line[: found.start()]
    if found[1]:
        return -1 if (not head.strip("( ") and "\n" not in before) or re.search(r"(?:[=:(]|\bis)[ ]?$", head) else 1
    return 1 if re.search(r"[0-9)%][ ]*$|[A-Za-z]$", head) else -1


def _exact(gold: int | float) -> Fraction:
    """A gold number exactly; a float is the decimal number that it is written as."""
    return Fraction(gold) if isinstance(gold, int) else Fraction(repr(float(gold)))
