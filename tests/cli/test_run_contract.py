"""What a run leaves behind, checked on a whole toy run of each method with public readers: files, numbers, W&B."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pytest
import yaml
from commands import lines, record, runs, status, toolsavvy
from ir_measures import RR, P, R, nDCG

from world import WandbRun, finished_wandb

TOY = ("catalog=toy", "model=toy", "encoder=toy", "trainer.precision=fp32", "trainer.threads=1")
SYSTEMS = ("bm25", "knn", "toolgen_stage1-constrained", "toolgen_stage1-free", "toolgen_plain-constrained")
SYSTEMS += ("toolgen_plain-free", "both")
FIELDS = ["system", "suite", "slice", "metric", "k", "value", "low", "high", "n"]
KS = (1, 5, 10)


def finished(folder: Path, *args: str) -> Path:
    done = toolsavvy(folder, *args)
    assert done.returncode == 0, done.stderr
    (run,) = runs(folder)
    return run


@pytest.fixture(scope="module")
def toolgen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two-stage training beside two retrievers, and a fusion."""
    return finished(
        tmp_path_factory.mktemp("toolgen"), "method=toolgen", *TOY, "retriever=[bm25,knn]", "seed=5",
        "+method.fusions={both:{members:[bm25,toolgen_plain]}}", "logger.tags=[contract]",
        "suite.catalog_test.resamples=200",
    )  # fmt: skip


