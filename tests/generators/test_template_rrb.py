"""Requests from templates: labels, leaks, rivals, halves of phrases, bad input, real catalogs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml
from set_world import query, source, tool

from conftest import SHARED
from toolsavvy.attacks import tokens
from toolsavvy.benchmark import GOLDS, TIERS, RetrievalItem
from toolsavvy.catalog import Catalog, Query, RetrievalSet, Tool, split_words
from toolsavvy.catalogs import aws, metatool, sealtools, toolsense, toy
from toolsavvy.catalogs.aws_splits import names_tool
from toolsavvy.errors import UserError
from toolsavvy.generators.overlap import rouge_l
from toolsavvy.generators.toolsense.composing import WORDS, gives_away
from toolsavvy.generators.toolsense.objects import stem, stems
from toolsavvy.generators.toolsense.phrasing import frames
from toolsavvy.generators.toolsense.requests import Need, needs_of
from toolsavvy.generators.toolsense.rivals import Rivals
from toolsavvy.generators.toolsense.rrb import NEEDED, make_rrb, template_rrb, training_requests
from toolsavvy.retrieval.bm25 import BM25
from toolsavvy.suites.catalog_test import name_overlap

ROOT = Path(__file__).parents[2]
VERBS = {"Create": "Creates a", "Delete": "Deletes the specified", "Describe": "Describes the specified"}
THINGS = (
    "garden fence", "water pump", "tool shed", "compost heap", "greenhouse", "bird feeder", "apple tree", "lawn mower",
    "flower bed", "garden gnome", "wooden bench", "stone path",
)  # fmt: skip


def world(**changes: str) -> RetrievalSet:
    """36 operations in four services; people asked for a few."""
    tools = []
    for number, thing in enumerate(THINGS):
        for verb, opening in VERBS.items():
            name = verb + thing.title().replace(" ", "")
            text = changes.get(name, f"{opening} {thing}.\nMore about every {thing} is in the guide.")
            tools.append(tool(f"svc{number % 4}:{name}", name, text, f"svc{number % 4}", "Garden Service", "Id"))
    asked = [
        query("t", "Please erect a zebra fence", "svc0:CreateGardenFence"),
        query("v", "To create a quilted water pump", "svc1:CreateWaterPump"),
    ]
    return source("garden", tools, {"train": asked[:1], "test": asked[1:]})


def real(name: str) -> RetrievalSet:
    """A catalog of the project's own sources; the shared ones may be absent."""
    if name == "aws_network":
        services = yaml.safe_load((ROOT / "conf" / "catalog" / "aws_network.yaml").read_text("utf-8"))["services"]
        return aws.load(name, services, operations=120, with_examples_only=True)
    if name == "toy":
        return toy.load()
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"shared data is absent: no {name} in {SHARED}")
    if name == "metatool":
        return metatool.load(folder, cap=12)
    data = {"toolsense": toolsense, "sealtools": sealtools}[name].load(folder)
    tools = data.catalog.tools[:: len(data.catalog) // 700]  # a part: what holds for it holds for all
    kept = {tool.id for tool in tools}
    splits = {s: tuple(q for q in qs if q.gold.keys() <= kept) for s, qs in data.splits.items()}
    return RetrievalSet(Catalog(name, tools), splits)


@pytest.fixture(scope="module", params=["garden", "toy", "aws_network", "toolsense", "metatool", "sealtools"])
def made(request: pytest.FixtureRequest) -> tuple[RetrievalSet, list[RetrievalItem]]:
    data = world() if request.param == "garden" else real(request.param)
    return data, template_rrb(data, 60, seed=3)


# --- what holds for every catalog ----------------------------------------------------------------


def test_tiers_are_balanced_and_each_has_its_golds(made: tuple[RetrievalSet, list[RetrievalItem]]) -> None:
    _, items = made
    assert Counter(item.tier for item in items) == dict.fromkeys(TIERS, 20)
    for item in items:
        low, high = GOLDS[item.tier]
        assert low <= len(item.gold) <= (high or len(item.gold)), item
    assert len({item.id for item in items}) == len(items)
    for tier in TIERS:
        anchors = [item.anchor for item in items if item.tier == tier]
        assert len(set(anchors)) == len(anchors)


def test_the_anchor_is_gold_and_the_golds_are_in_a_shuffled_pool(
    made: tuple[RetrievalSet, list[RetrievalItem]],
) -> None:
    data, items = made
    places = Counter[int]()
    for item in items:
        assert item.anchor in item.gold
        assert set(item.gold) <= set(item.pool) <= data.catalog.index.keys()
        assert len(set(item.gold)) == len(item.gold) and len(set(item.pool)) == len(item.pool) == 14
        assert list(item.gold) == sorted(item.gold, key=item.pool.index)
        places[item.pool.index(item.anchor)] += 1
    assert max(places.values()) <= 0.3 * len(items) and len(places) >= 8, places


def test_no_name_leaks_and_requests_are_short(made: tuple[RetrievalSet, list[RetrievalItem]]) -> None:
    data, items = made
    for item in items:
        tools = [data.catalog.tools[data.catalog.index[gold]] for gold in item.gold]
        assert not any(names_tool(item.query, gold) for gold in tools), item
        assert name_overlap(Query("q", item.query, dict.fromkeys(item.gold, 1)), data.catalog) != "full", item
        assert len(item.query.split()) <= WORDS[item.tier]
        assert item.query[0].isupper() and item.query[-1] in ".?" and "{" not in item.query
        assert 1 <= sum(item.query.count(mark) for mark in (". ", "? ")) + 1 <= 3


def test_no_request_is_written_twice_nor_copied_from_people(made: tuple[RetrievalSet, list[RetrievalItem]]) -> None:
    data, items = made
    words = [tokens(item.query) for item in items]
    for i, text in enumerate(words):
        assert all(rouge_l(text, other) < 0.8 and set(text) != set(other) for other in words[:i]), items[i]
    people = {" ".join(tokens(q.text)) for queries in data.splits.values() for q in queries}
    assert not any(" ".join(text) in people for text in words)


def test_no_phrase_for_training_is_in_the_benchmark(made: tuple[RetrievalSet, list[RetrievalItem]]) -> None:
    _, items = made
    assert not [item.query for item in items if frames("training").occurs(item.query)]
    assert all(frames("benchmark").occurs(item.query) for item in items)


def test_every_gold_is_asked_for(made: tuple[RetrievalSet, list[RetrievalItem]]) -> None:
    """Some word of every gold tool's texts, or a synonym of one, is in the request."""
    data, items = made
    people: dict[str, frozenset[str]] = {}
    for asked in (q for split in data.test_splits for q in data.splits[split]):
        for gold in asked.relevant:
            people[gold] = people.get(gold, frozenset()) | stems(asked.text)
    back = {said: term for term, said in frames("benchmark").nouns.items()}
    for item in items:
        text = item.query
        for said in sorted(back, key=len, reverse=True):
            text = text.replace(said, back[said])
        said_words = stems(text) | stems(item.query)
        for gold in item.gold:
            known = data.catalog.tools[data.catalog.index[gold]]
            own = stems(f"{split_words(known.name)} {known.description}")
            assert said_words & (own | people.get(gold, frozenset())), (item, gold)


def test_no_tool_with_the_same_description_goes_unnamed(made: tuple[RetrievalSet, list[RetrievalItem]]) -> None:
    data, items = made
    same: dict[str, set[str]] = {}
    for known in data.catalog.tools:
        same.setdefault(" ".join(known.description.split()).casefold(), set()).add(known.id)
    for item in items:
        for gold in item.gold:
            text = " ".join(data.catalog.tools[data.catalog.index[gold]].description.split()).casefold()
            assert not text or same[text] <= set(item.gold), item


def test_training_requests_stand_apart(made: tuple[RetrievalSet, list[RetrievalItem]]) -> None:
    data, items = made
    part = Catalog(data.catalog.name, data.catalog.tools[:400])
    asked = [item.query for item in items]
    rows = training_requests(part, 1, apart_from=asked)
    assert rows == training_requests(part, 1, apart_from=asked)
    assert {tool for tool, _ in rows} == set(range(len(part)))
    assert max(Counter(tool for tool, _ in rows).values()) == 2
    assert len(set(rows)) == len(rows) and all(frames("training").occurs(text) for _, text in rows)
    known = [tokens(text) for text in asked]
    assert all(rouge_l(tokens(text), other) < 0.8 for _, text in rows[:200] for other in known)


# --- choices ------------------------------------------------------------------------------------


def test_same_seed_same_items_in_every_process() -> None:
    code = (
        "import json, test_template_rrb as t; from dataclasses import asdict;"
        "print(json.dumps([asdict(i) for i in t.template_rrb(t.world(), 30, seed=7)]))"
    )
    env = os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": f"{Path(__file__).parent}:{ROOT / 'tests'}"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    other = json.loads(done.stdout)
    assert other == json.loads(json.dumps([asdict(item) for item in template_rrb(world(), 30, seed=7)]))
    assert [item["query"] for item in other] != [item.query for item in template_rrb(world(), 30, seed=8)]


def test_excluded_tools_are_no_anchors() -> None:
    first = {item.anchor for item in template_rrb(world(), 12)}
    other = template_rrb(world(), 12, exclude_anchors=first)
    assert other and not first & {item.anchor for item in other}


def test_no_service_gives_more_anchors_than_its_cap() -> None:
    items = template_rrb(world(), 12, cap=3)
    assert max(Counter(item.anchor.split(":")[0] for item in items).values()) <= 3


@pytest.mark.parametrize(
    ("n", "tiers", "counts"),
    [(1, (1, 1, 1), (1, 0, 0)), (2, (1, 1, 1), (1, 1, 0)), (8, (1, 1, 2), (2, 2, 4)), (5, (0, 1, 0), (0, 5, 0))],
)
def test_shares_of_the_tiers(n: int, tiers: tuple[float, ...], counts: tuple[int, ...]) -> None:
    found = Counter(item.tier for item in template_rrb(world(), n, tiers=dict(zip(TIERS, tiers, strict=True))))
    assert tuple(found[tier] for tier in TIERS) == counts


def test_only_requests_that_people_test_with_lend_words() -> None:
    items = template_rrb(world(), 90)
    text = " ".join(item.query for item in items)
    assert "zebra" not in text
    assert "quilted" in text, "a test example says more than the documentation"


# --- rivals -------------------------------------------------------------------------------------


def test_tools_that_do_the_same_are_asked_for_together_or_not_at_all() -> None:
    data = world()
    twin = tool("svc9:MakeLawnMower", "MakeLawnMower", "Makes a new lawn mower.", "svc9")
    both = RetrievalSet(Catalog("twins", (*data.catalog.tools, twin)), data.splits)
    items = template_rrb(both, 111)
    pair = {"svc9:MakeLawnMower", "svc3:CreateLawnMower"}
    for item in items:
        assert not pair & set(item.gold) or pair <= set(item.gold), item
    assert any(pair == set(item.gold) for item in items), "one need, two tools: a medium request"


def test_a_closer_description_elsewhere_is_a_rival() -> None:
    data = world(DeleteStonePath="Deletes the specified stone path of a garden fence.")
    rivals, index = Rivals(data.catalog), data.catalog.index
    fence = index["svc0:DeleteGardenFence"]
    assert rivals.of(fence, Need("delete", "the garden fence")) == {index["svc3:DeleteStonePath"]}
    assert rivals.of(fence, Need("create", "the garden fence")) == {index["svc0:CreateGardenFence"]}
    assert not rivals.meets(index["svc3:DeleteStonePath"], Need("delete", "the garden fence")), "it deletes a path"


# --- needs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "need"),
    [
        ("DeleteVpc", "Deletes the specified VPC. You must detach it first.", ("delete", "the VPC")),
        ("DescribeHosts", "Describes one or more of your hosts.", ("list", "our hosts")),
        ("GetFinding", "Retrieves information about the specified finding.", ("get", "the finding")),
        ("PutPool", "Creates or updates a warm pool for the group.", ("put", "a warm pool for the group")),
        ("ModifyTier", "This operation archives an existing snapshot.", ("archive", "a snapshot")),
        ("x", "Use this API to convert ABC notation to WAV files.", ("convert", "ABC notation to WAV files")),
        ("x", "A tool that helps you to find cheap flights to Rome, and more.", ("search", "cheap flights to Rome")),
        ("x", "Latest odds for football games", ("list", "latest odds for football games")),
        ("ConfirmIt", "Determines whether a code is associated with a host.", ("whether", "whether a code is")),
        ("DeleteHost", "The host to be deleted.", ("delete", "a host")),
    ],
)
def test_needs_are_read_from_documentation(name: str, text: str, need: tuple[str, str]) -> None:
    found = needs_of(tool("t", name, text))[0]
    assert found.action == need[0] and found.thing.startswith(need[1])


