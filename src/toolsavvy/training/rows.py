"""Supervised rows of ToolGen's two stages: tools in the chosen formats, and queries."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from toolsavvy.catalog import Catalog, Query
from toolsavvy.training.formats import FORMATS, Material, Row, answer

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
        neighbours: int [tool, n], near tools for "choice", "quiz" and "verdict"; random ones when None.
        seed: for orders and drawn neighbours.
        needs: (tool, request) for "need": what people ask who know no documentation.
    """
    rows: list[Row] = []
    for name in formats:
        rng = random.Random(f"{seed}/{name}")
        rows.extend(FORMATS[name](Material(tools, catalog, max_tokens, neighbours, needs, rng)))
    return rows


def query_rows(
    tools: ToolModel, catalog: Catalog, queries: Sequence[Query], max_tokens: int, targets: str = "rows"
) -> list[Row]:
    """Stage-2 rows: one per gold tool, or one set-valued row per query (`targets=set`).

    Codes of several tokens cannot share one position: their set-valued rows are one per gold, weighted 1 / golds.
    """
    rows = []
    texts = tools.text.encode_batch([q.text for q in queries], max_tokens)
    for query, ids in zip(queries, texts, strict=True):
        golds = [catalog.index[t] for t in query.relevant]
        prompt = tuple(tools.frame.wrap(ids))
        if targets == "set" and tools.atomic:
            first = tuple(tools.codes[g][0] for g in golds)
            rows.append(Row(prompt, answer(tools, golds[0]), first if len(first) > 1 else (), "query", golds[0]))
            continue
        weight = 1.0 / len(golds) if targets == "set" else 1.0
        rows.extend(Row(prompt, answer(tools, g), (), "query", g, weight) for g in golds)
    return rows
