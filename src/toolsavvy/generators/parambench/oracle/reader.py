"""The oracle's one entry: every module's rules, and what they make of a task."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from toolsavvy.generators.parambench import oracle
from toolsavvy.generators.parambench.oracle.sight import Sight

Rule = Callable[[Sight], Mapping[str, Any] | None]


@cache
def rules() -> dict[str, Rule]:
    """Operation -> its rule, of every module in the package.

    Raises:
        ValueError: two modules have a rule for one operation.
    """
    found: dict[str, Rule] = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(oracle.__path__)):
        own = getattr(importlib.import_module(f"{oracle.__name__}.{module}"), "RULES", {})
        if twice := sorted(set(own) & set(found)):
            raise ValueError(f"two rules for {twice[0]}")
        found |= own
    return found


def derive(sight: Sight) -> dict[str, Any] | None:
    """The arguments that follow from schema, instruction and context; None where no rule reads them."""
    rule = rules().get(sight.tool.name)
    try:
        found = None if rule is None else rule(sight)
    except (LookupError, ValueError, TypeError, AttributeError, StopIteration):  # what a rule counts on isn't there
        return None
    return None if found is None else dict(found)
