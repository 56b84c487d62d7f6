"""TREC qrels and run files, written so that trec_eval agrees with us and read so that we agree with it."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import quote, unquote

import numpy as np

from toolsavvy.assets import atomic_write
from toolsavvy.catalog import Catalog, Query
from toolsavvy.errors import UserError
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking

NONE_PREFIX = "!none-"
"""Starts the document id of a rank whose output is no tool; an encoded id never holds '!'."""

_BLANKS = re.compile(r"[ \t]+")  # as trec_eval: a no-break space may belong to an id


def encode(id: str) -> str:
    """Percent-encode an id: TREC files are split at blanks."""
    return quote(id, safe="")


@dataclass(frozen=True)
class Line:
    """One ranked document of a run file."""

    document: str
    score: float
    number: int


def query_keys(splits: Mapping[str, Sequence[Query]]) -> dict[str, list[str]]:
    """Encoded query ids per split: the bare id where ids are unique over the splits, else `split/id` for all."""
    ids = [query.id for queries in splits.values() for query in queries]
    bare = len(set(ids)) == len(ids)
    return {
        split: [encode(q.id) if bare else f"{encode(split)}/{encode(q.id)}" for q in queries]
        for split, queries in splits.items()
    }


def write_qrels(path: Path | str, splits: Mapping[str, Sequence[Query]]) -> None:
    """Write the golds of all splits (`query 0 tool grade`)."""
    keys = query_keys(splits)
    with atomic_write(path, text=True) as file:
        for split, queries in splits.items():
            for key, query in zip(keys[split], queries, strict=True):
                file.writelines(f"{key} 0 {encode(tool)} {grade}\n" for tool, grade in query.gold.items())


def write_run(
    path: Path | str,
    splits: Mapping[str, Sequence[Query]],
    rankings: Mapping[str, Ranking],
    catalog: Catalog,
    system: str,
) -> None:
    """Write the rankings of all splits (`query Q0 tool rank score system`).

    Ranks whose output is no tool are written under a placeholder, padding is left out. Scores are nudged apart where
    needed (see `distinct_scores`), so no reader's tie rule can change the order.
    """
    keys, tag = query_keys(splits), encode(system)
    tools = [encode(tool.id) for tool in catalog.tools]
    with atomic_write(path, text=True) as file:
        for split in splits:
            ranking = rankings[split]
            scores = distinct_scores(ranking.scores)
            for key, indices, row in zip(keys[split], ranking.indices.tolist(), scores, strict=True):
                for rank, (tool, score) in enumerate(zip(indices, row, strict=True), start=1):
                    if tool != NO_TOOL or np.isfinite(score):
                        document = tools[tool] if tool != NO_TOOL else f"{NONE_PREFIX}{rank}"
                        file.write(f"{key} Q0 {document} {rank} {score!s} {tag}\n")


def distinct_scores(scores: np.ndarray) -> np.ndarray:
    """Scores that fall strictly along every ranking even as 32-bit floats, which is all that trec_eval keeps.

    Args:
        scores: float [query, rank], descending; -inf is padding.

    Returns:
        float32 [query, rank]: the score itself, or the next smaller number where it would tie or rise.

    Raises:
        ValueError: a score is NaN.
    """
    if np.isnan(scores).any():
        raise ValueError("a score is NaN")
    written = np.where(np.isneginf(scores), -np.inf, np.clip(scores, -1e38, 1e38)).astype(np.float32)
    for rank in range(1, written.shape[1]):
        below = np.nextafter(written[:, rank - 1], np.float32(-np.inf))
        written[:, rank] = np.minimum(written[:, rank], below)
    return written


def read_qrels(path: Path | str) -> dict[str, dict[str, int]]:
    """Read decoded query id -> decoded tool id -> grade.

    Raises:
        UserError: unreadable file, or a line that is not `query iteration tool grade`.
    """
    golds: dict[str, dict[str, int]] = {}
    for number, fields in _lines(path, 4, "query iteration tool grade"):
        query, _, tool, grade = fields
        try:
            golds.setdefault(unquote(query), {})[unquote(tool)] = int(grade)
        except ValueError:
            raise UserError(
                f"grade {grade!r} is no integer", where=f"{path}, line {number}, field 4", expected="an integer"
            ) from None
    return golds


def read_run(path: Path | str) -> dict[str, list[Line]]:
    """Read query id -> its lines, best first as trec_eval sorts them; ids are left as they stand in the file.

    The rank column is ignored, as in trec_eval: scores decide, as 32-bit floats, and ties go to the greater id.

    Raises:
        UserError: unreadable file, a line that is not `query Q0 tool rank score system`, a score that is no number, or
            a tool that a query has twice.
    """
    run: dict[str, list[Line]] = {}
    seen: dict[tuple[str, str], int] = {}
    for number, fields in _lines(path, 6, "query Q0 tool rank score system"):
        query, document, score = fields[0], fields[2], _score(fields[4], f"{path}, line {number}, field 5")
        before = seen.setdefault((query, document), number)
        if before != number:
            raise UserError(
                f"query {query!r} ranks {document!r} twice (first in line {before})",
                where=f"{path}, line {number}",
                expected="each tool once per query",
            )
        run.setdefault(query, []).append(Line(document, score, number))
    for lines in run.values():
        single = np.array([line.score for line in lines]).astype(np.float32).tolist()
        scores = {line.number: score for line, score in zip(lines, single, strict=True)}
        lines.sort(key=lambda line: (scores[line.number], line.document), reverse=True)
    return run


def _score(text: str, where: str) -> float:
    """A finite score."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"score {text!r} is no finite number", where=where, expected="a finite number")
    return value


