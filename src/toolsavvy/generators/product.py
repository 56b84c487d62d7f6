"""What every generator is to `method=generate`: it makes a set inside a run and says in tables what came out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolsavvy.catalog import RetrievalSet
from toolsavvy.tracking import Run


@dataclass(frozen=True)
class Summary:
    """One table for the terminal.

    Args:
        title: above it.
        columns: headings; the first column is text, the others are right-aligned.
        rows: cells as they are shown.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Product:
    """What a generator has made.

    Args:
        name: of the set.
        tables: shown in order.
        notes: facts for run.json.
        files: paths below the run's folder, for the last line that is printed.
        samples: that many instances as people read them, for `show`; None where the set has no such view.
    """

    name: str
    tables: Sequence[Summary] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    files: Sequence[str] = ()
    samples: Callable[[int], Sequence[str]] | None = None


class Generator(Protocol):
    """Makes one set; built from the group `generator`, with catalogs, encoder and language model in it."""

    def fingerprint(self) -> str:
        """sha256 over everything that the set is made from: a resumed run must find the same."""
        ...

    def generate(self, run: Run) -> Product:
        """Make the set inside the run's folder; what a resumed run needs is kept in its checkpoints.

        Raises:
            UserError: the sources cannot give such a set.
        """
        ...


def add_queries(digest: Any, data: RetrievalSet) -> None:
    """Feed every query of a set, its split and golds, into a hashlib digest: part of a generator's fingerprint."""
    for split, queries in data.splits.items():
        rows = [(split, q.id, q.text, sorted(q.relevant.items())) for q in queries]
        digest.update(repr(rows).encode("utf-8", "surrogatepass"))
