from __future__ import annotations

import ast
from typing import Any

import pytest

from toolsavvy.config.values import fits, kinds, wanted


@pytest.mark.parametrize(
    ("kind", "good", "bad", "told"),
    [
        ("int", [0, -3], [True, 1.5, "1", None, [1]], "a whole number"),
        ("float", [0, 1.5], [False, "1", None], "a number"),
        ("bool", [True, False], [0, "true", None], "true or false"),
        ("str | Path", ["", "a/b"], [5, None, ["a"]], "text"),
        ("str | None", ["a", None], [5, False], "text or null"),
        ("Sequence[int]", [[], [1, 2]], [5, "12", ["a"], [True], None], "a list of whole numbers"),
        ("str | Sequence[str | Path] | None", ["a", ["a", "b"], None], [5, [5]], "text or a list of text or null"),
        ("Literal['a', 'b']", ["a", "b"], ["c", None], "one of a, b"),
        ("Mapping[str, float] | None", [{"a": 1}, None], ["a", [1]], "a mapping or null"),
        ("Encoder", [{"_target_": "x"}, "x", None], [], "Encoder"),
    ],
)
def test_values_fit_what_an_annotation_says(kind: str, good: list[Any], bad: list[Any], told: str) -> None:
    expression = ast.parse(kind, mode="eval").body
    assert [v for v in good if not fits(v, expression)] == []
    assert [v for v in bad if fits(v, expression)] == []
    assert wanted(expression) == told


def test_a_class_is_annotated_by_its_init() -> None:
    source = "class A:\n    def __init__(self, a: int, *, b: str = '', c=None): ..."
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    assert {k: ast.unparse(v) for k, v in kinds(definition).items()} == {"a": "int", "b": "str"}