def _lines(path: Path | str, columns: int, layout: str) -> list[tuple[int, list[str]]]:
    """Numbered fields of every line that is not blank; a BOM and CRLF are taken off."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else str(error.strerror)
        raise UserError(reason, where=str(path), expected=f"lines of `{layout}`", fix="correct the path") from error
    except UnicodeDecodeError as error:
        raise UserError(f"not UTF-8 at byte {error.start}", where=str(path), expected="UTF-8 text") from error
    rows = []
    # Not splitlines(): an id may hold characters that Python takes for line ends.
    for number, line in enumerate(text.split("\n"), start=1):
        fields = _BLANKS.split(line.strip(" \t\r"))
        fields = fields if fields[0] else []
        if fields and len(fields) != columns:
            raise UserError(
                f"{len(fields)} fields", where=f"{path}, line {number}", expected=f"{columns} fields: `{layout}`"
            )
        if fields:
            rows.append((number, fields))
    if not rows:
        raise UserError("the file is empty", where=str(path), expected=f"lines of `{layout}`")
    return rows


class Run:
    """A TREC run file as a retriever, so that other programs' rankings are scored like ours.

    Tool and query ids may be percent-encoded, as we write them, or plain. A query that the file does not name has an
    empty ranking and counts (trec_eval leaves such queries out unless told otherwise).

    Args:
        path: the run file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._run: dict[str, list[Line]] = {}
        self._tools: dict[int, int] = {}
        self._keys: dict[tuple[str, str], str] = {}
        self._size = 0

    def fit(self, catalog: Catalog, train: Sequence[Query] = ()) -> Self:
        """Read the file and look its tools up; training queries are not used.

        Raises:
            UserError: a malformed line or an unknown tool.
        """
        self._run, self._size = read_run(self.path), len(catalog)
        self._tools = {line.number: self._position(line, catalog) for lines in self._run.values() for line in lines}
        return self

    def _position(self, line: Line, catalog: Catalog) -> int:
        """Position of a line's tool, `NO_TOOL` for a placeholder."""
        if line.document.startswith(NONE_PREFIX):
            return NO_TOOL
        for id in (unquote(line.document), line.document):
            if id in catalog.index:
                return catalog.index[id]
        raise UserError(
            f"unknown tool {unquote(line.document)!r}",
            where=f"{self.path}, line {line.number}, field 3",
            expected=f"the id of a tool of catalog {catalog.name}, percent-encoded",
            fix=_nearest(unquote(line.document), catalog.index),
        )

    def check(self, splits: Mapping[str, Sequence[Query]]) -> Self:
        """Refuse query ids that no split has, and learn which split's query is meant where ids repeat over splits.

        Raises:
            UserError: an unknown query.
        """
        keys = query_keys(splits)
        known = {query.id for queries in splits.values() for query in queries}
        written = {key for row in keys.values() for key in row}
        for query, lines in self._run.items():
            if query not in written and unquote(query) not in known and query not in known:
                raise UserError(
                    f"unknown query {unquote(query)!r}",
                    where=f"{self.path}, line {min(line.number for line in lines)}, field 1",
                    expected="the id of a query, percent-encoded",
                    fix=_nearest(unquote(query), known),
                )
        self._keys = {
            (query.id, query.text): key
            for split, queries in splits.items()
            for key, query in zip(keys[split], queries, strict=True)
        }
        return self

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        """Rank min(k, tools) tools per query, as the file says.

        Raises:
            UserError: the file names none of the queries.
        """
        depth = min(k, self._size)
        if queries and not any(self._lines_of(query) for query in queries):
            raise UserError(
                f"none of the {len(queries)} queries is in the run",
                where=self.path,
                expected=f"lines for queries such as {encode(queries[0].id)!r}",
                fix="check that the run was made for these queries",
            )
        indices = np.full((len(queries), depth), NO_TOOL, dtype=np.int64)
        scores = np.full((len(queries), depth), -np.inf)
        for row, query in enumerate(queries):
            lines = self._lines_of(query)[:depth]
            indices[row, : len(lines)] = [self._tools[line.number] for line in lines]
            scores[row, : len(lines)] = [line.score for line in lines]
        return Ranking(indices=indices, scores=scores)

    def _lines_of(self, query: Query) -> list[Line]:
        """A query's lines under any of the spellings of its id."""
        for key in (self._keys.get((query.id, query.text)), encode(query.id), query.id):
            if key is not None and key in self._run:
                return self._run[key]
        return []


def _nearest(word: str, options: Iterable[str]) -> str:
    """Suggest the nearest id; a list of all of them would help nobody."""
    close = difflib.get_close_matches(word, options, n=1, cutoff=0.8)
    return f"did you mean '{close[0]}'?" if close else "check that the run was made for this catalog and its queries"
