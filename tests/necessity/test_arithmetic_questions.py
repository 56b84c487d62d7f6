"""Generated arithmetic: families, proportions, exactness, distinctness, equal bytes in every process."""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import operator
import os
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from conftest import SHARED
from toolsavvy.errors import UserError
from toolsavvy.necessity.questions.arithmetic import FAMILIES, OTHER, Arithmetic, family_of, generate

PUBLISHED = {
    "precedence_chain": 480,
    "single_digit_pm_chain": 440,
    "small_int_pm_chain": 400,
    "three_by_two_mult": 360,
    "two_digit_mult": 360,
    "single_op_easy": 320,
    "negative_subtraction": 280,
    "three_by_three_mult": 280,
    "four_digit_add_sub": 240,
    "paren_mix": 240,
    "chain_mult_mix": 200,
    "two_step_easy": 200,
    "small_mod": 200,
}
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod}


def oracle(expression: str) -> int:
    """Python's own parser and integers."""

    def walk(node: ast.expr) -> int:
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](walk(node.left), walk(node.right))
        assert isinstance(node, ast.Constant)
        assert isinstance(node.value, int)
        return node.value

    return walk(ast.parse(expression, mode="eval").body)


def test_four_thousand_questions_have_the_published_proportions_and_exact_distinct_answers() -> None:
    data = Arithmetic().load()
    assert Counter(data.families) == PUBLISHED
    assert len({q.expression for q in data.questions}) == len({q.id for q in data.questions}) == 4000
    for question in data.questions:
        assert question.gold == oracle(str(question.expression))
        assert isinstance(question.gold, int)
        assert question.text == f"What is {question.expression}?"
        assert family_of(str(question.expression)) == question.family
    assert data.checker == "number"
    assert data.tools[0]["function"]["name"] == "calculator"
    assert set(data.action_prompts) == {"neutral", "discouraging", "encouraging"}
    mixed = [family for family, _ in itertools.groupby(data.families)]
    assert len(mixed) > 3000  # families alternate: a run that is cut off has seen them all


@pytest.mark.parametrize("n", [1, 13, 20, 300, 1001])
def test_any_number_keeps_the_proportions_to_within_one_question(n: int) -> None:
    counts = Counter(q.family for q in generate(n, seed=3))
    assert sum(counts.values()) == n
    for family, share in PUBLISHED.items():
        assert abs(counts[family] - n * share / 4000) < 1


def test_chosen_families_keep_their_proportions() -> None:
    counts = Counter(q.family for q in generate(90, 0, ["small_mod", "two_digit_mult", "two_step_easy", "small_mod"]))
    assert counts["small_mod"] == counts["two_step_easy"] == 24  # 90 * 200/760 is 23.7
    assert counts["two_digit_mult"] == 42


def test_a_larger_set_keeps_the_questions_of_a_smaller_one() -> None:
    small, large = ({q.id: q.expression for q in generate(n, seed=5)} for n in (400, 4000))
    assert small.items() <= large.items()


def test_excluded_expressions_and_another_seeds_questions_do_not_occur() -> None:
    test = Arithmetic(n=4000, seed=0).load()
    taught = generate(4000, seed=1, exclude=[str(q.expression) for q in test.questions])
    assert not {q.expression for q in taught} & {q.expression for q in test.questions}
    assert not {q.id for q in taught} & {q.id for q in test.questions}
    apart = Arithmetic(n=4000, seed=1, exclude_seed=0).load()
    assert apart.questions == tuple(taught)
    overlap = {q.expression for q in Arithmetic(n=4000, seed=1).load().questions} & {
        q.expression for q in test.questions
    }
    assert overlap  # so that the exclusion had something to do


def test_equal_seeds_give_equal_bytes_in_every_process() -> None:
    code = (
        "import hashlib; from toolsavvy.necessity.questions.arithmetic import Arithmetic;"
        "print(hashlib.sha256(repr(Arithmetic(n=700, seed=9).load().questions).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout.strip()
        for seed in ("1", "2")
    }  # fmt: skip
    ours = hashlib.sha256(repr(Arithmetic(n=700, seed=9).load().questions).encode()).hexdigest()
    assert digests == {ours}
    assert Arithmetic(n=700, seed=9).load() != Arithmetic(n=700, seed=10).load()


def test_a_family_that_is_too_small_is_named_with_its_size() -> None:
    with pytest.raises(UserError) as caught:
        Arithmetic(n=100_000).load()
    assert caught.value.where == "questions.n"
    assert "two_digit_mult" in caught.value.what
    assert "9,000" in caught.value.what  # 100,000 * 360 / 4,000
    assert "5,755" in caught.value.expected  # both factors in 15 to 50, or both in 30 to 99
    everything = generate(5755, 0, ["two_digit_mult"])
    assert len({q.expression for q in everything}) == 5755
    with pytest.raises(UserError, match="has 5,754"):
        generate(5755, 0, ["two_digit_mult"], exclude=[str(everything[0].expression), "5 * 5", "3 + 4"])
    mods = generate(15_300, 0, ["small_mod"])  # listed, not drawn
    assert len({q.expression for q in mods}) == 15_300
    with pytest.raises(UserError, match="has 15,299"):
        generate(15_300, 0, ["small_mod"], exclude=[str(mods[7].expression), "999 % 2"])
    for name, family in FAMILIES.items():
        with pytest.raises(UserError, match=name):
            generate(family.size + 1, 0, [name])


