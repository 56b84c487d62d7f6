"""Numbers in answers: which one is read, exactness, bounds, linear time, and the released answers."""

from __future__ import annotations

import json
import random
import re
import time
from fractions import Fraction

import pytest

from conftest import SHARED
from toolsavvy.errors import UserError
from toolsavvy.necessity.answers import DIGITS, Numbers, read_number
from toolsavvy.necessity.question import Question, Verdict

HALF = Fraction(1, 2)


def question(gold: float | None, expression: str | None = None) -> Question:
    return Question("q1", f"What is {expression}?", "family", gold=gold, expression=expression)


def check(gold: float, text: str, expression: str | None = None, **options: float) -> bool | None:
    return Numbers(**options).check([question(gold, expression)], [text])[0].correct


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # boxes
        (r"So it is \boxed{42}.", 42),
        (r"First \boxed{7}, no: \boxed{42}. Checked 3 times.", 42),
        (r"\boxed{\text{The value is } -215}", -215),
        (r"\boxed{\boxed{8}}", 8),
        (r"\boxed{\frac{3}{4}}", Fraction(3, 4)),
        (r"\boxed{-\dfrac{3}{4}}", Fraction(-3, 4)),
        (r"\boxed{1\frac{3}{4}}", Fraction(7, 4)),
        (r"\boxed{x = 12}", 12),
        (r"\boxed{95 + 988 - 1298 = -215}", -215),
        (r"\boxed{12 \text{ km}}", 12),
        (r"\boxed{-15, 044, 597}", -15044597),
        (r"\boxed{28\,350}", 28350),
        (r"\boxed{1{,}234}", 1234),
        (r"\boxed{2 \pmod 7}", 2),
        (r"$$\boxed{ - 5 }$$", -5),
        (r"\fbox{5} \boxed {6}", 6),
        (r"I will put it in \boxed{}. It is 17", 17),
        (r"\boxed{12", 12),  # cut off: nothing but the last number is left
        # "the answer is"
        ("The answer is 42. I needed 3 steps and 10 minutes.", 42),
        ("The final answer is: 39888", 39888),
        ("**Final Answer:**\n\n$-12$\n\nI used 5 steps.", -12),
        ("Answer: **42**\n(checked 2 times)", 42),
        ("The correct answer is negative 7.", -7),
        ("The answer to 45 + 6 is 51, 3 more than 48.", 51),
        ("The answer is 26 * 38 = 988.", 988),
        ("The answer is 5? No. The answer is 6.", 6),
        # chains and last numbers
        ("26 * 38 = 988\n95 + 988 = 1083\n1083 - 1298 = -215", -215),
        ("That makes 12 + 5 = 17 (3 more than 14).", 17),
        ("So 95 + 988 - 1298 is -215", -215),
        ("We get 3 apples, then 8 pears.", 8),
        # separators, signs, decimals, units
        ("It is 1,234,567.", 1234567),
        ("It is 12,34,567.", 1234567),
        ("It is 1 234 567 km.", 1234567),
        ("It is 1\u202f234\u00a0567", 1234567),
        ("It is 1'234 or so", 1234),
        ("It is \u2212215", -215),
        ("It is - 215", -215),
        ("It is (-215)", -215),
        ("It is -(215)", -215),
        ("-$12.50", Fraction(-25, 2)),
        ("minus 5", -5),
        ("= -0", 0),
        ("- 17", -17),  # all of the answer; a bullet stands in a line of its own list
        ("The terms:\n- 17", 17),
        ("from 3-7", None),
        ("COVID-19", 19),
        ("x2 is 9", 9),
        ("the area is 12 km^2", 12),
        ("the area is 12 km\u00b2", 12),
        ("12km", 12),
        ("007", 7),
        (".5", HALF),
        ("0.50", HALF),
        ("3.", 3),
        ("\uff11\uff12", 12),
        ("\u7b54\u6848\u662f42\u3002", 42),
        ("in the 3rd step 9 is left", 9),
        ("12 (mod 7)", 12),
        # fractions, powers, scales, percent
        ("It is 3/4", Fraction(3, 4)),
        ("It is -3/4", Fraction(-3, 4)),
        ("It is 1 3/4", Fraction(7, 4)),
        (r"It is $\tfrac{1}{2}$", HALF),
        (r"It is \frac12", HALF),
        ("1.2e5", 120000),
        ("1E-3", Fraction(1, 1000)),
        (r"1.2 \times 10^{5}", 120000),
        ("1.2 \u00d7 10\u2075", 120000),
        ("-2 x 10^3", -2000),
        ("1.5 million", 1500000),
        ("45%", 45),
        (r"45\%", 45),
        ("10 km/h", 10),
        # reasoning
        ("<think>5 or 6?</think>7", 7),
        # nothing to read
        ("", None),
        ("I cannot tell.", None),
        ("<think>it is 5", None),
        ("\\boxed{450 * 63}", None),
        ("450 * 63", None),
        ("1/0", None),
        ("nan", None),
        ("the 3rd", None),
        (r"\boxed{}", None),
    ],
)
def test_the_number_that_is_meant_is_read(text: str, value: Fraction | int | None) -> None:
    found = read_number(text)
    assert (found.value if found else None) == value


@pytest.mark.parametrize("written", ["450 * 63", "450*63", "450 x 63", r"450 \times 63", "450 \u00d7 63", "$450 * 63$"])
def test_the_question_repeated_is_no_answer(written: str) -> None:
    assert read_number(f"What is {written}?", "450 * 63") is None
    assert read_number(f"You ask what {written} is.", "450 * 63") is None
    found = read_number(f"{written} = 28,350", "450 * 63")
    assert found is not None
    assert found.value == 450 * 63
    echoed = read_number("What is 2,524 - 1,719?", "2524 - 1719")
    assert echoed is None
    other = read_number("What is 1450 * 63? 5", "450 * 63")
    assert other is not None
    assert other.value == 5


