from __future__ import annotations

from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from set_world import query, source, tool

from toolsavvy.generators.leakage import audit_leakage
from toolsavvy.generators.statistics import draw, spread, statistics

TOOLS = [tool("1", "mail_reader", "Reads the mail of a box"), tool("2", "pay", "Pays a bill"), tool("3", "x", "Nobody")]
LONG = "one two three four five six seven eight nine ten"
DATA = source(
    "s",
    TOOLS,
    {
        "train": [
            query("a", "read the mail", "1", subset="m", instruction="Find tools for mail."),
            query("b", LONG, "1", "2", subset="m"),
        ],
        "validation": [query("c", "pay it now", "2", subset="p")],
        "test": [
            query("d", "Read  the mail", "1", subset="m", instruction="find tools for  mail."),
            query("e", f"{LONG} eleven", "1", "2", subset="m"),
            query("f", "…", "3", subset="p"),
            query("g", "zero one two three four five six seven eight", "2", subset="p"),
        ],
    },
)


def test_lengths_golds_and_overlap_of_a_set_by_hand() -> None:
    found = statistics(DATA)
    assert found.values["query_tokens"] == (3, 10, 3, 3, 11, 0, 9)
    assert found.values["instruction_tokens"] == (4, 4)
    assert found.values["document_tokens"] == (8, 4, 2)  # "mail reader. Reads the mail of a box"
    assert found.values["gold_document_tokens"] == (8, 4, 2)
    assert found.values["golds_per_query"] == (1, 2, 1, 1, 2, 1, 1)
    # "read the mail": LCS with the document is "the mail", 2 x 2 / (3 + 8)
    assert found.values["query_gold_rouge_l"][0] == pytest.approx(4 / 11)
    assert len(found.values["query_gold_rouge_l"]) == 9  # one a (query, gold) pair
    assert found.values["instruction_gold_rouge_l"][0] == pytest.approx(2 / 12)
    assert found.values["instruction_query_rouge_l"][0] == pytest.approx(2 / 7)
    told = found.as_json()
    assert told["golds_per_query"] == {"1": 5, "2": 2}
    assert (told["queries"], told["sources"]) == ({"train": 2, "validation": 1, "test": 4}, {"m": 4, "p": 3})
    assert (told["tools"], told["gold_tools"]) == (3, 3)
    assert told["spreads"]["query_tokens"]["largest"] == 11
    assert "rouge-score" in told["tokenisation"]


def test_a_spread_is_numpys() -> None:
    values = [3.0, 1.0, 4.0, 1.0, 5.0]
    found = spread(values)
    assert (found.n, found.mean, found.median) == (5, pytest.approx(np.mean(values)), np.median(values))
    assert (found.smallest, found.largest) == (1, 5)
    assert (found.low, found.high) == (pytest.approx(1.0), pytest.approx(4.8))


def test_a_set_without_instructions_has_no_figures_and_numbers_of_them(tmp_path: Path) -> None:
    bare = source("s", TOOLS, {"test": [query("a", "x y", "1")]})
    found = statistics(bare)
    assert "instruction_tokens" not in found.spreads
    assert [p.name for p in draw(found, tmp_path)] == ["lengths.png", "golds.png", "overlap.png"]


def test_figures_are_pictures(tmp_path: Path) -> None:
    for path in draw(statistics(DATA), tmp_path / "figures"):
        picture = matplotlib.image.imread(path)
        assert picture.shape[0] > 200
        assert picture.std() > 0.05
    assert sorted(p.name for p in (tmp_path / "figures").iterdir()) == ["golds.png", "lengths.png", "overlap.png"]


def test_what_test_shares_with_train_by_hand() -> None:
    train, validation = audit_leakage(DATA, threshold=0.8, n=8)
    assert (train.test, train.train, train.queries) == ("test", "train", 4)
    assert (train.exact, train.near) == (1, 2)  # d; e (20/21) and g (16/19)
    assert train.instructions == 1
    assert (train.gold_tools, train.shared_tools) == (3, 2)
    assert (train.taught_queries, train.same_golds) == (3, 2)  # d, e, g; the golds {1} and {1, 2}
    # n-grams of 8: e has 4, train knows 3 of them; g has 2, train knows 1; d and f have none
    assert train.ngram_queries == 2
    assert train.ngram_share == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert train.nearest == pytest.approx((1 + 20 / 21 + 0 + 16 / 19) / 4, abs=1e-4)
    assert [(p.test, p.train) for p in train.pairs] == [("d", "a"), ("e", "b"), ("g", "b")]
    assert (validation.exact, validation.near, validation.shared_tools, validation.same_golds) == (0, 0, 1, 1)


def test_a_set_without_training_queries_has_nothing_to_leak() -> None:
    assert audit_leakage(source("s", TOOLS, {"test": [query("a", "x", "1")]})) == []
