"""The whole of method=pbt on a tiny random model whose calls are planted: right where a hash of the task says so."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lamps import COLOURS, write_lamps
from toolsavvy.catalog import Tool
from toolsavvy.config.compose import compose, typed
from toolsavvy.errors import UserError
from toolsavvy.methods import pbt
from toolsavvy.methods.arguments import desk, learner, pooled
from toolsavvy.parameters.generating import Generated
from toolsavvy.tasks import ParamTask, Reference
from toolsavvy.tracking import Run
from toolsavvy.tracking.run import Identity

SETTINGS = (
    "method=pbt", "catalog=parambench", "model=toy", "logger=none", "method.division.labelled=24",
    "method.division.unlabelled=20", "method.division.validation=12", "method.division.test=24", "method.sft.epochs=1",
    "method.sft.batch_size=12", "method.generation.samples=2", "method.prompt.shots=1", "method.resamples=100",
    "method.prompt.schema_tokens=60", "method.probe.shuffles=1",
)  # fmt: skip
ARMS = {"self_train", "pbt", "logprob_train", "consist_train", "p_true_train", "control_train", "oracle_train"}
ASKED: Counter[str] = Counter()


def answer(task: ParamTask, index: int) -> str:
    """Right in two of three cases; which ones follows from the task alone, samples differ from the greedy call."""
    right = dict(task.reference.arguments)
    number = int(task.id.rpartition("-")[2])
    if (number + index) % 3 == 1:
        right["Colour"] = COLOURS[(COLOURS.index(right["Colour"]) + 1) % len(COLOURS)]
    return "broken {" if number % 17 == 5 else json.dumps(right)


def planted(model: Any, tokenizer: Any, tasks: Sequence[ParamTask], prompts: Any, **how: Any) -> list[Generated]:
    ASKED["answers"] += len(tasks) * (1 + how["samples"])
    return [Generated(t.id, i, answer(t, i), True) for t in tasks for i in range(1 + how["samples"])]


@pytest.fixture(autouse=True)
def _planted(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(desk, "generate", planted)
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path_factory.mktemp("cache")))
    return


def ran(folder: Path, data: Path | None, *overrides: str) -> Path:
    job = compose([*SETTINGS, *([f"catalog.path={data}"] if data else []), *overrides])
    config = typed(job.config)
    with Run(config, job.config, folder, Identity({"model": "toy", "catalog": "lamps"}, (), "group")) as run:
        pbt.run(config, run)
    return folder


def results(folder: Path) -> dict[tuple[str, str, str], float]:
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    return {(r["system"], r["slice"], r["metric"]): r["value"] for r in rows}


def test_every_stage_from_baselines_to_reranking(tmp_path: Path) -> None:
    data = write_lamps(tmp_path / "lamps")
    folder = ran(tmp_path / "run", data, "method.probe.curve=true", "method.filter.thresholds=[0.3,0.5]")
    found = results(folder)
    systems = {key[0] for key in found if key[1] == "all" and key[2] == "exact_match"}
    folds = json.loads((folder / "run.json").read_text())["training"]
    assert "fold0" in folds and any(f.endswith("-fold0") for f in folds)  # PBT has a probe of its own
    assert {"zero_shot", "few_shot", "seed_sft", "seed_sft+pgr", "pbt+pgr", *ARMS} <= systems
    tasks = {r["id"]: r for r in map(json.loads, (data / "tasks.jsonl").read_text().splitlines())}
    records = [json.loads(line) for line in (folder / "predictions/parameters.seed_sft.jsonl").read_text().splitlines()]
    assert len(records) == 24
    assert {r["unit"] for r in records} == {"lamp:Paint", "lamp:Light"}  # intervals resample tools, not their tasks
    for record in records:  # each verdict by hand
        number = int(record["id"].rpartition("-")[2])
        assert record["exact"] == (number % 17 != 5 and number % 3 != 1), record
        assert record["calls"] is None or record["calls"][0]["name"] == tasks[record["id"]]["tool"]
    exact = sum(r["exact"] for r in records) / 24
    assert found["seed_sft", "all", "exact_match"] == pytest.approx(exact)
    kept = found["oracle_train", "round=1/pseudo_labels", "precision"]
    assert kept == 1.0 and found["self_train", "round=1/pseudo_labels", "coverage"] > 0.8
    for name in ("probe", "logprob", "consistency", "p_true", "control"):
        assert 0 <= found["seed_sft", f"fields/{name}", "auc"] <= 1
    assert {key[1] for key in found if key[1].startswith("layer=")} == {"layer=0", "layer=1", "layer=2"}
    assert (folder / "report.html").is_file() and (folder / "figures/levels.svg").is_file()
    assert (folder / "model/value_probe.safetensors").is_file() and (folder / "model/model.safetensors").is_file()


def test_the_same_models_are_trained_once_and_resumed_runs_repeat_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_lamps(tmp_path / "lamps")
    small = (
        "method.filter.arms=[none,probe]", "method.filter.equal=false", "method.baselines=false",
        "method.rerank.of=[seed,probe]",
    )  # fmt: skip
    first = ran(tmp_path / "first", data, *small)
    monkeypatch.setattr(learner.Learner, "_learn", lambda *_: pytest.fail("trained again"))
    again = ran(tmp_path / "again", data, *small)
    assert results(first) == results(again)


def test_a_second_round_goes_on_from_each_arms_own_calls(tmp_path: Path) -> None:
    data = write_lamps(tmp_path / "lamps")
    folder = ran(
        tmp_path / "run", data, "method.filter.arms=[none,probe]", "method.filter.equal=false", "method.rerank.of=[]",
        "method.filter.rounds=2", "method.baselines=false", "method.generation.samples=0",
    )  # fmt: skip
    found = results(folder)
    assert ("pbt-round2", "all", "exact_match") in found and ("self_train-round2", "all", "exact_match") in found
    assert ("pbt-round2", "round=2/pseudo_labels", "precision") in found


def test_the_last_rounds_model_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    monkeypatch.setattr(pbt, "keep", lambda bench, subject, found: names.append(subject.name))
    ran(
        tmp_path / "run", write_lamps(tmp_path / "lamps"), "method.filter.arms=[probe]", "method.filter.equal=false",
        "method.rerank.of=[]", "method.filter.rounds=2", "method.baselines=false", "method.generation.samples=0",
    )  # fmt: skip
    assert names == ["pbt-round2"]


def test_tools_are_resampled_wherever_tools_divide() -> None:
    tool = Tool("lamp:Paint", "paint")
    tasks = [ParamTask(f"t{i}", "", (tool,), (Reference("paint", {}),), cluster=f"c{i}", source="mine") for i in (0, 1)]
    assert [t.cluster for t in pbt.by_unit(tasks, "tool")] == ["lamp:Paint", "lamp:Paint"]
    assert [t.cluster for t in pbt.by_unit(tasks, "record")] == ["c0", "c1"]


def test_a_threshold_needs_tasks_to_be_chosen_on() -> None:
    with pytest.raises(UserError, match=r"no threshold of probe, logprob can be chosen") as told:
        typed(compose([*SETTINGS, "method.division.validation=0", "method.filter.arms=[none,probe,logprob]"]).config)
    assert told.value.where == "method.division.validation"
    typed(
        compose(
            [*SETTINGS, "method.division.validation=0", "method.filter.arms=[none,oracle]", "method.rerank.of=[]"]
        ).config
    )


def test_answers_that_are_all_wrong_or_unreadable_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_lamps(tmp_path / "lamps")
    monkeypatch.setattr("test_pbt.answer", lambda task, index: "no idea")
    with pytest.raises(UserError, match="none of the cross-fitted answers holds a value"):
        ran(tmp_path / "run", data, "method.baselines=false")


def test_a_catalog_without_tasks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no parameter tasks"):
        ran(tmp_path / "run", None, "catalog=toy")


def test_seeds_are_pooled_over_the_tasks_that_all_have_answered(tmp_path: Path) -> None:
    data = write_lamps(tmp_path / "lamps")
    small = ("method.filter.arms=[none,probe]", "method.filter.equal=false", "method.baselines=false")
    folders = [ran(tmp_path / str(s), data, *small, f"seed={s}", "method.rerank.of=[]") for s in (0, 1)]
    (pool,) = pooled.gather(folders)
    assert pool.seeds == (0, 1) and set(pool.items) == {"seed_sft", "self_train", "pbt"}
    (one, two), units = pooled.values(pool, ["pbt", "seed_sft"], "exact")
    assert one.shape == two.shape == (2, 24) and len(units) == 24
    out = tmp_path / "out"
    out.mkdir()
    pooled.show_pbt(folders, out, 50)
    text = (out / "pbt.md").read_text()
    assert "paired differences" in text and "| probe |" in text
    with pytest.raises(UserError, match="no predictions of method=pbt"):
        pooled.gather([tmp_path])
    with pytest.raises(UserError, match="seed 1 is there twice"):
        pooled.gather([*folders, folders[1]])
    other = ran(tmp_path / "other", data, *small, "seed=2", "method.rerank.of=[]", "method.division.test=20")
    with pytest.raises(UserError, match="other tasks or another model"):
        pooled.gather([*folders, other])
