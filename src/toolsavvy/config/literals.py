"""Text that OmegaConf must leave alone: what comes from data, or was resolved once, is never resolved (again)."""

from __future__ import annotations

import re
from typing import Any


def literal(node: Any) -> Any:
    r"""Plain data in which `${oc.env:HOME}` stands for itself, for OmegaConf to read.

    Dataclasses, nodes of OmegaConf's own and other objects are left as they are.
    """
    if isinstance(node, dict):
        return {key: literal(value) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return type(node)(map(literal, node)) if type(node) in (list, tuple) else node
    return literal_text(node) if isinstance(node, str) else node


def literal_text(text: str) -> str:
    r"""A text whose every `${` is escaped, and the backslashes before it doubled."""
    return re.sub(r"(\\*)\$\{", lambda found: found[1] * 2 + r"\${", text)
