"""How each tool is spelled: one virtual token, a path of shared codes, its name, or a number (ToolGen section 3.1).

Symbols are strings; the model part turns virtual ones into new tokens and text ones into the tokenizer's own. Whatever
the scheme, no two tools share a code: collisions are resolved and never dropped.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np

from toolsavvy.catalog import Catalog, Query, split_words
from toolsavvy.errors import UserError, did_you_mean
from toolsavvy.quantization import balanced_tree, residual_codes

SCHEMES = ("atomic", "hierarchical", "semantic", "numeric")
QUANTIZERS = ("balanced", "residual", "residual_cousage")
HASHED_DIMENSIONS = 256
HASHED_BLOCK = 10_000
"""Documents hashed at once."""


@dataclass(frozen=True)
class CodeBook:
    """The code of every tool.

    Args:
        scheme: one of `SCHEMES`.
        symbols: per tool, in catalog order: new virtual tokens, or words of plain text to be joined by spaces.
        virtual: whether symbols are virtual tokens.
    """

    scheme: str
    symbols: tuple[tuple[str, ...], ...]
    virtual: bool

    def __post_init__(self) -> None:
        """A shared code would make a tool unreachable."""
        if len(set(self.symbols)) != len(self.symbols):
            raise ValueError(f"two tools share a code under '{self.scheme}'")

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Every symbol once, in order of first use: the tokens to add where they are virtual."""
        return tuple(dict.fromkeys(s for symbols in self.symbols for s in symbols))

    @property
    def texts(self) -> tuple[str, ...]:
        """Each code as text."""
        return tuple(("" if self.virtual else " ").join(symbols) for symbols in self.symbols)


def codes(
    catalog: Catalog,
    scheme: str = "atomic",
    *,
    quantizer: str = "balanced",
    branches: int = 10,
    levels: int | None = None,
    smoothing: float = 1.0,
    embeddings: np.ndarray | None = None,
    queries: Sequence[Query] = (),
    seed: int = 0,
) -> CodeBook:
    """Spell every tool of a catalog.

    Args:
        catalog: the tools.
        scheme: "atomic" (`<<id>>`, one virtual token a tool), "hierarchical" (virtual tokens `<c0_3> <c1_7> ...`),
            "semantic" (the name's words), "numeric" (digits of the position, as many for every tool).
        quantizer: for "hierarchical": "balanced" (ToolGen: k-means by `branches`, recursively, in clusters of even
            size), "residual" (k-means on what the levels before left over), "residual_cousage" (ToolWeaver,
            2601.21947, our reading of its summary: embeddings smoothed over co-used tools, last level balanced by
            Sinkhorn).
        branches: codes per level.
        levels: residual quantizers: levels before any that keep tools apart; None: as few as hold twice the tools.
        smoothing: weight of the co-usage Laplacian; 0 leaves embeddings as they are.
        embeddings: float [tool, dim] of the documents; None: hashed tf-idf of their words.
        queries: training queries, whose gold tools are co-used.
        seed: of all draws.

    Raises:
        UserError: an unknown scheme or quantizer, too few branches or levels, or embeddings of another catalog.
    """
    if scheme == "atomic":
        return CodeBook(scheme, tuple((f"<<{tool.id}>>",) for tool in catalog.tools), virtual=True)
    if scheme == "semantic":
        return CodeBook(scheme, _names(catalog), virtual=False)
    if scheme == "numeric":
        width = len(str(max(len(catalog) - 1, 0)))
        return CodeBook(scheme, tuple(tuple(f"{i:0{width}d}") for i in range(len(catalog))), virtual=False)
    if scheme != "hierarchical":
        raise _unknown(scheme, SCHEMES, "indexing.scheme")
    _at_least(branches, 2, "indexing.branches")
    if levels is not None:
        _at_least(levels, 1, "indexing.levels")
    vectors = _vectors(catalog, embeddings)
    if quantizer == "balanced":
        paths = balanced_tree(vectors, branches, seed)
    elif quantizer in QUANTIZERS:
        cousage = quantizer == "residual_cousage"
        vectors = smooth(vectors, co_used(catalog, queries), smoothing) if cousage else vectors
        paths = residual_codes(vectors, branches, levels or _levels(len(catalog), branches), seed, sinkhorn=cousage)
    else:
        raise _unknown(quantizer, QUANTIZERS, "indexing.quantizer")
    return CodeBook(scheme, tuple(tuple(map(_symbol, range(len(p)), p)) for p in paths), virtual=True)


@cache
def _symbol(level: int, code: int) -> str:
    """A virtual token of a path, one object however many tools share it."""
    return f"<c{level}_{code}>"


def _unknown(word: str, options: tuple[str, ...], where: str) -> UserError:
    return UserError(
        f"{word!r} is unknown", where=where, expected=f"one of {', '.join(options)}", fix=did_you_mean(word, options)
    )


def _at_least(value: int, low: int, where: str) -> None:
    if value < low:
        raise UserError(
            f"{value} is too small", where=where, expected=f"at least {low}", fix=f"set {where}={low} or more"
        )


def _levels(tools: int, branches: int) -> int:
    """The fewest levels with room for twice the tools: the codes that k-means gives are never used evenly."""
    levels = 1
    while branches**levels < 2 * tools:
        levels += 1
    return levels


