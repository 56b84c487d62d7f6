from __future__ import annotations

import itertools
import logging
import os
import random
import re
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from question_world import catalog, property_names

from toolsavvy.attacks import groups_of, question_only, question_prior
from toolsavvy.benchmark import ToolText, YesNoItem, texts_of
from toolsavvy.catalog import Catalog, Tool, parameter_names, split_words
from toolsavvy.catalogs import toolsense
from toolsavvy.errors import UserError
from toolsavvy.generators.toolsense.qa import drawn, template_qa
from toolsavvy.generators.toolsense.statements import KINDS

SHARED = Path(os.environ.get("TOOLSAVVY_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")
WORLD = catalog(10, 5)


@pytest.fixture(scope="module")
def items() -> list[YesNoItem]:
    return template_qa(WORLD, 200, seed=3)


def check_truth(item: YesNoItem, tool: Tool) -> None:
    """Yes is in the tool's record, and no contradicts it: read from the record, not from our facts."""
    if item.pattern == "purpose":
        text = item.question[item.question.index('"') + 1 : -1].lower().rstrip(".!?")
        assert (text in " ".join(tool.description.lower().split())) == item.answer
        return
    asked = re.findall(r'"(.+)"', item.question)[0]
    schema = tool.returns if item.pattern == "result" else tool.parameters
    top = {split_words(name): name for name in parameter_names(schema)}
    if item.pattern == "required":
        assert (top[asked] in schema["required"]) == item.answer
    elif item.pattern == "type":
        assert (KINDS[schema["properties"][top[asked]]["type"]] in item.question) == item.answer
    elif item.answer:
        assert asked in top
    else:
        assert asked not in {split_words(name) for name in property_names(schema)}


def check_balance(items: list[YesNoItem]) -> None:
    sides: defaultdict[str, Counter[bool]] = defaultdict(Counter)
    for item in items:
        sides[item.pattern][item.answer] += 1
    assert all(abs(counts[True] - counts[False]) <= 1 for counts in sides.values()), dict(sides)
    assert abs(sum(1 if item.answer else -1 for item in items)) <= 1


def told(items: list[YesNoItem], world: Catalog, seed: int = 0) -> float:
    """How far a question-only classifier gets from chance, whether services or tools are held apart."""
    groups = (groups_of(items, texts_of(world)), [item.tool for item in items])
    return max(abs(question_only(items, own, seed=seed).mean() - 0.5) for own in groups)


def test_every_question_is_put_once_and_answered_yes_as_often_as_no_in_each_pattern(items):
    assert len(items) >= 100
    assert len({item.question for item in items}) == len(items)
    assert abs(question_prior(items).mean() - 0.5) < 1e-9  # the same question elsewhere gives nothing away
    check_balance(items)
    assert {item.pattern for item in items} == {"purpose", "input", "required", "type", "result"}
    assert len({item.id for item in items}) == len(items)


def test_answers_are_true(items):
    for item in items:
        check_truth(item, WORLD.tools[WORLD.index[item.tool]])


def test_the_question_alone_tells_nothing(items):
    assert told(items, WORLD) <= 0.05
    assert told(items, WORLD, seed=1) <= 0.15  # other folds than those that the draw looked at


def test_answers_are_drawn_so_that_no_word_tells_them():
    words = ["always", "never"]
    made = [
        tuple(YesNoItem("", f"Is it {words[i % 2]} so {i}?", answer, f"t{i}{answer}", "p") for answer in (True, False))
        for i in range(60)
    ]
    texts = {i.tool: ToolText(i.tool, i.tool, "", "") for pair in made for i in pair}
    items = drawn([(yes, no) for yes, no in made], texts, random.Random(0))
    assert sum(item.answer for item in items) == 30
    assert abs(question_only(items, groups_of(items, texts)).mean() - 0.5) <= 0.1
    assert items != drawn([(yes, no) for yes, no in made], texts, random.Random(1))


def test_answers_come_in_no_order(items):
    runs = sum(a.answer != b.answer for a, b in itertools.pairwise(items))
    assert 0.35 < runs / len(items) < 0.65


def test_services_of_one_tool_are_asked_alone_and_still_evenly():
    tools = tuple(replace(tool, group=f"service {i}") for i, tool in enumerate(WORLD.tools))
    lone = Catalog("lone", tools)
    items = template_qa(lone, 60, seed=1)
    assert len(items) == 60
    check_balance(items)
    for item in items:
        check_truth(item, lone.tools[lone.index[item.tool]])
    assert told(items, lone) <= 0.15  # 60 items


def test_without_services_any_two_tools_make_a_question():
    plain = Catalog("plain", tuple(replace(tool, group="") for tool in WORLD.tools))
    items = template_qa(plain, 60)
    assert len({item.question for item in items}) == 60
    assert told(items, plain) <= 0.1


def test_the_cap_holds():
    counts = Counter(item.tool.split(":")[0] for item in template_qa(WORLD, 40, cap=4))
    assert max(counts.values()) <= 4
    assert len(counts) == 10


@pytest.mark.parametrize("services", [5, 300], ids=["pairs", "alone"])
def test_no_question_names_its_tools_service(services):
    words = ["keeps", "the", "state"]
    tools = tuple(
        replace(
            tool,
            group=f"{words[i % 3]} {i % services}",
            description=f"{tool.description.split('.')[0]} for {words[i % 3]} {i % services}. {tool.description}",
        )
        for i, tool in enumerate(WORLD.tools)
    )
    named = Catalog("named", tools)
    items = template_qa(named, 40)
    assert len(items) == 40
    for item in items:
        service = named.tools[named.index[item.tool]].group
        assert f" {service} " not in " ".join(["", *re.findall(r"\w+", item.question.lower()), ""])


def test_an_odd_number_leaves_one_over():
    items = template_qa(WORLD, 21)
    assert len(items) == 21
    assert sum(item.answer for item in items) in (10, 11)


def test_no_is_never_what_an_open_schema_may_allow():
    """Where other parameters may be given, "has no such parameter" cannot be known."""
    tools = catalog(4, 4).tools
    opened = tuple(replace(t, parameters={**t.parameters, "additionalProperties": True}) for t in tools)
    with pytest.raises(UserError, match="no yes/no question"):
        template_qa(Catalog("open", opened), 20, weights={"input": 1})
    half = Catalog("half", tuple(opened[i] if i % 2 else t for i, t in enumerate(tools)))
    for item in template_qa(half, 30, weights={"input": 1}):
        assert item.answer or half.index[item.tool] % 2 == 0


def test_nested_names_count_as_the_tools_own():
    inner = {"type": "object", "properties": {"deep": {"type": "array", "items": {"properties": {"hiddenKey": {}}}}}}
    a = Tool("s:a", "first", "", "s", parameters={"type": "object", "properties": {"hiddenKey": {"type": "string"}}})
    b = Tool("s:b", "second", "", "s", parameters={"type": "object", "properties": {"box": inner}})
    for item in template_qa(Catalog("nested", (a, b)), 10):
        assert "hidden key" not in item.question


def test_what_tools_share_is_no_difference():
    """The same purpose in other words of one record, and a near duplicate, are not a no."""
    texts = ["Creates a warehouse for grain.", "Creates a warehouse for grain", "Creates the warehouse for the grain."]
    same = Catalog("same", tuple(Tool(f"s:{i}", f"tool {i}", text, "s") for i, text in enumerate(texts)))
    with pytest.raises(UserError, match="at least 2 tools"):
        template_qa(same, 4)


@pytest.mark.parametrize(
    "tools",
    [
        [Tool(f"t{i}", "same", "Does the very same thing for everybody.") for i in range(5)],
        [Tool(f"t{i}", f"name {i}") for i in range(5)],
    ],
)
def test_equal_tools_and_tools_without_anything_are_refused(tools):
    with pytest.raises(UserError, match="no yes/no question") as caught:
        template_qa(Catalog("bad", tuple(tools)), 4)
    assert "at least 2 tools" in caught.value.expected


def test_three_tools_are_enough_for_a_few(caplog):
    texts = ["Deletes a barn for good.", "Creates a new windmill.", "Lists every known orchard."]
    few = Catalog("few", tuple(Tool(f"t{i}", f"name {i}", text) for i, text in enumerate(texts)))
    with caplog.at_level(logging.WARNING):
        items = template_qa(few, 50)
    assert 2 <= len(items) <= 6
    check_balance(items)
    assert f"gives {len(items)} yes/no questions, not 50" in caplog.text


def test_bad_numbers_and_patterns():
    with pytest.raises(UserError, match=r"generator\.n"):
        template_qa(WORLD, 0)
    with pytest.raises(UserError, match="unknown pattern 'detail'"):
        template_qa(WORLD, 5, weights={"detail": 1})


def test_a_real_catalog_of_many_small_services():
    if not (SHARED / "toolsense").is_dir():
        pytest.skip("shared data is absent")
    tools = toolsense.load(SHARED / "toolsense").catalog
    items = template_qa(tools, 120)
    assert len(items) == 120
    check_balance(items)
    for item in items:
        check_truth(item, tools.tools[tools.index[item.tool]])
    assert told(items, tools) <= 0.05
