"""Files of RRB, MCQ and QA: both layouts, mistakes told with file, line and field, and the way back."""

from __future__ import annotations

import collections
import json
from pathlib import Path
from typing import Any

import pytest
from catalog_files import fault, shared, write_jsonl, write_text

from toolsavvy.benchmark import ChoiceItem, RetrievalItem, ToolText, YesNoItem, texts_of
from toolsavvy.catalogs import toy
from toolsavvy.catalogs.toolsense_items import KINDS, is_blank, read_items, read_mcq, read_qa, read_rrb, write_items


def tool(name: str = "Vimeo&&one", about: str = "Video", own: str = "None") -> dict[str, Any]:
    title, _, api = name.partition("&&")
    fields = {"tool_title": title, "tool_description": about, "api_title": api, "api_description": own}
    return {"tool_name": name, **fields}


POOL = [tool(), tool("Vimeo&&two"), tool("Maps&&three"), tool("Maps&&four"), tool("Maps&&five")]


def request(golds: Any, tier: str = "easy", **changes: Any) -> dict[str, Any]:
    record = {"sample_id": "s1", "query": "find it", "tool": golds, "analyzed_tools": POOL, "complexity": tier}
    return record | changes


def choice(**changes: Any) -> dict[str, Any]:
    record = {"id": "m1", "question": "What?", "correct_answer": "Videos", "wrong_answers": ["a", "b", "c"]}
    return {**record, "tool": tool(), **changes}


def yes_no(**changes: Any) -> dict[str, Any]:
    return {"id": "q1", "question": "Is it?", "answer": "Yes", "tool": tool(), **changes}


RECORDS = {"rrb": request(tool()), "mcq": choice(), "qa": yes_no()}


def test_golds_are_an_object_or_a_list_in_any_tier(tmp_path: Path) -> None:
    rows = [
        request(tool()),
        request([tool("Maps&&three")], sample_id="s2"),
        request(POOL[1:3], "medium", sample_id="s3", anchor="Maps&&three", pattern="p"),
        request(POOL[1:], "hard", sample_id="s4"),
    ]
    found = read_rrb(write_jsonl(tmp_path / "rrb.jsonl", rows))
    assert [item.gold for item in found.items[:3]] == [("Vimeo&&one",), ("Maps&&three",), ("Vimeo&&two", "Maps&&three")]
    assert [item.anchor for item in found.items] == ["Vimeo&&one", "Vimeo&&one", "Maps&&three", "Vimeo&&one"]
    assert [item.pattern for item in found.items] == ["", "", "p", ""]
    assert found.items[3].pool == tuple(row["tool_name"] for row in POOL)
    assert found.counts == {"differing_texts": 0, "assumed_anchors": 3}
    assert found.tools["Maps&&four"] == ToolText("Maps&&four", "Maps", "four", "Video", "None")


def test_the_first_text_of_a_tool_is_kept_and_others_are_counted(tmp_path: Path) -> None:
    rows = [choice(), choice(id="m2", tool=tool(about="Films")), choice(id="m3")]
    found = read_mcq(write_jsonl(tmp_path / "mcq.jsonl", rows))
    assert found.tools["Vimeo&&one"].shown == "Video"
    assert found.counts == {"differing_texts": 1}


def test_fields_that_may_be_absent(tmp_path: Path) -> None:
    found = read_qa(write_jsonl(tmp_path / "qa.jsonl", [yes_no(answer="No", tool={"tool_name": "x"}, extra=1)]))
    assert found.items == (YesNoItem("q1", "Is it?", False, "x"),)
    assert found.tools == {"x": ToolText("x", "", "x", "")}


