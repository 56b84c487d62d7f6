"""Pass rates beside retrieval: TOOLRET's Figures 1 and 6 over the runs that have them (suite=downstream).

Systems of several runs stand in one table. Seeds of one system are averaged, its interval then is over their answers
together. Runs of another catalog, caller or way of picking stand apart: their pass rates don't compare.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toolsavvy.correlation import correlate, paired, verdict
from toolsavvy.errors import UserError
from toolsavvy.methods.plans import BEFORE
from toolsavvy.metrics import bootstrap, sign_flip_test
from toolsavvy.retrieval.trec import encode
from toolsavvy.suites.downstream import EXECUTED, ORACLE
from toolsavvy.suites.scores import Finished, names
from toolsavvy.tracking.records import read_lines

RETRIEVAL = ("recall", "ndcg")
"""What pass rates are held against."""


@dataclass(frozen=True)
class Passed:
    """One line of `pass_rates.jsonl`.

    Args:
        setting: catalog, caller and way of picking.
        system: whose tools were offered.
        k: how many.
        pass_rate: share of the requests whose call passes.
        low: lower end of its 95 % interval.
        high: upper end.
        picked: share whose right tool was called.
        recall: at k.
        ndcg: at k.
        n: requests.
        runs: that are averaged (seeds).
    """

    setting: str
    system: str
    k: int
    pass_rate: float
    low: float | None
    high: float | None
    picked: float
    recall: float
    ndcg: float
    n: int
    runs: int


@dataclass(frozen=True)
class Gain:
    """What a system gains over another on the same requests; p is of the sign-flip test over operations."""

    setting: str
    system: str
    rival: str
    k: int
    pass_rate: float
    low: float | None
    high: float | None
    p: float
    recall: float
    n: int


@dataclass(frozen=True)
class RankCorrelation:
    """How retrieval and pass rate go together over systems, at one k (without the arm `oracle_tools`)."""

    setting: str
    k: int
    metric: str
    kind: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    verdict: str


@dataclass(frozen=True)
class Gathered:
    """Everything that the runs have to say."""

    rows: tuple[Passed, ...]
    gains: tuple[Gain, ...]
    correlations: tuple[RankCorrelation, ...]
    pairs: tuple[tuple[str, str], ...]


Answers = Mapping[tuple[str, int], Mapping[tuple[str, str], bool]]
"""(system, k) -> (query, right tool) -> passed."""


def gather(folders: Sequence[Path], pairs: Sequence[Sequence[str]] = (), resamples: int = 2000) -> Gathered:
    """Read pass rates, what retrieval scores beside them, and what is gained by training.

    Args:
        folders: of finished runs; those without the suite are left out.
        pairs: (system, rival) that are compared, an arrow from rival to system; none: encoders before and after
            training, where both are there.
        resamples: of the bootstrap.

    Raises:
        UserError: no run has a pass rate.
    """
    runs = [Finished(folder) for folder in folders]
    found: dict[tuple[str, str, int], list[dict[str, float]]] = defaultdict(list)
    answers: dict[str, dict[tuple[str, int], dict[tuple[str, str], list[bool]]]] = defaultdict(dict)
    called = names(runs)
    for run in runs:
        for suite, setting in _settings(run).items():
            for (system, k), values in _values(run, suite).items():
                name = system if system == ORACLE else called[system, run.recipe(system)]  # the same in every run
                found[setting, name, k].append(values)
                told = answers[setting].setdefault((name, k), {})
                for key, passed in _passed(run, suite, system, k).items():
                    told.setdefault(key, []).append(passed)
    if not found:
        raise UserError(
            "no run has a pass rate", where="runs", expected="runs with suite=downstream",
            fix="toolsavvy -m +sweep=pass_rate",
        )  # fmt: skip
    rows = tuple(_row(key, values, answers[key[0]].get(key[1:], {}), resamples) for key, values in found.items())
    chosen = tuple((p[0], p[1]) for p in pairs) or before_and_after(dict.fromkeys(r.system for r in rows))
    gains = [
        gain
        for setting in dict.fromkeys(r.setting for r in rows)
        for pair in chosen
        for gain in _gains(setting, pair, rows, answers[setting], resamples)
    ]
    return Gathered(rows, tuple(gains), tuple(_correlations(rows, resamples)), chosen)


def before_and_after(systems: Sequence[str] | Mapping[str, None]) -> tuple[tuple[str, str], ...]:
    """Trained encoders, each with the encoder that it was: of one run by name, of several by what follows the name."""
    found = []
    for system in systems:
        base, _, rest = system.partition(" (")
        if base == "finetuned" or base.startswith("contrastive_"):
            tail = f" ({rest}" if rest else ""
            found += [(system, rival) for b in (BEFORE, "dense") for rival in (f"{b}{tail}",) if rival in systems][:1]
    return tuple(found)


def _settings(run: Finished) -> dict[str, str]:
    """Suite that executes -> what its pass rates depend on besides the retriever."""
    found = {}
    for key, node in (run.config.get("suite") or {}).items():
        if isinstance(node, Mapping) and node.get("_target_") == EXECUTED:
            asked = "" if node.get("n") is None else f", {node['n']} queries of seed {node.get('seed', 0)}"
            model = f" ({run.choice('model')})" if node.get("pick") == "model" or node.get("caller") == "llm" else ""
            how = f"{node.get('caller')}, pick={node.get('pick')}{model}"
            found[str(node.get("name", key))] = f"{run.choice('catalog')}: {how}{asked}"
    return found


def _values(run: Finished, suite: str) -> dict[tuple[str, int], dict[str, float]]:
    """(system, k) -> metric -> mean over the test splits; the interval where there is one split."""
    cells: dict[tuple[str, int], dict[str, list[Mapping[str, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in run.rows:
        if row["suite"] == suite and "/" not in row["slice"] and row["k"] is not None:
            cells[row["system"], row["k"]][row["metric"]].append(row)  # type: ignore[arg-type]
    found = {}
    for key, metrics in cells.items():
        if "pass_rate" in metrics:
            found[key] = {name: float(np.mean([r["value"] for r in own])) for name, own in metrics.items()}
            found[key]["n"] = float(sum(r["n"] for r in metrics["pass_rate"]))
    return found


def _passed(run: Finished, suite: str, system: str, k: int) -> dict[tuple[str, str], bool]:
    """(query, right tool) -> passed, from the run's predictions; nothing where it kept none."""
    path = run.folder / "predictions" / f"{suite}.{encode(system)}.jsonl"
    rows = read_lines(path, ("query", "gold"), ("k", "passed"))
    return {(row["query"], row["gold"]): bool(row["passed"]) for row in rows if row["k"] == k}


