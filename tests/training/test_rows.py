from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest

from toolsavvy.catalog import Catalog, Query, Tool
from toolsavvy.config import schema
from toolsavvy.generators.toolsense import mcq, qa
from toolsavvy.indexing import SCHEMES
from toolsavvy.models.virtual import ToolModel
from toolsavvy.training.formats import (
    FORMATS,
    MULTI,
    SINGLE,
    TO_TOKEN,
    TOGETHER,
    Row,
    first_sentences,
    named,
    sentences,
)
from toolsavvy.training.rows import memorization_rows, query_rows
from world import toy_set, toy_tools

DATA = toy_set(12)


def huge(tools: ToolModel) -> Catalog:
    """The same catalog with descriptions of 5 MB, one of them without a single full stop or space."""
    endless = ["word " * 1_000_000, "x" * 5_000_000, "One. " * 1_000_000, "<|im_end|>" * 500_000]
    changed = [
        dataclasses.replace(tool, description=endless[i]) if i < len(endless) else tool
        for i, tool in enumerate(DATA.catalog.tools)
    ]
    return Catalog("huge", tuple(changed))


def decoded(tools: ToolModel, ids: tuple[int, ...]) -> str:
    return tools.tokenizer.decode(list(ids))


@pytest.mark.parametrize("scheme", SCHEMES)
def test_labels_are_whole_even_after_five_megabytes(scheme: str) -> None:
    tools = toy_tools(DATA, scheme)
    catalog = huge(tools)
    rows = memorization_rows(tools, catalog, FORMATS, 48, needs=[(0, "I need it " * 600_000)])
    query = Query("q", "find it " * 600_000, {catalog.tools[2].id: 1})
    rows += query_rows(tools, catalog, [query], 48)
    prefix, suffix = tools.frame.prefix, tools.frame.suffix
    longest = 96 + max(4 * max(map(len, tools.codes)), 1) + len(prefix) + len(suffix) + 20
    for row in rows:
        assert row.prompt[: len(prefix)] == prefix
        assert row.prompt[-len(suffix) :] == suffix
        assert row.target[-1] == tools.eos_id
        assert tools.eos_id not in row.target[:-1]
        assert len(row.prompt) <= longest
        assert row.length == len(row.prompt) + len(row.target) - 1
        if row.kind == "together":
            assert row.target in [(*code, *tools.frame.end) for code in tools.codes]
        elif row.kind in TO_TOKEN:
            assert row.target == (*tools.codes[row.tool], *tools.frame.end)
            assert set(row.prompt).isdisjoint(tools.new_ids) or row.kind == "choice"


def test_formats_say_what_they_are() -> None:
    tools = toy_tools(DATA)
    rows = memorization_rows(tools, DATA.catalog, FORMATS, 200, needs=[(i, f"I want {i}") for i in range(12)])
    by_kind = {kind: [r for r in rows if r.kind == kind] for kind in FORMATS}
    several = {
        "request": 3,
        "verdict": 2,
        "together": TOGETHER,
        "results": 0,  # the toy's tools say nothing of what they return
        "facts": sum(len(sentences(t.description, 9)) - 1 for t in DATA.catalog.tools) / 12,
    }
    assert {k: len(v) for k, v in by_kind.items()} == {k: several.get(k, 1) * 12 for k in FORMATS}
    assert [r.tool for r in by_kind["document"]] == list(range(12))
    tool, document = DATA.catalog.tools[3], DATA.catalog.documents[3]
    said = {kind: decoded(tools, by_kind[kind][3].prompt) for kind in FORMATS if by_kind[kind]}
    frame = (decoded(tools, tools.frame.prefix), decoded(tools, tools.frame.suffix))
    assert said["document"] == frame[0] + document + frame[1]
    words = tool.name.replace("_", " ")
    assert said["phrase"] == f"{frame[0]}{words} ({tool.group}){frame[1]}"
    assert "Which tool takes" in said["parameters"]
    assert "note" in said["parameters"]
    assert f"<<{tool.id}>>" in said["reverse"]
    answer = decoded(tools, by_kind["reverse"][3].target)
    assert answer.startswith(tool.description[:20])
    assert answer.endswith(tools.tokenizer.eos_token)


