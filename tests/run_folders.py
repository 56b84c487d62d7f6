"""Run folders of made-up systems, written by the suites' own writers: what reports over runs read."""

from __future__ import annotations

import csv
import hashlib
import json
import socket
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from toolsavvy.catalog import Query, RetrievalSet
from toolsavvy.catalogs.toy import load
from toolsavvy.retrieval.ranking import Ranking
from toolsavvy.suites.catalog_test import CatalogTest, write_predictions
from toolsavvy.suites.table import Outcome, write_jsonl

DEPTH = 10
DATA = load(tools=24)
TOOLS = [tool.id for tool in DATA.catalog.tools]
KS = (1, 5, 10)


def rrb_set() -> RetrievalSet:
    """A request a tool: easy for the first half, then of three, then of four tools."""
    queries = []
    for i, tool in enumerate(TOOLS):
        count, tier = (1, "easy") if i < 12 else (3, "medium") if i < 20 else (4, "hard")
        golds = [tool, *TOOLS[i - count + 1 : i]]
        queries.append(Query(f"r{i}", f"request {i}", dict.fromkeys(golds, 1), tier=tier))
    return RetrievalSet(DATA.catalog, {"rrb": tuple(queries)}, headline=("rrb",))


def ranking(data: RetrievalSet, split: str, found: frozenset[str]) -> Ranking:
    """Golds that are found come first, the others are not ranked at all."""
    index = data.catalog.index
    rows = []
    for query in data.splits[split]:
        golds = [index[t] for t in sorted(query.gold)]
        hits = [g for g in golds if TOOLS[g] in found]
        rows.append([*hits, *(i for i in range(len(TOOLS)) if i not in golds)][:DEPTH])
    return Ranking(np.array(rows), np.broadcast_to(-np.arange(DEPTH, dtype=float), (len(rows), DEPTH)))


def retrieval(folder: Path, systems: Mapping[str, Mapping[str, frozenset[str]]]) -> None:
    """System -> decoding mode ("" for rivals) -> tools that it finds; on the catalog's queries and the RRB."""
    for suite, data in ((CatalogTest(KS, resamples=50), DATA), (CatalogTest(KS, resamples=50, name="rrb"), rrb_set())):
        ranked = {
            s: {m: {t: ranking(data, t, found) for t in data.test_splits} for m, found in modes.items()}
            for s, modes in systems.items()
        }
        outcome: Outcome = suite.run(data, ranked)
        write_predictions(folder / "predictions", data, ranked, outcome)
        append(folder / "results.jsonl", [vars(r) for r in outcome.results])
        append(folder / "comparisons.jsonl", [vars(c) for c in outcome.comparisons])


def append(path: Path, records: list[dict[str, Any]]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(r) + "\n" for r in records)


def knowledge(folder: Path, systems: Mapping[str, frozenset[str]]) -> None:
    """System -> tools whose questions it answers rightly; one question of each kind a tool."""
    for system, known in systems.items():
        right = [float(tool in known) for tool in TOOLS]
        share = sum(right) / len(right)
        plain = {"system": system, "k": None, "low": max(0.0, share - 0.1), "high": min(1.0, share + 0.1), "n": 24}
        for suite, name, metric, value in (
            ("mcq", "likelihood", "accuracy", share), ("mcq", "letters", "accuracy", share),
            ("mcq", "likelihood/pattern=x", "accuracy", 0.0), ("qa", "all", "accuracy", share),
            ("qa", "all", "yes_share", 0.5), ("qa", "all", "auc", share),
        ):  # fmt: skip
            record = {"suite": suite, "slice": name, "metric": metric, "value": value}
            append(folder / "results.jsonl", [record | plain])
        mcq = [
            {"id": f"m{i}", "tool": t, "correct_likelihood": right[i], "correct_letters": right[i]}
            for i, t in enumerate(TOOLS)
        ]
        qa = [{"id": f"q{i}", "tool": t, "correct": bool(right[i])} for i, t in enumerate(TOOLS)]
        (folder / "predictions").mkdir(exist_ok=True)
        append(folder / "predictions" / f"mcq.{system}.jsonl", mcq)
        append(folder / "predictions" / f"qa.{system}.jsonl", qa)


def run_folder(folder: Path, configuration: str = "tg", seed: int = 0, status: str = "done", **choices: str) -> Path:
    """An empty run with its records."""
    folder.mkdir(parents=True)
    (folder / "predictions").mkdir()
    named = {"configuration": configuration, "catalog": "toy", "model": "toy", "encoder": "toy", "method": "toolgen"}
    record = {"choices": named | choices, "seed": seed, "catalog_fingerprint": "f", "cell": "c", "config_hash": "h"}
    (folder / "run.json").write_text(json.dumps(record))
    (folder / "status.json").write_text(json.dumps({"status": status}))
    (folder / "config.yaml").write_text("retriever: {dense: {encoder: {}}, bm25: {k1: 1.5}}\n")
    write_jsonl(folder / "results.jsonl", [])
    return folder


def several(count: int, start: int = 0) -> frozenset[str]:
    return frozenset(TOOLS[start : start + count])


