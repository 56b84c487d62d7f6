"""Stories: one module per topic, each registering programs that end in a call of one operation."""

from __future__ import annotations

import pkgutil
from importlib import import_module


def load_all() -> None:
    """Import every module of this package, so that all programs are registered in `scene.PROGRAMS`."""
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        import_module(f"{__name__}.{module}")
