from __future__ import annotations

import operator
import random
import time
from fractions import Fraction

import pytest

from toolsavvy.calls.arithmetic import BITS, DIGITS, LONGEST, ExpressionError, agrees, evaluate


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2", 3),
        ("-7 % 3", 2),
        ("7 // -2", -4),
        ("2^10", 1024),
        ("2**3**2", 512),
        ("-2**2", -4),
        ("(2 + 3) * -(4 - 1)", -15),
        ("1,234,567 \u00d7 2", 2469134),
        ("1\u202f234 \u00f7 2", 617),
        ("8 \u2212 3", 5),
        ("3 x 4", 12),
        ("10x20", 200),
        ("007 + 1", 8),
        ("$3 \\times 4$", 12),
        ("5 \\cdot 2 =", 10),
        ("1 + 2 = ?", 3),
        ("\uff11\uff12 + 1", 13),
        ("1_000 + 1", 1001),
        ("7 / 2", Fraction(7, 2)),
        ("6 / 3", 2),
        ("0.1 + 0.2", Fraction(3, 10)),
        ("1.0000000000000000000001 * 10", Fraction(100000000000000000000010, 10**22)),
        ("1.5e3", 1500),
        ("2**-3", Fraction(1, 8)),
        ("(-1)**99999999999", -1),
        ("0**5", 0),
        ("+".join("1" * 900), 900),
    ],
)
def test_values_are_exact(expression: str, value: object) -> None:
    found = evaluate(expression)
    assert found == value
    assert type(found) is type(value)


def test_an_irrational_power_is_a_float() -> None:
    assert evaluate("2**0.5") == pytest.approx(2**0.5)
    assert isinstance(evaluate("2**0.5 + 1"), float)


def test_random_expressions_equal_exact_fractions() -> None:
    rng = random.Random(0)
    signs = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}

    def grow(depth: int) -> tuple[str, Fraction]:
        if depth == 0 or rng.random() < 0.2:
            n = rng.randint(1, 999)
            return str(n), Fraction(n)
        (left, a), (right, b) = grow(depth - 1), grow(depth - 1)
        sign = rng.choice("+-*/")
        if sign == "/" and b == 0:
            sign = "+"
        return f"({left} {sign} {right})", signs[sign](a, b)

    for _ in range(300):
        expression, value = grow(4)
        assert evaluate(expression) == value


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("9**9**9", "too large: a power of 387420489"),
        ("9**99999", "too large: a power of 99999"),
        ("0.1**1000000", "too large"),
        ("(2**4000)*(2**4000)*(2**4000)", f"more than {BITS} bits"),
        ("9.5**(9.5**9.5)", "too large"),
        ("1e999", "too large or too small"),
        ("1e-400", "too large or too small"),
        ("9" * 500, f"a number of 500 digits, {DIGITS} at most"),
        ("1+" * 2_000 + "1", f"4,001 characters, {LONGEST:,} at most"),
        ("-" * 1_900 + "1", "deep"),
        ("(" * 300 + "1" + ")" * 300, "no arithmetic"),
        ("(1+" * 100 + "1" + ")" * 100, "nested more than"),
        ("1/0", "division by zero"),
        ("0**-1", "division by zero"),
        ("5 % (3 - 3)", "division by zero"),
        ("(-8)**(1/3)", "broken power of a negative number"),
        ("__import__('os').system('true')", "only numbers and operators"),
        ("abs(-1)", "only numbers and operators"),
        ("(1).real", "only numbers and operators"),
        ("x + 1", "only numbers and operators: x"),
        ("[1]", "only numbers and operators"),
        ("True + 1", "only numbers and operators"),
        ("'a' * 9", "only numbers and operators"),
        ("2j", "only numbers and operators"),
        ("1 if 1 else 2", "only numbers and operators"),
        ("lambda: 1", "only numbers and operators"),
        ("1 << 9", "no arithmetic operator"),
        ("~5", "only numbers and operators"),
        ("1,23", "only numbers and operators"),
        ("0x10", "numbers are decimal"),
        ("3\u00bd", "no arithmetic"),
        ("2\u00b2", "no arithmetic"),
        ("5%", "no arithmetic"),
        ("1; 2", "no arithmetic"),
        ("\x00", "no arithmetic"),
        ("", "nothing to evaluate"),
        (" = ", "nothing to evaluate"),
        (12, "not text but int"),
    ],
)
def test_what_is_out_of_bounds_is_refused_at_once_with_the_reason(expression: str, why: str) -> None:
    began = time.process_time()
    with pytest.raises(ExpressionError, match=why):
        evaluate(expression)
    assert time.process_time() - began < 0.5


def test_a_call_agrees_with_the_gold_or_not() -> None:
    assert agrees("450 * 63", 28350)
    assert agrees("1 / 4", 0.25)
    assert agrees("4**0.5", 2)
    assert not agrees("450 * 62", 28350)
    assert not agrees("9**9**9", 1)
    assert not agrees("", 0)