def test_comparison_is_exact() -> None:
    assert check(0.1, "0.1") is True
    assert check(0.1 + 0.2, "0.3") is False  # the float is 0.30000000000000004, and says so
    assert check(10**30 + 1, f"= {10**30 + 1}") is True
    assert check(10**30 + 1, f"= {10**30}") is False
    assert check(2, "2.000") is True
    assert check(0.5, "1/2") is True
    assert check(0.5, "50%") is True
    assert check(50, "50%") is True
    assert check(5, "50%") is False
    assert check(-215, "215") is False
    assert check(1234, "The answer is 1,234 km.") is True
    assert check(7, "I don't know") is None


def test_numbers_of_any_length_up_to_the_bound() -> None:
    digits = "".join(random.Random(0).choices("123456789", k=DIGITS - 1))
    gold = sum(int(digits[max(0, i - 1000) : i]) * 10 ** (len(digits) - i) for i in range(len(digits), 0, -1000))
    assert check(gold, f"The answer is {digits}.") is True
    assert check(gold + 1, f"The answer is {digits}.") is False
    assert repr(read_number(digits))  # a value that long has no text of its own
    assert read_number("1" * (DIGITS + 1)) is None
    assert read_number("1e99999999") is None
    assert read_number("1e-99999999") is None


def test_a_tolerance_is_relative_and_checked() -> None:
    assert check(1000, "1004", tolerance=0.005) is True
    assert check(1000, "1006", tolerance=0.005) is False
    for wrong in (-0.1, 1, True, "0.1"):
        with pytest.raises(UserError) as caught:
            Numbers(tolerance=wrong)  # type: ignore[arg-type]
        assert caught.value.where == "checker.tolerance"


def test_a_verdict_tells_what_was_read_and_a_question_without_gold_is_named() -> None:
    verdicts = Numbers().check([question(-215), question(3)], ["= \u2212215", "none"])
    assert verdicts == [Verdict(True, "-215"), Verdict(None)]
    with pytest.raises(UserError) as caught:
        Numbers().check([question(None)], ["5"])
    assert caught.value.where == "question q1"
    assert caught.value.expected
    assert caught.value.fix
    assert Numbers.name == "number"
    assert Numbers().check([], []) == []


NASTY = {
    "cues": "the answer is 1+2 ",
    "long cues": "the answer to x is 1+2, ",
    "equals": "1 = ",
    "boxes": "\\boxed{",
    "filled boxes": "\\boxed{1}",
    "braces": "{",
    "groups": "111,",
    "spaced groups": "111 ",
    "fractions": "1/",
    "frac": "\\frac{1}",
    "text": "\\text{a",
    "answer": "answer ",
    "minus": "- ",
    "parentheses": "(",
    "exponents": "1e",
    "dots": "1.",
    "superscripts": "\u00b9",
    "mixed": "1 1/",
    "powers": "1*10^",
    "echo": "1 + 2 + ",
    "digits": "1",
    "spaces": " ",
    "lines": "\n",
}


@pytest.mark.parametrize("piece", NASTY.values(), ids=NASTY.keys())
def test_time_is_linear_in_an_answers_length(piece: str) -> None:
    def seconds(length: int) -> float:
        text = (piece * length)[:length] + "9"
        before = time.process_time()
        read_number(text, "1 + 2")
        return time.process_time() - before

    short = max(min(seconds(5_000) for _ in range(3)), 2e-3)
    long = min(seconds(40_000) for _ in range(2))  # 10,000 tokens
    assert long < 24 * short  # quadratic would be 64
    assert long < 2


def test_only_the_end_of_a_huge_answer_is_read() -> None:
    found = read_number("7 " * 3_000_000 + "so it is 12")
    assert found is not None
    assert found.value == 12


def last_number(text: str) -> Fraction | None:
    """The rule that comes close to the released labels."""
    found = re.findall(r"-?\d[\d,]*(?:\.\d+)?", text.replace("\u2212", "-"))
    return Fraction(found[-1].replace(",", "")) if found else None


@pytest.mark.skipif(not SHARED.is_dir(), reason="shared data is absent")
@pytest.mark.parametrize(("part", "accuracy"), [("necessary", 0.308), ("unnecessary", 0.930)])
def test_released_answers_are_as_right_as_the_last_number_rule_says(part: str, accuracy: float) -> None:
    name = "Llama-3.1-8B-Instruct"
    folder = SHARED / "tool_cognition_action" / "raw" / "math_arithmetic_union" / name
    outputs = {r["id"]: r["output"] for r in json.loads((folder / f"{part}_{name}_outputs.json").read_text())}
    records = json.loads((folder / f"{part}_Notcalled.json").read_text())
    questions = [
        Question(r["id"], "", "", gold=r["metadata"]["correct_answer"], expression=r["metadata"]["expression"])
        for r in records
    ]
    texts = [outputs[q.id] for q in questions]
    verdicts = Numbers().check(questions, texts)
    assert len(verdicts) > 400
    right = [v.correct is True for v in verdicts]
    assert abs(sum(right) / len(right) - accuracy) < 0.02  # half of the questions are there
    agree = [r == (last_number(t) == q.gold) for r, t, q in zip(right, texts, questions, strict=True)]
    assert sum(agree) >= 0.995 * len(agree)
