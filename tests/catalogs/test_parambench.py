"""The documented layout of parameter tasks: what is written is read back, and what is wrong is said with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolsavvy.catalog import Tool
from toolsavvy.catalogs.parambench import VIOLATES, load, save
from toolsavvy.errors import UserError
from toolsavvy.tasks import ParamTask, Reference, Upstream

SCHEMA = {
    "type": "object",
    "properties": {"CidrBlock": {"type": "string"}, "Count": {"type": "integer"}},
    "required": ["CidrBlock"],
}
TOOL = Tool("ec2:CreateVpc", "ec2:CreateVpc", "Makes a network.", "ec2", parameters=SCHEMA)
OTHER = Tool("ec2:DeleteVpc", "ec2:DeleteVpc", "Takes it down.", "ec2")


def task(number: int = 1, **changes: Any) -> ParamTask:
    fields: dict[str, Any] = {
        "id": f"t{number}",
        "instruction": f"make network {number}",
        "tools": (TOOL,),
        "references": (Reference(TOOL.name, {"CidrBlock": "10.0.0.0/16"}, {"CidrBlock": ("10.0.0.0/16", "")}),),
        "upstream": (Upstream("ec2:DescribeVpcs", {"MaxResults": 5}, {"Vpcs": []}, "before"),),
        "source": "parambench",
        "category": "ec2",
        "cluster": f"c{number}",
        "split": "train",
        "level": "L2",
        "conditions": 1,
        "unordered": ("Tags",),
        "facts": {"world": 5},
    }
    return ParamTask(**{**fields, **changes})


def row(**changes: Any) -> dict[str, Any]:
    fields = {"id": "a", "instruction": "make one", "tool": TOOL.id, "arguments": {"CidrBlock": "10.0.0.0/16"}}
    return {**fields, **changes}


def written(folder: Path, *rows: Any, tools: bool = True) -> Path:
    lines = [r if isinstance(r, str) else json.dumps(r) for r in rows]
    (folder / "tasks.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if tools:
        (folder / "tools.jsonl").write_text(json.dumps(vars(TOOL)) + "\n", encoding="utf-8")
    return folder


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    tasks = [task(1), task(2, split="validation", upstream=(), facts={}), task(3, split="test", conditions=0)]
    assert save(tmp_path, tasks, [TOOL, OTHER]) == ("tasks.jsonl", "tools.jsonl")
    data = load(tmp_path)
    assert data.tasks is not None
    assert list(data.tasks.calls) == tasks
    assert data.catalog.tools == (TOOL, OTHER)
    assert {split: [q.id for q in queries] for split, queries in data.splits.items()} == {
        "train": ["t1"], "validation": ["t2"], "test": ["t3"],
    }  # fmt: skip
    assert data.splits["test"][0].relevant == {TOOL.id: 1}
    assert data.headline == ("test",)


def test_a_task_may_carry_its_tool_and_leave_the_rest_out(tmp_path: Path) -> None:
    path = written(tmp_path, row(tool=vars(TOOL)), row(id="b", tool=vars(TOOL)), tools=False)
    data = load(path / "tasks.jsonl")
    assert data.tasks is not None
    first = data.tasks.calls[0]
    assert (first.tool, first.split, first.level, first.cluster) == (TOOL, "", "L1", "a")
    assert [q.id for q in data.splits["test"]] == ["a", "b"]


def test_a_reference_that_breaks_its_schema_is_kept_and_flagged(tmp_path: Path) -> None:
    data = load(written(tmp_path, row(), row(id="b", arguments={"Count": "many"})))
    assert data.tasks is not None
    assert [t.flags for t in data.tasks.calls] == [(), (VIOLATES,)]
    assert data.tasks.audit["references that violate their schema"] == 1


@pytest.mark.parametrize(
    ("bad", "field", "what"),
    [
        (row(id=""), "id", "empty"),
        ({k: v for k, v in row().items() if k != "arguments"}, "arguments", "missing"),
        (row(arguments=[1]), "arguments", "a list"),
        (row(tool="ec2:CreateVpd"), "tool", "unknown tool"),
        (row(tool=3), "tool", "a number"),
        (row(level="L6"), "level", "unknown level"),
        (row(split="dev"), "split", "unknown split"),
        (row(conditions=-1), "conditions", "negative"),
        (row(context={"name": "x"}), "context", "an object"),
        (row(context=["x"]), "context.0", "text"),
        (row(context=[{"arguments": {}}]), "name", "missing"),
        (row(accepted={"CidrBlock": "x"}), "accepted.CidrBlock", "no list"),
        (row(unordered=[3]), "unordered", "no text"),
        (row(facts=[]), "facts", "a list"),
    ],
)
def test_a_bad_record_is_reported_with_line_and_field(tmp_path: Path, bad: Any, field: str, what: str) -> None:
    with pytest.raises(UserError) as refused:
        load(written(tmp_path, row(id="first"), bad))
    assert f"tasks.jsonl, line 2, field '{field}'" in refused.value.where or (
        "line 2" in refused.value.where and repr(field) in refused.value.where
    )
    assert what in refused.value.render()
    assert refused.value.expected


def test_ids_are_unique_and_lines_are_json(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"occurs twice \(first: .*line 1\)"):
        load(written(tmp_path, row(), row()))
    with pytest.raises(UserError, match="line 2: broken JSON"):
        load(written(tmp_path, row(), '{"id": "b", '))
    with pytest.raises(UserError, match="differs from the one"):
        load(written(tmp_path, row(tool={**vars(TOOL), "description": "Another text."})))


def test_no_path_and_an_empty_folder_say_what_is_needed(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"catalog.path") as unset:
        load(None)
    assert "tasks.jsonl" in unset.value.expected
    with pytest.raises(UserError, match=r"has no tasks\.jsonl"):
        load(tmp_path)
