"""What a `_target_` is and takes, read from its source: importing it could load torch before anything is checked."""

from __future__ import annotations

import ast
import importlib.util
from functools import cache
from pathlib import Path

Definition = ast.FunctionDef | ast.ClassDef


@cache
def definitions(module: str) -> dict[str, Definition] | None:
    """Top-level functions and classes of a module by name, without importing it; None where it has no source.

    Raises:
        ImportError: there is no such module.
    """
    try:
        spec = importlib.util.find_spec(module)
    except ValueError as error:
        raise ImportError(f"no module named '{module}'", name=module) from error
    if spec is None:
        raise ImportError(f"no module named '{module}'", name=module)
    if spec.origin is None or not spec.origin.endswith(".py"):
        return None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, Definition)}


def keywords(definition: Definition) -> frozenset[str] | None:
    """Names that a call can pass by keyword; None where that cannot be told from the source alone (`**`, bases)."""
    if isinstance(definition, ast.FunctionDef):
        arguments = definition.args
        if arguments.kwarg is not None or definition.decorator_list:
            return None
        return frozenset(a.arg for a in (*arguments.args, *arguments.kwonlyargs))
    if definition.bases or definition.decorator_list:
        return None
    makers = [n for n in definition.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
    taken = keywords(makers[0]) if makers else frozenset()
    return None if taken is None else taken - {"self"}