def test_sizes_are_right_where_they_can_be_counted() -> None:
    for family in FAMILIES.values():
        if family.every:
            assert len(set(family.every())) == family.size
    pairs = {*itertools.product(range(15, 51), repeat=2), *itertools.product(range(30, 100), repeat=2)}
    assert FAMILIES["two_digit_mult"].size == len(pairs)
    assert FAMILIES["two_step_easy"].size == 2 * 99**3
    negative = [range(a + 10, a + 251) for a in range(100, 500)] + [range(a + 10, a + 3001) for a in range(1000, 5000)]
    assert FAMILIES["negative_subtraction"].size == sum(map(len, negative))
    four = 2 * 9000**2 - sum(min(9999, a + 3000) - a for a in range(1000, 5000))
    assert FAMILIES["four_digit_add_sub"].size == four


@pytest.mark.parametrize(
    ("options", "where", "expected"),
    [
        ({"families": ["two_digit_mul"]}, "questions.families", "two_digit_mult"),
        ({"families": []}, "questions.families", "two_digit_mult"),
        ({"n": 0}, "questions.n", "from 1 on"),
        ({"n": 2.5}, "questions.n", "from 1 on"),
        ({"n": True}, "questions.n", "from 1 on"),
        ({"exclude_seed": 0}, "questions.exclude_seed", "another seed"),
    ],
)
def test_wrong_settings_are_named(options: dict, where: str, expected: str) -> None:
    with pytest.raises(UserError) as caught:
        Arithmetic(**options).load()
    assert caught.value.where == where
    assert expected in caught.value.expected
    assert caught.value.fix


@pytest.mark.parametrize(
    ("expression", "family"),
    [
        ("12 * 34", "two_digit_mult"),
        ("120 * 34", "three_by_two_mult"),
        ("34 * 120", OTHER),
        ("458 - 496", "negative_subtraction"),
        ("496 - 458", OTHER),
        ("1000 - 4000", "negative_subtraction"),
        ("1000 - 4001", "four_digit_add_sub"),
        ("5000 - 5001", "four_digit_add_sub"),
        ("9 - 98", "single_op_easy"),
        ("3 + 4 - 5", "two_step_easy"),
        ("3 + 4 + 5", OTHER),
        ("12 + 34 * 56 - 78 * 90", "chain_mult_mix"),
        ("12 + 34 * 56 - 78 * 900", "precedence_chain"),
        ("12 - 34 * 56 - 78 * 90", "precedence_chain"),
        ("(12 + 34) * (56 - 78)", "paren_mix"),
        ("135 % 7", "small_mod"),
        (" - ".join(["9"] * 16), "single_digit_pm_chain"),
        (" - ".join(["9"] * 20 + ["30"]), "small_int_pm_chain"),
        ("__import__('os')", OTHER),
        ("", OTHER),
    ],
)
def test_families_follow_from_shapes(expression: str, family: str) -> None:
    assert family_of(expression) == family


@pytest.mark.skipif(not SHARED.is_dir(), reason="shared data is absent")
def test_the_released_questions_fall_into_our_families_as_often_as_published() -> None:
    lines = (SHARED / "tool_cognition_action" / "questions.jsonl").read_text().splitlines()
    released = [q for q in map(json.loads, lines) if q["domain"] == "math_arithmetic_union"]
    assert all(oracle(q["expression"]) == q["correct_answer"] for q in released)
    counts = Counter(family_of(q["expression"]) for q in released)
    assert counts[OTHER] == 0
    share = len(released) / 4000  # the others are kept apart
    for family, published in PUBLISHED.items():
        deviation = (published * share * (1 - share)) ** 0.5
        assert abs(counts[family] - published * share) < 4 * deviation, family
    ours = operands([str(q.expression) for q in generate(4000, 0)])
    theirs = operands([q["expression"] for q in released])
    for family in FAMILIES:
        low, high = min(theirs[family]), max(theirs[family])
        for share in (2, 25, 50, 75, 98):
            apart = np.percentile(ours[family], share) - np.percentile(theirs[family], share)
            assert abs(apart) <= 0.1 * (high - low), (family, share)


def operands(expressions: list[str]) -> dict[str, list[int]]:
    """All operands that occur in every family."""
    found: dict[str, list[int]] = {}
    for expression in expressions:
        found.setdefault(family_of(expression), []).extend(map(int, re.findall(r"\d+", expression)))
    return found