def trained(folder: Path, configuration: str = "tg", known: int = 12, found: int = 12, **more: Any) -> Path:
    """A whole run: after stage 1 the first `known` tools are known, after stage 2 the first `found` are found."""
    run_folder(folder, configuration, **more)
    retrieval(
        folder,
        {
            "bm25": {"": several(24)},
            "dense": {"": several(20)},
            "toolgen_stage1": {"constrained": several(8), "free": several(4)},
            "toolgen_plain": {"constrained": several(found), "free": several(found // 2)},
        },
    )
    answers = {
        "prior": several(6),
        "document": several(22),
        "untrained": several(7),
        "blind_longest_option": several(6),
    }
    knowledge(folder, answers | {"toolgen_stage1": several(known), "toolgen_plain": several(9), "bm25": several(20)})
    return folder


SYSTEMS = {"bm25": 0.55, "toolgen": 0.75}
"""System -> share of the tools that it finds."""


def made_run(
    folder: Path,
    *,
    seed: int = 0,
    systems: Mapping[str, float] = SYSTEMS,
    choices: Mapping[str, str] | None = None,
    config: Mapping[str, Any] | None = None,
    overrides: Sequence[str] | None = None,
    status: str = "done",
    error: str | None = None,
    steps: int = 40,
    **record: Any,
) -> Path:
    """A run as `Run` leaves it: records, numbers, predictions, learning curves.

    Args:
        folder: is made.
        seed: of the run; which tools are found depends on it, but for systems without training (bm25, dense).
        systems: name -> share of the 24 tools found; names that start with "toolgen" decode constrained and free.
        choices: group -> option, above those of a toy run.
        config: dotted key -> value, beside what the choices set.
        overrides: of the command; by default what `choices`, `config` and `seed` say.
        status: done, failed (has an error, no numbers) or running (was cut off).
        error: of a failed run.
        steps: of the learning curves, 0 for none.
        record: further facts of run.json.
    """
    options = {"method": "toolgen", "catalog": "toy", "model": "toy", "tuning": "lora", **(choices or {})}
    settings = {"seed": seed, "method.k": 50, **{f"{g}.name": o for g, o in options.items()}, **(config or {})}
    if overrides is None:
        overrides = [*(f"{g}={o}" for g, o in options.items()), *(f"{k}={v}" for k, v in (config or {}).items())]
        overrides = [*overrides, f"seed={seed}"]
    folder.mkdir(parents=True)
    facts = {
        "overrides": list(overrides), "choices": options, "seed": seed, "group": folder.parent.name, "job": None,
        "config_hash": _digest(settings), "cell": _digest(settings | {"seed": 0}),
        "catalog_fingerprint": DATA.catalog.fingerprint, "versions": {"toolsavvy": "0.1.0", "torch": "2.9.0"},
        "git": {"commit": "c0ffee" * 6 + "c0ff", "dirty": False}, "wall_seconds": 12.5,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(facts | record), encoding="utf-8")
    (folder / "config.yaml").write_text(yaml.safe_dump(_nested(settings)), encoding="utf-8")
    told = {
        "status": status,
        "error": error,
        "pid": 1,
        "host": socket.gethostname(),
        "started": 0.0,
        "wall_seconds": 12.5,
    }
    (folder / "status.json").write_text(json.dumps(told), encoding="utf-8")
    if status == "done" and systems:
        retrieval(folder, {name: _modes(name, share, seed) for name, share in systems.items()})
    if steps:
        curves(folder, steps, seed)
    return folder


def made_sweep(
    folder: Path,
    axes: Mapping[str, Sequence[Any]],
    *,
    seeds: Sequence[int] = (0, 1),
    quality: Callable[[Mapping[str, Any]], float] = lambda point: 0.75,
    **more: Any,
) -> list[Path]:
    """A job for each point of the axes and seed.

    Args:
        folder: of the sweep.
        axes: group (`tuning`) or dotted key (`training.lr`) -> its values.
        seeds: of each point.
        quality: share of the tools that "toolgen" finds at a point.
        more: for `made_run`.
    """
    made = []
    for values in product(*axes.values()):
        point = dict(zip(axes, values, strict=True))
        for seed in seeds:
            systems = more.get("systems", {"bm25": 0.55}) | {"toolgen": quality(point)}
            made.append(
                made_run(
                    folder / str(len(made)), seed=seed,
                    **{**more, "systems": systems, "choices": {k: str(v) for k, v in point.items() if "." not in k},
                       "config": {k: v for k, v in point.items() if "." in k}},
                )
            )  # fmt: skip
    return made


def curves(folder: Path, steps: int, seed: int = 0) -> None:
    """history.csv: a loss that falls and a recall that rises."""
    rng = np.random.default_rng(seed)
    with (folder / "history.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("step", "metric", "value"))
        for step in range(steps):
            done = step / max(1, steps - 1)
            writer.writerow((step, "retrieval/loss", round(3 * np.exp(-3 * done) + 0.05 * rng.random(), 4)))
            if step % 5 == 0:
                writer.writerow((step, "retrieval/validation_recall@1", round(0.8 * done + 0.05 * rng.random(), 4)))


def _modes(name: str, share: float, seed: int) -> dict[str, frozenset[str]]:
    """Decoding mode -> tools found."""
    rng = np.random.default_rng(seed if name.startswith("toolgen") else 99)
    found = frozenset(TOOLS[i] for i in rng.permutation(len(TOOLS))[: round(share * len(TOOLS))])
    return {"constrained": found, "free": frozenset(sorted(found)[::2])} if name.startswith("toolgen") else {"": found}


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted keys as a tree."""
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        *above, last = key.split(".")
        node = tree
        for part in above:
            node = node.setdefault(part, {})
        node[last] = value
    return tree


def _digest(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:12]