@pytest.mark.parametrize(
    ("kind", "changes", "field", "what", "expected"),
    [
        (
            "mcq",
            {"wrong_answers": ["a", " VIDEOS", "c"]},
            "wrong_answers",
            "'Videos' is among the wrong",
            "wrong answers",
        ),
        ("mcq", {"wrong_answers": ["a", "b"]}, "wrong_answers", "2 wrong answers", "3 different ones"),
        ("mcq", {"wrong_answers": ["a", "b", "c", "d"]}, "wrong_answers", "4 wrong answers", "3 different ones"),
        ("mcq", {"wrong_answers": ["a", "A ", "c"]}, "wrong_answers", "2 of them different", "3 different ones"),
        ("mcq", {"wrong_answers": []}, "wrong_answers", "the list is empty", "at least one"),
        ("mcq", {"wrong_answers": ["a", 3, "c"]}, "wrong_answers", "3 is no answer", "not empty"),
        ("mcq", {"wrong_answers": ["a", " ", "c"]}, "wrong_answers", "' ' is no answer", "not empty"),
        ("mcq", {"wrong_answers": "a"}, "wrong_answers", "text ('a')", "a list"),
        ("mcq", {"correct_answer": ""}, "correct_answer", "empty", "text"),
        ("mcq", {"question": "  "}, "question", "empty", "text"),
        ("mcq", {"tool": "Vimeo"}, "tool", "text ('Vimeo')", "an object"),
        ("mcq", {"tool": {"tool_title": "x"}}, "tool_name", "missing", "text"),
        ("mcq", {"tool": {"tool_name": ""}}, "tool_name", "empty", "text"),
        ("qa", {"answer": "yes"}, "answer", "the answer is 'yes'", "'Yes' or 'No'"),
        ("qa", {"answer": "Not mentioned"}, "answer", "the answer is 'Not mentioned'", "'Yes' or 'No'"),
        ("qa", {"answer": True}, "answer", "true/false", "text"),
        ("qa", {"question": None}, "question", "missing", "text"),
        ("qa", {"id": None}, "id", "missing", "text"),
        ("qa", {"id": "a\rb"}, "id", "id 'a\\rb' holds control characters", "sheets and tables"),
        ("rrb", {"complexity": "Easy"}, "complexity", "unknown tier 'Easy'", "easy or medium or hard"),
        ("rrb", {"tool": []}, "tool", "0 gold tools in tier 'easy'", "1, as"),
        ("rrb", {"tool": POOL[:2]}, "tool", "2 gold tools in tier 'easy'", "1, as tier 'easy' has"),
        ("rrb", {"complexity": "medium"}, "tool", "1 gold tools in tier 'medium'", "2-3"),
        ("rrb", {"complexity": "hard", "tool": POOL[:3]}, "tool", "3 gold tools in tier 'hard'", "4 or more"),
        ("rrb", {"tool": tool("Vimeo&&ones")}, "tool", "'Vimeo&&ones' is not in the pool", "one of the 5 tools"),
        ("rrb", {"tool": [tool(), tool()], "complexity": "medium"}, "tool", "stands there twice", "each tool once"),
        ("rrb", {"analyzed_tools": [tool(), tool()]}, "analyzed_tools", "stands there twice", "each tool once"),
        ("rrb", {"analyzed_tools": []}, "analyzed_tools", "empty", "at least one"),
        ("rrb", {"analyzed_tools": ["x"]}, "analyzed_tools", "text ('x')", "an object"),
        ("rrb", {"anchor": "Vimeo&&tvo"}, "anchor", "is not in the pool", "the id of one"),
        ("rrb", {"tool": "Vimeo&&one"}, "tool", "text", "an object or a list"),
        ("rrb", {"query": ""}, "query", "empty", "text"),
    ],
)
def test_bad_records(tmp_path: Path, kind: str, changes: dict[str, Any], field: str, what: str, expected: str) -> None:
    good = {"rrb": {"sample_id": "0"}, "mcq": {"id": "0"}, "qa": {"id": "0"}}[kind]
    path = write_jsonl(tmp_path / "items.jsonl", [RECORDS[kind] | good, RECORDS[kind] | changes])
    where = "field 'tool', field 'tool_name'" if field == "tool_name" else f"field '{field}'"
    fault(lambda: read_items(kind, path), what=what, where=f"items.jsonl, line 2, {where}", expected=expected)


