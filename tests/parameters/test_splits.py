"""Division of tasks: sizes, clusters, tools, seeds, and what is said where there are too few."""

from __future__ import annotations

from typing import Any

import pytest

from toolsavvy.catalog import Tool
from toolsavvy.errors import UserError
from toolsavvy.parameters.splits import Division, divide
from toolsavvy.tasks import ParamTask, Reference

SIZES: dict[str, Any] = {"labelled": 30, "unlabelled": 40, "validation": 20, "test": 50, "seed": 0}


def tasks(records: int = 120, calls: int = 3, tools: int = 24, split: str = "") -> list[ParamTask]:
    """Records of several calls; the tool depends on record and call."""
    made = []
    for r in range(records):
        for c in range(calls):
            tool = Tool(id=f"tool{(r // 4 * 7 + c * 5) % tools}", name=f"tool{(r // 4 * 7 + c * 5) % tools}")
            made.append(
                ParamTask(f"{r}-{c}", "…", (tool,), (Reference(tool.name, {"r": r}),), cluster=f"r{r}", split=split)
            )
    return made


def given(records: int = 120) -> list[ParamTask]:
    from dataclasses import replace

    def split(i: int) -> str:
        return "test" if i % 3 == 0 else "validation" if i % 7 == 0 else "train"

    return [replace(t, split=split(int(t.cluster[1:]))) for t in tasks(records, tools=60)]


def parts(found: Division) -> dict[str, tuple[ParamTask, ...]]:
    return {name: getattr(found, name) for name in ("labelled", "unlabelled", "validation", "test")}


def check(found: Division, tools: bool) -> None:
    owners: dict[str, str] = {}
    for name, part in parts(found).items():
        for task in part:
            assert owners.setdefault(task.cluster, name) == name
    if tools:
        tested = {t.tool.id for t in found.test}
        assert not tested & {t.tool.id for p in (found.labelled, found.unlabelled, found.validation) for t in p}


@pytest.mark.parametrize("by", ["given", "tool", "record"])
@pytest.mark.parametrize("seed", range(5))
def test_sizes_clusters_and_tools(by: str, seed: int) -> None:
    source = given(400) if by == "given" else tasks(240)
    found = divide(source, by=by, **{**SIZES, "seed": seed})
    assert [len(p) for p in parts(found).values()] == [30, 40, 20, 50]
    check(found, tools=by != "record")
    order = {t.id: i for i, t in enumerate(source)}
    for part in parts(found).values():
        assert [order[t.id] for t in part] == sorted(order[t.id] for t in part)


def test_given_keeps_to_the_sources_division() -> None:
    found = divide(given(240), by="given", **SIZES)
    assert {t.split for t in found.test} == {"test"}
    assert {t.split for t in found.validation} == {"validation"}
    assert {t.split for t in (*found.labelled, *found.unlabelled)} == {"train"}


def test_given_without_train_learns_from_validation() -> None:
    source = [t for t in given(480) if t.split != "train"]
    found = divide(source, by="given", **{**SIZES, "labelled": 10, "unlabelled": 10, "validation": 5})
    assert {t.split for t in (*found.labelled, *found.unlabelled, *found.validation)} == {"validation"}
    check(found, tools=True)


def test_given_without_any_division_goes_by_record() -> None:
    assert divide(tasks(), by="given", **SIZES) == divide(tasks(), by="record", **SIZES)


@pytest.mark.parametrize("by", ["tool", "record"])
def test_no_size_of_test_is_everything_left(by: str) -> None:
    found = divide(tasks(), by=by, **{**SIZES, "test": 0})
    check(found, tools=by == "tool")
    assert len(found.test) > 50
    if by == "record":
        used = {t.cluster for name, p in parts(found).items() if name != "test" for t in p}
        assert len(found.test) == 3 * (120 - len(used))


def test_seeds_differ_and_repeat() -> None:
    one, again = (divide(tasks(), by="record", **SIZES) for _ in range(2))
    other = divide(tasks(), by="record", **{**SIZES, "seed": 1})
    assert one == again
    assert one.test != other.test


def test_earlier_parts_do_not_hang_on_later_sizes() -> None:
    one = divide(tasks(), by="record", **SIZES)
    other = divide(tasks(), by="record", **{**SIZES, "unlabelled": 60})
    assert (one.test, one.labelled, one.validation) == (other.test, other.labelled, other.validation)
    assert {t.id for t in one.unlabelled} < {t.id for t in other.unlabelled}


def test_too_few_tasks_are_told_with_what_is_there() -> None:
    with pytest.raises(UserError) as told:
        divide(tasks(10), by="record", **SIZES)
    assert "30 tasks" in told.value.what
    assert told.value.where == "method.division"
    assert "30 labelled + 40 unlabelled + 20 validation + 50 test" in told.value.expected


def test_a_part_that_cant_be_filled_names_its_key() -> None:
    one_tool_each = tasks(90, calls=1, tools=3)
    with pytest.raises(UserError) as told:
        divide(one_tool_each, by="tool", **{**SIZES, "labelled": 10, "unlabelled": 25, "validation": 5, "test": 45})
    assert told.value.where.startswith("method.division.")
    assert "by=record" in told.value.fix


def test_one_tool_cant_be_divided_by_tool() -> None:
    with pytest.raises(UserError, match="1 tool"):
        divide(tasks(200, tools=1), by="tool", **SIZES)


def test_a_source_without_test_is_refused_as_given() -> None:
    with pytest.raises(UserError) as told:
        divide(tasks(split="train"), by="given", **SIZES)
    assert told.value.fix == "method.division.by=record"


def test_unknown_ways_are_refused() -> None:
    with pytest.raises(UserError, match="apple"):
        divide(tasks(), by="apple", **SIZES)
