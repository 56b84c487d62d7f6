"""How far people agree with a benchmark's key, with its judge and with one another: accuracy and Cohen's kappa."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolsavvy.catalogs.toolsense_items import KINDS
from toolsavvy.generators.product import Summary
from toolsavvy.metrics import Interval, Resamples, bootstrap, interval

PEOPLE = ("person_1", "person_2")
OK = "_ok"
"""After a person's name: the column that says whether the item is sound."""
_YES: Mapping[str, float] = {"Yes": 1.0, "No": 0.0}


@dataclass(frozen=True)
class Key:
    """What is right for one item of a sheet.

    Args:
        kind: rrb, mcq or qa.
        answer: a letter, "Yes" or "No", or the numbers of the gold tools, ascending.
        choices: how many options or pool tools there are.
        subject: tool that the item is about: what is independent.
        judge: "Yes" or "No": whether a judge called it sound; "" where none did.
    """

    kind: str
    answer: str
    choices: int
    subject: str
    judge: str


@dataclass(frozen=True)
class Agreement:
    """What people say of a benchmark.

    Args:
        items: in the key.
        missing: items of the key that the sheet has no row for.
        empty: column -> empty cells.
        accuracy: `person` and `person/kind` -> share of their answers that are the key's, with interval.
        overlap: the same for the Jaccard overlap of answer and key: of requests, whose golds are sets.
        ok: person -> share of items that they call sound.
        kappa: "person_1/person_2", "person_1/key", … -> Cohen's kappa; the pairs with "ok" are about soundness.
    """

    items: int
    missing: int
    empty: Mapping[str, int]
    accuracy: Mapping[str, Interval]
    overlap: Mapping[str, Interval]
    ok: Mapping[str, Interval]
    kappa: Mapping[str, Interval]

    def as_json(self) -> dict[str, Any]:
        """What audit.json holds under `human`."""
        groups = {name: getattr(self, name) for name in ("accuracy", "overlap", "ok", "kappa")}
        told = {name: {key: _told(value) for key, value in group.items()} for name, group in groups.items()}
        return {"items": self.items, "missing": self.missing, "empty": dict(self.empty), **told}


def _told(found: Interval) -> dict[str, Any]:
    return {"value": found.value, "interval": [found.low, found.high], "n": found.n}


def agreement_of(
    keys: Sequence[Key], cells: Sequence[Mapping[str, str]], missing: int, resamples: int, seed: int
) -> Agreement:
    """All numbers from a key and the cells of its items.

    Args:
        keys: [item].
        cells: [item] column -> answer in the key's spelling, "" or absent where empty.
        missing: items without a row.
        resamples: bootstrap replicates; items about one tool are drawn together.
        seed: of the resampling.
    """
    columns = {column: [row.get(column, "") for row in cells] for person in PEOPLE for column in (person, person + OK)}
    columns |= {"key": [key.answer for key in keys], "judge": [key.judge for key in keys]}
    clusters, kinds = [key.subject for key in keys], [key.kind for key in keys]
    accuracy: dict[str, Interval] = {}
    overlap: dict[str, Interval] = {}
    for person in PEOPLE:
        pairs = list(zip(columns[person], columns["key"], strict=True))
        right = np.array([float(a == b) if a else np.nan for a, b in pairs])
        common = np.array([_jaccard(a, b) if a else np.nan for a, b in pairs])
        for kind in (None, *(k for k in KINDS if k in kinds)):
            own = np.array([kind in (None, k) for k in kinds], dtype=bool)
            name = person if kind is None else f"{person}/{kind}"
            accuracy[name] = bootstrap(np.where(own, right, np.nan), clusters, resamples, seed)
            if kind == "rrb":
                overlap[name] = bootstrap(np.where(own, common, np.nan), clusters, resamples, seed)
    sound = {p: np.array([_YES.get(cell, np.nan) for cell in columns[p + OK]]) for p in PEOPLE}
    labelled = {name: [f"{k} {cell}" if cell else "" for k, cell in zip(kinds, columns[name], strict=True)]
                for name in (*PEOPLE, "key")}  # fmt: skip
    first, second = PEOPLE
    pairs = {f"{a}/{b}": (labelled[a], labelled[b]) for a, b in ((first, second), (first, "key"), (second, "key"))}
    verdicts = {first + OK: columns[first + OK], second + OK: columns[second + OK], "judge": columns["judge"]}
    both = ((first + OK, second + OK), (first + OK, "judge"), (second + OK, "judge"))
    pairs |= {f"{a}/{b}": (verdicts[a], verdicts[b]) for a, b in both}
    return Agreement(
        items=len(keys),
        missing=missing,
        empty={column: columns[column].count("") for column in columns if column not in ("key", "judge")},
        accuracy=accuracy,
        overlap=overlap,
        ok={person: bootstrap(values, clusters, resamples, seed) for person, values in sound.items()},
        kappa={name: kappa(a, b, clusters, resamples, seed) for name, (a, b) in pairs.items()},
    )