def test_likely_typing_errors_are_pointed_out(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "rrb.jsonl", [request(tool("Vimeo&&ones"))])
    fault(lambda: read_rrb(path), what="not in the pool", where="line 1", fix="did you mean 'Vimeo&&one'?")


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_are_none(tmp_path: Path, kind: str) -> None:
    key = f"generator.{kind}"
    fault(lambda: read_items(kind, None), what="not set", where=key, expected="JSONL", fix=f"{key}=")
    fault(lambda: read_items(kind, tmp_path / "x"), what="no such file", where=key)
    broken = write_text(tmp_path / "broken.jsonl", json.dumps(RECORDS[kind]) + '\n{"id": "2", \n')
    fault(lambda: read_items(kind, broken), what="broken JSON at column", where="broken.jsonl, line 2")
    fault(lambda: read_items(kind, write_text(tmp_path / "empty.jsonl", "\n")), what="empty", where="empty.jsonl")
    double = write_jsonl(tmp_path / "double.jsonl", [RECORDS[kind]] * 2)
    name = "sample_id" if kind == "rrb" else "id"
    fault(lambda: read_items(kind, double), what="occurs twice (first:", where=f"line 2, field '{name}'")
    fault(lambda: read_items(kind + "x", double, key="k"), what="unknown kind", where="k", fix=kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", KINDS)
def test_a_file_of_another_kind(tmp_path: Path, kind: str, given: str) -> None:
    path = write_jsonl(tmp_path / "x.jsonl", [RECORDS[given]])
    if kind == given:
        assert len(read_items(kind, path).items) == 1
        return
    error = fault(lambda: read_items(kind, path), what=f"a record of kind {given}, not {kind}", where="x.jsonl, line 1")
    assert f"name a file of {kind}" in error.fix


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    data = toy.load()
    texts = texts_of(data.catalog)
    ids = [t.id for t in data.catalog.tools[:6]]
    odd = 'a "quoted", line\u2028 broken\n answer ==\t'
    sets: dict[str, list[Any]] = {
        "rrb": [
            RetrievalItem("1", "q", (ids[2],), tuple(ids), "easy", ids[2], "p"),
            RetrievalItem("2", odd, (ids[4], ids[0], ids[3]), tuple(ids[::-1]), "medium", ids[0]),
        ],
        "mcq": [
            ChoiceItem("1", "What?", odd, ("b", "c", "d"), ids[0], "p"),
            ChoiceItem("2", "?", "1", ("2", "3", "4"), ids[1]),
        ],
        "qa": [YesNoItem("1", odd, True, ids[0], "p"), YesNoItem("2", "Is it?", False, ids[5])],
    }
    for kind, items in sets.items():
        path = tmp_path / "new" / f"{kind}.jsonl"
        write_items(path, items, texts)
        found = read_items(kind, path)
        assert list(found.items) == items
        assert all(found.tools[key] == texts[key] for key in found.tools)
        before = path.read_bytes()
        write_items(path, found.items, found.tools)
        assert path.read_bytes() == before
        with pytest.raises(KeyError):
            write_items(path, items, {})
        assert [p.name for p in path.parent.glob(f"*{kind}*")] == [path.name]
        assert path.read_bytes() == before


def test_the_released_files() -> None:
    folder = shared("toolsense")
    sets = {kind: read_items(kind, folder / f"{kind}.jsonl") for kind in KINDS}
    assert {kind: len(found.items) for kind, found in sets.items()} == {"rrb": 396, "mcq": 407, "qa": 410}
    rows = [json.loads(line) for line in (folder / "rrb.jsonl").read_text(encoding="utf-8").splitlines()]
    for item, row in zip(sets["rrb"].items, rows, strict=True):
        golds = row["tool"] if isinstance(row["tool"], list) else [row["tool"]]
        assert item.gold == tuple(gold["tool_name"] for gold in golds)
        assert item.anchor == item.pool[0] == row["analyzed_tools"][0]["tool_name"]
    assert collections.Counter(item.tier for item in sets["rrb"].items) == {"easy": 137, "medium": 131, "hard": 128}
    assert collections.Counter(item.answer for item in sets["qa"].items).keys() == {True, False}
    assert sum(is_blank(text.own) for text in sets["rrb"].tools.values()) > 0


def test_the_released_files_go_through_the_writer(tmp_path: Path) -> None:
    folder = shared("toolsense")
    for kind in KINDS:
        found = read_items(kind, folder / f"{kind}.jsonl")
        write_items(tmp_path / kind, found.items, found.tools)
        assert read_items(kind, tmp_path / kind) == found
        ours = [json.loads(line) for line in (tmp_path / kind).read_text(encoding="utf-8").split("\n") if line]
        theirs = [
            json.loads(line) for line in (folder / f"{kind}.jsonl").read_text(encoding="utf-8").split("\n") if line
        ]
        for own, their in zip(ours, theirs, strict=True):
            assert {key: own[key] for key in their} == their