@pytest.mark.parametrize("text", ["", "None", "...", "{id}", "sdfsdf", "Invia una lista di targhe"])
def test_a_tool_that_says_nothing_has_no_need(text: str) -> None:
    assert needs_of(tool("t", "fdfd", text)) == ()


def test_stems_keep_what_carries_meaning() -> None:
    assert stems("the policies of our BusStops") == {"policy", "bus", "stop"}
    assert [stem(word) for word in ("addresses", "news", "status", "glass", "vpcs")] == [
        "address", "new", "status", "glass", "vpc",
    ]  # fmt: skip


# --- bad input ----------------------------------------------------------------------------------


def small(count: int) -> RetrievalSet:
    return source("few", world().catalog.tools[:count])


@pytest.mark.parametrize(
    ("change", "what", "where", "expected"),
    [
        ({"data": small(3)}, "too few for hard", "catalog few", "5 tools for hard"),
        ({"data": small(2)}, "too few for medium and hard", "catalog few", "3 tools for medium"),
        ({"n": 0}, "n=0", "generator.n", "at least 1"),
        ({"pool": 5}, "pool=5", "generator.pool", "at least 7"),
        ({"tiers": {"esay": 1}}, "tiers=", "generator.tiers", "shares from 0 of easy"),
        ({"tiers": {"easy": 0}}, "tiers=", "generator.tiers", "shares from 0 of easy"),
        ({"cap": 0}, "0 is too small", "generator.cap", "from 1"),
    ],
)
def test_faults_of_the_user(change: dict[str, object], what: str, where: str, expected: str) -> None:
    arguments: dict[str, object] = {"data": world(), "n": 9} | change
    with pytest.raises(UserError) as caught:
        template_rrb(**arguments)  # pyright: ignore[reportArgumentType]
    error = caught.value
    assert what in error.what and where in error.where and expected in error.expected


