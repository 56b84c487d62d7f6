"""Generated arithmetic: the 13 families of expressions of 2605.14038, with exact answers."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolsavvy.calls.arithmetic import evaluate
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.necessity import wordings
from toolsavvy.necessity.question import Question, QuestionSet

CALCULATOR: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "calculator",
        "description": "Works out an arithmetic expression exactly and gives back the number.",
        "parameters": {
            "type": "object",
            "properties": {
                "expression": {
                    "type": "string",
                    "description": "The expression, with the operators + - * / % and parentheses: '7 * (12 - 5)'.",
                }
            },
            "required": ["expression"],
        },
    },
}
"""The tool that is offered."""
OTHER = "other"
"""What `family_of` says of an expression that belongs to no family."""
_OPERATIONS = re.compile(r" ([-+*%]) ")


@dataclass(frozen=True)
class Family:
    """One kind of expression.

    Args:
        share: of 4,000 questions, as released.
        size: how many different expressions there are.
        draw: one expression; repeats, and expressions that count to another family, are possible.
        every: all of them, where they are few enough to be listed; nothing is drawn then.
    """

    share: int
    size: int
    draw: Callable[[random.Random], str] | None = None
    every: Callable[[], Iterator[str]] | None = None


class Arithmetic:
    """Questions "What is 17 * 45?" of 13 families, in the published proportions (2605.14038, 4,000 questions).

    Deviation: the paper's generator is not public. Shapes and ranges are those of its released questions: operands are
    uniform in the ranges that occur there (`two_digit_mult` mixes two). A larger `n` keeps what a smaller one has, but
    for rounded proportions.

    Args:
        n: how many questions.
        seed: of the draw.
        families: some of the 13 families; null is all of them. Their proportions stay.
        exclude_seed: leave out the questions that this seed draws with the same `n` and `families`; null is none.

    Raises:
        UserError: on loading, an unknown family, or more questions than a family has.
    """

    def __init__(
        self,
        n: int = 4000,
        seed: int = 0,
        families: Sequence[str] | None = None,
        exclude_seed: int | None = None,
    ) -> None:
        self.n, self.seed, self.families, self.exclude_seed = n, seed, families, exclude_seed

    def load(self) -> QuestionSet:
        """Draw the questions."""
        exclude: list[str] = []
        if self.exclude_seed is not None:
            if self.exclude_seed == self.seed:
                raise UserError(
                    "the same as the seed, so nothing would be left", where="questions.exclude_seed",
                    expected="another seed than questions.seed", fix="set questions.exclude_seed=null",
                )  # fmt: skip
            exclude = [str(q.expression) for q in generate(self.n, self.exclude_seed, self.families)]
        questions = generate(self.n, self.seed, self.families, exclude)
        return QuestionSet(
            name="arithmetic",
            questions=tuple(questions),
            tools=(CALCULATOR,),
            answer_prompt=wordings.ANSWER["arithmetic"],
            action_prompts=wordings.action("arithmetic"),
            checker="number",
            audit={"families": dict(Counter(q.family for q in questions)), "excluded": len(exclude)},
        )


def generate(n: int, seed: int, families: Sequence[str] | None = None, exclude: Collection[str] = ()) -> list[Question]:
    """Questions with distinct expressions, families mixed: equal arguments give equal questions in every process.

    Args:
        n: how many.
        seed: of the draw.
        families: some of the 13 families; None is all of them.
        exclude: expressions that must not occur, of test questions say.

    Raises:
        UserError: an unknown family, or a family with too few expressions.
    """
    wanted = _counts(n, families)
    forbidden = set(exclude)
    questions = [
        Question(
            f"{name}_{seed}_{i}", f"What is {expression}?", name, gold=int(evaluate(expression)), expression=expression
        )
        for name, count in wanted.items()
        for i, expression in enumerate(_distinct(name, count, random.Random(f"{seed} {name}"), forbidden))
    ]
    random.Random(f"{seed} order").shuffle(questions)
    return questions


def family_of(expression: str) -> str:
    """The family of an expression, by its shape; "other" for none.

    Where shapes overlap, this rule decides. Two operands: a negative difference whose first operand is 100 to 499 or
    1,000 to 4,999 and whose size is at most 250 or 3,000 is `negative_subtraction`, else `four_digit_add_sub`. Sums
    of one-digit numbers are `single_digit_pm_chain`, of numbers up to 30 `small_int_pm_chain`, from ten operands on.
    `a + b * c - d * e` of two-digit numbers is `chain_mult_mix`, every other row of five operands `precedence_chain`.
    """
    if re.fullmatch(r"\(\d\d \+ \d\d\) \* \(\d\d - \d\d\)", expression):
        return "paren_mix"
    if not re.fullmatch(r"\d{1,4}( [-+*%] \d{1,4})+", expression):
        return OTHER
    numbers = [int(part) for part in _OPERATIONS.split(expression)[::2]]
    operations = "".join(_OPERATIONS.findall(expression))
    if len(numbers) == 2:
        return _family_of_two(numbers[0], numbers[1], operations)
    if len(numbers) >= 10 and "*" not in operations and "%" not in operations and max(numbers) <= 30:
        return "single_digit_pm_chain" if max(numbers) < 10 else "small_int_pm_chain"
    if operations in ("+-", "-+") and max(numbers) < 100:
        return "two_step_easy"
    if operations == "+*-*" and max(numbers) < 100:
        return "chain_mult_mix"
    return "precedence_chain" if len(numbers) == 5 and "%" not in operations and max(numbers) < 1000 else OTHER


def _family_of_two(a: int, b: int, operation: str) -> str:
    """The family of an expression of two operands."""
    digits = (len(str(a)), len(str(b)))
    if operation == "*":
        names = {(2, 2): "two_digit_mult", (3, 2): "three_by_two_mult", (3, 3): "three_by_three_mult"}
        return names.get(digits, OTHER)
    if operation == "%":
        return "small_mod" if digits[0] == 3 and b < 20 else OTHER
    if max(digits) < 3:
        return "single_op_easy"
    bound = {(3, 3): 250, (4, 4): 3000}.get(digits, 0)
    if operation == "-" and 0 < b - a <= bound and a < 5 * 10 ** (digits[0] - 1):
        return "negative_subtraction"
    return "four_digit_add_sub" if digits == (4, 4) else OTHER


def _counts(n: int, families: Sequence[str] | None) -> dict[str, int]:
    """How many questions each family gets: published proportions, what is left over to the largest remainders."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise UserError(
            f"{n!r} questions", where="questions.n", expected="a whole number from 1 on", fix="for example 4000"
        )
    names = list(FAMILIES) if families is None else list(dict.fromkeys(families))
    for name in names:
        if name not in FAMILIES:
            raise UserError(
                f"no family {name!r}", where="questions.families", expected=", ".join(FAMILIES),
                fix=did_you_mean(str(name), FAMILIES),
            )  # fmt: skip
    if not names:
        raise UserError(
            "no family is left", where="questions.families", expected=", ".join(FAMILIES), fix="name one, or null"
        )
    total = sum(FAMILIES[name].share for name in names)
    counts = {name: n * FAMILIES[name].share // total for name in names}
    by_remainder = sorted(names, key=lambda name: -(n * FAMILIES[name].share % total))
    for name in by_remainder[: n - sum(counts.values())]:
        counts[name] += 1
    return counts


def _distinct(name: str, count: int, rng: random.Random, forbidden: set[str]) -> list[str]:
    """So many different expressions of one family, none of them forbidden.

    Raises:
        UserError: the family has fewer.
    """
    family = FAMILIES[name]
    own = {expression for expression in forbidden if family_of(expression) == name}
    allowed = [expression for expression in family.every() if expression not in own] if family.every else []
    left = len(allowed) if family.every else family.size - len(own)
    if count > left:
        raise UserError(
            f"{count:,} questions of the family {name}, which has {left:,} different ones", where="questions.n",
            expected=f"at most {left:,} of it", fix="ask for fewer, or leave it out: questions.families=[…]",
        )  # fmt: skip
    rng.shuffle(allowed)
    found = dict.fromkeys(allowed[:count])
    while family.draw and len(found) < count:
        expression = family.draw(rng)
        if expression not in own and family_of(expression) == name:
            found[expression] = None
    return list(found)


def _pairs(first: range, operations: str, second: range) -> Callable[[], Iterator[str]]:
    """Every expression of two operands in these ranges."""
    return lambda: (f"{a} {o} {b}" for a, o, b in itertools.product(first, operations, second))


def _chain(rng: random.Random, lengths: Sequence[int], numbers: range, operations: str) -> str:
    """A row of operands, its length, operands and operations uniform."""
    parts = [str(rng.choice(numbers))]
    for _ in range(rng.choice(lengths) - 1):
        parts += [rng.choice(operations), str(rng.choice(numbers))]
    return " ".join(parts)


def _negative(rng: random.Random) -> str:
    """A difference below zero, of numbers of three or of four digits."""
    first, size = rng.choice([(range(100, 500), 250), (range(1000, 5000), 3000)])
    a = rng.choice(first)
    return f"{a} - {a + rng.randint(10, size)}"


def _brackets(rng: random.Random) -> str:
    """A sum times a difference, of two-digit numbers."""
    a, b, c, d = (rng.randint(10, 99) for _ in range(4))
    return f"({a} + {b}) * ({c} - {d})"


def _products(rng: random.Random) -> str:
    """A number and two products, of two-digit numbers."""
    a, b, c, d, e = (rng.randint(10, 99) for _ in range(5))
    return f"{a} + {b} * {c} - {d} * {e}"


def _two_digits(rng: random.Random) -> str:
    """A product of two-digit numbers: the released ones are of two kinds, about 2 in 5 of them small."""
    numbers = range(15, 51) if rng.random() < 0.4 else range(30, 100)
    return f"{rng.choice(numbers)} * {rng.choice(numbers)}"


def _two_steps(rng: random.Random) -> str:
    """One sum and one difference, of numbers below 100."""
    a, b, c = (rng.randint(1, 99) for _ in range(3))
    return f"{a} + {b} - {c}" if rng.random() < 0.5 else f"{a} - {b} + {c}"


def _listed(share: int, first: range, operations: str, second: range) -> Family:
    """A family of two operands that is small enough to be listed."""
    return Family(share, len(first) * len(operations) * len(second), every=_pairs(first, operations, second))


def _chains(share: int, lengths: Sequence[int], highest: int, *, without: int = 0) -> Family:
    """A family of sums and differences of numbers from 1 on; those of numbers up to `without` are another family's."""
    size = sum((highest**n - without**n) * 2 ** (n - 1) for n in lengths)
    return Family(share, size, lambda rng: _chain(rng, lengths, range(1, highest + 1), "+-"))


FAMILIES: Mapping[str, Family] = {
    "precedence_chain": Family(480, 990**5 * 3**4 - 90**5, lambda rng: _chain(rng, (5,), range(10, 1000), "+-*")),
    "single_digit_pm_chain": _chains(440, (*range(16, 23), *range(29, 40)), 9),
    "small_int_pm_chain": _chains(400, range(21, 28), 30, without=9),
    "three_by_two_mult": _listed(360, range(100, 1000), "*", range(10, 100)),
    "two_digit_mult": Family(360, 36**2 + 70**2 - 21**2, _two_digits),
    "single_op_easy": _listed(320, range(1, 100), "+-", range(1, 100)),
    "negative_subtraction": Family(280, 400 * 241 + 4000 * 2991, _negative),
    "three_by_three_mult": Family(280, 900**2, lambda rng: _chain(rng, (2,), range(100, 1000), "*")),
    "four_digit_add_sub": Family(
        240, 2 * 9000**2 - 4000 * 3000, lambda rng: _chain(rng, (2,), range(1000, 10000), "+-")
    ),
    "paren_mix": Family(240, 90**4, _brackets),
    "chain_mult_mix": Family(200, 90**5, _products),
    "two_step_easy": Family(200, 2 * 99**3, _two_steps),
    "small_mod": _listed(200, range(100, 1000), "%", range(3, 20)),
}
"""Name -> family, the largest first."""
