"""The simulated catalog: distinct, seeded, a beginning of its larger self, and never minutes in the making."""

from __future__ import annotations

import sys
import time

import pytest
from catalog_files import fault

from toolsavvy.catalogs import simulated


def test_it_is_seeded_distinct_and_labelled():
    one, again, other = (simulated.load(tools=3000, seed=seed) for seed in (0, 0, 1))
    assert one.catalog.fingerprint == again.catalog.fingerprint != other.catalog.fingerprint
    assert one.splits == again.splits
    assert all(tool.id.startswith("simulated:") for tool in one.catalog.tools)
    audit = one.audit
    assert [audit[k] for k in ("tools", "id_collisions", "duplicate_documents", "empty_documents")] == [3000, 0, 0, 0]
    assert audit["markup_in_tools"] == 0 and not any(audit["train_overlap"].values())
    assert not any(audit["duplicate_query_texts"].values())
    assert set(one.splits) == {"train", "validation", "test_seen", "test_unseen"}


def test_a_smaller_catalog_is_the_beginning_of_a_larger_one():
    small, large = simulated.load(tools=1010), simulated.load(tools=4000)
    assert small.catalog.tools == large.catalog.tools[:1010]
    assert small.splits == large.splits, "the same queries: a larger catalog only adds rivals"
    tiny = simulated.load(tools=7, queried_tools=5)
    assert len(tiny.catalog) == 7
    assert {tool for rows in tiny.splits.values() for q in rows for tool in q.relevant} <= set(tiny.catalog.index)


def test_texts_are_of_tools_and_lengths_vary():
    data = simulated.load(tools=2000)
    words = [len(document.split()) for document in data.catalog.documents]
    assert 15 < sum(words) / len(words) < 60
    assert min(words) * 2 < max(words)
    for query in data.splits["test_unseen"][:50]:
        (gold,) = query.relevant
        tool = data.catalog.tools[data.catalog.index[gold]]
        assert tool.group in query.text, "the provider tells namesakes apart"
    assert {q.subset for q in data.train} == {"own_words", "other_words"}


def test_providers_are_never_named_alike():
    names = {simulated._provider(number, 3)[0] for number in range(0, 200_000, 97)}
    assert len(names) == len(range(0, 200_000, 97))


def test_ten_thousand_tools_take_seconds_and_little_memory():
    start = time.process_time()
    tools = list(simulated.simulate(10_000))
    assert time.process_time() - start < 3
    assert len({tool.id for tool in tools}) == 10_000
    schemas = {id(tool.parameters): tool.parameters for tool in tools}
    assert len(schemas) < 7_000, "equal schemas are one object"
    each = [sys.getsizeof(t.id) + sys.getsizeof(t.name) + sys.getsizeof(t.description) for t in tools]
    assert sum(each) / len(each) < 600


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [("tools", 0, "1 to 10000000"), ("tools", True, "1 to"), ("queried_tools", 2000, "1 to 1000"),
     ("queries_per_tool", 25, "1 to 24")],
)  # fmt: skip
def test_numbers_that_are_out_of_range(key, value, expected):
    fault(lambda: simulated.load(**{key: value}), what=str(value), where=f"catalog.{key}", expected=expected)
