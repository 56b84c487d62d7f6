from __future__ import annotations

from toolsavvy.catalog import Catalog, Tool
from toolsavvy.config.compose import compose, typed
from toolsavvy.generators.toolsense.halves import FEWEST, apart, trained_half
from toolsavvy.generators.toolsense.rrb import template_rrb, training_requests
from toolsavvy.methods.benchmarks import training_needs, with_benchmarks
from world import toy_set


def catalog_of(n: int) -> Catalog:
    return Catalog("c", tuple(Tool(f"t{i}", f"tool_{i}", f"Does {i}.") for i in range(n)))


def test_halves_follow_from_ids_alone_and_are_about_even() -> None:
    whole, part = catalog_of(400), catalog_of(100)
    assert trained_half(part) == {t.id for t in part.tools} & trained_half(whole)
    assert 160 < len(trained_half(whole)) < 240


def test_a_handful_of_tools_is_not_halved() -> None:
    assert trained_half(catalog_of(FEWEST - 1)) == frozenset()


def test_rows_of_anchors_are_left_out() -> None:
    assert apart(catalog_of(3), [(0, "a"), (1, "b"), (2, "c")], {"t1"}) == [(0, "a"), (2, "c")]


def test_no_request_that_is_trained_on_is_of_a_tool_that_the_suite_asks_for_first() -> None:
    cfg = typed(compose(["method=toolgen", "catalog=toy", "model=toy", "encoder=toy", "suite=[rrb]"]).config)
    data = with_benchmarks(cfg, toy_set(60))
    anchors = {next(iter(query.relevant)) for query in data.splits["rrb"]}
    needs = training_needs(data, seed=0)
    assert anchors
    assert needs
    assert anchors.isdisjoint({data.catalog.tools[tool].id for tool, _ in needs})
    assert anchors.isdisjoint(trained_half(data.catalog))
    everything = training_requests(data.catalog, 0)
    assert {tool for tool, _ in needs} < {tool for tool, _ in everything}


def test_a_benchmark_that_anchors_every_tool_leaves_nothing_to_train_on() -> None:
    data = toy_set(12)
    items = template_rrb(data, 12)
    assert not apart(data.catalog, training_requests(data.catalog), {t.id for t in data.catalog.tools})
    assert {item.anchor for item in items} <= {t.id for t in data.catalog.tools}
