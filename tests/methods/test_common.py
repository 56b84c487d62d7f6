from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toolsavvy.catalog import Catalog
from toolsavvy.errors import UserError
from toolsavvy.methods import common
from toolsavvy.retrieval.encoders import Encoder
from toolsavvy.suites.catalog_test import Prediction
from toolsavvy.suites.table import Outcome
from world import toy_set


class Vectors(Encoder):
    """An encoder whose vectors are given."""

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors = vectors.astype(np.float32)

    def encode_documents(self, documents: Any) -> np.ndarray:
        return self.vectors


def near(monkeypatch: pytest.MonkeyPatch, catalog: Catalog, vectors: np.ndarray, n: int) -> np.ndarray:
    monkeypatch.setattr(common, "build", lambda node: Vectors(vectors))
    config: Any = type("Cfg", (), {"encoder": {}})
    return common.neighbours(config, catalog, n)


@pytest.mark.parametrize("n", [1, 3, 50])
def test_neighbours_are_the_nearest_others(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = toy_set(9).catalog
    vectors = np.random.default_rng(0).normal(size=(9, 4))
    found = near(monkeypatch, catalog, vectors, n)
    assert found.shape == (9, min(n, 8))
    for tool, row in enumerate(found.tolist()):
        others = sorted((i for i in range(9) if i != tool), key=lambda i: -float(vectors[tool] @ vectors[i]))
        assert row == others[: len(row)]


def test_a_tool_is_not_its_own_neighbour_even_among_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    found = near(monkeypatch, toy_set(5).catalog, np.ones((5, 3)), 4)
    assert [sorted(row) for row in found.tolist()] == [[i for i in range(5) if i != t] for t in range(5)]


def test_answers_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    prediction = Prediction(
        "s", "sys[bold]", "test", "", "", "q1", "ask [red]:car:", ("a:car:b",), ("[/x]", None), (1.0, 0.0)
    )
    other = Prediction("s", "sys[bold]", "test", "", "", "q2", "not shown", ("a",), ("a",), (1.0,))
    common.show_answers([Outcome("s", (), (), {"sys[bold]": (prediction, other)})], 1)
    shown = capsys.readouterr().out
    assert "test 'ask [red]:car:' gold: a:car:b" in shown
    assert "sys[bold]" in shown
    assert "[/x], None" in shown
    assert "not shown" not in shown


def test_a_catalog_that_changed_since_the_run_was_cut_off_is_refused(tmp_path: Path) -> None:
    stamp, before = tmp_path / "catalog.sha256", toy_set(9)
    common._refuse_changed(stamp, before)
    common._refuse_changed(stamp, before)
    kept = stamp.read_text(encoding="utf-8")
    reworded = replace(before.splits["test_seen"][0], text="something else")
    queries = {**before.splits, "test_seen": (reworded, *before.splits["test_seen"][1:])}
    for after in (toy_set(10), replace(before, splits=queries)):
        with pytest.raises(UserError) as error:
            common._refuse_changed(stamp, after)
        assert after.catalog.name in error.value.where
        assert kept[:12] in error.value.expected
        assert error.value.fix
        assert stamp.read_text(encoding="utf-8") == kept


def test_wrong_and_missing_tools_of_the_rows_tell_one_set_from_another() -> None:
    data = toy_set(8)
    first = data.train[0]
    others = [replace(first, negatives=("toy:x",)), replace(first, absent={"toy:y": 1})]
    sets = [data, *(replace(data, splits={**data.splits, "train": (q, *data.train[1:])}) for q in others)]
    assert len({common._fingerprint(one) for one in sets}) == 3


def test_systems_within_systems_get_the_validation_queries_too() -> None:
    from toolsavvy.config.compose import compose, typed

    systems = "retriever=[dense,fusion,graph,rerank]"
    asked = ["method=evaluate", "catalog=toy", "encoder=toy", "reranker=toy", systems]
    stages = ["retriever.rerank.first=${retriever.graph}", "retriever.graph.first=${retriever.fusion}"]
    config, data = typed(compose([*asked, *stages]).config), toy_set(9)
    queries = data.splits["test_seen"]
    data = replace(data, splits={**data.splits, "validation": queries})
    parts = list(common.with_parts(common.make_retrievers(config, data)["rerank"]))
    assert [type(part).__name__ for part in parts] == ["Rerank", "Graph", "Fusion", "BM25", "Dense"]
    learners: Any = [part for part in parts if hasattr(part, "validation")]
    assert len(learners) == 2 and all(part.validation == queries for part in learners)
