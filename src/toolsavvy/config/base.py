"""What every method's configuration has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from omegaconf import MISSING


@dataclass
class MethodConfig:
    """What every method has."""

    uses: ClassVar[frozenset[str]] = frozenset()
    """Groups the method reads: only their paths and models are looked for before it starts."""

    _target_: str = MISSING
    """Function `run(cfg, run)`; `methods/plans.py`, or `plan(cfg)` beside a user's own, says what it would do."""
