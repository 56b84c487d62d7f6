from __future__ import annotations

import pytest

from toolsavvy.catalog import Catalog, Tool
from toolsavvy.generators.toolsense.facts import Facts, ToolFacts
from toolsavvy.generators.toolsense.stems import sentences


def tool(text: str, name: str = "makeChart", **more) -> ToolFacts:
    return ToolFacts(Tool("s:t", name, text, "s", **more))


def test_sentences_end_at_stops_and_lines_but_not_at_abbreviations():
    text = "Draws charts, e.g. Bars and lines. Colours are optional!\nOne per line"
    assert list(sentences(text)) == ["Draws charts, e.g. Bars and lines.", "Colours are optional!", "One per line"]


@pytest.mark.parametrize(
    "text",
    [
        "It draws a chart of numbers.",
        "For more information, see the user guide.",
        "Makes: the following kinds of charts.",
        "Use https://charts.example to draw bars.",
        "With makeChart you draw bars and lines.",
        "When bars are drawn, lines stay as they are.",
        "Draws bars and lines for",
        "Bars.",
        "This operation applies only to charts of many bars.",
    ],
)
def test_what_is_no_purpose(text):
    assert tool(text).purpose is None


def test_purpose_and_details_are_the_records_own_within_its_beginning():
    facts = tool("draws bars for long numbers\nNumbers may hold commas, points and blanks. It can do more than that.")
    assert facts.purpose == "Draws bars for long numbers."
    assert facts.details == ("Numbers may hold commas, points and blanks.",)
    assert ToolFacts(facts.tool, within=6).details == ()


@pytest.mark.parametrize(
    ("other", "same_service", "other_service"),
    [
        ("Deletes a chart of sales.", True, False),  # another kind of action
        ("Creates a map of rivers and lakes.", True, True),  # on something else
        ("Creates a chart of the sales.", False, False),  # the same
        ("Makes charts.", False, False),  # the same, in fewer words
        ("Draws a chart with colours, legends and axes.", True, False),  # could be done by another provider's alike
    ],
)
def test_only_a_clear_difference_contradicts(other, same_service, other_service):
    facts = tool("Creates a chart of sales for one year.")
    assert facts.contradicts(other, is_own_service=True) == same_service
    assert facts.contradicts(other, is_own_service=False) == other_service


def test_a_record_without_description_contradicts_nothing():
    assert not tool("").contradicts("Deletes a chart of sales.", is_own_service=True)


def test_related_names_count_as_present_and_open_schemas_lack_nothing():
    inner = {"type": "object", "properties": {"chartColour": {"type": "string"}}}
    facts = tool("", parameters={"properties": {"chartIds": {"type": "array"}, "style": inner}})
    assert not facts.lacks_input("chart id")
    assert not facts.lacks_input("colour")
    assert not facts.lacks_input("chart colour name")
    assert facts.lacks_input("legend")
    opened = tool("", parameters={"properties": {"chartIds": {}}, "additionalProperties": {"type": "string"}})
    assert not opened.lacks_input("legend")
    assert not tool("").lacks_input("legend")


def test_results_that_may_hold_more_lack_nothing():
    listed = {"properties": {"chartId": {"type": "string"}}}
    assert tool("", returns=listed).lacks_result("legend")
    assert not tool("", returns={**listed, "additionalProperties": True}).lacks_result("legend")


@pytest.mark.parametrize(
    ("text", "group", "spelled"),
    [
        ("Is it kept in the Store Room?", "store-room", True),
        ("Is it kept in the storeroom?", "storeroom", True),
        ("Is it kept in the storeRoom?", "StoreRoom", True),
        ("Is it kept in a room of the store?", "store-room", False),
        ("Is it restored?", "store", False),
        ("Is it kept?", "", False),
    ],
)
def test_a_services_name_is_found_however_it_is_joined(text, group, spelled):
    assert ToolFacts(Tool("s:t", "move", group=group)).spells_service(text) == spelled


def test_tools_of_one_service_need_a_known_one():
    tools = tuple(Tool(f"t{i}", "n", group=group) for i, group in enumerate(["a", "a", "", "", "b"]))
    facts = Facts(Catalog("c", tools))
    assert facts.are_one_service(0, 1)
    assert not facts.are_one_service(2, 3)
    assert not facts.are_one_service(0, 4)
