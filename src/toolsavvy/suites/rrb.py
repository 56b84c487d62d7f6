"""ToolSense's realistic retrieval benchmark (RRB): requests in three tiers of how many tools they need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from toolsavvy.benchmark import TIERS
from toolsavvy.catalog import Catalog, Query, RetrievalSet
from toolsavvy.errors import UserError
from toolsavvy.suites.catalog_test import CatalogTest, Systems, slices_of
from toolsavvy.suites.table import Outcome

SPLIT = "rrb"
"""The split that holds the requests; it is never trained on."""


class Rrb(CatalogTest):
    """Retrieval on the RRB, by tier.

    Slices: the split, `<split>/tier=<tier>` and `<split>/name_overlap=…`. Where the catalog's own test queries are an
    RRB already (catalog=toolsense), they are used; else requests are read from a file or made by template.

    Args:
        path: file of the requests in ToolSense's layout; None makes them by template from the catalog.
        n: requests to make, where none are read.
        seed: of what is made, and of the bootstrap.
        ks: cut-offs; those beyond the catalog are left out.
        resamples: of the bootstrap over tools; a request of several golds counts to the first of them by id.
        compared: metrics with paired tests against the best rival.
        shown: ranks kept in the prediction records.
        pairs: (system, rival) that are compared in every metric, and shown.
        name: of the suite.
    """

    def __init__(
        self,
        path: str | None = None,
        n: int = 120,
        seed: int = 0,
        ks: Sequence[int] = (1, 5, 10, 50),
        resamples: int = 2000,
        compared: Sequence[str] = ("recall", "ndcg"),
        shown: int = 10,
        pairs: Sequence[Sequence[str]] = (),
        name: str = "rrb",
    ) -> None:
        super().__init__(ks, resamples, seed, compared, shown=shown, name=name, pairs=pairs)
        if n < 1:
            raise UserError(f"n={n}", where=f"suite.{name}.n", expected=">= 1")
        self.path, self.n = path, n

    def slices(self, split: str, queries: Sequence[Query], catalog: Catalog) -> dict[str, np.ndarray]:
        """The split and its tiers, also where there is but one, then name overlaps."""
        tiers = {f"{split}/tier={t}": [i for i, q in enumerate(queries) if q.tier == t] for t in TIERS}
        plain = [replace(query, subset="") for query in queries]
        found = slices_of(split, plain, catalog)
        return {split: found[split], **{s: np.array(i) for s, i in tiers.items() if i}, **found}

    def run(self, data: RetrievalSet, systems: Systems) -> Outcome:
        """Score rankings; the main table shows the tiers."""
        outcome = super().run(data, systems)
        own = [f"{split}/tier={tier}" for split in data.test_splits for tier in TIERS]
        return replace(outcome, shown=tuple(name for split in data.test_splits for name in (split, *own)))


def is_rrb(data: RetrievalSet) -> bool:
    """Whether all of a set's own test queries come in ToolSense's tiers."""
    tiers = [query.tier for split in data.test_splits for query in data.splits[split]]
    return bool(tiers) and set(tiers) <= set(TIERS)


def view_of(suite: CatalogTest, suites: Sequence[CatalogTest], data: RetrievalSet) -> RetrievalSet:
    """The set as one suite sees it: the RRB's split belongs to its suite alone, where both are there."""
    if SPLIT not in data.splits or not any(isinstance(other, Rrb) for other in suites):
        return data
    if isinstance(suite, Rrb):
        splits: Mapping[str, tuple[Query, ...]] = {SPLIT: data.splits[SPLIT]}
        return replace(data, splits=splits, headline=(SPLIT,))
    others = {name: queries for name, queries in data.splits.items() if name != SPLIT}
    return replace(data, splits=others, headline=tuple(name for name in data.headline if name != SPLIT))
