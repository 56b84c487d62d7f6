"""Secrets come from the environment and never reach a file, a log or W&B."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from typing import Any

from toolsavvy.errors import plain

MASK = "***"
_SECRET_NAME = re.compile(
    r"(^|[_\-.])(api_?key|access_?key|secret_?key|private_?key|token|passwd|password|secret|credentials?)$", re.I
)
_SECRET_VARIABLE = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.I)
_SHORTEST = 6


def is_secret_name(name: str) -> bool:
    """Whether a key holds a secret: `api_key`, `hf_token`; not `batch_tokens` or `max_token`-like counts."""
    return bool(_SECRET_NAME.search(name))


def secrets_in_environment() -> tuple[str, ...]:
    """Values of variables that are named like secrets, longest first; very short ones would mask ordinary words."""
    values = {v for k, v in os.environ.items() if _SECRET_VARIABLE.search(k) and len(v) >= _SHORTEST}
    return tuple(sorted(values, key=len, reverse=True))


def mask_text(text: str) -> str:
    """A text without the secrets of this environment."""
    for value in secrets_in_environment():
        text = text.replace(value, MASK)
    return text


def mask_override(override: str) -> str:
    """An override whose value is hidden if its key is named like a secret."""
    key, sep, value = override.partition("=")
    return f"{key}={MASK}" if sep and value and is_secret_name(key) else mask_text(override)


def mask(node: Any) -> Any:
    """A copy of plain data without secrets, by name of the key and by value."""
    if isinstance(node, Mapping):
        return {k: MASK if v and isinstance(v, str) and is_secret_name(str(k)) else mask(v) for k, v in node.items()}
    if isinstance(node, list | tuple):
        return [mask(v) for v in node]
    return mask_text(node) if isinstance(node, str) else node


class MaskingFormatter(logging.Formatter):
    """Formats a record, traceback included, and masks it; a log is read on terminals, so nothing in it commands one."""

    def format(self, record: logging.LogRecord) -> str:
        """The line without secrets and control characters."""
        return plain(mask_text(super().format(record)))
