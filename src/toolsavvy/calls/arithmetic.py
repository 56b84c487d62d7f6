"""What a calculator would return for a model's expression: a bounded walk over its syntax tree, never `eval`."""

from __future__ import annotations

import ast
import math
import re
import warnings
from fractions import Fraction

Number = int | float | Fraction

LONGEST = 2_000
"""Characters of an expression."""
DIGITS = 200
"""Digits of one operand."""
DEPTH = 60
"""Nested parentheses, signs and powers; chains such as 1 + 2 + … count once, however long."""
BITS = 8_192
"""Size of any intermediate result: numerator or denominator."""

_TYPOGRAPHIC = {
    "*": "\u00d7\u22c5\u00b7\u2217\uff0a\u2715\u2716",
    "/": "\u00f7\u2215\uff0f",
    "-": "\u2212\u2013\u2014\u2012\uff0d\ufe63",
    "+": "\uff0b",
    "(": "\uff08",
    ")": "\uff09",
    "%": "\uff05",
    " ": "\u00a0\u2007\u2009\u202f\t\r\n",
    **{str(digit): chr(0xFF10 + digit) for digit in range(10)},
}
"""Sign -> what is written for it: multiplication dots and crosses, dashes, thin spaces, full-width forms."""
_SIGNS = str.maketrans({written: sign for sign, forms in _TYPOGRAPHIC.items() for written in forms})
_WORDS = ((r"\\times\b|\\cdot\b", "*"), (r"\\div\b", "/"), (r"\\left\b|\\right\b|\\[,;! ]", " "))
_GROUPED = re.compile(r"(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_SPACED = re.compile(r"(?<![\w.])\d{1,3}(?: \d{3})+(?![\w])")
_TIMES = re.compile(r"(?<=[\d)]) ?[xX] ?(?=[\d(])")
_ZEROS = re.compile(r"(?<![\w.])0+(?=\d)")
_OTHER_BASE = re.compile(r"(?<![\w.])0[xXbBoO]")
_ASKED = re.compile(r" *= *\??\s*$")


class ExpressionError(ValueError):
    """Says why an expression has no value here."""


def evaluate(expression: str) -> Number:
    """The exact value of an arithmetic expression.

    Knows + - * / // % ** (also written ^), signs, parentheses, thousands separators and the usual typographic
    operators. Decimals are exact; a power with a broken exponent is the only way to a float.

    Args:
        expression: as a model wrote it.

    Returns:
        An int where the value is whole, else a Fraction, else (irrational) a float.

    Raises:
        ExpressionError: it is no arithmetic, or longer, deeper or larger than the bounds of this module.
    """
    text = _plain(expression)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "1if" and the like
            tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as fault:
        raise ExpressionError(f"no arithmetic: {_shown(text)}") from fault
    try:
        return _simplest(_value(tree, text, DEPTH))
    except ZeroDivisionError as fault:
        raise ExpressionError("division by zero") from fault
    except (OverflowError, RecursionError) as fault:
        raise ExpressionError("too large") from fault


def agrees(expression: str, gold: float) -> bool:
    """Whether a calculator given this expression would return the right number; False where it would return none."""
    try:
        value = evaluate(expression)
    except ExpressionError:
        return False
    return math.isclose(value, gold, rel_tol=1e-9, abs_tol=1e-12) if isinstance(value, float) else value == gold


def _plain(expression: str) -> str:
    """The expression in Python's own signs."""
    if not isinstance(expression, str):
        raise ExpressionError(f"not text but {type(expression).__name__}")
    if len(expression) > LONGEST:
        raise ExpressionError(f"{len(expression):,} characters, {LONGEST:,} at most")
    text = expression.translate(_SIGNS)
    for pattern, sign in _WORDS:
        text = re.sub(pattern, lambda _, s=sign: s, text)
    text = _ASKED.sub("", text.strip().strip("$").strip())
    if _OTHER_BASE.search(text) and not _TIMES.search(_OTHER_BASE.sub("0", text)):
        raise ExpressionError("numbers are decimal")
    text = _GROUPED.sub(lambda m: m[0].replace(",", ""), text)
    text = _SPACED.sub(lambda m: m[0].replace(" ", ""), text)
    text = _ZEROS.sub("", _TIMES.sub(" * ", text)).replace("^", "**")
    if not text.strip():
        raise ExpressionError("nothing to evaluate")
    if not text.isascii():
        raise ExpressionError(f"{next(c for c in text if not c.isascii())!r} is no arithmetic")
    return text.strip()


def _value(node: ast.expr, text: str, depth: int) -> Number:
    """Value of a node, `depth` levels above the bound."""
    if depth == 0:
        raise ExpressionError(f"nested more than {DEPTH} deep")
    if isinstance(node, ast.Constant):
        return _constant(node, text)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        value = _value(node.operand, text, depth - 1)
        return -value if isinstance(node.op, ast.USub) else value
    if not isinstance(node, ast.BinOp):
        raise ExpressionError(f"only numbers and operators: {_shown(ast.get_source_segment(text, node) or text)}")
    rest: list[ast.BinOp] = []
    first: ast.expr = node
    while isinstance(first, ast.BinOp):  # a chain leans to the left; walked in a loop, it may be long
        rest.append(first)
        first = first.left
    value = _value(first, text, depth - 1)
    for link in reversed(rest):
        value = _bounded(_applied(link.op, value, _value(link.right, text, depth - 1)))
    return value


def _applied(op: ast.operator, left: Number, right: Number) -> Number:
    """One operation; Python's rules for // and % (the remainder has the divisor's sign)."""
    if isinstance(op, ast.Add):
        return left + right
    if isinstance(op, ast.Sub):
        return left - right
    if isinstance(op, ast.Mult):
        return left * right
    if isinstance(op, ast.FloorDiv):
        return left // right
    if isinstance(op, ast.Mod):
        return left % right
    if isinstance(op, ast.Div):
        return left / right if isinstance(left, float) or isinstance(right, float) else Fraction(left) / right
    if isinstance(op, ast.Pow):
        return _power(left, _simplest(right))
    raise ExpressionError(f"no arithmetic operator: {type(op).__name__}")


def _power(base: Number, exponent: Number) -> Number:
    """A power whose size is known before it is computed."""
    if isinstance(exponent, int) and not isinstance(base, float):
        base = Fraction(base)
        if abs(base) == 1:
            return base ** (exponent % 2)
        bits = max(abs(base.numerator), base.denominator).bit_length()
        if base and bits * abs(exponent) > 2 * BITS:
            raise ExpressionError(f"too large: a power of {_shown(str(exponent))}")
        return base**exponent
    if base < 0:
        raise ExpressionError("a broken power of a negative number")
    return float(base) ** float(exponent)


def _constant(node: ast.Constant, text: str) -> Number:
    """A decimal number, exact."""
    shown = text[node.col_offset : node.end_col_offset].replace("_", "")
    if isinstance(node.value, bool) or not isinstance(node.value, int | float):
        raise ExpressionError(f"only numbers and operators: {_shown(shown)}")
    if len(shown) > DIGITS:
        raise ExpressionError(f"a number of {len(shown)} digits, {DIGITS} at most")
    if isinstance(node.value, int):
        return node.value
    digits = shown.lower().partition("e")[0]
    if not 1e-300 < abs(node.value) < 1e300 and digits.strip("0."):
        raise ExpressionError(f"too large or too small: {_shown(shown)}")
    return Fraction(shown)


def _bounded(value: Number) -> Number:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ExpressionError("too large")
        return value
    if max(abs(value.numerator), value.denominator).bit_length() > BITS:
        raise ExpressionError(f"too large: more than {BITS} bits")
    return value


def _simplest(value: Number) -> Number:
    """A whole fraction as an int."""
    return value.numerator if isinstance(value, Fraction) and value.denominator == 1 else value


def _shown(text: str, limit: int = 40) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
