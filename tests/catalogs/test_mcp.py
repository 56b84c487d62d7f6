from __future__ import annotations

import pytest
from catalog_files import fault, write_json, write_jsonl

from toolsavvy.catalogs import mcp

TOOL = {
    "name": "get_weather",
    "title": "Weather",
    "description": "Weather now",
    "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "outputSchema": {"type": "object", "properties": {"degrees": {"type": "number"}}},
}
OTHER = {"name": "bare", "inputSchema": {"type": "object"}}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda tools: {"tools": tools},
        lambda tools: {"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}},
        lambda tools: tools,
        lambda tools: [{"tools": tools[:1]}, {"result": {"tools": tools[1:]}}],
    ],
)
def test_every_wrapping_gives_the_same_tools(tmp_path, wrap):
    data = mcp.load(write_json(tmp_path / "srv.json", wrap([TOOL, OTHER])))
    first, second = data.catalog.tools
    assert (first.id, first.name, first.group) == ("get_weather", "get_weather", "srv")
    assert first.description == "Weather. Weather now"
    assert first.parameters == TOOL["inputSchema"]
    assert first.returns == TOOL["outputSchema"]
    assert (second.id, second.description) == ("bare", "")


def test_a_folder_of_servers(tmp_path):
    write_json(tmp_path / "a.json", {"tools": [TOOL], "nextCursor": "more"})
    write_json(tmp_path / "b.json", {"tools": [TOOL]})
    fault(lambda: mcp.load(tmp_path), what="occurs twice", where="b.json, tool 1, field 'name'", fix="qualify=true")
    data = mcp.load(tmp_path, qualify=True)
    assert [t.id for t in data.catalog.tools] == ["a/get_weather", "b/get_weather"]
    assert data.audit["source"]["results_with_further_pages"] == 1


def test_queries(tmp_path):
    path = write_json(tmp_path / "srv.json", {"tools": [TOOL, OTHER]})
    queries = write_jsonl(tmp_path / "q.jsonl", [{"id": "1", "text": "rain?", "relevant": ["get_weather"]}])
    assert len(mcp.load(path, queries=str(queries)).splits["test"]) == 1


@pytest.mark.parametrize(
    ("value", "what", "where", "expected"),
    [
        ({"tools": []}, "empty", "srv.json", "at least one"),
        ({"tool": []}, "missing", "srv.json, field 'tools'", "a list"),
        ({"jsonrpc": "2.0", "error": {"code": 1}}, "answered with an error", "srv.json", "tools"),
        ({"tools": [TOOL, "x"]}, "text ('x')", "srv.json, tool 2", "an object"),
        ({"tools": [{"description": "x"}]}, "missing", "tool 1, field 'name'", "text"),
        ({"tools": [{**TOOL, "inputSchema": "x"}]}, "text ('x')", "tool 1, field 'inputSchema'", "an object"),
        ({"tools": [TOOL, TOOL]}, "occurs twice", "tool 2, field 'name'", "unique ids"),
        ("tools", "text", "srv.json", "tools"),
    ],
)
def test_bad_results(tmp_path, value, what, where, expected):
    path = write_json(tmp_path / "srv.json", value)
    fault(lambda: mcp.load(path), what=what, where=where, expected=expected)
