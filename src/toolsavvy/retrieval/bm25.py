"""BM25 over tool documents, with a tokenizer made for names of tools."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from toolsavvy.catalog import Catalog, Query, split_words
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.retrieval.ranking import Ranking, blocks, rank_scores, stack, tie_ranks

_WORD = re.compile(r"\w+")
_HUMP = re.compile(r"[a-z0-9][A-Z]")
METHODS = ("lucene", "robertson", "atire", "bm25l", "bm25+")


def tokenize(text: str, stopwords: frozenset[str] = frozenset()) -> list[str]:
    """Lower-case words; snake_case and camelCase names are split, acronyms ("VPCs", "IPv4") stay whole.

    One-letter words and digits are kept, and nothing is stemmed: in names of tools they carry meaning.
    """
    words: list[str] = []
    for word in _WORD.findall(text):
        is_name = "_" in word or _HUMP.search(word)
        words.extend(split_words(word).split() if is_name else [word.lower()])
    return [word for word in words if word not in stopwords]


class BM25:
    """Okapi BM25 by bm25s; a tool that shares no word with the query stays unranked (but see `method`).

    Args:
        k1: saturation of term frequency.
        b: length normalisation, 0 to 1.
        method: lucene (idf above 0) | robertson (words of more than half of the tools count nothing or less) | atire |
            bm25l | bm25+ (these two also score tools that lack the words, and so rank all of them).
        stopwords: words to drop from documents and queries; None keeps all.
        use_instruction: put a query's instruction before its text (TOOLRET 2503.01763, "w/ inst.").

    Raises:
        UserError: unknown method or a parameter out of range.
    """

    def __init__(
        self,
        k1: float = 1.5,
        b: float = 0.75,
        method: str = "lucene",
        stopwords: Sequence[str] | None = None,
        use_instruction: bool = False,
    ) -> None:
        if method not in METHODS:
            raise UserError(
                f"unknown BM25 method {method!r}",
                where="retriever.bm25.method",
                expected=f"one of {', '.join(METHODS)}",
                fix=did_you_mean(method, METHODS),
            )
        if k1 < 0 or not 0 <= b <= 1:
            raise UserError(
                f"k1={k1}, b={b} are out of range", where="retriever.bm25", expected="k1 >= 0 and 0 <= b <= 1"
            )
        self.k1, self.b, self.method = float(k1), float(b), method
        self.stopwords = frozenset(word.lower() for word in stopwords or ())
        self.use_instruction = use_instruction
        self._index: Any = None
        self._tools = 0
        self._ties = np.zeros(0, dtype=np.int64)

    def fit(self, catalog: Catalog, train: Sequence[Query] = ()) -> Self:
        """Index the documents of a catalog; training queries are not used."""
        import bm25s

        words: dict[str, str] = {}  # one object a word, however often it stands: a million tools hold 30 million words
        tokens = [
            [words.setdefault(word, word) for word in tokenize(document, self.stopwords)]
            for document in catalog.documents
        ]
        self._tools, self._ties = len(catalog), tie_ranks([tool.id for tool in catalog.tools])
        self._index = None
        if any(tokens):  # bm25s cannot index a corpus without any token
            # 64-bit scores: in 32 bits, sums of the same terms in another order would break or make ties.
            index = bm25s.BM25(k1=self.k1, b=self.b, method=self.method, dtype="float64")
            index.index(tokens, show_progress=False)
            self._index = index
        return self

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        """Rank min(k, tools) tools per query; those with a score of 0 or less are `NO_TOOL`."""
        if not queries:
            return rank_scores(np.zeros((0, self._tools)), self._ties, k)
        parts = []
        for block in blocks(len(queries), self._tools):
            scores = np.stack([self._scores(query) for query in queries[block]])
            parts.append(rank_scores(np.where(scores > 0, scores, -np.inf), self._ties, k))
        return stack(parts)

    def _scores(self, query: Query) -> np.ndarray:
        """BM25 of every tool, float64 [tool]."""
        if self._index is None:
            return np.zeros(self._tools)
        text = f"{query.instruction} {query.text}" if self.use_instruction and query.instruction else query.text
        known = self._index.vocab_dict
        # Sorted, so that two queries of the same words sum in the same order and tie alike.
        ids = sorted(known[word] for word in tokenize(text, self.stopwords) if word in known)
        return self._index.get_scores_from_ids(ids) if ids else np.zeros(self._tools)