@pytest.mark.parametrize("name", ["Thing", "getThing", ""])
def test_a_catalog_of_identical_tools_says_why_nothing_can_be_asked(name: str) -> None:
    tools = [tool(f"t{i}", name, "Retrieves the current thing.") for i in range(8)]
    with pytest.raises(UserError, match="another tool does the same") as caught:
        template_rrb(source("same", tools), 9)
    assert caught.value.fix and "same" in caught.value.where


def test_tools_without_any_text_say_so() -> None:
    with pytest.raises(UserError, match="can't be told"):
        template_rrb(source("blank", [tool(f"t{i}", f"x{i}") for i in range(8)]), 9)


def test_names_alone_suffice() -> None:
    tools = [tool(t.id, t.name) for t in world().catalog.tools]
    assert len(template_rrb(source("bare", tools), 30)) == 30


def test_three_tools_are_enough_for_the_first_two_tiers() -> None:
    found = Counter(item.tier for item in template_rrb(small(3), 2, tiers={"easy": 1, "medium": 1}))
    assert found == {"easy": 1, "medium": 1} and NEEDED["medium"] == 3


def test_more_than_the_catalog_can_give_is_told_and_not_made_up() -> None:
    made = make_rrb(small(8), 90)
    tiers = Counter(item.tier for item in made.items)
    assert all(made.counts[f"{tier} wanted"] == 30 and made.counts[f"{tier} made"] == tiers[tier] for tier in TIERS)
    assert 0 < tiers["easy"] <= 8 and len(made.items) < 90


# --- how hard it is -----------------------------------------------------------------------------


def test_words_alone_find_much_but_not_all() -> None:
    data = real("aws_network")
    items = template_rrb(data, 120)
    assert len(items) == 120
    asked = [Query(item.id, item.query, dict.fromkeys(item.gold, 1)) for item in items]
    ranks = BM25().fit(data.catalog).search(asked, 5).indices.tolist()
    recall: dict[str, list[float]] = {tier: [] for tier in TIERS}
    for item, row in zip(items, ranks, strict=True):
        found = {data.catalog.tools[i].id for i in row if i >= 0} & set(item.gold)
        recall[item.tier].append(len(found) / len(item.gold))
    easy, medium, hard = (sum(recall[tier]) / len(recall[tier]) for tier in TIERS)
    assert 0.6 < easy < 0.95 and 0.4 < medium < 0.9 and 0.2 < hard < medium


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("I need a report from CodeBuild", True),
        ("I need a report from codebuild", True),
        ("I need a report on code builds", False),
        ("I need the report group", False),
    ],
)
def test_a_service_is_named_however_it_is_spelled(text: str, given: bool) -> None:
    assert gives_away(text, Tool("codebuild:BatchGetReports", "BatchGetReports", group="codebuild")) == given
