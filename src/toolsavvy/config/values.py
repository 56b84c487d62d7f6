"""Whether a value fits the annotation of an argument, as its source writes it: nothing is imported for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_WORDS = {
    "str": "text",
    "Path": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "None": "null",
}
_LISTS = ("Sequence", "list", "tuple", "Iterable")


def kinds(definition: ast.FunctionDef | ast.ClassDef) -> dict[str, ast.expr]:
    """Argument -> annotation of a function, or of a class's `__init__`."""
    if isinstance(definition, ast.ClassDef):
        makers = [n for n in definition.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
        return kinds(makers[0]) if makers else {}
    arguments = (*definition.args.args, *definition.args.kwonlyargs)
    return {a.arg: a.annotation for a in arguments if a.annotation is not None}


def fits(value: Any, kind: ast.expr) -> bool:
    """Whether a plain value of a config can be meant by an annotation; classes of ours are left to themselves."""
    return any(_fits_one(value, part) for part in _parts(kind))


def wanted(kind: ast.expr) -> str:
    """An annotation in words."""
    return " or ".join(dict.fromkeys(_told(part) for part in _parts(kind)))


def _parts(kind: ast.expr) -> Iterator[ast.expr]:
    """The sides of `a | b`."""
    if isinstance(kind, ast.BinOp) and isinstance(kind.op, ast.BitOr):
        yield from _parts(kind.left)
        yield from _parts(kind.right)
    else:
        yield kind


def _name(kind: ast.expr) -> str:
    """`Sequence` of `Sequence[int]`, `None` of None."""
    return ast.unparse(kind.value if isinstance(kind, ast.Subscript) else kind)


def _fits_one(value: Any, kind: ast.expr) -> bool:
    """The same for one side of a union."""
    name = _name(kind)
    if name == "None":
        return value is None
    if name in ("str", "Path"):
        return isinstance(value, str)
    if name == "bool":
        return isinstance(value, bool)
    if name in ("int", "float"):
        return not isinstance(value, bool) and isinstance(value, int if name == "int" else int | float)
    if not isinstance(kind, ast.Subscript):
        return True
    if name == "Literal":
        return value in ast.literal_eval(ast.Tuple(_choices(kind), ast.Load()))
    if name in _LISTS:
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        return is_list and all(fits(item, kind.slice) for item in value)
    return isinstance(value, Mapping) if name in ("Mapping", "dict") else True


def _choices(kind: ast.Subscript) -> list[ast.expr]:
    """The words of a Literal."""
    return kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]


def _told(kind: ast.expr) -> str:
    """One side of a union in words."""
    name = _name(kind)
    if isinstance(kind, ast.Subscript) and name in _LISTS:
        return (
            f"a list of {wanted(kind.slice).replace('a whole number', 'whole numbers').replace('a number', 'numbers')}"
        )
    if isinstance(kind, ast.Subscript) and name == "Literal":
        return f"one of {', '.join(str(ast.literal_eval(c)) for c in _choices(kind))}"
    return _WORDS.get(name, "a mapping" if name in ("Mapping", "dict") else name)
