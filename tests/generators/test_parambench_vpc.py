"""Stories of a VPC's core: they run, say what they mean without the API's words, and can be solved by rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from toolsavvy.calls.matching import Comparison
from toolsavvy.catalog import Tool
from toolsavvy.catalogs.aws import Source
from toolsavvy.generators.parambench.oracle import lexicon
from toolsavvy.generators.parambench.oracle.reader import derive
from toolsavvy.generators.parambench.oracle.sight import Sight
from toolsavvy.generators.parambench.playing import play, story_seed
from toolsavvy.generators.parambench.scenarios import load_all, words
from toolsavvy.generators.parambench.scene import PROGRAMS, Program
from toolsavvy.tasks import ParamTask, Upstream

MODULES = (
    "vpcs",
    "subnets",
    "routing",
    "routes",
    "internet_gateways",
    "security_groups",
    "security_rules",
    "network_acls",
    "peering",
    "dhcp_options",
    "prefix_lists",
)
STORIES = 4
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
        seed = story_seed(7, operation, program.__name__, number)
        task = play(operation, program, seed, tools()[operation])
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
    assert len({operation for operation, _ in OWN}) >= 32


def test_programs_of_an_operation_can_be_told_apart() -> None:
    names = [(operation, program.__module__, program.__name__) for operation, program in OWN]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("operation", "program"), OWN, ids=[f"{o}.{p.__name__}" for o, p in OWN])
def test_a_story_runs_and_is_solved_by_rules(operation: str, program: Program) -> None:
    names = sorted(set(fields(tools()[operation].parameters)))
    for task in stories(operation, program):
        assert not task.flags, task.reference.arguments
        assert 0 <= len(task.upstream) <= 11
        assert 1 <= len(re.split(r"(?<=[.?!])\s", task.instruction)) <= 7
        said = [name for name in names if re.search(rf"\b{name}\b", task.instruction)]
        assert not said, (said, task.instruction)
        assert operation.partition(":")[2] not in task.instruction
        found = derive(Sight.of(task))
        same = Comparison(task.tool.parameters, task.unordered).same(found or {}, task.reference.arguments)
        assert same, (task.instruction, task.reference.arguments, found)


def test_stories_of_a_program_differ_and_come_back_by_seed() -> None:
    for operation, program in OWN[::4]:
        first = stories(operation, program)
        assert len({task.instruction for task in first}) > 1
        again = play(operation, program, story_seed(7, operation, program.__name__, 0), tools()[operation])
        assert again == first[0]


def test_the_stories_spread_over_all_levels() -> None:
    levels = {task.level for one in OWN for task in stories(*one)}
    assert levels == {"L1", "L2", "L3", "L4", "L5"}


def test_ids_in_the_reference_come_from_instruction_or_context() -> None:
    for one in OWN:
        for task in stories(*one):
            seen = task.instruction + str([(c.arguments, c.output) for c in task.upstream])
            wanted = re.findall(r"\b[a-z]+(?:-[a-z]+)*-[0-9a-f]{17}\b", str(task.reference.arguments))
            assert all(identifier in seen for identifier in wanted), task.reference.arguments


@pytest.mark.parametrize("number", range(100))
def test_numbers_in_words_come_back(number: int) -> None:
    assert words.number_of(words.number_word(number)) == number
    assert lexicon.number(f"room for {words.number_word(number)} entries") == number


def test_a_word_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="no number"):
        words.number_of("plenty")


def test_times_ports_and_protocols_are_read() -> None:
    assert lexicon.seconds("after ten minutes") == 600
    assert lexicon.seconds("for an hour") == 3600
    assert lexicon.seconds("at once") is None
    assert lexicon.ports("TCP ports 8000 to 8010") == (8000, 8010)
    assert lexicon.ports("open HTTPS") == (443, 443)
    assert lexicon.ports("nothing") is None
    assert lexicon.protocol("all traffic") == "-1"
    assert lexicon.protocol("NTP") == "udp"


def test_a_thing_is_found_by_name_and_a_new_name_is_not_among_the_known() -> None:
    tags = [{"Key": "Name", "Value": "fern-dev"}]
    made = [
        Upstream("ec2:CreateVpc", {"CidrBlock": "10.0.0.0/16"}, {"Vpc": {"VpcId": f"vpc-{digit * 17}", "Tags": own}})
        for digit, own in (("a", tags), ("b", []))
    ]
    sight = Sight(tools()["ec2:CreateSubnet"], "Cut wren-qa-a out of the VPC fern-dev.", tuple(made))
    assert lexicon.the(sight, "vpc") == f"vpc-{'a' * 17}"
    assert lexicon.new_names(sight) == ["wren-qa-a"]
    with pytest.raises(LookupError, match="no rtb"):
        lexicon.the(sight, "rtb")