def test_single_is_one_row_a_tool_and_multi_five_formats() -> None:
    tools = toy_tools(DATA)
    assert len(memorization_rows(tools, DATA.catalog, SINGLE, 64)) == len(DATA.catalog)
    assert len({r.kind for r in memorization_rows(tools, DATA.catalog, MULTI, 64)}) == 5


@pytest.mark.parametrize("scheme", SCHEMES)
def test_choices_hold_the_gold_and_three_near_neighbours(scheme: str) -> None:
    tools = toy_tools(DATA, scheme)
    n = len(DATA.catalog)
    near = np.array([[(i + d) % n for d in (1, 2, 3, 4)] for i in range(n)])
    places = set()
    for row in memorization_rows(tools, DATA.catalog, ["choice"], 64, near, seed=3):
        asked = tools.text.encode(" Which of these does it?")
        body = row.prompt[: -len(tools.frame.suffix)]
        start = next(i for i in range(len(body)) if list(body[i : i + len(asked)]) == asked) + len(asked)
        shown = [o for o in range(n) if tools.codes[o] in windows(body[start:], len(tools.codes[o]))]
        allowed = {row.tool, *near[row.tool].tolist()}
        if scheme in ("atomic", "numeric"):  # other codes may be found inside each other
            assert set(shown) <= allowed
            assert len(shown) == 4
            places.add([tools.codes[row.tool] == c for c in pairs_of(body[start:], tools, shown)].index(True))
        assert row.tool in shown
    if scheme == "atomic":
        assert len(places) > 1  # the gold does not always stand first


def windows(ids: tuple[int, ...], width: int) -> set[tuple[int, ...]]:
    return {ids[i : i + width] for i in range(len(ids) - width + 1)}


def pairs_of(body: tuple[int, ...], tools: ToolModel, shown: list[int]) -> list[tuple[int, ...]]:
    """The codes in the order in which they stand."""
    width = len(tools.codes[shown[0]])
    return [body[i : i + width] for i in range(0, len(body), width)]


def test_a_long_description_never_pushes_out_the_question() -> None:
    tools = toy_tools(DATA)
    for row in memorization_rows(tools, huge(tools), ["choice"], 16):
        assert "Which of these does it?" in decoded(tools, row.prompt)


def test_rivals_are_drawn_where_no_neighbours_are_given_or_left() -> None:
    tools = toy_tools(DATA)
    itself = np.arange(len(DATA.catalog))[:, None]
    for near in (None, itself):
        for row in memorization_rows(tools, DATA.catalog, ["choice"], 32, near):
            shown = [t for t in row.prompt if t in tools.new_ids]
            assert len(set(shown)) == len(shown) == 4
            assert tools.codes[row.tool][0] in shown


def test_a_catalog_of_one_tool_makes_rows() -> None:
    data = toy_set(1)
    tools = toy_tools(data)
    rows = memorization_rows(tools, data.catalog, FORMATS, 32)
    assert {r.kind for r in rows} == set(FORMATS) - {"choice", "quiz", "need", "together", "facts", "results"}
    assert query_rows(tools, data.catalog, data.train, 32)


def test_a_tool_without_description_or_parameters_still_has_rows() -> None:
    bare = Catalog("bare", (Tool("a", "do_this"), Tool("b", "do_that", "Does that. Twice.")))
    tools = toy_tools(dataclasses.replace(DATA, catalog=bare, splits={}))
    rows = memorization_rows(tools, bare, FORMATS, 32)
    assert {r.kind for r in rows} == set(FORMATS) - {"parameters", "inputs", "results", "need", "together", "quiz"}
    assert all(r.target and r.prompt for r in rows)