def _jaccard(a: str, b: str) -> float:
    """Overlap of two answers as sets of words."""
    left, right = set(a.split()), set(b.split())
    return len(left & right) / len(left | right)


def kappa(
    a: Sequence[str], b: Sequence[str], clusters: Sequence[str], resamples: int = 2000, seed: int = 0
) -> Interval:
    """Cohen's kappa of two labellings with its 95 % bootstrap interval; None where chance agreement is perfect.

    Args:
        a: [item] labels; "" is none, and such items are left out.
        b: [item] likewise.
        clusters: [item] what is drawn together.
        resamples: replicates.
        seed: of the resampling.

    Source: Cohen 1960: (observed - expected) / (1 - expected), expected from the two marginals.
    """
    kept = [i for i, pair in enumerate(zip(a, b, strict=True)) if all(pair)]
    if not kept:
        return Interval(None, None, None, 0)
    left, right = [a[i] for i in kept], [b[i] for i in kept]
    labels = {label: code for code, label in enumerate(dict.fromkeys([*left, *right]))}
    codes = np.array([[labels[x], labels[y]] for x, y in zip(left, right, strict=True)])
    draws = Resamples.of([clusters[i] for i in kept], resamples, seed)
    blocks = [_kappas(codes, weights[:, draws.clusters], len(labels)) for weights in draws.weights()]
    value = _kappas(codes, np.ones((1, len(kept))), len(labels))[0]
    return interval(float(value), np.concatenate(blocks), len(kept), draws.units)


def _kappas(codes: np.ndarray, weights: np.ndarray, labels: int) -> np.ndarray:
    """Kappa of label codes [item, 2] under weights [replicate, item]: float64 [replicate], NaN where undefined."""
    total = weights.sum(axis=1)
    observed = weights @ (codes[:, 0] == codes[:, 1]) / total
    left, right = (weights @ np.eye(labels)[codes[:, side]] for side in (0, 1))
    expected = (left * right).sum(axis=1) / total**2
    room = 1 - expected
    return np.divide(observed - expected, room, out=np.full(len(total), np.nan), where=room > 1e-12)


def agreement_table(found: Agreement) -> Summary:
    """Agreement for the terminal."""
    groups = (("accuracy", found.accuracy), ("overlap", found.overlap), ("sound", found.ok), ("kappa", found.kappa))
    rows = [
        (f"{name} {key}", "-" if one.value is None else f"{one.value:.3f}",
         "-" if one.low is None or one.high is None else f"{one.low:.2f} to {one.high:.2f}", f"{one.n:,}")
        for name, group in groups
        for key, one in group.items()
    ]  # fmt: skip
    counts = [("items without a row", f"{found.missing:,}", "-", f"{found.items:,}")]
    empty = [(f"empty {column}", f"{n:,}", "-", f"{found.items:,}") for column, n in found.empty.items()]
    return Summary("human: people's answers", ("what", "value", "95 % interval", "n"), (*rows, *counts, *empty))