def _row(
    key: tuple[str, str, int],
    values: Sequence[Mapping[str, float]],
    told: Mapping[tuple[str, str], Sequence[bool]],
    resamples: int,
) -> Passed:
    """Means over seeds; the interval is of the answers, where they were kept."""
    mean = {name: float(np.mean([v[name] for v in values])) for name in ("pass_rate", "picked", *RETRIEVAL)}
    array, clusters = _matrix(told)
    ends = bootstrap(array, clusters, resamples) if array.size else None
    low, high = (None, None) if ends is None else (ends.low, ends.high)
    setting, system, k = key
    return Passed(
        setting, system, k, mean["pass_rate"], low, high, mean["picked"], mean["recall"], mean["ndcg"],
        int(values[0]["n"]), len(values),
    )  # fmt: skip


def _matrix(told: Mapping[tuple[str, str], Sequence[bool]]) -> tuple[np.ndarray, list[str]]:
    """Answers float64 [item] (means over seeds), and the right tool of each."""
    return np.array([np.mean(v) for v in told.values()], dtype=np.float64), [gold for _, gold in told]


def _gains(
    setting: str,
    pair: tuple[str, str],
    rows: Sequence[Passed],
    answers: Mapping[tuple[str, int], Mapping[tuple[str, str], Sequence[bool]]],
    resamples: int,
) -> list[Gain]:
    """Differences of a pair at every k, on the requests that both have."""
    at = {(r.system, r.k): r for r in rows if r.setting == setting}
    found = []
    for k in sorted({k for _, k in at}):
        ours, theirs = answers.get((pair[0], k), {}), answers.get((pair[1], k), {})
        keys = [key for key in ours if key in theirs]
        if not keys:
            continue
        left, right = (np.array([np.mean(side[key]) for key in keys]) for side in (ours, theirs))
        clusters = [gold for _, gold in keys]
        ends = bootstrap(left - right, clusters, resamples)
        p = sign_flip_test(left, right, clusters)
        recall = at[pair[0], k].recall - at[pair[1], k].recall
        found.append(
            Gain(setting, *pair, k, float((left - right).mean()), ends.low, ends.high, p, recall, len(keys))
        )  # fmt: skip
    return found


def _correlations(rows: Sequence[Passed], resamples: int) -> list[RankCorrelation]:
    """Spearman and Kendall over systems, at each k by itself: over all ks they would say that more is more."""
    found = []
    for setting, k in dict.fromkeys((r.setting, r.k) for r in rows):
        own = [r for r in rows if (r.setting, r.k) == (setting, k) and r.system != ORACLE]
        for metric in RETRIEVAL:
            data = paired({r.system: getattr(r, metric) for r in own}, {r.system: r.pass_rate for r in own})
            found += [
                RankCorrelation(setting, k, metric, c.kind, c.value, c.low, c.high, c.n, verdict(c, data.undefined))
                for c in correlate(data, resamples)
                if c.kind != "pearson"
            ]
    return found
