"""PGR: one greedy answer and k samples, put together by the scores of their values (ParamBench, 2608.03071).

Strategies of the paper: `candidate` takes the call with the highest score; `field` takes, at every path, the value with
the highest score; `field_set` keeps the greedy answer's values and lets scores decide which fields there are. Which one
is used is chosen by cross-validation on training tasks. Rivals on the same samples: the greedy answer, the majority of
whole calls, the highest log-probability, and the best of all by the references.

A field that the schema does not require is there if its best score is at least the share of candidates without it
(our reading: the paper says that presence is decided, not how), with one more on either side: when all of five have it,
a score below 0.14 takes it out; when one of five has it, only a score of 0.71 brings it in; and with scores that say
nothing (about 0.5) it is a vote.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolsavvy.calls.flattening import Path, scalar_key
from toolsavvy.metrics import Interval, PairedDifference, bootstrap, paired_difference
from toolsavvy.parameters.assembling import Option, assemble, present, votes
from toolsavvy.parameters.fields import FieldTable, call_key
from toolsavvy.probes.splits import fold_codes
from toolsavvy.tasks import LEVELS, ParamTask

PGR = ("field_set", "candidate", "field")
"""The paper's strategies, the most conservative first."""
STRATEGIES = ("greedy", *PGR, "majority", "logprob", "oracle")
Arguments = Mapping[str, Any] | None
Judge = Callable[[Mapping[str, Any], ParamTask], bool]