@pytest.fixture(scope="module")
def evaluate(toolgen: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """BM25 again, and the run file that ToolGen left."""
    path = toolgen / "predictions" / "catalog_test.toolgen_plain-constrained.run"
    return finished(
        tmp_path_factory.mktemp("evaluate"), "method=evaluate", "catalog=toy", "retriever=[run,bm25]",
        f"retriever.run.path={path}", "suite.catalog_test.resamples=200",
    )  # fmt: skip


@pytest.fixture(scope="module")
def wandb(toolgen: Path) -> WandbRun:
    return finished_wandb(toolgen)


def test_every_number_is_there_once_and_plausible(toolgen: Path) -> None:
    results = lines(toolgen / "results.jsonl")
    assert all(list(r) == FIELDS for r in results)
    keys = [tuple(r[f] for f in FIELDS[:5]) for r in results]
    assert len(keys) == len(set(keys))
    slices = {r["slice"] for r in results}
    assert {"test_seen", "test_unseen", "test_seen/short", "test_unseen/verbose"} <= slices
    metrics = ("recall", "precision", "ndcg", "completeness", "mrr", "map")
    wanted = {(s, "catalog_test", part, m, k) for s in SYSTEMS for part in slices for m in metrics for k in KS}
    ratios = {
        (s, "catalog_test", part, "internalization", k)
        for s in ("toolgen_stage1", "toolgen_plain")
        for part in slices
        for k in KS
    }
    assert set(keys) == wanted | ratios
    for r in results:
        assert r["n"] > 0
        if r["metric"] == "internalization":
            assert r["value"] is None or r["value"] >= 0
        else:
            assert 0 <= r["value"] <= 1
        if r["low"] is not None:
            assert r["low"] - 1e-12 <= r["value"] <= r["high"] + 1e-12


def test_the_toy_task_was_learnt(toolgen: Path) -> None:
    recall = {
        r["system"]: r["value"]
        for r in lines(toolgen / "results.jsonl")
        if (r["slice"], r["metric"], r["k"]) == ("test_seen", "recall", 5)
    }
    assert recall["toolgen_plain-constrained"] > 1.5 * 5 / 24


def test_comparisons_are_kept(toolgen: Path) -> None:
    rows = lines(toolgen / "comparisons.jsonl")
    value = {tuple(r[f] for f in FIELDS[:5]): r["value"] for r in lines(toolgen / "results.jsonl")}
    assert {r["system"] for r in rows} == set(SYSTEMS)
    assert {(r["metric"], r["k"]) for r in rows} == {(m, k) for m in ("recall", "ndcg") for k in KS}
    for r in rows:
        ours, rival = (value[r[s], r["suite"], r["slice"], r["metric"], r["k"]] for s in ("system", "rival"))
        assert r["difference"] == pytest.approx(ours - rival, abs=1e-12)
        assert r["low"] <= r["difference"] <= r["high"]
        assert 0 < r["p"] <= 1


@pytest.mark.parametrize("system", SYSTEMS)
def test_trec_files_score_the_same_elsewhere(toolgen: Path, system: str) -> None:
    folder = toolgen / "predictions"
    qrels = list(ir_measures.read_trec_qrels(str(folder / "catalog_test.qrels")))
    ranked = list(ir_measures.read_trec_run(str(folder / f"catalog_test.{system}.run")))
    predictions = lines(folder / f"catalog_test.{system}.jsonl")
    assert len({q.query_id for q in qrels}) == len(predictions)
    names = {nDCG @ 5: ("ndcg", 5), R @ 1: ("recall", 1), R @ 10: ("recall", 10), P @ 5: ("precision", 5)}
    names |= {RR @ 10: ("mrr", 10)}
    found: dict[Any, dict[str, float]] = defaultdict(dict)
    for metric in ir_measures.iter_calc(list(names), qrels, ranked):
        found[metric.measure][metric.query_id] = metric.value
    value = {tuple(r[f] for f in FIELDS[:5]): r["value"] for r in lines(toolgen / "results.jsonl")}
    by_slice: dict[str, list[str]] = defaultdict(list)
    for p in predictions:
        key = p["query"].replace(":", "%3A").replace("#", "%23")
        by_slice[p["split"]].append(key)
        by_slice[f"{p['split']}/{p['subset']}"].append(key)
    assert len(by_slice) == 6
    for measure, (metric, k) in names.items():
        for part, queries in by_slice.items():
            mean = np.mean([found[measure].get(q, 0.0) for q in queries])
            assert mean == pytest.approx(value[system, "catalog_test", part, metric, k], abs=1e-6)


def test_predictions_name_their_query_golds_and_tools(toolgen: Path) -> None:
    for system in SYSTEMS:
        rows = lines(toolgen / "predictions" / f"catalog_test.{system}.jsonl")
        assert len(rows) == 36 + 120
        for row in rows:
            assert (row["system"], row["suite"]) == (system, "catalog_test")
            assert row["text"]
            assert row["gold"]
            assert len(row["tools"]) == len(row["scores"]) <= 10
            assert row["scores"] == sorted(row["scores"], reverse=True)
            named = [t for t in row["tools"] if t is not None]
            assert len(named) == len(set(named))


def test_records_say_what_was_run(toolgen: Path) -> None:
    noted = record(toolgen)
    assert {"method=toolgen", "seed=5", "catalog=toy"} <= set(noted["overrides"])
    assert noted["seed"] == 5
    assert len(noted["config_hash"]) == len(noted["cell"]) == 12
    assert noted["config_hash"] != noted["cell"]
    assert noted["choices"]["retriever"] == "bm25,knn"
    assert {"toolsavvy", "python", "torch", "transformers", "peft", "numpy", "wandb"} <= set(noted["versions"])
    assert len(noted["catalog_fingerprint"]) == 64
    assert noted["audit"]["tools"] == 24
    stages = noted["stages"]
    assert {"load catalog", "rank bm25", "memorization", "retrieval_plain", "save model", "score catalog_test"} <= set(
        stages
    )
    assert all(seconds >= 0 for seconds in stages.values())
    assert sum(stages.values()) <= noted["wall_seconds"]
    assert noted["peak_memory"]["host"] > 10**8
    for stage in ("memorization", "retrieval_plain"):
        assert noted[stage]["tokens"] > noted[stage]["rows"] > 0
        assert noted[stage]["tokens_per_second"] > 0
    ended = status(toolgen)
    assert (ended["status"], ended["error"]) == ("done", None)
    assert ended["wall_seconds"] == noted["wall_seconds"]
    config = yaml.safe_load((toolgen / "config.yaml").read_text())
    assert (config["seed"], config["catalog"]["name"], config["model"]["source"]) == (5, "toy", "toy")
    assert config["method"]["fusions"]["both"]["members"] == ["bm25", "toolgen_plain"]


def test_config_yaml_repeats_the_run(toolgen: Path, tmp_path: Path) -> None:
    config = yaml.safe_load((toolgen / "config.yaml").read_text())
    overrides = [o for o in record(toolgen)["overrides"] if not o.startswith("paths.")]
    done = toolsavvy(tmp_path, *overrides, "--cfg", "job", "--resolve")
    assert done.returncode == 0, done.stderr
    again = yaml.safe_load(done.stdout)
    assert {k: v for k, v in again.items() if k != "paths"} == {k: v for k, v in config.items() if k != "paths"}


def test_the_model_reloads_and_ranks_as_before(toolgen: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from toolsavvy.catalogs.toy import load as load_toy
    from toolsavvy.models.tuning import load
    from toolsavvy.retrieval.toolgen import ToolGen

    data = load_toy()
    tokenizer: Any = AutoTokenizer.from_pretrained(toolgen / "model")
    model: Any = AutoModelForCausalLM.from_pretrained(toolgen / "model")
    assert model.get_input_embeddings().num_embeddings == len(tokenizer)
    retriever = ToolGen(load(toolgen / "model", fingerprint=data.catalog.fingerprint)).fit(data.catalog)
    queries = {(s, q.id): q for s in ("test_seen", "test_unseen") for q in data.splits[s]}
    told = lines(toolgen / "predictions" / "catalog_test.toolgen_plain-constrained.jsonl")
    ranking = retriever.search([queries[r["split"], r["query"]] for r in told], 10)
    assert np.allclose(ranking.scores, [r["scores"] for r in told], atol=1e-4)
    same = [[data.catalog.tools[i].id for i in row] == r["tools"] for row, r in zip(ranking.indices, told, strict=True)]
    assert np.mean(same) > 0.98  # scores that nearly tie may swap


def test_a_run_file_is_scored_as_its_system_was(toolgen: Path, evaluate: Path) -> None:
    def numbers(run: Path, system: str) -> dict[tuple[Any, ...], Any]:
        found = [r for r in lines(run / "results.jsonl") if r["system"] == system]
        return {tuple(r[f] for f in FIELDS[2:5]): [r[f] for f in FIELDS[5:]] for r in found}

    ours, read = numbers(toolgen, "toolgen_plain-constrained"), numbers(evaluate, "run")
    assert ours.keys() == read.keys()
    for key, values in ours.items():
        assert read[key] == pytest.approx(values, abs=1e-12)
    assert numbers(toolgen, "bm25") == numbers(evaluate, "bm25")
    assert record(toolgen)["catalog_fingerprint"] == record(evaluate)["catalog_fingerprint"]


def test_wandb_knows_the_run(toolgen: Path, wandb: WandbRun) -> None:
    noted = record(toolgen)
    assert wandb.exit_code == 0
    assert (wandb.project, wandb.group, wandb.job_type) == ("toolsavvy", "toolgen", "toolgen")
    assert wandb.name == "toolgen-toy-toy-lora-seed5"
    assert set(wandb.tags) == {"toy", "contract"}
    assert wandb.id == noted["wandb"]["id"]
    config = yaml.safe_load((toolgen / "config.yaml").read_text())
    assert {k: wandb.config[k] for k in config} == config
    assert wandb.config["choices"] == noted["choices"]
    assert (wandb.config["cell"], wandb.config["config_hash"]) == (noted["cell"], noted["config_hash"])


def test_wandb_has_the_numbers_and_the_table(toolgen: Path, wandb: WandbRun) -> None:
    results = lines(toolgen / "results.jsonl")
    for r in results:
        suite = f"catalog_test:{r['slice']}"
        assert wandb.summary[f"{suite}/{r['system']}/{r['metric']}@{r['k']}"] == r["value"]
    assert [row["results.nrows"] for row in wandb.history if "results.nrows" in row] == [len(results)]
    assert len(list(toolgen.glob("wandb/**/results_*.table.json"))) == 1


@pytest.mark.parametrize("stage", ["memorization", "retrieval_plain"])
def test_wandb_has_learning_curves(toolgen: Path, wandb: WandbRun, stage: str) -> None:
    rows = [row for row in wandb.history if any(key.startswith(f"{stage}/") for key in row)]
    steps = [row[f"{stage}/step"] for row in rows]
    assert steps == sorted(steps)
    losses = [row[f"{stage}/loss"] for row in rows if f"{stage}/loss" in row]
    assert len(losses) > 10
    assert all(np.isfinite(losses))
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    recalls = [row[f"{stage}/recall@1"] for row in rows if f"{stage}/recall@1" in row]
    assert len(recalls) == {"memorization": 6, "retrieval_plain": 4}[stage]
    assert all(0 <= r <= 1 for r in recalls)
    assert (f"{stage}/*", f"{stage}/step") in wandb.axes


def test_show_prints_queries_with_their_golds_and_answers(tmp_path: Path) -> None:
    done = toolsavvy(tmp_path, "method=evaluate", "catalog=toy", "retriever=bm25", "logger=none", "show=2")
    assert done.returncode == 0, done.stderr
    (run,) = runs(tmp_path)
    asked = lines(run / "predictions" / "catalog_test.bm25.jsonl")[:2]
    assert done.stdout.count("gold:") == 2
    for query in asked:
        assert query["text"] in done.stdout
        assert query["tools"][0] in done.stdout
