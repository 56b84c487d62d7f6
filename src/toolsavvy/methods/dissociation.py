"""Knowledge beside retrieval: what models know of tools (MCQ, QA) and whether they find them, over finished runs.

Nothing is trained or asked again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from toolsavvy.errors import UserError
from toolsavvy.methods.association import associate
from toolsavvy.methods.trained import (
    HIT,
    KNOWLEDGE,
    MCQ,
    QA,
    RETRIEVAL,
    STAGE_1,
    STAGE_2,
    UNTRAINED,
    Number,
    Trained,
    share,
)
from toolsavvy.metrics import paired_difference, sign_flip_test
from toolsavvy.suites.mcq import LETTERS, LIKELIHOOD

EVERY = "all configurations"
"""Row of what holds over configurations."""
SCORED = ((MCQ, LIKELIHOOD, "correct_likelihood"), (MCQ, LETTERS, "correct_letters"), (QA, "all", "correct"))
"""Suite, how answers are scored, and the field of the prediction records."""


@dataclass(frozen=True)
class Change:
    """A paired difference between two stages of a configuration on the same questions: one line of changes.jsonl."""

    configuration: str
    suite: str
    scoring: str
    before: str
    after: str
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int


@dataclass(frozen=True)
class Predicted:
    """Does knowing a tool after stage 1 predict finding it after stage 2? One line of knowledge_retrieval.jsonl."""

    configuration: str
    suite: str
    scoring: str
    measure: str
    statistic: str
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    tools: int
    known: float
    verdict: str


@dataclass(frozen=True)
class Dissociation:
    """Everything that the runs say together.

    Args:
        numbers: of every system.
        changes: of knowledge from stage to stage.
        predicted: retrieval by knowledge, per tool.
        missing: what is not there, a sentence each.
    """

    numbers: tuple[Number, ...]
    changes: tuple[Change, ...]
    predicted: tuple[Predicted, ...]
    missing: tuple[str, ...]


def gather(folders: Sequence[Path], missing: Sequence[str] = (), resamples: int = 2000) -> Dissociation:
    """Read finished runs.

    Args:
        folders: of the runs, in the order of the table; rivals and controls are taken from the first run of a model
            that has them, since they are the same in all.
        missing: what is known to be missing already: jobs that failed.
        resamples: of the bootstraps and permutations.

    Raises:
        UserError: the runs are on different catalogs, or hold nothing to show.
    """
    trained = _named([Trained(folder) for folder in folders])
    _refuse_other_catalogs(trained)
    numbers: dict[tuple[object, ...], Number] = {}
    for run in trained:
        for number in (*run.retrieval(resamples), *run.knowledge()):
            key = (number.configuration, number.system, number.suite, number.slice, number.metric, number.k)
            numbers.setdefault(key, number)
    if not numbers:
        where, expected = ", ".join(map(str, folders)), f"numbers of {', '.join((*RETRIEVAL, *KNOWLEDGE))}"
        raise UserError("these runs measured neither knowledge nor retrieval", where=where, expected=expected)
    changes = tuple(change for run in trained for change in _changes(run, resamples))
    told = (*missing, *(sentence for run in trained for sentence in run.missing))
    return Dissociation(tuple(numbers.values()), changes, tuple(_predicted(trained, resamples)), told)


def _named(runs: Sequence[Trained]) -> list[Trained]:
    """Runs with names of their own: by configuration, and by model, seed or folder where several have the same."""
    models = [run.run.choice("model") for run in runs]
    seeds = [f"seed {run.run.record.get('seed')}" for run in runs]
    names = [run.configuration for run in runs]
    for more in (models, seeds, [run.folder.name for run in runs]):
        told = {n: {m for o, m in zip(names, more, strict=True) if o == n} for n in names}
        names = [f"{n} ({m})" if len(told[n]) > 1 else n for n, m in zip(names, more, strict=True)]
    of_several = len(set(models)) > 1
    return [Trained(r.folder, n, m if of_several else "") for r, n, m in zip(runs, names, models, strict=True)]


def _refuse_other_catalogs(runs: Sequence[Trained]) -> None:
    """Numbers on other tools do not stand in one table."""
    prints = {str(run.run.record.get("catalog_fingerprint")): run for run in runs}
    if len(prints) > 1:
        told = ", ".join(f"{_catalog(run)} in {run.folder}" for run in prints.values())
        raise UserError(
            f"the runs are of several catalogs: {told}", where="runs", expected="numbers on the same tools",
            fix="name the runs of one catalog",
        )  # fmt: skip


def _catalog(run: Trained) -> str:
    """Its name and the start of its fingerprint, since one option can give many; runs of reports have loaded none."""
    mark = run.run.record.get("catalog_fingerprint")
    return f"{run.run.choice('catalog')} ({str(mark)[:8]})" if mark else "none"


def _changes(run: Trained, resamples: int) -> Iterator[Change]:
    """Knowledge from stage to stage, on the same questions."""
    for recipe in run.recipes or [""]:
        steps = [("untrained", UNTRAINED), ("toolgen_stage1", STAGE_1)]
        steps += [(f"toolgen_{recipe}", STAGE_2)] if recipe else []
        for suite, scoring, key in SCORED:
            told = [(stage, run.answers(suite, system)) for system, stage in steps]
            for (a, before), (b, after) in pairwise(told):
                yield from _change((run.row_of(recipe), suite, scoring, a, b), before, after, key, resamples)


def _change(
    labels: tuple[str, str, str, str, str],
    before: Sequence[Mapping[str, object]],
    after: Sequence[Mapping[str, object]],
    key: str,
    resamples: int,
) -> Iterator[Change]:
    """One step; nothing where a side has no answers."""
    old = {str(r["id"]): v for r in before if (v := share(r.get(key))) is not None}
    new = {str(r["id"]): (v, str(r["tool"])) for r in after if (v := share(r.get(key))) is not None}
    common = [item for item in old if item in new]
    if not common:
        return
    a, b = np.array([new[i][0] for i in common]), np.array([old[i] for i in common])
    tools = [new[i][1] for i in common]
    found = paired_difference(a, b, tools, resamples).interval
    p = sign_flip_test(a, b, tools, 5 * resamples)
    yield Change(*labels, found.value, found.low, found.high, p, found.n)


def _predicted(runs: Sequence[Trained], resamples: int) -> Iterator[Predicted]:
    """Retrieval by knowledge: every configuration and recipe by itself, then all together."""
    rows = [(run, recipe) for run in runs for recipe in run.recipes]
    for suite in RETRIEVAL:
        for scoring in (LIKELIHOOD, LETTERS):
            known = [run.known(scoring) for run, _ in rows]
            found = [run.found(suite, recipe) for run, recipe in rows]
            for i, measure in enumerate((f"recall@{HIT}", "mrr")):
                sides = [(k, f[i]) for k, f in zip(known, found, strict=True) if k and f[i]]
                names = [r.row_of(p) for (r, p), k, f in zip(rows, known, found, strict=True) if k and f[i]]
                for name, side in zip(names, sides, strict=True):
                    yield from _associated((name, suite, scoring, measure), [side], resamples)
                if len(sides) > 1:
                    yield from _associated((EVERY, suite, scoring, measure), sides, resamples)


def _associated(
    labels: tuple[str, str, str, str], sides: Sequence[tuple[Mapping[str, float], Mapping[str, float]]], resamples: int
) -> Iterator[Predicted]:
    """Every statistic over the tools that all sides share."""
    tools = sorted(set.intersection(*(set(known) & set(found) for known, found in sides)))
    knows = np.array([[known[t] for t in tools] for known, _ in sides])
    finds = np.array([[found[t] for t in tools] for _, found in sides])
    for a in associate(knows, finds, resamples):
        i = a.found
        yield Predicted(*labels, a.statistic, i.value, i.low, i.high, a.p, i.n, a.known, a.verdict)
