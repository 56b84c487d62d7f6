"""One tool for the duplicates that several sources have of it; every merge is on record, and golds follow."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from toolsavvy.attacks import tokens
from toolsavvy.catalog import Catalog, parameter_names, split_words
from toolsavvy.generators.collecting import Entry, Item
from toolsavvy.retrieval.encoders import Encoder

WAYS = ("off", "exact", "jaccard", "embedding")
BLOCK = 1024


@dataclass(frozen=True)
class Merge:
    """One tool that went into another.

    Args:
        id: of the tool that stays.
        merged: id that the other one would have had.
        source: of the other one.
        original: its id there.
        kind: exact | jaccard | embedding.
        similarity: 1 for exact duplicates.
    """

    id: str
    merged: str
    source: str
    original: str
    kind: str
    similarity: float


@dataclass(frozen=True)
class Merged:
    """Tools without duplicates.

    Args:
        entries: those that stay, in their order.
        merges: what went into them.
    """

    entries: tuple[Entry, ...]
    merges: tuple[Merge, ...]

    @property
    def target(self) -> dict[str, str]:
        """Id of a merged tool -> id of the one that stays."""
        return {m.merged: m.id for m in self.merges}


def merge(entries: Sequence[Entry], way: str, threshold: float, encoder: Encoder | None, document: str) -> Merged:
    """Merge duplicates.

    Exact: the same words in name, description, group and category and the same parameter names; a group or category
    that one of two sources leaves empty is no difference. Then, if asked, near-duplicates of *different* sources, most
    similar first; a tool takes at most one of each source and one that was merged takes none, so that nothing is
    chained.

    Args:
        entries: all tools, the sources' order decides who stays.
        way: off | exact | jaccard (of the documents' token sets) | embedding (inner product of the documents).
        threshold: least similarity of near-duplicates.
        encoder: for `embedding`.
        document: template of the documents.
    """
    if way == "off":
        return Merged(tuple(entries), ())
    kept, merges = _exact(entries)
    if way != "exact":
        texts = Catalog("", tuple(e.tool for e in kept), document).documents
        pairs = _jaccard_pairs(texts, threshold) if way == "jaccard" else _cosine_pairs(texts, threshold, encoder)
        kept, near = _near(kept, pairs, way)
        into = {m.merged: m.id for m in near}
        merges = [*(replace(m, id=into.get(m.id, m.id)) for m in merges), *near]
    return Merged(tuple(kept), tuple(merges))


def rewritten(items: Sequence[Item], merged: Merged) -> list[Item]:
    """The queries with golds that stay; of two golds that became one the higher grade counts."""
    target, out = merged.target, []
    for item in items:
        golds: dict[str, int] = {}
        for tool, grade in item.query.relevant.items():
            key = target.get(tool, tool)
            golds[key] = max(grade, golds.get(key, 0))
        wrong = tuple(dict.fromkeys(target.get(tool, tool) for tool in item.query.negatives))
        out.append(replace(item, query=replace(item.query, relevant=golds, negatives=wrong)))
    return out


def _exact(entries: Sequence[Entry]) -> tuple[list[Entry], list[Merge]]:
    """The first of equal tools stays."""
    bins: dict[tuple[str, ...], list[Entry]] = defaultdict(list)
    kept, merges = [], []
    for entry in entries:
        tool = entry.tool
        # A text without letters and digits stands for itself: two such texts are not equal for having no words.
        words = tuple(" ".join(tokens(text)) or text.strip() for text in (split_words(tool.name), tool.description))
        key = (*words, *sorted(parameter_names(tool.parameters)))
        stays = next((e for e in bins[key] if _same_place(e, entry)), None)
        if stays is None:
            bins[key].append(entry)
            kept.append(entry)
        else:
            merges.append(Merge(stays.tool.id, tool.id, entry.source, entry.original, "exact", 1.0))
    return kept, merges


def _same_place(a: Entry, b: Entry) -> bool:
    """Whether groups and categories say nothing against two tools being one; within a source they must be equal."""
    for one, other in ((a.tool.group, b.tool.group), (a.tool.category, b.tool.category)):
        is_blank = a.source != b.source and not (one.strip() and other.strip())
        if not is_blank and tokens(one) != tokens(other):
            return False
    return True


def _near(
    entries: Sequence[Entry], pairs: Iterator[tuple[float, int, int]], kind: str
) -> tuple[list[Entry], list[Merge]]:
    """Merge the most similar pairs of different sources first."""
    into: dict[int, tuple[int, float]] = {}
    members: dict[int, set[str]] = {}
    for similarity, i, j in sorted(pairs, key=lambda p: (-p[0], p[1], p[2])):
        sources = members.get(i, {entries[i].source})
        if i in into or j in into or j in members or entries[j].source in sources:
            continue
        into[j] = (i, similarity)
        members[i] = {*sources, entries[j].source}
    merges = [
        Merge(entries[i].tool.id, entries[j].tool.id, entries[j].source, entries[j].original, kind, similarity)
        for j, (i, similarity) in sorted(into.items())
    ]
    return [e for n, e in enumerate(entries) if n not in into], merges


def _jaccard_pairs(texts: Sequence[str], threshold: float) -> Iterator[tuple[float, int, int]]:
    """Pairs (similarity, i, j), i < j, whose token sets overlap enough; exact, by the prefix filter.

    Two sets of Jaccard similarity >= t share a token among the first |x| - ceil(t |x|) + 1 of each, whatever the fixed
    order of tokens; the rarest first keeps the lists short.
    """
    sets = [set(tokens(text)) for text in texts]
    rarity = Counter(word for words in sets for word in words)
    index: dict[str, list[int]] = defaultdict(list)
    for j, words in enumerate(sets):
        ordered = sorted(words, key=lambda w: (rarity[w], w))
        prefix = ordered[: len(words) - int(np.ceil(threshold * len(words) - 1e-9)) + 1]
        for i in sorted({i for word in prefix for i in index[word]}):
            similarity = len(words & sets[i]) / len(words | sets[i])
            if similarity >= threshold:
                yield similarity, i, j
        for word in prefix:
            index[word].append(j)


def _cosine_pairs(texts: Sequence[str], threshold: float, encoder: Encoder | None) -> Iterator[tuple[float, int, int]]:
    """Pairs (similarity, i, j), i < j, whose embeddings are close."""
    assert encoder is not None
    vectors = encoder.encode_documents(texts)
    for start in range(0, len(vectors), BLOCK):
        scores = vectors[start : start + BLOCK] @ vectors[start:].T
        for row, column in zip(*np.nonzero(scores >= threshold), strict=True):
            if row < column:
                yield float(scores[row, column]), start + int(row), start + int(column)


def merge_counts(merged: Merged) -> Mapping[str, int]:
    """Merged tools by kind."""
    return Counter(m.kind for m in merged.merges)
