"""BFCL's own rules."""

from __future__ import annotations

from collections.abc import Sequence

from toolsavvy.calls.attempts import Call
from toolsavvy.tasks import ParamTask


def is_right(task: ParamTask, calls: Sequence[Call]) -> bool:
    """Whether the calls of a record are right by BFCL's rules."""
    raise NotImplementedError
