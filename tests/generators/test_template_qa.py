from __future__ import annotations

import itertools
import logging
import os
import re
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from question_world import catalog, property_names

from toolsavvy.attacks import groups_of, question_only
from toolsavvy.benchmark import YesNoItem, texts_of
from toolsavvy.catalog import Catalog, Tool, parameter_names, split_words
from toolsavvy.catalogs import toolsense
from toolsavvy.errors import UserError
from toolsavvy.generators.toolsense.qa import KINDS, template_qa

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
    assert all(counts[True] == counts[False] for counts in sides.values()), dict(sides)


def pairs(items: list[YesNoItem]) -> list[list[YesNoItem]]:
    found: defaultdict[str, list[YesNoItem]] = defaultdict(list)
    for item in items:
        found[item.question].append(item)
    return list(found.values())


def test_every_question_is_put_to_two_tools_of_one_service_with_both_answers(items):
    assert len(items) == 200
    for pair in pairs(items):
        assert {item.answer for item in pair} == {True, False}
        assert len(pair) == 2
        assert len({item.tool.split(":")[0] for item in pair}) == 1
        assert len({item.tool for item in pair}) == 2
    check_balance(items)
    assert {item.pattern for item in items} == {"purpose", "input", "required", "type", "result"}
    assert len({item.id for item in items}) == 200


def test_answers_are_true(items):
    for item in items:
        check_truth(item, WORLD.tools[WORLD.index[item.tool]])


@pytest.mark.parametrize("seed", range(3))
def test_the_question_alone_tells_nothing(items, seed):
    assert question_only(items, groups_of(items, texts_of(WORLD)), seed=seed).mean() == pytest.approx(0.5)


def test_answers_come_in_no_order(items):
    runs = sum(a.answer != b.answer for a, b in itertools.pairwise(items))
    assert 70 < runs < 130
    assert sum(item.answer for item in items[:100]) not in (0, 100)


def test_services_of_one_tool_are_asked_alone_and_still_evenly():
    tools = tuple(replace(tool, group=f"service {i}") for i, tool in enumerate(WORLD.tools))
    lone = Catalog("lone", tools)
    items = template_qa(lone, 120, seed=1)
    assert len(items) >= 100
    check_balance(items)
    assert max(map(len, pairs(items))) == 1  # the other answer in another fold would give this one away
    for item in items:
        check_truth(item, lone.tools[lone.index[item.tool]])
    answers: defaultdict[str, set[bool]] = defaultdict(set)
    for item in items:
        answers[item.tool].add(item.answer)
    assert set(map(frozenset, answers.values())) == {frozenset({True, False})}  # so that no service is one short
    assert abs(question_only(items, groups_of(items, texts_of(lone))).mean() - 0.5) <= 0.15  # 120 items, three sigma


def test_without_services_any_two_tools_make_a_pair():
    plain = Catalog("plain", tuple(replace(tool, group="") for tool in WORLD.tools))
    items = template_qa(plain, 60)
    assert all(len(pair) == 2 for pair in pairs(items))
    assert question_only(items, groups_of(items, texts_of(plain))).mean() == pytest.approx(0.5)


def test_the_cap_holds_for_both_tools_of_a_pair():
    counts = Counter(item.tool.split(":")[0] for item in template_qa(WORLD, 40, cap=4))
    assert max(counts.values()) <= 4
    assert len(counts) == 10


def test_an_odd_number_leaves_one_over():
    items = template_qa(WORLD, 21)
    assert len(items) == 21
    assert sum(item.answer for item in items) in (10, 11)


def test_no_is_never_what_an_open_schema_may_allow():
    """Where other parameters may be given, "has no such parameter" cannot be known."""
    opened = tuple(replace(t, parameters={**t.parameters, "additionalProperties": True}) for t in WORLD.tools)
    with pytest.raises(UserError, match="no yes/no question"):
        template_qa(Catalog("open", opened), 20, weights={"input": 1})
    half = Catalog("half", tuple(opened[i] if i % 2 else t for i, t in enumerate(WORLD.tools)))
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
    items = template_qa(tools, 300)
    assert len(items) == 300
    check_balance(items)
    for item in items:
        check_truth(item, tools.tools[tools.index[item.tool]])
    assert abs(question_only(items, groups_of(items, texts_of(tools))).mean() - 0.5) <= 0.05
