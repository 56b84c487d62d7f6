from __future__ import annotations

import numpy as np

from toolsavvy.necessity.question import Question
from toolsavvy.necessity.surface import surface_features


def of(expression: str, family: str = "a") -> Question:
    return Question(expression, f"What is {expression}?", family, expression=expression)


def column(questions: list[Question], name: str) -> list[float]:
    surface = surface_features(questions)
    return surface.values[:, surface.names.index(name)].tolist()


def test_arithmetic_is_counted() -> None:
    questions = [of("12 + 345 * 6"), of("-7 - -80 % (9 // 2)"), of("2 ** 10"), of("5")]
    assert column(questions, "operands") == [3, 4, 2, 1]
    assert column(questions, "operators") == [2, 3, 1, 0]
    assert column(questions, "operators -") == [0, 1, 0, 0]
    assert column(questions, "operators /") == [0, 1, 0, 0]
    assert column(questions, "operators *") == [1, 0, 0, 0]
    assert column(questions, "operators **") == [0, 0, 1, 0]
    assert column(questions, "negative operands") == [0, 2, 0, 0]
    assert column(questions, "digits") == [6, 5, 3, 1]
    assert column(questions, "digits of the longest operand") == [3, 2, 2, 1]
    assert column(questions, "parentheses") == [0, 1, 0, 0]
    assert np.allclose(column(questions, "largest operand (log10)"), np.log10([346, 81, 11, 6]))
    assert column(questions, "length") == [12, 19, 7, 1]


def test_texts_are_counted() -> None:
    questions = [
        Question("1", "What did Neil Armstrong say in 1969?", "moon"),
        Question("2", "Is it true, or isn't it?", "b"),
        Question("3", "", "moon"),
    ]
    assert column(questions, "words") == [7, 6, 0]
    assert column(questions, "asks what") == [1, 0, 0]
    assert column(questions, "asks yes/no") == [0, 1, 0]
    assert column(questions, "mark ?") == [1, 1, 0]
    assert column(questions, "mark ,") == [0, 1, 0]
    assert column(questions, "digits") == [4, 0, 0]
    assert column(questions, "capitals") == [2, 0, 0]
    surface = surface_features(questions)
    assert surface.family_names == ("b", "moon")
    assert surface.families.tolist() == [[0, 1], [1, 0], [0, 1]]
    assert surface.with_families().shape == (3, len(surface.names) + 2)
    assert np.isfinite(surface.values).all()


def test_one_question_without_an_expression_makes_all_of_them_texts() -> None:
    surface = surface_features([of("1 + 2"), Question("t", "Who?", "b")])
    assert "words" in surface.names
    assert "operands" not in surface.names


def test_no_questions() -> None:
    surface = surface_features([])
    assert (surface.values.shape, surface.families.shape) == ((0, 0), (0, 0))


def test_huge_operands_stay_finite() -> None:
    assert np.isfinite(surface_features([of("9" * 400 + " + 1")]).values).all()
