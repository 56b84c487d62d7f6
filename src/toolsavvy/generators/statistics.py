"""How long the texts of a set are, how many golds its queries have, and how much of a gold's document they spell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from toolsavvy.assets import atomic_write
from toolsavvy.attacks import tokens
from toolsavvy.catalog import Query, RetrievalSet
from toolsavvy.generators.overlap import rouge_l

TOKENISATION = "lower-case runs of letters and digits, no stemming (rouge-score's default on ASCII)"


@dataclass(frozen=True)
class Spread:
    """A distribution in numbers.

    Args:
        n: values.
        mean: average.
        low: 5th percentile.
        median: 50th.
        high: 95th.
        smallest: minimum.
        largest: maximum.
    """

    n: int
    mean: float
    low: float
    median: float
    high: float
    smallest: float
    largest: float


@dataclass(frozen=True)
class Statistics:
    """Statistics of a set; the raw values are kept for the figures.

    Args:
        values: quantity -> one number per query, document or (text, gold document) pair.
        queries: how many per split.
        tools: size of the corpus.
        gold_tools: tools that are gold of some query.
        sources: queries by subset.
    """

    values: Mapping[str, tuple[float, ...]]
    queries: Mapping[str, int]
    tools: int
    gold_tools: int
    sources: Mapping[str, int] = field(default_factory=dict)

    @property
    def spreads(self) -> dict[str, Spread]:
        """Quantity -> its distribution; quantities without values are left out."""
        return {name: spread(values) for name, values in self.values.items() if len(values)}

    def as_json(self) -> dict[str, Any]:
        """What statistics.json holds."""
        return {
            "tokenisation": TOKENISATION,
            "queries": dict(self.queries),
            "sources": dict(self.sources),
            "tools": self.tools,
            "gold_tools": self.gold_tools,
            "golds_per_query": {str(int(k)): n for k, n in sorted(Counter(self.values["golds_per_query"]).items())},
            "spreads": {name: asdict(s) for name, s in self.spreads.items()},
        }


def spread(values: Sequence[float]) -> Spread:
    """Describe some numbers."""
    low, median, high = np.percentile(values, [5, 50, 95])
    rounded = (round(float(v), 4) for v in (np.mean(values), low, median, high, min(values), max(values)))
    return Spread(len(values), *rounded)


def statistics(data: RetrievalSet) -> Statistics:
    """Token counts, golds per query, and ROUGE-L F1 of query and instruction with each gold document.

    The quantities of the paper's Figures 2-4: lengths of queries, instructions and documents, and the overlap that
    makes a set easy for word matching. Overlap is counted per (query, gold) pair.
    """
    queries = [q for rows in data.splits.values() for q in rows]
    documents = [tokens(document) for document in data.catalog.documents]
    gold = sorted({data.catalog.index[t] for q in queries for t in q.relevant})
    written = [q for q in queries if q.instruction]
    values = {
        "query_tokens": [len(tokens(q.text)) for q in queries],
        "instruction_tokens": [len(tokens(q.instruction or "")) for q in written],
        "document_tokens": [len(d) for d in documents],
        "gold_document_tokens": [len(documents[i]) for i in gold],
        "golds_per_query": [len(q.relevant) for q in queries],
        "query_gold_rouge_l": _overlaps(queries, [q.text for q in queries], documents, data),
        "instruction_gold_rouge_l": _overlaps(written, [q.instruction or "" for q in written], documents, data),
        "instruction_query_rouge_l": [rouge_l(tokens(q.instruction or ""), tokens(q.text)) for q in written],
    }
    return Statistics(
        values={name: tuple(map(float, rows)) for name, rows in values.items()},
        queries={split: len(rows) for split, rows in data.splits.items()},
        tools=len(data.catalog),
        gold_tools=len(gold),
        sources=dict(Counter(q.subset for q in queries)),
    )


def _overlaps(
    queries: Sequence[Query], texts: Sequence[str], documents: Sequence[list[str]], data: RetrievalSet
) -> list[float]:
    """ROUGE-L F1 of every text with each gold document of its query."""
    index = data.catalog.index
    return [
        rouge_l(words, documents[index[tool]])
        for query, words in zip(queries, map(tokens, texts), strict=True)
        for tool in query.relevant
    ]


def draw(found: Statistics, folder: Path) -> list[Path]:
    """Histograms as PNG: lengths, golds per query, overlap; each file appears whole."""
    groups = {
        "lengths": ("query_tokens", "instruction_tokens", "document_tokens"),
        "golds": ("golds_per_query",),
        "overlap": ("query_gold_rouge_l", "instruction_gold_rouge_l", "instruction_query_rouge_l"),
    }
    paths = []
    for name, quantities in groups.items():
        shown = [q for q in quantities if len(found.values[q])]
        if shown:
            _figure(found, shown, folder / f"{name}.png")
            paths.append(folder / f"{name}.png")
    return paths


def _figure(found: Statistics, quantities: Sequence[str], path: Path) -> None:
    """One histogram a quantity, side by side, its mean as a line."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(quantities), 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    for axis, quantity in zip(np.atleast_1d(figure.subplots(1, len(quantities))), quantities, strict=True):
        values = np.asarray(found.values[quantity])
        whole = quantity == "golds_per_query"
        bins = np.arange(0.5, values.max() + 1.5) if whole else 30
        axis.hist(values, bins=bins, range=(0, 1) if quantity.endswith("rouge_l") else None, color="#4477aa")
        axis.axvline(values.mean(), color="#cc3311", linewidth=1, label=f"mean {values.mean():.2f}")
        axis.set_xlabel(quantity.replace("_", " ").replace("rouge l", "ROUGE-L F1"))
        axis.set_ylabel("count")
        axis.legend(frameon=False)
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=120)
