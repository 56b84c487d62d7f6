from __future__ import annotations

from typing import Any

import pytest

from toolsavvy.catalogs.python_types import python_type

INTEGER = {"type": "integer"}
INTEGERS = {"type": "array", "items": INTEGER}


@pytest.mark.parametrize(
    ("text", "schema", "is_optional"),
    [
        ("str", {"type": "string"}, False),
        ("str, optional", {"type": "string"}, True),
        ("int (optional)", {"type": "integer"}, True),
        ("Optional[float]", {"type": "number"}, True),
        ("str | None", {"type": "string"}, True),
        ("Union[str, None]", {"type": "string"}, True),
        ("List[int]", INTEGERS, False),
        ("typing.List[int], optional", INTEGERS, True),
        ("list(int)", INTEGERS, False),
        ("Tuple[int, int]", INTEGERS, False),
        ("List[Optional[int]]", INTEGERS, False),
        ("Tuple[int, str]", {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}]}, False),
        ("List[Union[int, str]]", {"type": "array", "items": {"anyOf": [INTEGER, {"type": "string"}]}}, False),
        ("Dict[str, bool]", {"type": "object", "additionalProperties": {"type": "boolean"}}, False),
        ("Dict[str, Any]", {"type": "object"}, False),
        ("Callable[[float], float]", {}, False),
        ("np.ndarray", {}, False),
        ("Union[str, Any]", {}, False),
        ("", {}, False),
    ],
)  # fmt: skip
def test_types_are_read(text: str, schema: dict[str, Any], is_optional: bool) -> None:
    read = python_type(text)
    assert (read.schema, read.is_optional) == (schema, is_optional)


@pytest.mark.parametrize("text", ["]]", "[[", "List[", "a,|(", "List[" * 5_000, "|" * 100])
def test_what_is_no_type_is_survived(text: str) -> None:
    assert not python_type(text).is_optional
