"""Supervised rows of ToolGen's two stages: documents, reverse documents, phrases, parameters, choices and queries."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from toolsavvy.catalog import Catalog, Query, Tool, parameter_names, split_words

if TYPE_CHECKING:
    from toolsavvy.models.virtual import ToolModel

SINGLE = ("document",)
MULTI = ("document", "reverse", "phrase", "parameters", "choice")
SENTENCES_WITHIN = 10_000
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_THIRD_PERSON = re.compile(r"^(\w+?)(sses|shes|ches|xes|ies|es|s)$")


@dataclass(frozen=True)
class Row:
    """One supervised example.

    Args:
        prompt: ids up to the answer.
        target: ids of the answer, ending with the end token.
        golds: alternatives for the first target id that share its probability mass (set-valued targets); () if none.
        kind: "query" or the format's name.
        tool: catalog index of the (first) gold tool.
        weight: of the row in its batch's mean.
    """

    prompt: tuple[int, ...]
    target: tuple[int, ...]
    golds: tuple[int, ...] = ()
    kind: str = "query"
    tool: int = 0
    weight: float = 1.0

    @property
    def length(self) -> int:
        """Tokens that pass through the model."""
        return len(self.prompt) + len(self.target) - 1


def memorization_rows(
    tools: ToolModel,
    catalog: Catalog,
    formats: Sequence[str],
    max_tokens: int,
    neighbours: np.ndarray | None = None,
    seed: int = 0,
) -> list[Row]:
    """Stage-1 rows of every tool in every format (`single` = document; `multi` = five formats, our reading of TG-5FM).

    Args:
        tools: model with codes.
        catalog: the tools.
        formats: names from `MULTI`, or "request" (query-like paraphrases made from the document alone).
        max_tokens: budget of a document's tokens. A tool's code is never cut; the sentence that "reverse" answers with
            keeps its first 40 tokens.
        neighbours: int [tool, n], near tools for "choice"; random ones when None.
        seed: for orders and drawn neighbours.
    """
    rows: list[Row] = []
    for name in formats:
        rows.extend(_FORMATS[name](tools, catalog, max_tokens, neighbours, random.Random(f"{seed}/{name}")))
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
            rows.append(Row(prompt, _answer(tools, golds[0]), first if len(first) > 1 else (), "query", golds[0]))
            continue
        weight = 1.0 / len(golds) if targets == "set" else 1.0
        rows.extend(Row(prompt, _answer(tools, g), (), "query", g, weight) for g in golds)
    return rows


def _answer(tools: ToolModel, tool: int) -> tuple[int, ...]:
    return (*tools.codes[tool], *tools.frame.end)


def _to_token(tools: ToolModel, texts: Sequence[str], indices: Sequence[int], limit: int, kind: str) -> Iterator[Row]:
    for ids, i in zip(tools.text.encode_batch(texts, limit), indices, strict=True):
        yield Row(tuple(tools.frame.wrap(ids)), _answer(tools, i), (), kind, i)


def _document(
    tools: ToolModel, catalog: Catalog, limit: int, neighbours: np.ndarray | None, rng: random.Random
) -> Iterator[Row]:
    return _to_token(tools, catalog.documents, range(len(catalog)), limit, "document")


def _reverse(
    tools: ToolModel, catalog: Catalog, limit: int, neighbours: np.ndarray | None, rng: random.Random
) -> Iterator[Row]:
    question = tools.text.encode(" What does this tool do?")
    texts = [first_sentences(t.description) or split_words(t.name) for t in catalog.tools]
    for i, ids in enumerate(tools.text.encode_batch(texts, min(limit, 40))):
        prompt = tools.frame.wrap([*tools.codes[i], *question])
        yield Row(tuple(prompt), (*ids, *tools.frame.end), (), "reverse", i)


def _phrase(
    tools: ToolModel, catalog: Catalog, limit: int, neighbours: np.ndarray | None, rng: random.Random
) -> Iterator[Row]:
    texts = [f"{split_words(t.name)} ({t.group})" if t.group else split_words(t.name) for t in catalog.tools]
    return _to_token(tools, texts, range(len(catalog)), limit, "phrase")


def _parameters(
    tools: ToolModel, catalog: Catalog, limit: int, neighbours: np.ndarray | None, rng: random.Random
) -> Iterator[Row]:
    keep = [(i, names) for i, t in enumerate(catalog.tools) if (names := parameter_names(t.parameters))]
    texts = [f"Which tool takes {', '.join(split_words(n) for n in names[:12])}?" for _, names in keep]
    return _to_token(tools, texts, [i for i, _ in keep], limit, "parameters")


def _choice(
    tools: ToolModel, catalog: Catalog, limit: int, neighbours: np.ndarray | None, rng: random.Random
) -> Iterator[Row]:
    if len(catalog) < 2:
        return
    question = tools.text.encode(" Which of these does it?")
    texts = [first_sentences(t.description) or split_words(t.name) for t in catalog.tools]
    for i, ids in enumerate(tools.text.encode_batch(texts, limit)):
        pool = _rivals(i, len(catalog), neighbours, rng)
        options = rng.sample([i, *pool], k=len(pool) + 1)
        prompt = tools.frame.wrap([*ids, *question, *(t for o in options for t in tools.codes[o])])
        yield Row(tuple(prompt), _answer(tools, i), (), "choice", i)


def _request(
    tools: ToolModel, catalog: Catalog, limit: int, neighbours: np.ndarray | None, rng: random.Random
) -> Iterator[Row]:
    for make in (_title_like, _description_like, _sentence_like):
        texts = [make(tool) for tool in catalog.tools]
        yield from _to_token(tools, texts, range(len(catalog)), limit, "request")


def _rivals(tool: int, n: int, neighbours: np.ndarray | None, rng: random.Random) -> list[int]:
    near = [] if neighbours is None else [j for j in dict.fromkeys(neighbours[tool].tolist()) if j != tool]
    pool = near or [j for j in range(n) if j != tool]
    return rng.sample(pool, k=min(3, len(pool)))


def _title_like(tool: Tool) -> str:
    return f"To {split_words(tool.name)}"


def _description_like(tool: Tool) -> str:
    """The first sentence, as an example would open: it names the action and no command."""
    return f"The following example {_lower_first(first_sentences(tool.description) or split_words(tool.name))}"


def _sentence_like(tool: Tool) -> str:
    """The first sentence in the imperative ("Creates a VPC." becomes "Create a VPC.")."""
    sentence = first_sentences(tool.description) or split_words(tool.name)
    verb, _, rest = sentence.partition(" ")
    return f"{_imperative(verb)} {rest}".strip()


def _imperative(verb: str) -> str:
    match = _THIRD_PERSON.match(verb)
    if not match or len(verb) < 4:
        return verb
    stem, ending = match.groups()
    return stem + {"ies": "y", "sses": "ss", "shes": "sh", "ches": "ch", "xes": "x", "es": "e", "s": ""}[ending]


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def first_sentences(text: str, n: int = 1) -> str:
    """The first n sentences of a description, on one line; only its first `SENTENCES_WITHIN` characters are read."""
    return " ".join(_SENTENCE.split(" ".join(text[:SENTENCES_WITHIN].split()))[:n])


Format = Callable[["ToolModel", Catalog, int, "np.ndarray | None", random.Random], Iterator[Row]]
_FORMATS: dict[str, Format] = {
    "document": _document,
    "reverse": _reverse,
    "phrase": _phrase,
    "parameters": _parameters,
    "choice": _choice,
    "request": _request,
}
FORMATS = tuple(_FORMATS)
TO_TOKEN = ("query", "document", "phrase", "parameters", "choice", "request")
"""Kinds whose answer starts with a tool's token."""
