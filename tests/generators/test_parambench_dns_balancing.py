"""Stories of load balancers and DNS: they run, don't use the API's words, and rules that see no goal solve them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from toolsavvy.calls.matching import Comparison
from toolsavvy.catalog import Tool
from toolsavvy.catalogs.aws import Source
from toolsavvy.generators.parambench.oracle import balancing
from toolsavvy.generators.parambench.oracle.actions import conditions
from toolsavvy.generators.parambench.oracle.reader import derive
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.playing import play, story_seed
from toolsavvy.generators.parambench.scenarios import load_all
from toolsavvy.generators.parambench.scene import PROGRAMS, Program
from toolsavvy.tasks import LEVELS, ParamTask

SERVICES = ("elbv2", "route53")
STORIES = 5
"""Of each program."""
load_all()
OWN = [
    (operation, program)
    for operation, programs in sorted(PROGRAMS.items())
    for program in programs
    if operation.startswith(SERVICES)
]


@cache
def tools() -> dict[str, Tool]:
    """Tools of both services, named by their ids as the tasks have them."""
    found = Source.open(None).read(list(SERVICES))[0]
    return {t.id: Tool(t.id, t.id, t.description, t.group, parameters=t.parameters) for t in found}


@cache
def stories(operation: str, program: Program) -> tuple[ParamTask, ...]:
    """A few stories of a program, none of which the cloud may refuse."""
    seeds = [story_seed(11, operation, program.__name__, number) for number in range(STORIES)]
    played = [play(operation, program, seed, tools()[operation]) for seed in seeds]
    assert all(isinstance(task, ParamTask) for task in played), played
    return tuple(task for task in played if isinstance(task, ParamTask))


def fields(schema: Any) -> Iterator[str]:
    """Every name of an argument in a schema that is no plain word."""
    if isinstance(schema, dict):
        for key, inner in schema.get("properties", {}).items():
            if re.search(r"[a-z][A-Z]", key):
                yield key
            yield from fields(inner)
        yield from fields(schema.get("items"))


def test_at_least_as_many_operations_as_were_asked_for() -> None:
    count = Counter(operation.partition(":")[0] for operation in {operation for operation, _ in OWN})
    assert count["elbv2"] >= 30
    assert count["route53"] >= 20


@pytest.mark.parametrize(("operation", "program"), OWN, ids=[f"{o}.{p.__name__}" for o, p in OWN])
def test_a_story_runs_and_is_solved_by_rules(operation: str, program: Program) -> None:
    names = sorted(set(fields(tools()[operation].parameters)))
    for task in stories(operation, program):
        assert not task.flags, task.reference.arguments
        assert len(task.upstream) <= 11
        said = [name for name in names if re.search(rf"\b{name}\b", task.instruction)]
        assert not said, (said, task.instruction)
        assert operation.partition(":")[2] not in task.instruction
        found = derive(Sight.of(task))
        same = Comparison(task.tool.parameters, task.unordered).same(found or {}, task.reference.arguments)
        assert same, (task.instruction, task.reference.arguments, found)


def test_stories_of_a_program_differ_and_come_back_by_seed() -> None:
    for operation, program in OWN[::5]:
        first = stories(operation, program)
        assert len({task.instruction for task in first}) == STORIES
        assert play(operation, program, int(first[0].id.rpartition("/")[2]), tools()[operation]) == first[0]


def test_the_stories_spread_over_all_levels() -> None:
    levels = Counter(task.level for one in OWN for task in stories(*one))
    assert set(levels) == set(LEVELS)
    assert min(levels.values()) >= 0.05 * levels.total(), levels  # the whole set is held to more, by its audit


def test_what_the_cloud_made_up_can_be_seen() -> None:
    made = re.compile(
        r"arn:aws:elasticloadbalancing:[^\"]+|\b(?:vpc|subnet|sg|i|eipalloc)-[0-9a-f]{17}\b|/hostedzone/\w+"
    )
    for one in OWN:
        for task in stories(*one):
            seen = task.instruction + json.dumps([(c.arguments, c.output) for c in task.upstream])
            assert all(value in seen for value in made.findall(json.dumps(task.reference.arguments)))


def test_a_name_is_not_found_inside_a_longer_one() -> None:
    names = {"shop-eu": "short", "shop-eu-lb": "long", "example.com": "zone"}
    assert balancing.mentioned("Remove shop-eu-lb.", names) == ["long"]
    assert balancing.mentioned("Remove shop-eu. Then shop-eu-lb.", names) == ["short", "long"]
    assert balancing.mentioned("Show www.example.com", names) == []
    assert balancing.mentioned("Show the zone example.com.", names) == ["zone"]


def test_several_conditions_are_read_from_one_text() -> None:
    text = "requests for the host a.example.com and to anything below /img/ or /js/ and by the method GET"
    assert conditions(text) == [
        {"Field": "host-header", "HostHeaderConfig": {"Values": ["a.example.com"]}},
        {"Field": "path-pattern", "PathPatternConfig": {"Values": ["/img/*", "/js/*"]}},
        {"Field": "http-request-method", "HttpRequestMethodConfig": {"Values": ["GET"]}},
    ]
