from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from question_world import catalog, property_names

from toolsavvy.attacks import CHOICE_ATTACKS, groups_of, option_words
from toolsavvy.benchmark import ChoiceItem, texts_of
from toolsavvy.catalog import Catalog, Tool, parameter_names, split_words
from toolsavvy.catalogs import toolsense
from toolsavvy.errors import UserError
from toolsavvy.generators.toolsense.balance import Ledger, keep_balanced
from toolsavvy.generators.toolsense.mcq import WORDINGS, template_mcq

SHARED = Path(os.environ.get("TOOLSAVVY_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")
WORLD = catalog(10, 5)


@pytest.fixture(scope="module")
def items() -> list[ChoiceItem]:
    return template_mcq(WORLD, 100, seed=3)


def in_words(names) -> set[str]:
    return {split_words(name) for name in names}


def check_truth(item: ChoiceItem, tool: Tool) -> None:
    """The right option is in the tool's record, the wrong ones are not: read from the record, not from our facts."""
    right, wrong = item.correct, item.wrong
    said = " ".join(tool.description.lower().split())
    if item.pattern in ("purpose", "detail"):
        assert right.lower().rstrip(".!?") in said
        assert not any(text.lower().rstrip(".!?") in said for text in wrong)
        return
    schema = tool.returns if item.pattern == "result" else tool.parameters
    assert right in in_words(parameter_names(schema))
    if item.pattern == "required":
        required = in_words(schema["required"])
        assert right in required
        assert set(wrong) <= in_words(parameter_names(schema)) - required
    else:
        assert not set(wrong) & in_words(property_names(schema))


def check_set(items: list[ChoiceItem], tools: Catalog) -> None:
    for item in items:
        tool = tools.tools[tools.index[item.tool]]
        assert len(set(item.options)) == 4
        assert item.question in WORDINGS[item.pattern]
        check_truth(item, tool)
        assert tool.name.lower() not in item.correct.lower().split()
    texts = Counter(" ".join(option.lower().split()) for item in items for option in item.options)
    assert set(texts.values()) == {1}  # so no text is right here and wrong there, and frequency says nothing
    assert len({item.id for item in items}) == len(items)


def check_attacks(items: list[ChoiceItem], tools: Catalog, tolerance: float = 0.05) -> None:
    texts = texts_of(tools)
    for name, attack in CHOICE_ATTACKS.items():
        assert abs(attack(items, texts).mean() - 0.25) <= tolerance, name


def test_items_are_true_and_blind_attacks_stay_at_chance(items):
    assert len(items) == 100
    check_set(items, WORLD)
    check_attacks(items, WORLD)
    assert set(Counter(item.pattern for item in items)) == set(WORDINGS)
    words = option_words(items, groups_of(items, texts_of(WORLD))).mean()
    assert abs(words - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 100)


def test_guessing_by_length_and_name_is_no_use_when_written_anew(items):
    """The attacks once more, from nothing but the items."""

    def share(score) -> float:
        rows = [[score(item, option) for option in item.options] for item in items]
        return float(np.mean([(row[0] == max(row)) / row.count(max(row)) for row in rows]))

    def named(item: ChoiceItem, option: str) -> int:
        own = set(split_words(WORLD.tools[WORLD.index[item.tool]].name).split())
        return len(own & set(option.lower().rstrip(".").split()))

    assert abs(share(lambda item, option: len(option)) - 0.25) < 0.06
    assert abs(share(lambda item, option: -len(option)) - 0.25) < 0.06
    assert abs(share(named) - 0.25) < 0.06
    assert abs(share(lambda item, option: -named(item, option)) - 0.25) < 0.1


def test_every_service_keeps_its_cap_and_tools_are_spread():
    items = template_mcq(WORLD, 40, cap=5)
    counts = Counter(item.tool.split(":")[0] for item in items)
    assert max(counts.values()) <= 5
    assert len(counts) == 10
    assert len({item.tool for item in items}) > 30


def test_wrong_options_come_from_the_neighbourhood():
    """Inputs that are wrong here are inputs or results of the tools that were said to be near."""

    class Fixed:
        def of(self, tool: int, k: int) -> list[int]:
            return [(tool + step) % len(WORLD) for step in range(1, 30)][:k]

        def prepare(self, tools, k: int) -> None: ...

    items = template_mcq(WORLD, 20, near=Fixed(), weights={"input": 1})
    for item in items:
        place = WORLD.index[item.tool]
        near = [WORLD.tools[j] for j in Fixed().of(place, 30)]
        assert set(item.wrong) <= set().union(*[in_words(parameter_names(t.parameters)) for t in near])


def test_patterns_can_be_chosen():
    assert {item.pattern for item in template_mcq(WORLD, 20, weights={"detail": 1, "purpose": 0})} == {"detail"}
    with pytest.raises(UserError, match="unknown pattern 'purposes'") as caught:
        template_mcq(WORLD, 20, weights={"purposes": 1})
    assert "purpose, detail" in caught.value.expected
    for weights in ({"purpose": 0}, {"purpose": -1}, {}):
        with pytest.raises(UserError, match=r"generator\.patterns"):
            template_mcq(WORLD, 20, weights=weights)


def test_facts_beyond_the_beginning_are_used_only_if_asked():
    far = tuple(replace(t, description=f"{'Bla bla bla bla bla. ' * 15}{t.description}") for t in WORLD.tools)
    tools = Catalog("far", far)
    assert not {i.pattern for i in template_mcq(tools, 20)} & {"detail", "purpose"}
    assert template_mcq(tools, 20, weights={"detail": 1}, within=None)


def test_a_catalog_of_three_tools_says_what_is_needed():
    few = Catalog("few", tuple(Tool(f"t{i}", f"n{i}", f"Makes some {w} of wood.") for i, w in enumerate("abc")))
    with pytest.raises(UserError, match="no multiple-choice question") as caught:
        template_mcq(few, 5)
    assert "at least 4 tools" in caught.value.expected
    assert "catalog few" in caught.value.where


def test_equal_tools_and_tools_without_anything_are_refused():
    equal = Catalog("equal", tuple(Tool(f"t{i}", "same", "Does the very same thing for everybody.") for i in range(9)))
    empty = Catalog("empty", tuple(Tool(f"t{i}", f"name {i}") for i in range(9)))
    for tools in (equal, empty):
        with pytest.raises(UserError, match="no multiple-choice question"):
            template_mcq(tools, 3)


def test_as_many_as_there_are_and_no_more(caplog):
    small = Catalog("small", tuple(replace(t, parameters={}, returns={}, group="") for t in WORLD.tools[:40]))
    with caplog.at_level(logging.WARNING):
        items = template_mcq(small, 500)
    assert 4 <= len(items) <= 20  # 40 purposes and 40 details, four to an item
    check_set(items, small)
    assert f"gives {len(items)} multiple-choice questions, not 500" in caplog.text


def test_n_must_be_positive():
    with pytest.raises(UserError, match=r"generator\.n"):
        template_mcq(WORLD, 0)


def test_malformed_schemas_are_passed_over():
    odd = [
        {"properties": []},
        {"properties": {"a": None, "bb": 3}, "required": "bb"},
        {"required": 4},
        {"properties": 1},
    ]
    tools = tuple(replace(t, parameters=odd[i % 4], returns=odd[-i % 4]) for i, t in enumerate(WORLD.tools[:80]))
    check_set(template_mcq(Catalog("odd", tools), 10), Catalog("odd", tools))


def test_the_seed_decides_in_every_process():
    code = (
        "import hashlib, sys; sys.path.insert(0, sys.argv[1])\n"
        "from question_world import catalog\n"
        "from toolsavvy.generators.toolsense.mcq import template_mcq\n"
        "from toolsavvy.generators.toolsense.qa import template_qa\n"
        "tools = catalog(6, 4)\n"
        "print(hashlib.sha256(repr([f(tools, 30, seed=7) for f in (template_mcq, template_qa)]).encode()).hexdigest())"
    )
    here = str(Path(__file__).parent)
    runs = {
        subprocess.run(
            [sys.executable, "-c", code, here], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": str(salt)},
        ).stdout
        for salt in (1, 2)
    }  # fmt: skip
    assert len(runs) == 1
    assert template_mcq(WORLD, 9, seed=1) != template_mcq(WORLD, 9, seed=2)


def plugins() -> Catalog:
    """MetaTool's 199 plug-ins: one or two sentences each, no service, no parameter."""
    path = SHARED / "metatool" / "plugin_des.json"
    if not path.is_file():
        pytest.skip("shared data is absent")
    return Catalog("metatool", tuple(Tool(k, k, v) for k, v in json.loads(path.read_text(encoding="utf-8")).items()))


def test_a_real_catalog_of_descriptions_alone():
    tools = plugins()
    items = template_mcq(tools, 60)
    assert len(items) >= 25
    check_set(items, tools)
    check_attacks(items, tools)


def test_a_real_catalog_of_many_services():
    if not (SHARED / "toolsense").is_dir():
        pytest.skip("shared data is absent")
    tools = toolsense.load(SHARED / "toolsense").catalog
    items = template_mcq(tools, 60)
    assert len(items) == 60
    check_set(items, tools)
    check_attacks(items, tools)
    labels = Counter(tools.tools[tools.index[item.tool]].group for item in items)
    assert max(labels.values()) <= 3  # 5 %


def test_dropping_brings_every_attack_to_chance_and_keeps_the_rest():
    rng = np.random.default_rng(0)
    scores = {i: (float(rng.random() < 0.35), float(rng.random() < 0.2)) for i in range(300)}

    def attack(items):
        table = np.array([scores[i] for i in items])
        return {"first": table[:, 0], "second": table[:, 1]}

    kept = keep_balanced(list(scores), attack, chance=0.25)
    assert len(kept) > 220
    assert kept == sorted(kept)
    assert all(abs(values.mean() - 0.25) <= 0.05 for values in attack(kept).values())
    assert len(keep_balanced(list(scores), attack, chance=0.25, most=100)) <= 100
    always = keep_balanced(list(range(50)), lambda items: {"a": np.ones(len(items))}, chance=0.25, least=20)
    assert len(always) == 20
    assert keep_balanced([], lambda items: {"a": np.ones(len(items))}, chance=0.25) == []


def test_a_ledger_prefers_what_evens_out():
    ledger = Ledger(0.25)
    ledger.add({"a": 1.0}, "", "x")
    costs = ledger.costs({"a": np.array([0.0, 0.25, 1.0])}, "")
    assert costs.tolist() == [0.25, 0.5625, 2.25]
    assert ledger.costs({"a": np.array([0.25])}, "y").tolist() == [0.0]
