"""A toy world of four stories that were carried out on moto: a catalog of five operations, and a query a story."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from toolsavvy.catalog import Catalog, Query, RetrievalSet, Tool
from toolsavvy.generators.parambench.playing import play
from toolsavvy.generators.parambench.scene import Goal, Scene
from toolsavvy.tasks import ParamTask, TaskSet

NAMES = ("ec2:CreateVpc", "ec2:CreateDhcpOptions", "ec2:CreateInternetGateway", "ec2:CreateTags", "ec2:DeleteVpc")
TOOLS = tuple(Tool(name, name, group="ec2", parameters={"type": "object"}) for name in NAMES)
CATALOG = Catalog("toy", TOOLS)


def vpc(scene: Scene) -> Mapping[str, Any]:
    return {"CidrBlock": "10.0.0.0/16"}


def options(scene: Scene) -> Mapping[str, Any]:
    return {"DhcpConfigurations": [{"Key": "domain-name", "Values": ["a.example"]}]}


def gateway(scene: Scene) -> Mapping[str, Any]:
    return {}


def tags(scene: Scene) -> Mapping[str, Any]:
    made = scene.do("ec2:CreateVpc", CidrBlock="10.0.0.0/16")
    return {"Resources": [made["Vpc"]["VpcId"]], "Tags": [{"Key": "team", "Value": "net"}]}


@cache
def executed_set() -> RetrievalSet:
    tasks = []
    for i, program in enumerate((vpc, options, gateway, tags)):

        def story(scene: Scene, program: Any = program, name: str = NAMES[i]) -> Goal:
            return Goal(program(scene), (f"do {name}",))

        found = play(NAMES[i], story, 7 + i, TOOLS[i])
        assert isinstance(found, ParamTask), found
        tasks.append(replace(found, id=f"t{i}", level=f"L{1 + i % 2}"))
    queries = tuple(Query(t.id, t.instruction, {t.tool.id: 1}) for t in tasks)
    tasks_of = TaskSet("toy", tuple(tasks))
    return RetrievalSet(CATALOG, {"train": (), "test": queries}, headline=("test",), tasks=tasks_of)
