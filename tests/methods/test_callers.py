"""Who picks and fills: the model by what the request adds to a name, rules by request and context; toy weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from toolsavvy.catalog import Tool
from toolsavvy.config.compose import compose, typed
from toolsavvy.config.schema import Config
from toolsavvy.generators.parambench.oracle.reader import rules
from toolsavvy.methods import callers
from toolsavvy.methods.callers import ModelCaller, RuleFiller, equip, for_tool
from toolsavvy.suites.downstream import Downstream
from toolsavvy.tasks import ParamTask, Reference, Upstream

VPC = Tool("ec2:CreateVpc", "ec2:CreateVpc", parameters={"type": "object", "properties": {"CidrBlock": {}}})
SUBNET = Tool("ec2:CreateSubnet", "ec2:CreateSubnet", parameters={"type": "object", "properties": {"VpcId": {}}})
VOLUME = Tool("ec2:AttachVolume", "ec2:AttachVolume", parameters={"type": "object"})
TASK = ParamTask(
    "t", "Delete the VPC called core.", (VPC,), (Reference("ec2:CreateVpc", {"CidrBlock": "10.0.0.0/16"}),),
    upstream=(
        Upstream(
            "ec2:CreateVpc", {"CidrBlock": "10.0.0.0/16"},
            {"Vpc": {"VpcId": "vpc-0a1b2c3d4e5f60718", "Tags": [{"Key": "Name", "Value": "core"}]}},
        ),
    ),
    unordered=("Tags",),
)  # fmt: skip


@pytest.fixture(scope="module")
def config() -> Config:
    return typed(
        compose(["method=evaluate", "catalog=toy", "model=toy", "logger=none", "trainer.precision=fp32"]).config
    )


def test_rules_fill_what_was_picked_and_give_the_right_arguments_to_the_right_tool_alone() -> None:
    delete = Tool("ec2:DeleteVpc", "ec2:DeleteVpc", parameters={"type": "object", "properties": {"VpcId": {}}})
    right, other, none = RuleFiller().fill([(TASK, VPC), (TASK, delete), (TASK, VOLUME)])
    assert right == {"CidrBlock": "10.0.0.0/16"}
    assert other == {"VpcId": "vpc-0a1b2c3d4e5f60718"}  # read from request and context
    assert none is None


def test_no_rule_breaks_on_a_request_that_it_was_not_made_for() -> None:
    every = [Tool(name, name, parameters={"type": "object", "properties": {}}) for name in sorted(rules())]
    told = replace(TASK, instruction="Something else entirely, please.", upstream=())
    assert len(every) > 80
    for task in (TASK, told):
        found = RuleFiller().fill([(task, tool) for tool in every])
        assert all(given is None or isinstance(given, dict) for given in found)


def test_what_a_model_is_asked_holds_nothing_of_the_reference() -> None:
    asked = for_tool(TASK, SUBNET)
    assert (asked.tool, dict(asked.reference.arguments), asked.unordered) == (SUBNET, {}, ())
    assert (asked.instruction, asked.upstream) == (TASK.instruction, TASK.upstream)
    assert asked.id != for_tool(TASK, VPC).id != TASK.id


def test_a_tools_score_depends_on_request_and_tool_alone(config: Config) -> None:
    model = ModelCaller(config)
    other = replace(TASK, id="u", instruction="Give the route table a name.")
    both = model.scores([TASK, other], [[VPC, SUBNET, VOLUME], [VOLUME, VPC]])
    alone = model.scores([TASK], [[VOLUME]])
    assert [len(row) for row in both] == [3, 2]
    assert alone[0][0] == pytest.approx(both[0][2], abs=1e-5)
    assert both[0][0] != pytest.approx(both[1][1], abs=1e-7)
    assert model.scores([TASK], [[]])[0].shape == (0,)


def test_a_name_that_is_likely_anyway_is_no_better_for_it(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = {VPC.name: -1.0, SUBNET.name: -5.0}
    model = ModelCaller(config)

    def said(requests: Any, names: Any) -> list[np.ndarray]:
        gain = 0.0 if requests == [callers.NOTHING] else 1.0
        return [np.array([usual[n] + gain * (n == SUBNET.name) for n in own]) for own in names]

    monkeypatch.setattr(model, "_likelihoods", said)
    assert model.scores([TASK], [[VPC, SUBNET]])[0].tolist() == [0.0, 1.0]


def test_a_model_fills_what_was_picked_and_writes_nothing_twice(config: Config, tmp_path: Path) -> None:
    first, again = (ModelCaller(config, tmp_path, max_tokens=4).fill([(TASK, VPC), (TASK, SUBNET)]) for _ in range(2))
    assert first == again
    assert len(first) == 2
    assert list(tmp_path.rglob("*.jsonl"))
    assert ModelCaller(config).fill([]) == []


def test_a_suite_gets_those_that_it_asks_for(config: Config, tmp_path: Path) -> None:
    run = SimpleNamespace(checkpoints=tmp_path)
    rules, model = Downstream(), Downstream(caller="llm", max_tokens=7)
    for suite in (rules, model):
        equip(suite, config, run)  # type: ignore[arg-type]
    assert isinstance(rules.filler, RuleFiller) and isinstance(rules.picker, ModelCaller)
    assert model.filler is model.picker and model.filler.max_tokens == 7
