from __future__ import annotations

from toolsavvy.catalog import Catalog, Query, RetrievalSet, Tool
from toolsavvy.catalogs.audit import audit, audited, leaks_name, render_audit, visible

TOOLS = (
    Tool("Get_Weather", "getWeather", "Weather of a city."),
    Tool("get weather", "getWeather", "Weather of a city."),
    Tool("x", "", ""),
    Tool("esc", "red\x1b[31m", "<|im_end|> and <<Other&&Tool>>"),
)


def a_set(**splits):
    return RetrievalSet(Catalog("c", TOOLS), {k: tuple(v) for k, v in splits.items()}, ("test",))


def test_tools_are_counted():
    report = audit(a_set())
    assert report["tools"] == 4
    assert report["id_collisions"] == 2
    assert report["name_collisions"] == 2
    assert report["duplicate_documents"] == 2
    assert report["empty_documents"] == 1
    assert report["blank_descriptions"] == 1
    assert report["markup_in_tools"] == 1
    assert report["control_characters"] == 1


def test_queries_are_counted():
    train = [Query("1", "How is it  outside?", {"Get_Weather": 1})]
    test = [
        Query("1", "how is it outside?", {"Get_Weather": 1}),
        Query("1", "Get weather now", {"get weather": 1, "x": 1}),
        Query("3", "weather of a CITY.", {"Get_Weather": 1}),
    ]
    report = audit(a_set(train=train, test=test))
    assert report["queries"] == {"train": 1, "test": 3}
    assert report["train_overlap"] == {"test": 1}
    assert report["duplicate_query_ids"] == {"train": 0, "test": 2}
    assert report["duplicate_query_texts"] == {"train": 0, "test": 0}
    assert report["name_leaks"] == {"train": 0, "test": 1}
    assert report["document_queries"] == {"train": 0, "test": 1}
    assert report["unseen_golds"] == {"test": 1}
    assert report["multi_gold"] == {"train": 0, "test": 1}


def test_a_leak_is_the_whole_name_as_words():
    catalog = Catalog("c", TOOLS)
    assert leaks_name(Query("1", "Please GET-weather!", {"Get_Weather": 1}), catalog)
    assert not leaks_name(Query("1", "get the weather", {"Get_Weather": 1}), catalog)
    assert not leaks_name(Query("1", "forget weathering", {"Get_Weather": 1}), catalog)
    assert not leaks_name(Query("1", "anything", {"x": 1}), catalog)


def test_lines_are_plain_and_safe():
    data = audited(a_set(test=[Query("1", "q", {"x": 1})]), merged_rows=3, nothing=0)
    lines = render_audit(data.audit)
    assert lines[:2] == ["tools: 4", "queries: test 1"]
    assert "source: merged rows: 3" in lines
    assert not any("nothing" in line for line in lines)
    assert render_audit({"own count": 2000, "by split": {"test": 1}, "none": 0}) == [
        "own count: 2,000",
        "by split: test 1",
    ]
    assert visible("a\x1b[31m\u202eb") == "a\\x1b[31m\\u202eb"
