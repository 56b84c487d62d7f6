"""Stories of EC2 around a VPC's core: they run, say what they mean without the API's words, and rules solve them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from functools import cache
from ipaddress import IPv4Network
from typing import Any

import pytest

from toolsavvy.calls.matching import Comparison
from toolsavvy.catalog import Tool
from toolsavvy.catalogs.aws import Source
from toolsavvy.generators.parambench.oracle.finding import meant, spoken
from toolsavvy.generators.parambench.oracle.reader import derive
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.playing import play, story_seed
from toolsavvy.generators.parambench.scenarios import load_all, nets
from toolsavvy.generators.parambench.scene import PROGRAMS, Program
from toolsavvy.tasks import ParamTask, Upstream

MODULES = (
    "addresses",
    "endpoints",
    "flow_logs",
    "interfaces",
    "lookups",
    "machines",
    "tagging",
    "templates",
    "transit",
    "transit_routes",
    "vpn",
)
STORIES = 3
"""Of each program; every one is a few hundredths of a second."""
load_all()
OWN = [
    (operation, program)
    for operation, programs in sorted(PROGRAMS.items())
    for program in programs
    if program.__module__.rpartition(".")[2] in MODULES
]


@cache
def tools() -> dict[str, Tool]:
    """Tools of EC2, named by their ids as the tasks have them."""
    found = Source.open(None).read(["ec2"])[0]
    return {t.id: Tool(t.id, t.id, t.description, t.group, parameters=t.parameters) for t in found}


@cache
def stories(operation: str, program: Program) -> tuple[ParamTask, ...]:
    """A few stories of a program, none of which the cloud may refuse."""
    played = []
    for number in range(STORIES):
        task = play(operation, program, story_seed(3, operation, program.__name__, number), tools()[operation])
        assert isinstance(task, ParamTask), task
        played.append(task)
    return tuple(played)


def fields(schema: Any) -> Iterator[str]:
    """Every name of an argument in a schema that is no plain word."""
    if isinstance(schema, dict):
        for key, inner in schema.get("properties", {}).items():
            if re.search(r"[a-z][A-Z]", key):
                yield key
            yield from fields(inner)
        yield from fields(schema.get("items"))


def test_at_least_as_many_operations_as_were_asked_for() -> None:
    assert len({operation for operation, _ in OWN}) >= 60


@pytest.mark.parametrize(("operation", "program"), OWN, ids=[f"{o}.{p.__name__}" for o, p in OWN])
def test_a_story_around_the_core_runs_and_is_solved_by_rules(operation: str, program: Program) -> None:
    names = sorted(set(fields(tools()[operation].parameters)))
    for task in stories(operation, program):
        assert not task.flags, task.reference.arguments
        assert len(task.upstream) <= 11
        assert not [name for name in names if re.search(rf"\b{name}\b", task.instruction)], task.instruction
        assert operation.partition(":")[2] not in task.instruction
        assert not re.search(r"\b(?:None|True|False)\b|[{}\[\]]|  |\.\.", task.instruction), task.instruction
        found = derive(Sight.of(task))
        same = Comparison(task.tool.parameters, task.unordered).same(found or {}, task.reference.arguments)
        assert same, (task.instruction, task.reference.arguments, found)


def test_stories_around_the_core_differ_and_come_back_by_seed() -> None:
    for operation, program in OWN[::5]:
        first = stories(operation, program)
        assert len({(task.instruction, str(task.reference.arguments)) for task in first}) == STORIES
        again = play(operation, program, story_seed(3, operation, program.__name__, 0), tools()[operation])
        assert again == first[0]


def test_stories_around_the_core_spread_over_all_levels() -> None:
    assert {task.level for one in OWN for task in stories(*one)} == {"L1", "L2", "L3", "L4", "L5"}


def test_ids_of_the_reference_are_said_or_shown() -> None:
    for one in OWN:
        for task in stories(*one):
            seen = task.instruction + str([(c.arguments, c.output) for c in task.upstream])
            wanted = re.findall(r"\b[a-z]+(?:-[a-z]+)*-[0-9a-f]{8,17}\b", str(task.reference.arguments))
            assert all(identifier in seen for identifier in wanted), task.reference.arguments


def test_parts_of_a_network_are_found_again_by_their_words() -> None:
    for seed in range(400):
        rng = random.Random(seed)
        whole = nets.private(rng, rng.choice([16, 18, 20, 22, 24]))
        for part in (nets.part(rng, whole), nets.part(rng, whole, 27)):
            assert IPv4Network(part.cidr).subnet_of(IPv4Network(whole))
            assert nets.find_part(f"It is {part.words} of {whole}.", whole) == part.cidr


@pytest.mark.parametrize(
    ("words", "cidr"),
    [
        ("the second /24", "10.8.1.0/24"),
        ("the last /24", "10.8.255.0/24"),
        ("the last but one /20", "10.8.224.0/20"),
        ("the upper half", "10.8.128.0/17"),
        ("the third quarter", "10.8.128.0/18"),
        ("nothing of that", None),
    ],
)
def test_words_for_a_part_mean_what_an_engineer_means(words: str, cidr: str | None) -> None:
    assert nets.find_part(f"use {words} of it", "10.8.0.0/16") == cidr


def test_a_block_that_a_network_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="has no /24 at 256"):
        nets.block("10.8.0.0/16", 24, 256)
    with pytest.raises(ValueError, match="has no /8"):
        nets.block("10.8.0.0/16", 8, 0)
    with pytest.raises(ValueError, match="no /12 fits"):
        nets.inside(random.Random(0), "10.8.0.0/16", 12)


def test_networks_are_private_and_apart() -> None:
    found = nets.several(random.Random(1), 20)
    assert len(set(found)) == 20
    assert all(IPv4Network(cidr).is_private for cidr in found)
    assert not any(nets.overlaps(a, b) for i, a in enumerate(found) for b in found[:i])
    assert nets.host("10.8.1.0/24", 10) == "10.8.1.10"
    assert nets.next_block("10.8.1.0/24") == "10.8.2.0/24"


def test_things_are_found_by_name_in_a_list_of_tags_and_names_are_whole() -> None:
    rows = [
        {"Key": "Name", "ResourceId": f"i-{n:017x}", "ResourceType": "instance", "Value": name}
        for n, name in enumerate(["orion-prod", "orion-prod-web"])
    ]
    tool = Tool("ec2:StopInstances", "ec2:StopInstances", "", "ec2")
    sight = Sight(tool, "Stop the instance orion-prod-web.", (Upstream("ec2:DescribeTags", {}, {"Tags": rows}),))
    assert spoken(sight, "i") == [f"i-{1:017x}"]
    assert spoken(sight, "i", "orion-prod first, then orion-prod-web") == [f"i-{0:017x}", f"i-{1:017x}"]
    with pytest.raises(LookupError, match="no subnet"):
        meant(sight, "subnet")