def _vectors(catalog: Catalog, embeddings: np.ndarray | None) -> np.ndarray:
    """Float32 [tool, dim], checked."""
    vectors = hashed_tfidf(catalog.documents) if embeddings is None else np.asarray(embeddings, dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(catalog) or not np.isfinite(vectors).all():
        raise UserError(
            f"embeddings of shape {vectors.shape} do not fit {len(catalog)} tools",
            where=f"catalog {catalog.name}",
            expected="one finite vector for each tool",
            fix="encode the documents of this very catalog",
        )
    return vectors


def _names(catalog: Catalog) -> tuple[tuple[str, ...], ...]:
    """Words of each tool's name; one that is taken adds its group's words, and then a number."""
    words = [tuple(split_words(tool.name or tool.id).split()) or ("tool",) for tool in catalog.tools]
    counts: defaultdict[tuple[str, ...], int] = defaultdict(int)
    for name in words:
        counts[name] += 1
    taken: set[tuple[str, ...]] = {name for name, count in counts.items() if count == 1}
    result = []
    for tool, name in zip(catalog.tools, words, strict=True):
        unique = name
        if counts[name] > 1:
            group = tuple(split_words(tool.group).split())
            unique = _free((*name, "for", *group) if group else name, taken)
            taken.add(unique)
        result.append(unique)
    return tuple(result)


def _free(name: tuple[str, ...], taken: set[tuple[str, ...]]) -> tuple[str, ...]:
    """The name itself, or with the first number that makes it unique."""
    candidate, number = name, 2
    while candidate in taken:
        candidate, number = (*name, str(number)), number + 1
    return candidate


def hashed_tfidf(documents: Sequence[str], dimensions: int = HASHED_DIMENSIONS) -> np.ndarray:
    """Unit vectors float32 [document, dimensions] of hashed words: what remains of texts where there is no encoder.

    Two hashes decide a word's dimension and sign, so that collisions cancel on average. Worked off in blocks, so that
    a million documents take little more than their vectors.
    """
    vectors = np.zeros((len(documents), dimensions), dtype=np.float32)
    blocks = [slice(i, i + HASHED_BLOCK) for i in range(0, len(documents), HASHED_BLOCK)]
    for block in blocks:
        _count_words(documents[block], vectors[block])
    used = sum((np.count_nonzero(vectors[block], axis=0) for block in blocks), np.zeros(dimensions, dtype=np.int64))
    weights = np.log((1 + len(documents)) / (1 + used)) + 1
    for block in blocks:
        weighted = np.sign(vectors[block]) * np.log1p(np.abs(vectors[block])) * weights
        vectors[block] = weighted / np.maximum(np.linalg.norm(weighted, axis=1, keepdims=True), 1e-9)
    return vectors


def _count_words(documents: Sequence[str], counts: np.ndarray) -> None:
    """Add the signed counts of hashed words to float32 [document, dimensions]."""
    width, seen = counts.shape[1], dict[str, tuple[int, float]]()
    rows, columns, signs = [], [], []
    for row, document in enumerate(documents):
        for word in split_words(document).split():
            if (place := seen.get(word)) is None:
                value = zlib.crc32(word.encode())
                place = seen[word] = value % width, 1.0 if value >> 31 else -1.0
            rows.append(row)
            columns.append(place[0])
            signs.append(place[1])
    np.add.at(counts, (np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64)), np.array(signs))


def co_used(catalog: Catalog, queries: Sequence[Query]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs of tools that answer a query together: int64 [edge] ends (both ways) and float [edge] counts."""
    counts: defaultdict[tuple[int, int], int] = defaultdict(int)
    for query in queries:
        golds = sorted(catalog.index[t] for t in query.relevant if t in catalog.index)
        for pair in combinations(golds, 2):
            counts[pair] += 1
    pairs = np.array(list(counts), dtype=np.int64).reshape(-1, 2)
    weights = np.array(list(counts.values()), dtype=np.float64)
    both = np.concatenate([pairs, pairs[:, ::-1]])
    return both[:, 0], both[:, 1], np.concatenate([weights, weights])


def smooth(
    vectors: np.ndarray, edges: tuple[np.ndarray, np.ndarray, np.ndarray], weight: float, tolerance: float = 1e-5
) -> np.ndarray:
    """Pull co-used tools together: solves (I + weight · L) x = vectors with the random-walk Laplacian L = I - P.

    It is the minimiser of the distance to the embeddings plus the Laplacian's penalty; tools that are never co-used
    stay where they are. The fixed point x = (v + weight · P x) / (1 + weight) contracts, so iterating it is enough.
    """
    ends, others, counts = edges
    if not len(ends) or weight <= 0:
        return vectors
    degree = np.bincount(ends, weights=counts, minlength=len(vectors))
    used = np.unique(ends)
    share = (counts / degree[ends])[:, None]
    place = np.searchsorted(used, ends)
    start, x = vectors[used].astype(np.float64), vectors.astype(np.float64)
    for _ in range(1000):
        mean = np.zeros_like(start)
        np.add.at(mean, place, share * x[others])
        new = (start + weight * mean) / (1 + weight)
        change = np.abs(new - x[used]).max()
        x[used] = new
        if change < tolerance:
            break
    return x.astype(np.float32)