def test_one_seed_one_order() -> None:
    tools = toy_tools(DATA)
    first, again, other = (memorization_rows(tools, DATA.catalog, MULTI, 64, seed=s) for s in (0, 0, 1))
    assert first == again
    assert first != other
    assert [r for r in first if r.kind != "choice"] == [r for r in other if r.kind != "choice"]
    alone = memorization_rows(tools, DATA.catalog, ["choice"], 64, seed=0)
    assert alone == [r for r in first if r.kind == "choice"]


def multi_gold() -> tuple[Query, list[int]]:
    golds = [7, 2, 5]
    return Query("q", "do three things", {DATA.catalog.tools[g].id: 1 for g in golds}), golds


def rows_of(scheme: str, targets: str) -> tuple[ToolModel, list[Row], list[int]]:
    query, golds = multi_gold()
    tools = toy_tools(DATA, scheme)
    return tools, query_rows(tools, DATA.catalog, [query], 32, targets), golds


@pytest.mark.parametrize("scheme", SCHEMES)
def test_rows_targets_give_one_row_a_gold(scheme: str) -> None:
    tools, rows, golds = rows_of(scheme, "rows")
    assert [r.tool for r in rows] == golds
    assert [r.target for r in rows] == [(*tools.codes[g], tools.eos_id) for g in golds]
    assert all(r.golds == () and r.weight == 1 and r.prompt == rows[0].prompt for r in rows)


def test_set_targets_share_one_row_under_atomic_codes() -> None:
    tools, rows, golds = rows_of("atomic", "set")
    (row,) = rows
    assert row.golds == tuple(tools.codes[g][0] for g in golds)
    assert row.target[0] in row.golds
    assert row.weight == 1


@pytest.mark.parametrize("scheme", ["hierarchical", "semantic", "numeric"])
def test_set_targets_of_longer_codes_weigh_one_query_together(scheme: str) -> None:
    tools, rows, golds = rows_of(scheme, "set")
    assert [r.tool for r in rows] == golds
    assert sum(r.weight for r in rows) == pytest.approx(1)
    assert len({r.weight for r in rows}) == 1
    assert all(r.target == (*tools.codes[g], tools.eos_id) for r, g in zip(rows, golds, strict=True))


def test_a_single_gold_is_the_same_row_either_way() -> None:
    tools = toy_tools(DATA)
    one = [q for q in DATA.train if len(q.relevant) == 1][:5]
    assert query_rows(tools, DATA.catalog, one, 32, "set") == query_rows(tools, DATA.catalog, one, 32, "rows")


@pytest.mark.parametrize(
    ("text", "n", "wanted"),
    [
        ("One.  Two!\nThree", 1, "One."),
        ("One. Two! Three", 2, "One. Two!"),
        ("", 1, ""),
        ("v1.2 is out. x", 1, "v1.2 is out."),
    ],
)
def test_sentences(text: str, n: int, wanted: str) -> None:
    assert first_sentences(text, n) == wanted


def test_rows_come_in_the_order_of_formats_and_tools() -> None:
    tools = toy_tools(DATA)
    kinds = [r.kind for r in memorization_rows(tools, DATA.catalog, ["phrase", "document"], 32)]
    assert kinds == ["phrase"] * 12 + ["document"] * 12
    order = [r.tool for r in memorization_rows(tools, DATA.catalog, ["phrase"], 32)]
    assert all(b == a + 1 for a, b in pairwise(order))


def test_quizzes_are_answered_by_the_letter_of_the_tool_itself() -> None:
    tools = toy_tools(DATA)
    letters = set()
    for row in memorization_rows(tools, DATA.catalog, ["quiz"], 200, seed=1):
        asked, letter = decoded(tools, row.prompt), decoded(tools, row.target[:-1])
        line = next(line for line in asked.splitlines() if line.startswith(f"{letter}."))
        assert line.split(". ", 1)[1] == first_sentences(DATA.catalog.tools[row.tool].description)
        letters.add(letter)
    assert letters == {"A", "B", "C", "D"}


