from __future__ import annotations

import pytest
from set_world import items, query, source, tool

from toolsavvy.attacks import tokens
from toolsavvy.catalog import Catalog
from toolsavvy.generators.algorithm import parsed
from toolsavvy.generators.instructions import Rules, fault, from_templates, names_tool, template
from toolsavvy.generators.seeds import SEEDS

TOOLS = [
    tool("w1", "WeatherNow", "Gives the forecast of a city. Needs a key.", "sky services", "climate"),
    tool("p1", "translate", "Translate text. It is quick.", "language"),
    tool("b1", "tool", "tool", "tool", "tool"),
    tool("l1", "long", " ".join(f"word{i}" for i in range(40))),
]
DATA = source(
    "s",
    TOOLS,
    {
        "test": [
            query("1", "rain?", "w1"), query("2", "in french", "p1"), query("3", "anything", "b1"),
            query("4", "two", "w1", "p1"), query("5", "much", "l1"), query("6", "again", "w1"),
        ]
    },
)  # fmt: skip
ITEMS = items(DATA)
CATALOG: Catalog = DATA.catalog


def test_templates_speak_of_groups_and_descriptions_but_name_no_tool() -> None:
    texts = [template(item, CATALOG, seed=0) for item in ITEMS]
    assert not any(names_tool(text, item.query, CATALOG) for text, item in zip(texts, ITEMS, strict=True))
    assert "sky services (climate)" in texts[0]
    assert "Gives the forecast of a city" in texts[0]
    assert "key" not in texts[0]  # the first sentence alone
    assert "language" in texts[1]
    assert "ranslate" not in texts[1]
    assert "tool" not in texts[2]
    assert "sky services (climate) and language" in texts[3]
    assert "word15 …" in texts[4]
    assert "word16" not in texts[4]


def test_templates_are_deterministic_and_repeats_are_counted() -> None:
    written = from_templates(ITEMS, CATALOG, seed=0)
    assert written == from_templates(ITEMS, CATALOG, seed=0)
    many = {template(item, CATALOG, seed) for seed in range(20) for item in ITEMS[:1]}
    assert len(many) == 3
    texts = [i.query.instruction for i in written.items]
    assert written.counts == {"templates": 6, "repeated_templates": 6 - len(set(texts))}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("use weather now for this", True), ("use WeatherNow for this", True), ("use weathernow", True),
        ("the weather of now", False), ("ask w1 about it", True), ("ask w12 about it", False),
    ],
)  # fmt: skip
def test_a_name_is_found_however_it_is_spelled(text: str, named: bool) -> None:
    assert names_tool(text, ITEMS[0].query, CATALOG) is named


def test_what_is_refused_and_why() -> None:
    good = "Find services that predict rain and sun for a place over the coming days."
    rules = Rules(min_words=4, max_words=20, novelty=0.7)

    def why(text: str, pool: tuple[str, ...] = ()) -> str:
        return fault(text, ITEMS[0], CATALOG, [tokens(t) for t in pool], rules)

    assert why(good) == ""
    assert why("Find rain services") == "short"
    assert why(f"{good} {good}") == "long"
    assert why("Find out by WeatherNow whether it will rain") == "names_tool"
    assert why(good, (good.replace("sun", "snow"),)) == "repeated"
    assert why(good, ("Search for tools that send letters to friends abroad.",)) == ""
    item = items(source("s", TOOLS, {"test": [query("1", "predict rain for a place over the coming days", "w1")]}))[0]
    assert fault("Predict rain for a place over the coming days.", item, CATALOG, [], rules) == "copies_query"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("Find tools.", "Find tools."),
        ('  "Find tools."\n', "Find tools."),
        ("**Instruction:** Find tools.", "Find tools."),
        ("Here is the instruction:\n\nFind tools.", "Find tools."),
        ("```text\nFind tools.\n```", "Find tools."),
        ('```json\n{"instruction": " Find tools. "}\n```', "Find tools."),
        ("<think>they want\n\ntools</think>\nFind tools.", "Find tools."),
        ('{"instruction": 3}', None),
        ('{"other": "Find tools."}', None),
        ('{"instruction": ""}', None),
        ('{"instruction": "Find to', None),
        ("First paragraph.\n\nSecond paragraph.", None),
        ("I'm sorry, I can't help with that.", None),
        ("…", None),
        ("", None),
    ],
)
def test_instructions_are_found_in_answers_or_not_at_all(answer: str, text: str | None) -> None:
    assert parsed(answer) == text


def test_the_seeds_are_fit_to_be_examples() -> None:
    rules = Rules()
    words = [tokens(s.instruction) for s in SEEDS]
    assert len(SEEDS) >= 20
    assert len({s.query for s in SEEDS}) == len(SEEDS)
    for i, seed in enumerate(SEEDS):
        name = seed.tools.split(".")[0]
        own = items(source("s", [tool("id", name, "d")], {"test": [query("1", seed.query, "id")]}))[0]
        catalog = Catalog("c", (tool("id", name, "d"),))
        assert fault(seed.instruction, own, catalog, words[:i] + words[i + 1 :], rules) == "", seed.query
