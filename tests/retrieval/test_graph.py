"""The tool graph: PageRank against networkx, edges by hand, nothing learnt from test queries, and its use."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import networkx
import numpy as np
import pytest

from toolsavvy.catalog import Catalog, Query, RetrievalSet, Tool
from toolsavvy.errors import UserError
from toolsavvy.metrics import GoldMatrix, paired_difference, per_query
from toolsavvy.retrieval.bm25 import BM25
from toolsavvy.retrieval.edges import Weights, build_edges, mix, pagerank
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.retrieval.graph import Graph
from toolsavvy.retrieval.ranking import NO_TOOL, Ranking, Retriever, rank_scores
from toolsavvy.retrieval.restart import Found, Start, clauses
from toolsavvy.suites.catalog_test import CatalogTest, rank


class Lengths(Encoder):
    """An encoder that loads no model: a text is the counts of two letters."""

    def encode_documents(self, documents: Sequence[str]) -> np.ndarray:
        return np.array([[d.count("a"), d.count("e")] for d in documents], dtype=np.float32)


def schema(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}}


def tool(name: str, takes: Sequence[str] = (), gives: Sequence[str] = (), group: str = "") -> Tool:
    return Tool(name, name, f"does {name}", group, parameters=schema(*takes), returns=schema(*gives))


TRIP = Catalog(
    "trip",
    (
        tool("find_flight", ["id", "city"], ["flight_number"], "air"),
        tool("book_flight", ["id", "flight_number"], ["ticket"], "air"),
        tool("print_ticket", ["id", "ticket"], group="paper"),
        tool("weather", ["id", "city"]),
        tool("alone", ["id"]),
    ),
)
ALL = Weights(1.0, 1.0, 1.0, 1.0)


class Scored:
    """A first stage that gives the scores it was told, by query id."""

    def __init__(self, scores: dict[str, Sequence[float]], ids: Sequence[str]) -> None:
        self.scores, self.ids = scores, ids

    def fit(self, catalog: Catalog, train: Sequence[Query] = ()) -> Self:
        return self

    def search(self, queries: Sequence[Query], k: int) -> Ranking:
        rows = [self.scores[query.id] for query in queries]
        return rank_scores(np.array(rows, dtype=float).reshape(len(rows), len(self.ids)), self.ids, k)


def dense(graph: Any) -> np.ndarray:
    """The walk as a plain matrix: where a unit of mass on each tool goes."""
    return graph.step(np.eye(len(graph))).T


def random_walk(seed: int, tools: int = 40) -> tuple[Any, np.random.Generator]:
    """A graph with every kind of edges, groups of several sizes and tools without edges."""
    rng = np.random.default_rng(seed)
    made = [
        tool(f"t{i}", [f"p{rng.integers(12)}"] if i % 3 else [], group=f"g{rng.integers(9)}" if i % 4 else "")
        for i in range(tools - 3)
    ]
    catalog = Catalog("r", (*made, *(tool(f"bare{i}") for i in range(3))))
    queries = [Query(f"q{i}", "x", {f"t{j}": 1 for j in rng.integers(tools - 3, size=3)}) for i in range(10)]
    vectors = rng.normal(size=(tools, 6)).astype(np.float32)
    vectors[-3:] = 0.0
    return mix(build_edges(catalog, queries, 4, vectors), Weights(1.0, 0.5, 0.3, 0.2)), rng


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_pagerank_equals_networkx_and_a_linear_solve(seed: int) -> None:
    graph, rng = random_walk(seed)
    matrix, restart = dense(graph), rng.dirichlet(np.full(len(graph), 0.1), size=4)
    ours = pagerank(graph, restart, 0.8, tolerance=1e-12)
    drawn = networkx.from_numpy_array(matrix, create_using=networkx.DiGraph)
    isolated = np.asarray(matrix.sum(axis=1) == 0, dtype=float)
    assert isolated.sum() >= 3 and graph.isolated().sum() == isolated.sum()
    for row, start in zip(ours, restart, strict=True):
        told = networkx.pagerank(drawn, alpha=0.8, personalization=dict(enumerate(start)), tol=1e-14, max_iter=1000)
        np.testing.assert_allclose(row, [told[i] for i in range(len(graph))], atol=1e-9)
        full = matrix + np.outer(isolated, start)
        np.testing.assert_allclose(row, np.linalg.solve(np.eye(len(graph)) - 0.8 * full.T, 0.2 * start), atol=1e-9)


def test_a_step_keeps_all_mass_but_that_of_isolated_tools() -> None:
    graph, _ = random_walk(3)
    np.testing.assert_allclose(dense(graph).sum(axis=1), np.where(graph.isolated(), 0.0, 1.0))
    assert (np.diag(dense(graph)) == 0).all(), "no tool is its own neighbour"
    loose, tight = (pagerank(graph, np.eye(len(graph)), 0.9, tolerance=t) for t in (1e-3, 1e-12))
    assert np.abs(loose - tight).sum(axis=1).max() < 1e-3, "the tolerance bounds the error"


def test_edges_come_from_groups_parameters_results_and_joint_use() -> None:
    queries = [
        Query("a", "x", {"find_flight": 1, "print_ticket": 1}),
        Query("b", "x", {"find_flight": 1, "weather": 1}),
    ]
    queries += [Query("c", "x", {"weather": 1, "find_flight": 1}), Query("d", "x", {"alone": 1})]
    edges = build_edges(TRIP, queries, 3, np.eye(5, dtype=np.float32))
    find, book, paper, weather, alone = range(5)
    used = edges.explicit["co_use"].toarray()
    assert used[find].tolist() == pytest.approx([0, 0, 1 / 3, 2 / 3, 0]) and not used[alone].any()
    named = edges.explicit["parameters"].toarray() > 0
    assert named[find, weather], "both take a city"
    assert named[find, book] and named[book, find], "a flight number is found, then taken"
    assert named[book, paper] and not named[find, paper]
    assert not named[alone].any(), "an id that every tool takes links nothing"
    assert edges.mates.tolist() == [1, 1, 0, 0, 0]
    assert not edges.explicit["semantic"].count_nonzero(), "orthogonal documents are no neighbours"


def test_rare_names_weigh_more_than_common_ones() -> None:
    others = [tool(f"o{i}", ["id"]) for i in range(5)]
    catalog = Catalog("c", (tool("a", ["id", "iban"]), tool("b", ["id"]), tool("c", ["iban"]), tool("z"), *others))
    row = build_edges(catalog, (), 10, None, ["parameters"]).explicit["parameters"].toarray()[0]
    assert row[2] > row[1] > 0


def test_names_inside_results_count() -> None:
    nested = {"type": "array", "items": {"type": "object", "properties": {"iban": {"type": "string"}}}}
    giver = Tool("list", "list", returns={"type": "object", "properties": {"accounts": nested}})
    catalog = Catalog("c", (giver, tool("pay", ["iban"]), tool("other", ["x"])))
    edges = build_edges(catalog, (), 2, None, ["parameters"]).explicit["parameters"].toarray()
    assert edges[0, 1] > 0 and edges[0, 2] == 0


def test_semantic_neighbours_are_the_nearest_by_cosine_both_ways() -> None:
    vectors = np.array([[1, 0], [5, 0.1], [0.9, 0.3], [-1, 0.1], [0, 1]], dtype=np.float32)
    edges = build_edges(TRIP, (), 1, vectors, ["semantic"]).explicit["semantic"].toarray()
    near = {(int(a), int(b)) for a, b in np.argwhere(edges > 0)}
    assert {(0, 1), (1, 0), (1, 2), (2, 1)} <= near and not any(3 in pair and 0 in pair for pair in near)


def test_kinds_are_mixed_among_those_that_a_tool_has() -> None:
    edges = build_edges(TRIP, [Query("a", "x", {"find_flight": 1, "alone": 1})], 2, None, ["co_use", "group"])
    walk = dense(mix(edges, Weights(co_use=1.0, group=3.0)))
    assert walk[0].tolist() == pytest.approx([0, 3 / 4, 0, 0, 1 / 4])
    assert walk[1].tolist() == [1, 0, 0, 0, 0] and walk[4].tolist() == [1, 0, 0, 0, 0]
    assert not walk[2].any() and not walk[3].any()


def world(seed: int, linked: bool, queries: int = 120) -> RetrievalSet:
    """Pairs of tools that are used together and share no word; queries name the first of a pair, and noise.

    `linked` puts the joint use into training; else only test queries have it.
    """
    rng = np.random.default_rng(seed)
    pairs = 30
    tools = tuple(Tool(f"{kind}{i}", f"{kind}{i}", f"word{kind}{i}") for i in range(pairs) for kind in ("a", "b"))
    noise = tuple(Tool(f"n{i}", f"n{i}", f"common{i % 7} filler{i}") for i in range(60))

    def ask(name: str, pair: int) -> Query:
        text = f"worda{pair} common{rng.integers(7)} common{rng.integers(7)} {name}"
        return Query(name, text, {f"a{pair}": 1, f"b{pair}": 1})

    test = tuple(ask(f"test{i}", int(rng.integers(pairs))) for i in range(queries))
    train = tuple(ask(f"train{i}", i % pairs) for i in range(2 * pairs)) if linked else ()
    return RetrievalSet(Catalog("w", tools + noise), {"train": train, "test": test}, ("test",))


def completeness(retriever: Retriever, data: RetrievalSet) -> np.ndarray:
    ranking = rank(retriever, data, 10)["test"]
    return per_query(ranking, GoldMatrix.from_queries(data.catalog, data.splits["test"]), 10).completeness


@pytest.mark.parametrize("tune", [False, True])
def test_it_raises_completeness_where_joint_use_is_known(tune: bool) -> None:
    data = world(0, linked=True)
    graph, first = Graph(BM25(), semantic=0.0, tune=tune), BM25()
    gain = paired_difference(
        completeness(graph, data), completeness(first, data), [min(q.relevant) for q in data.splits["test"]]
    )
    assert gain.interval.low is not None and gain.interval.low > 0.5
    if tune:
        facts = graph.facts()
        assert facts["tuned on"] == 60 and facts["C@10 after"] > facts["C@10 before"] + 0.3
        assert facts["co_use"] > 0 and facts["blend"] > 0


def test_test_queries_never_make_edges() -> None:
    """Joint use that only test queries show changes nothing: the graph is the first stage."""
    data = world(1, linked=False)
    graph = Graph(BM25(), co_use=1.0, group=0.0, parameters=0.0, semantic=0.0, tune=False, clauses=False)
    ours, first = rank(graph, data, 10)["test"], rank(BM25(), data, 10)["test"]
    np.testing.assert_array_equal(ours.indices[:, :1], first.indices[:, :1])
    assert completeness(graph, data).sum() == completeness(BM25(), data).sum() == 0
    edges = build_edges(data.catalog, data.train, 5, None, ["co_use"])
    assert not edges.explicit["co_use"].count_nonzero()


def test_tuning_on_training_queries_hides_each_ones_own_joint_use() -> None:
    """Every pair is asked for once in training: what one half knows says nothing about the other."""
    data = world(2, linked=True)
    once = RetrievalSet(data.catalog, {"train": data.train[:30], "test": data.splits["test"]}, ("test",))
    facts = Graph(BM25(), group=0.0, parameters=0.0, semantic=0.0).fit(once.catalog, once.train).facts()
    assert facts["C@10 after"] == facts["C@10 before"] == facts["blend"] == 0.0


def test_validation_queries_are_preferred_for_tuning_and_make_no_edges() -> None:
    data = world(3, linked=True)
    graph = Graph(BM25(), semantic=0.0)
    graph.validation = data.splits["test"][:25]
    assert graph.fit(data.catalog, data.train).facts()["tuned on"] == 25
    blind = Graph(BM25(), semantic=0.0)
    blind.validation = data.train
    assert blind.fit(data.catalog, ()).facts()["C@10 after"] == 0.0


def test_without_training_queries_or_several_golds_settings_stay_as_they_are() -> None:
    data = world(4, linked=False)
    graph = Graph(BM25(), semantic=0.0, damping=0.3, blend=0.6).fit(data.catalog)
    assert (graph.walk.damping, graph.walk.blend) == (0.3, 0.6) and graph.facts() == {}
    single = [Query("s", "worda1", {"a1": 1})]
    assert Graph(BM25(), semantic=0.0).fit(data.catalog, single).facts() == {}
    assert (completeness(Graph(BM25(), semantic=0.0), data) == completeness(BM25(), data)).all()


def test_neighbours_from_outside_come_in_and_isolated_tools_keep_their_place() -> None:
    first = Scored({"q": [5.0, -np.inf, -np.inf, 4.0, 3.0]}, [t.id for t in TRIP.tools])
    graph = Graph(first, group=1.0, co_use=0.0, parameters=0.0, semantic=0.0, tune=False, blend=0.5).fit(TRIP)
    found = graph.search([Query("q", "fly", {"find_flight": 1})], 5)
    names = [TRIP.tools[i].id if i != NO_TOOL else None for i in found.indices[0]]
    assert names[0] == "find_flight" and "book_flight" in names, "the mate of the best comes in"
    assert names.index("weather") < names.index("alone")
    assert names[-1] is None and found.scores[0, -1] == -np.inf, "print_ticket is found by nobody"


def test_every_depth_gives_a_prefix_of_a_deeper_ranking_and_k_is_capped() -> None:
    data = world(5, linked=True)
    graph = Graph(BM25(), semantic=0.0, depth=4, tune=False).fit(data.catalog, data.train)
    queries = data.splits["test"][:20]
    whole = graph.search(queries, 10**6)
    assert whole.indices.shape == (20, len(data.catalog))
    for k in (1, 5, 30):
        part = graph.search(queries, k)
        np.testing.assert_array_equal(part.indices, whole.indices[:, :k])
    for row in whole.indices:
        there = row[row != NO_TOOL]
        assert len(set(there.tolist())) == len(there)
    assert (np.diff(np.where(np.isneginf(whole.scores), -1e9, whole.scores), axis=1) <= 0).all()
    assert graph.search([], 5).indices.shape == (0, 5)


def test_blend_0_is_the_first_stage_and_a_query_that_finds_nothing_stays_empty() -> None:
    data = world(6, linked=True)
    queries = [*data.splits["test"][:5], Query("none", "zzz", {"a0": 1})]
    first = BM25().fit(data.catalog).search(queries, 40)
    same = Graph(BM25(), semantic=0.0, blend=0.0, tune=False).fit(data.catalog, data.train).search(queries, 40)
    np.testing.assert_array_equal(same.indices, first.indices)
    ours = Graph(BM25(), semantic=0.0, tune=False).fit(data.catalog, data.train).search(queries, 40)
    empty = first.indices[-1] == NO_TOOL
    assert (ours.indices[-1][empty] == NO_TOOL).all()


def test_equal_scores_are_ranked_by_descending_id_and_runs_repeat() -> None:
    twins = Catalog("t", tuple(Tool(name, name, group="g") for name in ("m", "c", "a", "b")))
    first = Scored({"q": [1.0, -np.inf, -np.inf, -np.inf]}, ["m", "c", "a", "b"])
    graph = Graph(first, semantic=0.0, tune=False).fit(twins)
    found = graph.search([Query("q", "x", {"m": 1})] * 3, 4)
    assert [twins.tools[i].id for i in found.indices[0]] == ["m", "c", "b", "a"]
    assert (found.indices == found.indices[0]).all()


def test_clauses_share_the_restart_equally() -> None:
    assert clauses("Book a flight. Then print the ticket, and then check the weather in Rome!") == [
        "Book a flight.", "Then print the ticket", "check the weather in Rome!",
    ]  # fmt: skip
    assert clauses("one request only") == ["one request only"] and clauses("") == [""]
    assert clauses("Hi there. Book a flight.") == ["Hi there. Book a flight."], "a greeting is no request"
    found = Ranking(np.array([[0, 1], [2, NO_TOOL], [3, 1]]), np.array([[9.0, 1.0], [2.0, -np.inf], [1.0, 1.0]]))
    whole = Ranking(found.indices[:2], found.scores[:2])
    start = Start.of(Found(whole, found, np.array([0, 0, 1])), 2, 5, 0.5)
    np.testing.assert_allclose(start.restart.sum(axis=1), 1.0)
    assert start.restart[0, 2] == pytest.approx(0.5), "the second clause has its half, whatever its score"
    assert start.restart[1].tolist() == pytest.approx([0, 0.5, 0, 0.5, 0])


def test_clauses_find_what_the_longest_part_of_a_request_hides() -> None:
    """Asked as a whole, the first stage sees nothing but banks; the second clause brings its own tool up."""
    names = [*(f"bank{i:02}" for i in range(12)), "rain"]
    banks = {"q": [*np.linspace(9, 8, 12), 0.1]}

    class ByText(Scored):
        def search(self, queries: Sequence[Query], k: int) -> Ranking:
            rows = [[0.0] * 12 + [7.0] if query.text == "Show the weather." else banks["q"] for query in queries]
            return rank_scores(np.array(rows), self.ids, k)

    catalog = Catalog("c", tuple(Tool(name, name) for name in names))
    query = Query("q", "Transfer money to another bank account. Show the weather.", {"bank00": 1, "rain": 1})
    places = []
    for way in (True, False):
        graph = Graph(ByText({}, names), semantic=0.0, tune=False, clauses=way).fit(catalog)
        places.append(int(np.flatnonzero(graph.search([query], 13).indices[0] == 12)[0]))
    assert places[0] < 3 and places[1] == 12


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("damping", 1.0, "< 1"), ("damping", -0.1, ">= 0"), ("blend", 1.5, "0 to 1"), ("temperature", 0.0, "> 0"),
        ("depth", 0, ">= 1"), ("neighbours", 0, ">= 1"), ("co_use", -1.0, ">= 0"), ("group", float("nan"), ">= 0"),
    ],
)  # fmt: skip
def test_settings_out_of_range_are_refused(setting: str, value: Any, expected: str) -> None:
    with pytest.raises(UserError, match=f"{value} is out of range") as caught:
        Graph(BM25(), **{"semantic": 0.0, setting: value})
    assert caught.value.where == f"retriever.graph.{setting}" and expected in caught.value.expected


def test_missing_parts_are_named() -> None:
    with pytest.raises(UserError, match="need an encoder") as caught:
        Graph(BM25())
    assert caught.value.where == "retriever.graph.encoder" and "semantic=0" in caught.value.fix
    with pytest.raises(UserError, match="no kind of edges") as caught:
        Graph(BM25(), co_use=0, group=0, parameters=0, semantic=0)
    assert "co_use or group" in caught.value.expected
    with pytest.raises(RuntimeError, match="fit"):
        Graph(BM25(), semantic=0.0).search([], 1)


def test_a_catalog_of_one_tool_and_an_encoder() -> None:
    one = Catalog("one", (Tool("t", "only"),))
    found = Graph(BM25(), Lengths(), tune=False).fit(one).search([Query("q", "only", {"t": 1})], 10)
    assert found.indices.tolist() == [[0]]


def test_services_raise_completeness_on_real_queries() -> None:
    """StableToolBench: tools of one API are used together; settings are chosen on validation queries."""
    from toolsavvy.catalogs.stabletoolbench import load

    folder = Path(os.environ.get("TOOLSAVVY_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")
    if not (folder / "stabletoolbench").is_dir():
        pytest.skip(f"shared data is absent: no stabletoolbench in {folder}")
    data = load(folder / "stabletoolbench", validation_share=0.25, train_share=0.25)
    graph = Graph(BM25(), semantic=0.0, parameters=0.0, co_use=0.0)
    graph.validation = data.validation[:60]
    suite = CatalogTest(ks=[10], resamples=500, pairs=[["graph", "bm25"]])
    systems = {"graph": {"": rank(graph, data, 10)}, "bm25": {"": rank(BM25(), data, 10)}}
    named = [c for c in suite.run(data, systems).comparisons if c.metric == "completeness" and c.slice == "test"]
    (gain,) = [c for c in named if c.system == "graph"]
    assert gain.rival == "bm25" and gain.low is not None and gain.low > 0
