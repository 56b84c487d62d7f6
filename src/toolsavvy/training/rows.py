"""Supervised rows of ToolGen's two stages: tools in the chosen formats, and queries."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from toolsavvy.catalog import Catalog, Query
from toolsavvy.training.formats import FORMATS, Material, Row, answer, set_rows

if TYPE_CHECKING:
    from toolsavvy.models.virtual import ToolModel


def memorization_rows(
    tools: ToolModel,
    catalog: Catalog,
    formats: Sequence[str],
    max_tokens: int,
    neighbours: np.ndarray | None = None,
    seed: int = 0,
    needs: Sequence[tuple[int, str]] = (),
) -> list[Row]:
    """Stage-1 rows of every tool in every format (`single` = document; `multi` = five formats, our reading of TG-5FM).

    Args:
        tools: model with codes.
        catalog: the tools.
        formats: names from `FORMATS`.
        max_tokens: budget of a document's tokens. A tool's code is never cut; answers in words keep their first 40
            tokens.
        neighbours: int [tool, n], near tools for the formats that show some; random ones when None.
        seed: for orders and drawn neighbours.
        needs: (tool, request) for "need" and "together": what people ask who know no documentation.
    """
    rows: list[Row] = []
    for name in formats:
        rng = random.Random(f"{seed}/{name}")
        rows.extend(FORMATS[name](Material(tools, catalog, max_tokens, neighbours, needs, rng)))
    return rows


def query_rows(
    tools: ToolModel, catalog: Catalog, queries: Sequence[Query], max_tokens: int, targets: str = "rows"
) -> list[Row]:
    """Stage-2 rows: one per gold tool, or set-valued ones (`targets=set`, see `formats.set_rows`)."""
    rows: list[Row] = []
    texts = tools.text.encode_batch([q.text for q in queries], max_tokens)
    for query, ids in zip(queries, texts, strict=True):
        golds = [catalog.index[t] for t in query.relevant]
        prompt = tuple(tools.frame.wrap(ids))
        if targets == "set":
            rows += set_rows(tools, prompt, golds, "query")
        else:
            rows += [Row(prompt, answer(tools, g), (), "query", g) for g in golds]
    return rows
