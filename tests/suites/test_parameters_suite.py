"""The suite over parameter tasks: what counts, slices, intervals, pairs, records."""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from parameter_tasks import made, right
from toolsavvy.calls.attempts import Call
from toolsavvy.errors import UserError
from toolsavvy.suites import parameters as suite_module
from toolsavvy.suites.parameters import ALL, Answer, Coverage, Parameters, plain
from toolsavvy.suites.table import Outcome, write_jsonl
from toolsavvy.tasks import ParamTask, TaskSet


def value(outcome: Outcome, metric: str, name: str = ALL, system: str = "mine") -> float | None:
    found = [r for r in outcome.results if (r.metric, r.slice, r.system) == (metric, name, system)]
    return found[0].value if found else None


def asked(form: str = "calls") -> tuple[ParamTask, ...]:
    return Parameters(form=form).tasks(made())


def test_a_perfect_system_is_right_everywhere() -> None:
    for form in ("calls", "records"):
        tasks = asked(form)
        outcome = Parameters(form=form).run(tasks, {"mine": right(tasks)})
        for metric in ("exact_match", "field_precision", "field_recall", "field_f1", "schema_valid"):
            assert {r.value for r in outcome.results if r.metric == metric} == {1.0}
        assert not [r for r in outcome.results if r.metric.startswith("error_")]


def test_what_is_missing_is_wrong_also_where_no_call_is_right() -> None:
    tasks = asked("records")
    answers = right(tasks)
    none_due = next(t for t in tasks if not t.references)
    one_due = next(t for t in tasks if t.references)
    del answers[none_due.id], answers[one_due.id]
    outcome = Parameters().run(tasks, {"mine": answers})
    assert value(outcome, "exact_match") == pytest.approx(1 - 2 / len(tasks))
    assert value(outcome, "error_missing") == pytest.approx(2 / len(tasks))
    assert Coverage.of(tasks, answers).missing == 2
    by_id = {p.id: p for p in outcome.predictions["mine"]}
    assert (by_id[none_due.id].exact, by_id[none_due.id].calls) == (False, None)


def test_mistakes_are_named_and_counted() -> None:
    tasks = asked()
    answers = right(tasks)
    flat = [t for t in tasks if t.category == "flat"]
    answers[flat[0].id] = Answer(
        (Call("book", {"place": "elsewhere", "people": flat[0].reference.arguments["people"]}),)
    )
    answers[flat[1].id] = Answer(None, ("fence",))
    answers[flat[2].id] = Answer((Call("cancel", {}),))
    answers[flat[3].id] = Answer((Call("book", {**flat[3].reference.arguments, "shoes": 1}),))
    answers[flat[4].id] = Answer(())
    outcome = Parameters().run(tasks, {"mine": answers})
    share = 1 / len(tasks)
    for kind in ("wrong_value", "not_json", "wrong_tool", "spurious", "no_call", "mended"):
        assert value(outcome, f"error_{kind}") == pytest.approx(share), kind
    assert value(outcome, "exact_match") == pytest.approx(1 - 5 * share)
    assert value(outcome, "schema_valid") == pytest.approx(1 - 3 * share)
    half = next(p for p in outcome.predictions["mine"] if p.id == flat[0].id)
    assert half.f1 == pytest.approx(0.5)


def test_slices_of_level_and_category_add_up() -> None:
    tasks = asked()
    answers = {t.id: a for t, a in zip(tasks, right(tasks).values(), strict=True) if t.category == "flat"}
    outcome = Parameters().run(tasks, {"mine": answers})
    assert value(outcome, "exact_match", "category=flat") == 1
    assert value(outcome, "exact_match", "category=nested") == 0
    levels = {r.slice: r.n for r in outcome.results if r.slice.startswith("level=") and r.metric == "exact_match"}
    assert sum(levels.values()) == len(tasks)
    assert len(levels) > 1
    assert outcome.shown[0] == ALL


