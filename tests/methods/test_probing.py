"""Probing as part of whole runs on the toy catalog: what is asked, kept, recorded, refused."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import SHARED
from toolsavvy.__main__ import main
from toolsavvy.benchmark import ChoiceItem, RetrievalItem, YesNoItem, texts_of
from toolsavvy.catalog import Query
from toolsavvy.catalogs.toolsense_items import read_mcq, read_qa, write_items
from toolsavvy.catalogs.toy import load
from toolsavvy.config.compose import compose, typed
from toolsavvy.config.planning import make_plan
from toolsavvy.config.preflight import preflight
from toolsavvy.errors import UserError
from toolsavvy.methods import probing
from toolsavvy.methods.asking import Asker
from toolsavvy.methods.benchmarks import questions, training_needs, with_benchmarks
from toolsavvy.methods.sets import load_set

TOOLS = 12
TOY = (
    "catalog=toy", f"catalog.tools={TOOLS}", "model=toy", "encoder=toy", "retriever=bm25", "logger=none",
    "trainer.precision=fp32", "trainer.threads=1",
)  # fmt: skip
TRAIN = ("method=toolgen", "memorization.epochs=1", "method.recipes.plain.epochs=1")
ALL = ("suite=[catalog_test,rrb,mcq,qa]", *(f"suite.{s}.resamples=20" for s in ("catalog_test", "rrb", "mcq", "qa")))
UNTRAINED = ("prior", "name", "document", "untrained")
CATALOG = load(TOOLS).catalog
IDS = [tool.id for tool in CATALOG.tools]


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Answers of untrained models are kept between runs: each test has a cache of its own."""
    monkeypatch.setattr(sys, "argv", ["toolsavvy"])
    monkeypatch.setenv("TOOLSAVVY_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    """Small files of all three benchmarks; overrides that name them."""
    words = [tool.description[:40] for tool in CATALOG.tools]
    wrong = [tuple(words[(i + j) % TOOLS] for j in (1, 2, 3)) for i in range(TOOLS)]
    made: dict[str, Any] = {
        "mcq": [ChoiceItem(f"m{i}", "What does it do?", words[i], wrong[i], IDS[i], "purpose") for i in range(TOOLS)],
        "qa": [YesNoItem(f"q{i}", "Does it work?", i % 2 == 0, IDS[i], "work") for i in range(TOOLS)],
        "rrb": [RetrievalItem(f"r{i}", f"I need {i}", (IDS[i],), tuple(IDS[:4]), "easy", IDS[i]) for i in range(3)],
    }
    for kind, items in made.items():
        write_items(tmp_path / f"{kind}.jsonl", items, texts_of(CATALOG))
    return tuple(f"suite.{kind}.path={tmp_path / kind}.jsonl" for kind in made)


def done(folder: Path, *args: str) -> Path:
    assert main([*TOY, *args, f"paths.outputs={folder}"]) == 0
    (status,) = folder.rglob("status.json")
    return status.parent


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def config_of(*args: str) -> Any:
    job = compose([*TOY, *args])
    return typed(job.config, job.overrides)


def test_every_stage_is_asked_and_a_resumed_run_asks_nothing_twice(
    tmp_path: Path, files: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: Counter[str] = Counter()
    real: Callable[..., Any] = Asker.choices

    def choices(self: Asker, items: Any) -> Any:
        asked[self.view] += 1
        return real(self, items)

    monkeypatch.setattr(Asker, "choices", choices)
    monkeypatch.setattr(Qa := probing.Qa, "run", _fails(Qa.run))
    args = (*TOY, *TRAIN, *ALL, *files, f"paths.outputs={tmp_path}/out", "resume=true")
    assert main(list(args)) == 1
    assert asked == {"nothing": 1, "name": 1, "document": 1, "token": 3}
    assert main(list(args)) == 0
    assert sum(asked.values()) == 6
    (run,) = (s.parent for s in (tmp_path / "out").rglob("status.json"))
    results = lines(run / "results.jsonl")
    models = [*UNTRAINED, "toolgen_stage1", "toolgen_plain"]
    for suite, controls in (
        ("mcq", ["bm25", "blind_answer_prior", "blind_name_overlap", "blind_longest_option"]),
        ("qa", ["blind_question_only"]),
    ):
        assert {r["system"] for r in results if r["suite"] == suite} == {*models, *controls}
        written = {p.name.split(".")[1] for p in (run / "predictions").glob(f"{suite}.*.jsonl")}
        assert written == {*models, *controls}
    found = {(r["suite"], r["slice"], r["metric"], r["k"]) for r in results if r["suite"] in ("mcq", "qa")}
    assert {("mcq", "likelihood", "accuracy", None), ("mcq", "letters", "accuracy", None)} <= found
    assert {("qa", "all", m, None) for m in ("accuracy", "yes_share", "auc")} <= found
    assert {r["slice"].split("/")[0] for r in results if r["suite"] == "catalog_test"} == {"test_seen", "test_unseen"}
    assert {r["slice"] for r in results if r["suite"] == "rrb"} >= {"rrb", "rrb/tier=easy"}
    ranked = lines(run / "predictions" / "rrb.toolgen_plain-constrained.jsonl")
    assert {(p["split"], p["tier"]) for p in ranked} == {("rrb", "easy")}
    assert {"suite", "system"} < set(lines(run / "comparisons.jsonl")[-1])
    out = capsys.readouterr().out
    for told in (
        "12 mcq, 12 qa",
        "likelihood (12 questions)",
        "all (12 questions)",
        "yes share",
        "no question with yes",
    ):
        assert told in out, told


def _fails(real: Any) -> Any:
    """A suite that fails when it is first run."""
    times: list[int] = []

    def run(self: Any, data: Any, systems: Any) -> Any:
        times.append(1)
        if len(times) == 1:
            raise RuntimeError("cut off")
        return real(self, data, systems)

    return run


def test_damaged_answers_and_answers_to_other_questions_are_asked_again(tmp_path: Path, files: tuple[str, ...]) -> None:
    run = done(tmp_path / "out", "method=evaluate", "suite=[mcq,qa]", *files[:2], "suite.mcq.resamples=5")
    kept = sorted(run.glob("checkpoints/probe.*.npz"))
    views = ("document", "name", "prior")
    assert [p.stem for p in kept] == [
        f"probe.{s}" for s in ("mcq.bm25", *(f"{k}.{v}" for k in ("mcq", "qa") for v in views))
    ]
    store = probing.Probing.__new__(probing.Probing)
    cfg = config_of("method=evaluate", "suite=[mcq,qa]", *files[:2])
    store.asked = questions(cfg, CATALOG)
    store.run = type("R", (), {"checkpoints": run / "checkpoints"})()  # type: ignore[assignment]
    store._marks = {key: probing._mark(items) for key, (_, items) in store.asked.items()}
    stored = store._load("mcq", "prior")
    assert stored is not None
    assert stored["letters"].shape == (TOOLS, 4)
    np.testing.assert_allclose(stored["letters"].sum(axis=1), 1)
    store._marks["mcq"] = "other"
    assert store._load("mcq", "prior") is None
    kept[-1].write_bytes(kept[-1].read_bytes()[:100])
    assert store._load("qa", "prior") is None
    assert store._load("qa", "nobody") is None


def test_without_the_model_retrievers_alone_are_asked(tmp_path: Path, files: tuple[str, ...]) -> None:
    run = done(tmp_path / "out", "method=evaluate", "suite=[mcq]", files[0], "method.probe_model=false")
    results = lines(run / "results.jsonl")
    assert {r["system"] for r in results if not r["system"].startswith("blind")} == {"bm25"}
    assert {r["suite"] for r in results} == {"mcq"}


def test_plans_name_whom_they_ask() -> None:
    plan = make_plan(config_of("method=evaluate", "suite=[mcq]"))
    assert plan.systems == ("bm25", "prior", "name", "document")
    assert make_plan(config_of("method=evaluate", "suite=[catalog_test]")).systems == ("bm25",)
    plan = make_plan(config_of("method=toolgen", "suite=[qa,rrb]"))
    assert plan.systems == ("bm25", *UNTRAINED, "toolgen_stage1", "toolgen_plain")
    assert plan.suites == ("qa", "rrb")


def test_files_are_looked_for_before_anything_starts(tmp_path: Path) -> None:
    job = compose([*TOY, "method=evaluate", "suite=mcq", "suite.mcq.path=nowhere.jsonl", f"paths.outputs={tmp_path}"])
    with pytest.raises(UserError, match="nowhere") as caught:
        preflight(job)
    assert caught.value.where == "suite.mcq.path"


def test_items_of_another_catalog_are_refused(files: tuple[str, ...]) -> None:
    for kind, place in (("mcq", 0), ("qa", 1)):
        cfg = config_of(f"suite=[{kind}]", files[place])
        with pytest.raises(UserError, match=r"\d items are about tools .* first '[mq]\d'") as caught:
            questions(cfg, load(4).catalog)
        assert caught.value.where.startswith(f"suite.{kind}.path=")
        assert "catalog toy" in caught.value.expected
    with pytest.raises(UserError, match="items are about tools") as caught:
        with_benchmarks(config_of("suite=[rrb]", files[2]), load(2))
    assert caught.value.where.startswith("suite.rrb.path=")


def test_requests_that_were_trained_on_are_refused(tmp_path: Path) -> None:
    data = load(TOOLS)
    query = data.train[0]
    (gold,) = query.relevant
    item = RetrievalItem("r", f"  {query.text.upper()}", (gold,), (gold,), "easy", gold)
    write_items(tmp_path / "rrb.jsonl", [item], texts_of(CATALOG))
    with pytest.raises(UserError, match=r"1 requests are training queries .* 'r'") as caught:
        with_benchmarks(config_of("suite=[rrb]", f"suite.rrb.path={tmp_path}/rrb.jsonl"), data)
    assert "suite.rrb.path" in caught.value.where


def test_an_empty_file_asks_nothing(tmp_path: Path) -> None:
    (tmp_path / "qa.jsonl").write_text("")
    with pytest.raises(UserError) as caught:
        questions(config_of("suite=[qa]", f"suite.qa.path={tmp_path}/qa.jsonl"), CATALOG)
    assert "suite.qa.path" in caught.value.where or "qa.jsonl" in caught.value.where


def test_requests_are_a_split_of_their_own_and_nothing_else_changes(files: tuple[str, ...]) -> None:
    data = load(TOOLS)
    found = with_benchmarks(config_of("suite=[catalog_test,rrb]", files[2]), data)
    assert {name: queries for name, queries in found.splits.items() if name != "rrb"} == dict(data.splits)
    assert "rrb" not in found.headline
    assert "rrb" in found.test_splits
    assert [q.id for q in found.splits["rrb"]] == ["r0", "r1", "r2"]
    assert with_benchmarks(config_of("suite=[catalog_test]"), data) is data


def test_a_catalog_too_small_for_requests_is_told_what_a_suite_can_do_about_it() -> None:
    with pytest.raises(UserError, match="3 tools are too few for hard") as caught:
        with_benchmarks(config_of("suite=[rrb]"), load(3))
    assert caught.value.where == "suite.rrb, catalog toy"
    assert "5 tools for hard" in caught.value.expected
    assert "suite.rrb.path" in caught.value.fix and "generator" not in caught.value.fix


def test_an_anchor_that_the_file_does_not_call_gold_is_none(tmp_path: Path) -> None:
    items = [
        RetrievalItem("r0", "One and another", (IDS[2], IDS[1]), tuple(IDS[:4]), "medium", IDS[1]),
        RetrievalItem("r1", "One or another", (IDS[2], IDS[1]), tuple(IDS[:4]), "medium", IDS[0]),
    ]
    write_items(tmp_path / "rrb.jsonl", items, texts_of(CATALOG))
    data = with_benchmarks(config_of("suite=[rrb]", f"suite.rrb.path={tmp_path}/rrb.jsonl"), load(TOOLS))
    assert [list(query.relevant) for query in data.splits["rrb"]] == [[IDS[1], IDS[2]], [IDS[2], IDS[1]]]


def test_needs_are_trained_of_no_tool_that_a_request_is_written_for() -> None:
    data = load(TOOLS)
    every = {tool for tool, _ in training_needs(data, 0)}
    assert {0, 1, 2} <= every
    requests = (Query("r0", "This one", {IDS[1]: 1, IDS[2]: 1}, tier="medium"),)
    beside = replace(data, splits={**data.splits, "rrb": requests})
    assert {tool for tool, _ in training_needs(beside, 0)} == every - {1}
    itself = replace(data, splits={"train": data.train, "test": requests}, headline=())
    assert {tool for tool, _ in training_needs(itself, 0)} == every - {1, 2}


def test_benchmarks_by_template_come_from_the_catalog_alone() -> None:
    cfg = config_of("suite=[mcq,qa,rrb]", "catalog.tools=48", "suite.mcq.n=10", "suite.qa.n=10", "suite.rrb.n=6")
    data = load_set(cfg)
    first, again = (questions(cfg, data.catalog) for _ in range(2))
    for key, (_, items) in first.items():
        assert items == again[key][1]
        assert items.items
        assert {item.tool for item in items.items} <= set(data.catalog.index)
    taught = {q.text.lower() for q in data.train}
    requests = with_benchmarks(cfg, data).splits["rrb"]
    assert requests
    assert not {q.text.lower() for q in requests} & taught


@pytest.mark.skipif(not (SHARED / "toolsense").is_dir(), reason="shared data is absent")
def test_the_released_questions_on_their_own_catalog() -> None:
    folder = SHARED / "toolsense"
    paths = (f"suite.mcq.path={folder}/mcq.jsonl", f"suite.qa.path={folder}/qa.jsonl")
    job = compose(["method=evaluate", "catalog=toolsense", f"catalog.path={folder}", "suite=[rrb,mcq,qa]", *paths])
    cfg = typed(job.config, job.overrides)
    data = load_set(cfg)
    assert with_benchmarks(cfg, data) is data
    asked = questions(cfg, data.catalog)
    assert asked["mcq"][1].items == read_mcq(folder / "mcq.jsonl").items
    assert asked["qa"][1].items == read_qa(folder / "qa.jsonl").items