def rerank(table: FieldTable, scores: np.ndarray, strategy: str) -> list[Arguments]:
    """The arguments that a strategy gives for every task, [task]; None where no candidate can be read.

    Args:
        table: greedy answers and samples.
        scores: float64 [field], of the probe or another signal, in [0, 1].
        strategy: one of `STRATEGIES`. `oracle` looks at references.

    Raises:
        ValueError: an unknown strategy.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy {strategy!r}: one of {', '.join(STRATEGIES)}")
    calls = table.calls(scores)
    return [
        _PICKS[strategy](table, np.asarray(scores), calls, i) if len(members) else None
        for i, members in enumerate(table.groups)
    ]


def _at(table: FieldTable, place: int) -> Arguments:
    return table.candidates[place].arguments


def _readable(table: FieldTable, task: int) -> list[int]:
    """Candidates that can be read, greedy first."""
    return [c for c in table.groups[task].tolist() if table.candidates[c].arguments is not None]


def _first_best(table: FieldTable, task: int, values: Callable[[int], float]) -> Arguments:
    """The readable candidate with the highest value; ties go to the lower index."""
    readable = _readable(table, task)
    return _at(table, max(readable, key=lambda c: (values(c), -table.index[c]))) if readable else None


def _greedy(table: FieldTable, scores: np.ndarray, calls: np.ndarray, task: int) -> Arguments:
    first = int(table.groups[task][0])
    return _at(table, first) if table.index[first] == 0 else None


def _candidate(table: FieldTable, scores: np.ndarray, calls: np.ndarray, task: int) -> Arguments:
    return _first_best(table, task, lambda c: float(calls[c]))


def _logprob(table: FieldTable, scores: np.ndarray, calls: np.ndarray, task: int) -> Arguments:
    def value(c: int) -> float:
        read = table.candidates[c].read
        return -np.inf if read is None else float(read.logprob)

    return _first_best(table, task, value)


def _oracle(table: FieldTable, scores: np.ndarray, calls: np.ndarray, task: int) -> Arguments:
    right = [c for c in table.groups[task].tolist() if table.exact[c]]
    return _at(table, right[0]) if right else _greedy(table, scores, calls, task)


def _majority(table: FieldTable, scores: np.ndarray, calls: np.ndarray, task: int) -> Arguments:
    """The most frequent whole call; ties go to the one that came first."""
    keys = {c: call_key(table.candidates[c].arguments or {}, table.tasks[task]) for c in _readable(table, task)}
    alike = Counter(keys.values())
    return _first_best(table, task, lambda c: alike[keys[c]])


def _field(table: FieldTable, scores: np.ndarray, calls: np.ndarray, task: int) -> Arguments:
    options, readable = _options(table, scores, task)
    if not options:
        return _candidate(table, scores, calls, task)
    schema = table.tasks[task].tool.parameters
    chosen = [best for path, best in _best(options).items() if present(best, options[path], readable, schema)]
    return assemble(chosen)


def _field_set(table: FieldTable, scores: np.ndarray, calls: np.ndarray, task: int) -> Arguments:
    options, readable = _options(table, scores, task)
    start = _greedy(table, scores, calls, task)
    if not options or start is None:
        return _candidate(table, scores, calls, task)
    rows = table.rows[int(table.groups[task][0])]
    own = {table.paths[i]: (table.values[i], float(scores[i])) for i in range(rows.start, rows.stop)}
    if not own:
        return start
    schema = table.tasks[task].tool.parameters
    chosen = []
    for path, best in _best(options).items():
        if path in own:
            value, score = own[path]
            # Whether the field belongs there, not which value: the best value of the path speaks for it too.
            option = Option(path, value, max(score, best.score), best.votes, 0)
            if present(option, options[path], readable, schema):
                chosen.append(option)
        elif 2 * votes(options[path]) > readable and present(best, options[path], readable, schema):
            chosen.append(best)
    return assemble(chosen)


_PICKS: dict[str, Callable[[FieldTable, np.ndarray, np.ndarray, int], Arguments]] = {
    "greedy": _greedy, "candidate": _candidate, "field": _field, "field_set": _field_set, "majority": _majority,
    "logprob": _logprob, "oracle": _oracle,
}  # fmt: skip


def _options(table: FieldTable, scores: np.ndarray, task: int) -> tuple[dict[Path, list[Option]], int]:
    """Values that whole candidates have at every path, and the number of these candidates."""
    found: dict[Path, dict[str, Option]] = {}
    whole = [c for c in table.groups[task].tolist() if table.whole[c]]
    for c in whole:
        rows = table.rows[c]
        for i in range(rows.start, rows.stop):
            at, name = found.setdefault(table.paths[i], {}), scalar_key(table.values[i])
            old = at.get(name)
            if old is None:
                at[name] = Option(table.paths[i], table.values[i], float(scores[i]), 1, int(table.index[c]))
            else:
                best = max(old.score, float(scores[i]))
                at[name] = Option(old.path, old.value, best, old.votes + 1, old.first)
    return {path: list(at.values()) for path, at in found.items()}, len(whole)


def _best(options: Mapping[Path, Sequence[Option]]) -> dict[Path, Option]:
    """Per path the value with the highest score; ties go to more votes, then to the one that came first."""
    return {path: max(found, key=lambda o: (o.score, o.votes, -o.first)) for path, found in options.items()}


@dataclass(frozen=True)
class Choice:
    """A strategy chosen by cross-validation on training tasks.

    Args:
        strategy: what is used.
        exact: strategy -> share of training tasks that it gets right, each scored by a probe of other tasks.
        nested: the same when the strategy itself is chosen on the other folds: what choosing is worth.
        folds: which strategy each fold's choice was.
        told: what is odd, "" for nothing.
    """

    strategy: str
    exact: Mapping[str, Interval]
    nested: Interval
    folds: tuple[str, ...]
    told: str = ""


def choose_strategy(
    table: FieldTable, scores: np.ndarray, *, strategies: Sequence[str] = ("greedy", *PGR), folds: int = 5,
    seed: int = 0, judge: Judge | None = None,
) -> Choice:  # fmt: skip
    """Choose by exact match on training tasks; ties go to the strategy named first.

    The greedy answer is among the choices (deviation: the paper chooses among its three), so that a probe that says
    nothing does no harm.

    Args:
        table: labelled training tasks, greedy answers and samples.
        scores: float64 [field], each by a probe that has not seen the field's cluster (`probe.held_out_scores`).
        strategies: to choose from.
        folds: of clusters, for `nested`.
        seed: of the folds.
        judge: says whether arguments are right; None: exact match.

    Raises:
        ValueError: a table without labels or tasks, or `oracle` among the strategies.
    """
    if not table.labelled or not table.tasks or "oracle" in strategies:
        raise ValueError("a strategy is chosen on labelled tasks, and the oracle is none")
    clusters = [task.cluster or task.id for task in table.tasks]
    right = np.stack([judged(table, rerank(table, scores, s), judge) for s in strategies], axis=1).astype(np.float64)
    exact = {s: bootstrap(right[:, i], clusters, seed=seed) for i, s in enumerate(strategies)}
    best = int(np.argmax(right.mean(0)))
    every = np.ones(len(clusters), dtype=bool)
    codes = fold_codes(every, np.zeros(len(clusters), dtype=np.int64), folds, seed=seed, families=clusters)
    nested, chosen = np.full(len(clusters), np.nan), []
    for fold in range(codes.max() + 1):
        others = codes != fold
        pick = int(np.argmax(right[others].mean(0))) if others.any() else best
        nested[~others] = right[~others, pick]
        chosen.append(strategies[pick])
    told = "" if len(set(chosen)) == 1 else f"folds disagree: {', '.join(chosen)}"
    if right.max() == right.min():
        told = "all strategies are right on the same tasks: the first one is taken"
    return Choice(strategies[best], exact, bootstrap(nested, clusters, seed=seed), tuple(chosen), told)


def judged(table: FieldTable, answers: Sequence[Arguments], judge: Judge | None = None) -> np.ndarray:
    """Whether each task's answer is right, bool [task]; what can't be read is wrong."""
    from toolsavvy.calls.matching import exact

    ask = judge or exact
    return np.array([a is not None and ask(a, t) for a, t in zip(answers, table.tasks, strict=True)], dtype=bool)


@dataclass(frozen=True)
class Reranked:
    """A strategy on held-out tasks.

    Args:
        strategy: its name.
        slice: "all" or a level.
        exact: share of tasks that it gets right.
        field_f1: mean field F1.
        exact_lead: exact match minus the greedy answer's, on the same resamples.
        field_f1_lead: field F1 minus the greedy answer's.
        samples: least number of samples of a task.
    """

    strategy: str
    slice: str
    exact: Interval
    field_f1: Interval
    exact_lead: PairedDifference
    field_f1_lead: PairedDifference
    samples: int


def evaluate(
    table: FieldTable, answers: Mapping[str, Sequence[Arguments]], *, n: int = 2000, seed: int = 0,
    judge: Judge | None = None,
) -> tuple[Reranked, ...]:  # fmt: skip
    """Score strategies on the same tasks, over all and by level, each against the greedy answer.

    Args:
        table: held-out tasks.
        answers: strategy -> arguments [task]; "greedy" is added where it is missing.
        n: bootstrap replicates over clusters of tasks.
        seed: of the resampling.
        judge: says whether arguments are right; None: exact match.

    Raises:
        ValueError: another number of answers than of tasks.
    """
    given = {"greedy": rerank(table, np.zeros(len(table)), "greedy"), **answers}
    if wrong := next((s for s, found in given.items() if len(found) != len(table.tasks)), None):
        raise ValueError(f"{len(given[wrong])} answers of '{wrong}' to {len(table.tasks)} tasks")
    exact = {s: judged(table, found, judge).astype(np.float64) for s, found in given.items()}
    f1 = {s: field_f1(table, found) for s, found in given.items()}
    clusters = np.array([task.cluster or task.id for task in table.tasks], dtype=object)
    levels = np.array([task.level for task in table.tasks], dtype=object)
    slices = {"all": np.ones(len(clusters), dtype=bool), **{level: levels == level for level in LEVELS}}
    samples = int(min((int((table.index[m] > 0).sum()) for m in table.groups if len(m)), default=0))
    return tuple(
        Reranked(
            strategy, name, bootstrap(exact[strategy][rows], clusters[rows], n, seed),
            bootstrap(f1[strategy][rows], clusters[rows], n, seed),
            paired_difference(exact[strategy][rows], exact["greedy"][rows], clusters[rows], n, seed),
            paired_difference(f1[strategy][rows], f1["greedy"][rows], clusters[rows], n, seed), samples,
        )
        for name, rows in slices.items() if rows.any() for strategy in given
    )  # fmt: skip


def field_f1(table: FieldTable, answers: Sequence[Arguments]) -> np.ndarray:
    """Field F1 of each task's answer, float64 [task]; 0 for what can't be read."""
    from toolsavvy.calls.matching import field_counts

    return np.array(
        [0.0 if a is None else field_counts(a, t).f1 for a, t in zip(answers, table.tasks, strict=True)],
        dtype=np.float64,
    )  # fmt: skip


def first_samples(table: FieldTable, k: int) -> FieldTable:
    """The table with the first k samples of every task: strategies are compared at equal samples."""
    return table.only(table.index <= k)