def test_clusters_are_resampled_as_a_whole() -> None:
    tasks = asked()
    single = tuple(replace(t, cluster="") for t in tasks)
    answers = {t.id: a for i, (t, a) in enumerate(zip(tasks, right(tasks).values(), strict=True)) if i // 2 % 2}
    widths = []
    for rows in (tasks, single):
        outcome = Parameters().run(rows, {"mine": answers})
        found = next(r for r in outcome.results if r.metric == "exact_match" and r.slice == ALL)
        assert found.low is not None
        assert found.high is not None
        widths.append(found.high - found.low)
    assert widths[0] > 1.2 * widths[1]


def test_several_systems_are_compared_on_the_same_tasks() -> None:
    tasks = asked()
    worse = {k: a for i, (k, a) in enumerate(right(tasks).items()) if i % 4}
    outcome = Parameters(pairs=[["mine", "theirs"]]).run(tasks, {"mine": right(tasks), "theirs": worse})
    found = next(c for c in outcome.comparisons if c.system == "mine" and c.metric == "exact_match" and c.slice == ALL)
    assert found.difference == pytest.approx(0.25)
    assert found.low is not None
    assert found.low > 0
    with pytest.raises(UserError, match="their"):
        Parameters(pairs=[["mine", "their"]]).run(tasks, {"mine": right(tasks), "theirs": worse})


def test_no_schema_says_whether_names_of_results_fit() -> None:
    tasks = [replace(t, flags=("symbolic_reference",)) if i % 2 else t for i, t in enumerate(asked())]
    answers = right(tuple(tasks))
    for task in tasks:
        if task.flags:
            answers[task.id] = Answer((Call("book", {"place": "$var1.place$", "people": "$var1.people$"}),))
    outcome = Parameters().run(tasks, {"mine": answers})
    assert value(outcome, "schema_valid") == 1
    assert value(outcome, "schema_valid", "flag=symbolic_reference") is None


def test_splits_and_forms() -> None:
    data = made(split="train")
    with pytest.raises(UserError) as told:
        Parameters(form="calls").tasks(data)
    assert "split=all" in told.value.fix
    assert len(Parameters(form="calls", split="train").tasks(data)) == len(data.calls)
    assert Parameters().tasks(data)[0].id == "r0"
    assert Parameters().tasks(TaskSet("toy", made().calls))[0].id == "t0"
    assert all(t.level for t in Parameters().tasks(made()))


@pytest.mark.parametrize("change", [{"form": "call"}, {"split": "dev"}, {"resamples": 0}, {"pairs": [["a", "a"]]}])
def test_bad_settings_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(UserError) as told:
        Parameters(**change)  # type: ignore[arg-type]
    assert f"suite.parameters.{next(iter(change))}" in told.value.where


def test_execution_is_tried_only_where_it_could_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = tuple(replace(t, source="parambench_aws") for t in asked())
    tried = []
    monkeypatch.setattr(suite_module, "_has_cloud", lambda: True)

    made = []

    class Executor:
        def __init__(self) -> None:
            made.append(self)

        def match(self, task: ParamTask, arguments: object) -> bool:
            tried.append(task.id)
            return len(tried) == 1

    effects = SimpleNamespace(Executor=Executor)
    monkeypatch.setitem(sys.modules, "toolsavvy.parameters.cloud.effects", effects)  # type: ignore[arg-type]
    answers = right(tasks)
    for task in tasks[:2]:
        answers[task.id] = Answer((Call("book", {"place": "elsewhere", "people": 0}),))
    answers[tasks[2].id] = Answer(None)
    answers[tasks[3].id] = Answer((Call("cancel", {}),))
    outcome = Parameters().run(tasks, {"mine": answers})
    assert tried == [tasks[0].id, tasks[1].id] and len(made) == 1  # it keeps what references do
    assert value(outcome, "execution_match") == pytest.approx(1 - 3 / len(tasks))
    assert value(Parameters(execute=False).run(tasks, {"mine": answers}), "execution_match") is None


def test_records_can_be_written_whatever_was_predicted(tmp_path: Path) -> None:
    tasks = asked()
    deep: dict[str, object] = {}
    for _ in range(200):
        deep = {"a": deep}
    answers = right(tasks)
    answers[tasks[0].id] = Answer((Call("book", {"place": math.nan, "people": math.inf, "more": deep}),))
    outcome = Parameters().run(tasks, {"mine": answers})
    write_jsonl(tmp_path / "p.jsonl", outcome.predictions["mine"])
    first = json.loads((tmp_path / "p.jsonl").read_text().splitlines()[0])
    assert first["calls"][0]["arguments"]["place"] == "nan"
    assert first["exact"] is False
    assert plain({"a": [1, (2.5, None, True)]}) == {"a": [1, [2.5, None, True]]}


def test_ten_thousand_answers_are_scored_in_seconds() -> None:
    data = made(10_000)
    start = time.process_time()
    tasks = Parameters(form="calls").tasks(data)
    answers = right(tasks)
    for i, task in enumerate(tasks):
        if i % 3:
            answers[task.id] = Answer((Call("book", {**task.reference.arguments, "people": -1, "odd": i}),))
    outcome = Parameters(form="calls").run(tasks, {"mine": answers})
    assert value(outcome, "exact_match") == pytest.approx(1 / 3, abs=0.01)
    assert time.process_time() - start < 10
