from __future__ import annotations

import logging
import random
from collections import Counter

import pytest

from toolsavvy.catalog import Catalog, Tool
from toolsavvy.errors import UserError
from toolsavvy.generators.toolsense.tools import draw_tools, sample_tools, services


def catalog(*sizes: int, field: str = "group") -> Catalog:
    tools = [Tool(f"{s}-{i}", "name", **{field: f"service {s}"}) for s, size in enumerate(sizes) for i in range(size)]
    return Catalog("sizes", tuple(tools))


def per_service(tools: Catalog, drawn) -> Counter[str]:
    labels = services(tools)
    return Counter(labels[i] for i in drawn)


@pytest.mark.parametrize("seed", range(30))
def test_counts_add_up_and_no_service_exceeds_its_cap_or_its_share(seed):
    rng = random.Random(seed)
    tools = catalog(*[rng.randint(1, 40) for _ in range(rng.randint(2, 30))])
    n = rng.randint(1, len(tools) + 5)
    cap = rng.choice([None, 1, 3, 10])
    drawn = draw_tools(tools, n, cap=cap, seed=seed)
    assert len(drawn.tools) == len(set(drawn.tools)) == min(n, len(tools))
    counts = per_service(tools, drawn.tools)
    assert max(counts.values()) <= drawn.cap
    assert drawn.services == len(counts)
    sizes = Counter(services(tools))
    if drawn.is_raised:  # by as little as is needed
        assert sum(min(size, drawn.cap - 1) for size in sizes.values()) < min(n, len(tools))
    rates = {name: size * min(n, len(tools)) / len(tools) for name, size in sizes.items()}
    if all(rate <= drawn.cap for rate in rates.values()):  # in proportion, rounded down or up
        assert all(abs(counts[name] - rate) < 1 for name, rate in rates.items())


def test_a_big_service_is_cut_to_the_cap_and_the_rest_goes_to_the_others():
    tools = catalog(900, 30, 30, 40)
    drawn = draw_tools(tools, 40, cap=10)
    assert (drawn.cap, drawn.is_raised) == (10, False)
    assert sorted(per_service(tools, drawn.tools).values()) == [10, 10, 10, 10]
    many = catalog(900, *[10] * 50)
    assert max(per_service(many, draw_tools(many, 100).tools).values()) == 5  # 5 % unless told


def test_small_services_are_touched_as_often_as_their_size_says():
    tools = catalog(*[1] * 50, *[3] * 50)
    counts = Counter()
    for seed in range(200):
        counts.update(services(tools)[i] for i in draw_tools(tools, 20, seed=seed).tools)
    small = sum(count for name, count in counts.items() if int(name.split()[1]) < 50)
    assert 0.2 < small / sum(counts.values()) < 0.3  # 50 of 200 tools
    assert len(counts) == 100


def test_a_cap_that_cannot_be_kept_is_raised_and_said(caplog):
    tools = catalog(100, 2, 2)
    drawn = draw_tools(tools, 20, cap=3)
    assert (drawn.cap, drawn.is_raised) == (16, True)
    with caplog.at_level(logging.WARNING):
        assert sample_tools(tools, 20, cap=3) == list(drawn.tools)
    assert "up to 16 tools" in caplog.text


def test_category_stands_in_for_groups_and_without_both_there_is_no_cap():
    by_category = draw_tools(catalog(50, 50, field="category"), 10, cap=5)
    assert (by_category.cap, by_category.is_raised) == (5, False)
    plain = Catalog("plain", tuple(Tool(f"t{i}", "n") for i in range(50)))
    drawn = draw_tools(plain, 10, cap=1)
    assert (len(drawn.tools), drawn.cap, drawn.is_raised) == (10, None, False)


def test_the_seed_decides_and_it_is_never_the_beginning():
    tools = catalog(*[20] * 10)
    assert draw_tools(tools, 30, seed=1) == draw_tools(tools, 30, seed=1)
    assert draw_tools(tools, 30, seed=1).tools != draw_tools(tools, 30, seed=2).tools
    assert all(max(draw_tools(tools, 30, seed=s).tools) > 150 for s in range(5))
    assert list(draw_tools(tools, 200).tools) != list(range(200))


def test_only_what_is_offered_is_drawn():
    tools = catalog(20, 20)
    assert set(draw_tools(tools, 9, among=[3, 5, 25, 25]).tools) == {3, 5, 25}


@pytest.mark.parametrize(("values", "where"), [({"n": 0}, "generator.n"), ({"n": 3, "cap": 0}, "generator.cap")])
def test_too_small_numbers(values, where):
    with pytest.raises(UserError, match=where) as caught:
        draw_tools(catalog(3, 3), **values)
    assert "from 1" in caught.value.expected


def test_nothing_to_draw_from():
    with pytest.raises(UserError, match="no tool to draw from"):
        draw_tools(catalog(3, 3), 2, among=[])
