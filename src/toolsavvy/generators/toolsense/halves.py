"""Tools in two halves: those that a benchmark's requests may be written for, and those whose requests are trained on.

A tool's half follows from its id alone, so that a benchmark and a training run agree about it without knowing of one
another, whatever their seeds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from toolsavvy.catalog import Catalog

FEWEST = 8
"""Tools below which halves are too small for either use: every tool may be an anchor then."""


def trained_half(catalog: Catalog) -> frozenset[str]:
    """Ids of the tools that no template request of a suite is written for; empty for catalogs of fewer than 8 tools."""
    if len(catalog) < FEWEST:
        return frozenset()
    return frozenset(tool.id for tool in catalog.tools if hashlib.sha256(tool.id.encode()).digest()[0] % 2)


def apart(catalog: Catalog, needs: Collection[tuple[int, str]], anchors: Collection[str]) -> list[tuple[int, str]]:
    """(tool, request) rows of tools that are no anchor of a benchmark."""
    return [(tool, text) for tool, text in needs if catalog.tools[tool].id not in anchors]
