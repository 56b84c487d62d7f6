from __future__ import annotations

import pytest
from catalog_files import fault
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from toolsavvy.catalogs import toy


def test_it_is_seeded_and_complete():
    one, again, other = toy.load(), toy.load(), toy.load(seed=1)
    assert one.catalog.fingerprint == again.catalog.fingerprint != other.catalog.fingerprint
    assert one.splits == again.splits
    assert set(one.splits) == {"train", "validation", "test_seen", "test_unseen"}
    assert len(one.catalog) == 24
    assert sum(map(len, one.splits.values())) == 240
    assert one.audit["duplicate_documents"] == 0
    assert not any(one.audit["train_overlap"].values())
    assert {q.subset for q in one.train} == {"short", "verbose"}


@pytest.mark.parametrize("tools", [1, 2, 192])
def test_sizes(tools):
    data = toy.load(tools=tools)
    assert len(data.catalog) == tools
    assert len(data.train) > 0


def test_its_queries_are_learnable():
    data = toy.load(taught_share=1.0, queries_per_tool=20)
    label = lambda rows: [next(iter(q.relevant)) for q in rows]  # noqa: E731
    words = TfidfVectorizer(ngram_range=(1, 2))
    model = LogisticRegression(C=100.0).fit(words.fit_transform([q.text for q in data.train]), label(data.train))
    test = data.splits["test_seen"]
    assert model.score(words.transform([q.text for q in test]), label(test)) > 0.8


def test_numbers_out_of_range():
    fault(lambda: toy.load(tools=193), what="193", where="catalog.tools", expected="1 to 192")
    fault(lambda: toy.load(queries_per_tool=0), what="0", where="catalog.queries_per_tool", expected="1 to 50")
