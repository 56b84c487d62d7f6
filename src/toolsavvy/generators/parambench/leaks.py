"""What an instruction gives away that nobody says: names of the API's fields and operations; and what it states."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolsavvy.calls.flattening import leaves
from toolsavvy.catalog import split_words
from toolsavvy.generators.parambench.oracle.sight import ID
from toolsavvy.tasks import ParamTask

_CAMEL = re.compile(r"[a-z0-9][A-Z]")
"""Names that only an API has: two words written as one."""


def field_names(schema: Any) -> Iterator[str]:
    """Names of every field of a schema, at any depth."""
    if isinstance(schema, Mapping):
        for name, inner in (schema.get("properties") or {}).items():
            yield name
            yield from field_names(inner)
        for key in ("items", "additionalProperties"):
            yield from field_names(schema.get(key))


def spellings(name: str) -> set[str]:
    """How an API's name of several words is written: CidrBlock, cidr-block, cidr_block; none for a plain word."""
    words = split_words(name).split()
    if len(words) < 2 and not _CAMEL.search(name):
        return set()
    return {name, "-".join(words), "_".join(words)}


def leaked(task: ParamTask) -> list[str]:
    """API names in the instruction: fields of the tool's schema and names of operations, never a plain word.

    Values that the reference itself has (an attribute's key, as "idle_timeout.timeout_seconds") are no leaks.
    """
    text = task.instruction
    values = {str(leaf.value) for leaf in leaves(task.reference.arguments)}
    names = {*field_names(task.tool.parameters), task.reference.name.partition(":")[2]}
    forms = {form for name in names for form in spellings(name)} - values
    # A label such as "web-subnet-id-3" holds no field: hyphens count as part of the word.
    return sorted(form for form in forms if re.search(rf"(?<![\w-]){re.escape(form)}(?![\w-])", text))


def origin(value: Any, task: ParamTask, words: frozenset[str]) -> str:
    """Where a value of the reference can be read: stated (in the instruction), upstream (only in results), or neither.

    Args:
        value: a leaf.
        task: whose instruction and context are searched.
        words: texts of the context's scalars.
    """
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not isinstance(value, bool) and re.search(rf"(?<![\w.]){re.escape(text)}(?![\w])", task.instruction):
        return "stated"
    return "upstream" if text in words and not isinstance(value, bool) else "derived"


def context_words(task: ParamTask) -> frozenset[str]:
    """Texts of every scalar in the context's results."""
    return frozenset(str(leaf.value) for call in task.upstream for leaf in leaves(call.output))


def stated_ids(task: ParamTask) -> int:
    """Ids that the instruction itself says."""
    return len(ID.findall(task.instruction))