def test_verdicts_say_yes_to_the_own_purpose_and_no_to_anothers() -> None:
    tools = toy_tools(DATA)
    for row in memorization_rows(tools, DATA.catalog, ["verdict"], 200):
        own = first_sentences(DATA.catalog.tools[row.tool].description) in decoded(tools, row.prompt)
        assert decoded(tools, row.target[:-1]) == ("Yes" if own else "No")


def test_config_names_every_format() -> None:
    assert tuple(FORMATS) == schema.FORMATS
    assert named("single") == SINGLE
    assert named("multi") == MULTI
    assert named(["reverse"]) == ("reverse",)


@pytest.mark.parametrize("scheme", ["atomic", "hierarchical"])
def test_needs_together_are_asked_for_in_one_request_and_share_its_mass(scheme: str) -> None:
    tools = toy_tools(DATA, scheme)
    needs = [(i, f"I want number {i} done") for i in range(12)]
    rows = memorization_rows(tools, DATA.catalog, ["together"], 200, needs=needs)
    asked: dict[tuple[int, ...], list[Row]] = {}
    for row in rows:
        asked.setdefault(row.prompt, []).append(row)
    sizes = set()
    for prompt, group in asked.items():
        if scheme == "atomic":
            golds = {tools.codes.index((g,)) for g in group[0].golds}
        else:
            golds = {row.tool for row in group}
            assert sum(row.weight for row in group) == pytest.approx(1)
        text = decoded(tools, prompt)
        assert golds == {i for i, need in needs if f"number {i} done" in text}
        sizes.add(len(golds))
    assert sizes == {2, 3, 4}


def test_what_a_tool_takes_and_gives_back_is_told_by_the_names_of_its_fields() -> None:
    schema_of = {name: {"type": "object", "properties": {name: {"type": "string"}}} for name in ("VpcId", "OwnState")}
    tool = Tool("a", "do_this", "Does this.", parameters=schema_of["VpcId"], returns=schema_of["OwnState"])
    bare = Catalog("bare", (tool, Tool("b", "do_that", "Does that.")))
    tools = toy_tools(dataclasses.replace(DATA, catalog=bare, splits={}))
    rows = memorization_rows(tools, bare, ["inputs", "results"], 32)
    assert [(r.kind, decoded(tools, r.target[:-1])) for r in rows] == [("inputs", "vpc id"), ("results", "own state")]
    assert all(tools.codes[0][0] in r.prompt for r in rows)


def test_no_format_asks_in_a_benchmarks_words() -> None:
    """Nothing that is put to a model about a tool starts or goes on as a question of MCQ or QA does."""
    tools = toy_tools(DATA)
    rows = memorization_rows(tools, DATA.catalog, FORMATS, 200, needs=[(0, "I need it")])
    shown = " ".join(decoded(tools, (*row.prompt, *row.target)) for row in rows).lower()
    wordings = [text for some in (*mcq.WORDINGS.values(), *qa.WORDINGS.values()) for text in some]
    for wording in wordings:
        for part in wording.split("{}"):
            assert len(part.split()) < 3 or part.strip(' "?').lower() not in shown, wording


def test_a_tool_that_does_the_very_same_is_no_wrong_option() -> None:
    tools = toy_tools(DATA)
    same = [dataclasses.replace(t, description="Does it all. ") for t in DATA.catalog.tools[:4]]
    catalog = Catalog("twins", (*same, *DATA.catalog.tools[4:]))
    near = np.array([[j for j in range(4) if j != i][:3] if i < 4 else [0, 1, 2] for i in range(len(catalog))])
    rows = memorization_rows(tools, catalog, ["choice", "quiz"], 200, near)
    twins = [row for row in rows if row.tool < 4]
    assert len(twins) == 8
    codes = {code[0] for code in tools.codes[:4]}
    for row in twins:
        assert len(codes & set(row.prompt)) == 1
        assert decoded(tools, row.prompt).count("Does it all") == 1
